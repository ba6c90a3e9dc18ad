/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose caller did not wait for their end, counted for their space and their regions. */
#include <stdlib.h>

#include "mem_call.h"

struct mem_late {
    _Atomic unsigned refs;  /* the region's, and those of its late calls */
    _Atomic unsigned calls; /* that have not ended */
};

/* Of all regions for which there was no memory: each waits for the calls of all of them. */
static struct mem_late unknown = {.refs = 1};

static struct mem_late *late_of(struct mem_region *mr)
{
    struct mem_late *l = atomic_load(&mr->late), *none = NULL;

    if (l)
        return l;
    l = calloc(1, sizeof(*l));
    if (l)
        atomic_init(&l->refs, 1);
    if (atomic_compare_exchange_strong(&mr->late, &none, l ? l : &unknown))
        return l ? l : &unknown;
    free(l); /* another worker's was first */
    return none;
}

static void put(struct mem_late *l)
{
    if (atomic_fetch_sub(&l->refs, 1) == 1)
        free(l);
}

bool mr_waits(const struct mem_region *mr)
{
    const struct mem_late *l = atomic_load(&mr->late);

    return l && atomic_load(&l->calls);
}

void mr_end(struct mem_region *mr)
{
    struct mem_late *l = atomic_exchange(&mr->late, NULL);

    if (l && l != &unknown)
        put(l);
}

void mem_call_begin_late(struct mem_call *c)
{
    const struct mem_backend *b = c->backend;

    if (b->hold)
        b->hold(c->space);
    if (b->late)
        atomic_fetch_add(b->late(c->space), 1);
    for (unsigned i = 0; i < c->n; i++) {
        c->regions[i] = NULL;
        if (i && c->io[i].mr == c->io[i - 1].mr)
            continue;
        c->regions[i] = late_of(c->io[i].mr);
        atomic_fetch_add(&c->regions[i]->refs, 1);
        atomic_fetch_add(&c->regions[i]->calls, 1);
    }
}

void mem_call_end_late(struct mem_call *c)
{
    const struct mem_backend *b = c->backend;

    for (unsigned i = 0; i < c->n; i++) {
        if (!c->regions[i])
            continue;
        atomic_fetch_sub(&c->regions[i]->calls, 1);
        put(c->regions[i]);
    }
    if (b->late)
        atomic_fetch_sub(b->late(c->space), 1);
    if (b->release)
        b->release(c->space);
}
