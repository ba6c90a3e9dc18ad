/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw packets at one engine: delivery, states, receive WQEs that are malformed or fail. */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"

#include "bytes.h"
#include "raw_fixture.h"

#define LONG_FRAME 1500

static void expect_none(struct fixture *f)
{
    struct cqe c;

    assert_false(raw_poll(f->cq, &c));
}

static int set_qp(struct fixture *f, struct qp_attr attr, uint32_t mask)
{
    return engine_qp_modify(f->k->node[0].engine, f->qp->qp, &attr, mask, NULL, 5, ++f->k->now);
}

/* ---- delivery ---- */

/* Bytes, length, number, and the application's own number; into one piece or several. */
static void frames_arrive_whole(void **state)
{
    static const uint32_t lens[] = {60, 61, 64, 1000, LONG_FRAME};
    struct fixture *f = *state;
    struct cqe c;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
        const struct sge sge[2] = {raw_sge(f->k, 2 * i, 0, 17), raw_sge(f->k, 2 * i + 1, 0, 2000)};
        struct raw_bytes b;
        struct frame frame;

        raw_post_sges(f->qp, i, sge, 2);
        raw_build(&b, &(struct raw_spec){.payload = lens[i] - 14});
        assert_int_equal(b.len, lens[i]);
        frame = raw_frame(&b);
        raw_arrive(f->k, 0, &frame, 1);
        assert_true(raw_poll(f->cq, &c));
        assert_int_equal(c.status, WC_SUCCESS);
        assert_int_equal(c.opcode, WC_RECV);
        assert_int_equal(c.wr_id, i);
        assert_int_equal(c.wqe, i);
        assert_int_equal(c.byte_len, lens[i]);
        assert_int_equal(c.qpn, qp_number(f->qp->qp));
        assert_int_equal(c.uidx, 0x2000);
        assert_int_equal(c.imm, 0);
        assert_memory_equal(f->k->arena + (size_t)2 * i * RAW_SLOT, b.data, 17);
        assert_memory_equal(f->k->arena + (size_t)(2 * i + 1) * RAW_SLOT, b.data + 17, b.len - 17);
        assert_int_equal(f->k->arena[(2 * i + 1) * RAW_SLOT + b.len - 17], 0);
    }
    assert_int_equal(raw_delivered(f->k), ARRAY_SIZE(lens));
    assert_int_equal(counter_get(&qp_counters(f->qp->qp)->rx_packets), ARRAY_SIZE(lens));
    assert_int_equal(counter_get(&qp_counters(f->qp->qp)->rx_bytes), 60 + 61 + 64 + 1000 + 1500);
}

static void wq_has_its_own_numbers(void **state)
{
    struct fixture *f = *state;
    struct one_wq o;
    struct cqe c;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    assert_int_equal(set_wq(f, WQS_RDY), 0);
    raw_post(f->wq, 3);
    arrive(f, 100);
    assert_true(raw_poll(f->cq, &c));
    assert_int_equal(c.qpn, wq_number(f->wq->wq));
    assert_int_equal(c.uidx, 0x1000);
    assert_int_equal(c.byte_len, 114);
    assert_ptr_equal(wq_owner(f->wq->wq), f->wq);
    one_wq_free(f, &o);
}

static void tag_is_in_the_completion(void **state)
{
    struct fixture *f = *state;
    struct flow_rule rule = {.type = FLOW_NORMAL, .tagged = true, .tag = 0xABCDEF};
    struct cqe c;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    rule.qp = f->qp->qp;
    raw_rules(f->k, &rule, 1);
    raw_post(f->qp, 0);
    arrive(f, 100);
    assert_true(raw_poll(f->cq, &c));
    assert_int_equal(c.imm, 0xABCDEF);
}

/* More frames than a batch of completions and a batch of copies hold, each in two pieces. */
static void many_in_one_burst(void **state)
{
    struct fixture *f = *state;
    struct raw_bytes b[FRAME_BURST];
    struct frame frame[FRAME_BURST];
    struct flow_rule rule[3];

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    for (unsigned i = 0; i < 3; i++)
        rule[i] = (struct flow_rule){.type = i < 2 ? FLOW_SNIFFER : FLOW_NORMAL, .qp = f->qp->qp};
    raw_rules(f->k, rule, 3);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        raw_build(&b[i], &(struct raw_spec){.payload = 60 + i});
        frame[i] = raw_frame(&b[i]);
    }
    for (unsigned i = 0; i < RAW_QUEUE; i++) {
        const struct sge sge[2] = {raw_sge(f->k, i, 0, 33), raw_sge(f->k, i, 33, 1000)};

        raw_post_sges(f->qp, i, sge, 2);
    }
    raw_arrive(f->k, 0, frame, 21);
    for (unsigned i = 0; i < 63; i++) {
        expect(f, i, WC_SUCCESS);
        assert_memory_equal(f->k->arena + (size_t)i * RAW_SLOT, b[i / 3].data, b[i / 3].len);
    }
    expect_none(f);
    assert_int_equal(raw_delivered(f->k), 63);
}

