/* SPDX-License-Identifier: BSD-3-Clause */
/* See quota_kit.h. */
#include "quota_kit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct event_loop *loop;
struct rnic *rnic;

int call(struct client *c, enum ctl_type type, struct ctl_msg *m)
{
    struct ctl_call k = {0};
    int status = kit_call(c->session, type, m, &k, false);

    *m = k.reply;
    return status;
}

/* made: where the reply has the handle. */
static int make(struct client *c, enum ctl_type type, struct ctl_msg *m, const uint32_t *made,
                uint32_t *handle)
{
    int status = call(c, type, m);

    *handle = *made;
    return status;
}

/* ---- an object of each kind ---- */

int create_pd(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {0};

    return make(c, CTL_ALLOC_PD, &m, &m.handle, handle);
}

int create_mr(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.reg_mr = {.pd = c->pd, .addr = KIT_BASE, .length = 100}};

    return make(c, CTL_REG_MR, &m, &m.reg_mr.handle, handle);
}

static int create_mw(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.alloc_mw = {.pd = c->pd, .type = 2}};

    return make(c, CTL_ALLOC_MW, &m, &m.alloc_mw.handle, handle);
}

static int create_channel(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {0};

    return make(c, CTL_CREATE_CHANNEL, &m, &m.handle, handle);
}

static int create_dm(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.alloc_dm = {.length = 64}};

    return make(c, CTL_ALLOC_DM, &m, &m.alloc_dm.handle, handle);
}

static int create_counter(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.create_counter = {.type = CTL_COUNTER_BYTES}};

    return make(c, CTL_CREATE_COUNTER, &m, &m.create_counter.handle, handle);
}

static int create_cq(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.create_cq = {.cqe = 16}};

    return make(c, CTL_CREATE_CQ, &m, &m.create_cq.handle, handle);
}

static int create_srq(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {
        .create_srq = {.pd = c->pd, .type = CTL_SRQ_BASIC, .max_wr = 16, .max_sge = 1}};

    return make(c, CTL_CREATE_SRQ, &m, &m.create_srq.handle, handle);
}

static int create_xrcd(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.open_xrcd = {.oflags = O_CREAT}};

    return make(c, CTL_OPEN_XRCD, &m, &m.open_xrcd.handle, handle);
}

int create_qp_type(struct client *c, uint32_t type, uint32_t *qpn)
{
    struct ctl_msg m = {.create_qp = {.pd = c->pd,
                                      .send_cq = c->cq,
                                      .recv_cq = c->cq,
                                      .type = type,
                                      .caps = {.max_send_wr = 16, .max_recv_wr = 16}}};

    return make(c, CTL_CREATE_QP, &m, &m.create_qp.qpn, qpn);
}

static int create_qp(struct client *c, uint32_t *qpn)
{
    return create_qp_type(c, QPT_RC, qpn);
}

static int create_ah(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.create_ah = {.pd = c->pd, .attr = {.is_global = 1, .port_num = 1}}};
    union gid gid;
    int status;

    gid_parse(&gid, "10.0.0.2");
    memcpy(m.create_ah.attr.dgid, gid.raw, sizeof(gid.raw));
    status = call(c, CTL_CREATE_AH, &m);
    *handle = m.create_ah.handle;
    return status;
}

static int create_wq(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {
        .create_wq = {.pd = c->pd, .cq = c->cq, .type = CTL_WQ_RQ, .max_wr = 16, .max_sge = 1}};

    return make(c, CTL_CREATE_WQ, &m, &m.create_wq.handle, handle);
}

static int create_table(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {.rwq_ind = {.size = 1, .wq = {(uint16_t)c->wq}}};

    return make(c, CTL_CREATE_RWQ_IND, &m, &m.rwq_ind.handle, handle);
}

static int create_flow(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {
        .create_flow = {.qpn = c->raw_qpn, .port = 1, .match.headers = FLOW_HAS_UDP}};

    return make(c, CTL_CREATE_FLOW, &m, &m.create_flow.handle, handle);
}

/* ff15::n, one group after the other; the handle is n. */
struct ctl_msg group_request(const struct client *c, uint32_t n)
{
    struct ctl_msg m = {.mcast = {.qpn = c->qpn}};

