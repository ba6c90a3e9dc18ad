/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: queue pair states, flushing, bad work requests, completion queues and events
 * (10.3.1, 10.8, 11.6). */
#include "rules.h"

/* ---- errors that the application makes ---- */

static void producer_index_out_of_range(void **state)
{
    struct rules t = rules_start(NULL);

    atomic_store(&t.a->shared->sq_prod, t.a->sq_size + 1);
    kit_ring(t.a);
    kit_settle(t.k);
    assert_int_equal(state_of(t.a), QPS_ERR);
    assert_int_equal(kit_events(&t.k->node[0], QP_EVENT_QP_FATAL), 1);
    assert_ptr_equal(t.k->node[0].event[0].qp, t.a);
    assert_int_equal(t.ab->frames, 0);
    rules_finish(&t);
}

static void producer_index_goes_back(void **state)
{
    struct rules t = rules_start(NULL);

    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    atomic_store(&t.a->shared->sq_prod, 0);
    kit_ring(t.a);
    kit_settle(t.k);
    assert_int_equal(state_of(t.a), QPS_ERR);
    assert_int_equal(kit_events(&t.k->node[0], QP_EVENT_QP_FATAL), 1);
    rules_finish(&t);
}

static void receive_index_out_of_range(void **state)
{
    struct rules t = rules_start(NULL);

    atomic_store(&t.b->shared->rq_prod, 0x80000000u);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 10, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_OP_ERR);
    assert_int_equal(state_of(t.b), QPS_ERR);
    assert_int_equal(kit_events(&t.k->node[1], QP_EVENT_QP_FATAL), 1);
    rules_finish(&t);
}

static void malformed_send(void (*spoil)(struct sqe *e), enum wc_status status)
{
    struct rules t = rules_start(NULL);
    struct sqe *e = kit_sq_slot(t.a);

    *e = (struct sqe){.wr_id = 1, .opcode = SQE_WRITE, .remote_addr = kit_va(t.mb, 0)};
    e->rkey = t.mb->region.key;
    spoil(e);
    kit_publish_send(t.a);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, status);
    completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
    assert_int_equal(t.ab->frames, 0);
    assert_int_equal(state_of(t.a), QPS_ERR);
    assert_int_equal(state_of(t.b), QPS_RTS);
    rules_finish(&t);
}

static void spoil_opcode(struct sqe *e)
{
    e->opcode = 200;
}

static void spoil_opcode_gap(struct sqe *e)
{
    e->opcode = 12;
}

static void spoil_unsupported(struct sqe *e)
{
    e->opcode = 10; /* TSO */
}

static void spoil_flags(struct sqe *e)
{
    e->flags = 0x40;
}

static void spoil_sges(struct sqe *e)
{
    e->num_sge = 255;
}

static void spoil_inline_len(struct sqe *e)
{
    e->flags = SQE_INLINE;
    e->inline_len = 129;
}

static void spoil_inline_read(struct sqe *e)
{
    e->opcode = SQE_READ;
    e->flags = SQE_INLINE;
    e->inline_len = 8;
}

static void spoil_lengths(struct sqe *e)
{
    struct sge *sge = (struct sge *)(e + 1);

    e->num_sge = 4;
    for (unsigned i = 0; i < 4; i++)
        sge[i] = (struct sge){.length = UINT32_MAX};
}

static void spoil_atomic_len(struct sqe *e)
{
    struct sge *sge = (struct sge *)(e + 1);

    e->opcode = SQE_FETCH_ADD;
    e->num_sge = 1;
    sge[0] = (struct sge){.length = 4};
}

static void malformed_work_requests(void **state)
{
    malformed_send(spoil_opcode, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_opcode_gap, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_unsupported, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_flags, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_sges, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_inline_len, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_inline_read, WC_LOC_QP_OP_ERR);
    malformed_send(spoil_lengths, WC_LOC_LEN_ERR);
    malformed_send(spoil_atomic_len, WC_LOC_LEN_ERR);
}

static void malformed_receive(void **state)
{
    struct rules t = rules_start(NULL);
    struct rqe *e = work_queue_slot(t.b->rq, t.b->rq_size, t.b->rq_stride, 0);

    assert_int_equal(kit_post_recv(t.b, 100, NULL, 0), 0);
    kit_recv(t.b, 101, t.mb, 0, 100);
    e->num_sge = 1000;
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 10, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_OP_ERR);
    completes(t.b->recv_cq, 100, WC_LOC_QP_OP_ERR);
    completes(t.b->recv_cq, 101, WC_WR_FLUSH_ERR);
    rules_finish(&t);
}

