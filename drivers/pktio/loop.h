/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that is its own peer: a frame that is sent on a queue is received on it, without a copy.
 */
#ifndef UROCE_PKTIO_LOOP_H
#define UROCE_PKTIO_LOOP_H

#include "pktio.h"

#define LOOP_SLOTS 1024 /* frames that a queue holds */
#define LOOP_ROOM  4352 /* bytes of a frame: path MTU 4096 and every header */
#define LOOP_MTU   (LOOP_ROOM - 14 - 4)
#define LOOP_SPEED 100000 /* Mb/s: its order of magnitude, by which programs choose devices */

/* Each queue serves one worker; frames never cross to another queue. */
struct pktio_loop_config {
    const char *name; /* at most 63 characters */
    uint8_t mac[6];
    unsigned queues;
    bool omit_icrc;     /* lent frames may omit the ICRC (struct frame) */
    const char *netdev; /* kernel interface whose addresses the port has, or NULL */
    uint32_t ifindex;
};

/* Creates a loop port; ops->close frees it. NULL: out of memory or no queues. */
struct pktio *pktio_loop_create(const struct pktio_loop_config *config);

#endif
