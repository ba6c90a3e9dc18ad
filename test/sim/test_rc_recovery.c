/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: acknowledges, losses, duplicates, receivers that are not ready, ordering (9.7.5, 9.7.7). */
#include "rules.h"

static void assert_written(const struct rules *t, uint32_t len)
{
    assert_memory_equal(t->mb->bytes, t->ma->bytes, len);
}

static uint64_t word_at(const struct kit_mr *mr, unsigned off)
{
    uint64_t v;

    memcpy(&v, mr->bytes + off, sizeof(v));
    return v;
}

static void post_atomic(struct rules *t, uint64_t wr_id, uint64_t off, uint64_t add)
{
    struct sge sge = kit_sge(t->ma, off, 8);
    struct kit_send wr = {.wr_id = wr_id,
                          .op = SQE_FETCH_ADD,
                          .flags = SQE_SIGNALED,
                          .sge = &sge,
                          .num_sge = 1,
                          .remote_addr = kit_va(t->mb, 0),
                          .rkey = t->mb->region.key,
                          .compare_add = add};

    assert_int_equal(kit_post_send(t->a, &wr), 0);
    kit_ring(t->a);
}

/* ---- acknowledges ---- */

static void one_ack_for_a_message(void **state)
{
    struct rules t = rules_start(NULL);

    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8 * MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_written(&t, 8 * MTU);
    assert_int_equal(t.ab->frames, 8);
    assert_int_equal(t.ba->frames, 1);
    assert_int_equal(nth(t.ba, RC(OP_ACK), 0)->psn.v, PSN_A + 7);
    assert_int_equal(nth(t.ba, RC(OP_ACK), 0)->aeth.msn, 1);
    rules_finish(&t);
}

static void acks_coalesce(void **state)
{
    struct rules t = rules_start(NULL);

    for (unsigned i = 0; i < 16; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, i * 64, 64, t.mb, i * 64);
    kit_settle(t.k);
    for (unsigned i = 0; i < 16; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_in_range(t.ba->frames, 1, 8);
    rules_finish(&t);
}

static void unsignaled_completes_silently(void **state)
{
    struct rules t = rules_start(NULL);
    struct sge sge = kit_sge(t.ma, 0, 10);
    struct kit_send wr = {.wr_id = 1, .op = SQE_WRITE, .sge = &sge, .num_sge = 1};

    wr.remote_addr = kit_va(t.mb, 0);
    wr.rkey = t.mb->region.key;
    assert_int_equal(kit_post_send(t.a, &wr), 0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 10, 10, t.mb, 10);
    kit_settle(t.k);
    assert_int_equal(completes(t.a->send_cq, 2, WC_SUCCESS).wqe, 1);
    completes_nothing(t.a->send_cq);
    assert_written(&t, 20);
    rules_finish(&t);
}

/* ---- losses ---- */

static void lost_request_is_nakked_once(void **state)
{
    struct rules t = rules_start(NULL);

    kit_link_lose(t.ab, 1 << 2);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8 * MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_written(&t, 8 * MTU);
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_PSN_SEQUENCE), 1);
    assert_int_equal(nth(t.ba, RC(OP_ACK), 0)->psn.v, PSN_A + 2);
    assert_int_equal(t.ab->frames, 8 + 6); /* goes back to the lost packet, no further */
    assert_int_equal(count_of(t.a, timeouts), 0);
    assert_int_equal(count_of(t.b, seq_nak_sent), 1);
    rules_finish(&t);
}

static void lost_first_of_many(void **state)
{
    struct rules t = rules_start(NULL);

    kit_link_lose(t.ab, 1);
    for (unsigned i = 0; i < 5; i++)
        kit_recv(t.b, 100 + i, t.mb, i * 100, 100);
    for (unsigned i = 0; i < 5; i++)
        kit_do(t.a, SQE_SEND, i, t.ma, i * 100, 100, NULL, 0);
    kit_settle(t.k);
    for (unsigned i = 0; i < 5; i++) {
        completes(t.a->send_cq, i, WC_SUCCESS);
        completes(t.b->recv_cq, 100 + i, WC_SUCCESS);
    }
    assert_written(&t, 500);
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_PSN_SEQUENCE), 1);
    rules_finish(&t);
}

static void lost_nak_is_made_good_by_the_timer(void **state)
{
    struct rules t = rules_start(NULL);

    kit_link_lose(t.ab, 1 << 1);
    kit_link_lose(t.ba, 1);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 4 * MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_written(&t, 4 * MTU);
    assert_int_equal(count_of(t.a, timeouts), 1);
    rules_finish(&t);
}

