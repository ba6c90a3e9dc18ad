/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas of sessions: each kind of object is charged and given back, a refusal leaves nothing
 * behind, and what is charged covers the memory that an object takes. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"
#include "qp_memory.h"
#include "resp_commit.h"

#define ROOM 6

static struct event_loop *loop;
static struct rnic *rnic;

/* A client, and one object of each kind that others need. */
struct client {
    struct session *session;
    uint32_t pd, cq, qpn, raw_qpn, wq;
    bool raw;
};

static int call(struct client *c, enum ctl_type type, struct ctl_msg *m)
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

static int create_pd(struct client *c, uint32_t *handle)
{
    struct ctl_msg m = {0};

    return make(c, CTL_ALLOC_PD, &m, &m.handle, handle);
}

static int create_mr(struct client *c, uint32_t *handle)
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

static int create_qp_type(struct client *c, uint32_t type, uint32_t *qpn)
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
static struct ctl_msg group_request(const struct client *c, uint32_t n)
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

static int detach(struct client *c, uint32_t handle)
{
    struct ctl_msg m = group_request(c, handle);

    return call(c, CTL_DETACH_MCAST, &m);
}

static const struct maker {
    const char *name;
    enum quota_kind kind;
    int (*create)(struct client *c, uint32_t *handle);
    enum ctl_type destroy;
    bool raw; /* is for owners only */
} makers[] = {
    {"pd", QUOTA_PD, create_pd, CTL_DEALLOC_PD, false},
    {"mr", QUOTA_MR, create_mr, CTL_DEREG_MR, false},
    {"mw", QUOTA_MW, create_mw, CTL_DEALLOC_MW, false},
    {"dm", QUOTA_DM, create_dm, CTL_FREE_DM, false},
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

static int destroy(struct client *c, const struct maker *maker, uint32_t handle)
{
    return maker->destroy ? kit_call_handle(c->session, maker->destroy, handle) : detach(c, handle);
}

/* ---- clients ---- */

static struct session *connect_as(uid_t uid)
{
    return session_create(rnic, &(struct ucred){.pid = getpid(), .uid = uid});
}

static int open_device(struct session *sn)
{
    struct ctl_call k = {0};

    return kit_call(sn, CTL_OPEN, &(struct ctl_msg){0}, &k, false);
}

static void client_open(struct client *c, uid_t uid)
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

static uid_t alice(void)
{
    return geteuid() + 4242;
}

static void set_limits(const struct quota_limits *limits)
{
    assert_true(LIST_EMPTY(&rnic->quota.users));
    quota_init(&rnic->quota, limits, geteuid());
}

static void assert_all_returned(void)
{
    assert_true(LIST_EMPTY(&rnic->quota.users));
    for (unsigned i = 0; i < QUOTA_COUNTS; i++)
        assert_int_equal(rnic->quota.used[i], 0);
}

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    return 0;
}

static int teardown(void **state)
{
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* ---- each kind ---- */

/* What a client has: all counts of its account. */
static struct quota_cost used_by(const struct client *c)
{
    struct quota_cost used;

    memcpy(used.n, c->session->account.used, sizeof(used.n));
    return used;
}

/* ROOM more than the client has already; then one is refused, which changes nothing; and when one
 * has gone there is room for one. */
static void check_kind(const struct maker *maker)
{
    struct quota_limits limits = {0};
    struct quota_cost before, full, now;
    uint32_t handle[ROOM], none;
    struct client c;
    uint64_t had;

    print_message("# %s\n", maker->name);
    set_limits(&limits);
    client_open(&c, geteuid());
    had = c.session->account.used[maker->kind];
    session_close(c.session);
    limits.client[maker->kind] = had + ROOM;
    set_limits(&limits);
    client_open(&c, geteuid());
    before = used_by(&c);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(maker->create(&c, &handle[i]), 0);
    full = used_by(&c);
    assert_int_equal(full.n[maker->kind], before.n[maker->kind] + ROOM);
    assert_true(full.n[QUOTA_MEMORY] > before.n[QUOTA_MEMORY]);
    assert_int_equal(maker->create(&c, &none), -ENOMEM);
    now = used_by(&c);
    assert_memory_equal(&now, &full, sizeof(now));
    assert_int_equal(c.session->account.refused[maker->kind], 1);
    assert_int_equal(destroy(&c, maker, handle[0]), 0);
    assert_int_equal(maker->create(&c, &handle[0]), 0);
    assert_int_equal(maker->create(&c, &none), -ENOMEM);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(destroy(&c, maker, handle[i]), 0);
    now = used_by(&c);
    now.n[QUOTA_MEMORY] = before.n[QUOTA_MEMORY]; /* the last slab of a size is kept */
    now.n[QUOTA_MAPPING] = before.n[QUOTA_MAPPING];
    now.n[QUOTA_DESCRIPTOR] = before.n[QUOTA_DESCRIPTOR];
    assert_memory_equal(&now, &before, sizeof(now));
    assert_int_equal(maker->create(&c, &none), 0);
    session_close(c.session);
    assert_all_returned();
}

static void test_each_kind(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(makers); i++)
        check_kind(&makers[i]);
}

