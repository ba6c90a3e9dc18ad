/* SPDX-License-Identifier: BSD-3-Clause */
/* Causes and incidents of queue pairs: completions carry the first cause, until RESET; incidents
 * have details and counters, and a fault that a queue pair survives has one. */
#include <string.h>

#include "cause.h"
#include "kit.h"
#include "unit.h"

#define ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
#define BYTES  8192

struct fixture {
    struct kit *k;
    struct kit_qp *a, *b;
    struct kit_mr *from, *to;
    struct incident seen[INCIDENTS];
};

static void begin(struct fixture *f, const struct kit_rc *rc, uint32_t access)
{
    f->k = kit_create(&(struct kit_config){.seed = 1});
    kit_pair_rc(f->k, &f->a, &f->b, rc);
    f->from = kit_mr_create(&f->k->node[0], BYTES, ACCESS, KIT_MR_DIRECT);
    f->to = kit_mr_create(&f->k->node[1], BYTES, access, KIT_MR_DIRECT);
}

static void run(struct fixture *f)
{
    kit_run(f->k, NULL, NULL, NS_PER_SEC);
}

/* The next completion of a queue. */
static struct cqe completion(struct kit_cq *cq)
{
    struct cqe c = {0};

    assert_int_equal(kit_poll(cq, &c, 1), 1);
    return c;
}

static void expect_completion(struct kit_cq *cq, uint64_t wr_id, uint8_t status, enum cause cause)
{
    struct cqe c = completion(cq);

    assert_int_equal(c.wr_id, wr_id);
    assert_int_equal(c.status, status);
    assert_int_equal(c.vendor_err, cause);
}

/* The incidents of a node's engine; n of them. */
static const struct incident *incidents(struct fixture *f, unsigned node, unsigned n)
{
    assert_int_equal(incident_read(engine_incidents(f->k->node[node].engine), f->seen), n);
    return f->seen;
}

/* ---- cases ---- */

static void write_with_key(struct fixture *f, uint64_t wr_id, uint32_t rkey)
{
    struct sge sge = kit_sge(f->from, 0, 64);
    struct kit_send wr = {.wr_id = wr_id,
                          .op = SQE_WRITE,
                          .flags = SQE_SIGNALED,
                          .rkey = rkey,
                          .remote_addr = kit_va(f->to, 0),
                          .sge = &sge,
                          .num_sge = 1};

    assert_int_equal(kit_post_send(f->a, &wr), 0);
    kit_ring(f->a);
}

/* ---- work requests that the host judges ---- */

struct judging {
    unsigned asked, fails; /* which one */
    uint8_t operation;
};

static uint8_t judge(void *ctx, const struct qp *qp, uint8_t operation)
{
    struct judging *j = ctx;

    (void)qp;
    j->operation = operation;
    return ++j->asked == j->fails ? WC_FATAL_ERR : WC_SUCCESS;
}

/* Those before it complete, it has its status, those behind it are flushed, and nothing of these
 * is sent. Without a judge all is as before, in batches. */
static void test_judged(void **state)
{
    struct judging j = {.fails = 3};
    struct fixture f;
    const struct incident *i;
    struct engine *e;

    begin(&f, NULL, ACCESS);
    e = f.k->node[0].engine;
    engine_judge_sends(e, judge, &j);
    for (unsigned w = 1; w <= 4; w++)
        write_with_key(&f, w, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_SUCCESS, CAUSE_none);
    expect_completion(f.a->send_cq, 2, WC_SUCCESS, CAUSE_none);
    expect_completion(f.a->send_cq, 3, WC_FATAL_ERR, CAUSE_status_on_purpose);
    expect_completion(f.a->send_cq, 4, WC_WR_FLUSH_ERR, CAUSE_status_on_purpose);
    assert_int_equal(j.operation, SQE_WRITE);
    i = incidents(&f, 0, 1);
    assert_int_equal(i->cause, CAUSE_status_on_purpose);
    assert_int_equal(i->wr_id, 3);
    assert_int_equal(counter_get(&qp_counters(f.a->qp)->tx_packets), 2);
    incidents(&f, 1, 0);
    j.asked = 0;
    engine_judge_sends(e, NULL, NULL);
    kit_modify(f.a, QPS_RESET);
    kit_modify(f.b, QPS_RESET);
    kit_connect(f.a, f.b, NULL);
    for (unsigned w = 1; w <= 4; w++)
        write_with_key(&f, w, f.to->region.key);
    run(&f);
    for (unsigned w = 1; w <= 4; w++)
        expect_completion(f.a->send_cq, w, WC_SUCCESS, CAUSE_none);
    assert_int_equal(j.asked, 0);
    kit_destroy(f.k);
}

