/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics by copying, for every backend that copies.
 *
 * An atomic is a read-modify-write under the lock of its space: an application whose memory does
 * not answer delays no other one. So atomics by copying are atomic among all workers and all
 * regions of the application. They are not atomic with respect to the application's own CPUs
 * (IBV_ATOMIC_HCA), nor to a region that maps the same bytes, nor to those that reach them through
 * another application.
 */
#ifndef UROCE_MEM_ATOMIC_H
#define UROCE_MEM_ATOMIC_H

#include <pthread.h>

#include "mem_heat.h"

/* A backend's `atomic` (mem.h) by means of its copy_in and copy_out, under the lock. Any worker. */
int mem_copied_atomic(const struct mem_backend *backend, void *space, struct mem_heat *heat,
                      pthread_mutex_t *lock, struct mem_region *mr, uint64_t addr,
                      enum mem_atomic_op op, uint64_t swap_add, uint64_t compare, uint64_t *old);

#endif