/* Two connections of a user share its quota; another user, and the daemon's own, have theirs. */
static void check_user(const struct maker *maker)
{
    struct quota_limits limits = {0};
    struct client a, b, other, own;
    uint32_t handle;

    limits.user[maker->kind] = 2 * ROOM;
    set_limits(&limits);
    client_open(&a, alice());
    client_open(&b, alice());
    client_open(&other, alice() + 1);
    client_open(&own, geteuid());
    while (!maker->create(&a, &handle)) {
    }
    assert_int_equal(a.session->account.user->used[maker->kind], 2 * ROOM);
    assert_int_equal(maker->create(&b, &handle), -ENOMEM);
    assert_int_equal(b.session->account.user->refused[maker->kind], 2);
    assert_int_equal(maker->create(&other, &handle), 0);
    for (unsigned i = 0; i < 3 * ROOM; i++)
        assert_int_equal(maker->create(&own, &handle), 0);
    session_close(a.session);
    assert_int_equal(maker->create(&b, &handle), 0);
    session_close(b.session);
    session_close(other.session);
    session_close(own.session);
    assert_all_returned();
}

static void test_each_user(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(makers); i++) {
        if (!makers[i].raw)
            check_user(&makers[i]);
    }
}

/* Many queue pairs in one group take one of the group's table. */
static void test_group_is_counted_once(void **state)
{
    struct ctl_msg m;
    struct client c;
    uint32_t qpn[3];

    set_limits(&(struct quota_limits){.client[QUOTA_GROUP] = 1});
    client_open(&c, alice());
    for (unsigned i = 0; i < ARRAY_SIZE(qpn); i++) {
        assert_int_equal(create_qp_type(&c, QPT_UD, &qpn[i]), 0);
        c.qpn = qpn[i];
        m = group_request(&c, 1);
        assert_int_equal(call(&c, CTL_ATTACH_MCAST, &m), 0);
    }
    assert_int_equal(c.session->account.used[QUOTA_GROUP], 1);
    assert_int_equal(c.session->account.used[QUOTA_JOIN], 3);
    m = group_request(&c, 2);
    assert_int_equal(call(&c, CTL_ATTACH_MCAST, &m), -ENOMEM);
    for (unsigned i = 0; i < 2; i++) {
        c.qpn = qpn[i];
        assert_int_equal(detach(&c, 1), 0);
    }
    assert_int_equal(c.session->account.used[QUOTA_GROUP], 1);
    c.qpn = qpn[2];
    assert_int_equal(detach(&c, 1), 0);
    m = group_request(&c, 2);
    assert_int_equal(call(&c, CTL_ATTACH_MCAST, &m), 0);
    session_close(c.session);
    assert_all_returned();
}

