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
    _Atomic uint64_t priority_ends[QOS_PRIORITIES]; /* nor packets of a priority's class */
    _Atomic uint64_t priority_frames;
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
        .priority_frames = atomic_load_explicit(&c->priority_frames, memory_order_relaxed),
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

static ns_t end_of(const struct tx_ceiling *c, uint16_t quanta, ns_t now)
{
    return now + quanta * (uint64_t)PAUSE_QUANTUM_BITS * NS_PER_SEC / c->pause_line;
}

static void pause_priorities(struct tx_ceiling *c, const struct pause *p, ns_t now)
{
    for (unsigned i = 0; i < QOS_PRIORITIES; i++)
        if (p->priorities >> i & 1)
            atomic_store_explicit(&c->priority_ends[i], end_of(c, p->quanta[i], now),
                                  memory_order_relaxed);
    atomic_fetch_add_explicit(&c->priority_frames, 1, memory_order_relaxed);
}

/* Priorities can pause where there are classes of them. */
bool tx_ceiling_take(struct engine *e, const struct frame *f)
{
    struct tx_ceiling *c = e->cfg.ceiling;
    struct pause p;

    if (!c->pause_line || !pause_parse(&p, f->data, f->len, e->cfg.port->mac) ||
        (p.by_priority && !e->cfg.classes.count))
        return false;
    if (p.by_priority)
        pause_priorities(c, &p, e->now);
    else
        pause_until(c, end_of(c, p.quanta[0], e->now), e->now);
    return true;
}

/* Notes which classes may send nothing now: one of their priorities pauses. */
static void look_at_priorities(struct engine *e)
{
    const struct tx_ceiling *c = e->cfg.ceiling;

    e->classes_paused = 0;
    for (unsigned i = 0; i < QOS_PRIORITIES; i++)
        if (atomic_load_explicit(&c->priority_ends[i], memory_order_relaxed) > e->now)
            e->classes_paused |= 1u << e->cfg.classes.of_priority[i];
}

void tx_ceiling_wait(struct engine *e)
{
    e->ceiling_until = e->now + PAUSE_LOOK;
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
    if (e->cfg.ceiling->pause_line && e->cfg.classes.count)
        look_at_priorities(e);
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
