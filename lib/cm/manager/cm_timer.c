/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_timer.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 64u

int cm_timers_reserve(struct cm_timers *t, uint32_t n)
{
    uint32_t room = max_of(t->room, FIRST_ROOM);
    struct cm_timer **heap;

    if (n <= t->room)
        return 0;
    while (room < n)
        room *= 2;
    heap = realloc(t->heap, (room + 1) * sizeof(*heap));
    if (!heap)
        return -ENOMEM;
    t->heap = heap;
    t->room = room;
    return 0;
}

void cm_timers_free(struct cm_timers *t)
{
    free(t->heap);
    *t = (struct cm_timers){0};
}

static void place(struct cm_timers *t, uint32_t at, struct cm_timer *timer)
{
    t->heap[at] = timer;
    timer->at = at;
}

/* Moves a timer towards the top, then towards the bottom, until its neighbours are in order. */
static void sift(struct cm_timers *t, struct cm_timer *timer)
{
    uint32_t at = timer->at;

    while (at > 1 && t->heap[at / 2]->deadline > timer->deadline) {
        place(t, at, t->heap[at / 2]);
        at /= 2;
    }
    for (uint32_t child; (child = 2 * at) <= t->count; at = child) {
        if (child < t->count && t->heap[child + 1]->deadline < t->heap[child]->deadline)
            child++;
        if (t->heap[child]->deadline >= timer->deadline)
            break;
        place(t, at, t->heap[child]);
    }
    place(t, at, timer);
}

void cm_timer_arm(struct cm_timers *t, struct cm_timer *timer, ns_t deadline)
{
    timer->deadline = deadline;
    if (!timer->at)
        place(t, ++t->count, timer);
    sift(t, timer);
}

void cm_timer_disarm(struct cm_timers *t, struct cm_timer *timer)
{
    struct cm_timer *last;

    if (!timer->at)
        return;
    last = t->heap[t->count--];
    if (last != timer) {
        place(t, timer->at, last);
        sift(t, last);
    }
    timer->at = 0;
}
