/* SPDX-License-Identifier: BSD-3-Clause */
/* Polling what the dataplane completes. */
#include <sys/socket.h>
#include <unistd.h>

#include "rings.h"
#include "unit.h"

static struct rings *r;
static struct ibv_cq *cq;

static int setup(void **state)
{
    r = rings_new();
    cq = ibv_cq_ex_to_cq(&r->cq->ex);
    return 0;
}

static int teardown(void **state)
{
    rings_free(r);
    return 0;
}

static void fields(void **state)
{
    struct ibv_wc wc[4];

    assert_int_equal(shim_poll_cq(cq, 4, wc), 0);
    rings_complete(r, WC_RECV, 0, WC_SUCCESS, 11);
    rings_complete(r, WC_RDMA_READ, 2, WC_REM_ACCESS_ERR, 12);
    assert_int_equal(shim_poll_cq(cq, 4, wc), 2);
    assert_int_equal(wc[0].wr_id, 11);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(wc[0].opcode, IBV_WC_RECV);
    assert_int_equal(wc[0].byte_len, 100);
    assert_int_equal(wc[0].imm_data, 0xAABBCCDD);
    assert_int_equal(wc[0].qp_num, RINGS_QPN);
    assert_int_equal(wc[0].src_qp, 9);
    assert_int_equal(wc[0].wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(wc[0].sl, 3);
    assert_int_equal(wc[1].wr_id, 12);
    assert_int_equal(wc[1].status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(atomic_load(&r->qp->queue.rq.cons), 1);
    assert_int_equal(atomic_load(&r->qp->queue.sq.cons), 3);
    assert_int_equal(shim_poll_cq(cq, 4, wc), 0);
}

static void both_lanes(void **state)
{
    struct ibv_wc wc[RINGS_CQE];
    uint64_t seen = 0;

    for (unsigned round = 0; round < 10; round++) {
        seen = 0;
        for (uint32_t i = 0; i < RINGS_CQE; i++)
            rings_complete(r, WC_SEND, i, WC_SUCCESS, i);
        assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), RINGS_CQE);
        for (unsigned i = 0; i < RINGS_CQE; i++)
            seen |= UINT64_C(1) << wc[i].wr_id;
        assert_int_equal(seen, (1 << RINGS_CQE) - 1);
    }
}

static void dead_queue_pairs_are_skipped(void **state)
{
    struct ibv_wc wc;

    rings_complete(r, WC_SEND, 0, WC_SUCCESS, 1);
    client_cq_clean(&r->cq->queue, r->qp->queue.uidx + 1);
    rings_complete(r, WC_SEND, 1, WC_SUCCESS, 2);
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 1);
    client_cq_clean(&r->cq->queue, r->qp->queue.uidx);
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 0);
    rings_complete(r, WC_SEND, 2, WC_SUCCESS, 3);
    slot_table_remove(&r->client.qps, r->qp->queue.uidx);
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 0);
}

static void reset_empties_everything(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct ibv_wc wc;

    for (unsigned i = 0; i < RINGS_WR; i++)
        assert_int_equal(shim_post_send(&r->qp->ex.qp_base, &wr, &bad), 0);
    rings_complete(r, WC_SEND, 5, WC_SUCCESS, 1);
    client_qp_reset(&r->qp->queue);
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 0);
    assert_int_equal(atomic_load(&r->shared->sq_prod), 0);
    for (unsigned i = 0; i < RINGS_WR; i++)
        assert_int_equal(shim_post_send(&r->qp->ex.qp_base, &wr, &bad), 0);
    assert_int_equal(atomic_load(&r->shared->sq_prod), RINGS_WR);
}