    m.mcast.gid[0] = 0xFF;
    m.mcast.gid[1] = 0x15;
    memcpy(&m.mcast.gid[12], &n, sizeof(n));
    return m;
}

static int attach(struct client *c, uint32_t *handle)
{
    static uint32_t last;
    struct ctl_msg m = group_request(c, ++last);

    *handle = last;
    return call(c, CTL_ATTACH_MCAST, &m);
}

int detach(struct client *c, uint32_t handle)
{
    struct ctl_msg m = group_request(c, handle);

    return call(c, CTL_DETACH_MCAST, &m);
}

const struct maker makers[QUOTA_MAKERS] = {
    {"pd", QUOTA_PD, create_pd, CTL_DEALLOC_PD, false},
    {"mr", QUOTA_MR, create_mr, CTL_DEREG_MR, false},
    {"mw", QUOTA_MW, create_mw, CTL_DEALLOC_MW, false},
    {"dm", QUOTA_DM, create_dm, CTL_FREE_DM, false},
    {"counter", QUOTA_COUNTER, create_counter, CTL_DESTROY_COUNTER, false},
    {"channel", QUOTA_CHANNEL, create_channel, CTL_DESTROY_CHANNEL, false},
    {"cq", QUOTA_CQ, create_cq, CTL_DESTROY_CQ, false},
    {"srq", QUOTA_SRQ, create_srq, CTL_DESTROY_SRQ, false},
    {"xrcd", QUOTA_XRCD, create_xrcd, CTL_CLOSE_XRCD, false},
    {"qp", QUOTA_QP, create_qp, CTL_DESTROY_QP, false},
    {"ah", QUOTA_AH, create_ah, CTL_DESTROY_AH, false},
    {"wq", QUOTA_WQ, create_wq, CTL_DESTROY_WQ, true},
    {"rwq table", QUOTA_RWQ_IND, create_table, CTL_DESTROY_RWQ_IND, true},
    {"flow", QUOTA_FLOW, create_flow, CTL_DESTROY_FLOW, true},
    {"group", QUOTA_GROUP, attach, 0, false},
    {"join", QUOTA_JOIN, attach, 0, false},
};

int destroy(struct client *c, const struct maker *maker, uint32_t handle)
{
    return maker->destroy ? kit_call_handle(c->session, maker->destroy, handle) : detach(c, handle);
}

/* ---- clients ---- */

struct session *connect_as(uid_t uid)
{
    return session_create(rnic, &(struct ucred){.pid = getpid(), .uid = uid});
}

int open_device(struct session *sn)
{
    struct ctl_call k = {0};

    return kit_call(sn, CTL_OPEN, &(struct ctl_msg){0}, &k, false);
}

void client_open(struct client *c, uid_t uid)
{
    *c = (struct client){.session = connect_as(uid), .raw = uid == geteuid()};
    assert_non_null(c->session);
    assert_int_equal(open_device(c->session), 0);
    assert_int_equal(create_pd(c, &c->pd), 0);
    assert_int_equal(create_cq(c, &c->cq), 0);
    assert_int_equal(create_qp_type(c, QPT_UD, &c->qpn), 0);
    if (!c->raw)
        return;
    assert_int_equal(create_qp_type(c, QPT_RAW_PACKET, &c->raw_qpn), 0);
    assert_int_equal(create_wq(c, &c->wq), 0);
}

uid_t alice(void)
{
    return geteuid() + 4242;
}

void set_limits(const struct quota_limits *limits)
{
    assert_true(LIST_EMPTY(&rnic->quota.users));
    quota_init(&rnic->quota, limits, geteuid());
}

void assert_all_returned(void)
{
    assert_true(LIST_EMPTY(&rnic->quota.users));
    for (unsigned i = 0; i < QUOTA_COUNTS; i++)
        assert_int_equal(rnic->quota.used[i], 0);
}

int quota_setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    return 0;
}

int quota_teardown(void **state)
{
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

struct quota_cost used_by(const struct client *c)
{
    struct quota_cost used;

    memcpy(used.n, c->session->account.used, sizeof(used.n));
    return used;
}

json_t *shown_to(uid_t uid)
{
    char *text = rnic_show(rnic, uid);
    json_t *value = json_loads(text, 0, NULL);

    assert_non_null(value);
    free(text);
    return value;
}