static void no_entry_no_frame(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    arrive(f, 100);
    expect_none(f);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 1);
}

/* The WQE stays for the next frame that fits. */
static void short_entry_is_kept(void **state)
{
    struct fixture *f = *state;
    struct sge sge;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    sge = raw_sge(f->k, 1, 0, 113);
    raw_post_sges(f->qp, 1, &sge, 1);
    raw_post(f->qp, 2);
    arrive(f, 100);
    arrive(f, 300);
    assert_int_equal(raw_drops(f->k, DROP_raw_too_long), 2);
    expect_none(f);
    arrive(f, 99);
    expect(f, 1, WC_SUCCESS);
    arrive(f, 300);
    expect(f, 2, WC_SUCCESS);
}

/* ---- states ---- */

static const uint32_t qp_masks[] = {
    0,        QPA_PORT,        QPA_CUR_STATE,           QPA_PORT | QPA_CUR_STATE,
    QPA_QKEY, QPA_PKEY_INDEX,  QPA_EN_SQD_ASYNC_NOTIFY, QPA_SQ_PSN,
    QPA_AV,   QPA_ACCESS_FLAGS};

/* The transitions that Linux allows raw queue pairs; to RESET and ERR from any state, without
 * attributes. */
static bool qp_may(enum qp_state from, enum qp_state to, uint32_t mask)
{
    static const struct {
        enum qp_state from, to;
        uint32_t required, optional;
    } rows[] = {
        {QPS_RESET, QPS_INIT, QPA_PORT, 0},
        {QPS_INIT, QPS_INIT, 0, QPA_PORT},
        {QPS_INIT, QPS_RTR, 0, 0},
        {QPS_RTR, QPS_RTS, 0, QPA_CUR_STATE},
        {QPS_RTS, QPS_RTS, 0, QPA_CUR_STATE},
        {QPS_RTS, QPS_SQD, 0, QPA_EN_SQD_ASYNC_NOTIFY},
        {QPS_SQD, QPS_RTS, 0, QPA_CUR_STATE},
        {QPS_SQE, QPS_RTS, 0, QPA_CUR_STATE},
    };

    if (to == QPS_RESET || to == QPS_ERR)
        return !(mask & ~(uint32_t)QPA_CUR_STATE);
    for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].from == from && rows[i].to == to)
            return (mask & rows[i].required) == rows[i].required &&
                   !(mask & ~(rows[i].required | rows[i].optional));
    return false;
}

static void post_bad_send(struct fixture *f)
{
    struct sqe *e = work_queue_slot(f->qp->sq, RAW_QUEUE, sqe_stride(RAW_SGE, 64),
                                    atomic_load(&f->qp->shared->sq_prod));

    *e = (struct sqe){.opcode = SQE_WRITE, .flags = SQE_SIGNALED};
    atomic_fetch_add(&f->qp->shared->sq_prod, 1);
}

/* From any state to `state`, by the shortest path. */
static void bring_qp_to(struct fixture *f, enum qp_state to)
{
    static const enum qp_state way[] = {QPS_INIT, QPS_RTR, QPS_RTS};

    assert_int_equal(set_qp(f, (struct qp_attr){.state = QPS_RESET}, QPA_STATE), 0);
    if (to == QPS_ERR)
        assert_int_equal(set_qp(f, (struct qp_attr){.state = to}, QPA_STATE), 0);
    if (to == QPS_RESET || to == QPS_ERR)
        return;
    for (unsigned i = 0; i < min_of((unsigned)to, 3u); i++)
        assert_int_equal(set_qp(f, (struct qp_attr){.state = way[i], .port_num = 1},
                                QPA_STATE | (i ? 0 : QPA_PORT)),
                         0);
    if (to == QPS_SQD)
        assert_int_equal(set_qp(f, (struct qp_attr){.state = to}, QPA_STATE), 0);
    if (to == QPS_SQE) { /* by a send that fails */
        uint8_t room[RAW_FRAME_MAX];
        struct frame lent = {.data = room, .room = sizeof(room)};

        post_bad_send(f);
        engine_doorbell(f->k->node[0].engine, f->qp->qp, ++f->k->now);
        assert_int_equal(engine_tx(f->k->node[0].engine, &lent, 1, ++f->k->now), 0);
        expect(f, 0, WC_LOC_QP_OP_ERR);
    }
}

