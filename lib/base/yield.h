/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often a polling thread, of an application or a worker, yields its processor: after every
 * empty poll, or, while yields return so soon that no other thread can have run, after a growing
 * number of empty polls.
 */
#ifndef UROCE_YIELD_H
#define UROCE_YIELD_H

#include "common.h"

#define YIELD_QUICK_NS NS_PER_US         /* the longest yield to no other thread */
#define YIELD_LONG_NS  (500 * NS_PER_US) /* less than a time slice, more than a hiccup */
#define YIELD_CROWDED  15u               /* polls without a yield, when spin_limit is 0 */

/* One thread's; zeroed: nothing learnt yet. */
struct yield_looks {
    uint32_t looks; /* empty polls without a yield */
    ns_t shortest;  /* of all yields, at most YIELD_QUICK_NS; 0: no yield yet */
};

/* Empty polls before the next yield. spin_limit, here and below: of struct ctx_shared. */
uint32_t yield_after(const struct yield_looks *y, uint32_t spin_limit);
/* A yield has returned after `took`: another thread ran, or none did. */
void yield_learn(struct yield_looks *y, uint32_t spin_limit, ns_t took);

#endif
