/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that an application shares: rings, indices, doorbells, all of arbitrary content.
 * Blocks are exactly as large as they must be, so that the sanitizer reports an access beyond;
 * resulting lengths are within their limits. The first byte selects the part.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comp_queue.h"
#include "doorbell.h"
#include "fuzz.h"
#include "work_queue.h"
#include "wqe.h"

struct input {
    const uint8_t *data;
    size_t size;
};

/* The next n bytes of the input; zeros behind its end. */
static void take_bytes(struct input *in, void *to, size_t n)
{
    size_t have = min_of(n, in->size);

    memset(to, 0, n);
    if (have)
        memcpy(to, in->data, have);
    in->data += have;
    in->size -= have;
}

static uint32_t take_u32(struct input *in)
{
    uint32_t v;

    take_bytes(in, &v, sizeof(v));
    return v;
}

static uint8_t take_u8(struct input *in)
{
    uint8_t v;

    take_bytes(in, &v, sizeof(v));
    return v;
}

/* ---- send and receive queues ---- */

struct ring {
    struct work_queue q;
    _Atomic uint32_t prod;
    uint8_t *bytes;
};

static void ring_init(struct ring *r, struct input *in, bool send)
{
    uint32_t max_sge = take_u8(in) % (QUEUE_MAX_SGE + 1);
    uint32_t max_inline = take_u8(in) * 2u;
    uint32_t size = 1u << take_u8(in) % 4;
    uint32_t stride = send ? sqe_stride(max_sge, max_inline) : rqe_stride(max_sge);
    uint32_t cons = take_u32(in);
    int8_t ahead = (int8_t)take_u8(in);

    r->bytes = malloc((size_t)size * stride);
    REQUIRE(r->bytes);
    take_bytes(in, r->bytes, (size_t)size * stride);
    atomic_store(&r->prod, cons + (uint32_t)ahead);
    r->q = (struct work_queue){.ring = r->bytes,
                               .prod = &r->prod,
                               .size = size,
                               .stride = stride,
                               .max_sge = max_sge,
                               .max_inline = max_inline,
                               .cons = cons};
}

/* The sum of their lengths. */
static uint64_t check_sges(const struct sge *sge, uint32_t n, uint32_t max)
{
    uint64_t total = 0;

    REQUIRE(n <= max);
    for (uint32_t i = 0; i < n; i++)
        total += sge[i].length;
    return total;
}

static void check_send(struct work_queue *q, uint64_t wr_id)
{
    struct send_wqe *w = malloc(sizeof(*w));
    int err;

    REQUIRE(w);
    err = send_queue_take(q, w);
    REQUIRE(w->h.wr_id == wr_id && (!err || err == -EINVAL));
    if (!err) {
        bool is_inline = w->h.flags & SQE_INLINE, here = w->h.flags & SQE_SGE_IN_HEADER;

        REQUIRE(w->h.opcode <= SQE_ATOMIC_WRITE && !(w->h.flags & 0x40));
        REQUIRE(!here || (sqe_has_free_words(w->h.opcode) && w->h.num_sge == 1));
        REQUIRE(is_inline ? !w->h.num_sge : !w->h.inline_len);
        REQUIRE(w->h.inline_len <= q->max_inline);
        REQUIRE(w->h.num_sge <= q->max_sge);
    }
    free(w);
}

static void check_recv(struct work_queue *q, uint64_t wr_id)
{
    struct recv_wqe *w = malloc(sizeof(*w));
    int err;

    REQUIRE(w);
    err = recv_queue_take(q, w);
    REQUIRE(w->h.wr_id == wr_id && (!err || err == -EINVAL));
    if (!err) {
        uint64_t total = check_sges(w->sge, w->h.num_sge, q->max_sge);

        REQUIRE(recv_wqe_room(w) == (total < UINT32_MAX ? total : UINT32_MAX));
    }
    free(w);
}

static void try_work_queue(struct input *in, bool send)
{
    struct ring r;
    uint32_t index;
    int n;

    ring_init(&r, in, send);
    index = r.q.cons;
    n = work_queue_pending(&r.q);
    REQUIRE(n == -EOVERFLOW || (n >= 0 && (uint32_t)n <= r.q.size));
    REQUIRE((n < 0) == (atomic_load(&r.prod) - index > r.q.size));
    for (; n > 0; n--, index++) {
        uint64_t wr_id;

        memcpy(&wr_id, work_queue_slot(r.bytes, r.q.size, r.q.stride, index), sizeof(wr_id));
        if (take_u8(in) == 0xFF)
            REQUIRE(work_queue_take_id(&r.q) == wr_id);
        else if (send)
            check_send(&r.q, wr_id);
        else
            check_recv(&r.q, wr_id);
        REQUIRE(r.q.cons == index + 1 && work_queue_pending(&r.q) == n - 1);
    }
    free(r.bytes);
}

