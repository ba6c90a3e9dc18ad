/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bursts of messages from and into several SGEs, as many as a WQE may have: received in batches as
 * by the general path, and sent from memory that is copied as from mapped memory.
 */
#include "batch_kit.h"

#define PIECE 64

/* Message i, in n SGEs one behind the other: all of the region, or every second one of the other
 * region with the same addresses. */
static void scatter(const struct side *s, struct sge *sge, unsigned i, unsigned n, bool both)
{
    uint32_t len = PIECE / n;

    for (unsigned k = 0; k < n; k++)
        sge[k] = (struct sge){.addr = IOVA + i * PIECE + k * len,
                              .length = len,
                              .lkey = both && k % 2 ? s->other.key : s->mr.key};
}

static void post_send(struct side *s, unsigned i, unsigned n, bool both)
{
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(batch_sges, 0), s->prod++);

    *e = (struct sqe){
        .wr_id = s->prod, .opcode = SQE_SEND, .flags = SQE_SIGNALED, .num_sge = (uint8_t)n};
    scatter(s, (struct sge *)(e + 1), i, n, both);
    atomic_store(&s->shared->sq_prod, s->prod);
}

static void post_recv(struct side *s, unsigned i, unsigned n)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(batch_sges), s->recv_prod++);

    *e = (struct rqe){.wr_id = s->recv_prod, .num_sge = n};
    scatter(s, (struct sge *)(e + 1), i, n, false);
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

static void fill(struct side *s)
{
    for (unsigned i = 0; i < FRAME_BURST * PIECE; i++) {
        s->memory[i] = (uint8_t)(i * 7 + i / 256);
        s->other_memory[i] = (uint8_t)(i * 11 + 3);
    }
}

/* ---- received ---- */

/* Two bursts for the WQEs of an SRQ in domain pd, or for the queue pair's own if that is 0. The
 * first frame is learnt from. */
static void receive_bursts(uint32_t pd, unsigned sges)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct side a, fast, slow;
    struct frame f[FRAME_BURST];

    batch_sges = sges;
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    batch_srq_pd = pd;
    side_init(&fast, 2, 128, ALL_RIGHTS, 0);
    side_init(&slow, 2, 128, ALL_RIGHTS, 0);
    connect_to(&a, &fast, ALL_RIGHTS, 7);
    connect_to(&fast, &a, ALL_RIGHTS, 7);
    connect_to(&slow, &a, ALL_RIGHTS, 7);
    fill(&a);
    for (unsigned i = 1; i <= 2; i++) {
        for (unsigned k = 0; k < FRAME_BURST; k++) {
            post_recv(&fast, k, sges);
            post_recv(&slow, k, sges);
            post_send(&a, k, 1, false);
        }
        engine_doorbell(a.e, a.qp, i);
        make_frames(f, bytes);
        assert_int_equal(engine_tx(a.e, f, FRAME_BURST, i), FRAME_BURST);
        engine_rx(fast.e, f, FRAME_BURST, i);
        engine_rx_forwarded(slow.e, f, FRAME_BURST, 0, i);
        check_counters(&fast, &slow, i * FRAME_BURST);
        check_same(&fast, &slow);
        assert_memory_equal(fast.memory, a.memory, FRAME_BURST * PIECE);
        memset(fast.memory, 0, FRAME_BURST * PIECE);
        memset(slow.memory, 0, FRAME_BURST * PIECE);
    }
    side_fini(&a);
    side_fini(&fast);
    side_fini(&slow);
    batch_srq_pd = 0;
}

static void test_received(void **state)
{
    for (unsigned sges = 2; sges <= QUEUE_MAX_SGE; sges *= 2) {
        receive_bursts(0, sges);
        receive_bursts(PD, sges);
    }
}

/* A WQE of an SRQ in another domain than the queue pair: its second SGE names a region of the queue
 * pair's. */
static void post_recv_mixed(struct side *s)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(batch_sges), s->recv_prod++);
    struct sge *sge = (struct sge *)(e + 1);

    s->other.pd = PD + 1;
    *e = (struct rqe){.wr_id = s->recv_prod, .num_sge = 2};
    sge[0] = (struct sge){.addr = IOVA, .length = 1024, .lkey = s->other.key};
    sge[1] = (struct sge){.addr = IOVA, .length = 1024, .lkey = s->mr.key};
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