/* A program learns what it can have, also before it opens a device. */
static void test_queries(void **state)
{
    static const struct quota_limits limits = {
        .user = {[QUOTA_CQ] = 11,
                 [QUOTA_MR] = 12,
                 [QUOTA_MW] = 15,
                 [QUOTA_GROUP] = 13,
                 [QUOTA_JOIN] = 16},
        .client[QUOTA_AH] = 14};
    struct client c = {0};
    struct ctl_msg m;

    set_limits(&limits);
    for (unsigned open = 0; open < 2; open++) {
        c.session = connect_as(alice());
        if (open)
            assert_int_equal(open_device(c.session), 0);
        m = (struct ctl_msg){0};
        assert_int_equal(call(&c, CTL_QUERY_DEVICE, &m), 0);
        assert_int_equal(m.device.max_qp, LIMIT_QP / 4);
        assert_int_equal(m.device.max_cq, 11);
        assert_int_equal(m.device.max_mr, 12);
        assert_int_equal(m.device.max_mw, 15);
        assert_int_equal(m.device.max_pd, LIMIT_PD / 4);
        assert_int_equal(m.device.max_ah, 14);
        assert_int_equal(m.device.max_srq, LIMIT_SRQ / 4);
        assert_int_equal(m.device.max_xrcd, LIMIT_XRCD / 4);
        assert_int_equal(m.device.max_mcast_grp, 13);
        assert_int_equal(m.device.max_mcast_join, 16);
        session_close(c.session);
    }
    client_open(&c, geteuid());
    m = (struct ctl_msg){0};
    assert_int_equal(call(&c, CTL_QUERY_DEVICE, &m), 0);
    assert_int_equal(m.device.max_qp, LIMIT_QP);
    assert_int_equal(m.device.max_cq, LIMIT_CQ);
    assert_int_equal(m.device.max_mr + m.device.max_mw, LIMIT_KEY);
    assert_int_equal(m.device.max_ah, 14);
    assert_int_equal(m.device.max_wq, LIMIT_SESSION_WQ);
    assert_int_equal(m.device.max_rwq_ind, LIMIT_SESSION_RWQ_IND);
    assert_int_equal(m.device.max_mcast_grp, LIMIT_GROUP);
    session_close(c.session);
}

static json_t *shown_to(uid_t uid)
{
    char *text = rnic_show(rnic, uid);
    json_t *value = json_loads(text, 0, NULL);

    assert_non_null(value);
    free(text);
    return value;
}

/* ---- connections ---- */

static void test_connections(void **state)
{
    struct session *sn[ROOM], *own;

    set_limits(&(struct quota_limits){.user[QUOTA_CONNECTION] = ROOM});
    for (unsigned i = 0; i < ROOM; i++) {
        sn[i] = connect_as(alice());
        assert_non_null(sn[i]);
    }
    assert_null(connect_as(alice()));
    assert_int_equal(sn[0]->account.user->refused[quota_count(0, QUOTA_CONNECTION)], 1);
    assert_int_equal(rnic->session_count, ROOM);
    own = connect_as(geteuid());
    assert_non_null(own);
    session_close(sn[0]);
    sn[0] = connect_as(alice());
    assert_non_null(sn[0]);
    for (unsigned i = 0; i < ROOM; i++)
        session_close(sn[i]);
    session_close(own);
    assert_all_returned();
}

/* Of descriptors a user gets a part, and owners find the rest. */
static void test_descriptors(void **state)
{
    struct session *sn[64], *own;
    unsigned n = 0;

    set_limits(&(struct quota_limits){.total[QUOTA_DESCRIPTOR] = 392});
    while ((sn[n] = connect_as(alice())))
        n++;
    assert_int_equal(n, 392 / 8 / 4);
    own = connect_as(0);
    assert_non_null(own);
    assert_int_equal(open_device(sn[0]), -ENOMEM);
    session_close(sn[--n]);
    assert_int_equal(open_device(sn[0]), 0);
    assert_int_equal(open_device(sn[1]), -ENOMEM);
    assert_int_equal(open_device(own), 0);
    session_close(own);
    while (n)
        session_close(sn[--n]);
    assert_all_returned();
}

/* Owners that have taken all memory can still look at it. */
static void test_owners_can_look(void **state)
{
    uint64_t total = 4 << 20;
    struct session *look;
    struct client c;
    json_t *shown;
    uint32_t handle;

    set_limits(&(struct quota_limits){.total[QUOTA_MEMORY] = total});
    client_open(&c, geteuid());
    while (!create_pd(&c, &handle)) {
    }
    assert_true(total - rnic->quota.used[quota_count(0, QUOTA_MEMORY)] < 1024);
    look = connect_as(geteuid());
    assert_non_null(look);
    assert_int_equal(open_device(look), -ENOMEM);
    shown = shown_to(geteuid());
    json_decref(shown);
    session_close(look);
    assert_null(connect_as(alice()));
    session_close(c.session);
    assert_all_returned();
}