/* The one that failed, and those behind it. */
static void test_flushed(void **state)
{
    struct fixture f;
    const struct incident *i;
    uint32_t wrong;

    begin(&f, NULL, ACCESS);
    wrong = f.to->region.key ^ 0x500;
    write_with_key(&f, 1, wrong);
    write_with_key(&f, 2, f.to->region.key);
    run(&f);
    write_with_key(&f, 3, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_REM_ACCESS_ERR, CAUSE_refused_access);
    expect_completion(f.a->send_cq, 2, WC_WR_FLUSH_ERR, CAUSE_refused_access);
    expect_completion(f.a->send_cq, 3, WC_WR_FLUSH_ERR, CAUSE_refused_access);
    i = incidents(&f, 0, 1);
    assert_int_equal(i->kind, INCIDENT_SEND);
    assert_int_equal(i->cause, CAUSE_refused_access);
    assert_int_equal(i->wr_id, 1);
    assert_true(i->has_wr);
    assert_int_equal(i->qpn, f.a->qpn);
    assert_int_equal(i->dest_qpn, f.b->qpn);
    assert_int_equal(i->detail[2], wrong);
    i = incidents(&f, 1, 1);
    assert_int_equal(i->kind, INCIDENT_REQUEST);
    assert_int_equal(i->cause, CAUSE_remote_key_unknown);
    assert_int_equal(i->detail[0], wrong);
    assert_int_equal(i->detail[1], kit_va(f.to, 0));
    assert_int_equal(i->detail[2], 64);
    assert_int_equal(i->detail[3], MEM_REMOTE_WRITE);
    assert_false(i->has_wr);
    kit_destroy(f.k);
}

/* After RESET the queue pair is well, and the next cause is another one. */
static void test_reset(void **state)
{
    struct fixture f;

    begin(&f, NULL, ACCESS);
    write_with_key(&f, 1, f.to->region.key ^ 0x500);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_REM_ACCESS_ERR, CAUSE_refused_access);
    kit_modify(f.a, QPS_RESET);
    kit_modify(f.b, QPS_RESET);
    kit_connect(f.a, f.b, NULL);
    write_with_key(&f, 2, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 2, WC_SUCCESS, CAUSE_none);
    kit_modify(f.a, QPS_ERR);
    write_with_key(&f, 3, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 3, WC_WR_FLUSH_ERR, CAUSE_program_ended_it);
    incidents(&f, 0, 1); /* the application's own doing is none */
    kit_destroy(f.k);
}

/* A region that was deregistered before, and how long before. */
static void test_removed(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, ACCESS);
    mr_note_removal(&f.k->node[1].mrs, &f.to->region, f.k->now);
    kit_mr_deregister(f.to);
    write_with_key(&f, 1, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_REM_ACCESS_ERR, CAUSE_refused_access);
    i = incidents(&f, 1, 1);
    assert_int_equal(i->cause, CAUSE_remote_key_removed);
    assert_in_range(i->detail[3], 1, 1000); /* us */
    kit_destroy(f.k);
}

/* The answer never comes, and then a later one. */
static void test_silence(void **state)
{
    const struct kit_rc rc = {.retry_cnt = 2};
    struct fixture f;
    const struct incident *i;

    begin(&f, &rc, ACCESS);
    kit_link_lose(&f.k->link[1], UINT64_MAX);
    write_with_key(&f, 1, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_RETRY_EXC_ERR, CAUSE_no_answer);
    i = incidents(&f, 0, 1);
    assert_int_equal(i->detail[1], 2);
    assert_int_equal(i->counter.rx_packets, 0);
    assert_true(i->counter.timeouts >= 3);
    assert_true(i->silent > NS_PER_MS);
    kit_destroy(f.k);

    begin(&f, &rc, ACCESS);
    write_with_key(&f, 1, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_SUCCESS, CAUSE_none);
    kit_link_lose(&f.k->link[1], UINT64_MAX);
    write_with_key(&f, 2, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 2, WC_RETRY_EXC_ERR, CAUSE_answers_stopped);
    i = incidents(&f, 0, 1);
    assert_int_equal(i->detail[2], 1); /* received */

    /* The next connection has heard nothing of its peer. */
    kit_modify(f.a, QPS_RESET);
    kit_modify(f.b, QPS_RESET);
    kit_connect(f.a, f.b, &rc);
    kit_link_lose(&f.k->link[1], UINT64_MAX);
    write_with_key(&f, 3, f.to->region.key);
    run(&f);
    expect_completion(f.a->send_cq, 3, WC_RETRY_EXC_ERR, CAUSE_no_answer);
    kit_destroy(f.k);
}

