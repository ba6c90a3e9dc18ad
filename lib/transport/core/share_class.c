/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic classes (struct qos_classes): which one sends next. A strict one does as long as it has
 * work. The others share by bytes, by start-time fair queueing: each has a time, which goes on by
 * what it sends, divided by its part; the one whose time is earliest sends. A class that gets work
 * starts at the time of the class that has sent last: what it did not use before is not made up
 * for, and what it sent too much is not forgotten.
 */
#include "engine_private.h"

/* Fractions of a byte: what rounding loses is not seen. Times are compared modulo 2^64. */
#define TIME_FRACTION 256

static bool before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

/* Whether class i has work, and does not pause; it has not had any since it was looked at last: it
 * begins now. */
static bool has_work(struct engine *e, unsigned i)
{
    struct class_share *c = &e->class[i];

    if (!c->share.listed || e->classes_paused >> i & 1)
        return false;
    if (TAILQ_EMPTY(&c->share.sparse) && TAILQ_EMPTY(&c->share.busy)) {
        TAILQ_REMOVE(c->share.listed, &c->share, link);
        c->share.listed = NULL;
        return false;
    }
    if (!(e->class_mask >> i & 1) && before(c->time, e->class_time))
        c->time = e->class_time;
    return true;
}

/* Whether class b goes before a, the earlier in the order; both have work. */
static bool goes_before(const struct engine *e, unsigned b, unsigned a)
{
    return e->cfg.classes.percent[a] && before(e->class[b].time, e->class[a].time);
}

struct share *share_next_class(struct engine *e)
{
    unsigned mask = 0, next = 0;

    for (unsigned i = 0; i < e->cfg.classes.count; i++) {
        if (!has_work(e, i))
            continue;
        if (!mask || goes_before(e, i, next))
            next = i;
        mask |= 1u << i;
    }
    e->class_mask = mask;
    if (!mask)
        return NULL;
    e->class_now = next;
    if (e->cfg.classes.percent[next])
        e->class_time = e->class[next].time;
    return &e->class[next].share;
}

void share_class_sent(struct engine *e, uint64_t bytes)
{
    uint8_t percent = e->cfg.classes.percent[e->class_now];

    if (percent)
        e->class[e->class_now].time += bytes * TIME_FRACTION / percent;
}
