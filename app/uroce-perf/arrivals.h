/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When messages are due in an open loop: at a rate, whatever becomes of the earlier ones. A message
 * that finds no room waits, and those behind it do: its latency counts from when it was due, so
 * that no wait is left out.
 */
#ifndef UROCE_PERF_ARRIVALS_H
#define UROCE_PERF_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "random.h"

struct arrivals {
    struct random random;
    double gap;  /* ticks between two, on average */
    double next; /* ticks since start */
    uint64_t start;
    unsigned turn;     /* of the senders */
    const float *gaps; /* those of a Poisson process; NULL: all are alike */
};

/* Fills the table of gaps: before the threads start that use it. */
void arrivals_prepare(void);

/* The first message is due one gap after `now`. per_tick: messages, more than 0. */
void arrivals_start(struct arrivals *a, uint64_t now, double per_tick, bool even, uint64_t seed);

/* When the next message is due. */
static inline uint64_t arrivals_due(const struct arrivals *a)
{
    return a->start + (uint64_t)a->next;
}

/* Goes on to the message after it. */
void arrivals_pass(struct arrivals *a);

/* What became of a message that a sender was to post. */
enum posted { POSTED, NO_ROOM, NO_MORE };

#define ARRIVALS_BURST 128 /* messages that are posted in one turn of a thread */

/* Posts the messages that are due by `now`; the senders, from 0, take turns. One that has no more
 * is passed over; a message without room delays those behind it. */
void arrivals_post(struct arrivals *a, uint64_t now, unsigned senders,
                   enum posted (*post)(void *ctx, unsigned sender, uint64_t due), void *ctx);

#endif