/* ibv_modify_qp: what is missing, too much, out of range, or no way at all. */
static void test_modify(void **state)
{
    const uint32_t init = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS;
    struct qp_attr attr = {.state = QPS_INIT, .cur_state = QPS_RESET, .port_num = 1};
    struct incident i = {0};
    struct fixture f;

    begin(&f, NULL, ACCESS);
    kit_modify(f.a, QPS_RESET);
    engine_qp_modify_why(f.a->qp, &attr, init, 5, &i);
    assert_int_equal(i.cause, CAUSE_none);
    engine_qp_modify_why(f.a->qp, &attr, init & ~(uint32_t)QPA_PORT, 5, &i);
    assert_int_equal(i.cause, CAUSE_modify_missing);
    assert_int_equal(i.detail[2], QPA_PORT);
    engine_qp_modify_why(f.a->qp, &attr, init | QPA_QKEY, 5, &i);
    assert_int_equal(i.cause, CAUSE_modify_unexpected);
    assert_int_equal(i.detail[2], QPA_QKEY);
    attr.port_num = 2;
    engine_qp_modify_why(f.a->qp, &attr, init, 5, &i);
    assert_int_equal(i.cause, CAUSE_modify_value);
    assert_int_equal(i.detail[0], QPA_PORT);
    assert_int_equal(i.detail[1], 2);
    assert_int_equal(i.detail[3], 1);
    for (uint32_t state_ = QPS_RTR; state_ < 300; state_++) {
        attr.state = state_;
        i.cause = CAUSE_none;
        engine_qp_modify_why(f.a->qp, &attr, QPA_STATE, 5, &i);
        assert_int_equal(i.cause, state_ == QPS_ERR ? CAUSE_none : CAUSE_modify_transition);
    }
    attr.state = QPS_ERR;
    attr.cur_state = QPS_RTS;
    engine_qp_modify_why(f.a->qp, &attr, QPA_STATE | QPA_CUR_STATE, 5, &i);
    assert_int_equal(i.cause, CAUSE_modify_transition);
    kit_destroy(f.k);
}

/* Nothing is posted, again and again: one incident says so. */
static void test_told_once(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, ACCESS);
    for (uint64_t n = 1; n <= 3; n++) {
        kit_do(f.a, SQE_SEND, n, f.from, 0, 64, NULL, 0);
        kit_run(f.k, NULL, NULL, NS_PER_MS);
        kit_recv(f.b, n, f.to, 0, 64);
        run(&f);
        expect_completion(f.a->send_cq, n, WC_SUCCESS, CAUSE_none);
    }
    i = incidents(&f, 1, 1);
    assert_int_equal(i->kind, INCIDENT_DROPPED);
    assert_int_equal(i->cause, CAUSE_receive_queue_empty);
    incidents(&f, 0, 0);
    kit_destroy(f.k);
}

static void inject(struct fixture *f, struct pkt *p, const void *payload)
{
    uint8_t frame[KIT_FRAME_ROOM];

    p->pkey = PKEY_DEFAULT;
    p->dest_qpn = f->b->qpn;
    kit_link_inject(&f->k->link[0], frame, kit_frame_build(frame, f->a, p, payload));
    run(f);
}

/* A peer of an unreliable service cannot fill the ring by breaking rules in turn. */
static void test_told_in_turn(void **state)
{
    struct fixture f = {.k = kit_create(&(struct kit_config){.seed = 1})};
    struct kit_qp_config config = {.type = QPT_UC};
    uint8_t payload[64] = {0};

    f.a = kit_qp_create(&f.k->node[0], &config);
    f.b = kit_qp_create(&f.k->node[1], &config);
    kit_connect(f.a, f.b, NULL);
    for (uint32_t n = 0; n < 20; n++) {
        struct pkt p = {.opcode = OPCODE(PKT_UC, n & 1 ? OP_WRITE_ONLY : OP_SEND_ONLY),
                        .psn = psn(n),
                        .payload_len = 64,
                        .reth = {.rkey = 0x1234, .len = 64}};

        inject(&f, &p, payload);
    }
    incidents(&f, 1, 2);
    assert_int_equal(f.seen[0].cause, CAUSE_receive_queue_empty);
    assert_int_equal(f.seen[1].cause, CAUSE_remote_key_unknown);
    assert_int_equal(f.seen[1].counter.rx_discards, 2);
    kit_destroy(f.k);
}

