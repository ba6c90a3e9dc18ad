/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WQEs of the most frequent shapes, decoded without being taken: send WQEs of one SGE or of inline
 * data, receive WQEs of one SGE. work_queue.c decodes all others. Each word of a WQE is loaded once
 * (volatile), because the application may rewrite it: a race corrupts its own request only. Pure;
 * the worker that owns the queue.
 */
#ifndef UROCE_WQE_H
#define UROCE_WQE_H

#include "mem_memcpy.h"
#include "work_queue.h"

/* A position in a ring that is walked in order. */
struct ring_cursor {
    uint8_t *at, *begin, *end;
    size_t stride;
};

static inline struct ring_cursor ring_cursor_at(const uint8_t *ring, uint32_t size, uint32_t stride,
                                                uint32_t index)
{
    uint8_t *begin = (uint8_t *)(uintptr_t)ring;

    return (struct ring_cursor){.at = begin + (size_t)(index & (size - 1)) * stride,
                                .begin = begin,
                                .end = begin + (size_t)size * stride,
                                .stride = stride};
}

static inline void ring_cursor_next(struct ring_cursor *c)
{
    c->at += c->stride;
    if (c->at == c->end)
        c->at = c->begin;
}

/* ---- send WQEs ---- */

/* The WQE at `index`, which is pending, where it lies. */
static inline const volatile struct sqe *send_wqe_at(const struct work_queue *sq, uint32_t index)
{
    return work_queue_entry(sq, index);
}

struct sqe_head {
    uint8_t opcode, flags;
};

/* Of the next WQE, which is pending. */
static inline struct sqe_head send_wqe_peek(const struct work_queue *sq)
{
    const volatile struct sqe *next = send_wqe_at(sq, sq->cons);

    return (struct sqe_head){next->opcode, next->flags};
}

/* What is the SGE in the header of a WQE, which is pending, if it has one there. */
static inline struct sge send_wqe_peek_sge(const struct work_queue *sq, uint32_t index)
{
    const volatile struct sqe *w = send_wqe_at(sq, index);

    return (struct sge){.addr = w->sge.addr, .lkey = w->sge.lkey};
}

/* The address handle that a datagram's WQE names, which is pending. */
static inline uint32_t send_wqe_peek_ah(const struct work_queue *sq, uint32_t index)
{
    return send_wqe_at(sq, index)->ud.ah;
}

/* The SRQ that a WQE of XRC names. */
static inline uint32_t send_wqe_srqn(const void *entry)
{
    return ((const volatile struct sqe *)entry)->remote_srqn;
}

/* Two words of a WQE. The second word of the first pair has opcode, flags and number of SGEs in its
 * low bytes, the second word of the second pair has R_Key and inline length. */
typedef uint64_t wqe_pair __attribute__((vector_size(16), aligned(8), may_alias));

#define WQE_ONE_SGE     UINT64_C(0x010000)
#define WQE_SGE_HERE    UINT64_C(0x011000) /* one SGE, in the header */
#define WQE_SGES        UINT64_C(0xFF0000)
#define WQE_INLINE      UINT64_C(0x000800)
#define WQE_FENCE       UINT64_C(0x000100)
#define WQE_FREE_FLAGS  UINT64_C(0x000600) /* signaled, solicited: any shape may have them */
#define WQE_SGE_MASK    (UINT64_C(0xFFFFFC) & ~WQE_FREE_FLAGS)
#define WQE_INLINE_MASK (UINT64_C(0x00FFFC) & ~WQE_FREE_FLAGS)
#define WQE_READ_MASK   (UINT64_C(0xFFFFFF) & ~((uint64_t)SQE_SIGNALED << 8))

_Static_assert(SQE_WRITE == 0 && SQE_WRITE_IMM == 1 && SQE_SEND == 2 && SQE_SEND_IMM == 3,
               "the opcodes that WQE_SGE_MASK leaves free");