static void every_qp_transition(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    for (int from = 0; from < QPS_COUNT; from++)
        for (int to = 0; to < QPS_COUNT; to++)
            for (unsigned m = 0; m < ARRAY_SIZE(qp_masks); m++) {
                struct qp_attr attr = {
                    .state = (uint32_t)to, .cur_state = (uint32_t)from, .port_num = 1};
                bool may = qp_may((enum qp_state)from, (enum qp_state)to, qp_masks[m]);

                bring_qp_to(f, (enum qp_state)from);
                assert_int_equal(qp_current_state(f->qp->qp), from);
                assert_int_equal(set_qp(f, attr, QPA_STATE | qp_masks[m]), may ? 0 : -EINVAL);
                assert_int_equal(qp_current_state(f->qp->qp), may ? to : from);
            }
}

/* From RTR on; in the error state WQEs are flushed, also those that are posted there. */
static void qp_receives_by_state(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    for (int s = 0; s < QPS_COUNT; s++) {
        bool receives = s == QPS_RTR || s == QPS_RTS || s == QPS_SQD || s == QPS_SQE;

        bring_qp_to(f, (enum qp_state)s);
        raw_post(f->qp, 40);
        arrive(f, 200);
        if (s == QPS_ERR) {
            assert_int_equal(atomic_load(&f->qp->shared->rq_notify), 1);
            engine_doorbell(f->k->node[0].engine, f->qp->qp, ++f->k->now);
            expect(f, 40, WC_WR_FLUSH_ERR);
        } else if (receives) {
            expect(f, 40, WC_SUCCESS);
        }
        expect_none(f);
    }
    assert_int_equal(raw_delivered(f->k), 4);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 3);
}

static void qp_reset_forgets(void **state)
{
    struct fixture *f = *state;
    struct sge small;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    small = raw_sge(f->k, 1, 0, 20);
    raw_post_sges(f->qp, 1, &small, 1);
    raw_post(f->qp, 2);
    arrive(f, 100); /* the first WQE is kept */
    bring_qp_to(f, QPS_RTS);
    assert_int_equal(raw_posted(f->qp), 0);
    arrive(f, 100);
    expect_none(f);
    raw_post(f->qp, 3);
    arrive(f, 100);
    expect(f, 3, WC_SUCCESS);
}

static void every_wq_transition(void **state)
{
    static const bool may[3][3] = {[WQS_RESET] = {[WQS_RESET] = 1, [WQS_RDY] = 1},
                                   [WQS_RDY] = {[WQS_RESET] = 1, [WQS_RDY] = 1, [WQS_ERR] = 1},
                                   [WQS_ERR] = {[WQS_RESET] = 1, [WQS_ERR] = 1}};
    struct fixture *f = *state;
    struct one_wq o;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    assert_int_equal(wq_current_state(f->wq->wq), WQS_RESET);
    for (int from = WQS_RESET; from <= WQS_ERR; from++)
        for (int to = WQS_RESET; to <= WQS_ERR + 1; to++) {
            bool ok = to <= WQS_ERR && may[from][to];
            int now = ok ? to : from;

            assert_int_equal(set_wq(f, WQS_RESET), 0);
            if (from != WQS_RESET)
                assert_int_equal(set_wq(f, WQS_RDY), 0);
            if (from == WQS_ERR)
                assert_int_equal(set_wq(f, WQS_ERR), 0);
            raw_post(f->wq, 11);
            raw_post(f->wq, 12);
            assert_int_equal(set_wq(f, (enum wq_state)to), ok ? 0 : -EINVAL);
            assert_int_equal(wq_current_state(f->wq->wq), now);
            if (from == WQS_RDY && now == WQS_ERR) {
                expect(f, 11, WC_WR_FLUSH_ERR);
                expect(f, 12, WC_WR_FLUSH_ERR);
            }
            if (ok && to == WQS_RESET)
                assert_int_equal(raw_posted(f->wq), 0);
            arrive(f, 100);
            if (now == WQS_RDY)
                expect(f, 11, WC_SUCCESS);
            expect_none(f);
        }
    assert_int_equal(f->k->wq_fatal, 0); /* it was asked to */
    one_wq_free(f, &o);
}

