/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting, from the dataplane's side. */
#include "rings.h"

#include <sys/eventfd.h>

#include "unit.h"

static struct rings *r;

static int setup(void **state)
{
    r = rings_new();
    return 0;
}

static int teardown(void **state)
{
    rings_free(r);
    return 0;
}

static int post_send(struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return shim_post_send(&r->qp->ex.qp_base, wr, bad);
}

static int post_recv(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return shim_post_recv(&r->qp->ex.qp_base, wr, bad);
}

static struct send_wqe taken(void)
{
    struct send_wqe wqe;

    assert_true(work_queue_pending(&r->dataplane_sq) > 0);
    assert_int_equal(send_queue_take(&r->dataplane_sq, &wqe), 0);
    return wqe;
}

static void write_with_sges(void **state)
{
    struct ibv_sge sge[2] = {{.addr = 0x1000, .length = 10, .lkey = 7},
                             {.addr = 0x2000, .length = 20, .lkey = 8}};
    struct ibv_send_wr wr = {.wr_id = 42,
                             .sg_list = sge,
                             .num_sge = 2,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
                             .imm_data = 0x11223344,
                             .wr.rdma = {.remote_addr = 0x55, .rkey = 0x66}};
    struct ibv_send_wr *bad = NULL;
    struct send_wqe wqe;
    uint32_t slots[4];

    assert_int_equal(post_send(&wr, &bad), 0);
    assert_null(bad);
    assert_int_equal(doorbell_take(r->qp->queue.doorbells, slots, 4), 1);
    assert_int_equal(slots[0], 5);
    wqe = taken();
    assert_int_equal(wqe.h.wr_id, 42);
    assert_int_equal(wqe.h.opcode, SQE_WRITE_IMM);
    assert_int_equal(wqe.h.flags, SQE_SIGNALED | SQE_FENCE);
    assert_int_equal(wqe.h.imm, 0x11223344);
    assert_int_equal(wqe.h.remote_addr, 0x55);
    assert_int_equal(wqe.h.rkey, 0x66);
    assert_int_equal(wqe.h.num_sge, 2);
    assert_memory_equal(wqe.sge, sge, sizeof(sge));
}

static void atomics(void **state)
{
    struct ibv_sge sge = {.addr = 8, .length = 8};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
        .sg_list = &sge,
        .num_sge = 1,
        .wr.atomic = {.remote_addr = 16, .rkey = 3, .compare_add = 4, .swap = 5}};
    struct ibv_send_wr *bad;
    struct send_wqe wqe;

    assert_int_equal(post_send(&wr, &bad), 0);
    wqe = taken();
    assert_int_equal(wqe.h.remote_addr, 16);
    assert_int_equal(wqe.h.rkey, 3);
    assert_int_equal(wqe.h.atomic.compare_add, 4);
    assert_int_equal(wqe.h.atomic.swap, 5);
}

