/* SPDX-License-Identifier: BSD-3-Clause */
/* Indirection tables: what workers read is one pointer to entries that never change. */
#include <stdlib.h>

#include "raw_private.h"

struct rwq_entries *rwq_entries_create(struct wq *const *wq, uint32_t size)
{
    struct rwq_entries *entries = malloc(sizeof(*entries) + size * sizeof(entries->wq[0]));

    if (!entries)
        return NULL;
    entries->size = size;
    memcpy(entries->wq, wq, size * sizeof(entries->wq[0]));
    return entries;
}

void rwq_entries_free(struct rwq_entries *entries)
{
    free(entries);
}

struct rwq_ind *rwq_ind_create(struct rwq_entries *entries)
{
    struct rwq_ind *ind = malloc(sizeof(*ind));

    if (ind)
        atomic_init(&ind->entries, entries);
    return ind;
}

struct rwq_entries *rwq_ind_replace(struct rwq_ind *ind, struct rwq_entries *entries)
{
    return atomic_exchange_explicit(&ind->entries, entries, memory_order_acq_rel);
}

void rwq_ind_free(struct rwq_ind *ind)
{
    if (!ind)
        return;
    rwq_entries_free(atomic_load_explicit(&ind->entries, memory_order_relaxed));
    free(ind);
}
