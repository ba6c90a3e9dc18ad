/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs whose copies are late: what waits, what goes on, and what other events do to them. */
#include "late_private.h"
#include "qp.h"
#include "rules.h"

#define LEN  3000 /* three packets */
#define SOON (300 * NS_PER_US)
#define QKEY 0x1234

struct late {
    struct rules t;
    struct kit_node *na, *nb;
    struct kit_mr *from, *to; /* copied: at a and at b */
};

/* reorder: how many queue pairs of a node may keep requests behind a gap. */
static struct late start_keeping(const struct kit_rc *rc, uint32_t reorder)
{
    struct late l = {
        .t = rules_start_on(kit_create(&(struct kit_config){
                                .seed = 1, .slow_nodes = true, .reorder = reorder, .log = true}),
                            rc)};

    l.na = &l.t.k->node[0];
    l.nb = &l.t.k->node[1];
    l.from = kit_mr_create(l.na, MEM_BYTES, MEM_ALL | MEM_MW_BIND, KIT_MR_COPY);
    l.to = kit_mr_create(l.nb, MEM_BYTES, MEM_ALL | MEM_MW_BIND, KIT_MR_COPY);
    for (unsigned i = 0; i < MEM_BYTES; i++)
        l.from->bytes[i] = (uint8_t)(i * 7 + 1);
    return l;
}

static struct late start(const struct kit_rc *rc)
{
    return start_keeping(rc, 0);
}

/* From now on the node's calls are made at once, and those that were put off end. */
static void answer(struct kit_node *n)
{
    kit_hold_calls(n, false);
    kit_end_calls(n);
}

static bool is_suspended(const struct kit_qp *qp)
{
    return qp->qp->late && qp->qp->fault == FAULT_SUSPENDED;
}

/* ---- windows ---- */

static struct kit_send bind_wr(struct kit_mw *mw, const struct kit_mr *mr)
{
    return (struct kit_send){
        .wr_id = 2,
        .op = SQE_BIND_MW,
        .flags = SQE_SIGNALED,
        .rkey = mw->region.key,
        .imm = mw->region.key ^ 1,
        .remote_addr = kit_va(mr, 0),
        .bind = {.length = LEN, .region_key = mr->region.key, .access = MEM_REMOTE_WRITE}};
}

static void spoil_index(void *qp)
{
    atomic_store(&((struct kit_qp *)qp)->shared->sq_prod, 1u << 20);
}

/* A BIND behind a SEND whose payload is late: the WQEs behind wait, however bad the index is. */
static void bind_behind_send(void **state)
{
    struct late l = start(NULL);
    struct kit_mw *mw = kit_mw_create(l.na, MEM_WINDOW_2);
    struct sge sge = kit_sge(l.from, 0, 64);
    struct kit_send send = {.wr_id = 1, .op = SQE_SEND, .sge = &sge, .num_sge = 1},
                    bind = bind_wr(mw, l.from);

    kit_hold_calls(l.na, true);
    l.na->on_held = spoil_index;
    l.na->on_held_ctx = l.t.a;
    kit_post_send(l.t.a, &send);
    kit_post_send(l.t.a, &bind);
    kit_ring(l.t.a);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.a));
    assert_false(mw->region.bound);
    assert_int_equal(kit_modify(l.t.a, QPS_ERR), 0);
    assert_true(is_suspended(l.t.a));
    kit_qp_destroy(l.t.a);
    answer(l.na);
    rules_finish(&l.t);
}

static void bind_follows_send(void **state)
{
    struct late l = start(NULL);
    struct kit_mw *mw = kit_mw_create(l.na, MEM_WINDOW_2);
    struct sge sge = kit_sge(l.from, 0, 64);
    struct kit_send bind = bind_wr(mw, l.from);

    kit_recv(l.t.b, 5, l.t.mb, 0, 64);
    kit_hold_calls(l.na, true);
    kit_post_send(
        l.t.a, &(struct kit_send){
                   .wr_id = 1, .op = SQE_SEND, .flags = SQE_SIGNALED, .sge = &sge, .num_sge = 1});
    kit_post_send(l.t.a, &bind);
    kit_ring(l.t.a);
    run_for(&l.t, SOON);
    answer(l.na);
    run_for(&l.t, SOON);
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    completes(l.t.a->send_cq, 2, WC_SUCCESS);
    assert_true(mw->region.bound);
    rules_finish(&l.t);
}

