/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_rate.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "unit.h"
#include "verbs_pair.h"

/* What 80 Mb/s take for `bytes`. Nothing is said about more: machines are shared. */
#define KBPS 80000u

static double seconds_for(unsigned bytes)
{
    return bytes * 8.0 / (KBPS * 1000.0);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst)
{
    struct ibv_qp_rate_limit_attr attr = {.rate_limit = kbps, .max_burst_sz = burst};

    return ibv_modify_qp_rate_limit(qp, &attr);
}

static uint32_t limit_of(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
    return attr.rate_limit;
}

/* Of a queue pair that writes, and of one that is read from. */
void rate_limit_holds(void **state)
{
    struct ibv_wc wc[16];
    struct pair p;
    double begin;

    pair_open(&p);
    for (unsigned reads = 0; reads < 2; reads++) {
        struct ibv_qp *limited = reads ? p.b.qp : p.a.qp;

        assert_int_equal(limit(limited, KBPS, 0), 0);
        assert_int_equal(limit_of(limited), KBPS);
        begin = now();
        for (unsigned i = 0; i < 16; i++)
            assert_int_equal(post_send(&p.a, reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &p.b, 0,
                                       PAIR_BYTES, i),
                             0);
        await(p.cq, wc, 16);
        assert_true(now() - begin > seconds_for(16 * PAIR_BYTES));
        assert_int_equal(limit(limited, 0, 0), 0);
        assert_int_equal(limit_of(limited), 0);
    }
    pair_close(&p);
}

static struct ibv_qp *make_ud(struct pair *p)
{
    struct ibv_qp_init_attr attr = {.send_cq = p->cq,
                                    .recv_cq = p->cq,
                                    .cap = {.max_send_wr = PAIR_WR,
                                            .max_recv_wr = PAIR_WR,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_UD};
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .rate_limit = KBPS};
    struct ibv_qp *qp = ibv_create_qp(p->pd, &attr);

    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    assert_int_equal(ibv_modify_qp(qp, &rtr, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RATE_LIMIT), 0);
    return qp;
}

/* Set with the change to RTS. The receiver has no buffers: datagrams are lost, which the sender
 * does not know. */
void rate_limit_of_datagrams(void **state)
{
    enum { SIZE = 1024, COUNT = 256 };
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1};
    struct ibv_send_wr *bad;
    struct ibv_sge sge = {.length = SIZE};
    struct ibv_wc wc[PAIR_WR];
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    struct pair p;
    double begin;

    pair_open(&p);
    qp = make_ud(&p);
    assert_int_equal(limit_of(qp), KBPS);
    ah = make_own_ah(&p);
    sge.addr = (uintptr_t)p.a.buffer;
    sge.lkey = p.a.mr->lkey;
    wr.sg_list = &sge;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qp->qp_num;
    wr.wr.ud.remote_qkey = 7;
    begin = now();
    for (unsigned done = 0; done < COUNT; done += PAIR_WR) {
        for (unsigned i = 0; i < PAIR_WR; i++)
            assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
        await(p.cq, wc, PAIR_WR);
    }
    /* The last one is complete when it is sent: the wait for it is the one before it. */
    assert_true(now() - begin > seconds_for((COUNT - 1) * SIZE));
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    pair_close(&p);
}

/* The daemon asks so long, with pauses of 1, 2, 4, 8 and 16 ms, whether the datagrams are sent. */
#define LAST_SENDS_SECONDS 0.031

/* Datagrams that are posted right before their queue pair is destroyed arrive; these take 5 ms.
 * False: the machine is so busy that the daemon may have given up. */
static bool last_datagrams_arrive(struct pair *p, struct ibv_ah *ah)
{
    enum { SIZE = 1024, GRH = 40, COUNT = 48 };
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND,
        .num_sge = 1,
        .wr.ud = {.ah = ah, .remote_qkey = 7},
    };
    struct ibv_sge sge = {.addr = (uintptr_t)p->a.buffer, .length = SIZE, .lkey = p->a.mr->lkey};
    struct side from = p->a, to = p->b;
    struct ibv_send_wr *bad;
    struct ibv_wc wc[COUNT];
    double begin;
    bool in_time;

    from.qp = make_ud(p);
    to.qp = make_ud(p);
    wr.sg_list = &sge;
    wr.wr.ud.remote_qpn = to.qp->qp_num;
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(post_recv(&to, 0, GRH + SIZE, i), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(ibv_post_send(from.qp, &wr, &bad), 0);
    begin = now();
    assert_int_equal(ibv_destroy_qp(from.qp), 0);
    in_time = now() - begin < LAST_SENDS_SECONDS;
    if (in_time)
        await(p->cq, wc, COUNT);
    assert_int_equal(ibv_destroy_qp(to.qp), 0);
    return in_time;
}

/* A program that sends datagrams may destroy its queue pair once it has posted. */
void datagrams_precede_the_end(void **state)
{
    bool in_time = false;
    struct ibv_ah *ah;
    struct pair p;

    pair_open(&p);
    ah = make_own_ah(&p);
    for (unsigned tries = 0; tries < 20 && !in_time; tries++)
        in_time = last_datagrams_arrive(&p, ah);
    assert_true(in_time);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    pair_close(&p);
}

void rate_limits_that_are_refused(void **state)
{
    struct ibv_qp_rate_limit_attr unknown = {.rate_limit = KBPS, .comp_mask = 1};
    struct ibv_device_attr_ex device;
    struct ibv_qp *reset;
    struct pair p;

    pair_open(&p);
    assert_int_equal(ibv_query_device_ex(p.ctx, NULL, &device), 0);
    assert_int_equal(device.packet_pacing_caps.qp_rate_limit_min, 1);
    assert_int_equal(device.packet_pacing_caps.qp_rate_limit_max, UINT32_MAX);
    assert_true(device.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_UD);
    assert_false(device.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_XRC_RECV);
    assert_int_equal(limit(p.a.qp, 1, 0), 0);
    assert_int_equal(limit(p.a.qp, UINT32_MAX, 0), 0);
    assert_int_equal(ibv_modify_qp_rate_limit(p.a.qp, &unknown), EINVAL);
    assert_int_equal(limit(p.a.qp, KBPS, 64), EINVAL); /* less than a packet */
    assert_int_equal(limit(p.a.qp, KBPS, 8192), 0);
    assert_int_equal(limit_of(p.a.qp), KBPS);
    reset = make_qp(&p, p.cq);
    assert_int_equal(limit(reset, KBPS, 0), EINVAL); /* nothing is sent in RESET */
    assert_int_equal(ibv_destroy_qp(reset), 0);
    pair_close(&p);
}
