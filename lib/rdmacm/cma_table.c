/* SPDX-License-Identifier: BSD-3-Clause */
/* The ids of a connection. Cookies count up, and handles are in an order of the daemon's that has
 * no pattern: both spread as they are. */
#include "cma_table.h"

#include <stddef.h>

void cma_table_add(struct cma_table *t, struct cma_entry *e)
{
    LIST_INSERT_HEAD(&t->by_handle[e->handle % CMA_TABLE_BUCKETS], e, by_handle);
    if (e->cookie)
        LIST_INSERT_HEAD(&t->by_cookie[e->cookie % CMA_TABLE_BUCKETS], e, by_cookie);
    e->listed = true;
}

void cma_table_remove(struct cma_entry *e)
{
    if (!e->listed)
        return;
    LIST_REMOVE(e, by_handle);
    if (e->cookie)
        LIST_REMOVE(e, by_cookie);
    e->listed = false;
}

struct cma_entry *cma_table_of_handle(const struct cma_table *t, uint32_t handle)
{
    struct cma_entry *e = LIST_FIRST(&t->by_handle[handle % CMA_TABLE_BUCKETS]);

    while (e && e->handle != handle)
        e = LIST_NEXT(e, by_handle);
    return e;
}

struct cma_entry *cma_table_of_cookie(const struct cma_table *t, uint64_t cookie)
{
    struct cma_entry *e = LIST_FIRST(&t->by_cookie[cookie % CMA_TABLE_BUCKETS]);

    while (e && e->cookie != cookie)
        e = LIST_NEXT(e, by_cookie);
    return e;
}

void cma_table_each(const struct cma_table *t, void (*visit)(void *arg, struct cma_entry *e),
                    void *arg)
{
    for (unsigned i = 0; i < CMA_TABLE_BUCKETS; i++)
        for (struct cma_entry *e = LIST_FIRST(&t->by_handle[i]); e; e = LIST_NEXT(e, by_handle))
            visit(arg, e);
}