/* A daemon of root may continue as another user, who is the owner then. */
static void test_owner_follows_the_user(void **state)
{
    struct session *own;
    uid_t uid = alice();

    if (geteuid())
        skip();
    set_limits(&(struct quota_limits){.user[QUOTA_MAPPING] = 1});
    assert_int_equal(seteuid(uid), 0);
    own = connect_as(uid);
    assert_non_null(own);
    assert_true(own->account.user->owner);
    session_close(own);
    assert_int_equal(seteuid(0), 0);
    own = connect_as(uid);
    assert_false(own->account.user->owner);
    session_close(own);
}

/* A refused open leaves the connection as it was: it may open later. */
static void test_open_refused(void **state)
{
    struct session *a, *b, *c;

    set_limits(&(struct quota_limits){.user[QUOTA_MAPPING] = 2});
    a = connect_as(alice());
    b = connect_as(alice());
    c = connect_as(alice());
    assert_int_equal(open_device(a), 0);
    assert_int_equal(open_device(b), 0);
    assert_int_equal(open_device(c), -ENOMEM);
    assert_null(c->device);
    session_close(a);
    assert_int_equal(open_device(c), 0);
    session_close(b);
    session_close(c);
    assert_all_returned();
}

/* ---- mapped regions ---- */

static int register_mapped(struct client *c, int fd, uint64_t len, bool *mapped)
{
    struct ctl_msg m = {
        .reg_mr = {.pd = c->pd, .flags = CTL_MR_FD, .addr = KIT_BASE, .length = len}};
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1};
    int status = kit_call(c->session, CTL_REG_MR, &m, &k, false);

    *mapped = k.reply.reg_mr.mapped;
    return status ? status : (int)k.reply.reg_mr.handle;
}

/* The region that would be too much is copied; when another has gone, the next is mapped. */
static void check_mapped(const struct quota_limits *limits, unsigned expected)
{
    struct client c;
    int fd = memfd_create("test", MFD_CLOEXEC), handle[8];
    bool mapped;

    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    set_limits(limits);
    client_open(&c, alice());
    for (unsigned i = 0; i < ARRAY_SIZE(handle); i++) {
        handle[i] = register_mapped(&c, fd, 3 * 4096 + 1, &mapped);
        assert_true(handle[i] > 0);
        assert_int_equal(mapped, i < expected);
    }
    assert_int_equal(c.session->account.used[QUOTA_MAPPED], expected * 4 * 4096);
    assert_int_equal(kit_call_handle(c.session, CTL_DEREG_MR, (uint32_t)handle[7]), 0);
    register_mapped(&c, fd, 3 * 4096 + 1, &mapped);
    assert_false(mapped);
    assert_int_equal(kit_call_handle(c.session, CTL_DEREG_MR, (uint32_t)handle[0]), 0);
    register_mapped(&c, fd, 3 * 4096 + 1, &mapped);
    assert_true(mapped);
    close(fd);
    session_close(c.session);
    assert_all_returned();
}

static void test_mapped_regions(void **state)
{
    struct client c;
    uint64_t had;

    check_mapped(&(struct quota_limits){.user[QUOTA_MAPPED] = 5 * 4 * 4096 + 4095}, 5);
    check_mapped(&(struct quota_limits){.client[QUOTA_MAPPED] = 3 * 4 * 4096}, 3);
    set_limits(&(struct quota_limits){0});
    client_open(&c, alice());
    had = c.session->account.used[QUOTA_MAPPING];
    session_close(c.session);
    check_mapped(&(struct quota_limits){.client[QUOTA_MAPPING] = had + 4}, 4);
}

