/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions whose mapping has failed: see mem.h. */
#include "mem_internal.h"

/* ---- regions that have left the table ---- */

/* What is read without the region: it may be another one's, which is freed by now. `start` is
 * stored last and removed first, so that the entry has not changed if it is the same at the end. */
static struct mem_region *find_in(const struct mr_leaving *l, const void *at)
{
    uintptr_t start = atomic_load(&l->start);
    struct mem_region *mr = atomic_load(&l->mr);

    return start && (uintptr_t)at - start < atomic_load(&l->len) && atomic_load(&l->start) == start
               ? mr
               : NULL;
}

void mr_leave(struct mr_table *t, struct mem_region *mr)
{
    struct mr_leaving *l = &t->leaving[t->left % MR_LEAVING];

    if (!mr->direct)
        return;
    t->left++;
    atomic_store(&l->start, 0);
    atomic_store(&l->len, mr->len);
    atomic_store(&l->mr, mr);
    atomic_store(&l->start, (uintptr_t)mr->direct);
}

void mr_left(struct mr_table *t, const struct mem_region *mr)
{
    for (unsigned i = 0; i < MR_LEAVING; i++)
        if (atomic_load_explicit(&t->leaving[i].mr, memory_order_relaxed) == mr)
            atomic_store(&t->leaving[i].start, 0);
}

/* ---- faults ---- */

/* Behind the last slot that was ever used: a table has room for many more. */
static uint32_t end_of(const struct mr_table *t)
{
    return atomic_load_explicit(&t->top, memory_order_acquire);
}

struct mem_region *mr_find_direct(const struct mr_table *t, const void *at)
{
    for (uint32_t i = 0, end = end_of(t); i < end; i++) {
        struct mem_region *mr = atomic_load_explicit(&t->region[i], memory_order_acquire);

        if (mr && mr->kind == MEM_REGION && mr->direct &&
            (uintptr_t)at - (uintptr_t)mr->direct < mr->len)
            return mr;
    }
    for (unsigned i = 0; i < MR_LEAVING; i++) {
        struct mem_region *mr = find_in(&t->leaving[i], at);

        if (mr)
            return mr;
    }
    return NULL;
}

/* Who uses a window of it asks the region, too (check_window): the window itself may be bound to
 * another one. */
void mr_fail(struct mr_table *t, struct mem_region *mr)
{
    atomic_store_explicit(&mr->pd, MEM_PD_NONE, memory_order_relaxed);
    /* Workers look their cached regions up again. */
    atomic_fetch_add_explicit(&t->removals, 1, memory_order_release);
}
