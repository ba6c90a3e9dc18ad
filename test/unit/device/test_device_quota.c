/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas of sessions: each kind of object is charged and given back, and a refusal leaves nothing
 * behind. */
#include "quota_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM 6

/* ---- each kind ---- */

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
    static const struct quota_limits limits = {.user = {[QUOTA_CQ] = 11,
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

/* What the device says that there can be of a kind. */
static uint64_t most_of(struct client *c, enum quota_kind kind)
{
    struct ctl_msg m = {0};

    assert_int_equal(call(c, CTL_QUERY_DEVICE, &m), 0);
    switch (kind) {
    case QUOTA_PD:
        return m.device.max_pd;
    case QUOTA_CQ:
        return m.device.max_cq;
    case QUOTA_SRQ:
        return m.device.max_srq;
    case QUOTA_XRCD:
        return m.device.max_xrcd;
    case QUOTA_AH:
        return m.device.max_ah;
    default:
        return 0;
    }
}

/* An owner has all that the device says, and no more. */
static void test_as_many_as_are_said(void **state)
{
    struct client c;
    uint64_t most;
    uint32_t handle;

    for (unsigned i = 0; i < ARRAY_SIZE(makers); i++) {
        client_open(&c, geteuid());
        most = most_of(&c, makers[i].kind);
        if (most)
            print_message("# %s\n", makers[i].name);
        while (c.session->account.used[makers[i].kind] < most)
            assert_int_equal(makers[i].create(&c, &handle), 0);
        if (most)
            assert_int_equal(makers[i].create(&c, &handle), -ENOMEM);
        session_close(c.session);
        assert_all_returned();
    }
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

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, quota_setup, quota_teardown)
    const struct CMUnitTest tests[] = {
        T(test_each_kind),    T(test_each_user),           T(test_group_is_counted_once),
        T(test_queries),      T(test_as_many_as_are_said), T(test_connections),
        T(test_descriptors),  T(test_owners_can_look),     T(test_owner_follows_the_user),
        T(test_open_refused), T(test_mapped_regions),      T(test_remapped_regions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