/* Regions that the daemon stops to map, and maps again. */
static void test_remapped_regions(void **state)
{
    struct ctl_msg m = {.freeze.flags = CTL_FREEZE_UNMAP};
    int fd = memfd_create("test", MFD_CLOEXEC), handle;
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1};
    struct client c;
    bool mapped;

    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    set_limits(&(struct quota_limits){.client[QUOTA_MAPPED] = 8192});
    client_open(&c, alice());
    handle = register_mapped(&c, fd, 8192, &mapped);
    assert_true(mapped);
    mr_set_why(container_of(object_get(c.session, OBJ_MR, (uint32_t)handle), struct mr, o),
               CTL_MR_ADOPTED);
    assert_int_equal(call(&c, CTL_FREEZE_MRS, &m), 0);
    assert_int_equal(c.session->account.used[QUOTA_MAPPED], 0);
    m = (struct ctl_msg){.remap = {.handle = (uint32_t)handle, .pieces = 1, .piece = {{0, 8192}}}};
    assert_int_equal(kit_call(c.session, CTL_REMAP_MR, &m, &k, false), 0);
    assert_true(k.reply.remap.mapped);
    assert_int_equal(c.session->account.used[QUOTA_MAPPED], 8192);
    close(fd);
    session_close(c.session);
    assert_all_returned();
}

/* ---- memory ---- */

/* The C library's allocator, without what is shared with the client. */
static uint64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* The tables grow by doubling, so that many objects are looked at. */
static void test_heap_is_charged(void **state)
{
    enum { OBJECTS = 200 };
    struct client c;
    uint32_t handle;

    for (unsigned i = 0; i < ARRAY_SIZE(makers); i++) {
        uint64_t heap, charged;

        set_limits(&(struct quota_limits){.total[QUOTA_PD] = 60000});
        client_open(&c, geteuid());
        heap = heap_bytes();
        charged = c.session->account.used[QUOTA_MEMORY];
        for (unsigned k = 0; k < OBJECTS; k++)
            assert_int_equal(makers[i].create(&c, &handle), 0);
        heap = heap_bytes() - heap;
        charged = c.session->account.used[QUOTA_MEMORY] - charged;
        print_message("# %s: %u bytes of heap, %u charged\n", makers[i].name,
                      (unsigned)(heap / OBJECTS), (unsigned)(charged / OBJECTS));
        assert_true(heap <= charged);
        session_close(c.session);
    }
}

/* A queue pair with all the work in flight that it can have. */
static void test_busy_queue_pair_is_charged(void **state)
{
    static const uint32_t depth[] = {1, 2, 16, 128, 1000};
    struct client c;

    set_limits(&(struct quota_limits){.total[QUOTA_PD] = 60000});
    client_open(&c, geteuid());
    for (unsigned i = 0; i < ARRAY_SIZE(depth); i++) {
        struct ctl_msg m = {.create_qp = {.pd = c.pd,
                                          .send_cq = c.cq,
                                          .recv_cq = c.cq,
                                          .type = QPT_RC,
                                          .caps = {.max_send_wr = depth[i],
                                                   .max_recv_wr = 1,
                                                   .max_send_sge = LIMIT_SGE,
                                                   .max_recv_sge = LIMIT_SGE}}};
        uint64_t before = heap_bytes(), charged;
        struct resp_resource *res;
        struct qp_object *q;
        struct qp *qp;

        assert_int_equal(call(&c, CTL_CREATE_QP, &m), 0);
        q = qp_object_get(c.session, m.create_qp.qpn);
        qp = q->dp.qp;
        ((struct qp_shared *)q->segment.base)->sq_prod = m.create_qp.sq_size;
        while (req_grow_slots(qp)) {
        }
        assert_int_equal(qp->req.slot_count, min_of(m.create_qp.sq_size, SEND_SLOTS_MAX));
        assert_int_equal(resp_resources_alloc(&res, RD_ATOM_INCLUDED), 0);
        resp_resources_set(&qp->resp, res, RD_ATOM_INCLUDED);
        charged = q->memory + 512 + CACHE_LINE; /* what the alignment may leave unused */
        assert_true(heap_bytes() - before <= charged);
        assert_true(charged < (heap_bytes() - before) * 3 / 2 + 4096 || !heap_bytes());
    }
    session_close(c.session);
}

static uint64_t resident_bytes(void)
{
    unsigned long size, resident;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
    fclose(f);
    return resident * 4096;
}

/* One user creates the largest queues, and uses all of them, until the daemon refuses: the process
 * has grown by no more than the user's quota. */