/* The last packet of a SEND with invalidate flushes what came before, which is late. */
static void invalidate_in_a_late_message(void **state)
{
    struct late l = start(NULL);
    struct kit_mw *mw = kit_mw_create(l.nb, MEM_WINDOW_2);
    struct sge sge = kit_sge(l.t.ma, 0, LEN);
    struct kit_send bind = bind_wr(mw, l.to);

    kit_post_send(l.t.b, &bind);
    kit_ring(l.t.b);
    run_for(&l.t, SOON);
    completes(l.t.b->send_cq, 2, WC_SUCCESS);
    kit_recv(l.t.b, 5, l.to, 0, LEN);
    kit_hold_calls(l.nb, true);
    kit_post_send(l.t.a, &(struct kit_send){.wr_id = 1,
                                            .op = SQE_SEND_INV,
                                            .flags = SQE_SIGNALED,
                                            .imm = mw->region.key,
                                            .sge = &sge,
                                            .num_sge = 1});
    kit_ring(l.t.a);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.b));
    assert_true(mw->region.bound);
    answer(l.nb);
    run_for(&l.t, MILLI(5));
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    completes(l.t.b->recv_cq, 5, WC_SUCCESS);
    assert_false(mw->region.bound);
    assert_memory_equal(l.to->bytes, l.t.ma->bytes, LEN);
    rules_finish(&l.t);
}

/* ---- receive completions ---- */

static void post_xrc(struct kit_qp *a, const struct kit_mr *from, const struct kit_srq *srq)
{
    struct sge sge = kit_sge(from, 0, 64);

    assert_int_equal(kit_post_send(a, &(struct kit_send){.wr_id = srq->number,
                                                         .op = SQE_SEND,
                                                         .remote_srqn = srq->number,
                                                         .sge = &sge,
                                                         .num_sge = 1}),
                     0);
}

/* A request of a arrives, which names the SRQ, if it is one of XRC. */
static void inject(struct late *l, const struct kit_qp *a, struct pkt *p, const struct kit_srq *srq)
{
    uint8_t frame[KIT_FRAME_ROOM];

    p->xrc_srqn = srq ? srq->number : 0;
    kit_link_inject(l->t.ab, frame, kit_frame_build(frame, a, p, l->t.ma->bytes));
    run_for(&l->t, SOON);
}

/* SENDs to two SRQs in one burst. */
static void xrc_completions_are_kept(void **state)
{
    struct late l = start(NULL);
    struct kit_cq *cq[2] = {kit_cq_create(l.nb, 16), kit_cq_create(l.nb, 16)};
    struct kit_srq *srq[2];
    struct sge sge = kit_sge(l.to, 0, 64);
    struct kit_qp *a = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_XRC_SEND}),
                  *b =
                      kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_XRC_RECV, .xrcd = 1});

    kit_connect(a, b, NULL);
    for (unsigned i = 0; i < 2; i++) {
        srq[i] = kit_srq_create(l.nb, 4, cq[i], 1);
        assert_int_equal(kit_srq_post(srq[i], 10 + i, &sge, 1), 0);
        post_xrc(a, l.t.ma, srq[i]);
    }
    kit_hold_calls(l.nb, true);
    kit_ring(a);
    run_for(&l.t, SOON);
    assert_true(is_suspended(b));
    answer(l.nb);
    run_for(&l.t, SOON);
    completes(cq[0], 10, WC_SUCCESS);
    completes(cq[1], 11, WC_SUCCESS);
    rules_finish(&l.t);
}

