/* SPDX-License-Identifier: BSD-3-Clause */
/* A flow's objects. Control thread. */
#include "chaos.h"

#include <stdio.h>
#include <string.h>

#define ENTRIES 8

static uint32_t type_of(const struct flow *f)
{
    static const uint32_t type[FLOW_KINDS] = {[FLOW_RC] = QPT_RC,
                                              [FLOW_RC_SRQ] = QPT_RC,
                                              [FLOW_UC] = QPT_UC,
                                              [FLOW_UD] = QPT_UD,
                                              [FLOW_GROUP] = QPT_UD};

    return type[f->kind];
}

static void create_qp(struct flow *f, unsigned end)
{
    struct program *p = f->end[end];
    struct ctl_msg m = {.create_qp = {.pd = p->pd,
                                      .send_cq = p->cq.handle,
                                      .recv_cq = p->cq.handle,
                                      .type = type_of(f),
                                      .srq = end && f->kind == FLOW_RC_SRQ ? p->srq.handle : 0,
                                      .caps = {.max_send_wr = ENTRIES,
                                               .max_recv_wr = ENTRIES,
                                               .max_send_sge = 1,
                                               .max_recv_sge = 1}}};

    m = program_call(p, CTL_CREATE_QP, m);
    f->qp[end] = (struct test_qp){.d = f->app->dp, .session = p->session, .layout = m.create_qp};
    f->qp[end].shared = qp_object_get(p->session, m.create_qp.qpn)->segment.base;
}

static void modify(struct flow *f, unsigned end, uint32_t mask, struct qp_attr attr)
{
    struct ctl_msg m = {
        .modify_qp = {.qpn = f->qp[end].layout.qpn, .mask = mask | QPA_STATE, .attr = attr}};

    program_call(f->end[end], CTL_MODIFY_QP, m);
}

static struct ah_attr address(const char *text, uint8_t sgid_index)
{
    struct ah_attr ah = {.is_global = 1, .port_num = 1, .sgid_index = sgid_index};
    union gid gid;

    require(!gid_parse(&gid, text));
    memcpy(ah.dgid, gid.raw, sizeof(ah.dgid));
    return ah;
}

static struct ah_attr own_address(const struct flow *f)
{
    return f->number % 2 ? address("::1", 1) : address("127.0.0.1", 0);
}

/* A long timeout: the machine may be busy with other work for a second. */
static void connect_qp(struct flow *f, unsigned end)
{
    bool rc = type_of(f) == QPT_RC, ud = type_of(f) == QPT_UD;
    struct qp_attr attr = {.state = QPS_INIT,
                           .port_num = 1,
                           .qkey = QKEY,
                           .access_flags = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC};

    modify(f, end, QPA_PKEY_INDEX | QPA_PORT | (ud ? QPA_QKEY : QPA_ACCESS_FLAGS), attr);
    attr = (struct qp_attr){.state = QPS_RTR,
                            .path_mtu = f->path_mtu,
                            .dest_qpn = f->qp[!end].layout.qpn,
                            .rq_psn = 0xFFFFF0,
                            .max_dest_rd_atomic = 4,
                            .min_rnr_timer = f->number % 2 ? 1 : 14, /* 10 us, 2 ms */
                            .ah = own_address(f)};
    modify(f, end,
           ud ? 0
              : QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                    (rc ? QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER : 0),
           attr);
    attr = (struct qp_attr){.state = QPS_RTS,
                            .sq_psn = 0xFFFFF0,
                            .timeout = 16,
                            .retry_cnt = 7,
                            .rnr_retry = 7,
                            .max_rd_atomic = 4};
    modify(f, end,
           QPA_SQ_PSN | (rc ? QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC : 0),
           attr);
}

static void open_target(struct flow *f)
{
    struct program *p = f->end[1];
    struct ctl_msg m = {.reg_mr = {.pd = p->pd,
                                   .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
                                             MEM_REMOTE_ATOMIC | MEM_MW_BIND,
                                   .addr = va(p, f->memory[1]),
                                   .length = sizeof(*f->memory[1]),
                                   .iova = va(p, f->memory[1])}};

    m = program_call(p, CTL_REG_MR, m);
    f->target = (struct test_mr){.handle = m.reg_mr.handle, .key = m.reg_mr.rkey};
    if (f->number % 3)
        return;
    m = (struct ctl_msg){.alloc_mw = {.pd = p->pd, .type = 1 + f->number / 3 % 2}};
    m = program_call(p, CTL_ALLOC_MW, m);
    f->window = m.alloc_mw.handle;
    f->window_key = m.alloc_mw.rkey;
    atomic_fetch_add(&tally.windows, 1);
}

static void group_call(struct flow *f, enum ctl_type type)
{
    struct ctl_msg m = {.mcast = {.qpn = f->qp[1].layout.qpn}};

    memcpy(m.mcast.gid, f->group.raw, sizeof(m.mcast.gid));
    program_call(f->end[1], type, m);
}

static void open_way(struct flow *f)
{
    struct ctl_msg m = {.create_ah = {.pd = f->end[0]->pd, .attr = own_address(f)}};
    char text[46];

    if (f->kind == FLOW_GROUP) {
        snprintf(text, sizeof(text), f->number % 2 ? "ff05::%x:%x" : "239.1.%u.%u",
                 f->number >> 8 & 0xFF, f->number & 0xFF);
        m.create_ah.attr = address(text, f->number % 2);
        memcpy(f->group.raw, m.create_ah.attr.dgid, sizeof(f->group.raw));
        group_call(f, CTL_ATTACH_MCAST);
    }
    f->ah = program_call(f->end[0], CTL_CREATE_AH, m).create_ah;
}

void flow_open(struct flow *f)
{
    for (unsigned i = 0; i < 2; i++)
        create_qp(f, i);
    for (unsigned i = 0; i < 2; i++)
        connect_qp(f, i);
    if (type_of(f) == QPT_RC)
        open_target(f);
    if (type_of(f) == QPT_UD)
        open_way(f);
    if (f->end[0] != f->end[1])
        atomic_fetch_add(&tally.crossed, 1);
}

/* ---- the end ---- */

static bool lives(const struct flow *f, unsigned end)
{
    return f->end[end]->session;
}

static void destroy(struct flow *f, unsigned end, enum ctl_type type, uint32_t handle)
{
    require(!kit_destroy_handle(f->end[end]->session, type, handle));
}

void flow_close_target(struct flow *f)
{
    if (!lives(f, 1) || !f->target.handle)
        return;
    if (f->window)
        destroy(f, 1, CTL_DEALLOC_MW, f->window);
    destroy(f, 1, CTL_DEREG_MR, f->target.handle);
    f->window = f->target.handle = 0;
}

static void close_way(struct flow *f)
{
    if (f->kind == FLOW_GROUP && lives(f, 1))
        group_call(f, CTL_DETACH_MCAST);
    if (f->ah.handle && lives(f, 0))
        destroy(f, 0, CTL_DESTROY_AH, f->ah.handle);
}

void flow_close(struct flow *f)
{
    unsigned first = f->number % 2;

    close_way(f);
    if (f->number % 5 == 0)
        flow_close_target(f);
    for (unsigned i = 0; i < 2; i++)
        if (lives(f, i ^ first))
            destroy(f, i ^ first, CTL_DESTROY_QP, f->qp[i ^ first].layout.qpn);
    flow_close_target(f);
}

void flow_error(struct flow *f)
{
    for (unsigned i = 0; i < 2; i++)
        if (lives(f, i))
            modify(f, i, 0, (struct qp_attr){.state = QPS_ERR});
}
