/* SPDX-License-Identifier: BSD-3-Clause */
/* See arrivals.h. */
#include "arrivals.h"

#include <math.h>
#include <stddef.h>

#define GAPS 16384

/* Gaps of an exponential distribution whose mean is 1, at quantiles that are as far apart from each
 * other: a random one takes a nanosecond, and a logarithm twenty. */
static float gap_table[GAPS];

void arrivals_prepare(void)
{
    double sum = 0;

    for (unsigned i = 0; i < GAPS; i++)
        sum += -log((i + 0.5) / GAPS);
    for (unsigned i = 0; i < GAPS; i++)
        gap_table[i] = (float)(-log((i + 0.5) / GAPS) * GAPS / sum);
}

void arrivals_start(struct arrivals *a, uint64_t now, double per_tick, bool even, uint64_t seed)
{
    *a = (struct arrivals){.random = {.state = seed},
                           .gaps = even ? NULL : gap_table,
                           .gap = 1 / per_tick,
                           .start = now};
    arrivals_pass(a);
}

void arrivals_pass(struct arrivals *a)
{
    a->next += a->gaps ? (double)a->gaps[random_below(&a->random, GAPS)] * a->gap : a->gap;
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