static void rss_qp_has_no_state(void **state)
{
    struct fixture *f = *state;
    struct one_wq o;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    f->qp = o.rss;
    for (int to = 0; to < QPS_COUNT; to++)
        assert_int_equal(set_qp(f, (struct qp_attr){.state = (uint32_t)to, .port_num = 1},
                                QPA_STATE | (to == QPS_INIT ? QPA_PORT : 0)),
                         -EINVAL);
    f->qp = NULL;
    engine_doorbell(f->k->node[0].engine, o.rss->qp, ++f->k->now);
    engine_qp_error(f->k->node[0].engine, o.rss->qp, CAUSE_program_memory, ++f->k->now);
    one_wq_free(f, &o);
}

/* ---- shared receive queues ---- */

static void shared_entries(void **state)
{
    struct fixture *f = *state;
    struct raw_queue *srq = raw_srq_create(f->k);
    struct flow_rule rule[2] = {{.type = FLOW_NORMAL}, {.type = FLOW_NORMAL}};
    struct rwq_ind *ind;
    struct raw_queue *rss;
    struct sge small = raw_sge(f->k, 1, 0, 20);
    struct cqe c;

    f->wq = raw_wq_create(f->k, 0, f->cq, srq);
    f->qp = raw_qp_create(f->k, 0, f->cq, srq);
    ind = rwq_ind_create(rwq_entries_create(&f->wq->wq, 1));
    rss = raw_rss_create(f->k, &(struct rx_hash){0}, ind);
    assert_int_equal(set_wq(f, WQS_RDY), 0);
    rule[0].match.mask.ether_type = rule[0].match.value.ether_type = 0xB588;
    rule[0].match.mask.ether_type = 0xFFFF;
    rule[0].qp = rss->qp;
    rule[1].qp = f->qp->qp;
    raw_rules(f->k, rule, 2);
    raw_post_sges(srq, 1, &small, 1);
    for (unsigned i = 2; i < 6; i++)
        raw_post(srq, i);
    assert_false(srq_set_limit(srq->srq, 4));
    arrive(f, 100); /* the WQ holds the small one now */
    assert_int_equal(f->k->srq_limit, 0);
    assert_int_equal(raw_drops(f->k, DROP_raw_too_long), 1);
    {
        struct raw_bytes b;
        struct frame frame;

        raw_build(&b, &(struct raw_spec){.ether_type = 0x9999, .payload = 100});
        frame = raw_frame(&b);
        raw_arrive(f->k, 0, &frame, 1);
        assert_true(raw_poll(f->cq, &c));
        assert_int_equal(c.wr_id, 2);
        assert_int_equal(c.qpn, qp_number(f->qp->qp));
        assert_memory_equal(f->k->arena + 2 * RAW_SLOT, b.data, b.len);
    }
    assert_int_equal(f->k->srq_limit, 1);
    assert_int_equal(srq_waiting(srq->srq), 3);
    assert_int_equal(set_wq(f, WQS_ERR), 0);
    expect(f, 1, WC_WR_FLUSH_ERR); /* its own WQE; the others are the SRQ's */
    expect_none(f);
    assert_int_equal(srq_waiting(srq->srq), 3);
    engine_qp_error(f->k->node[0].engine, f->qp->qp, CAUSE_program_memory, ++f->k->now);
    assert_int_equal(f->k->last_wqe, 1);
    raw_rules(f->k, NULL, 0);
    raw_queue_destroy(rss);
    rwq_ind_free(ind);
    raw_queue_destroy(f->wq);
    f->wq = NULL;
    raw_queue_destroy(f->qp);
    f->qp = NULL;
    raw_queue_destroy(srq);
}

/* ---- entries that no sane application posts ---- */

enum hostile {
    BAD_KEY,
    FOREIGN_KEY,
    BEHIND_THE_END,
    SECOND_BAD,
    TOO_MANY_SGES,
    WILD_INDEX,
    HOSTILES
};

static void post_hostile(struct raw_queue *q, enum hostile what)
{
    struct sge sge[2] = {raw_sge(q->kit, 8, 0, 1000), raw_sge(q->kit, 9, 0, 1000)};

    if (what == BAD_KEY)
        sge[0].lkey ^= 0x5555;
    if (what == FOREIGN_KEY)
        sge[0].lkey = q->kit->foreign.key;
    if (what == BEHIND_THE_END)
        sge[0].addr = q->kit->region.iova + q->kit->region.len - 999;
    if (what == SECOND_BAD) /* which the frame would not reach */
        sge[1].lkey ^= 0x5555;
    raw_post_sges(q, 8, sge, what == TOO_MANY_SGES ? 1000 : 2);
    raw_post(q, 10);
    if (what == WILD_INDEX)
        atomic_fetch_add(&q->shared->rq_prod, 1000000);
}