static void extended_polling(void **state)
{
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *ex = &r->cq->ex;
    struct ibv_wc wc;

    assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
    /* No end_poll is due: the next start must not find the lock held. */
    assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
    attr.comp_mask = 1;
    assert_int_equal(ibv_start_poll(ex, &attr), EINVAL);
    attr.comp_mask = 0;
    for (uint32_t i = 0; i < 3; i++)
        rings_complete(r, WC_SEND, 2 * i, i == 1 ? WC_RETRY_EXC_ERR : WC_SUCCESS, 10 + i);
    assert_int_equal(ibv_start_poll(ex, &attr), 0);
    assert_int_equal(ex->wr_id, 10);
    assert_int_equal(ex->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_SEND);
    assert_int_equal(ibv_wc_read_byte_len(ex), 100);
    assert_int_equal(ibv_wc_read_qp_num(ex), RINGS_QPN);
    assert_int_equal(ibv_wc_read_imm_data(ex), 0xAABBCCDD);
    assert_int_equal(ibv_wc_read_completion_ts(ex), 77);
    assert_int_equal(ibv_wc_read_sl(ex), 3);
    assert_int_equal(ibv_wc_read_cvlan(ex), 0);
    assert_int_equal(ibv_next_poll(ex), 0);
    assert_int_equal(ex->wr_id, 11);
    assert_int_equal(ex->status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(ibv_wc_read_cvlan(ex), 0x123);
    ibv_end_poll(ex);
    /* The plain call works on the same queue. */
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 12);
    rings_complete(r, WC_SEND, 6, WC_SUCCESS, 13);
    assert_int_equal(ibv_start_poll(ex, &attr), 0);
    assert_int_equal(ibv_next_poll(ex), ENOENT);
    ibv_end_poll(ex);
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 0);
}

static void arming(void **state)
{
    rings_complete(r, WC_SEND, 0, WC_SUCCESS, 1);
    assert_false(cq_take_event(&r->dataplane_cq, 0));
    assert_int_equal(shim_req_notify_cq(cq, 1), 0);
    rings_complete(r, WC_SEND, 2, WC_SUCCESS, 1);
    assert_false(cq_take_event(&r->dataplane_cq, 0));
    assert_int_equal(shim_req_notify_cq(cq, 0), 0);
    rings_complete(r, WC_SEND, 4, WC_SUCCESS, 1);
    assert_true(cq_take_event(&r->dataplane_cq, 0));
    rings_complete(r, WC_SEND, 6, WC_SUCCESS, 1);
    assert_false(cq_take_event(&r->dataplane_cq, 0));
}

/* ---- a daemon that is gone ---- */

/* Its connection has this other end. */
static int connect_daemon(void)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    r->client.conn = (struct conn){.sock = pair[0]};
    return pair[1];
}

static void post_all(void)
{
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
    struct ibv_recv_wr recv = {0}, *bad_recv;

    for (unsigned i = 0; i < RINGS_WR; i++) {
        send.wr_id = i;
        recv.wr_id = 100 + i;
        assert_int_equal(shim_post_send(&r->qp->ex.qp_base, &send, &bad_send), 0);
        assert_int_equal(shim_post_recv(&r->qp->ex.qp_base, &recv, &bad_recv), 0);
    }
}

/* CQEs without their last word, which the daemon had not stored yet. */
static void leave_half_written(void)
{
    for (uint32_t lane = 0; lane < RINGS_LANES; lane++) {
        struct cq_lane *l = cq_lane_at(r->cq->queue.reader.shared, RINGS_CQE, lane);
        struct cqe *e = &l->entry[r->cq->queue.reader.cons[lane] & (RINGS_CQE - 1)];

        memset(e, 0xEE, offsetof(struct cqe, seq));
    }
}

static void check_flushed(const struct ibv_wc *wc, unsigned n, uint64_t first)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(wc[i].wr_id, first + i);
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[i].qp_num, RINGS_QPN);
    }
}

static void no_more_work(void)
{
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
    struct ibv_recv_wr recv = {0}, *bad_recv = NULL;

    assert_int_equal(shim_post_send(&r->qp->ex.qp_base, &send, &bad_send), EIO);
    assert_ptr_equal(bad_send, &send);
    assert_int_equal(shim_post_recv(&r->qp->ex.qp_base, &recv, &bad_recv), EIO);
    assert_ptr_equal(bad_recv, &recv);
}