/* ---- WQEs of one shape, which are read before they are taken ---- */

/* What several SGEs are is what the general path makes of them. */
static void check_gathered(const struct work_queue *q, const void *entry)
{
    struct send_wqe *w = malloc(sizeof(*w)), *full = malloc(sizeof(*full));
    struct work_queue copy = *q;
    uint64_t shape, len = 0;

    REQUIRE(w && full);
    shape = send_wqe_copy_gathered(entry, q->max_sge, WQE_FENCE, w);
    if (shape != MESSAGE_NOT_SIMPLE) {
        REQUIRE(!send_queue_take(&copy, full));
        REQUIRE(MESSAGE_OP(shape) == full->h.opcode && MESSAGE_OP(shape) <= SQE_SEND_IMM);
        REQUIRE(!(shape & MESSAGE_INLINE) && !w->h.inline_len);
        REQUIRE(w->h.num_sge == full->h.num_sge && w->h.num_sge > 1);
        REQUIRE(!memcmp(w->sge, full->sge, w->h.num_sge * sizeof(*w->sge)));
        for (unsigned i = 0; i < w->h.num_sge; i++)
            len += w->sge[i].length;
        REQUIRE(MESSAGE_LEN(shape) == len);
    }
    free(w);
    free(full);
}

static void check_message(const struct work_queue *q, const void *entry)
{
    struct send_wqe *w = malloc(sizeof(*w));
    uint64_t shape;

    REQUIRE(w);
    shape = send_wqe_copy_message(entry, q->max_inline, 0, w);
    if (shape != MESSAGE_NOT_SIMPLE) {
        bool is_inline = shape & MESSAGE_INLINE;

        REQUIRE(MESSAGE_OP(shape) <= SQE_SEND_IMM && MESSAGE_OP(shape) == w->h.opcode);
        REQUIRE(is_inline ? !w->h.num_sge : w->h.num_sge == 1 && !w->h.inline_len);
        REQUIRE(MESSAGE_LEN(shape) == (is_inline ? w->h.inline_len : w->sge->length));
        REQUIRE(!is_inline || MESSAGE_LEN(shape) <= q->max_inline);
    }
    free(w);
}

/* Into one SGE or into several, with a fence or without: as the general path takes it. */
static void check_read(const struct work_queue *q, const void *entry, bool scattered)
{
    struct send_wqe *w = malloc(sizeof(*w)), *full = malloc(sizeof(*full));
    struct work_queue copy = *q;
    uint32_t len;
    uint64_t sum = 0;

    REQUIRE(w && full);
    /* Of a queue without SGEs no WQE is taken in this way (work_queue.in_batches). */
    if (q->max_sge && send_wqe_copy_read(entry, scattered, q->max_sge, WQE_FENCE, w, &len)) {
        REQUIRE(!send_queue_take(&copy, full));
        REQUIRE(w->h.opcode == SQE_READ && full->h.opcode == SQE_READ);
        REQUIRE(!(w->h.flags & ~(SQE_SIGNALED | SQE_FENCE | (scattered ? 0 : SQE_SGE_IN_HEADER))));
        REQUIRE(!w->h.inline_len);
        REQUIRE(scattered ? w->h.num_sge > 1 : w->h.num_sge == 1);
        REQUIRE(w->h.num_sge == full->h.num_sge);
        REQUIRE(!memcmp(w->sge, full->sge, w->h.num_sge * sizeof(*w->sge)));
        for (unsigned i = 0; i < w->h.num_sge; i++)
            sum += w->sge[i].length;
        REQUIRE(len == sum && len <= MESSAGE_MAX);
    }
    free(w);
    free(full);
}

/* ATOMIC WRITEs and FLUSHes are what the general path makes of them. */
static void check_answered(const struct work_queue *q, const void *entry)
{
    struct send_wqe *w = malloc(sizeof(*w)), *full = malloc(sizeof(*full));
    struct work_queue copy = *q;
    bool is_write, is_flush;

    REQUIRE(w && full);
    is_write = q->max_sge && send_wqe_copy_atomic_write(entry, q->max_inline, WQE_FENCE, w);
    is_flush = !is_write && send_wqe_copy_flush(entry, WQE_FENCE, w);
    if (is_write || is_flush) {
        REQUIRE(!send_queue_take(&copy, full));
        REQUIRE(!memcmp(&w->h, &full->h, offsetof(struct sqe, words)));
        REQUIRE(w->h.opcode == (is_write ? SQE_ATOMIC_WRITE : SQE_FLUSH));
    }
    if (is_write && w->h.flags & SQE_INLINE)
        REQUIRE(w->h.inline_len == 8 && !memcmp(w->inline_data, full->inline_data, 8));
    else if (is_write)
        REQUIRE(w->sge->length == 8 && !memcmp(w->sge, full->sge, sizeof(*w->sge)));
    else if (is_flush)
        REQUIRE(!memcmp(w->h.words, full->h.words, sizeof(w->h.words[0]) * 2));
    free(w);
    free(full);
}