/* The queue fails alone, reports why, and no memory changes. */
static void hostile_entries(struct fixture *f, struct raw_queue *q, bool is_wq)
{
    static const uint8_t zeros[3 * RAW_SLOT];
    struct raw_bytes b;
    struct frame frame[2];

    raw_build(&b, &(struct raw_spec){.payload = 100});
    frame[0] = frame[1] = raw_frame(&b);
    for (int what = 0; what < HOSTILES; what++) {
        unsigned fatal = f->k->fatal + f->k->wq_fatal;
        bool index = what == WILD_INDEX;

        if (is_wq) {
            assert_int_equal(set_wq(f, WQS_RESET), 0);
            assert_int_equal(set_wq(f, WQS_RDY), 0);
        } else {
            bring_qp_to(f, QPS_RTS);
        }
        post_hostile(q, (enum hostile)what);
        raw_arrive(f->k, 0, frame, 2);
        if (!index) {
            expect(f, 8, what == TOO_MANY_SGES ? WC_LOC_QP_OP_ERR : WC_LOC_PROT_ERR);
            expect(f, 10, WC_WR_FLUSH_ERR);
        }
        expect_none(f);
        if (is_wq)
            assert_int_equal(wq_current_state(q->wq), WQS_ERR);
        else
            assert_int_equal(qp_current_state(q->qp), QPS_ERR);
        assert_int_equal(f->k->fatal + f->k->wq_fatal - fatal, is_wq || index);
        assert_memory_equal(f->k->arena + 8 * RAW_SLOT, zeros, sizeof(zeros));
    }
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 2 * HOSTILES);
    assert_int_equal(raw_delivered(f->k), 0);
}

static void hostile_entries_of_a_wq(void **state)
{
    struct fixture *f = *state;
    struct one_wq o;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    hostile_entries(f, f->wq, true);
    one_wq_free(f, &o);
}

static void hostile_entries_of_a_qp(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    hostile_entries(f, f->qp, false);
}

/* ---- memory that cannot be written ---- */

/* Five WQEs; the second one used fails, and those behind it are flushed. */
static void memory_fails(struct fixture *f, struct raw_queue *q)
{
    struct raw_bytes b;
    struct frame frame[4];

    raw_build(&b, &(struct raw_spec){.payload = 100});
    for (unsigned i = 0; i < 4; i++)
        frame[i] = raw_frame(&b);
    for (unsigned i = 20; i < 25; i++)
        raw_post(q, i);
    f->k->fail_from = 21;
    f->k->fail_to = 22;
    raw_arrive(f->k, 0, frame, 3);
    expect(f, 20, WC_SUCCESS);
    expect(f, 21, WC_LOC_PROT_ERR);
    for (unsigned i = 22; i < 25; i++)
        expect(f, i, WC_WR_FLUSH_ERR);
    expect_none(f);
    raw_arrive(f->k, 0, frame, 1);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 1);
    f->k->fail_to = 0;
}

static void memory_of_a_wq_fails(void **state)
{
    struct fixture *f = *state;
    struct one_wq o;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    assert_int_equal(set_wq(f, WQS_RDY), 0);
    memory_fails(f, f->wq);
    assert_int_equal(wq_current_state(f->wq->wq), WQS_ERR);
    assert_int_equal(f->k->wq_fatal, 1);
    assert_int_equal(set_wq(f, WQS_RESET), 0);
    assert_int_equal(set_wq(f, WQS_RDY), 0);
    raw_post(f->wq, 30);
    arrive(f, 100);
    expect(f, 30, WC_SUCCESS);
    expect_none(f);
    one_wq_free(f, &o);
}

static void memory_of_a_qp_fails(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    memory_fails(f, f->qp);
    assert_int_equal(qp_current_state(f->qp->qp), QPS_ERR);
    assert_int_equal(f->k->fatal, 1);
}

/* A WQE that was kept has not failed. */
static void kept_entry_is_flushed(void **state)
{
    struct fixture *f = *state;
    struct raw_bytes small, large;
    struct frame frame[2];
    struct sge sge;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    raw_build(&small, &(struct raw_spec){.payload = 50});
    raw_build(&large, &(struct raw_spec){.payload = 500});
    frame[0] = raw_frame(&small);
    frame[1] = raw_frame(&large);
    raw_post(f->qp, 20);
    sge = raw_sge(f->k, 21, 0, 100);
    raw_post_sges(f->qp, 21, &sge, 1);
    f->k->fail_from = 20;
    f->k->fail_to = 21;
    raw_arrive(f->k, 0, frame, 2);
    expect(f, 20, WC_LOC_PROT_ERR);
    expect(f, 21, WC_WR_FLUSH_ERR);
    expect_none(f);
}

