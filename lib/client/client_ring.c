/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings of WQEs: checking, using and emptying them; see client_ring.h. */
#include "client_ring.h"

bool client_ring_fits(const struct client_ring_layout *l, uint32_t min_stride, uint64_t header,
                      uint64_t segment_bytes)
{
    return is_pow2(l->size) && l->size <= QUEUE_MAX_WR && l->max_sge <= QUEUE_MAX_SGE &&
           l->stride >= min_stride && l->off >= header && l->off <= segment_bytes &&
           (uint64_t)l->size * l->stride <= segment_bytes - l->off;
}

void client_ring_use(struct client_ring *r, const struct client_ring_layout *l, void *segment,
                     _Atomic uint32_t *prod)
{
    r->entries = (uint8_t *)segment + l->off;
    r->shared_prod = prod;
    r->size = l->size;
    r->stride = l->stride;
    r->max_sge = l->max_sge;
}

void client_ring_reset(struct client_ring *r)
{
    spin_lock(&r->lock);
    ring_publish(r, 0);
    atomic_store_explicit(&r->cons, 0, memory_order_relaxed);
    spin_unlock(&r->lock);
}

void client_ring_end(struct client_ring *r)
{
    if (r->size)
        r->old_size = r->size;
    r->size = 0;
}

void client_ring_begin_flush(struct client_ring *r, uint32_t first)
{
    uint32_t prod = atomic_load_explicit(r->shared_prod, memory_order_relaxed);

    r->flushing = true;
    r->next_flush = prod - first <= r->old_size ? first : prod - r->old_size;
}
