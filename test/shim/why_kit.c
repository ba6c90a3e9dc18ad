/* SPDX-License-Identifier: BSD-3-Clause */
/* See why_kit.h. */
#include "why_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct ibv_context *ctx;
struct ibv_cq *cq;
struct end a, b;
uint8_t timeout_code = 10, retry_cnt = 1, rnr_retry;
enum ibv_qp_type type = IBV_QPT_RC;
int cqes = 256;

void check(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(2);
}

/* ---- connecting ---- */

void open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    check(list && list[0], "ibv_get_device_list");
    ctx = ibv_open_device(list[0]);
    check(ctx, "ibv_open_device");
    cq = ibv_create_cq(ctx, cqes, NULL, NULL, 0);
    check(cq, "ibv_create_cq");
}

void make_end(struct end *e)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = 64,
                                            .max_recv_wr = 64,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 2,
                                            .max_inline_data = 64},
                                    .qp_type = type,
                                    .sq_sig_all = 1};

    e->pd = ibv_alloc_pd(ctx);
    e->buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(e->pd && e->buffer != MAP_FAILED, "ibv_alloc_pd");
    e->mr = ibv_reg_mr(e->pd, e->buffer, BYTES, e->mr_access);
    check(e->mr, "ibv_reg_mr");
    e->qp = ibv_create_qp(e->pd, &attr);
    check(e->qp, "ibv_create_qp");
}

int to_init(struct end *e)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = e->qp_access, .qkey = 17};

    return ibv_modify_qp(e->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int to_rtr(struct end *e, uint32_t dest_qpn, const union ibv_gid *dgid)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = e->mtu,
                               .dest_qp_num = dest_qpn,
                               .max_dest_rd_atomic = e->depth,
                               .min_rnr_timer = 1,
                               .ah_attr = {.is_global = 1,
                                           .port_num = 1,
                                           .grh = {.hop_limit = 1, .sgid_index = e->sgid_index}}};
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

    if (type == IBV_QPT_UD)
        return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
    attr.ah_attr.grh.dgid = *dgid;
    return ibv_modify_qp(
        e->qp, &attr,
        type == IBV_QPT_UC ? mask : mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(struct end *e)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = timeout_code,
                               .retry_cnt = retry_cnt,
                               .rnr_retry = rnr_retry,
                               .max_rd_atomic = e->depth};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    return ibv_modify_qp(e->qp, &attr,
                         type != IBV_QPT_RC ? mask
                                            : mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

union ibv_gid own_gid(void)
{
    union ibv_gid gid;

    check(!ibv_query_gid(ctx, 1, 0, &gid), "ibv_query_gid");
    return gid;
}

/* The first entry for RoCEv2 over IPv6. */
static uint8_t ipv6_index(union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

    for (uint8_t i = 0; i < 32; i++) {
        struct ibv_gid_entry entry;

        if (!ibv_query_gid_ex(ctx, 1, i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
            memcmp(entry.gid.raw, mapped, sizeof(mapped))) {
            *gid = entry.gid;
            return i;
        }
    }
    check(false, "a GID of IPv6");
    return 0;
}

static void connect_end(struct end *e, const struct end *to)
{
    union ibv_gid gid = own_gid();

    check(!to_init(e), "INIT");
    if (e->stays_in_init)
        return;
    if (e->other_gid)
        e->sgid_index = ipv6_index(&gid);
    check(!to_rtr(e, e->dest_qpn ? e->dest_qpn : to->qp->qp_num, &gid), "RTR");
    check(!to_rts(e), "RTS");
}

void connect_both(void)
{
    open_device();
    make_end(&a);
    make_end(&b);
    connect_end(&a, &b);
    connect_end(&b, &a);
}

/* ---- work requests ---- */

struct ibv_sge piece(const struct end *e, uint32_t length)
{
    return (struct ibv_sge){.addr = (uintptr_t)e->buffer, .length = length, .lkey = e->mr->lkey};
}

void post(struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    struct ibv_send_wr *bad;

    wr->wr_id = WR_ID;
    if (sge) {
        wr->sg_list = sge;
        wr->num_sge = 1;
    }
    check(!ibv_post_send(a.qp, wr, &bad), "ibv_post_send");
}

/* One of a to b's region. */
void post_remote(enum ibv_wr_opcode op, uint64_t remote, uint32_t rkey, uint32_t length)
{
    struct ibv_send_wr wr = {.opcode = op};
    struct ibv_sge sge = piece(&a, length);

    if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = rkey;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = rkey;
    }
    post(&wr, &sge);
}

void post_to_b(enum ibv_wr_opcode op, uint32_t length)
{
    post_remote(op, (uintptr_t)b.buffer, b.mr->rkey, length);
}

void post_message(uint32_t length)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_sge sge = piece(&a, length);

    post(&wr, &sge);
}

void post_receive(struct end *e, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = piece(e, length);
    struct ibv_recv_wr wr = {.wr_id = WR_ID + 1, .sg_list = &sge, .num_sge = 1}, *bad;

    sge.lkey = lkey;
    check(!ibv_post_recv(e->qp, &wr, &bad), "ibv_post_recv");
}

bool take(struct ibv_wc *wc)
{
    time_t end = time(NULL) + 10;

    while (time(NULL) < end)
        if (ibv_poll_cq(cq, 1, wc) == 1)
            return true;
    return false;
}

/* The next completion has to be a good one. */
void expect_success(void)
{
    struct ibv_wc wc;

    check(take(&wc) && wc.status == IBV_WC_SUCCESS, "a completion with success");
}

/* Those with success are passed over. */
void report(void)
{
    struct ibv_wc wc;

    while (take(&wc))
        if (wc.status != IBV_WC_SUCCESS) {
            printf("%lu %d %u\n", wc.wr_id, wc.status, wc.vendor_err);
            return;
        }
    puts("none");
}