/* The last packet of a SEND goes to a region that its WQE may not name. */
static void test_other_domain(void **state)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct side a, fast, slow;
    struct frame f[FRAME_BURST];

    batch_sges = 2;
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    batch_srq_pd = PD + 1;
    side_init(&fast, 2, 128, ALL_RIGHTS, 0);
    side_init(&slow, 2, 128, ALL_RIGHTS, 0);
    batch_srq_pd = 0;
    connect_to(&a, &fast, ALL_RIGHTS, 7);
    connect_to(&fast, &a, ALL_RIGHTS, 7);
    connect_to(&slow, &a, ALL_RIGHTS, 7);
    fill(&a);
    post_recv_mixed(&fast);
    post_recv_mixed(&slow);
    post_send(&a, 0, 1, false);
    ((struct sge *)((struct sqe *)a.sq + 1))->length = 2048;
    engine_doorbell(a.e, a.qp, 1);
    make_frames(f, bytes);
    assert_int_equal(engine_tx(a.e, f, FRAME_BURST, 1), 2);
    engine_rx(fast.e, f, 2, 1);
    engine_rx_forwarded(slow.e, f, 2, 0, 1);
    check_counters(&fast, &slow, 2);
    check_same(&fast, &slow);
    assert_memory_equal(fast.other_memory, a.memory, 1024);
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(fast.memory[i], 0);
    side_fini(&a);
    side_fini(&fast);
    side_fini(&slow);
}

/* ---- sent ---- */

/* A requester whose region is copied, and whose other one is mapped. */
static void copied_init(struct side *s, const struct side *peer)
{
    side_init(s, 1, 128, ALL_RIGHTS, 0);
    s->mr.direct = NULL;
    connect_to(s, peer, ALL_RIGHTS, 7);
    fill(s);
}

/* All frames of the messages that are posted. */
static unsigned send_all(struct side *s, struct frame f[FRAME_BURST],
                         uint8_t bytes[FRAME_BURST][ROOM])
{
    unsigned n = 0, more;

    engine_doorbell(s->e, s->qp, 1);
    make_frames(f, bytes);
    while (n < FRAME_BURST && (more = engine_tx(s->e, f + n, FRAME_BURST - n, 1)))
        n += more;
    return n;
}

/* What the peer receives, of more pieces than the engine copies in one call, for most numbers of
 * SGEs. */
static void send_burst(unsigned sges, bool both)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];
    struct side peer, s;

    batch_sges = sges;
    side_init(&peer, 2, 128, ALL_RIGHTS, 0);
    copied_init(&s, &peer);
    connect_to(&peer, &s, ALL_RIGHTS, 7);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        post_send(&s, i, sges, both);
        post_recv(&peer, i, 1);
    }
    assert_int_equal(send_all(&s, f, bytes), FRAME_BURST);
    engine_rx(peer.e, f, FRAME_BURST, 1);
    for (unsigned at = 0; at < FRAME_BURST * PIECE; at++) {
        bool other = both && at % PIECE / (PIECE / sges) % 2;

        assert_int_equal(peer.memory[at], (other ? s.other_memory : s.memory)[at]);
    }
    side_fini(&s);
    side_fini(&peer);
}

static void test_sent(void **state)
{
    for (unsigned sges = 2; sges <= QUEUE_MAX_SGE; sges *= 2) {
        send_burst(sges, false);
        send_burst(sges, true);
    }
}

/* A byte of message `failed` cannot be copied. Returns how many messages are sent; status: of the
 * completions there are then, in order. */
static unsigned send_failing(unsigned sges, unsigned failed, uint8_t status[FRAME_BURST])
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];
    struct side peer, s;
    const struct cqe *c;
    unsigned n;

    batch_sges = QUEUE_MAX_SGE;
    side_init(&peer, 2, 128, ALL_RIGHTS, 0);
    copied_init(&s, &peer);
    s.copied.bad = IOVA + failed * PIECE + PIECE / 2;
    s.copied.bad_len = 1;
    s.copied.unreadable = true;
    for (unsigned i = 0; i < FRAME_BURST; i++)
        post_send(&s, i, sges, false);
    n = send_all(&s, f, bytes);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        c = cq_reader_peek(&s.reader);
        status[i] = UINT8_MAX;
        if (!c)
            continue;
        assert_int_equal(c->wr_id, i + 1);
        status[i] = (uint8_t)c->status;
        cq_reader_advance(&s.reader);
    }
    side_fini(&s);
    side_fini(&peer);
    return n;
}

/* The messages before it are sent, it fails, and those behind it are flushed, as they are with one
 * SGE. */
static void test_copy_fails(void **state)
{
    uint8_t one[FRAME_BURST], several[FRAME_BURST];

    for (unsigned failed = 0; failed < FRAME_BURST; failed++) {
        assert_int_equal(send_failing(1, failed, one), failed);
        for (unsigned sges = 2; sges <= QUEUE_MAX_SGE; sges *= 2) {
            assert_int_equal(send_failing(sges, failed, several), failed);
            assert_memory_equal(several, one, sizeof(one));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_received),
        cmocka_unit_test(test_other_domain),
        cmocka_unit_test(test_sent),
        cmocka_unit_test(test_copy_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
