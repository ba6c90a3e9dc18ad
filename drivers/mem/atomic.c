/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics by copying, under a lock: see atomic.h. */
#include "atomic.h"

#include "heat.h"

/* The region is named for its heat alone, before anything waits: it may go while its memory does
 * not answer, or that of the atomic that has the lock. */
int mem_copied_atomic(const struct mem_backend *backend, void *space, struct mem_heat *heat,
                      pthread_mutex_t *lock, struct mem_region *mr, uint64_t addr,
                      enum mem_atomic_op op, uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    struct mem_io io = {.addr = addr, .local = (uint8_t *)old, .len = sizeof(*old)};
    uint64_t value;

    mem_heat_count(heat, &(struct mem_io){.mr = mr}, 1);
    pthread_mutex_lock(lock);
    backend->copy_in(space, &io, 1);
    if (!io.status && (op == MEM_FETCH_ADD || *old == compare)) {
        value = op == MEM_FETCH_ADD ? *old + swap_add : swap_add;
        io.local = (uint8_t *)&value;
        backend->copy_out(space, &io, 1);
    }
    pthread_mutex_unlock(lock);
    return io.status;
}