static void lost_ack_means_a_duplicate_not_a_second_message(void **state)
{
    struct rules t = rules_start(NULL);
    ns_t start = t.k->now;

    kit_recv(t.b, 100, t.mb, 0, 100);
    kit_recv(t.b, 101, t.mb, 100, 100);
    kit_link_lose(t.ba, 1);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 50, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(completes(t.b->recv_cq, 100, WC_SUCCESS).byte_len, 50);
    completes_nothing(t.b->recv_cq);
    assert_int_equal(count_of(t.a, timeouts), 1);
    assert_int_equal(count_of(t.b, duplicate_request), 1);
    assert_int_equal(t.ba->frames, 2);
    assert_true(t.k->now - start >= 4096u << 8); /* C9-140: at least the timeout */
    assert_true(t.k->now - start <= 4 * (4096u << 8));
    rules_finish(&t);
}

static void everything_twice(void **state)
{
    struct rules t = rules_start(NULL);

    link_does(t.ab, KIT_DUPLICATE);
    link_does(t.ba, KIT_DUPLICATE);
    for (unsigned i = 0; i < 8; i++) {
        kit_recv(t.b, 100 + i, t.mb, i * 3000, 3000);
        kit_do(t.a, SQE_SEND, i, t.ma, i * 3000, 3000, NULL, 0);
        post_atomic(&t, 50 + i, 60000, 0);
        kit_do(t.a, SQE_READ, 60 + i, t.ma, 40000, 3000, t.mb, 0);
    }
    kit_settle(t.k);
    for (unsigned i = 0; i < 8; i++) {
        completes(t.a->send_cq, i, WC_SUCCESS);
        completes(t.a->send_cq, 50 + i, WC_SUCCESS);
        completes(t.a->send_cq, 60 + i, WC_SUCCESS);
        completes(t.b->recv_cq, 100 + i, WC_SUCCESS);
    }
    completes_nothing(t.b->recv_cq);
    assert_written(&t, 8 * 3000);
    rules_finish(&t);
}

static void retries_end(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.retry_cnt = 3});
    ns_t start = t.k->now;

    link_does(t.ab, KIT_DROP);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
    kit_recv(t.a, 3, t.ma, 0, 10);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_RETRY_EXC_ERR);
    completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
    completes(t.a->recv_cq, 3, WC_WR_FLUSH_ERR);
    assert_int_equal(state_of(t.a), QPS_ERR);
    assert_int_equal(state_of(t.b), QPS_RTS);
    assert_int_equal(t.ab->frames, 2 * (1 + 3));
    assert_true(t.k->now - start >= 4 * (UINT64_C(4096) << 8));
    rules_finish(&t);
}

static void progress_renews_the_retries(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.retry_cnt = 1});

    /* Each message loses one transmission, none twice. */
    for (unsigned i = 0; i < 6; i++) {
        kit_link_lose(t.ab, 1);
        kit_do(t.a, SQE_WRITE, i, t.ma, 0, 10, t.mb, 0);
        kit_settle(t.k);
        completes(t.a->send_cq, i, WC_SUCCESS);
    }
    rules_finish(&t);
}

static void no_timeout_no_retry(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.timeout = KIT_NO_TIMEOUT});

    link_does(t.ab, KIT_DROP);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    completes_nothing(t.a->send_cq);
    assert_int_equal(t.ab->frames, 1);
    rules_finish(&t);
}

/* ---- READs and atomics ---- */

static void read_with_loss(unsigned lost)
{
    struct rules t = rules_start(NULL);

    memset(t.mb->bytes, 0x5C, 8 * MTU);
    t.mb->bytes[5 * MTU] = 1;
    kit_link_lose(t.ba, UINT64_C(1) << lost);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 8 * MTU, t.mb, 0);
    kit_do(t.a, SQE_READ, 2, t.ma, 8 * MTU, 8, t.mb, 5 * MTU);
    kit_settle(t.k);
    assert_int_equal(completes(t.a->send_cq, 1, WC_SUCCESS).byte_len, 8 * MTU);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    assert_memory_equal(t.ma->bytes, t.mb->bytes, 8 * MTU);
    assert_memory_equal(t.ma->bytes + 8 * MTU, t.mb->bytes + 5 * MTU, 8);
    /* The repeated request is for the missing part only. */
    assert_int_equal(nth(t.ab, RC(OP_READ_REQUEST), 2)->psn.v, PSN_A + lost);
    assert_int_equal(nth(t.ab, RC(OP_READ_REQUEST), 2)->reth.va, kit_va(t.mb, lost * MTU));
    assert_int_equal(nth(t.ab, RC(OP_READ_REQUEST), 2)->reth.len, (8 - lost) * MTU);
    assert_int_equal(count_of(t.a, timeouts), 0);
    assert_int_equal(count_of(t.a, implied_nak_seq_err), 1);
    rules_finish(&t);
}

