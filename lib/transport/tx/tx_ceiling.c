/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engines of a port send together: see ceiling.h. */
#include <stdlib.h>

#include "ceiling.h"
#include "pace.h"
#include "tx.h"

struct tx_ceiling {
    struct pace pace;
};

struct tx_ceiling *tx_ceiling_create(uint64_t rate)
{
    struct tx_ceiling *c = calloc(1, sizeof(*c));

    if (c)
        c->pace.rate = rate;
    return c;
}

void tx_ceiling_destroy(struct tx_ceiling *c)
{
    free(c);
}

unsigned tx_ceiling_admit(struct engine *e, unsigned n)
{
    const struct pace *p = &e->cfg.ceiling->pace;
    ns_t next = pace_next(p);
    uint64_t frame = max_of(e->longest_frame, (uint32_t)PKT_MTU_MIN), bytes;

    e->ceiling_until = next > e->now ? next : 0;
    if (e->ceiling_until)
        return 0;
    bytes = cc_bytes_in(p->rate, e->now - max_of(next, pace_forgotten(e->now)));
    return (unsigned)min_of((uint64_t)n, 1 + bytes / frame);
}

void tx_ceiling_charge(struct engine *e, const struct frame *frames, unsigned n)
{
    uint32_t bytes = 0;

    for (unsigned i = 0; i < n; i++) {
        bytes += frames[i].len;
        e->longest_frame = max_of(e->longest_frame, frames[i].len);
    }
    if (n)
        pace_charge(&e->cfg.ceiling->pace, bytes, e->now);
}
