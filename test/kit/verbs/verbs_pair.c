/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "unit.h"

#define AWAIT_SECONDS 10
#define DEPTH         4
/* More than a test's connection uses; few, so that packets of the connections before, whose PSNs
 * are less than 2^23 behind, are duplicates. */
#define PSNS_OF_A_CONNECTION 0x10000
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_context *open_first(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx;

    assert_non_null(list);
    assert_non_null(list[0]);
    ctx = ibv_open_device(list[0]);
    assert_non_null(ctx);
    ibv_free_device_list(list);
    return ctx;
}

struct ibv_qp *make_qp(struct pair *p, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = PAIR_WR,
                                            .max_recv_wr = PAIR_WR,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 2,
                                            .max_inline_data = 64},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(p->pd, &attr);

    assert_non_null(qp);
    return qp;
}

static void make_side(struct pair *p, struct side *s)
{
    s->buffer = calloc(1, PAIR_BYTES);
    s->mr = ibv_reg_mr(p->pd, s->buffer, PAIR_BYTES, ACCESS);
    assert_non_null(s->mr);
    s->qp = make_qp(p, p->cq);
}

void modify_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(qp->state, state);
}

static int connect_with(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t depth, uint32_t psn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
    int err;

    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .rq_psn = psn,
                                .dest_qp_num = dest_qpn,
                                .max_dest_rd_atomic = depth,
                                .min_rnr_timer = 1,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    assert_int_equal(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    err = ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (err)
        return err;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .sq_psn = psn,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .max_rd_atomic = depth};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

struct ibv_qp *make_datagram_qp(struct pair *p, struct ibv_cq *cq, uint32_t wr)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = wr, .max_recv_wr = wr, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = PAIR_QKEY};
    struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    modify_state(qp, IBV_QPS_RTR);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
}

struct ibv_ah *make_own_ah(struct pair *p)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1};
    struct ibv_ah *ah;

    assert_int_equal(ibv_query_gid(p->ctx, 1, 0, &attr.grh.dgid), 0);
    ah = ibv_create_ah(p->pd, &attr);
    assert_non_null(ah);
    return ah;
}

int try_connect_qp(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t depth)
{
    return connect_with(qp, dest_qpn, depth, 0);
}

void connect_qp(struct ibv_qp *qp, uint32_t dest_qpn)
{
    assert_int_equal(try_connect_qp(qp, dest_qpn, DEPTH), 0);
}

void pair_reconnect(struct pair *p)
{
    p->psn = (p->psn + PSNS_OF_A_CONNECTION) & 0xFFFFFF;
    assert_int_equal(connect_with(p->a.qp, p->b.qp->qp_num, DEPTH, p->psn), 0);
    assert_int_equal(connect_with(p->b.qp, p->a.qp->qp_num, DEPTH, p->psn), 0);
}

void pair_open(struct pair *p)
{
    p->psn = 0;
    p->ctx = open_first();
    p->pd = ibv_alloc_pd(p->ctx);
    assert_non_null(p->pd);
    p->channel = ibv_create_comp_channel(p->ctx);
    assert_non_null(p->channel);
    p->cq = ibv_create_cq(p->ctx, 4 * PAIR_WR, p, p->channel, 0);
    assert_non_null(p->cq);
    make_side(p, &p->a);
    make_side(p, &p->b);
    connect_qp(p->a.qp, p->b.qp->qp_num);
    connect_qp(p->b.qp, p->a.qp->qp_num);
}

static void close_side(struct side *s)
{
    assert_int_equal(ibv_destroy_qp(s->qp), 0);
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    free(s->buffer);
}

void pair_close(struct pair *p)
{
    close_side(&p->a);
    close_side(&p->b);
    assert_int_equal(ibv_destroy_cq(p->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(p->channel), 0);
    assert_int_equal(ibv_dealloc_pd(p->pd), 0);
    assert_int_equal(ibv_close_device(p->ctx), 0);
}

int post_send(struct side *from, enum ibv_wr_opcode op, struct side *to, uint32_t offset,
              uint32_t length, uint64_t wr_id)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)from->buffer + offset, .length = length, .lkey = from->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = op,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)to->buffer + offset, .rkey = to->mr->rkey}};
    struct ibv_send_wr *bad;

    return ibv_post_send(from->qp, &wr, &bad);
}

int post_recv(struct side *s, uint32_t offset, uint32_t length, uint64_t wr_id)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)s->buffer + offset, .length = length, .lkey = s->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    return ibv_post_recv(s->qp, &wr, &bad);
}

void await(struct ibv_cq *cq, struct ibv_wc *wc, int n)
{
    time_t end = time(NULL) + AWAIT_SECONDS;

    while (n > 0 && time(NULL) < end) {
        int got = ibv_poll_cq(cq, n, wc);

        assert_true(got >= 0);
        wc += got;
        n -= got;
    }
    assert_int_equal(n, 0);
}