static void reads_without_resources(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.max_rd_atomic = KIT_ZERO});

    kit_do(t.a, SQE_READ, 1, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_LOC_QP_OP_ERR);
    assert_int_equal(t.ab->frames, 0);
    rules_finish(&t);
}

/* ---- states ---- */

static void error_flushes_in_order(void **state)
{
    struct rules t = rules_start(NULL);

    link_does(t.ab, KIT_DROP);
    for (unsigned i = 0; i < 20; i++)
        kit_do(t.a, i % 3 ? SQE_WRITE : SQE_READ, i, t.ma, 0, 100, t.mb, 0);
    run_for(&t, 10 * NS_PER_US); /* some are in flight */
    for (unsigned i = 20; i < 30; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, 0, 100, t.mb, 0);
    for (unsigned i = 0; i < 10; i++)
        kit_recv(t.a, 100 + i, t.ma, 0, 100);
    assert_int_equal(kit_modify(t.a, QPS_ERR), 0);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(completes(t.a->send_cq, i, WC_WR_FLUSH_ERR).wqe, i);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(completes(t.a->recv_cq, 100 + i, WC_WR_FLUSH_ERR).wqe, i);
    kit_settle(t.k);
    completes_nothing(t.a->send_cq);

    /* Requests posted now are flushed too. */
    kit_do(t.a, SQE_WRITE, 40, t.ma, 0, 100, t.mb, 0);
    kit_recv(t.a, 140, t.ma, 0, 100);
    completes(t.a->send_cq, 40, WC_WR_FLUSH_ERR);
    completes(t.a->recv_cq, 140, WC_WR_FLUSH_ERR);
    assert_int_equal(t.k->node[0].events, 0);
    rules_finish(&t);
}

/* A half received message: its buffer is flushed with the others, first. */
static void error_in_mid_receive(void **state)
{
    struct rules t = rules_start(NULL);

    kit_recv(t.b, 100, t.mb, 0, 4 * MTU);
    kit_recv(t.b, 101, t.mb, 0, 4 * MTU);
    kit_link_lose(t.ab, 1 << 3 | 0xFF0);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 4 * MTU, NULL, 0);
    run_for(&t, 20 * NS_PER_US);
    assert_int_equal(kit_modify(t.b, QPS_ERR), 0);
    completes(t.b->recv_cq, 100, WC_WR_FLUSH_ERR);
    completes(t.b->recv_cq, 101, WC_WR_FLUSH_ERR);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_RETRY_EXC_ERR);
    assert_true(drops_of(&t.k->node[1], qp_state) > 0);
    rules_finish(&t);
}

static void exchange(struct rules *t)
{
    kit_recv(t->b, 7, t->mb, 0, 5000);
    kit_do(t->a, SQE_SEND, 8, t->ma, 0, 5000, NULL, 0);
    kit_do(t->b, SQE_READ, 9, t->mb, 8192, 5000, t->ma, 0);
    kit_settle(t->k);
    completes(t->b->recv_cq, 7, WC_SUCCESS);
    completes(t->a->send_cq, 8, WC_SUCCESS);
    completes(t->b->send_cq, 9, WC_SUCCESS);
    assert_memory_equal(t->mb->bytes, t->ma->bytes, 5000);
    assert_memory_equal(t->mb->bytes + 8192, t->ma->bytes, 5000);
}

static void reset_and_use_again(void **state)
{
    struct rules t = rules_start(NULL);

    for (unsigned i = 0; i < 4; i++) {
        exchange(&t);
        memset(t.mb->bytes, 0, MEM_BYTES);
        kit_recv(t.a, 50, t.ma, 0, 10); /* forgotten by the reset */
        if (i & 1) {
            assert_int_equal(kit_modify(t.a, QPS_ERR), 0);
            completes(t.a->recv_cq, 50, WC_WR_FLUSH_ERR);
        }
        assert_int_equal(kit_modify(t.a, QPS_RESET), 0);
        assert_int_equal(kit_modify(t.b, QPS_RESET), 0);
        kit_settle(t.k);
        completes_nothing(t.a->recv_cq);
        kit_connect(t.a, t.b, &(struct kit_rc){.psn = {PSN_MASK - i, 77 * i}, .path_mtu = 1 + i});
    }
    exchange(&t);
    rules_finish(&t);
}

