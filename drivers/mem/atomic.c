/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics by copying, under a lock: see atomic.h. */
#include "atomic.h"

#include <pthread.h>

#include "common.h"

/* 64 locks for the 512 words of a page. */
static struct {
    CACHE_ALIGNED pthread_mutex_t mutex;
} atomic_locks[64] = {[0 ... 63] = {PTHREAD_MUTEX_INITIALIZER}};

int mem_copied_atomic(const struct mem_backend *backend, void *space, struct mem_region *mr,
                      uint64_t addr, enum mem_atomic_op op, uint64_t swap_add, uint64_t compare,
                      uint64_t *old)
{
    pthread_mutex_t *lock = &atomic_locks[addr / 8 % ARRAY_SIZE(atomic_locks)].mutex;
    struct mem_io io = {.mr = mr, .addr = addr, .local = (uint8_t *)old, .len = sizeof(*old)};
    uint64_t value;

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