static void inline_data(void **state)
{
    char data[RINGS_INLINE + 1] = "abcdefgh";
    struct ibv_sge sge[2] = {{.addr = (uintptr_t)data, .length = 3},
                             {.addr = (uintptr_t)data + 5, .length = 2}};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2, .send_flags = IBV_SEND_INLINE};
    struct ibv_send_wr *bad = NULL;
    struct send_wqe wqe;

    assert_int_equal(post_send(&wr, &bad), 0);
    data[0] = 'X'; /* the application may reuse its buffer at once */
    wqe = taken();
    assert_int_equal(wqe.h.inline_len, 5);
    assert_memory_equal(wqe.inline_data, "abcfg", 5);

    sge[0].length = RINGS_INLINE;
    sge[1].length = 1;
    assert_int_equal(post_send(&wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    sge[1].length = 0;
    assert_int_equal(post_send(&wr, &bad), 0);
    wr.opcode = IBV_WR_RDMA_READ;
    assert_int_equal(post_send(&wr, &bad), EINVAL);
}

/* Every length; no byte beyond it changes. */
static void inline_lengths(void **state)
{
    uint8_t data[RINGS_INLINE];

    for (uint32_t len = 0; len <= RINGS_INLINE; len++) {
        struct ibv_sge sge = {.addr = (uintptr_t)data + RINGS_INLINE - len, .length = len};
        struct ibv_send_wr wr = {
            .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE};
        struct ibv_send_wr *bad;
        uint8_t *slot = ring_slot(&r->qp->queue.sq, r->qp->queue.sq.prod);
        struct send_wqe wqe;

        for (unsigned i = 0; i < RINGS_INLINE; i++)
            data[i] = (uint8_t)(i + len);
        memset(slot, 0xEE, r->qp->queue.sq.stride);
        assert_int_equal(post_send(&wr, &bad), 0);
        wqe = taken();
        assert_int_equal(wqe.h.inline_len, len);
        assert_memory_equal(wqe.inline_data, data + RINGS_INLINE - len, len);
        for (uint32_t i = (uint32_t)sizeof(struct sqe) + len; i < r->qp->queue.sq.stride; i++)
            assert_int_equal(slot[i], 0xEE);
        atomic_fetch_add(&r->qp->queue.sq.cons, 1);
    }
}

static void bad_requests(void **state)
{
    struct ibv_sge sge[RINGS_SGE + 1] = {{0}};
    struct ibv_send_wr third = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = RINGS_SGE + 1};
    struct ibv_send_wr second = {.next = &third, .opcode = IBV_WR_SEND};
    struct ibv_send_wr first = {.next = &second, .opcode = IBV_WR_SEND};
    struct ibv_send_wr *bad = NULL;

    /* Requests before the bad one are posted. */
    assert_int_equal(post_send(&first, &bad), EINVAL);
    assert_ptr_equal(bad, &third);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 2);
    third.num_sge = -1;
    assert_int_equal(post_send(&third, &bad), EINVAL);
    third.num_sge = 0;
    third.opcode = IBV_WR_TSO;
    assert_int_equal(post_send(&third, &bad), EINVAL);
    third.opcode = (enum ibv_wr_opcode)1000;
    assert_int_equal(post_send(&third, &bad), EINVAL);
    third.opcode = IBV_WR_SEND;
    third.send_flags = 1 << 10;
    assert_int_equal(post_send(&third, &bad), EINVAL);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 2);
}

static void datagrams_need_an_address(void **state)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(&r->qp->ex.qp_base);
    struct shim_ah ah = {.number = 77};
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .wr.ud = {.remote_qpn = 5}};
    struct send_wqe wqe;

    r->qp->ex.qp_base.qp_type = IBV_QPT_UD;
    for (unsigned i = 0; i < 2; i++) {
        wr.opcode = i ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        bad = NULL;
        assert_int_equal(post_send(&wr, &bad), EINVAL);
        assert_ptr_equal(bad, &wr);
    }
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_ud_addr(qp, NULL, 5, 6);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 0);

    wr.wr.ud.ah = &ah.base;
    assert_int_equal(post_send(&wr, &bad), 0);
    wqe = taken();
    assert_int_equal(wqe.h.ud.ah, 77);
    assert_int_equal(wqe.h.ud.remote_qpn, 5);
}

/* Where the address would be, these requests have something else. */
static void what_is_no_datagram_has_no_address(void **state)
{
    struct ibv_mw mw = {.rkey = 0x100, .type = IBV_MW_TYPE_1};
    struct ibv_pd pd = {.handle = 1};
    struct ibv_mw_bind bind = {0};
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {.remote_addr = 0x55}};

    r->qp->ex.qp_base.qp_type = IBV_QPT_UD;
    r->qp->ex.qp_base.pd = mw.pd = &pd;
    assert_int_equal(shim_bind_mw(&r->qp->ex.qp_base, &mw, &bind), 0);
    assert_int_equal(taken().h.opcode, SQE_BIND_MW);
    assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(taken().h.remote_addr, 0x55);
}

/* A window keeps its key when the bind is not posted: the next one names it. */
static void a_refused_bind_changes_no_key(void **state)
{
    struct ibv_mw mw = {.rkey = 0x100, .type = IBV_MW_TYPE_1};
    struct ibv_pd pd = {.handle = 1};
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_INLINE};

    r->qp->ex.qp_base.pd = mw.pd = &pd;
    assert_int_equal(shim_bind_mw(&r->qp->ex.qp_base, &mw, &bind), EINVAL);
    assert_int_equal(mw.rkey, 0x100);
    bind.send_flags = 0;
    assert_int_equal(shim_bind_mw(&r->qp->ex.qp_base, &mw, &bind), 0);
    assert_int_equal(mw.rkey, 0x101);
    assert_int_equal(taken().h.rkey, 0x100);
}

