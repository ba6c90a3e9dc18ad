/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "work_queue.h"

#define SIZE       4u
#define MAX_SGE    3u
#define MAX_INLINE 40u

/* A ring in a heap block of exactly its size, so that the sanitizer sees a read beyond it. */
struct ring {
    struct work_queue q;
    uint8_t *bytes;
    _Atomic uint32_t prod;
};

static void ring_init(struct ring *r, uint32_t stride, uint32_t start)
{
    size_t bytes = (size_t)SIZE * stride;

    r->bytes = aligned_alloc(64, round_up(bytes, 64));
    assert_non_null(r->bytes);
    memset(r->bytes, 0, bytes);
    atomic_store(&r->prod, start);
    r->q = (struct work_queue){.ring = r->bytes,
                               .prod = &r->prod,
                               .size = SIZE,
                               .stride = stride,
                               .max_sge = MAX_SGE,
                               .max_inline = MAX_INLINE,
                               .cons = start};
}

static void post_at(struct ring *r, const void *entry, size_t bytes)
{
    uint32_t prod = atomic_load_explicit(&r->prod, memory_order_relaxed);

    memcpy(work_queue_slot(r->bytes, SIZE, r->q.stride, prod), entry, bytes);
    atomic_store_explicit(&r->prod, prod + 1, memory_order_release);
}

static int take_send(struct ring *r, const struct send_wqe *entry, struct send_wqe *out)
{
    memset(out, 0xEE, sizeof(*out));
    post_at(r, entry, r->q.stride);
    assert_int_equal(work_queue_pending(&r->q), 1);
    return send_queue_take(&r->q, out);
}

static void test_pending(void **state)
{
    struct ring r;

    ring_init(&r, 64, UINT32_MAX - 1);
    assert_int_equal(work_queue_pending(&r.q), 0);
    atomic_store(&r.prod, 2); /* over the wrap */
    assert_int_equal(work_queue_pending(&r.q), 4);
    atomic_store(&r.prod, 3);
    assert_int_equal(work_queue_pending(&r.q), -EOVERFLOW);
    atomic_store(&r.prod, UINT32_MAX - 2); /* backwards */
    assert_int_equal(work_queue_pending(&r.q), -EOVERFLOW);
    atomic_store(&r.prod, 0x80000000);
    assert_int_equal(work_queue_pending(&r.q), -EOVERFLOW);
    free(r.bytes);
}

static void test_send_entry(void **state)
{
    struct send_wqe in = {.h = {.wr_id = 77,
                                .opcode = SQE_WRITE_IMM,
                                .flags = SQE_FENCE | SQE_SIGNALED | SQE_SOLICITED,
                                .num_sge = 3,
                                .imm = 0x01020304,
                                .remote_addr = 0x123456789ABC,
                                .rkey = 9,
                                .inline_len = 0xFFFFFFFF},
                          .sge = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}};
    struct send_wqe out;
    struct ring r;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), UINT32_MAX - 2);
    for (int i = 0; i < 10; i++) { /* around the ring, and over the wrap of the index */
        in.h.wr_id++;
        in.sge[2].addr++;
        assert_int_equal(take_send(&r, &in, &out), 0);
        assert_int_equal(out.h.inline_len, 0); /* not inline */
        out.h.inline_len = in.h.inline_len;
        assert_memory_equal(&in, &out, sizeof(in.h) + 3 * sizeof(struct sge));
        assert_int_equal(((uint8_t *)&out.sge[3])[0], 0xEE); /* only what is used was written */
        assert_int_equal(work_queue_pending(&r.q), 0);
    }
    free(r.bytes);
}

static void test_inline(void **state)
{
    struct send_wqe in = {.h = {.wr_id = 1, .flags = SQE_INLINE, .num_sge = 200}};
    struct send_wqe out;
    struct ring r;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), 0);
    memset(in.inline_data, 0x5A, MAX_INLINE);
    in.h.opcode = SQE_SEND;
    for (uint32_t len = 0; len <= MAX_INLINE; len++) {
        in.h.inline_len = len;
        assert_int_equal(take_send(&r, &in, &out), 0);
        assert_int_equal(out.h.inline_len, len);
        assert_int_equal(out.h.num_sge, 0);
        assert_memory_equal(in.inline_data, out.inline_data, len);
        assert_int_equal(out.inline_data[len], 0xEE);
    }
    in.h.inline_len = MAX_INLINE + 1;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    in.h.inline_len = UINT32_MAX;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    free(r.bytes);
}

