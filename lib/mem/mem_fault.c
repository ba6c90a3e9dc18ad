/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions whose mapping has failed: see mem.h. */
#include "common.h"
#include "mem.h"

struct mem_region *mr_find_direct(const struct mr_table *t, const void *at)
{
    for (uint32_t i = 0; i < t->slots; i++) {
        struct mem_region *mr = atomic_load_explicit(&t->region[i], memory_order_acquire);

        if (mr && mr->kind == MEM_REGION && mr->direct &&
            (uintptr_t)at - (uintptr_t)mr->direct < mr->len)
            return mr;
    }
    return NULL;
}

/* Windows of it have a domain of their own. */
void mr_fail(struct mr_table *t, struct mem_region *mr)
{
    for (uint32_t i = 0; i < t->slots; i++) {
        struct mem_region *r = atomic_load_explicit(&t->region[i], memory_order_acquire);

        if (r && (r == mr || (r->kind != MEM_REGION && r->parent == mr)))
            atomic_store_explicit(&r->pd, MEM_PD_NONE, memory_order_relaxed);
    }
    /* Workers look their cached regions up again. */
    atomic_fetch_add_explicit(&t->removals, 1, memory_order_release);
}