_Static_assert((SQE_SIGNALED | SQE_SOLICITED) << 8 == WQE_FREE_FLAGS, "");
_Static_assert((1 << 16 | SQE_SGE_IN_HEADER << 8) == WQE_SGE_HERE &&
                   offsetof(struct sqe, sge) == 2 * sizeof(wqe_pair),
               "the third pair");
_Static_assert(SQE_INLINE << 8 == WQE_INLINE && SQE_FENCE << 8 == WQE_FENCE, "");
_Static_assert(offsetof(struct sqe, opcode) == 8 && offsetof(struct sqe, flags) == 9 &&
                   offsetof(struct sqe, num_sge) == 10,
               "");

static inline void wqe_copy_sge(const void *entry, struct send_wqe *w)
{
    const volatile uint64_t *sge = entry;
    uint64_t addr = sge[sizeof(struct sqe) / 8], len = sge[sizeof(struct sqe) / 8 + 1];

    memcpy(w->sge, &addr, sizeof(addr));
    memcpy(&w->sge->length, &len, sizeof(len)); /* and the L_Key */
}

static inline void wqe_copy_sge_here(const volatile wqe_pair *from, struct send_wqe *w)
{
    wqe_pair sge = from[2];

    memcpy(w->sge, &sge, sizeof(sge));
}

/*
 * A message's shape: length, opcode, and whether it is solicited or inline. Messages of one shape
 * have the same headers, apart from PSN, address, R_Key and immediate data.
 */
#define MESSAGE_LEN(shape) ((uint32_t)((shape) >> 32))
#define MESSAGE_MASK       (SQE_SOLICITED << 8 | SQE_INLINE << 8 | 0xFF)
#define MESSAGE_SOLICITED  (SQE_SOLICITED << 8)
#define MESSAGE_INLINE     (SQE_INLINE << 8)
#define MESSAGE_OP(shape)  ((shape)&0xFF)
#define MESSAGE_NOT_SIMPLE UINT64_MAX
#define MESSAGE_NONE       UINT64_C(0xFF) /* an opcode that no message has */

/* Copies a SEND or WRITE, perhaps with immediate data, of one SGE or inline. The words that belong
 * to other operations are not copied. ignored: 0, or WQE_FENCE where a fence has nothing to wait
 * for; a constant. Returns its shape, or MESSAGE_NOT_SIMPLE. */
ALWAYS_INLINE uint64_t send_wqe_copy_message(const void *entry, uint32_t max_inline,
                                             uint64_t ignored, struct send_wqe *w)
{
    const volatile wqe_pair *from = entry;
    wqe_pair *to = (wqe_pair *)&w->h, a = from[0], b = from[1];
    uint64_t word = a[1], len;

    if (likely((word & (WQE_SGE_MASK & ~ignored)) == WQE_SGE_HERE)) {
        wqe_copy_sge_here(from, w);
        len = w->sge->length;
        b &= (wqe_pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    } else if ((word & (WQE_SGE_MASK & ~ignored)) == WQE_ONE_SGE) {
        wqe_copy_sge(entry, w);
        len = w->sge->length;
        b &= (wqe_pair){UINT64_MAX, UINT32_MAX};
    } else if ((word & (WQE_INLINE_MASK & ~ignored)) == WQE_INLINE && b[1] >> 32 <= max_inline) {
        len = b[1] >> 32;
        a &= (wqe_pair){UINT64_MAX, ~WQE_SGES}; /* no SGEs */
        mem_memcpy(w->inline_data, (const uint8_t *)entry + sizeof(struct sqe), (uint32_t)len);
    } else {
        return MESSAGE_NOT_SIMPLE;
    }
    to[0] = a;
    to[1] = b;
    return len << 32 | (word & MESSAGE_MASK);
}

/* The same of a datagram, with where it goes. A fence has nothing to wait for. */
static inline uint64_t send_wqe_copy_datagram(const void *entry, uint32_t max_inline,
                                              struct send_wqe *w)
{
    _Static_assert(offsetof(struct sqe, ud) == 2 * sizeof(wqe_pair), "the third pair");
    ((wqe_pair *)&w->h)[2] = ((const volatile wqe_pair *)entry)[2];
    return send_wqe_copy_message(entry, max_inline, WQE_FENCE, w);
}

/* Copies n SGEs; how long they are together. */
static inline uint64_t wqe_copy_sges(const void *entry, uint32_t n, struct send_wqe *w)
{
    const volatile uint64_t *sge = (const volatile uint64_t *)entry + sizeof(struct sqe) / 8;
    uint64_t len = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t addr = sge[2 * i], second = sge[2 * i + 1];

        memcpy(&w->sge[i], &addr, sizeof(addr));
        memcpy(&w->sge[i].length, &second, sizeof(second)); /* and the L_Key */
        len += w->sge[i].length;
    }
    return len;
}