/*
 * A program that posts as fast as WQEs are flushed does not block the worker: one call flushes only
 * the WQEs that were waiting. The producer's index is the number of completions, so that each
 * completion makes another WQE; the queue begins 8 ahead.
 */
struct eager {
    struct raw_cq *cq;
    struct work_queue wq;
    void *ring;
};

static struct eager eager(uint32_t stride)
{
    struct raw_cq *cq = raw_cq_create(256);

    return (struct eager){.cq = cq,
                          .ring = calloc(RAW_QUEUE, stride),
                          .wq = {.prod = (_Atomic uint32_t *)&cq->cq.lane[0].prod,
                                 .cons = (uint32_t)-8,
                                 .size = RAW_QUEUE,
                                 .stride = stride,
                                 .max_sge = RAW_SGE}};
}

static void expect_eight(struct eager *q)
{
    unsigned n = 0;

    for (struct cqe c; raw_poll(q->cq, &c); n++)
        assert_int_equal(c.status, WC_WR_FLUSH_ERR);
    assert_int_equal(n, 8);
    raw_cq_destroy(q->cq);
    free(q->ring);
}

static void posted_while_a_wq_is_flushed(void **state)
{
    struct fixture *f = *state;
    struct eager rq = eager(rqe_stride(RAW_SGE));
    struct wq_init init = {.pd = RAW_PD, .cq = &rq.cq->cq, .owner = f, .rq = rq.wq};
    struct engine *e = f->k->node[0].engine;
    struct wq *wq;
    int err;

    init.rq.ring = rq.ring;
    wq = wq_create(f->k->wqs, &init, &err);
    assert_non_null(wq);
    engine_wq_attach(e, wq);
    assert_int_equal(engine_wq_modify(e, wq, WQS_RDY, 0), 0);
    assert_int_equal(engine_wq_modify(e, wq, WQS_ERR, 0), 0);
    assert_int_equal(f->k->wq_cost, 8 * COST_FLUSH);
    engine_wq_detach(e, wq);
    wq_free(wq);
    expect_eight(&rq);
}

static void posted_while_a_qp_is_flushed(void **state)
{
    struct fixture *f = *state;
    struct eager rq = eager(rqe_stride(RAW_SGE)), sq = eager(sqe_stride(RAW_SGE, 64));
    struct qp_shared *shared = calloc(1, sizeof(*shared));
    struct qp_init init = {.type = QPT_UD,
                           .pd = RAW_PD,
                           .send_cq = &sq.cq->cq,
                           .recv_cq = &rq.cq->cq,
                           .shared = shared,
                           .sq = sq.wq,
                           .rq = rq.wq,
                           .owner = f};
    struct engine *e = f->k->node[0].engine;
    struct qp_attr a = {.state = QPS_ERR};
    struct qp *qp;
    int err;

    init.sq.ring = sq.ring;
    init.rq.ring = rq.ring;
    qp = qp_create(f->k->qps, &init, &err);
    assert_non_null(qp);
    engine_qp_attach(e, qp);
    assert_int_equal(engine_qp_modify(e, qp, &a, QPA_STATE, NULL, 5, 0), 0);
    engine_qp_detach(e, qp);
    qp_free(qp);
    free(shared);
    expect_eight(&rq);
    expect_eight(&sq);
}

static void completions_overflow(void **state)
{
    struct fixture *f = *state;
    struct raw_cq *tiny = raw_cq_create(2);
    struct one_wq o;
    struct cqe c;

    f->wq = raw_wq_create(f->k, 0, tiny, NULL);
    o = wq_takes_all(f);
    assert_int_equal(set_wq(f, WQS_RDY), 0);
    for (unsigned i = 0; i < 8; i++)
        raw_post(f->wq, i);
    for (unsigned i = 0; i < 4; i++)
        arrive(f, 100);
    assert_int_equal(f->k->cq_errors, 1);
    assert_int_equal(f->k->wq_fatal, 1);
    assert_int_equal(wq_current_state(f->wq->wq), WQS_ERR);
    assert_true(raw_poll(tiny, &c) && raw_poll(tiny, &c));
    assert_false(raw_poll(tiny, &c));
    one_wq_free(f, &o);
    raw_queue_destroy(f->wq);
    f->wq = NULL;
    raw_cq_destroy(tiny);
}

/* ---- rules and the host ---- */

