/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers from a millisecond to hours: a binary heap. (The engine's wheel has slots of microseconds,
 * and looks at a timer of seconds many times.) Room is reserved when an object with a timer is
 * made, so that arming one cannot fail. Pure; one thread at a time.
 */
#ifndef UROCE_CM_TIMER_H
#define UROCE_CM_TIMER_H

#include "common.h"

struct cm_timer {
    ns_t deadline;
    uint32_t at; /* in the heap, from 1; 0: not armed */
};

struct cm_timers {
    struct cm_timer **heap; /* from 1 */
    uint32_t count, room;
};

/* Makes room for n timers. -ENOMEM: the room is as it was. */
int cm_timers_reserve(struct cm_timers *t, uint32_t n);
void cm_timers_free(struct cm_timers *t);

/* Replaces an earlier arming. */
void cm_timer_arm(struct cm_timers *t, struct cm_timer *timer, ns_t deadline);
void cm_timer_disarm(struct cm_timers *t, struct cm_timer *timer);

/* The first timer, or NULL. */
static inline struct cm_timer *cm_timers_first(const struct cm_timers *t)
{
    return t->count ? t->heap[1] : NULL;
}

#endif