/* The same of a message of several SGEs: the shape has their length together. */
static inline uint64_t send_wqe_copy_gathered(const void *entry, uint32_t max_sge, uint64_t ignored,
                                              struct send_wqe *w)
{
    const volatile wqe_pair *from = entry;
    wqe_pair *to = (wqe_pair *)&w->h, a = from[0], b = from[1];
    uint64_t word = a[1], len;
    uint32_t n = word >> 16 & 0xFF;

    if ((word & (WQE_SGE_MASK & ~ignored & ~WQE_SGES)) || n < 2 || n > max_sge)
        return MESSAGE_NOT_SIMPLE;
    len = wqe_copy_sges(entry, n, w);
    if (len > MESSAGE_MAX)
        return MESSAGE_NOT_SIMPLE;
    to[0] = a;
    to[1] = b & (wqe_pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    return len << 32 | (word & MESSAGE_MASK);
}

/* Copies a READ into one SGE, or scattered: into several. *len: of all. ignored: 0, or WQE_FENCE
 * where a fence has nothing to wait for. False: the WQE is none. */
ALWAYS_INLINE bool send_wqe_copy_read(const void *entry, bool scattered, uint32_t max_sge,
                                      uint64_t ignored, struct send_wqe *w, uint32_t *len)
{
    const volatile wqe_pair *from = entry;
    wqe_pair *to = (wqe_pair *)&w->h, a = from[0], b = from[1];
    uint64_t word = a[1] & (WQE_READ_MASK & ~ignored), total;
    uint32_t n = word >> 16 & 0xFF;

    if (scattered) {
        if ((word & ~WQE_SGES) != SQE_READ || n < 2 || n > max_sge)
            return false;
        total = wqe_copy_sges(entry, n, w);
    } else {
        if (likely(word == (WQE_SGE_HERE | SQE_READ)))
            wqe_copy_sge_here(from, w);
        else if (word == (WQE_ONE_SGE | SQE_READ))
            wqe_copy_sge(entry, w);
        else
            return false;
        total = w->sge->length;
    }
    to[0] = a;
    to[1] = b & (wqe_pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    *len = (uint32_t)total;
    return total <= MESSAGE_MAX;
}

/* Copies an atomic into one SGE of its 8 bytes; false: the WQE is none. ignored: as above. */
static inline bool send_wqe_copy_atomic(const void *entry, uint64_t ignored, struct send_wqe *w)
{
    const volatile wqe_pair *from = entry;
    wqe_pair *to = (wqe_pair *)&w->h, a = from[0], b = from[1];
    uint64_t op = (a[1] & (WQE_READ_MASK & ~ignored)) ^ WQE_ONE_SGE;

    _Static_assert(offsetof(struct sqe, atomic) == 2 * sizeof(wqe_pair), "the third pair");
    if (op != SQE_CMP_SWP && op != SQE_FETCH_ADD)
        return false;
    wqe_copy_sge(entry, w);
    to[0] = a;
    to[1] = b & (wqe_pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    to[2] = from[2];
    return w->sge->length == sizeof(uint64_t);
}

/* An ATOMIC WRITE or a FLUSH, as far as its opcode tells. */
static inline bool send_wqe_is_write_or_flush(const void *entry)
{
    uint8_t op = ((const volatile struct sqe *)entry)->opcode;

    return op == SQE_ATOMIC_WRITE || op == SQE_FLUSH;
}

/* Copies an ATOMIC WRITE of 8 bytes, of one SGE or inline; false: the WQE is none. max_inline: of
 * the queue. ignored: as above. */
static inline bool send_wqe_copy_atomic_write(const void *entry, uint32_t max_inline,
                                              uint64_t ignored, struct send_wqe *w)
{
    const volatile wqe_pair *from = entry;
    wqe_pair *to = (wqe_pair *)&w->h, a = from[0], b = from[1];
    uint64_t word = a[1] & (WQE_READ_MASK & ~ignored);

    if (word == (WQE_ONE_SGE | SQE_ATOMIC_WRITE)) {
        wqe_copy_sge(entry, w);
        if (w->sge->length != sizeof(uint64_t))
            return false;
        b &= (wqe_pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    } else if ((word & ~WQE_SGES) == (WQE_INLINE | SQE_ATOMIC_WRITE)) {
        if (b[1] >> 32 != sizeof(uint64_t) || max_inline < sizeof(uint64_t))
            return false;
        a &= (wqe_pair){UINT64_MAX, ~WQE_SGES}; /* no SGEs */
        memcpy(w->inline_data, (const uint8_t *)entry + sizeof(struct sqe), sizeof(uint64_t));
    } else {
        return false;
    }
    to[0] = a;
    to[1] = b;
    return true;
}

/* Copies a FLUSH; false: the WQE is none, or of more bytes than a packet can name. ignored: as
 * above. */
static inline bool send_wqe_copy_flush(const void *entry, uint64_t ignored, struct send_wqe *w)
{
    const volatile wqe_pair *from = entry;
    wqe_pair *to = (wqe_pair *)&w->h, a = from[0];

    _Static_assert(offsetof(struct sqe, flush) == 2 * sizeof(wqe_pair), "the third pair");
    if ((a[1] & (WQE_READ_MASK & ~ignored)) != SQE_FLUSH)
        return false;
    to[0] = a;
    to[1] = from[1] & (wqe_pair){UINT64_MAX, UINT32_MAX}; /* no inline bytes */
    to[2] = from[2];
    return w->h.flush.length <= UINT32_MAX;
}

/* ---- receive WQEs ---- */

struct recv_buffer {
    uint64_t wr_id, addr;
    uint32_t length, lkey;
};

/* The WQE at `index`, which is pending; false: it has not exactly one SGE. */
static inline bool recv_wqe_peek(const struct work_queue *rq, uint32_t index, struct recv_buffer *r)
{
    const volatile uint64_t *entry = work_queue_entry(rq, index);
    uint64_t num_sge, sge;

    r->wr_id = entry[0];
    num_sge = entry[1];
    r->addr = entry[2];
    sge = entry[3];
    r->length = (uint32_t)sge;
    r->lkey = (uint32_t)(sge >> 32);
    return likely((uint32_t)num_sge == 1);
}

/* The SGEs of the WQE at `index`, if it has several: how many. 0: it has not, or too many. */
static inline unsigned recv_wqe_copy_sges(const struct work_queue *rq, uint32_t index,
                                          uint64_t *wr_id, struct sge *to)
{
    const volatile uint64_t *entry = work_queue_entry(rq, index);
    uint32_t n = (uint32_t)entry[1];

    *wr_id = entry[0];
    if (n < 2 || n > rq->max_sge)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t addr = entry[2 + 2 * i], second = entry[3 + 2 * i];

        memcpy(&to[i], &addr, sizeof(addr));
        memcpy(&to[i].length, &second, sizeof(second)); /* and the L_Key */
    }
    return n;
}

/* Of a message that the WQE only counts: its id. False: it has more than one SGE. Here and
 * above WQEs of the queue have room for an SGE. */
static inline bool recv_wqe_peek_id(const struct work_queue *rq, uint32_t index, uint64_t *wr_id)
{
    const volatile uint64_t *entry = work_queue_entry(rq, index);
    uint32_t num_sge;

    *wr_id = entry[0];
    num_sge = (uint32_t)entry[1];
    return num_sge <= 1;
}

#endif