static void states(void **state)
{
    static const struct {
        enum ibv_qp_state state;
        int send, recv;
    } expect[] = {
        {IBV_QPS_RESET, EINVAL, EINVAL},
        {IBV_QPS_INIT, EINVAL, 0},
        {IBV_QPS_RTR, EINVAL, 0},
        {IBV_QPS_RTS, 0, 0},
        {IBV_QPS_SQD, 0, 0},
        {IBV_QPS_SQE, 0, 0},
        {IBV_QPS_ERR, 0, 0},
    };
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct ibv_recv_wr rwr = {0}, *rbad;

    for (unsigned i = 0; i < ARRAY_SIZE(expect); i++) {
        r->qp->ex.qp_base.state = expect[i].state;
        assert_int_equal(post_send(&wr, &bad), expect[i].send);
        assert_int_equal(post_recv(&rwr, &rbad), expect[i].recv);
    }
}

static void full_until_polled(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct ibv_wc wc;

    for (unsigned i = 0; i < RINGS_WR; i++)
        assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(post_send(&wr, &bad), ENOMEM);
    assert_ptr_equal(bad, &wr);
    /* One completion also frees the requests posted before it. */
    rings_complete(r, WC_SEND, 2, WC_SUCCESS, 0);
    assert_int_equal(post_send(&wr, &bad), ENOMEM);
    assert_int_equal(shim_poll_cq(ibv_cq_ex_to_cq(&r->cq->ex), 1, &wc), 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(post_send(&wr, &bad), ENOMEM);
}

static void receives(void **state)
{
    struct ibv_sge sge = {.addr = 0x100, .length = 50, .lkey = 2};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    struct recv_wqe wqe;
    uint32_t slots[2];

    for (unsigned i = 0; i < RINGS_WR; i++)
        assert_int_equal(post_recv(&wr, &bad), 0);
    assert_int_equal(post_recv(&wr, &bad), ENOMEM);
    assert_int_equal(recv_queue_take(&r->dataplane_rq, &wqe), 0);
    assert_int_equal(wqe.h.wr_id, 1);
    assert_memory_equal(wqe.sge, &sge, sizeof(sge));
    /* Receives ring the doorbell only while the dataplane requests it. */
    assert_int_equal(doorbell_take(r->qp->queue.doorbells, slots, 2), 0);
    atomic_store(&r->shared->rq_notify, 1);
    atomic_store(&r->qp->queue.rq.cons, 1);
    assert_int_equal(post_recv(&wr, &bad), 0);
    assert_int_equal(doorbell_take(r->qp->queue.doorbells, slots, 2), 1);
    wr.num_sge = RINGS_SGE + 1;
    atomic_store(&r->qp->queue.rq.cons, 2);
    assert_int_equal(post_recv(&wr, &bad), EINVAL);
}

/* The daemon writes which worker has the queue pair. There is one. */
static void worker_that_is_not_there(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    uint32_t slots[2];

    atomic_store(r->qp->queue.worker, UINT8_MAX);
    assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(doorbell_take(r->qp->queue.doorbells, slots, 2), 0);
    atomic_store(r->qp->queue.worker, 0);
    assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(doorbell_take(r->qp->queue.doorbells, slots, 2), 1);
}

static void sleeping_worker_is_woken(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    int fd = r->client.wake_fd[0];
    eventfd_t wakes;

    assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(eventfd_read(fd, &wakes), -1);
    atomic_store(&r->client.shared->worker[0].worker_armed, 1);
    assert_int_equal(post_send(&wr, &bad), 0);
    assert_int_equal(eventfd_read(fd, &wakes), 0);
    assert_int_equal(wakes, 1);
    assert_int_equal(atomic_load(&r->client.shared->worker[0].worker_armed), 0);
}

/* ---- the ibv_wr_* calls ---- */

static void wr_batch(void **state)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(&r->qp->ex.qp_base);
    struct ibv_sge list[2] = {{.addr = 1, .length = 2, .lkey = 3},
                              {.addr = 4, .length = 5, .lkey = 6}};
    struct ibv_data_buf bufs[2] = {{(char[]){"ab"}, 2}, {(char[]){"cd"}, 1}};
    struct send_wqe wqe;

    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, 0x77, 0x88);
    ibv_wr_set_sge(qp, 9, 10, 11);
    qp->wr_id = 2;
    qp->wr_flags = IBV_SEND_INLINE; /* has no meaning here */
    ibv_wr_send_imm(qp, 0x99);
    ibv_wr_set_inline_data_list(qp, 2, bufs);
    qp->wr_id = 3; /* reads have no inline data, whatever wr_flags says */
    ibv_wr_rdma_read(qp, 1, 2);
    ibv_wr_set_sge_list(qp, 2, list);
    ibv_wr_atomic_fetch_add(qp, 5, 6, 7);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 0);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 4);
    wqe = taken();
    assert_int_equal(wqe.h.opcode, SQE_WRITE);
    assert_int_equal(wqe.h.rkey, 0x77);
    assert_int_equal(wqe.h.remote_addr, 0x88);
    assert_int_equal(wqe.sge[0].lkey, 9);
    assert_int_equal(wqe.sge[0].addr, 10);
    assert_int_equal(wqe.sge[0].length, 11);
    wqe = taken();
    assert_int_equal(wqe.h.wr_id, 2);
    assert_int_equal(wqe.h.imm, 0x99);
    assert_int_equal(wqe.h.inline_len, 3);
    assert_memory_equal(wqe.inline_data, "abc", 3);
    wqe = taken();
    assert_int_equal(wqe.h.num_sge, 2);
    assert_memory_equal(wqe.sge, list, sizeof(list));
    wqe = taken();
    assert_int_equal(wqe.h.opcode, SQE_FETCH_ADD);
    assert_int_equal(wqe.h.atomic.compare_add, 7);
}

