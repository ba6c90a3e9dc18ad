/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics by copying, for every backend that copies.
 *
 * An atomic is a read-modify-write under one of a few locks of this process, chosen by the offset
 * in the page. The same bytes have the same offset through every address, process and backend, so
 * atomics by copying are atomic among all workers, regions and applications. They are not atomic
 * with respect to the application's own CPUs (IBV_ATOMIC_HCA), nor to a region that maps the same
 * bytes.
 */
#ifndef UROCE_MEM_ATOMIC_H
#define UROCE_MEM_ATOMIC_H

#include "mem.h"

/* A backend's `atomic` (mem.h) by means of its copy_in and copy_out. Any worker. */
int mem_copied_atomic(const struct mem_backend *backend, void *space, struct mem_region *mr,
                      uint64_t addr, enum mem_atomic_op op, uint64_t swap_add, uint64_t compare,
                      uint64_t *old);

#endif
