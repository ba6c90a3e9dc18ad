/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rate for what several threads send. Bursts are what it gives in CC_BURST, and one frame: what
 * was not sent before is not made up for. Times are in sixteenths of a ns, so that what rounding
 * loses in a burst of short frames is not seen.
 */
#ifndef UROCE_PACE_H
#define UROCE_PACE_H

#include <stdatomic.h>

#include "cc.h"

#define PACE_FRACTION 16

/* Zeroed but for the rate: nothing was sent yet. */
struct pace {
    uint64_t rate;         /* bits per second */
    _Atomic uint64_t next; /* nothing is sent before: all threads move it on */
};

/* Nothing is sent before that time. */
static inline ns_t pace_next(const struct pace *p)
{
    return atomic_load_explicit(&p->next, memory_order_relaxed) / PACE_FRACTION;
}

/* What was not sent before that time is forgotten. */
static inline ns_t pace_forgotten(ns_t now)
{
    return now > CC_BURST ? now - CC_BURST : 0;
}

static inline void pace_charge(struct pace *p, uint64_t bytes, ns_t now)
{
    uint64_t cost = bytes * 8 * NS_PER_SEC * PACE_FRACTION / p->rate + 1;
    uint64_t next = atomic_load_explicit(&p->next, memory_order_relaxed), since;

    do
        since = max_of(next, pace_forgotten(now) * PACE_FRACTION);
    while (!atomic_compare_exchange_weak(&p->next, &next, since + cost));
}

#endif
