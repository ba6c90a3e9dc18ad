/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of slots of equal size; see frame_ring.h. */
#include "frame_ring.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

struct frame_ring {
    _Alignas(CACHE_LINE) _Atomic uint32_t head; /* the consumer's */
    _Alignas(CACHE_LINE) _Atomic uint32_t tail; /* the producer's */
    struct {
        uint32_t len;
        uint8_t bytes[FRAME_RING_ROOM];
    } slot[FRAME_RING_SLOTS];
};

_Static_assert((FRAME_RING_SLOTS & (FRAME_RING_SLOTS - 1)) == 0, "ring indices are masked");

/* Not malloc: pages of a new mapping are zero, and take no memory until they are written. */
struct frame_ring *frame_ring_create(void)
{
    void *r = mmap(NULL, sizeof(struct frame_ring), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (r == MAP_FAILED)
        return NULL;
    madvise(r, sizeof(struct frame_ring), MADV_DONTDUMP); /* bytes of applications */
    return r;
}

void frame_ring_destroy(struct frame_ring *r)
{
    if (r)
        munmap(r, sizeof(*r));
}

bool frame_ring_put(struct frame_ring *r, const uint8_t *frame, uint32_t len)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint32_t at = tail & (FRAME_RING_SLOTS - 1);

    if (len > FRAME_RING_ROOM ||
        tail - atomic_load_explicit(&r->head, memory_order_acquire) == FRAME_RING_SLOTS)
        return false;
    memcpy(r->slot[at].bytes, frame, len);
    r->slot[at].len = len;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

const uint8_t *frame_ring_peek(struct frame_ring *r, uint32_t *len)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint32_t at = head & (FRAME_RING_SLOTS - 1);

    if (head == atomic_load_explicit(&r->tail, memory_order_acquire))
        return NULL;
    *len = r->slot[at].len;
    return r->slot[at].bytes;
}

void frame_ring_pop(struct frame_ring *r)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

bool frame_ring_empty(const struct frame_ring *r)
{
    return atomic_load_explicit(&r->head, memory_order_relaxed) ==
           atomic_load_explicit(&r->tail, memory_order_relaxed);
}