static void default_rules_leave_the_host_its_frames(void **state)
{
    struct fixture *f = *state;
    struct flow_rule rule = {.type = FLOW_ALL_DEFAULT};

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    rule.qp = f->qp->qp;
    for (unsigned takes = 0; takes < 2; takes++) {
        f->k->host_takes = takes;
        raw_rules(f->k, &rule, 1);
        raw_post(f->qp, takes);
        arrive(f, 100);
        expect(f, takes, WC_SUCCESS);
        assert_int_equal(f->k->node[0].others, takes);
        raw_rules(f->k, NULL, 0);
        arrive(f, 100);
        assert_int_equal(f->k->node[0].others, 2 * takes);
        assert_int_equal(raw_drops(f->k, DROP_not_roce), 1);
    }
    rule.type = FLOW_NORMAL; /* counts it as its own, with a WQE or without */
    raw_rules(f->k, &rule, 1);
    arrive(f, 100);
    assert_int_equal(f->k->node[0].others, 2);
    assert_int_equal(raw_drops(f->k, DROP_raw_no_recv), 1);
}

static void drop_rules(void **state)
{
    struct fixture *f = *state;
    struct flow_rule rule = {.type = FLOW_NORMAL, .drop = true};

    f->k->host_takes = true;
    raw_rules(f->k, &rule, 1);
    arrive(f, 100);
    assert_int_equal(raw_drops(f->k, DROP_flow_drop), 1);
    assert_int_equal(f->k->node[0].others, 0);
    assert_int_equal(flow_entry_count(f->k->flows.entry[0]).frames, 1);
    assert_int_equal(flow_entry_count(f->k->flows.entry[0]).bytes, 14 + 100);
}

/* Frames of RoCE's protocols that are too short or too broken to say that they are RoCE's. */
static void broken_frames_are_no_roce(void **state)
{
    static const struct {
        uint32_t len;
        enum drop reason; /* DROP_NONE: a rule takes it */
        uint8_t type[2], ip[24];
    } row[] = {
        {14, DROP_NONE, {0x08, 0x00}, {0}},
        {14, DROP_NONE, {0x86, 0xDD}, {0}},
        {14, DROP_NONE, {0x81, 0x00}, {0}},
        {17, DROP_NONE, {0x81, 0x00}, {0}},
        {37, DROP_NONE, {0x08, 0x00}, {0x45, [9] = 17}}, /* UDP without ports */
        {38, DROP_NONE, {0x08, 0x00}, {0x55, [9] = 17}}, /* version 5 */
        {38, DROP_truncated, {0x08, 0x00}, {0x45, [9] = 17, [22] = 0x12, 0xB7}},
        {38, DROP_bad_ip_header, {0x08, 0x00}, {0x55, [9] = 17, [22] = 0x12, 0xB7}},
        {14, DROP_truncated, {0x89, 0x15}, {0}},
        {13, DROP_truncated, {0}, {0}}, /* no frame at all */
    };
    struct fixture *f = *state;
    struct flow_rule rule = {.type = FLOW_ALL_DEFAULT};

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    rule.qp = f->qp->qp;
    raw_rules(f->k, &rule, 1);
    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct raw_bytes b = {.len = row[i].len};
        uint64_t drops = raw_drops(f->k, row[i].reason);
        struct frame frame = raw_frame(&b);

        memcpy(b.data, f->k->port.mac, 6);
        memcpy(b.data + 12, row[i].type, 2);
        memcpy(b.data + 14, row[i].ip, sizeof(row[i].ip));
        raw_post(f->qp, i);
        raw_arrive(f->k, 0, &frame, 1);
        if (row[i].reason == DROP_NONE)
            expect(f, i, WC_SUCCESS);
        else
            assert_int_equal(raw_drops(f->k, row[i].reason), drops + 1);
        expect_none(f);
    }
    raw_rules(f->k, NULL, 0); /* without one the reason is as before */
    {
        struct raw_bytes b = {.len = 14};
        struct frame frame = raw_frame(&b);
        uint64_t drops = raw_drops(f->k, DROP_truncated);

        memcpy(b.data, f->k->port.mac, 6);
        memcpy(b.data + 12, row[0].type, 2);
        raw_arrive(f->k, 0, &frame, 1);
        assert_int_equal(raw_drops(f->k, DROP_truncated), drops + 1);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_copied, teardown)
#define CASE_MAPPED(name)                                     \
    {                                                         \
#name " (mapped)", name, setup_mapped, teardown, NULL \
    }

/* ---- completion counters ---- */

/* Of a long receive queue a part is flushed at once, and the rest in turns of its queue pair, as of
 * other services. */
