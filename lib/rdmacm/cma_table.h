/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ids of a connection, by the handle that the daemon chose and by the cookie that we chose. The
 * caller serialises.
 */
#ifndef UROCE_CMA_TABLE_H
#define UROCE_CMA_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define CMA_TABLE_BUCKETS 4096u

struct cma_entry {
    LIST_ENTRY(cma_entry) by_handle, by_cookie;
    uint32_t handle;
    uint64_t cookie; /* 0: the daemon made the id, and has no cookie for it */
    uint64_t serial; /* the daemon's: handles are used again */
    bool listed;
};

LIST_HEAD(cma_bucket, cma_entry);

/* At first all zeros. */
struct cma_table {
    struct cma_bucket by_handle[CMA_TABLE_BUCKETS], by_cookie[CMA_TABLE_BUCKETS];
};

/* Adds an entry with its handle and cookie. */
void cma_table_add(struct cma_table *t, struct cma_entry *e);
/* Takes an entry out, if it is in. */
void cma_table_remove(struct cma_entry *e);
/* NULL: there is none. */
struct cma_entry *cma_table_of_handle(const struct cma_table *t, uint32_t handle);
struct cma_entry *cma_table_of_cookie(const struct cma_table *t, uint64_t cookie);
/* Calls visit for each entry; it must not change the table. */
void cma_table_each(const struct cma_table *t, void (*visit)(void *arg, struct cma_entry *e),
                    void *arg);

#endif
