/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engines of a port send together: see ceiling.h. */
#include <stdlib.h>

#include "ceiling.h"
#include "pace.h"
#include "pause.h"
#include "tx.h"

/* A worker that waits for the end of a pause looks again after this time: another one may get the
 * frame that ends it early. */
#define PAUSE_LOOK (100 * NS_PER_US)

struct tx_ceiling {
    struct pace pace;            /* its rate is 0: there is none */
    uint64_t pause_line;         /* bits per second; 0: it does not pause */
    _Atomic uint64_t pause_ends; /* nothing is sent before */
    _Atomic uint64_t pause_frames, pause_ns;
};

struct tx_ceiling *tx_ceiling_create(uint64_t rate, uint64_t pause_line)
{
    struct tx_ceiling *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->pace.rate = rate;
    c->pause_line = pause_line;
    return c;
}

void tx_ceiling_destroy(struct tx_ceiling *c)
{
    free(c);
}

/* pause_ns has the rest of the present pause, too. */
struct tx_pauses tx_ceiling_pauses(struct tx_ceiling *c, ns_t now)
{
    ns_t ends = atomic_load_explicit(&c->pause_ends, memory_order_relaxed);

    return (struct tx_pauses){
        .frames = atomic_load_explicit(&c->pause_frames, memory_order_relaxed),
        .ns = atomic_load_explicit(&c->pause_ns, memory_order_relaxed) -
              (ends > now ? ends - now : 0),
    };
}

/* ---- pauses ---- */

/* A frame replaces the pause of the one before it, so time is counted once. */
static void pause_until(struct tx_ceiling *c, ns_t ends, ns_t now)
{
    ns_t before = atomic_exchange_explicit(&c->pause_ends, ends, memory_order_relaxed);

    atomic_fetch_add_explicit(&c->pause_ns, ends - max_of(before, now), memory_order_relaxed);
    atomic_fetch_add_explicit(&c->pause_frames, 1, memory_order_relaxed);
}

bool tx_ceiling_take(struct engine *e, const struct frame *f)
{
    struct tx_ceiling *c = e->cfg.ceiling;
    uint16_t quanta;

    if (!c->pause_line || !pause_parse(&quanta, f->data, f->len, e->cfg.port->mac))
        return false;
    pause_until(c, e->now + quanta * (uint64_t)PAUSE_QUANTUM_BITS * NS_PER_SEC / c->pause_line,
                e->now);
    return true;
}

/* True: nothing may be sent now. */
static bool is_paused(struct engine *e)
{
    const struct tx_ceiling *c = e->cfg.ceiling;
    ns_t ends = atomic_load_explicit(&c->pause_ends, memory_order_relaxed);

    if (ends <= e->now)
        return false;
    e->ceiling_until = min_of(ends, e->now + PAUSE_LOOK);
    return true;
}

/* ---- the rate ---- */

unsigned tx_ceiling_admit(struct engine *e, unsigned n)
{
    const struct pace *p = &e->cfg.ceiling->pace;
    uint64_t frame = max_of(e->longest_frame, (uint32_t)PKT_MTU_MIN), bytes;
    ns_t next = pace_next(p);

    if (is_paused(e))
        return 0;
    e->ceiling_until = next > e->now ? next : 0;
    if (e->ceiling_until)
        return 0;
    if (!p->rate)
        return n;
    bytes = cc_bytes_in(p->rate, e->now - max_of(next, pace_forgotten(e->now)));
    return (unsigned)min_of((uint64_t)n, 1 + bytes / frame);
}

void tx_ceiling_charge(struct engine *e, const struct frame *frames, unsigned n)
{
    uint32_t bytes = 0;

    if (!e->cfg.ceiling->pace.rate)
        return;
    for (unsigned i = 0; i < n; i++) {
        bytes += frames[i].len;
        e->longest_frame = max_of(e->longest_frame, frames[i].len);
    }
    if (n)
        pace_charge(&e->cfg.ceiling->pace, bytes, e->now);
}
