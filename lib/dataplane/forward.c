/* SPDX-License-Identifier: BSD-3-Clause */
#include "forward.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

/* In front of each frame. A record never wraps: the rest of the ring is skipped by a record of its
 * own, which has no frame. */
struct record {
    struct forward_note note;
    uint32_t len;  /* of the frame */
    uint32_t size; /* of it all: a multiple of CACHE_LINE */
};

struct forward_rings {
    CACHE_ALIGNED _Atomic uint32_t tail; /* the producer's: bytes ever put in */
    uint32_t head_seen;
    CACHE_ALIGNED _Atomic uint32_t head; /* the consumer's: bytes given back */
    uint32_t taken;
    CACHE_ALIGNED uint8_t bytes[HANDOVER_BYTES];
};

_Static_assert((HANDOVER_BYTES & (HANDOVER_BYTES - 1)) == 0, "positions are masked");

struct forward_rings *forward_create(void)
{
    void *h = mmap(NULL, sizeof(struct forward_rings), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return h == MAP_FAILED ? NULL : h;
}

void forward_destroy(struct forward_rings *h)
{
    if (h)
        munmap(h, sizeof(*h));
}

static struct record *record_at(struct forward_rings *h, uint32_t position)
{
    return (struct record *)&h->bytes[position & (HANDOVER_BYTES - 1)];
}

static bool has_room(struct forward_rings *h, uint32_t tail, uint32_t size)
{
    if (tail + size - h->head_seen <= HANDOVER_BYTES)
        return true;
    h->head_seen = atomic_load_explicit(&h->head, memory_order_acquire);
    return tail + size - h->head_seen <= HANDOVER_BYTES;
}

bool forward_put(struct forward_rings *h, const struct forward_note *note, const struct frame *f)
{
    uint32_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
    uint32_t size = (uint32_t)round_up(sizeof(struct record) + f->len, CACHE_LINE);
    uint32_t rest = HANDOVER_BYTES - (tail & (HANDOVER_BYTES - 1));
    struct record *r;

    if (f->len > HANDOVER_FRAME)
        return false;
    if (rest >= size)
        rest = 0;
    if (!has_room(h, tail, rest + size))
        return false;
    if (rest)
        *record_at(h, tail) = (struct record){.size = rest};
    r = record_at(h, tail + rest);
    *r = (struct record){.note = *note, .len = f->len, .size = size};
    memcpy(r + 1, f->data, f->len);
    atomic_store_explicit(&h->tail, tail + rest + size, memory_order_release);
    return true;
}

bool forward_is_tight(struct forward_rings *h)
{
    return !has_room(h, atomic_load_explicit(&h->tail, memory_order_relaxed), HANDOVER_BYTES / 2);
}

unsigned forward_take(struct forward_rings *h, struct forward_note *note, struct frame *f,
                      unsigned n)
{
    uint32_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);
    unsigned count = 0;

    h->taken = atomic_load_explicit(&h->head, memory_order_relaxed);
    while (h->taken != tail && count < n) {
        struct record *r = record_at(h, h->taken);

        if (!r->note.to) {
            h->taken += r->size;
            continue;
        }
        if (!count)
            *note = r->note;
        if (r->note.to != note->to || r->note.for_host != note->for_host ||
            r->note.for_sniffers != note->for_sniffers)
            break;
        f[count++] = (struct frame){.data = (uint8_t *)(r + 1), .len = r->len};
        h->taken += r->size;
    }
    return count;
}

void forward_release(struct forward_rings *h)
{
    atomic_store_explicit(&h->head, h->taken, memory_order_release);
}

bool forward_empty(const struct forward_rings *h)
{
    return atomic_load_explicit(&h->head, memory_order_relaxed) ==
           atomic_load_explicit(&h->tail, memory_order_relaxed);
}
