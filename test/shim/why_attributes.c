/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes, calls and datagrams that make no sense. See why_cases.c. */
#include "why_kit.h"

#include <errno.h>

/* ---- attributes that do not fit ---- */

static void path_mtu_larger(void)
{
    a.mtu = IBV_MTU_2048;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 5000);
}

static void path_mtu_smaller(void)
{
    a.mtu = IBV_MTU_512;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 5000);
}

static void qp_without_write(void)
{
    b.qp_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void qp_without_atomics(void)
{
    b.qp_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
}

static void reads_not_allowed(void)
{
    a.depth = 0;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void reads_too_many(void)
{
    b.depth = 0;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void atomic_misaligned(void)
{
    connect_both();
    post_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)b.buffer + 4, b.mr->rkey, 8);
}

static void read_on_uc(void)
{
    type = IBV_QPT_UC;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void message_of(uint32_t half)
{
    struct ibv_sge sge[2];
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2};

    connect_both();
    sge[0] = sge[1] = piece(&a, half);
    post(&wr, NULL);
}

static void message_too_long(void)
{
    message_of(0x30000000);
}

/* More than a length of 32 bits. */
static void message_far_too_long(void)
{
    message_of(UINT32_MAX);
}

static void atomic_of_16_bytes(void)
{
    connect_both();
    post_to_b(IBV_WR_ATOMIC_FETCH_AND_ADD, 16);
}

static void invalidate_region(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV};
    struct ibv_sge sge;

    connect_both();
    wr.invalidate_rkey = b.mr->rkey;
    sge = piece(&a, 64);
    post_receive(&b, 64, b.mr->lkey);
    post(&wr, &sge);
}

static void local_invalidate_region(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV};

    connect_both();
    wr.invalidate_rkey = a.mr->rkey;
    post(&wr, NULL);
}

static void bind_without_right(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};
    struct ibv_mw *mw;

    connect_both();
    mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
    check(mw, "ibv_alloc_mw");
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = a.mr,
                                                     .addr = (uintptr_t)a.buffer,
                                                     .length = 4096,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    post(&wr, NULL);
}

static void cq_overrun(void)
{
    cqes = 1;
    connect_both();
    for (unsigned i = 0; i < 60; i++)
        post_to_b(IBV_WR_RDMA_WRITE, 64);
    for (;;) { /* until the queue pair is in error */
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;

        check(!ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
        if (attr.qp_state == IBV_QPS_ERR)
            return;
    }
}

/* ---- calls that fail ---- */

static void expect_einval(const struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr a_ = *attr;

    check(ibv_modify_qp(a.qp, &a_, mask) == EINVAL, "ibv_modify_qp fails with EINVAL");
}

static void begin_init(void)
{
    open_device();
    make_end(&a);
    check(!to_init(&a), "INIT");
}

static struct ibv_qp_attr rtr(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = 17,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 1,
                               .ah_attr = {.is_global = 1, .port_num = 1}};

    attr.ah_attr.grh.dgid = own_gid();
    return attr;
}

#define RTR_MASK                                                                    \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

static void modify_reset_to_rts(void)
{
    open_device();
    make_end(&a);
    expect_einval(&(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE);
}

static void modify_without_psn(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    expect_einval(&attr, RTR_MASK & ~IBV_QP_RQ_PSN);
}

static void modify_with_timeout(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    expect_einval(&attr, RTR_MASK | IBV_QP_TIMEOUT);
}

static void modify_reads(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    attr.max_dest_rd_atomic = 255;
    expect_einval(&attr, RTR_MASK);
}

static void modify_gid_index(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    attr.ah_attr.grh.sgid_index = 200;
    expect_einval(&attr, RTR_MASK);
}

static void modify_without_grh(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    attr.ah_attr.is_global = 0;
    expect_einval(&attr, RTR_MASK);
}

/* ---- datagrams ---- */

static struct ibv_ah *make_ah(const struct end *from)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    struct ibv_ah *ah;

    attr.grh.dgid = own_gid();
    ah = ibv_create_ah(from->pd, &attr);
    check(ah, "ibv_create_ah");
    return ah;
}

static void send_datagram(const struct end *from, const struct end *to)
{
    struct ibv_sge sge = piece(from, 64);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .wr.ud = {make_ah(from), to->qp->qp_num, 17}};

    check(!ibv_post_send(from->qp, &wr, &bad), "ibv_post_send");
    expect_success();
}

/* To a, which has a receive for it: until it is here. */
static void send_to_a(const struct end *from)
{
    post_receive(&a, 128, a.mr->lkey);
    send_datagram(from, &a);
    expect_success();
}

/* One to b, and one to a itself: when it is here, b's worker has b's, and looks at it before it
 * sends anything of b. */
static void post_datagram(void)
{
    send_datagram(&a, &b);
    send_to_a(&a);
    send_to_a(&b);
}

static void ud_no_receive(void)
{
    type = IBV_QPT_UD;
    connect_both();
    post_datagram();
}

static void ud_wrong_qkey(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_sge sge;

    type = IBV_QPT_UD;
    connect_both();
    post_receive(&b, 128, b.mr->lkey);
    sge = piece(&a, 64);
    wr.wr.ud.ah = make_ah(&a);
    wr.wr.ud.remote_qpn = b.qp->qp_num;
    wr.wr.ud.remote_qkey = 18;
    post(&wr, &sge);
    expect_success();
    post_datagram(); /* and one that is good, which comes later */
}

static void ud_receive_without_grh(void)
{
    type = IBV_QPT_UD;
    connect_both();
    post_receive(&b, 64, b.mr->lkey);
    post_datagram();
}

static void ud_too_long(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_sge sge;

    type = IBV_QPT_UD;
    connect_both();
    sge = piece(&a, 60000);
    wr.wr.ud.ah = make_ah(&a);
    wr.wr.ud.remote_qpn = b.qp->qp_num;
    wr.wr.ud.remote_qkey = 17;
    post(&wr, &sge);
}

const struct why_case why_attributes[] = {
#define CASE(name)  \
    {               \
#name, name \
    }
    CASE(path_mtu_larger),
    CASE(path_mtu_smaller),
    CASE(qp_without_write),
    CASE(qp_without_atomics),
    CASE(reads_not_allowed),
    CASE(reads_too_many),
    CASE(atomic_misaligned),
    CASE(read_on_uc),
    CASE(message_too_long),
    CASE(message_far_too_long),
    CASE(atomic_of_16_bytes),
    CASE(invalidate_region),
    CASE(local_invalidate_region),
    CASE(bind_without_right),
    CASE(cq_overrun),
    CASE(modify_reset_to_rts),
    CASE(modify_without_psn),
    CASE(modify_with_timeout),
    CASE(modify_reads),
    CASE(modify_gid_index),
    CASE(modify_without_grh),
    CASE(ud_no_receive),
    CASE(ud_wrong_qkey),
    CASE(ud_receive_without_grh),
    CASE(ud_too_long),
#undef CASE
    {NULL, NULL},
};