static void test_memory_is_bounded(void **state)
{
    const uint64_t quota = 24 << 20;
    struct ctl_msg m;
    struct client c;
    uint64_t before;
    unsigned n = 0;

    set_limits(&(struct quota_limits){.user[QUOTA_MEMORY] = quota});
    client_open(&c, alice());
    before = resident_bytes();
    for (;;) {
        struct ctl_msg rq = {.create_cq.cqe = n % 2 ? 65536 : 4096};
        void *segment;

        m = rq;
        if (call(&c, CTL_CREATE_CQ, &m))
            break;
        segment = session_cq_segment(c.session, m.create_cq.handle);
        memset(segment, 1, m.create_cq.segment_bytes);
        n++;
    }
    assert_true(n >= 2);
    assert_true(resident_bytes() - before < quota + (2 << 20));
    session_close(c.session);
    assert_all_returned();
}

/* ---- what is shown ---- */

/* The row of "quotas" for a kind of a user, or of all. */
static json_t *quota_row(const json_t *shown, const char *uid, const char *kind)
{
    json_t *row, *found = NULL;
    char text[32];
    size_t i;

    json_array_foreach(json_object_get(shown, "quotas"), i, row)
    {
        json_t *of = json_object_get(row, "uid");

        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(of));
        if (!strcmp(json_is_string(of) ? json_string_value(of) : text, uid) &&
            !strcmp(json_string_value(json_object_get(row, "kind")), kind)) {
            assert_null(found);
            found = row;
        }
    }
    return found;
}

static json_int_t number(const json_t *row, const char *name)
{
    assert_non_null(row);
    return json_integer_value(json_object_get(row, name));
}

static void test_show(void **state)
{
    struct client a, b, own;
    char uid[32], other[32];
    json_t *shown, *row;
    uint32_t handle;

    set_limits(&(struct quota_limits){.user[QUOTA_PD] = 3, .user[QUOTA_MEMORY] = 64 << 20});
    client_open(&a, alice());
    client_open(&b, alice());
    client_open(&own, geteuid());
    assert_int_equal(create_pd(&a, &handle), 0);
    assert_int_equal(create_pd(&a, &handle), -ENOMEM);
    snprintf(uid, sizeof(uid), "%u", (unsigned)alice());
    snprintf(other, sizeof(other), "%u", (unsigned)geteuid());
    shown = shown_to(alice());
    row = quota_row(shown, uid, "pds");
    assert_int_equal(number(row, "used"), 3);
    assert_int_equal(number(row, "limit"), 3);
    assert_int_equal(number(row, "refused"), 1);
    assert_string_equal(json_string_value(json_object_get(row, "device")), "uroce0");
    assert_int_equal(number(quota_row(shown, uid, "connections"), "used"), 2);
    assert_int_equal(number(quota_row(shown, uid, "memory"), "limit"), 64 << 20);
    assert_null(json_object_get(quota_row(shown, uid, "mappings"), "limit"));
    assert_null(quota_row(shown, uid, "flows"));
    assert_null(quota_row(shown, "all", "pds"));
    assert_null(quota_row(shown, other, "pds"));
    row = json_array_get(json_object_get(shown, "clients"), 0);
    assert_int_equal(number(row, "refused"), 1);
    assert_int_equal(number(row, "memory"), a.session->account.used[QUOTA_MEMORY]);
    assert_int_equal(number(row, "descriptors"), 7);
    assert_int_equal(number(row, "mappings"), a.session->account.used[QUOTA_MAPPING]);
    json_decref(shown);
    shown = shown_to(geteuid());
    row = quota_row(shown, "all", "pds");
    assert_int_equal(number(row, "used"), 4);
    assert_int_equal(number(row, "limit"), LIMIT_PD);
    assert_int_equal(number(row, "refused"), 1);
    assert_non_null(quota_row(shown, uid, "pds"));
    assert_int_equal(number(quota_row(shown, other, "pds"), "limit"), LIMIT_PD);
    json_decref(shown);
    session_close(a.session);
    session_close(b.session);
    session_close(own.session);
}

