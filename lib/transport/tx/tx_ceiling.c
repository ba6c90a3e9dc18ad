/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engines of a port send together: see ceiling.h. */
#include <stdatomic.h>
#include <stdlib.h>

#include "ceiling.h"
#include "tx.h"

/* Times are in sixteenths of a ns: what rounding loses in a burst of short frames is not seen. */
#define FRACTION 16

struct tx_ceiling {
    uint64_t rate;         /* bits per second */
    _Atomic uint64_t next; /* nothing is sent before: all workers of the port move it on */
};

struct tx_ceiling *tx_ceiling_create(uint64_t rate)
{
    struct tx_ceiling *c = calloc(1, sizeof(*c));

    if (c)
        c->rate = rate;
    return c;
}

void tx_ceiling_destroy(struct tx_ceiling *c)
{
    free(c);
}

/* From when on what was not sent is not made up for: longer ago than a burst. */
static ns_t forgotten(ns_t now)
{
    return now > CC_BURST ? now - CC_BURST : 0;
}

unsigned tx_ceiling_admit(struct engine *e, unsigned n)
{
    const struct tx_ceiling *c = e->cfg.ceiling;
    ns_t next = atomic_load_explicit(&c->next, memory_order_relaxed) / FRACTION;
    uint64_t frame = max_of(e->longest_frame, (uint32_t)PKT_MTU_MIN), bytes;

    e->ceiling_until = next > e->now ? next : 0;
    if (e->ceiling_until)
        return 0;
    bytes = cc_bytes_in(c->rate, e->now - max_of(next, forgotten(e->now)));
    return (unsigned)min_of((uint64_t)n, 1 + bytes / frame);
}

static void charge(struct tx_ceiling *c, uint32_t bytes, ns_t now)
{
    uint64_t cost = bytes * UINT64_C(8) * NS_PER_SEC * FRACTION / c->rate + 1;
    uint64_t next = atomic_load_explicit(&c->next, memory_order_relaxed), since;

    do
        since = max_of(next, forgotten(now) * FRACTION);
    while (!atomic_compare_exchange_weak(&c->next, &next, since + cost));
}

void tx_ceiling_charge(struct engine *e, const struct frame *frames, unsigned n)
{
    uint32_t bytes = 0;

    for (unsigned i = 0; i < n; i++) {
        bytes += frames[i].len;
        e->longest_frame = max_of(e->longest_frame, frames[i].len);
    }
    if (n)
        charge(e->cfg.ceiling, bytes, e->now);
}
