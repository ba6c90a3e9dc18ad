/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers of an engine: a hashed wheel. Arming again with a later time, the common case, only writes
 * the deadline; the wheel finds out when the slot comes round. Costs nothing per idle timer.
 */
#ifndef UROCE_TIMER_H
#define UROCE_TIMER_H

#include <sys/queue.h>

#include "common.h"

#define TIMER_TICK_SHIFT 15 /* 32.8 us */
#define TIMER_SLOTS      4096

/* What it means that a timer fires: engine.c has a function for each. */
enum timer_kind {
    TIMER_ACK,  /* an ACK did not come */
    TIMER_RNR,  /* the RNR delay has expired */
    TIMER_PACE, /* a controlled queue pair may send: struct qp.pace */
    TIMER_CQ,   /* a completion has waited for its event: completion/moderation.c */
    TIMER_KINDS,
};

struct timer {
    LIST_ENTRY(timer) link;
    ns_t deadline; /* NS_NEVER: disarmed */
    uint64_t tick; /* in the wheel at this tick; 0: not in it */
    uint8_t kind;  /* enum timer_kind, of the last arming */
};
LIST_HEAD(timer_list, timer);

struct timer_wheel {
    uint64_t tick; /* everything up to here has fired */
    uint64_t next; /* no timer is before this tick; 0: not known */
    uint32_t count;
    uint64_t used[TIMER_SLOTS / 64]; /* slots that are not empty */
    struct timer_list slot[TIMER_SLOTS];
};

/* All-zero memory is an empty wheel and a disarmed timer. */

/* Fires at or up to one tick after `deadline`. Replaces an earlier arming. */
void timer_arm_anew(struct timer_wheel *w, struct timer *t, ns_t deadline, ns_t now);
static inline void timer_arm(struct timer_wheel *w, struct timer *t, uint8_t kind, ns_t deadline,
                             ns_t now)
{
    t->kind = kind;
    if (t->tick && (deadline >> TIMER_TICK_SHIFT) + 1 >= t->tick) /* it is looked at by then */
        t->deadline = deadline;
    else
        timer_arm_anew(w, t, deadline, now);
}
/* Cheap: the timer stays in its slot until that comes round. */
static inline void timer_disarm(struct timer *t)
{
    t->deadline = NS_NEVER;
}
/* Takes the timer out of the wheel, as before its memory is freed. */
void timer_remove(struct timer_wheel *w, struct timer *t);
/* The next timer that is due at `now`, disarmed and taken out. NULL: none is, or *looks timers have
 * been looked at; each call takes those that it looks at from *looks. */
struct timer *timer_expired(struct timer_wheel *w, ns_t now, unsigned *looks);
/* When timer_expired should be called next (perhaps in vain), or NS_NEVER. */
ns_t timer_next(struct timer_wheel *w);

#endif
