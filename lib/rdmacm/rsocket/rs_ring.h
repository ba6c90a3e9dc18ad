/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a stream's two buffers; pure, no lock.
 *
 * The receive ring has two halves, which are announced to the peer in turn. The peer fills one
 * half before it uses the next, so that its bytes lie around the ring in order. Each byte is open
 * (the peer may write it), filled (it was written, the program has not read it) or free. A half is
 * announced again when it is free.
 *
 * The send ring holds copies of what is being sent; completions free them in order.
 */
#ifndef UROCE_RS_RING_H
#define UROCE_RS_RING_H

#include <stdbool.h>
#include <stdint.h>

struct rs_recv_ring {
    uint32_t size, half;
    uint32_t open, filled, free;
    uint32_t read;     /* offset of the first filled byte */
    uint32_t announce; /* offset of the half that is announced next */
};

/* size is even. The first half is announced by the hello. */
static inline void rs_recv_ring_init(struct rs_recv_ring *r, uint32_t size)
{
    uint32_t half = size / 2;

    *r = (struct rs_recv_ring){
        .size = size, .half = half, .open = half, .free = half, .announce = half};
}

/* The peer says that it has written n bytes. False: more than it may. */
static inline bool rs_recv_ring_fill(struct rs_recv_ring *r, uint32_t n)
{
    if (n > r->open)
        return false;
    r->open -= n;
    r->filled += n;
    return true;
}

/* How many bytes can be read at offset read without a break, at most max. */
static inline uint32_t rs_recv_ring_span(const struct rs_recv_ring *r, uint32_t skip, uint64_t max)
{
    uint32_t at = (r->read + skip) % r->size, n = r->filled - skip;

    if (n > r->size - at)
        n = r->size - at;
    return n < max ? n : (uint32_t)max;
}

static inline void rs_recv_ring_consume(struct rs_recv_ring *r, uint32_t n)
{
    r->read = (r->read + n) % r->size;
    r->filled -= n;
    r->free += n;
}

static inline bool rs_recv_ring_announce_due(const struct rs_recv_ring *r)
{
    return r->free >= r->half;
}

/* Returns the offset of the half that is open from now on. */
static inline uint32_t rs_recv_ring_announce(struct rs_recv_ring *r)
{
    uint32_t at = r->announce;

    r->announce = (at + r->half) % r->size;
    r->free -= r->half;
    r->open += r->half;
    return at;
}

struct rs_send_ring {
    uint32_t size, used;
    uint32_t head; /* offset of the first free byte */
};

/* One or two pieces of the ring; length[1] may be 0. */
struct rs_pieces {
    uint32_t offset[2], length[2];
};

static inline void rs_send_ring_init(struct rs_send_ring *r, uint32_t size)
{
    *r = (struct rs_send_ring){.size = size};
}

static inline uint32_t rs_send_ring_room(const struct rs_send_ring *r)
{
    return r->size - r->used;
}

/* n is at most the room. */
static inline struct rs_pieces rs_send_ring_take(struct rs_send_ring *r, uint32_t n)
{
    uint32_t first = r->size - r->head < n ? r->size - r->head : n;
    struct rs_pieces p = {{r->head, 0}, {first, n - first}};

    r->head = (r->head + n) % r->size;
    r->used += n;
    return p;
}

/* The oldest n bytes. */
static inline void rs_send_ring_release(struct rs_send_ring *r, uint32_t n)
{
    r->used -= n;
}

/* The newest n bytes: they were not sent. */
static inline void rs_send_ring_cancel(struct rs_send_ring *r, uint32_t n)
{
    r->head = (r->head + r->size - n) % r->size;
    r->used -= n;
}

#endif