/* What is wrong with a receive, and its work request. */
static void test_receive(void **state)
{
    struct fixture f;
    const struct incident *i;

    begin(&f, NULL, MEM_REMOTE_READ);
    kit_recv(f.b, 9, f.to, 0, 64);
    kit_do(f.a, SQE_SEND, 1, f.from, 0, 64, NULL, 0);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_REM_OP_ERR, CAUSE_refused_operation);
    expect_completion(f.b->recv_cq, 9, WC_LOC_PROT_ERR, CAUSE_local_key_no_right);
    i = incidents(&f, 1, 1);
    assert_int_equal(i->detail[0], f.to->region.key);
    assert_int_equal(i->wr_id, 9);
    assert_true(i->has_wr);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS);
    kit_recv(f.b, 9, f.to, 0, 16);
    kit_do(f.a, SQE_SEND, 1, f.from, 0, 64, NULL, 0);
    run(&f);
    expect_completion(f.b->recv_cq, 9, WC_LOC_LEN_ERR, CAUSE_receive_too_small);
    i = incidents(&f, 1, 1);
    assert_int_equal(i->detail[0], 64);
    assert_int_equal(i->detail[1], 16);
    assert_int_equal(i->detail[4], 0);
    kit_destroy(f.k);

    /* The first packet does not fit: how long the message is, is not known. */
    begin(&f, NULL, ACCESS);
    kit_recv(f.b, 9, f.to, 0, 16);
    kit_do(f.a, SQE_SEND, 1, f.from, 0, BYTES, NULL, 0);
    run(&f);
    i = incidents(&f, 1, 1);
    assert_int_equal(i->cause, CAUSE_receive_too_small);
    assert_in_range(i->detail[0], 17, BYTES - 1);
    assert_int_equal(i->detail[4], 1);
    kit_destroy(f.k);
}

/* A rule is broken whose fault says more than one thing. */
static void test_lengths(void **state)
{
    struct fixture f;
    uint8_t frame[KIT_FRAME_ROOM], payload[64] = {0};
    struct pkt p = {
        .opcode = OPCODE(PKT_RC, OP_WRITE_ONLY), .pkey = PKEY_DEFAULT, .payload_len = 64};

    begin(&f, NULL, ACCESS);
    p.dest_qpn = f.b->qpn;
    p.reth.len = 63;
    p.reth.va = kit_va(f.to, 0);
    p.reth.rkey = f.to->region.key;
    kit_link_inject(&f.k->link[0], frame, kit_frame_build(frame, f.a, &p, payload));
    run(&f);
    assert_int_equal(incidents(&f, 1, 1)->cause, CAUSE_message_length);
    kit_destroy(f.k);

    begin(&f, NULL, ACCESS);
    p.opcode = OPCODE(PKT_RC, OP_WRITE_FIRST);
    p.dest_qpn = f.b->qpn;
    p.reth.va = kit_va(f.to, 0);
    p.reth.rkey = f.to->region.key;
    p.reth.len = 2048;
    kit_link_inject(&f.k->link[0], frame, kit_frame_build(frame, f.a, &p, payload));
    run(&f);
    assert_int_equal(incidents(&f, 1, 1)->cause, CAUSE_packet_length);
    assert_int_equal(f.seen->detail[0], 64);
    assert_int_equal(f.seen->detail[1], 1024);
    kit_destroy(f.k);
}

/* The packets to a queue pair that were dropped, and the reason of most. */
static void test_drops(void **state)
{
    const struct kit_rc rc = {.retry_cnt = 2};
    uint8_t frame[KIT_FRAME_ROOM];
    struct fixture f;
    struct pkt p = {.opcode = OPCODE(PKT_RC, OP_ACK), .pkey = PKEY_DEFAULT};
    uint32_t len;

    begin(&f, &rc, ACCESS);
    kit_link_lose(&f.k->link[1], UINT64_MAX);
    write_with_key(&f, 1, f.to->region.key);
    p.dest_qpn = f.a->qpn;
    len = kit_frame_build(frame, f.b, &p, NULL);
    frame[len - 1] ^= 1;
    for (unsigned i = 0; i < 3; i++)
        kit_link_inject(&f.k->link[1], frame, len);
    run(&f);
    expect_completion(f.a->send_cq, 1, WC_RETRY_EXC_ERR, CAUSE_packets_damaged);
    assert_int_equal(incidents(&f, 0, 1)->drops, 3);
    assert_int_equal(f.seen->drop_reason, DROP_bad_icrc);
    assert_int_equal(f.seen->detail[0], 3);
    kit_destroy(f.k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judged),       cmocka_unit_test(test_flushed),
        cmocka_unit_test(test_reset),        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_silence),      cmocka_unit_test(test_told_once),
        cmocka_unit_test(test_receive),      cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_drops),        cmocka_unit_test(test_modify),
        cmocka_unit_test(test_told_in_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