static void lost_read_response_is_asked_for_again(void **state)
{
    read_with_loss(0);
    read_with_loss(3);
    read_with_loss(7);
}

static void lost_read_request(void **state)
{
    struct rules t = rules_start(NULL);

    kit_link_lose(t.ab, 1);
    memset(t.mb->bytes, 0x11, 100);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 100, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_memory_equal(t.ma->bytes, t.mb->bytes, 100);
    assert_int_equal(count_of(t.a, timeouts), 1);
    rules_finish(&t);
}

/* Seed 259 of sim_rc: the next READ came while the answer to a duplicate was being repeated. */
static void repeated_reply_does_not_use_up_a_resource(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.max_rd_atomic = 1});
    uint8_t frame[KIT_FRAME_ROOM];
    struct pkt p;

    kit_do(t.a, SQE_READ, 1, t.ma, 0, 8 * MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    p = *nth(t.ab, RC(OP_READ_REQUEST), 0);
    kit_link_inject(t.ab, frame, kit_frame_build(frame, t.a, &p, NULL));
    kit_do(t.a, SQE_READ, 2, t.ma, 0, MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    rules_finish(&t);
}

static void repeated_atomic_gives_the_first_result(void **state)
{
    struct rules t = rules_start(NULL);

    kit_link_lose(t.ba, 0xF); /* all four answers */
    for (unsigned i = 0; i < 4; i++)
        post_atomic(&t, i, 8 * i, 10 + i);
    kit_settle(t.k);
    for (unsigned i = 0; i < 4; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_int_equal(word_at(t.ma, 0), 0);
    assert_int_equal(word_at(t.ma, 8), 10);
    assert_int_equal(word_at(t.ma, 16), 21);
    assert_int_equal(word_at(t.ma, 24), 33);
    assert_int_equal(word_at(t.mb, 0), 46);
    assert_true(count_of(t.b, duplicate_request) >= 4);
    rules_finish(&t);
}

static void max_rd_atomic_is_kept(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.max_rd_atomic = 2});

    link_does(t.ba, KIT_DROP);
    for (unsigned i = 0; i < 6; i++)
        kit_do(t.a, SQE_READ, i, t.ma, i * 100, 100, t.mb, 0);
    run_for(&t, 100 * NS_PER_US);
    assert_int_equal(kit_link_count(t.ab, RC(OP_READ_REQUEST)), 2);
    link_does(t.ba, KIT_PASS);
    kit_settle(t.k);
    for (unsigned i = 0; i < 6; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_int_equal(state_of(t.b), QPS_RTS);
    rules_finish(&t);
}

static void write_after_read(uint8_t flags, unsigned writes_expected)
{
    struct rules t = rules_start(NULL);
    struct sge sge = kit_sge(t.ma, 0, 10);
    struct kit_send wr = {.wr_id = 2,
                          .op = SQE_WRITE,
                          .flags = flags | SQE_SIGNALED,
                          .sge = &sge,
                          .num_sge = 1,
                          .remote_addr = kit_va(t.mb, 0),
                          .rkey = t.mb->region.key};

    link_does(t.ba, KIT_DROP);
    kit_do(t.a, SQE_READ, 1, t.ma, 1000, 10, t.mb, 0);
    assert_int_equal(kit_post_send(t.a, &wr), 0);
    kit_ring(t.a);
    run_for(&t, 100 * NS_PER_US);
    assert_int_equal(kit_link_count(t.ab, RC(OP_WRITE_ONLY)), writes_expected);
    link_does(t.ba, KIT_PASS);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    rules_finish(&t);
}

static void fence_waits_for_reads(void **state)
{
    write_after_read(0, 1);
    write_after_read(SQE_FENCE, 0);
}

/* ---- receiver not ready ---- */

static void receiver_not_ready(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.min_rnr_timer = 12}); /* 0.64 ms */
    ns_t start = t.k->now;

    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 3000, NULL, 0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 5000, 10, t.mb, 5000);
    run_for(&t, 300 * NS_PER_US);
    assert_int_equal(kit_link_acks(t.ba, AETH_RNR, 12), 1);
    completes_nothing(t.a->send_cq);
    kit_recv(t.b, 100, t.mb, 0, 3000);
    kit_settle(t.k);
    assert_true(t.k->now - start >= 640 * NS_PER_US);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    completes(t.b->recv_cq, 100, WC_SUCCESS);
    assert_written(&t, 3000);
    assert_int_equal(count_of(t.a, rnr_nak_rcvd), 1);
    assert_int_equal(count_of(t.a, timeouts), 0);
    rules_finish(&t);
}

