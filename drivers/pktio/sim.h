/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ports joined by a bad cable in memory: frames are dropped, doubled, held back so that later
 * ones overtake them, and damaged, as a seed says. For tests that run the real worker loop; tests
 * that want one virtual clock have the kit's link (test/kit).
 *
 * An end may have several queues, as a NIC with receive-side scaling: RoCEv2 frames go to the one
 * that their hash says, or a flow rule, and all others to queue 0. Each queue of a direction holds
 * a fixed number of frames that it sent, those lent for sending or reading included. When none is
 * left tx_lend returns 0 until the peer has released some. A port that is full or goes to sleep
 * (wake_arm) first lets go of what it held back, so no frame needs a clock.
 *
 * Threads: each queue belongs to one worker; one may have any of them. What queues share is under
 * locks, which a test can afford.
 */
#ifndef UROCE_PKTIO_SIM_H
#define UROCE_PKTIO_SIM_H

#include "pktio.h"

#define SIM_SLOTS      256  /* frames of a direction, unless the configuration says otherwise */
#define SIM_SLOTS_MAX  4096 /* at most */
#define SIM_ROOM       4352 /* bytes of a frame: path MTU 4096 and every header */
#define SIM_MTU        (SIM_ROOM - 14 - 4)
#define SIM_QUEUES_MAX 16
#define SIM_FLOWS_MAX  1024
#define SIM_TABLE      128 /* entries of an indirection table, unless the configuration says else */

struct pktio_sim_config {
    uint64_t seed; /* decides all chances; each sending queue draws its own numbers */
    uint8_t mac[2][6];
    unsigned slots; /* frames that a sending queue holds, at most SIM_SLOTS_MAX; 0: SIM_SLOTS */
    /* Chances in 1/1000 of what becomes of a frame, in both directions; 1000 together at most. */
    unsigned drop, duplicate, reorder, corrupt;
    unsigned queues[2];     /* of each end, at most SIM_QUEUES_MAX; 0: one */
    const uint8_t *rss_key; /* TOEPLITZ_KEY_LEN bytes; NULL: Microsoft's */
    unsigned rss_fields;    /* 0: RSS_ALL */
    uint32_t rss_table;     /* entries, a power of two, not fewer than queues; 0: SIM_TABLE */
    bool rss_secret;        /* it spreads frames, but the rss call says -ENOTSUP */
    unsigned flows;         /* flow rules that an end has room for, at most SIM_FLOWS_MAX */
};

/* What became of the frames that a queue sent; single writer, the sending queue's worker. */
struct pktio_sim_stats {
    counter_t sent; /* by the worker to the other end; the following are among them */
    counter_t dropped, duplicated, reordered, corrupted;
    counter_t full; /* calls of tx_lend that returned 0 */
};

/*
 * Makes both ends. Each is closed by its own ops->close; what they share goes with the second. What
 * is sent to an end that nobody reads stays, until the direction is full.
 * 0; -EINVAL: chances above 1000, too many slots, queues or rules, a bad table; -ENOMEM; or another
 * negative errno when there is no descriptor to wake with.
 */
int pktio_sim_pair(struct pktio *end[2], const struct pktio_sim_config *config);

/* Of queue 0 of an end made by pktio_sim_pair, or of any. Any thread, while the end is open. */
const struct pktio_sim_stats *pktio_sim_stats(struct pktio *end);
const struct pktio_sim_stats *pktio_sim_queue_stats(struct pktio *end, unsigned queue);

/* Frames that have arrived at a queue from the other end, and the flow rules of an end now. Any
 * thread, likewise. */
uint64_t pktio_sim_arrived(struct pktio *end, unsigned queue);
unsigned pktio_sim_flows(struct pktio *end);

/* From now on the rss call of both ends says -ENOTSUP. Control thread. */
void pktio_sim_keep_rss_secret(struct pktio *end);

#endif
