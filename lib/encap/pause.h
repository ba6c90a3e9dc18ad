/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames: MAC control frames of IEEE 802.3, annex 31B (of the whole link) and 31D (by
 * priority: PFC). Pure; any thread. */
#ifndef UROCE_PAUSE_H
#define UROCE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/* A quantum is the time of this many bits. */
#define PAUSE_QUANTUM_BITS 512

/* For how long from now on; 0: not any longer. */
struct pause {
    bool by_priority;
    uint8_t priorities; /* bits: those that are named; not by priority: 0 */
    uint16_t quanta[8]; /* by priority, of those; not by priority: the first one */
};

/* Whether a frame of any length asks the port with this MAC to pause: sent to the port or to the
 * MAC control group, without a tag. */
bool pause_parse(struct pause *p, const uint8_t *frame, uint32_t len, const uint8_t mac[6]);

#endif