/* Of operations that use no word of the header themselves. */
static void test_sge_in_header(void **state)
{
    const uint32_t ops = 1u << SQE_WRITE | 1u << SQE_WRITE_IMM | 1u << SQE_SEND |
                         1u << SQE_SEND_IMM | 1u << SQE_SEND_INV | 1u << SQE_READ;
    const struct sge sge = {0x7000, 16, 5};
    struct send_wqe in = {
        .h = {.num_sge = 1, .flags = SQE_SGE_IN_HEADER, .inline_len = 7, .sge = sge},
        .sge = {{1, 2, 3}}};
    struct send_wqe out;
    struct ring r;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), 0);
    for (uint8_t op = 0; op < 32; op++) {
        in.h.opcode = op;
        assert_int_equal(take_send(&r, &in, &out), ops >> op & 1 ? 0 : -EINVAL);
        if (!(ops >> op & 1))
            continue;
        assert_memory_equal(&out.sge[0], &sge, sizeof(sge));
        assert_int_equal(out.h.inline_len, 0);
        assert_int_equal(out.h.words[0] | out.h.words[1] | out.h.words[2], 0);
    }
    in.h.opcode = SQE_SEND;
    in.h.num_sge = 2;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    in.h.num_sge = 0;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    in.h.num_sge = 1;
    in.h.flags |= SQE_INLINE;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    in.h.flags = SQE_SGE_IN_HEADER;
    in.h.sge.length = UINT32_MAX;
    assert_int_equal(take_send(&r, &in, &out), 0);
    in.h.sge.length = 16;
    r.q.max_sge = 0;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    free(r.bytes);
}

/* The verdict on each of the 256 opcodes. */
static void test_opcodes(void **state)
{
    static const struct {
        uint8_t op;
        bool inline_ok, sges;
    } known[] = {
        {SQE_WRITE, true, true},      {SQE_WRITE_IMM, true, true},   {SQE_SEND, true, true},
        {SQE_SEND_IMM, true, true},   {SQE_READ, false, true},       {SQE_CMP_SWP, false, true},
        {SQE_FETCH_ADD, false, true}, {SQE_LOCAL_INV, false, false}, {SQE_BIND_MW, false, false},
        {SQE_SEND_INV, true, true},   {SQE_FLUSH, false, false},     {SQE_ATOMIC_WRITE, true, true},
    };
    struct send_wqe in = {.h = {.num_sge = 1}, .sge = {{1, 2, 3}}}, out;
    struct ring r;
    unsigned accepted = 0;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), 0);
    for (unsigned op = 0; op < 256; op++) {
        in.h.opcode = (uint8_t)op;
        in.h.flags = 0;
        in.h.inline_len = 8;
        in.h.wr_id = op + 1000;
        accepted += take_send(&r, &in, &out) == 0;
        assert_int_equal(out.h.wr_id, op + 1000); /* valid also on failure */
    }
    assert_int_equal(accepted, ARRAY_SIZE(known));
    for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
        in.h.opcode = known[i].op;
        in.h.flags = 0;
        assert_int_equal(take_send(&r, &in, &out), 0);
        assert_int_equal(out.h.num_sge, known[i].sges);
        in.h.flags = SQE_INLINE;
        assert_int_equal(take_send(&r, &in, &out), known[i].inline_ok ? 0 : -EINVAL);
    }
    free(r.bytes);
}

static void test_malformed_send(void **state)
{
    struct send_wqe in = {.h = {.wr_id = 5, .opcode = SQE_SEND}}, out;
    struct ring r;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), 0);
    for (unsigned flag = 0x10; flag < 0x100; flag <<= 1) {
        in.h.flags = (uint8_t)flag;
        assert_int_equal(take_send(&r, &in, &out), flag & (SQE_TIMED | SQE_IP_CSUM) ? 0 : -EINVAL);
    }
    in.h.flags = 0;
    for (unsigned n = 0; n < 256; n++) {
        in.h.num_sge = (uint8_t)n;
        assert_int_equal(take_send(&r, &in, &out), n <= MAX_SGE ? 0 : -EINVAL);
    }
    /* A message that is too long is well formed. */
    in.h.num_sge = 2;
    in.sge[0].length = in.sge[1].length = UINT32_MAX;
    assert_int_equal(take_send(&r, &in, &out), 0);
    in.h.wr_id = 6;
    in.h.opcode = 200;
    assert_int_equal(take_send(&r, &in, &out), -EINVAL);
    assert_int_equal(out.h.wr_id, 6);
    assert_int_equal(work_queue_pending(&r.q), 0); /* taken nevertheless */
    free(r.bytes);
}