static void wr_all_or_nothing(void **state)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(&r->qp->ex.qp_base);
    struct ibv_sge list[RINGS_SGE + 1] = {{0}};
    char data[RINGS_INLINE + 1] = {0};

    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 0);

    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, RINGS_SGE + 1, list);
    ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);

    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, data, sizeof(data));
    assert_int_equal(ibv_wr_complete(qp), EINVAL);

    ibv_wr_start(qp);
    ibv_wr_rdma_read(qp, 1, 2);
    ibv_wr_set_inline_data(qp, data, 1);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);

    ibv_wr_start(qp);
    for (unsigned i = 0; i <= RINGS_WR; i++)
        ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), ENOMEM);

    ibv_wr_start(qp);
    ibv_wr_send_tso(qp, data, 1, 1);
    assert_int_equal(ibv_wr_complete(qp), EOPNOTSUPP);

    r->qp->ex.qp_base.state = IBV_QPS_INIT;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 0);
    assert_int_equal(qp_ex_init(r->qp, IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
}

/* A window's next key names it in the next bind, so a bind that is not posted gives it none. */
static void wr_bind_that_is_not_posted(void **state)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(&r->qp->ex.qp_base);
    struct shim_mw mw[2] = {{.base.rkey = 0x100}, {.base.rkey = 0x200}};
    struct ibv_mw_bind_info info = {0};
    char data[RINGS_INLINE + 1] = {0};

    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, &mw[0].base, 1, &info);
    ibv_wr_bind_mw(qp, &mw[1].base, 1, &info);
    ibv_wr_bind_mw(qp, &mw[0].base, 2, &info);
    assert_int_equal(mw[0].base.rkey, 0x102);
    ibv_wr_abort(qp);
    assert_int_equal(mw[0].base.rkey, 0x100);
    assert_int_equal(mw[1].base.rkey, 0x200);

    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, &mw[0].base, 1, &info);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, data, sizeof(data));
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_int_equal(mw[0].base.rkey, 0x100);

    for (uint32_t key = 0x100; key < 0x102; key++) {
        ibv_wr_start(qp);
        ibv_wr_bind_mw(qp, &mw[0].base, key + 1, &info);
        assert_int_equal(ibv_wr_complete(qp), 0);
        assert_int_equal(mw[0].base.rkey, key + 1);
        assert_int_equal(taken().h.rkey, key);
    }
    assert_int_equal(work_queue_pending(&r->dataplane_sq), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(write_with_sges),
        T(atomics),
        T(inline_data),
        T(inline_lengths),
        T(bad_requests),
        T(datagrams_need_an_address),
        T(what_is_no_datagram_has_no_address),
        T(a_refused_bind_changes_no_key),
        T(states),
        T(full_until_polled),
        T(receives),
        T(wr_batch),
        T(worker_that_is_not_there),
        T(sleeping_worker_is_woken),
        T(wr_all_or_nothing),
        T(wr_bind_that_is_not_posted),
    };

    return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
