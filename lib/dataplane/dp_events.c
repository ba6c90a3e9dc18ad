/* SPDX-License-Identifier: BSD-3-Clause */
/* See dp_events.h. */
#include "dp_events.h"

#include <stddef.h>

#include "worker.h"

/* Who raises the first bit lists the object. */
bool dp_events_raise(struct worker_group *g, struct dp_events *e, unsigned event)
{
    struct dp_events *first;

    if (atomic_fetch_or(&e->raised, 1u << event))
        return false;
    first = atomic_load(&g->events);
    do
        e->next = first;
    while (!atomic_compare_exchange_weak(&g->events, &first, e));
    return !first;
}

struct dp_events *dp_events_take_list(struct worker_group *g)
{
    struct dp_events *last = atomic_exchange(&g->events, NULL), *first = NULL;

    while (last) {
        struct dp_events *before = last->next;

        last->next = first;
        first = last;
        last = before;
    }
    return first;
}

uint32_t dp_events_take(struct dp_events *e)
{
    return atomic_exchange(&e->raised, 0);
}