static void long_queue_is_flushed_in_turns(void **state)
{
    enum { LONG = 256, POSTED = 200, AT_ONCE = 64 };
    struct fixture *f = *state;
    struct raw_cq *cq = raw_cq_create(LONG);
    struct qp_shared *shared = calloc(1, sizeof(*shared));
    void *ring = calloc(LONG, rqe_stride(RAW_SGE));
    struct qp_init init = {.type = QPT_RAW_PACKET,
                           .pd = RAW_PD,
                           .send_cq = &cq->cq,
                           .recv_cq = &cq->cq,
                           .shared = shared,
                           .rq = {.ring = ring,
                                  .prod = &shared->rq_prod,
                                  .size = LONG,
                                  .stride = rqe_stride(RAW_SGE),
                                  .max_sge = RAW_SGE},
                           .owner = f};
    struct engine *e = f->k->node[0].engine;
    struct qp_attr a = {.state = QPS_ERR};
    struct frame none;
    unsigned n;
    struct cqe c;
    struct qp *qp;
    int err;

    qp = qp_create(f->k->qps, &init, &err);
    assert_non_null(qp);
    engine_qp_attach(e, qp);
    atomic_store(&shared->rq_prod, POSTED);
    assert_int_equal(engine_qp_modify(e, qp, &a, QPA_STATE, NULL, 5, 0), 0);
    for (n = 0; raw_poll(cq, &c); n++)
        ;
    assert_int_equal(n, AT_ONCE);
    assert_true(engine_wants_tx(e));
    assert_int_equal(engine_tx(e, &none, 1, 1), 0);
    for (; raw_poll(cq, &c); n++)
        assert_int_equal(c.status, WC_WR_FLUSH_ERR);
    assert_int_equal(n, POSTED);
    engine_qp_detach(e, qp);
    qp_free(qp);
    raw_cq_destroy(cq);
    free(shared);
    free(ring);
}

/* Frames that arrive, and receives that the error state flushes. */
static void receives_are_counted(void **state)
{
    struct counter_line line[2] = {0};
    struct comp_counter c[2] = {{.line = &line[0]}, {.line = &line[1], .bytes = true}};
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    assert_int_equal(engine_qp_count(f->qp->qp, &c[0], QP_COUNT_RECV), -EINVAL); /* in RTS */
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(set_qp(f, (struct qp_attr){.state = QPS_RESET}, QPA_STATE), 0);
        engine_qp_count_none(f->qp->qp);
        assert_int_equal(engine_qp_count(f->qp->qp, &c[i], QP_COUNT_RECV), 0);
        bring_qp_to(f, QPS_RTS);
        all_to(f, f->qp->qp);
        atomic_store(&f->qp->shared->rq_prod, 0);
        for (unsigned slot = 0; slot < 4; slot++)
            raw_post(f->qp, slot);
        arrive(f, 100);
        arrive(f, 1000);
        assert_int_equal(set_qp(f, (struct qp_attr){.state = QPS_ERR}, QPA_STATE), 0);
    }
    assert_int_equal(atomic_load(&line[0].done), 2);
    assert_int_equal(atomic_load(&line[0].failed), 2);
    assert_int_equal(atomic_load(&line[1].done), 100 + 1000 + 2 * 14);
    assert_int_equal(atomic_load(&line[1].failed), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(frames_arrive_whole),
        CASE_MAPPED(frames_arrive_whole),
        CASE(wq_has_its_own_numbers),
        CASE(tag_is_in_the_completion),
        CASE(many_in_one_burst),
        CASE_MAPPED(many_in_one_burst),
        CASE(no_entry_no_frame),
        CASE(short_entry_is_kept),
        CASE(receives_are_counted),
        CASE_MAPPED(receives_are_counted),
        CASE(every_qp_transition),
        CASE(qp_receives_by_state),
        CASE(qp_reset_forgets),
        CASE(every_wq_transition),
        CASE(rss_qp_has_no_state),
        CASE(shared_entries),
        CASE(hostile_entries_of_a_wq),
        CASE(hostile_entries_of_a_qp),
        CASE_MAPPED(hostile_entries_of_a_wq),
        CASE(memory_of_a_wq_fails),
        CASE(memory_of_a_qp_fails),
        CASE(kept_entry_is_flushed),
        CASE(posted_while_a_wq_is_flushed),
        CASE(posted_while_a_qp_is_flushed),
        CASE(long_queue_is_flushed_in_turns),
        CASE(completions_overflow),
        CASE(default_rules_leave_the_host_its_frames),
        CASE(drop_rules),
        CASE(broken_frames_are_no_roce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