/* A reset in the middle of everything, then packets of the old connection arrive. */
static void reset_in_mid_traffic(void **state)
{
    for (ns_t when = 1; when < 40; when += 3) {
        struct rules t = rules_start(NULL);

        for (unsigned i = 0; i < 4; i++) {
            kit_recv(t.b, i, t.mb, 0, 4000);
            kit_do(t.a, SQE_SEND, i, t.ma, 0, 4000, NULL, 0);
            kit_do(t.a, SQE_READ, i, t.ma, 32768, 4000, t.mb, 0);
        }
        run_for(&t, when * NS_PER_US / 2);
        assert_int_equal(kit_modify(t.a, QPS_RESET), 0);
        assert_int_equal(kit_modify(t.b, QPS_RESET), 0);
        kit_settle(t.k);
        while (kit_poll(t.a->send_cq, &(struct cqe){0}, 1) ||
               kit_poll(t.b->recv_cq, &(struct cqe){0}, 1))
            ;
        t.a->sq_free = t.b->rq_free = 0;
        kit_connect(t.a, t.b, &(struct kit_rc){.psn = {1 << 22, 1 << 21}});
        exchange(&t);
        rules_finish(&t);
    }
}

static void no_work_before_rts(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 3, .log = true});
    struct kit_qp *a = kit_qp_create(&k->node[0], NULL), *b = kit_qp_create(&k->node[1], NULL);
    struct kit_mr *ma = kit_mr_create(&k->node[0], 100, MEM_ALL, KIT_MR_DIRECT);
    struct kit_mr *mb = kit_mr_create(&k->node[1], 100, MEM_ALL, KIT_MR_DIRECT);

    kit_to_init(a, NULL);
    kit_to_init(b, NULL);
    kit_recv(b, 100, mb, 0, 100);
    kit_to_rtr(a, b, NULL, 0);
    kit_to_rtr(b, a, NULL, 1);
    kit_do(a, SQE_SEND, 1, ma, 0, 100, NULL, 0);
    kit_settle(k);
    assert_int_equal(k->link[0].frames, 0);
    kit_to_rts(a, NULL, 0); /* early posted requests are found */
    kit_settle(k);
    completes(a->send_cq, 1, WC_SUCCESS);
    completes(b->recv_cq, 100, WC_SUCCESS);
    /* b was still in RTR: the first packet establishes the connection. */
    assert_int_equal(kit_events(&k->node[1], QP_EVENT_COMM_EST), 1);
    kit_to_rts(b, NULL, 1);
    kit_settle(k);
    kit_destroy(k);
}

static void wrong_transitions(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 3});
    struct kit_qp *a = kit_qp_create(&k->node[0], NULL);

    assert_int_equal(kit_modify(a, QPS_RTR), -EINVAL);
    assert_int_equal(kit_modify(a, QPS_RTS), -EINVAL);
    assert_int_equal(kit_modify(a, QPS_SQE), -EINVAL);
    assert_int_equal(kit_modify(a, QPS_COUNT), -EINVAL);
    assert_int_equal(kit_modify(a, QPS_ERR), 0);
    assert_int_equal(kit_modify(a, QPS_INIT), -EINVAL);
    assert_int_equal(kit_modify(a, QPS_RESET), 0);
    kit_to_init(a, NULL);
    assert_int_equal(state_of(a), QPS_INIT);
    kit_destroy(k);
}

