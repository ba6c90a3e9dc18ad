/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often who polls gives its processor away, application or worker: between every two looks, or,
 * while yields come back so soon that nobody else can have had it, after ever more of them.
 */
#ifndef UROCE_YIELD_H
#define UROCE_YIELD_H

#include "common.h"

#define YIELD_QUICK_NS NS_PER_US         /* one that goes to nobody takes no longer */
#define YIELD_LONG_NS  (500 * NS_PER_US) /* less than a time slice, more than a hiccup */
#define YIELD_CROWDED  15u               /* looks without a yield, when spin_limit is 0 */

/* A thread's own; zeroed: it knows nothing yet. */
struct yield_looks {
    uint32_t looks; /* without a yield */
    ns_t shortest;  /* of all yields, or YIELD_QUICK_NS; 0: none yet */
};

/* spin_limit, here and below: of struct ctx_shared. So many looks now before the next yield. */
uint32_t yield_after(const struct yield_looks *y, uint32_t spin_limit);
/* A yield took so long: somebody had the processor meanwhile, or nobody. */
void yield_learn(struct yield_looks *y, uint32_t spin_limit, ns_t took);

#endif