/* A request whose copy finds no room has its WQE. It comes again, and names another SRQ. */
static void xrc_srq_is_kept(void **state)
{
    static const uint8_t ops[] = {OP_SEND_ONLY, OP_WRITE_ONLY_IMM};

    for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
        struct late l = start(NULL);
        struct kit_cq *cq = kit_cq_create(l.nb, 16);
        struct kit_srq *srq[2];
        struct sge sge = kit_sge(l.to, 0, 64);
        struct kit_qp *a = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_XRC_SEND}),
                      *b = kit_qp_create(l.nb,
                                         &(struct kit_qp_config){.type = QPT_XRC_RECV, .xrcd = 1});
        struct pkt p = {.opcode = OPCODE(PKT_XRC, ops[i]),
                        .pkey = PKEY_DEFAULT,
                        .ack_req = true,
                        .dest_qpn = b->qpn,
                        .reth = {kit_va(l.to, 0), l.to->region.key, 64},
                        .payload_len = 64};

        kit_connect(a, b, NULL);
        for (unsigned k = 0; k < 2; k++) {
            srq[k] = kit_srq_create(l.nb, 4, cq, 1);
            assert_int_equal(kit_srq_post(srq[k], 10 + k, &sge, 1), 0);
        }
        kit_refuse_calls(l.nb, true);
        inject(&l, a, &p, srq[0]);
        assert_true(is_suspended(b));
        kit_refuse_calls(l.nb, false);
        inject(&l, a, &p, srq[1]);
        assert_int_equal(state_of(b), QPS_ERR);
        completes(cq, 10, WC_REM_INV_REQ_ERR);
        completes_nothing(cq);
        assert_int_equal(l.to->bytes[0], 0);
        rules_finish(&l.t);
    }
}

/* A datagram to a group is late: it has no SRQ, whatever packet came before it. */
static void group_behind_xrc(void **state)
{
    struct late l = start(NULL);
    struct kit_srq *srq = kit_srq_create(l.nb, 4, kit_cq_create(l.nb, 16), 1);
    struct sge sge = kit_sge(l.t.mb, 0, 64);
    struct kit_qp *a = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_XRC_SEND}),
                  *b =
                      kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_XRC_RECV, .xrcd = 1}),
                  *sender = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_UD}),
                  *member = kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_UD});
    union gid group = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});

    kit_connect(a, b, NULL);
    assert_int_equal(kit_srq_post(srq, 10, &sge, 1), 0);
    post_xrc(a, l.t.ma, srq);
    kit_ring(a);
    run_for(&l.t, SOON);
    kit_start_ud(sender, QKEY, 100);
    kit_start_ud(member, QKEY, 200);
    assert_int_equal(kit_join(member, &group), 0);
    kit_recv(member, 5, l.to, 0, 100);
    kit_hold_calls(l.nb, true);
    sge = kit_sge(l.t.ma, 0, 60);
    kit_post_send(sender, &(struct kit_send){.op = SQE_SEND,
                                             .ud = {kit_ah_to_group(l.na, &group, KIT_GID_V4),
                                                    QPN_MULTICAST, QKEY},
                                             .sge = &sge,
                                             .num_sge = 1});
    kit_ring(sender);
    run_for(&l.t, SOON);
    assert_true(is_suspended(member));
    assert_int_equal(member->qp->late->recvs, 1);
    assert_int_equal(member->qp->late->recv->srqn, 0);
    answer(l.nb);
    completes(member->recv_cq, 5, WC_SUCCESS);
    rules_finish(&l.t);
}

static struct late start_late_recv(const struct kit_rc *rc)
{
    struct late l = start(rc);

    kit_recv(l.t.b, 5, l.to, 0, LEN);
    kit_recv(l.t.b, 6, l.to, 0, LEN);
    kit_hold_calls(l.nb, true);
    kit_do(l.t.a, SQE_SEND, 1, l.t.ma, 0, LEN, NULL, 0);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.b));
    return l;
}