static void test_receive(void **state)
{
    struct recv_wqe in = {.h = {.wr_id = 9, .num_sge = 3},
                          .sge = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}};
    struct recv_wqe out;
    struct ring r;

    ring_init(&r, rqe_stride(MAX_SGE), UINT32_MAX);
    for (uint32_t i = 0; i < 8; i++) {
        in.h.num_sge = i;
        in.h.wr_id++;
        memset(&out, 0xEE, sizeof(out));
        post_at(&r, &in, r.q.stride);
        assert_int_equal(recv_queue_take(&r.q, &out), i <= MAX_SGE ? 0 : -EINVAL);
        assert_int_equal(out.h.wr_id, in.h.wr_id);
        if (i <= MAX_SGE)
            assert_memory_equal(in.sge, out.sge, i * sizeof(struct sge));
        assert_int_equal(((uint8_t *)&out.sge[min_of(i, 3u)])[0], 0xEE);
    }
    in.h.num_sge = UINT32_MAX;
    post_at(&r, &in, r.q.stride);
    assert_int_equal(recv_queue_take(&r.q, &out), -EINVAL);
    free(r.bytes);
}

/* A message has a limit, the room for one has none. */
static void test_receive_room(void **state)
{
    static const struct {
        uint32_t length[3], room;
    } c[] = {
        {{0, 0, 0}, 0},
        {{1, 2, 3}, 6},
        {{0x80000000, 0, 0}, 0x80000000},
        {{0x80000000, 1, 0}, 0x80000001},
        {{UINT32_MAX, 0, 0}, UINT32_MAX},
        {{UINT32_MAX, 1, 0}, UINT32_MAX},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX}, UINT32_MAX},
    };
    struct recv_wqe in = {.h = {.num_sge = 3}}, out;
    struct ring r;

    ring_init(&r, rqe_stride(MAX_SGE), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(c); i++) {
        for (unsigned k = 0; k < 3; k++)
            in.sge[k].length = c[i].length[k];
        post_at(&r, &in, r.q.stride);
        assert_int_equal(recv_queue_take(&r.q, &out), 0);
        assert_int_equal(recv_wqe_room(&out), c[i].room);
    }
    free(r.bytes);
}

static void test_take_id(void **state)
{
    struct rqe e = {.num_sge = UINT32_MAX};
    struct ring r;

    ring_init(&r, rqe_stride(MAX_SGE), 0);
    for (e.wr_id = 100; e.wr_id < 110; e.wr_id++) {
        post_at(&r, &e, sizeof(e));
        assert_int_equal(work_queue_take_id(&r.q), e.wr_id);
        assert_int_equal(work_queue_pending(&r.q), 0);
    }
    free(r.bytes);
}

static void test_copy_is_private(void **state)
{
    struct send_wqe in = {.h = {.opcode = SQE_SEND, .num_sge = 1}, .sge = {{1, 2, 3}}}, out;
    struct ring r;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), 0);
    assert_int_equal(take_send(&r, &in, &out), 0);
    memset(r.bytes, 0xFF, (size_t)SIZE * r.q.stride);
    assert_memory_equal(&in, &out, sizeof(in.h) + sizeof(struct sge));
    free(r.bytes);
}

/* ---- an application that rewrites its entry while it is taken ---- */

static _Atomic bool stop_flipping;

static void *flip(void *entry)
{
    volatile struct sqe *e = entry;

    while (!atomic_load_explicit(&stop_flipping, memory_order_relaxed)) {
        e->num_sge = 255;
        e->flags = SQE_INLINE;
        e->inline_len = UINT32_MAX;
        e->inline_len = 8;
        e->flags = 0;
        e->num_sge = 1;
    }
    return NULL;
}

static void test_concurrent_rewrite(void **state)
{
    struct send_wqe out;
    unsigned taken = 0, refused = 0;
    pthread_t thread;
    struct ring r;

    ring_init(&r, sqe_stride(MAX_SGE, MAX_INLINE), 0);
    assert_int_equal(pthread_create(&thread, NULL, flip, r.bytes), 0);
    for (int i = 0; i < 20000000 && (taken < 200000 || refused < 200000); i++) {
        r.q.cons = 0;
        out.h.num_sge = 0;
        ((struct sqe *)r.bytes)->opcode = SQE_SEND;
        if (send_queue_take(&r.q, &out)) {
            refused++;
            continue;
        }
        taken++;
        if (out.h.flags & SQE_INLINE)
            assert_true(out.h.inline_len <= MAX_INLINE && out.h.num_sge == 0);
        else
            assert_true(out.h.num_sge <= MAX_SGE);
    }
    atomic_store(&stop_flipping, true);
    pthread_join(thread, NULL);
    assert_true(taken > 0);
    free(r.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_send_entry),
        cmocka_unit_test(test_inline),
        cmocka_unit_test(test_sge_in_header),
        cmocka_unit_test(test_opcodes),
        cmocka_unit_test(test_malformed_send),
        cmocka_unit_test(test_receive),
        cmocka_unit_test(test_receive_room),
        cmocka_unit_test(test_take_id),
        cmocka_unit_test(test_copy_is_private),
        cmocka_unit_test(test_concurrent_rewrite),
    };

    return cmocka_run_group_tests_name("queue_work", tests, NULL, NULL);
}