static void rnr_retries_end(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.rnr_retry = 2});

    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 10, NULL, 0);
    kit_do(t.a, SQE_SEND, 2, t.ma, 0, 10, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_RNR_RETRY_EXC_ERR);
    completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
    completes_nothing(t.a->send_cq);
    assert_int_equal(kit_link_acks(t.ba, AETH_RNR, -1), 3);
    assert_int_equal(state_of(t.a), QPS_ERR);
    assert_int_equal(state_of(t.b), QPS_RTS);
    rules_finish(&t);
}

static void rnr_without_retries(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.rnr_retry = KIT_ZERO});

    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 10, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_RNR_RETRY_EXC_ERR);
    assert_int_equal(kit_link_acks(t.ba, AETH_RNR, -1), 1);
    rules_finish(&t);
}

static void lost_rnr_nak(void **state)
{
    struct rules t = rules_start(NULL);

    kit_link_lose(t.ba, 1);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 10, NULL, 0);
    run_for(&t, 100 * NS_PER_US);
    kit_recv(t.b, 100, t.mb, 0, 10);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.b->recv_cq, 100, WC_SUCCESS);
    rules_finish(&t);
}

/* Seed 144 of sim_rc: a duplicate of the refused request arrived after a receive had been
 * posted. */
static void refused_request_gets_through_as_a_duplicate(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.min_rnr_timer = 20}); /* 10 ms */
    uint8_t frame[KIT_FRAME_ROOM];
    struct pkt p;

    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 100, NULL, 0);
    run_for(&t, 100 * NS_PER_US);
    assert_int_equal(kit_link_acks(t.ba, AETH_RNR, -1), 1);
    kit_recv(t.b, 100, t.mb, 0, 100);
    p = *nth(t.ab, RC(OP_SEND_ONLY), 0);
    kit_link_inject(t.ab, frame, kit_frame_build(frame, t.a, &p, t.ma->bytes));
    run_for(&t, 100 * NS_PER_US);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.b->recv_cq, 100, WC_SUCCESS);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
    run_for(&t, 100 * NS_PER_US);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    rules_finish(&t);
}

static void write_with_immediate_needs_a_receive(void **state)
{
    struct rules t = rules_start(NULL);
    struct cqe e;

    kit_do(t.a, SQE_WRITE_IMM, 1, t.ma, 0, 2 * MTU, t.mb, 0);
    run_for(&t, 8 * NS_PER_US);
    assert_int_equal(kit_link_acks(t.ba, AETH_RNR, -1), 1);
    assert_int_equal(nth(t.ba, RC(OP_ACK), 0)->psn.v, PSN_A + 1);
    assert_int_equal(kit_post_recv(t.b, 100, NULL, 0), 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    e = completes(t.b->recv_cq, 100, WC_SUCCESS);
    assert_int_equal(e.opcode, WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(e.byte_len, 2 * MTU);
    rules_finish(&t);
}

/* ---- sequence numbers ---- */

static void psn_wraps(void **state)
{
    for (unsigned lost = 0; lost < 10; lost++) {
        struct rules t =
            rules_start(&(struct kit_rc){.psn = {PSN_MASK - 3, PSN_MASK}, .max_rd_atomic = 1});

        kit_link_lose(t.ab, UINT64_C(1) << lost);
        kit_link_lose(t.ba, UINT64_C(2) << lost);
        kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 6 * MTU, t.mb, 0);
        kit_do(t.a, SQE_READ, 2, t.ma, 8 * MTU, 6 * MTU, t.mb, 0);
        kit_do(t.b, SQE_WRITE, 3, t.mb, 0, 3 * MTU, t.ma, 32 * MTU);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_SUCCESS);
        completes(t.a->send_cq, 2, WC_SUCCESS);
        completes(t.b->send_cq, 3, WC_SUCCESS);
        assert_memory_equal(t.ma->bytes + 8 * MTU, t.ma->bytes, 6 * MTU);
        assert_int_equal(nth(t.ab, RC(OP_WRITE_LAST), 0)->psn.v, 1);
        rules_finish(&t);
    }
}