/* Buffers that are still written have no completion. */
static void error_waits(void **state)
{
    struct late l = start_late_recv(NULL);

    assert_int_equal(kit_modify(l.t.b, QPS_ERR), 0);
    assert_int_equal(state_of(l.t.b), QPS_ERR);
    kit_ring(l.t.b);
    completes_nothing(l.t.b->recv_cq);
    answer(l.nb);
    completes(l.t.b->recv_cq, 5, WC_SUCCESS);
    completes(l.t.b->recv_cq, 6, WC_WR_FLUSH_ERR);
    assert_memory_equal(l.to->bytes, l.t.ma->bytes, LEN);
    rules_finish(&l.t);
}

static void reset_waits(void **state)
{
    struct late l = start_late_recv(NULL);

    assert_int_equal(kit_modify(l.t.b, QPS_RESET), -EAGAIN);
    assert_int_equal(state_of(l.t.b), QPS_ERR);
    completes_nothing(l.t.b->recv_cq);
    answer(l.nb);
    completes_nothing(l.t.b->recv_cq);
    assert_int_equal(kit_modify(l.t.b, QPS_RESET), 0);
    rules_finish(&l.t);
}

static void stop_waits(void **state)
{
    struct late l = start_late_recv(NULL);

    assert_false(engine_qp_stop(l.nb->engine, l.t.b->qp));
    assert_false(engine_qp_stop(l.nb->engine, l.t.b->qp));
    answer(l.nb);
    assert_true(engine_qp_stop(l.nb->engine, l.t.b->qp));
    assert_null(l.t.b->qp->late);
    rules_finish(&l.t);
}

/* Memory that does not answer at all fails the queue pair, and does not keep it. */
static void given_up(void **state)
{
    struct late l = start_late_recv(NULL);

    kit_give_up_calls(l.nb);
    completes(l.t.b->recv_cq, 5, WC_LOC_PROT_ERR);
    completes(l.t.b->recv_cq, 6, WC_WR_FLUSH_ERR);
    assert_true(engine_qp_stop(l.nb->engine, l.t.b->qp));
    rules_finish(&l.t);
}

/* ---- what was not sent ---- */

static void datagrams_are_sent(void **state)
{
    struct late l = start(NULL);
    struct kit_qp *a = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_UD}),
                  *b = kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_UD});
    uint32_t ah = kit_ah_create(l.na, l.nb, KIT_GID_V4);

    kit_start_ud(a, QKEY, 100);
    kit_start_ud(b, QKEY, 200);
    kit_hold_calls(l.na, true);
    for (unsigned i = 0; i < 3; i++) {
        struct sge sge = kit_sge(i == 2 ? l.t.ma : l.from, i * 100, 100);

        kit_recv(b, i, l.t.mb, i * 1000, 1000);
        kit_post_send(a, &(struct kit_send){.wr_id = i,
                                            .op = SQE_SEND,
                                            .flags = SQE_SIGNALED,
                                            .ud = {ah, b->qpn, QKEY},
                                            .sge = &sge,
                                            .num_sge = 1});
    }
    kit_ring(a);
    run_for(&l.t, SOON);
    completes_nothing(a->send_cq);
    answer(l.na);
    run_for(&l.t, SOON);
    for (unsigned i = 0; i < 3; i++) {
        completes(a->send_cq, i, WC_SUCCESS);
        completes(b->recv_cq, i, WC_SUCCESS);
    }
    assert_memory_equal(l.t.mb->bytes + 40, l.from->bytes, 100);
    assert_memory_equal(l.t.mb->bytes + 1040, l.from->bytes + 100, 100);
    rules_finish(&l.t);
}

/* More pieces than a call moves, so that one is made in the middle of a datagram: in bursts that
 * are long enough, which some rounds have. */
#define PIECES    3
#define DATAGRAMS 30
#define ROUNDS    20

