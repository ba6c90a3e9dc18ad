/* SPDX-License-Identifier: BSD-3-Clause */
/* See arrivals.h. */
#include "arrivals.h"

#include <math.h>

/* Uniform, above 0 and at most 1: 53 bits. */
static double uniform(struct random *r)
{
    return (double)((random_next(r) >> 11) + 1) * 0x1p-53;
}

void arrivals_start(struct arrivals *a, uint64_t now, double per_tick, bool even, uint64_t seed)
{
    *a = (struct arrivals){
        .random = {.state = seed}, .gap = 1 / per_tick, .start = now, .even = even};
    arrivals_pass(a);
}

void arrivals_pass(struct arrivals *a)
{
    a->next += a->even ? a->gap : -log(uniform(&a->random)) * a->gap;
}
