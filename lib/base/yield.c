/* SPDX-License-Identifier: BSD-3-Clause */
/* See yield.h. */
#include "yield.h"

/* Bounds what is learnt. */
static uint32_t max_polls(uint32_t spin_limit)
{
    return max_of(spin_limit, YIELD_CROWDED);
}

uint32_t yield_after(const struct yield_looks *y, uint32_t spin_limit)
{
    return min_of(y->looks, max_polls(spin_limit));
}

void yield_learn(struct yield_looks *y, uint32_t spin_limit, ns_t took)
{
    y->shortest = min_of(y->shortest ? y->shortest : YIELD_QUICK_NS, took);
    y->looks = took < 2 * y->shortest ? min_of(2 * y->looks + 1, max_polls(spin_limit)) : 0;
}
