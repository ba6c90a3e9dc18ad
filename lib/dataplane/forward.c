/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of records, each a header and the frame's bytes behind it; see forward.h. */
#include "forward.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

/* The header of a frame. A record never wraps: one without a target fills the end of the ring when
 * the next record does not fit there. */
struct record {
    struct forward_target target;
    uint32_t len;  /* of the frame */
    uint32_t size; /* of the whole record: a multiple of CACHE_LINE */
};

struct forward_ring {
    CACHE_ALIGNED _Atomic uint32_t tail; /* the producer's: bytes written since the start */
    uint32_t head_seen;                  /* the producer's copy of head */
    CACHE_ALIGNED _Atomic uint32_t head; /* the consumer's: bytes released since the start */
    uint32_t taken;                      /* head after the next release */
    CACHE_ALIGNED uint8_t bytes[FORWARD_RING_BYTES];
};

_Static_assert((FORWARD_RING_BYTES & (FORWARD_RING_BYTES - 1)) == 0, "positions are masked");

struct forward_ring *forward_create(void)
{
    void *ring = mmap(NULL, sizeof(struct forward_ring), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return ring == MAP_FAILED ? NULL : ring;
}

void forward_destroy(struct forward_ring *ring)
{
    if (ring)
        munmap(ring, sizeof(*ring));
}

static struct record *record_at(struct forward_ring *ring, uint32_t position)
{
    return (struct record *)&ring->bytes[position & (FORWARD_RING_BYTES - 1)];
}

static bool has_room(struct forward_ring *ring, uint32_t tail, uint32_t size)
{
    if (tail + size - ring->head_seen <= FORWARD_RING_BYTES)
        return true;
    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    return tail + size - ring->head_seen <= FORWARD_RING_BYTES;
}

bool forward_put(struct forward_ring *ring, const struct forward_target *target,
                 const struct frame *f)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t size = (uint32_t)round_up(sizeof(struct record) + f->len, CACHE_LINE);
    uint32_t skip = FORWARD_RING_BYTES - (tail & (FORWARD_RING_BYTES - 1));
    struct record *r;

    if (f->len > FORWARD_FRAME_MAX)
        return false;
    if (skip >= size)
        skip = 0;
    if (!has_room(ring, tail, skip + size))
        return false;
    if (skip)
        *record_at(ring, tail) = (struct record){.size = skip};
    r = record_at(ring, tail + skip);
    *r = (struct record){.target = *target, .len = f->len, .size = size};
    memcpy(r + 1, f->data, f->len);
    atomic_store_explicit(&ring->tail, tail + skip + size, memory_order_release);
    return true;
}

bool forward_is_half_full(struct forward_ring *ring)
{
    return !has_room(ring, atomic_load_explicit(&ring->tail, memory_order_relaxed),
                     FORWARD_RING_BYTES / 2);
}

unsigned forward_take(struct forward_ring *ring, struct forward_target *target, struct frame *f,
                      unsigned n)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    unsigned count = 0;

    ring->taken = atomic_load_explicit(&ring->head, memory_order_relaxed);
    while (ring->taken != tail && count < n) {
        struct record *r = record_at(ring, ring->taken);

        if (!r->target.to) {
            ring->taken += r->size;
            continue;
        }
        if (!count)
            *target = r->target;
        if (r->target.to != target->to || r->target.for_host != target->for_host ||
            r->target.for_sniffers != target->for_sniffers)
            break;
        f[count++] = (struct frame){.data = (uint8_t *)(r + 1), .len = r->len};
        ring->taken += r->size;
    }
    return count;
}

void forward_release(struct forward_ring *ring)
{
    atomic_store_explicit(&ring->head, ring->taken, memory_order_release);
}

bool forward_empty(const struct forward_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) ==
           atomic_load_explicit(&ring->tail, memory_order_relaxed);
}
