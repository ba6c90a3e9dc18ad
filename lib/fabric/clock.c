/* SPDX-License-Identifier: BSD-3-Clause */
/* The events that are planned, a heap by time and then by the order of planning. See fabric.h. */
#include <errno.h>
#include <stdlib.h>

#include "fabric_internal.h"

static bool earlier(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static bool make_room(struct fabric *f)
{
    unsigned room = max_of(2 * f->event_room, 256u);
    struct event *heap =
        f->events < f->event_room ? f->heap : realloc(f->heap, room * sizeof(*heap));

    if (!heap)
        return false;
    if (heap != f->heap || f->events == f->event_room)
        f->event_room = room;
    f->heap = heap;
    return true;
}

int fabric_at(struct fabric *f, ns_t at, fabric_fire fire, void *object, uint64_t value)
{
    struct event e = {max_of(at, f->now), f->order, fire, object, value};
    unsigned i;

    if (!make_room(f)) {
        f->failed = true;
        return -ENOMEM;
    }
    f->order++;
    for (i = f->events++; i && earlier(&e, &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
        f->heap[i] = f->heap[(i - 1) / 2];
    f->heap[i] = e;
    return 0;
}

static struct event take_first(struct fabric *f)
{
    struct event first = f->heap[0], last = f->heap[--f->events];
    unsigned i = 0, child;

    while ((child = 2 * i + 1) < f->events) {
        if (child + 1 < f->events && earlier(&f->heap[child + 1], &f->heap[child]))
            child++;
        if (!earlier(&f->heap[child], &last))
            break;
        f->heap[i] = f->heap[child];
        i = child;
    }
    f->heap[i] = last;
    return first;
}

bool fabric_step(struct fabric *f, ns_t until)
{
    struct event e;

    if (!f->events || f->heap[0].at > until) {
        if (until != NS_NEVER)
            f->now = max_of(f->now, until);
        return false;
    }
    e = take_first(f);
    f->now = e.at;
    f->done++;
    e.fire(e.object, e.value);
    return true;
}

ns_t fabric_now(const struct fabric *f)
{
    return f->now;
}

uint64_t fabric_events(const struct fabric *f)
{
    return f->done;
}

bool fabric_failed(const struct fabric *f)
{
    return f->failed;
}

void clock_fini(struct fabric *f)
{
    free(f->heap);
}
