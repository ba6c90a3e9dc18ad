/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of WQEs in memory that the application shares with the daemon. Posting is
 *     lock; for each WQE: ring_has_room, fill ring_slot(i), i++; ring_publish; doorbell; unlock
 */
#ifndef UROCE_CLIENT_RING_H
#define UROCE_CLIENT_RING_H

#include <errno.h>

#include "common.h"
#include "queue_abi.h"
#include "spin.h"

struct client_ring {
    struct spin lock;
    uint32_t prod;                  /* under lock */
    uint32_t size, stride, max_sge; /* size 0: the daemon is gone, or it is never used */
    uint8_t *entries;
    _Atomic uint32_t *shared_prod;
    /* WQEs before it are free again. Stored when a completion is polled. */
    CACHE_ALIGNED _Atomic uint32_t cons;
    /* When the daemon is gone, under lock: the size that the ring had, and, once the ring is being
     * flushed, the next WQE to flush. */
    uint32_t old_size, next_flush;
    bool flushing;
    /* Under the lock of its object's table: the object is being destroyed, and the ring's segment
     * may be gone. */
    bool leaving;
};

/* A ring in a segment, as a reply of the daemon describes it. */
struct client_ring_layout {
    uint64_t off;
    uint32_t size, stride, max_sge;
};

/* Whether the ring lies behind `header` bytes of the segment and ends in it, and the daemon's
 * limits and min_stride, for WQEs of max_sge SGEs, hold. */
bool client_ring_fits(const struct client_ring_layout *l, uint32_t min_stride, uint64_t header,
                      uint64_t segment_bytes);

/* Uses the ring in `segment`, whose producer index is at `prod`. */
void client_ring_use(struct client_ring *r, const struct client_ring_layout *l, void *segment,
                     _Atomic uint32_t *prod);

/* Empties the ring. Takes its lock. */
void client_ring_reset(struct client_ring *r);

/* The daemon is gone: from now on the ring has no room. Under the ring's lock. */
void client_ring_end(struct client_ring *r);

/* Begins to flush an ended ring: WQEs from `first` on, or as many as fit. Under the ring's lock. */
void client_ring_begin_flush(struct client_ring *r, uint32_t first);

static inline bool ring_has_room(const struct client_ring *r, uint32_t prod)
{
    return prod - atomic_load_explicit(&r->cons, memory_order_acquire) < r->size;
}

/* Why a ring without room takes no WQE: -ENOMEM: it is full; -EIO: the daemon is gone; -EINVAL: the
 * queue pair has no such queue. Under the ring's lock. */
static inline int ring_full_error(const struct client_ring *r)
{
    if (r->size)
        return -ENOMEM;
    return r->old_size ? -EIO : -EINVAL;
}

static inline void *ring_slot(const struct client_ring *r, uint32_t index)
{
    return r->entries + (size_t)(index & (r->size - 1)) * r->stride;
}

static inline void ring_publish(struct client_ring *r, uint32_t prod)
{
    r->prod = prod;
    atomic_store_explicit(r->shared_prod, prod, memory_order_release);
}

#endif
