/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for objects: a handle is a number from 1 to the table's limit, in a secret order, so that
 * it does not tell how many objects other applications have. It is not reused soon. */
#ifndef UROCE_HANDLE_TABLE_H
#define UROCE_HANDLE_TABLE_H

#include <stdint.h>

#include "permute.h"

struct object;

struct handle_table {
    struct object **slot;
    uint32_t *free; /* a ring of freed slots: the oldest is reused first */
    uint32_t room, used, free_head, free_count, limit;
    struct permutation order;
};

/* secret: as in permute.h. */
void handle_table_init(struct handle_table *t, uint32_t limit, const uint64_t secret[2]);
void handle_table_fini(struct handle_table *t);

/* A handle for o, or 0: too many, or out of memory. */
uint32_t handle_add(struct handle_table *t, struct object *o);
void handle_remove(struct handle_table *t, uint32_t handle);

/* The object, or NULL for any other number. */
struct object *handle_get(const struct handle_table *t, uint32_t handle);

#endif
