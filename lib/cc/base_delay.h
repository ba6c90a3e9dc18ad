/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The round trip of a path without queues: the shortest one so far. A path may become a longer one.
 * All its round trips are too long then, and the sender slows down as far as it may, in vain: at
 * that rate the queue is not its own. What is the shortest for so long a time is the path.
 */
#ifndef UROCE_BASE_DELAY_H
#define UROCE_BASE_DELAY_H

#include "common.h"

#define BASE_DELAY_DOUBTED (10 * NS_PER_SEC)

struct base_delay {
    ns_t shortest;      /* 0: none so far */
    ns_t since, lately; /* 0, or the start of that time, and its shortest round trip */
};

static inline void base_delay_note(struct base_delay *b, ns_t delay)
{
    if (!b->shortest || delay < b->shortest)
        b->shortest = delay;
}

/* A round trip was not too long. */
static inline void base_delay_holds(struct base_delay *b)
{
    b->since = 0;
}

/* A round trip was too long. slowest: the sender cannot slow down. */
static inline void base_delay_doubt(struct base_delay *b, ns_t delay, bool slowest, ns_t now)
{
    if (!slowest) {
        b->since = 0;
        return;
    }
    if (!b->since) {
        b->since = now;
        b->lately = delay;
    }
    b->lately = min_of(b->lately, delay);
    if (now - b->since < BASE_DELAY_DOUBTED)
        return;
    b->shortest = b->lately;
    b->since = 0;
}

#endif
