/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More queues than a port has: receive-side scaling in software. The worker of queue 0 owns the
 * port below. What it receives there it spreads as a NIC would (Toeplitz over addresses and UDP
 * ports, Microsoft's key, a table in which the queues take turns): its own frames it keeps, the
 * others it copies into rings, out of which the other queues lend them. What those send goes over
 * rings the other way, and on by the port below when the worker of queue 0 looks at it next. So
 * this is for ports whose own part of the work is small beside that of the queue pairs.
 *
 * RoCEv2 only is spread; everything else is queue 0's. A full ring is as a full port: receiving,
 * the frame is dropped and counted (rx_overflow); sending, nothing is lent.
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
 * Takes io over, with all its queues: from then on it is used, and closed, through what is
 * returned. NULL: error (size bytes) says why, and io is still the caller's. Control thread.
 */
struct pktio *pktio_spread_open(struct pktio *io, const struct pktio_spread_config *config,
                                char *error, size_t size);

#endif