static void post_pieces(const struct late *l, struct kit_qp *a, struct kit_qp *b, uint32_t ah,
                        unsigned first)
{
    for (unsigned i = first; i < first + DATAGRAMS; i++) {
        struct sge sge[PIECES];

        for (unsigned k = 0; k < PIECES; k++)
            sge[k] = kit_sge(l->from, PIECES * i + k, 1);
        kit_recv(b, i, l->t.mb, i * 64, 64);
        kit_post_send(a, &(struct kit_send){.wr_id = i,
                                            .op = SQE_SEND,
                                            .flags = SQE_SIGNALED,
                                            .ud = {ah, b->qpn, QKEY},
                                            .sge = sge,
                                            .num_sge = PIECES});
    }
    kit_ring(a);
}

static void datagrams_in_pieces_are_sent(void **state)
{
    struct late l = start(NULL);
    struct kit_qp *a = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_UD}),
                  *b = kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_UD});
    uint32_t ah = kit_ah_create(l.na, l.nb, KIT_GID_V4);

    kit_start_ud(a, QKEY, 100);
    kit_start_ud(b, QKEY, 200);
    for (unsigned round = 0; round < ROUNDS; round++) {
        kit_hold_calls(l.na, round % 2);
        post_pieces(&l, a, b, ah, round * DATAGRAMS);
        run_for(&l.t, SOON);
        answer(l.na);
        run_for(&l.t, SOON);
        for (unsigned i = round * DATAGRAMS; i < (round + 1) * DATAGRAMS; i++) {
            completes(a->send_cq, i, WC_SUCCESS);
            completes(b->recv_cq, i, WC_SUCCESS);
            assert_memory_equal(l.t.mb->bytes + i * 64 + 40, l.from->bytes + PIECES * i, PIECES);
        }
    }
    rules_finish(&l.t);
}

#define MANY       15 /* pieces of a datagram */
#define PIECE      65 /* bytes: more than a call keeps itself */
#define FILL_BATCH 4  /* datagrams; that of the next one fills up in its middle */

static void post_many(const struct late *l, struct kit_qp *a, struct kit_qp *b, uint32_t ah,
                      uint64_t id, uint32_t last_key)
{
    struct sge sge[MANY];

    for (unsigned k = 0; k < MANY; k++)
        sge[k] = kit_sge(l->from, PIECE * k, PIECE);
    sge[MANY - 1].lkey = last_key;
    kit_recv(b, id, l->t.mb, 0, MEM_BYTES);
    kit_post_send(a, &(struct kit_send){.wr_id = id,
                                        .op = SQE_SEND,
                                        .flags = SQE_SIGNALED,
                                        .ud = {ah, b->qpn, QKEY},
                                        .sge = sge,
                                        .num_sge = MANY});
}

/* A datagram some of whose bytes are late, and whose last key is wrong: its frame is not another
 * one's. */
static void a_wrong_key_behind_late_bytes(void **state)
{
    struct late l = start(NULL);
    struct kit_qp *a =
                      kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_UD, .max_sge = MANY}),
                  *b = kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_UD});
    uint32_t ah = kit_ah_create(l.na, l.nb, KIT_GID_V4);

    kit_start_ud(a, QKEY, 100);
    kit_start_ud(b, QKEY, 200);
    kit_hold_calls(l.na, true);
    for (unsigned i = 0; i < FILL_BATCH; i++)
        post_many(&l, a, b, ah, i, l.from->region.key);
    post_many(&l, a, b, ah, FILL_BATCH, ~l.from->region.key);
    kit_ring(a);
    kit_do(l.t.a, SQE_WRITE, 9, l.t.ma, 0, LEN, l.t.mb, 0);
    run_for(&l.t, SOON);
    assert_true(is_suspended(a));
    completes(l.t.a->send_cq, 9, WC_SUCCESS);
    assert_memory_equal(l.t.mb->bytes, l.t.ma->bytes, LEN);
    answer(l.na);
    run_for(&l.t, SOON);
    for (unsigned i = 0; i < FILL_BATCH; i++) {
        completes(a->send_cq, i, WC_SUCCESS);
        completes(b->recv_cq, i, WC_SUCCESS);
    }
    completes(a->send_cq, FILL_BATCH, WC_LOC_PROT_ERR);
    assert_memory_equal(l.t.mb->bytes + 40, l.from->bytes, MANY * PIECE);
    rules_finish(&l.t);
}

