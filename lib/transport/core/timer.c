/* SPDX-License-Identifier: BSD-3-Clause */
#include "timer.h"

static void put(struct timer_wheel *w, struct timer *t, uint64_t tick)
{
    unsigned s = tick % TIMER_SLOTS;

    t->tick = tick;
    LIST_INSERT_HEAD(&w->slot[s], t, link);
    w->used[s / 64] |= UINT64_C(1) << (s % 64);
    w->count++;
    w->next = min_of(w->next, tick);
}

void timer_remove(struct timer_wheel *w, struct timer *t)
{
    unsigned s = t->tick % TIMER_SLOTS;

    t->deadline = NS_NEVER;
    if (!t->tick)
        return;
    LIST_REMOVE(t, link);
    if (LIST_EMPTY(&w->slot[s]))
        w->used[s / 64] &= ~(UINT64_C(1) << (s % 64));
    w->count--;
    t->tick = 0;
}

/* The tick at which a deadline is surely over, or the wheel's far end if that is nearer. */
static uint64_t tick_of(const struct timer_wheel *w, ns_t deadline)
{
    uint64_t tick = (deadline >> TIMER_TICK_SHIFT) + 1;

    return min_of(max_of(tick, w->tick + 1), w->tick + TIMER_SLOTS - 1);
}

void timer_arm_anew(struct timer_wheel *w, struct timer *t, ns_t deadline, ns_t now)
{
    uint64_t tick;

    if (!w->count)
        w->tick = max_of(w->tick, now >> TIMER_TICK_SHIFT);
    tick = tick_of(w, deadline);
    if (t->tick && t->tick > tick)
        timer_remove(w, t);
    t->deadline = deadline;
    if (!t->tick)
        put(w, t, tick);
}

/* The first used slot's tick after w->tick; the wheel is not empty. */
static uint64_t first_used(const struct timer_wheel *w)
{
    uint64_t start = w->tick + 1;
    unsigned s = start % TIMER_SLOTS;
    uint64_t word = w->used[s / 64] >> (s % 64);

    if (word)
        return start + __builtin_ctzll(word);
    for (unsigned i = 1; i <= TIMER_SLOTS / 64; i++) {
        word = w->used[(s / 64 + i) % (TIMER_SLOTS / 64)];
        if (word)
            return start - s % 64 + i * 64 + __builtin_ctzll(word);
    }
    return start; /* not reached */
}

struct timer *timer_expired(struct timer_wheel *w, ns_t now, unsigned *looks)
{
    uint64_t now_tick = now >> TIMER_TICK_SHIFT;

    w->next = 0;
    while (w->count && w->tick < now_tick && *looks) {
        uint64_t tick = first_used(w);
        struct timer *t;

        if (tick > now_tick) {
            w->tick = now_tick;
            break;
        }
        w->tick = tick - 1;
        --*looks;
        t = LIST_FIRST(&w->slot[tick % TIMER_SLOTS]);
        ns_t deadline = t->deadline;
        timer_remove(w, t);
        if (deadline == NS_NEVER)
            continue;
        if ((deadline >> TIMER_TICK_SHIFT) + 1 > tick) { /* armed again since, or far away */
            t->deadline = deadline;
            w->tick = tick;
            put(w, t, tick_of(w, deadline));
            w->tick = tick - 1;
            continue;
        }
        return t;
    }
    return NULL;
}

/* Asked at each look for work, and the wheel has many words. */
ns_t timer_next(struct timer_wheel *w)
{
    if (!w->count)
        return NS_NEVER;
    if (!w->next)
        w->next = first_used(w);
    return w->next << TIMER_TICK_SHIFT;
}
