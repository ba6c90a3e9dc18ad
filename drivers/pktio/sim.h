/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ports joined by a bad cable in memory: frames are dropped, doubled, held back so that later
 * ones overtake them, and damaged, as a seed says. For tests that run the real worker loop; tests
 * that want one virtual clock have the kit's link (test/kit).
 *
 * Each direction holds a fixed number of frames, those lent for sending or reading included. When
 * none is left tx_lend returns 0 until the peer has released some. A port that is full or goes to
 * sleep (wake_arm) first lets go of what it held back, so no frame needs a clock.
 *
 * Threads: each end has one queue, 0, which belongs to one worker; both ends may have the same one.
 */
#ifndef UROCE_PKTIO_SIM_H
#define UROCE_PKTIO_SIM_H

#include "pktio.h"

#define SIM_SLOTS     256  /* frames of a direction, unless the configuration says otherwise */
#define SIM_SLOTS_MAX 4096 /* at most */
#define SIM_ROOM      4352 /* bytes of a frame: path MTU 4096 and every header */
#define SIM_MTU       (SIM_ROOM - 14 - 4)

struct pktio_sim_config {
    uint64_t seed; /* decides all chances; each direction draws its own numbers */
    uint8_t mac[2][6];
    unsigned slots; /* frames that a direction holds, at most SIM_SLOTS_MAX; 0: SIM_SLOTS */
    /* Chances in 1/1000 of what becomes of a frame, in both directions; 1000 together at most. */
    unsigned drop, duplicate, reorder, corrupt;
};

/* What became of the frames that one end sent; single writer, the sending end's worker. */
struct pktio_sim_stats {
    counter_t sent; /* by the worker to the other end; the following are among them */
    counter_t dropped, duplicated, reordered, corrupted;
    counter_t full; /* calls of tx_lend that returned 0 */
};

/*
 * Makes both ends. Each is closed by its own ops->close; what they share goes with the second. What
 * is sent to an end that nobody reads stays, until the direction is full.
 * 0; -EINVAL: chances above 1000, too many slots; -ENOMEM; or another negative errno when there is
 * no descriptor to wake with.
 */
int pktio_sim_pair(struct pktio *end[2], const struct pktio_sim_config *config);

/* Of an end made by pktio_sim_pair. Any thread, while the end is open. */
const struct pktio_sim_stats *pktio_sim_stats(struct pktio *end);

#endif