static void drained(void **state)
{
    struct rules t = rules_start(NULL);
    struct qp_attr attr = {.state = QPS_SQD, .en_sqd_async_notify = 1};

    t.ab->config.delay = 50 * NS_PER_US;
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 3 * MTU, t.mb, 0);
    run_for(&t, 10 * NS_PER_US);
    assert_int_equal(engine_qp_modify(t.k->node[0].engine, t.a->qp, &attr,
                                      QPA_STATE | QPA_EN_SQD_ASYNC_NOTIFY, NULL, 5, t.k->now),
                     0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
    assert_int_equal(kit_events(&t.k->node[0], QP_EVENT_SQ_DRAINED), 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes_nothing(t.a->send_cq);
    assert_int_equal(kit_events(&t.k->node[0], QP_EVENT_SQ_DRAINED), 1);
    assert_int_equal(kit_modify(t.a, QPS_RTS), 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    assert_int_equal(t.k->node[0].events, 1);
    rules_finish(&t);
}

static void detach_in_mid_traffic(void **state)
{
    for (ns_t when = 1; when < 30; when += 2) {
        struct rules t = rules_start(NULL);

        for (unsigned i = 0; i < 4; i++)
            kit_do(t.a, SQE_READ, i, t.ma, 0, 4000, t.mb, 0);
        run_for(&t, when * NS_PER_US / 2);
        engine_qp_detach(t.k->node[1].engine, t.b->qp);
        kit_settle(t.k);
        assert_true(drops_of(&t.k->node[1], unknown_qpn) > 0 || when > 3);
        rules_finish(&t);
    }
}

/* ---- completion queues and events ---- */

static void post_plain(struct kit_qp *qp, uint64_t wr_id, uint8_t op, uint8_t flags)
{
    struct kit_send wr = {.wr_id = wr_id, .op = op, .flags = flags};

    assert_int_equal(kit_post_send(qp, &wr), 0);
    kit_ring(qp);
}

static void solicited_events(void **state)
{
    struct rules t = rules_start(NULL);

    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(kit_post_recv(t.b, i, NULL, 0), 0);
    kit_arm(t.b->recv_cq, CQ_ARM_SOLICITED);
    post_plain(t.a, 1, SQE_SEND, 0);
    kit_settle(t.k);
    assert_int_equal(t.b->recv_cq->events, 0);
    post_plain(t.a, 2, SQE_SEND, SQE_SOLICITED);
    kit_settle(t.k);
    assert_int_equal(t.b->recv_cq->events, 1);
    post_plain(t.a, 3, SQE_SEND_IMM, SQE_SOLICITED); /* no longer armed */
    kit_settle(t.k);
    assert_int_equal(t.b->recv_cq->events, 1);
    kit_arm(t.b->recv_cq, CQ_ARM_NEXT);
    post_plain(t.a, 4, SQE_WRITE_IMM, 0);
    kit_settle(t.k);
    assert_int_equal(t.b->recv_cq->events, 2);
    kit_arm(t.b->recv_cq, CQ_ARM_SOLICITED);
    assert_int_equal(kit_modify(t.b, QPS_ERR), 0); /* errors always raise an event */
    assert_int_equal(t.b->recv_cq->events, 3);
    rules_finish(&t);
}

static void no_event_unless_armed(void **state)
{
    struct rules t = rules_start(NULL);

    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    assert_int_equal(t.a->send_cq->events, 0);
    assert_true(t.a->send_cq->posted > 0);
    kit_arm(t.a->send_cq, CQ_ARM_NEXT);
    for (unsigned i = 2; i < 6; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    assert_int_equal(t.a->send_cq->events, 1);
    rules_finish(&t);
}

static void completion_queue_overflow(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 5});
    struct kit_cq *small = kit_cq_create(&k->node[0], 4);
    struct kit_qp *a = kit_qp_create(&k->node[0], &(struct kit_qp_config){.send_cq = small});
    struct kit_qp *b = kit_qp_create(&k->node[1], NULL);
    struct cqe e[8];

    kit_connect(a, b, NULL);
    for (unsigned i = 0; i < 5; i++)
        post_plain(a, i, SQE_WRITE, SQE_SIGNALED);
    kit_settle(k);
    assert_int_equal(kit_events(&k->node[0], QP_EVENT_CQ_ERR), 1);
    assert_ptr_equal(k->node[0].event[0].cq, small);
    assert_int_equal(state_of(a), QPS_ERR);
    assert_int_equal(state_of(b), QPS_RTS);
    assert_int_equal(kit_poll(small, e, 8), 4); /* those that fitted are intact */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(e[i].wr_id, i);
    kit_destroy(k);
}

static void receive_completion_overflow(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 5});
    struct kit_cq *small = kit_cq_create(&k->node[1], 2);
    struct kit_qp *a = kit_qp_create(&k->node[0], NULL);
    struct kit_qp *b = kit_qp_create(
        &k->node[1],
        &(struct kit_qp_config){.send_cq = kit_cq_create(&k->node[1], 16), .recv_cq = small});

    kit_connect(a, b, NULL);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(kit_post_recv(b, i, NULL, 0), 0);
        post_plain(a, i, SQE_SEND, SQE_SIGNALED);
    }
    kit_settle(k);
    assert_int_equal(kit_events(&k->node[1], QP_EVENT_CQ_ERR), 1);
    assert_int_equal(state_of(b), QPS_ERR);
    kit_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(producer_index_out_of_range),
        cmocka_unit_test(producer_index_goes_back),
        cmocka_unit_test(receive_index_out_of_range),
        cmocka_unit_test(malformed_work_requests),
        cmocka_unit_test(malformed_receive),
        cmocka_unit_test(reads_without_resources),
        cmocka_unit_test(error_flushes_in_order),
        cmocka_unit_test(error_in_mid_receive),
        cmocka_unit_test(reset_and_use_again),
        cmocka_unit_test(reset_in_mid_traffic),
        cmocka_unit_test(no_work_before_rts),
        cmocka_unit_test(wrong_transitions),
        cmocka_unit_test(drained),
        cmocka_unit_test(detach_in_mid_traffic),
        cmocka_unit_test(solicited_events),
        cmocka_unit_test(no_event_unless_armed),
        cmocka_unit_test(completion_queue_overflow),
        cmocka_unit_test(receive_completion_overflow),
    };

    return cmocka_run_group_tests_name("rc_states", tests, NULL, NULL);
}