static void flushed_when_the_daemon_is_gone(void **state)
{
    struct ibv_wc wc[2 * RINGS_CQE];
    int daemon = connect_daemon();

    post_all();
    rings_complete(r, WC_SEND, 0, WC_SUCCESS, 0);
    rings_complete(r, WC_SEND, 1, WC_SUCCESS, 1);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 2);
    leave_half_written();
    rings_complete(r, WC_SEND, 2, WC_SUCCESS, 2);
    close(daemon);
    assert_true(client_daemon_gone(&r->client));
    no_more_work();
    /* A completion that was there is no flush error. */
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 1);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 0);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), RINGS_WR - 3 + RINGS_WR);
    check_flushed(wc, RINGS_WR - 3, 3);
    check_flushed(wc + RINGS_WR - 3, RINGS_WR, 100);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(ibv_start_poll(&r->cq->ex, NULL), EIO);
    no_more_work();
    close(r->client.conn.sock);
}

/* A thread is between ibv_wr_start and ibv_wr_complete. */
static void flushing_waits_for_a_poster(void **state)
{
    struct ibv_wc wc[2 * RINGS_CQE];
    int daemon = connect_daemon();

    ibv_wr_start(&r->qp->ex);
    close(daemon);
    assert_true(client_daemon_gone(&r->client));
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 0);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 0);
    r->qp->ex.wr_id = 5;
    ibv_wr_send(&r->qp->ex);
    assert_int_equal(ibv_wr_complete(&r->qp->ex), 0);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 0);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), 1);
    check_flushed(wc, 1, 5);
    assert_int_equal(shim_poll_cq(cq, RINGS_CQE, wc), -1);
    no_more_work();
    close(r->client.conn.sock);
}

/* A daemon that does nothing, or a connection of another process. */
static void not_gone(void **state)
{
    struct ibv_wc wc;
    int daemon = connect_daemon();

    post_all();
    assert_false(client_daemon_gone(&r->client));
    atomic_store(&r->client.next_look, 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(shim_poll_cq(cq, 1, &wc), 0);
    close(daemon);
    r->client.conn.inherited = true;
    assert_false(client_daemon_gone(&r->client));
    r->client.conn.inherited = false;
    assert_true(client_daemon_gone(&r->client));
    close(r->client.conn.sock);
}

/* What polls do by themselves, in their own time. */
static void polls_notice(void **state)
{
    struct ibv_wc wc[2 * RINGS_CQE];
    uint64_t polls = 0;
    int daemon = connect_daemon(), n;

    post_all();
    assert_int_equal(shim_poll_cq(cq, 1, wc), 0);
    close(daemon);
    do
        n = shim_poll_cq(cq, RINGS_CQE, wc);
    while (!n && ++polls < UINT64_C(1) << 32);
    assert_int_equal(n, 2 * RINGS_WR);
    close(r->client.conn.sock);
}

/* At a fork other threads of the parent were polling and posting, and one slept. */
static void a_child_has_all_locks(void **state)
{
    struct client_qp *qp = &r->qp->queue;
    struct spin *held[] = {&r->cq->queue.lock, &r->cq->queue.place, &qp->sq.lock, &qp->rq.lock,
                           &r->client.blocking};
    struct ibv_wc wc;

    post_all();
    rings_complete(r, WC_SEND, 0, WC_SUCCESS, 7);
    for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
        assert_true(spin_trylock(held[i]));
    pthread_mutex_init(&r->cq->queue.resizing, NULL);
    pthread_mutex_lock(&r->cq->queue.resizing);
    slot_table_init(&r->client.srqs);
    client_in_child(&r->client);
    for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
        assert_true(spin_trylock(held[i]));
        spin_unlock(held[i]);
    }
    assert_int_equal(pthread_mutex_trylock(&r->cq->queue.resizing), 0);
    no_more_work();
    assert_int_equal(shim_poll_cq(cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 7);
    client_rings_go_on(&r->client);
    assert_int_equal(qp->sq.size, RINGS_WR);
    assert_int_equal(qp->sq.prod, RINGS_WR);
    slot_table_destroy(&r->client.srqs);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(fields),
        T(both_lanes),
        T(dead_queue_pairs_are_skipped),
        T(extended_polling),
        T(arming),
        T(reset_empties_everything),
        T(flushed_when_the_daemon_is_gone),
        T(flushing_waits_for_a_poster),
        T(not_gone),
        T(polls_notice),
        T(a_child_has_all_locks),
    };

    return cmocka_run_group_tests_name("poll", tests, NULL, NULL);
}
