/* SPDX-License-Identifier: BSD-3-Clause */
#include "program_kit.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define POLLED 64

void *must(void *object, const char *what)
{
    if (!object) {
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
        exit(1);
    }
    return object;
}

void check(int status, const char *what)
{
    if (status) {
        errno = status > 0 ? status : errno;
        must(NULL, what);
    }
}

void say_ready(void)
{
    puts("ready");
    fflush(stdout);
}

void become(uid_t uid)
{
    if (uid)
        check(setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ||
                  prctl(PR_SET_DUMPABLE, 1),
              "user");
    check(prctl(PR_SET_PDEATHSIG, SIGKILL), "parent");
}

void open_program(struct opened *a, size_t bytes)
{
    struct ibv_device **list = must(ibv_get_device_list(NULL), "devices");

    a->device = must(list[0], "device");
    a->ctx = must(ibv_open_device(a->device), "open");
    a->pd = must(ibv_alloc_pd(a->ctx), "protection domain");
    a->bytes = bytes;
    a->memory = must(aligned_alloc(4096, bytes), "memory");
    memset(a->memory, 1, bytes);
    a->mr =
        must(ibv_reg_mr(a->pd, a->memory, bytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
             "region");
}

struct ibv_cq *make_cq(struct opened *a, int entries, struct ibv_comp_channel *channel)
{
    return must(ibv_create_cq(a->ctx, entries, NULL, channel, 0), "completion queue");
}

struct ibv_qp *make_qp(struct opened *a, struct ibv_cq *cq, unsigned send_wr, unsigned recv_wr)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {
            .max_send_wr = send_wr, .max_recv_wr = recv_wr, .max_send_sge = 1, .max_recv_sge = 1}};

    return must(ibv_create_qp(a->pd, &attr), "queue pair");
}

void modify_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "state");
}

void connect_to(struct ibv_qp *qp, uint32_t qpn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_4096,
                                .dest_qp_num = qpn,
                                .max_dest_rd_atomic = 16,
                                .min_rnr_timer = 1,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    check(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), "GID");
    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .max_rd_atomic = 16};
    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
          "RTS");
}

void connect_to_itself(struct ibv_qp *qp)
{
    connect_to(qp, qp->qp_num);
}

struct ibv_qp *make_connected(struct opened *a, struct ibv_cq *cq, unsigned send_wr,
                              unsigned recv_wr)
{
    struct ibv_qp *qp = make_qp(a, cq, send_wr, recv_wr);

    connect_to_itself(qp);
    return qp;
}

void post(struct opened *a, struct ibv_qp *qp, enum ibv_wr_opcode op, size_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)a->memory, .length = (uint32_t)length, .lkey = a->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = (uintptr_t)qp,
        .opcode = op,
        .sg_list = &sge,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)a->memory + a->bytes / 2, .rkey = a->mr->rkey}};
    struct ibv_send_wr *bad;

    check(ibv_post_send(qp, &wr, &bad), "post");
}

void post_receives(struct opened *a, struct ibv_qp *qp, unsigned n)
{
    struct ibv_sge sge = {.addr = (uintptr_t)a->memory, .length = 64, .lkey = a->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uintptr_t)qp, .sg_list = &sge, .num_sge = 1}, *bad;

    for (unsigned i = 0; i < n; i++)
        check(ibv_post_recv(qp, &wr, &bad), "receive");
}

void drain(struct ibv_cq *cq, unsigned n)
{
    struct ibv_wc wc[POLLED];

    for (unsigned got = 0; got < n;) {
        int found = ibv_poll_cq(cq, POLLED, wc);

        check(found < 0, "poll");
        got += (unsigned)found;
    }
}