/* A WQE that is only counted is one that the general path takes, too. */
static void check_counted(const struct work_queue *q, uint64_t wr_id)
{
    struct recv_wqe *full = malloc(sizeof(*full));
    struct work_queue copy = *q;

    REQUIRE(full && !recv_queue_take(&copy, full) && full->h.wr_id == wr_id);
    free(full);
}

static void try_peeks(struct input *in, bool send)
{
    struct ring r;
    struct ring_cursor at;

    ring_init(&r, in, send);
    if (r.q.stride < (send ? sqe_stride(1, 0) : rqe_stride(1))) { /* the device makes none */
        free(r.bytes);
        return;
    }
    at = ring_cursor_at(r.bytes, r.q.size, r.q.stride, r.q.cons);
    for (uint32_t i = 0; i <= r.q.size; i++, r.q.cons++, ring_cursor_next(&at)) {
        struct recv_buffer buffer;

        REQUIRE(at.at == work_queue_slot(r.bytes, r.q.size, r.q.stride, r.q.cons));
        if (send) {
            REQUIRE(send_wqe_peek(&r.q).opcode == ((struct sqe *)at.at)->opcode);
            REQUIRE(send_wqe_peek(&r.q).flags == ((struct sqe *)at.at)->flags);
            check_message(&r.q, at.at);
            check_read(&r.q, at.at, false);
            check_read(&r.q, at.at, true);
            check_gathered(&r.q, at.at);
            check_answered(&r.q, at.at);
        } else {
            const struct sge *sge = (const void *)((const struct rqe *)at.at + 1);

            /* Of any length: messages have a limit, the room for one has none. */
            if (recv_wqe_peek(&r.q, r.q.cons, &buffer))
                REQUIRE(buffer.length == sge->length && buffer.lkey == sge->lkey);
            if (r.q.max_sge && recv_wqe_peek_id(&r.q, r.q.cons, &buffer.wr_id))
                check_counted(&r.q, buffer.wr_id);
        }
    }
    free(r.bytes);
}

/* ---- completion queues ---- */

static void try_comp_queue(struct input *in)
{
    uint32_t size = 1u << take_u8(in) % 5, lanes = 1 + take_u8(in) % 3;
    struct cq_shared *shared = aligned_alloc(64, cq_segment_bytes(size, lanes));
    struct comp_queue cq;

    REQUIRE(shared);
    memset(shared, 0, cq_segment_bytes(size, lanes));
    comp_queue_init(&cq, shared, size, lanes);
    while (in->size) {
        uint8_t what = take_u8(in);
        uint32_t lane = what % lanes;
        struct cq_lane *ring = cq_lane_at(shared, size, lane);
        uint32_t prod = cq.lane[lane].prod;
        struct cqe e = {.wr_id = prod, .status = what & 0x10};

        if (what & 0x80)
            atomic_store(&ring->cons, what & 0x40 ? take_u32(in) : prod - (what >> 2) % 8);
        if (what & 0x20)
            atomic_store(&shared->arm, take_u32(in));
        if (!cq_post(&cq, lane, &e, what & 0x08)) {
            const struct cqe *posted = &ring->entry[prod & (size - 1)];

            REQUIRE(!cq.lane[lane].overrun && atomic_load(&posted->seq) == prod + 1);
            REQUIRE(posted->wr_id == prod && cq.lane[lane].prod == prod + 1);
        } else {
            REQUIRE(cq.lane[lane].overrun && cq.lane[lane].prod == prod);
        }
        if (what & 0x04)
            cq_take_event(&cq, lane);
    }
    free(shared);
}

static struct cq_shared *make_segment(uint32_t size, uint32_t lanes)
{
    struct cq_shared *shared = aligned_alloc(64, cq_segment_bytes(size, lanes));

    REQUIRE(shared);
    return memset(shared, 0, cq_segment_bytes(size, lanes));
}