static void unreliable_messages_are_sent(void **state)
{
    struct late l = start(NULL);
    struct kit_qp *a = kit_qp_create(l.na, &(struct kit_qp_config){.type = QPT_UC}),
                  *b = kit_qp_create(l.nb, &(struct kit_qp_config){.type = QPT_UC});

    kit_connect(a, b, NULL);
    kit_hold_calls(l.na, true);
    kit_do(a, SQE_WRITE, 1, l.from, 0, LEN, l.t.mb, 0);
    kit_do(a, SQE_WRITE, 2, l.t.ma, 0, LEN, l.t.mb, LEN);
    run_for(&l.t, SOON);
    completes_nothing(a->send_cq);
    answer(l.na);
    run_for(&l.t, SOON);
    completes(a->send_cq, 1, WC_SUCCESS);
    completes(a->send_cq, 2, WC_SUCCESS);
    assert_memory_equal(l.t.mb->bytes, l.from->bytes, LEN);
    assert_memory_equal(l.t.mb->bytes + LEN, l.t.ma->bytes, LEN);
    rules_finish(&l.t);
}

/* The ACK of its WRITE arrives while a is suspended, and no timer will ask for it. */
static void without_a_timer(void **state)
{
    struct late l = start(&(struct kit_rc){.timeout = KIT_NO_TIMEOUT});

    kit_recv(l.t.a, 5, l.from, 0, LEN);
    kit_hold_calls(l.na, true);
    kit_do(l.t.a, SQE_WRITE, 1, l.t.ma, 0, LEN, l.t.mb, 0);
    kit_do(l.t.b, SQE_SEND, 2, l.t.mb, 0, 64, NULL, 0);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.a));
    assert_true(drops_of(l.na, qp_suspended) > 0);
    answer(l.na);
    run_for(&l.t, SOON);
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    completes(l.t.a->recv_cq, 5, WC_SUCCESS);
    completes(l.t.b->send_cq, 2, WC_SUCCESS);
    rules_finish(&l.t);
}

/* The peer waits for a response whose memory is late, and has no timer either. */
static void response_without_a_timer(void **state)
{
    struct late l = start(&(struct kit_rc){.timeout = KIT_NO_TIMEOUT});

    kit_hold_calls(l.nb, true);
    kit_do(l.t.a, SQE_READ, 1, l.t.ma, 0, LEN, l.to, 0);
    kit_do(l.t.a, SQE_READ, 2, l.t.ma, LEN, LEN, l.t.mb, 0);
    kit_do(l.t.a, SQE_WRITE, 3, l.t.ma, 0, 64, l.t.mb, 0);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.b));
    answer(l.nb);
    run_for(&l.t, SOON);
    for (unsigned i = 1; i <= 3; i++)
        completes(l.t.a->send_cq, i, WC_SUCCESS);
    assert_memory_equal(l.t.ma->bytes, l.to->bytes, LEN);
    rules_finish(&l.t);
}

/* A READ of 2^23 PSNs ago, with that many WRITEs since, is not answered again with a late one: its
 * key may be gone by now. */