/* The file of an answer, from a client that keeps it. */
static int keep_answer(struct session *sn)
{
    struct ctl_call k = {0};

    assert_int_equal(kit_call(sn, CTL_SHOW, &(struct ctl_msg){0}, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    return k.out_fd[0];
}

static uint64_t bytes_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* A client that keeps all answers keeps the memory of one. */
static void test_answers_are_charged(void **state)
{
    struct quota_limits limits = {0};
    struct ctl_call k = {0};
    struct session *sn;
    uint64_t had;
    int fd[2];

    set_limits(&limits);
    sn = connect_as(alice());
    had = sn->account.used[QUOTA_MEMORY];
    for (unsigned i = 0; i < 3; i++) {
        fd[0] = keep_answer(sn);
        assert_true(bytes_of(fd[0]) > 0);
        assert_int_equal(sn->account.used[QUOTA_MEMORY], had + bytes_of(fd[0]));
        fd[1] = keep_answer(sn);
        assert_int_equal(bytes_of(fd[0]), 0);
        assert_int_equal(sn->account.used[QUOTA_MEMORY], had + bytes_of(fd[1]));
        close(fd[0]);
        close(fd[1]);
    }
    fd[0] = keep_answer(sn);
    session_close(sn);
    assert_int_equal(bytes_of(fd[0]), 0);
    close(fd[0]);
    assert_all_returned();
    limits.client[QUOTA_MEMORY] = had;
    set_limits(&limits);
    sn = connect_as(alice());
    assert_int_equal(kit_call(sn, CTL_SHOW, &(struct ctl_msg){0}, &k, true), -ENOMEM);
    assert_int_equal(k.out_fds, 0);
    session_close(sn);
    sn = connect_as(geteuid());
    close(keep_answer(sn)); /* owners can look */
    session_close(sn);
    assert_all_returned();
}

/* The file of an answer that is being written, or -1. */
static int unfinished_answer(void)
{
    char path[32], target[64];

    for (int fd = 0; fd < 256; fd++) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        target[max_of(n, (ssize_t)0)] = 0;
        if (strstr(target, "uroce-show"))
            return fd;
    }
    return -1;
}

static void note_retry(void *ctx)
{
    *(bool *)ctx = true;
}

/* Its file is charged before it grows, and ends where the quota does. */
static void test_unfinished_answers_are_charged(void **state)
{
    struct quota_limits limits = {.client[QUOTA_MEMORY] = 16 << 20};
    struct ctl_msg m = {0};
    struct ctl_call k = {0};
    uint64_t had, most = 0;
    bool retry = false;
    struct session *sn;
    struct client own;
    uint32_t handle;

    set_limits(&limits);
    client_open(&own, alice());
    for (unsigned i = 0; i < 4096; i++)
        assert_int_equal(create_mr(&own, &handle), 0);
    sn = connect_as(alice());
    had = sn->account.used[QUOTA_MEMORY];
    rnic_on_retry(rnic, note_retry, &retry);
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    while (!retry) {
        uint64_t now = bytes_of(unfinished_answer());

        assert_true(now <= sn->account.used[QUOTA_MEMORY] - had);
        most = max_of(most, now);
        assert_true(event_loop_step(loop, 0));
    }
    assert_true(most > 256 << 10);
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), 0);
    close(k.out_fd[0]);
    session_close(sn);
    rnic->quota.limit[QUOTA_MEMORY].client = had + (512 << 10);
    sn = connect_as(alice());
    k.out_fds = 0;
    for (retry = false; kit_call(sn, CTL_SHOW, &m, &k, true) == -EINPROGRESS; retry = false) {
        while (!retry)
            assert_true(event_loop_step(loop, 0));
    }
    assert_int_equal(k.reply.status, -ENOMEM);
    assert_int_equal(unfinished_answer(), -1);
    assert_int_equal(sn->account.used[QUOTA_MEMORY], had);
    /* In the middle of another. */
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    session_close(sn);
    assert_int_equal(unfinished_answer(), -1);
    rnic_on_retry(rnic, NULL, NULL);
    session_close(own.session);
    assert_all_returned();
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_each_kind),
        T(test_each_user),
        T(test_group_is_counted_once),
        T(test_queries),
        T(test_connections),
        T(test_descriptors),
        T(test_owners_can_look),
        T(test_owner_follows_the_user),
        T(test_open_refused),
        T(test_mapped_regions),
        T(test_remapped_regions),
        T(test_heap_is_charged),
        T(test_busy_queue_pair_is_charged),
        T(test_memory_is_bounded),
        T(test_show),
        T(test_answers_are_charged),
        T(test_unfinished_answers_are_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