/* As many as there is room for, at most `want`. */
static void post_batch(struct comp_queue *cq, uint32_t lane, uint32_t want, bool solicited)
{
    uint32_t room = cq_room(cq, lane, want);
    struct cq_batch b = cq_batch_begin(cq, lane);
    struct cqe *e;

    REQUIRE(room <= want && room <= cq->size);
    for (uint32_t n = room; n; n--) {
        e = cq_batch_next(&b);
        REQUIRE(e && e == cq_batch_entry(&b) && e - b.entry < cq->size);
        e->wr_id = b.prod;
        e->status = WC_SUCCESS;
        cq_batch_give(&b, e);
    }
    cq_batch_end(cq, lane, &b, solicited);
}

/* Both ends of a queue, in segments that move; the other end writes whatever it likes. */
struct moving {
    struct comp_queue cq;
    struct cq_reader reader;
    struct cq_shared *segment;
};

static void write_anywhere(struct moving *m, struct input *in)
{
    size_t bytes = cq_segment_bytes(m->cq.size, m->cq.lanes), at = take_u32(in) % bytes;
    size_t n = take_u8(in) % 16;

    take_bytes(in, (uint8_t *)m->segment + at, min_of(n, bytes - at));
}

static void move_queue(struct moving *m, uint32_t size)
{
    struct cq_shared *fresh = make_segment(size, m->cq.lanes);
    int err = comp_queue_move(&m->cq, fresh, size);

    REQUIRE(!err || err == -EINVAL);
    if (!err)
        cq_reader_move(&m->reader, fresh, size);
    free(err ? fresh : m->segment);
    m->segment = m->cq.shared;
}

static void read_some(struct moving *m, uint8_t n)
{
    const struct cqe *e;

    while (n-- && (e = cq_reader_peek(&m->reader))) {
        REQUIRE((const uint8_t *)(e + 1) <=
                (uint8_t *)m->segment + cq_segment_bytes(m->cq.size, m->cq.lanes));
        cq_reader_advance(&m->reader);
        REQUIRE(m->reader.next_lane < m->reader.lanes);
    }
}

enum { MOVING_BATCH, MOVING_READ, MOVING_ARM, MOVING_MOVE, MOVING_WRITE, MOVING_KINDS };

static void try_moving_queue(struct input *in)
{
    uint32_t size = 1u << take_u8(in) % 5, lanes = 1 + take_u8(in) % 3;
    struct moving m = {.segment = make_segment(size, lanes)};

    comp_queue_init(&m.cq, m.segment, size, lanes);
    m.reader = (struct cq_reader){.shared = m.segment, .size = size, .lanes = lanes};
    while (in->size) {
        uint8_t what = take_u8(in), n = take_u8(in);
        uint32_t lane = n % lanes;

        switch (what % MOVING_KINDS) {
        case MOVING_BATCH:
            post_batch(&m.cq, lane, n / 4, what & 0x80);
            cq_take_event(&m.cq, lane);
            break;
        case MOVING_READ:
            read_some(&m, n);
            cq_lane_is_empty(&m.cq, lane);
            break;
        case MOVING_ARM:
            cq_reader_arm(&m.reader, n % 4);
            if (what & 0x80)
                comp_queue_disarm(&m.cq);
            break;
        case MOVING_MOVE:
            move_queue(&m, 1u << n % 6);
            break;
        default:
            write_anywhere(&m, in);
            break;
        }
    }
    free(m.segment);
}

/* ---- doorbells ---- */

static void try_doorbells(struct input *in)
{
    struct doorbells *db = aligned_alloc(64, sizeof(*db));
    uint32_t max = 1 + take_u8(in);
    uint32_t *slot = malloc(max * sizeof(*slot));

    REQUIRE(db && slot);
    memset(db, 0, sizeof(*db));
    while (in->size) {
        uint32_t where = take_u32(in), n;
        uint64_t *words = (uint64_t *)db;

        take_bytes(in, &words[where % (sizeof(*db) / sizeof(*words))], sizeof(*words));
        n = doorbell_take(db, slot, max);
        REQUIRE(n <= max);
        while (n > 0)
            REQUIRE(slot[--n] < DB_SLOTS);
    }
    /* Without new doorbells, the worker finds all pending ones, in bounded steps. */
    for (unsigned calls = 0; doorbell_pending(db); calls++) {
        doorbell_take(db, slot, max);
        REQUIRE(calls <= DB_SLOTS);
    }
    free(slot);
    free(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    switch (take_u8(&in) % 7) {
    case 0:
        try_work_queue(&in, true);
        break;
    case 1:
        try_work_queue(&in, false);
        break;
    case 2:
        try_comp_queue(&in);
        break;
    case 3:
        try_doorbells(&in);
        break;
    case 4:
        try_peeks(&in, true);
        break;
    case 5:
        try_peeks(&in, false);
        break;
    default:
        try_moving_queue(&in);
        break;
    }
    return 0;
}
