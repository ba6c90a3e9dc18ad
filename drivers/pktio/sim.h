/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ports joined by a bad cable in memory: a seed decides which frames are dropped, duplicated,
 * delayed so that later ones overtake them, and damaged. For tests that run the real worker loop;
 * tests that need one virtual clock have the kit's link (test/kit).
 *
 * An end may have several queues, like a NIC with receive-side scaling: a flow rule or the hash
 * chooses the queue of a RoCEv2 frame, and all other frames go to queue 0. Each sending queue has a
 * fixed number of frames, including those lent for writing or reading. If all are in use, tx_lend
 * returns 0 until the peer has released some. A queue that is full or whose worker goes to sleep
 * (wake_arm) first delivers its delayed frames, so that no frame needs a clock.
 *
 * Threads: each queue belongs to one worker, and a worker may have any queues. Data that queues
 * share is under locks, which a test can afford.
 */
#ifndef UROCE_PKTIO_SIM_H
#define UROCE_PKTIO_SIM_H

#include "pktio.h"

#define SIM_SLOTS      256  /* frames of a sending queue, unless the configuration says otherwise */
#define SIM_SLOTS_MAX  4096 /* at most */
#define SIM_ROOM       4352 /* bytes of a frame: path MTU 4096 and every header */
#define SIM_MTU        (SIM_ROOM - 14 - 4)
#define SIM_QUEUES_MAX 16
#define SIM_FLOWS_MAX  1024
#define SIM_TABLE      128 /* entries of an indirection table, by default */

struct pktio_sim_config {
    uint64_t seed; /* of all random choices; each sending queue draws its own numbers */
    uint8_t mac[2][6];
    unsigned slots; /* frames that a sending queue holds, at most SIM_SLOTS_MAX; 0: SIM_SLOTS */
    /* Chances in 1/1000, in both directions; at most 1000 together. */
    unsigned drop, duplicate, reorder, corrupt;
    unsigned queues[2];     /* of each end, at most SIM_QUEUES_MAX; 0: one */
    const uint8_t *rss_key; /* TOEPLITZ_KEY_LEN bytes; NULL: Microsoft's */
    unsigned rss_fields;    /* 0: RSS_ALL */
    uint32_t rss_table;     /* entries, a power of two, not fewer than queues; 0: SIM_TABLE */
    bool rss_secret;        /* it spreads frames, but the rss call returns -ENOTSUP */
    unsigned flows;         /* flow rules that an end has room for, at most SIM_FLOWS_MAX */
};

/* Counters of the frames that a queue sent; single writer, the sending queue's worker. */
struct pktio_sim_stats {
    counter_t sent; /* by the worker to the other end; the following are among them */
    counter_t dropped, duplicated, reordered, corrupted;
    counter_t full; /* calls of tx_lend that returned 0 */
};

/*
 * Creates both ends. Each is closed by its own ops->close; the second close frees the memory that
 * they share. Frames to an end that no worker reads stay in its queues until all slots are in use.
 * 0; -EINVAL: chances above 1000, too many slots, queues or rules, a bad table; -ENOMEM; or another
 * negative errno if eventfd fails.
 */
int pktio_sim_pair(struct pktio *end[2], const struct pktio_sim_config *config);

/* The counters of queue 0, or of any queue, of an end. Any thread, while the end is open. */
const struct pktio_sim_stats *pktio_sim_stats(struct pktio *end);
const struct pktio_sim_stats *pktio_sim_queue_stats(struct pktio *end, unsigned queue);

/* How many frames have arrived at a queue from the other end; how many flow rules an end has. Any
 * thread, while the end is open. */
uint64_t pktio_sim_arrived(struct pktio *end, unsigned queue);
unsigned pktio_sim_flows(struct pktio *end);

/* From now on the rss call of both ends returns -ENOTSUP. Control thread. */
void pktio_sim_keep_rss_secret(struct pktio *end);

#endif
