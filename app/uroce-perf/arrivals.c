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

void arrivals_post(struct arrivals *a, uint64_t now, unsigned senders,
                   enum posted (*post)(void *ctx, unsigned sender, uint64_t due), void *ctx)
{
    for (unsigned n = 0; n < ARRIVALS_BURST && arrivals_due(a) <= now; n++) {
        enum posted posted = post(ctx, a->turn, arrivals_due(a));

        if (posted == NO_ROOM)
            return;
        if (posted == POSTED)
            arrivals_pass(a);
        a->turn = a->turn + 1 < senders ? a->turn + 1 : 0;
    }
}
