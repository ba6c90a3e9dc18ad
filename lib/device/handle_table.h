/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for objects: a handle is a small number other than 0, given again after some time at the
 * earliest. */
#ifndef UROCE_HANDLE_TABLE_H
#define UROCE_HANDLE_TABLE_H

#include <stdint.h>

struct object;

struct handle_table {
    struct object **slot;
    uint32_t *free; /* a ring of slots given back: the oldest is reused first */
    uint32_t room, used, free_head, free_count, limit;
};

void handle_table_init(struct handle_table *t, uint32_t limit);
void handle_table_fini(struct handle_table *t);

/* A handle for o, or 0: too many, or out of memory. */
uint32_t handle_add(struct handle_table *t, struct object *o);
void handle_remove(struct handle_table *t, uint32_t handle);

/* The object, or NULL. Any number may be asked for. */
struct object *handle_get(const struct handle_table *t, uint32_t handle);

#endif
