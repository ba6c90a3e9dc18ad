/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/mem. */
#ifndef UROCE_MEM_INTERNAL_H
#define UROCE_MEM_INTERNAL_H

#include "common.h"
#include "mem_batch.h"

/* Keeps a window unchanged until window_release. False: it is being changed, and has no valid key
 * until that is done. Any thread. */
bool window_hold(struct mem_region *w);

/* Before a region leaves the table: mr_find_direct goes on finding it. */
void mr_leave(struct mr_table *t, struct mem_region *mr);

/* mr_check for a region that was looked up; NULL: the key was not found. */
enum mr_fault region_check(const struct mem_region *mr, uint32_t pd, uint64_t va, uint64_t len,
                           uint32_t access);

/* Makes the call for n transfers of a batch, from b->io[first] on, through its caller; they get
 * their statuses. b->io may be another array afterwards. */
void mem_call_through(struct mem_batch *b, unsigned first, unsigned n, bool out);
int mem_atomic_through(struct mem_batch *b, struct mem_region *mr, uint64_t addr,
                       enum mem_atomic_op op, uint64_t swap_add, uint64_t compare, uint64_t *old,
                       uint64_t tag);

#endif