static void late_response_long_after_another(void **state)
{
    struct late l = start(NULL);
    struct kit_mr *old = kit_mr_create(l.nb, 64, MEM_ALL, KIT_MR_DIRECT);
    struct responder *resp = &l.t.b->qp->resp;
    struct pkt p = {.opcode = RC(OP_READ_REQUEST),
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = l.t.b->qpn,
                    .reth = {kit_va(l.to, 0), l.to->region.key, 64}};

    kit_do(l.t.a, SQE_READ, 1, l.t.ma, 0, 64, old, 0);
    run_for(&l.t, SOON);
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    kit_mr_deregister(old);
    p.psn = resp->epsn = psn_add(resp->epsn, (1u << 23) + 10);
    kit_hold_calls(l.nb, true);
    inject(&l, l.t.a, &p, NULL);
    assert_true(is_suspended(l.t.b));
    answer(l.nb);
    run_for(&l.t, SOON);
    assert_int_equal(state_of(l.t.b), QPS_RTS);
    assert_int_equal(kit_link_count(l.t.ba, RC(OP_READ_RESP_ONLY)), 2);
    rules_finish(&l.t);
}

/* What was built behind a request whose payload is late is not sent either: responses, and the ACK
 * behind them. The peer has no timer. */
static void answers_behind_a_request(void **state)
{
    struct late l = start(&(struct kit_rc){.timeout = KIT_NO_TIMEOUT});
    struct sge sge = kit_sge(l.from, 0, 64);

    kit_recv(l.t.a, 5, l.t.ma, 32768, 64);
    kit_recv(l.t.b, 6, l.t.mb, 32768, 64);
    kit_hold_calls(l.na, true);
    kit_post_send(l.t.a, &(struct kit_send){.wr_id = 1, /* found with the first response */
                                            .op = SQE_SEND,
                                            .flags = SQE_SIGNALED,
                                            .sge = &sge,
                                            .num_sge = 1});
    kit_do(l.t.b, SQE_READ, 2, l.t.mb, 0, 20 * MTU, l.t.ma, 0);
    kit_do(l.t.b, SQE_SEND, 3, l.t.mb, 0, 64, NULL, 0);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.a));
    answer(l.na);
    run_for(&l.t, SOON);
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    completes(l.t.b->send_cq, 2, WC_SUCCESS);
    completes(l.t.b->send_cq, 3, WC_SUCCESS);
    assert_memory_equal(l.t.mb->bytes, l.t.ma->bytes, 20 * MTU);
    rules_finish(&l.t);
}

/* The NAK of a lost request behind it is sent once more with the response, as no timer asks. */
static void gap_after_response(void **state)
{
    struct late l = start(&(struct kit_rc){.timeout = KIT_NO_TIMEOUT});

    kit_hold_calls(l.nb, true);
    kit_do(l.t.a, SQE_READ, 1, l.t.ma, 0, 64, l.to, 0);
    kit_link_lose(l.t.ab, 2);
    kit_do(l.t.a, SQE_WRITE, 2, l.t.ma, 0, 64, l.t.mb, 0);
    kit_do(l.t.a, SQE_WRITE, 3, l.t.ma, 64, 64, l.t.mb, 64);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.b));
    answer(l.nb);
    run_for(&l.t, SOON);
    for (unsigned i = 1; i <= 3; i++)
        completes(l.t.a->send_cq, i, WC_SUCCESS);
    assert_memory_equal(l.t.ma->bytes + 64, l.t.mb->bytes + 64, 64);
    rules_finish(&l.t);
}

/* The refusal of a later request does not overtake a response that is late. */
static void refusal_after_response(void **state)
{
    struct late l = start(NULL);
    struct sge sge = kit_sge(l.t.ma, LEN, 64);

    kit_hold_calls(l.nb, true);
    kit_do(l.t.a, SQE_READ, 1, l.t.ma, 0, LEN, l.to, 0);
    kit_post_send(
        l.t.a,
        &(struct kit_send){
            .wr_id = 2, .op = SQE_WRITE, .sge = &sge, .num_sge = 1, .rkey = 1, .remote_addr = 1});
    kit_ring(l.t.a);
    run_for(&l.t, SOON);
    assert_true(is_suspended(l.t.b));
    assert_int_equal(kit_link_acks(l.t.ba, AETH_NAK, -1), 0);
    answer(l.nb);
    run_for(&l.t, SOON);
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    completes(l.t.a->send_cq, 2, WC_REM_ACCESS_ERR);
    rules_finish(&l.t);
}