static void zero_length(void **state)
{
    static const struct {
        enum sqe_op op;
        bool receive;
    } what[] = {{SQE_SEND, true},
                {SQE_SEND_IMM, true},
                {SQE_WRITE, false},
                {SQE_WRITE_IMM, true},
                {SQE_READ, false}};

    for (unsigned i = 0; i < ARRAY_SIZE(what); i++) {
        struct rules t = rules_start(NULL);

        if (what[i].receive)
            assert_int_equal(kit_post_recv(t.b, 100, NULL, 0), 0);
        kit_do(t.a, what[i].op, 1, NULL, 0, 0, NULL, 0); /* C9-88: the R_Key does not matter */
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_SUCCESS);
        if (what[i].receive)
            assert_int_equal(completes(t.b->recv_cq, 100, WC_SUCCESS).byte_len, 0);
        assert_int_equal(t.ab->frames, 1);
        rules_finish(&t);
    }
}

/* Answers without a request, or to requests that completed long ago. */
static void ghost_answers_change_nothing(void **state)
{
    struct rules t = rules_start(NULL);
    uint8_t frame[KIT_FRAME_ROOM];
    static const int32_t distance[] = {-100, -1, 1, 2, 1000, 0x7FFFFF};
    static const uint8_t syndrome[] = {AETH_ACK | AETH_CREDIT_NONE, AETH_RNR | 1,
                                       AETH_NAK | NAK_PSN_SEQUENCE, AETH_NAK | NAK_REMOTE_ACCESS,
                                       0x40 /* reserved */};

    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    link_does(t.ab, KIT_DROP);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
    run_for(&t, 20 * NS_PER_US);
    for (unsigned d = 0; d < ARRAY_SIZE(distance); d++)
        for (unsigned s = 0; s < ARRAY_SIZE(syndrome); s++) {
            struct pkt p = {.opcode = RC(OP_ACK),
                            .pkey = PKEY_DEFAULT,
                            .dest_qpn = t.a->qpn,
                            .psn = psn((uint32_t)(PSN_A + 1 + distance[d]))};

            p.aeth.syndrome = syndrome[s];
            kit_link_inject(t.ba, frame, kit_frame_build(frame, t.b, &p, NULL));
        }
    run_for(&t, 20 * NS_PER_US);
    completes_nothing(t.a->send_cq);
    link_does(t.ab, KIT_PASS);
    kit_settle(t.k);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_ack_for_a_message),
        cmocka_unit_test(acks_coalesce),
        cmocka_unit_test(unsignaled_completes_silently),
        cmocka_unit_test(lost_request_is_nakked_once),
        cmocka_unit_test(lost_first_of_many),
        cmocka_unit_test(lost_nak_is_made_good_by_the_timer),
        cmocka_unit_test(lost_ack_means_a_duplicate_not_a_second_message),
        cmocka_unit_test(everything_twice),
        cmocka_unit_test(retries_end),
        cmocka_unit_test(progress_renews_the_retries),
        cmocka_unit_test(no_timeout_no_retry),
        cmocka_unit_test(lost_read_response_is_asked_for_again),
        cmocka_unit_test(lost_read_request),
        cmocka_unit_test(repeated_reply_does_not_use_up_a_resource),
        cmocka_unit_test(repeated_atomic_gives_the_first_result),
        cmocka_unit_test(max_rd_atomic_is_kept),
        cmocka_unit_test(fence_waits_for_reads),
        cmocka_unit_test(receiver_not_ready),
        cmocka_unit_test(rnr_retries_end),
        cmocka_unit_test(rnr_without_retries),
        cmocka_unit_test(lost_rnr_nak),
        cmocka_unit_test(refused_request_gets_through_as_a_duplicate),
        cmocka_unit_test(write_with_immediate_needs_a_receive),
        cmocka_unit_test(psn_wraps),
        cmocka_unit_test(zero_length),
        cmocka_unit_test(ghost_answers_change_nothing),
    };

    return cmocka_run_group_tests_name("rc_recovery", tests, NULL, NULL);
}
