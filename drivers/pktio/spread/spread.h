/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More queues than a port has: receive-side scaling in software. The worker of queue 0 owns the
 * port below. It spreads the frames that it receives there like a NIC (Toeplitz over addresses and
 * UDP ports, Microsoft's key, a table in which the queues alternate): it keeps the frames of queue
 * 0, and copies the others into rings, from which the other queues lend them. Frames that the other
 * queues send go through rings in the other direction, and the worker of queue 0 sends them by the
 * port below when it polls next. This suits ports whose share of the work is small compared with
 * that of the queue pairs.
 *
 * Only RoCEv2 frames are spread; all others go to queue 0. A full ring behaves like a full port: a
 * received frame is dropped and counted (rx_overflow), and no frame is lent for sending.
 */
#ifndef UROCE_PKTIO_SPREAD_H
#define UROCE_PKTIO_SPREAD_H

#include "pktio.h"

#define SPREAD_QUEUES_MAX 64
#define SPREAD_SLOTS      512 /* frames of a ring, unless the configuration says otherwise */
#define SPREAD_SLOTS_MAX  32768
#define SPREAD_TABLE      128 /* entries of the indirection table */
#define SPREAD_FLOWS_MAX  4096

struct pktio_spread_config {
    unsigned queues; /* from 1 to SPREAD_QUEUES_MAX */
    unsigned slots;  /* of each ring, at most SPREAD_SLOTS_MAX; 0: SPREAD_SLOTS */
};

/*
 * Takes over io with all its queues: the caller then uses and closes it through the returned port.
 * NULL: error (size bytes) says why, and the caller keeps io. Control thread.
 */
struct pktio *pktio_spread_open(struct pktio *io, const struct pktio_spread_config *config,
                                char *error, size_t size);

#endif