/* Requests that were kept behind a gap: their room is free when they are executed, and may be
 * another's before their copies have ended. */
static void behind_a_gap(void **state)
{
    struct late l = start_keeping(NULL, 1);
    struct sge sge[] = {kit_sge(l.t.mb, 0, MTU), kit_sge(l.to, 0, LEN - MTU)};

    kit_post_recv(l.t.b, 5, sge, 2);
    kit_link_lose(l.t.ab, 1);
    kit_hold_calls(l.nb, true);
    kit_do(l.t.a, SQE_SEND, 1, l.t.ma, 0, LEN, NULL, 0);
    run_for(&l.t, MILLI(5));
    assert_true(count_of(l.t.b, requests_kept) > 0);
    assert_true(is_suspended(l.t.b));
    answer(l.nb);
    run_for(&l.t, MILLI(5));
    completes(l.t.a->send_cq, 1, WC_SUCCESS);
    completes(l.t.b->recv_cq, 5, WC_SUCCESS);
    assert_memory_equal(l.t.mb->bytes, l.t.ma->bytes, MTU);
    assert_memory_equal(l.to->bytes, l.t.ma->bytes + MTU, LEN - MTU);
    rules_finish(&l.t);
}

/* ---- no room for calls ---- */

static void nothing_fails_without_room(void **state)
{
    static const uint8_t ops[] = {SQE_WRITE, SQE_SEND, SQE_READ, SQE_FETCH_ADD, SQE_ATOMIC_WRITE};

    for (unsigned i = 0; i < 2 * ARRAY_SIZE(ops); i++) {
        struct late l = start(&(struct kit_rc){.timeout = 12});
        uint8_t op = ops[i / 2];
        uint32_t len = op == SQE_FETCH_ADD || op == SQE_ATOMIC_WRITE ? 8 : LEN;

        kit_recv(l.t.b, 5, l.to, 0, LEN);
        kit_refuse_calls(i % 2 ? l.na : l.nb, true);
        kit_do(l.t.a, op, 1, l.from, 0, len, l.to, 0);
        run_for(&l.t, SOON);
        completes_nothing(l.t.a->send_cq);
        completes_nothing(l.t.b->recv_cq);
        kit_refuse_calls(i % 2 ? l.na : l.nb, false);
        run_for(&l.t, MILLI(200));
        completes(l.t.a->send_cq, 1, WC_SUCCESS);
        if (op == SQE_SEND)
            completes(l.t.b->recv_cq, 5, WC_SUCCESS);
        if (op == SQE_SEND || op == SQE_WRITE)
            assert_memory_equal(l.to->bytes, l.from->bytes, LEN);
        rules_finish(&l.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bind_behind_send),
        cmocka_unit_test(bind_follows_send),
        cmocka_unit_test(invalidate_in_a_late_message),
        cmocka_unit_test(xrc_completions_are_kept),
        cmocka_unit_test(xrc_srq_is_kept),
        cmocka_unit_test(group_behind_xrc),
        cmocka_unit_test(error_waits),
        cmocka_unit_test(reset_waits),
        cmocka_unit_test(stop_waits),
        cmocka_unit_test(given_up),
        cmocka_unit_test(datagrams_are_sent),
        cmocka_unit_test(datagrams_in_pieces_are_sent),
        cmocka_unit_test(unreliable_messages_are_sent),
        cmocka_unit_test(without_a_timer),
        cmocka_unit_test(response_without_a_timer),
        cmocka_unit_test(late_response_long_after_another),
        cmocka_unit_test(answers_behind_a_request),
        cmocka_unit_test(gap_after_response),
        cmocka_unit_test(refusal_after_response),
        cmocka_unit_test(a_wrong_key_behind_late_bytes),
        cmocka_unit_test(behind_a_gap),
        cmocka_unit_test(nothing_fails_without_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
