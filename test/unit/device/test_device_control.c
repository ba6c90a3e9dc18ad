/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol's handlers: results, refusals, and the order in which objects may be
 * destroyed. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device_kit.h"
#include "device_private.h"
#include "doorbell.h"

static struct event_loop *loop;
static struct rnic *rnic;
static struct session *session;

static int call(struct session *c, enum ctl_type type, struct ctl_msg *m)
{
    struct ctl_call k = {0};
    int status = kit_call(c, type, m, &k, false);

    *m = k.reply;
    return status;
}

static struct session *open_session(void)
{
    struct session *c = session_create(rnic, &(struct ucred){.pid = getpid()});
    struct ctl_msg m = {0};

    assert_non_null(c);
    assert_int_equal(call(c, CTL_OPEN, &m), 0);
    assert_int_equal(m.open.workers, 1);
    assert_int_equal(m.open.pid, getpid());
    return c;
}

static uint32_t alloc_pd(struct session *c)
{
    struct ctl_msg m = {0};

    assert_int_equal(call(c, CTL_ALLOC_PD, &m), 0);
    return m.handle;
}

static struct ctl_msg cq_request(uint32_t cqe, uint32_t channel)
{
    struct ctl_msg m = {.create_cq = {.cqe = cqe, .channel = channel, .cookie = 77}};

    return m;
}

static uint32_t create_cq(struct session *c, uint32_t channel)
{
    struct ctl_msg m = cq_request(100, channel);

    assert_int_equal(call(c, CTL_CREATE_CQ, &m), 0);
    assert_int_equal(m.create_cq.cqe, 128);
    return m.create_cq.handle;
}

static struct ctl_msg qp_request(uint32_t pd, uint32_t cq)
{
    struct ctl_msg m = {
        .create_qp = {
            .pd = pd,
            .send_cq = cq,
            .recv_cq = cq,
            .type = QPT_RC,
            .caps = {.max_send_wr = 10, .max_recv_wr = 20, .max_send_sge = 1, .max_recv_sge = 1}}};

    return m;
}

static struct ctl_msg mr_request(uint32_t pd, uint64_t addr, uint64_t len)
{
    struct ctl_msg m = {.reg_mr = {.pd = pd,
                                   .access = MEM_LOCAL_WRITE | MEM_REMOTE_READ,
                                   .addr = addr,
                                   .length = len,
                                   .iova = addr}};

    return m;
}

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    session = open_session();
    kit_status = 0;
    return 0;
}

static int teardown(void **state)
{
    session_close(session);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static void test_queries(void **state)
{
    struct ctl_msg m = {.device.index = 0};

    assert_int_equal(call(session, CTL_QUERY_DEVICE, &m), 0);
    assert_string_equal(m.device.name, "uroce0");
    assert_string_equal(m.device.fw_version, "kit");
    assert_int_equal(m.device.max_qp, 131072 - 16);
    m = (struct ctl_msg){.device.index = 1};
    assert_int_equal(call(session, CTL_QUERY_DEVICE, &m), -ENODEV);
    m = (struct ctl_msg){.port.port = 1};
    assert_int_equal(call(session, CTL_QUERY_PORT, &m), 0);
    assert_int_equal(m.port.state, 4);
    assert_int_equal(m.port.active_mtu, 5);
    assert_int_equal(m.port.gid_tbl_len, 2);
    m = (struct ctl_msg){.port.port = 2};
    assert_int_equal(call(session, CTL_QUERY_PORT, &m), -EINVAL);
    m = (struct ctl_msg){.gid = {.port = 1, .index = 1}};
    assert_int_equal(call(session, CTL_QUERY_GID, &m), 0);
    assert_int_equal(m.gid.type, GID_TYPE_ROCE_V2);
    assert_int_equal(m.gid.gid[15], 1);
    m = (struct ctl_msg){.gid = {.port = 1, .index = 2}};
    assert_int_equal(call(session, CTL_QUERY_GID, &m), -EINVAL);
}

static void test_order_of_messages(void **state)
{
    struct session *c = session_create(rnic, &(struct ucred){.pid = getpid()});
    struct ctl_msg m = {0};

    assert_int_equal(call(c, CTL_ALLOC_PD, &m), -ENOTCONN);
    m = (struct ctl_msg){.open.device = 9};
    assert_int_equal(call(c, CTL_OPEN, &m), -ENODEV);
    m = (struct ctl_msg){0};
    assert_int_equal(call(c, CTL_OPEN, &m), 0);
    assert_int_equal(call(c, CTL_OPEN, &m), -EBUSY);
    assert_int_equal(call(c, 0, &m), -EOPNOTSUPP);
    assert_int_equal(call(c, 9999, &m), -EOPNOTSUPP);
    session_close(c);
}

/* An object in use by another stays. */
static void test_references(void **state)
{
    uint32_t pd = alloc_pd(session), cq;
    struct ctl_msg channel = {0}, qp, mr = mr_request(pd, KIT_BASE, 4096);

    assert_int_equal(call(session, CTL_CREATE_CHANNEL, &channel), 0);
    cq = create_cq(session, channel.handle);
    qp = qp_request(pd, cq);
    assert_int_equal(call(session, CTL_CREATE_QP, &qp), 0);
    assert_int_equal(call(session, CTL_REG_MR, &mr), 0);
    assert_int_equal(mr.reg_mr.mapped, 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CHANNEL, channel.handle), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CQ, cq), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DEALLOC_PD, pd), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_QP, qp.create_qp.qpn), 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_QP, qp.create_qp.qpn), -ENOENT);
    assert_int_equal(kit_call_handle(session, CTL_DEALLOC_PD, pd), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, mr.reg_mr.handle), 0);
    assert_int_equal(kit_call_handle(session, CTL_DEALLOC_PD, pd), 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CHANNEL, channel.handle), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CQ, cq), 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CHANNEL, channel.handle), 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CHANNEL, channel.handle), -ENOENT);
}

/* A handle of one application is invalid for another. */
static void test_foreign_handles(void **state)
{
    struct session *other = open_session();
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);
    struct ctl_msg qp = qp_request(pd, cq), stolen = qp_request(pd, cq);
    struct ctl_msg mr = mr_request(pd, KIT_BASE, 4096), theirs = mr_request(pd, KIT_BASE, 4096);

    assert_int_equal(call(session, CTL_CREATE_QP, &qp), 0);
    assert_int_equal(call(session, CTL_REG_MR, &mr), 0);
    assert_int_equal(call(other, CTL_CREATE_QP, &stolen), -EINVAL);
    assert_int_equal(call(other, CTL_REG_MR, &theirs), -EINVAL);
    assert_int_equal(kit_call_handle(other, CTL_DESTROY_QP, qp.create_qp.qpn), -ENOENT);
    assert_int_equal(kit_call_handle(other, CTL_QUERY_QP, qp.create_qp.qpn), -EINVAL);
    assert_int_equal(kit_call_handle(other, CTL_DEREG_MR, mr.reg_mr.handle), -ENOENT);
    assert_int_equal(kit_call_handle(other, CTL_DESTROY_CQ, cq), -ENOENT);
    assert_int_equal(kit_call_handle(other, CTL_DEALLOC_PD, pd), -ENOENT);
    /* Closing the first destroys all of its objects, whatever uses them. */
    session_close(session);
    session = other;
    assert_int_equal(kit_call_handle(other, CTL_DESTROY_QP, qp.create_qp.qpn), -ENOENT);
}

static void test_memory_regions(void **state)
{
    static const struct {
        uint64_t addr, len, iova;
        uint32_t access;
        int status;
    } row[] = {
        {KIT_BASE, 1, 0, 0, 0},
        {KIT_BASE, KIT_BYTES, 5, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC, 0},
        {KIT_BASE, 1, 0, MEM_ACCESS_OPTIONAL, 0},
        {KIT_BASE, 1, 0, 1u << 7, 0},
        {KIT_BASE, 1, 0, MEM_REMOTE_WRITE, -EINVAL},
        {KIT_BASE, 1, 0, MEM_REMOTE_ATOMIC, -EINVAL},
        {KIT_BASE, 1, 0, MEM_MW_BIND | MEM_FLUSH_GLOBAL, 0},
        {KIT_BASE, 1, 0, MEM_FLUSH_PERSISTENT, -EINVAL},
        {KIT_BASE, 1, 0, 1u << 31, -EINVAL},
        {KIT_BASE, 0, 0, 0, 0}, /* covers nothing */
        {KIT_BASE, UINT64_MAX, 0, 0, -EINVAL},
        {UINT64_MAX - 8, 64, 0, 0, -EINVAL},
        {KIT_BASE, 64, UINT64_MAX - 8, 0, -EINVAL},
        {KIT_BASE, (UINT64_C(1) << 40) + 1, 0, 0, -EINVAL},
        {0, UINT64_MAX, 0, MEM_ON_DEMAND, 0}, /* all of memory */
        {0, UINT64_MAX, 0, 0, -EINVAL},
        {0, 64, 0, 0, 0}, /* not touched before a work request does */
        {KIT_BASE, KIT_BYTES + 1, 0, 0, 0},
        {KIT_BASE, KIT_BYTES + 1, 0, MEM_ON_DEMAND, 0},
    };
    uint32_t pd = alloc_pd(session);

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct ctl_msg m = {.reg_mr = {.pd = pd,
                                       .access = row[i].access,
                                       .addr = row[i].addr,
                                       .length = row[i].len,
                                       .iova = row[i].iova}};

        assert_int_equal(call(session, CTL_REG_MR, &m), row[i].status);
        if (!row[i].status) {
            assert_int_not_equal(m.reg_mr.lkey, 0);
            assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, m.reg_mr.handle), 0);
        }
    }
}

/* A region takes the place of another one: the same keys, another protection domain. */
static void test_memory_registered_again(void **state)
{
    uint32_t one = alloc_pd(session), two = alloc_pd(session);
    struct ctl_msg old = mr_request(one, KIT_BASE, 4096), m = mr_request(two, KIT_BASE, 64), again;

    assert_int_equal(call(session, CTL_REG_MR, &old), 0);
    m.reg_mr.flags = CTL_MR_REPLACES;
    m.reg_mr.handle = old.reg_mr.handle + 1;
    again = m;
    assert_int_equal(call(session, CTL_REG_MR, &again), -ENOENT);
    m.reg_mr.handle = old.reg_mr.handle;
    again = m;
    again.reg_mr.access = MEM_REMOTE_WRITE; /* without local: refused, and nothing has changed */
    assert_int_equal(call(session, CTL_REG_MR, &again), -EINVAL);
    again = m;
    assert_int_equal(call(session, CTL_REG_MR, &again), 0);
    assert_int_equal(again.reg_mr.lkey, old.reg_mr.lkey);
    assert_int_not_equal(again.reg_mr.handle, old.reg_mr.handle);
    assert_int_equal(mr_lookup(&session->device->mrs, old.reg_mr.lkey)->pd, two);
    assert_int_equal(call(session, CTL_REG_MR, &m), -EINVAL); /* it has been replaced */
    assert_int_equal(kit_call_handle(session, CTL_DEALLOC_PD, two), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, old.reg_mr.handle), 0);
    assert_non_null(mr_lookup(&session->device->mrs, old.reg_mr.lkey));
    assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, again.reg_mr.handle), 0);
    assert_null(mr_lookup(&session->device->mrs, old.reg_mr.lkey));
    assert_int_equal(kit_call_handle(session, CTL_DEALLOC_PD, two), 0);
}

static void test_memory_denied(void **state)
{
    struct ctl_msg m = mr_request(alloc_pd(session), KIT_BASE, 64);

    kit_status = -EPERM;
    assert_int_equal(call(session, CTL_REG_MR, &m), -EPERM);
    assert_int_equal(session->device->mrs_denied, 1);
}

static void test_memory_mapped(void **state)
{
    int fd = memfd_create("kit", MFD_CLOEXEC);
    struct ctl_msg m = mr_request(alloc_pd(session), KIT_BASE, 4096);
    struct ctl_msg beyond = m, without = m, surplus = m;
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1};

    assert_int_equal(ftruncate(fd, 8192), 0);
    m.reg_mr.flags = beyond.reg_mr.flags = without.reg_mr.flags = CTL_MR_FD;
    m.reg_mr.fd_offset = 4096;
    assert_int_equal(kit_call(session, CTL_REG_MR, &m, &k, false), 0);
    assert_int_equal(k.reply.reg_mr.mapped, 1);
    assert_int_equal(session->mrs_mapped, 1);
    assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, k.reply.reg_mr.handle), 0);
    assert_int_equal(session->mrs_mapped, 0);
    /* Memory that cannot be mapped is copied. */
    beyond.reg_mr.fd_offset = 8192;
    assert_int_equal(kit_call(session, CTL_REG_MR, &beyond, &k, false), 0);
    assert_int_equal(k.reply.reg_mr.mapped, 0);
    /* A flag without a descriptor, a descriptor without the flag. */
    assert_int_equal(kit_call(session, CTL_REG_MR, &surplus, &k, false), -EINVAL);
    k.in_fds = 0;
    assert_int_equal(kit_call(session, CTL_REG_MR, &without, &k, false), -EINVAL);
    close(fd);
}

static int remap(uint32_t handle, int fd, uint32_t pieces, uint64_t length)
{
    struct ctl_msg m = {.remap = {.handle = handle, .why = CTL_MR_ADOPTED, .pieces = pieces}};
    struct ctl_call k = {.in_fd = &fd, .in_fds = fd >= 0};
    int err;

    m.remap.piece[0].length = length;
    err = kit_call(session, CTL_REMAP_MR, &m, &k, false);
    return err ? err : (int)k.reply.remap.mapped;
}

/* The messages of an application before and after a fork. */
static void test_memory_frozen(void **state)
{
    int fd = memfd_create("kit", MFD_CLOEXEC);
    struct ctl_msg m = mr_request(alloc_pd(session), KIT_BASE, 4096), own = m;
    struct ctl_call k = {.in_fd = &fd, .in_fds = 1};
    struct mem_region *adopted, *shared;
    uint32_t handle;

    assert_int_equal(ftruncate(fd, 8192), 0);
    m.reg_mr.flags = own.reg_mr.flags = CTL_MR_FD;
    m.reg_mr.why = CTL_MR_ADOPTED;
    own.reg_mr.why = CTL_MR_SHARED;
    assert_int_equal(kit_call(session, CTL_REG_MR, &own, &k, false), 0);
    shared = mr_lookup(&session->device->mrs, k.reply.reg_mr.lkey);
    assert_int_equal(kit_call(session, CTL_REG_MR, &m, &k, false), 0);
    adopted = mr_lookup(&session->device->mrs, k.reply.reg_mr.lkey);
    handle = k.reply.reg_mr.handle;
    assert_int_equal(session->mrs_mapped, 2);
    assert_int_equal(remap(handle, fd, 1, 4096), -EBUSY);
    /* The daemon pauses copies and releases the memory that the application is about to
     * rearrange. */
    m = (struct ctl_msg){0};
    assert_int_equal(call(session, CTL_FREEZE_MRS, &m), 0);
    assert_in_range(m.freeze.granted_us, 1000, 20000);
    assert_int_equal(session->mrs_mapped, 2);
    m = (struct ctl_msg){.freeze.flags = CTL_FREEZE_UNMAP};
    assert_int_equal(call(session, CTL_FREEZE_MRS, &m), 0);
    assert_null(adopted->direct);
    assert_non_null(shared->direct);
    assert_int_equal(session->mrs_mapped, 1);
    assert_int_equal(call(session, CTL_THAW_MRS, &m), 0);
    assert_int_equal(call(session, CTL_THAW_MRS, &m), 0);
    m = (struct ctl_msg){.freeze.flags = 2};
    assert_int_equal(call(session, CTL_FREEZE_MRS, &m), -EINVAL);
    /* And mapped again, if the range is valid. */
    assert_int_equal(remap(handle + 100, fd, 1, 4096), -EINVAL);
    assert_int_equal(remap(handle, fd, 0, 4096), -EINVAL);
    assert_int_equal(remap(handle, -1, 1, 4096), -EINVAL);
    assert_int_equal(remap(handle, fd, CTL_MR_PIECES + 1, 4096), 0);
    assert_int_equal(remap(handle, fd, 1, 100), 0);
    assert_null(adopted->direct);
    assert_int_equal(remap(handle, -1, 0, 0), 0);
    assert_int_equal(remap(handle, fd, 1, 4096), 1);
    assert_non_null(adopted->direct);
    assert_int_equal(session->mrs_mapped, 2);
    /* /dev/userfaultfd, only from a client that can open it. */
    assert_int_equal(call(session, CTL_GET_UFFD, &m), -EPERM);
    close(fd);
}

/* ---- regions that are used much ---- */

#define HOT_COPIES (128 / KIT_HEAT) /* copies of the kit's until a region is hot */

struct hot_mr {
    uint32_t handle;
    struct mem_region *region;
};

static struct hot_mr reg_copied(uint32_t pd, enum ctl_mr_why why, uint32_t uidx)
{
    struct ctl_msg m = mr_request(pd, KIT_BASE, 4096);

    m.reg_mr.why = why;
    m.reg_mr.uidx = uidx;
    assert_int_equal(call(session, CTL_REG_MR, &m), 0);
    return (struct hot_mr){m.reg_mr.handle, mr_lookup(&session->device->mrs, m.reg_mr.lkey)};
}

static void copy_times(struct hot_mr mr, unsigned n)
{
    uint8_t byte;
    struct mem_io io = {.mr = mr.region, .addr = KIT_BASE, .local = &byte, .len = 1};

    while (n--)
        mr.region->backend->copy_in(mr.region->space, &io, 1);
}

static struct ctl_hot ask_hot(void)
{
    struct ctl_msg m = {0};

    assert_int_equal(call(session, CTL_HOT_MRS, &m), 0);
    return m.hot;
}

static void expect_hot(uint32_t uidx)
{
    struct ctl_hot hot = ask_hot();

    assert_int_equal(hot.count, 1);
    assert_int_equal(hot.uidx[0], uidx);
    assert_int_equal(hot.more, 0);
}

static int tell_copied(struct hot_mr mr, enum ctl_mr_why why)
{
    struct ctl_msg m = {.remap = {.handle = mr.handle, .why = why}};

    return call(session, CTL_REMAP_MR, &m);
}

static void test_memory_hot(void **state)
{
    _Atomic uint32_t *word = &((struct ctx_shared *)session->segment.base)->mr_hot;
    uint32_t pd = alloc_pd(session);
    struct hot_mr cold = reg_copied(pd, CTL_MR_COLD, 70), never = reg_copied(pd, CTL_MR_STACK, 71);
    int fd = memfd_create("kit", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, 4096), 0);
    copy_times(cold, HOT_COPIES - 1);
    copy_times(never, 100);
    assert_int_equal(*word, 0);
    assert_int_equal(ask_hot().count, 0);
    copy_times(cold, 1);
    assert_int_equal(*word, 1);
    expect_hot(70);
    /* Once, until the application answers; then after twice as many copies. */
    copy_times(cold, 100);
    assert_int_equal(ask_hot().count, 0);
    assert_int_equal(tell_copied(cold, CTL_MR_BUSY), 0);
    copy_times(cold, 2 * HOT_COPIES - 1);
    assert_int_equal(ask_hot().count, 0);
    copy_times(cold, 1);
    expect_hot(70);
    /* Deregistered while it waits to be collected: not reported any more. */
    assert_int_equal(tell_copied(cold, CTL_MR_PINNED), 0);
    copy_times(cold, 4 * HOT_COPIES);
    assert_int_equal(tell_copied(cold, CTL_MR_STACK), 0);
    copy_times(cold, 100);
    assert_int_equal(ask_hot().count, 0);
    /* A region that has been mapped since is not reported; when it is copied again it
     * counts again. */
    assert_int_equal(tell_copied(cold, CTL_MR_COLD), 0);
    copy_times(cold, 8 * HOT_COPIES);
    assert_int_equal(remap(cold.handle, fd, 1, 4096), 1);
    assert_int_equal(ask_hot().count, 0);
    assert_int_equal(
        call(session, CTL_FREEZE_MRS, &(struct ctl_msg){.freeze.flags = CTL_FREEZE_UNMAP}), 0);
    assert_int_equal(call(session, CTL_THAW_MRS, &(struct ctl_msg){0}), 0);
    copy_times(cold, 16 * HOT_COPIES);
    expect_hot(70);
    close(fd);
}

static void test_memory_many_hot(void **state)
{
    enum { MANY = 2 * CTL_HOT_MAX + 10 };
    uint32_t pd = alloc_pd(session), next = 0;
    struct hot_mr mr[MANY];
    bool seen[MANY] = {false};
    struct ctl_hot hot;

    for (uint32_t i = 0; i < MANY; i++) {
        mr[i] = reg_copied(pd, CTL_MR_COLD, i);
        copy_times(mr[i], HOT_COPIES);
    }
    /* Deregistered while they wait: on the workers' list, and on the application's. */
    for (; next < 5; next++)
        assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, mr[next].handle), 0);
    hot = ask_hot();
    assert_int_equal(hot.count, CTL_HOT_MAX);
    for (;;) {
        for (uint32_t i = 0; i < hot.count; i++) {
            assert_in_range(hot.uidx[i], next, MANY - 1);
            assert_false(seen[hot.uidx[i]]);
            seen[hot.uidx[i]] = true;
        }
        if (!hot.more)
            break;
        for (uint32_t i = MANY - 1; i >= next; i--) {
            if (seen[i])
                continue;
            assert_int_equal(kit_call_handle(session, CTL_DEREG_MR, mr[i].handle), 0);
            seen[i] = true; /* counts as reported */
            break;
        }
        hot = ask_hot();
    }
    for (uint32_t i = next; i < MANY; i++)
        assert_true(seen[i]);
}

static void test_completion_queue_limits(void **state)
{
    static const struct {
        uint32_t cqe, vector, channel;
        int status;
        uint32_t given;
    } row[] = {
        {1, 0, 0, 0, 1},
        {3, 0, 0, 0, 4},
        {QUEUE_MAX_CQE, 0, 0, 0, QUEUE_MAX_CQE},
        {0, 0, 0, -EINVAL, 0},
        {QUEUE_MAX_CQE + 1, 0, 0, -EINVAL, 0},
        {UINT32_MAX, 0, 0, -EINVAL, 0},
        {16, 1, 0, -EINVAL, 0},
        {16, UINT32_MAX, 0, -EINVAL, 0},
        {16, 0, 1234, -EINVAL, 0},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct ctl_msg m = cq_request(row[i].cqe, row[i].channel);

        m.create_cq.vector = row[i].vector;
        assert_int_equal(call(session, CTL_CREATE_CQ, &m), row[i].status);
        if (!row[i].status)
            assert_int_equal(m.create_cq.cqe, row[i].given);
    }
}

static int resize(uint32_t handle, uint32_t cqe, struct ctl_msg *m)
{
    *m = (struct ctl_msg){.create_cq = {.handle = handle, .cqe = cqe}};
    return call(session, CTL_RESIZE_CQ, m);
}

static int resize_done(uint32_t handle)
{
    struct ctl_msg m = {.destroy.handle = handle};

    return call(session, CTL_RESIZE_CQ_DONE, &m);
}

/* The old segment stays until the application has left it; also when it never says so. */
static void test_completion_queue_resize(void **state)
{
    uint32_t cq = create_cq(session, 0);
    struct ctl_msg m;

    assert_int_equal(resize(cq + 1, 16, &m), -ENOENT);
    assert_int_equal(resize(cq, 0, &m), -EINVAL);
    assert_int_equal(resize(cq, QUEUE_MAX_CQE + 1, &m), -EINVAL);
    assert_int_equal(resize_done(cq), -EINVAL);
    assert_int_equal(resize(cq, 5000, &m), 0);
    assert_int_equal(m.create_cq.cqe, 8192);
    assert_int_equal(m.create_cq.lanes, 1);
    assert_int_equal(m.create_cq.segment_bytes, cq_segment_bytes(8192, 1));
    assert_int_equal(resize(cq, 16, &m), -EBUSY);
    assert_int_equal(resize_done(cq), 0);
    assert_int_equal(resize_done(cq), -EINVAL);
    assert_int_equal(resize_done(cq + 1), -ENOENT);
    assert_int_equal(resize(cq, 16, &m), 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CQ, cq), 0); /* with both segments */
}

/* The daemon's last queue, of a size that no other has: when it is refused, the application gets no
 * memory for it; when there is room again it comes with its descriptor. */
static void test_completion_queue_too_many(void **state)
{
    struct ctl_msg small = cq_request(1, 0), large = cq_request(64, 0);
    struct ctl_call k = {0};
    uint32_t first = 0;

    for (unsigned i = 0; i < LIMIT_CQ; i++) {
        struct ctl_msg m = small;

        assert_int_equal(call(session, CTL_CREATE_CQ, &m), 0);
        first = first ? first : m.create_cq.handle;
    }
    assert_int_equal(kit_call(session, CTL_CREATE_CQ, &large, &k, true), -ENOMEM);
    assert_int_equal(k.out_fds, 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_CQ, first), 0);
    assert_int_equal(kit_call(session, CTL_CREATE_CQ, &large, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    close(k.out_fd[0]);
}

/* Two queue pairs of one size lie in one slab. The application learns of it once, and again when it
 * is empty; another application has another slab. */
static void test_queue_pairs_share_memory(void **state)
{
    struct session *other = open_session();
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0), qpn[100];
    uint32_t their_pd = alloc_pd(other), their_cq = create_cq(other, 0);
    struct ctl_msg theirs = qp_request(their_pd, their_cq);
    uint64_t slab = 0, gone = 0;
    unsigned slabs = 0;
    struct ctl_call k = {0};

    for (unsigned i = 0; i < ARRAY_SIZE(qpn); i++) {
        struct ctl_msg m = qp_request(pd, cq);
        struct ctl_create_qp *r = &k.reply.create_qp;

        assert_int_equal(kit_call(session, CTL_CREATE_QP, &m, &k, false), 0);
        assert_int_equal(r->place.offset % CACHE_LINE, 0);
        assert_int_equal(r->place.gone, 0);
        slabs += r->place.slab != slab;
        slab = r->place.slab;
        qpn[i] = r->qpn;
    }
    assert_true(slabs > 1 && slabs < 8);
    assert_int_equal(kit_call(other, CTL_CREATE_QP, &theirs, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    close(k.out_fd[0]);
    for (unsigned i = 0; i < ARRAY_SIZE(qpn); i++) {
        struct ctl_msg m = {.destroy = {.handle = qpn[i], .slab_gone = UINT64_MAX}};

        assert_int_equal(call(session, CTL_DESTROY_QP, &m), 0);
        gone += m.destroy.slab_gone != 0;
    }
    assert_int_equal(gone, slabs - 1);
    session_close(other);
}

static void test_queue_pair_caps(void **state)
{
    static const struct {
        struct qp_caps caps; /* send_wr, recv_wr, send_sge, recv_sge, inline */
        uint32_t type;
        int status;
    } row[] = {
        {{0, 0, 0, 0, 0}, QPT_RC, 0},
        {{1, 1, 1, 1, 0}, QPT_RC, 0},
        {{100, 77, 3, 5, 33}, QPT_RC, 0},
        {{16384, 16384, 32, 32, 512}, QPT_RC, 0},
        {{16385, 1, 1, 1, 0}, QPT_RC, -EINVAL},
        {{1, 16385, 1, 1, 0}, QPT_RC, -EINVAL},
        {{1, 1, 33, 1, 0}, QPT_RC, -EINVAL},
        {{1, 1, 1, 33, 0}, QPT_RC, -EINVAL},
        {{1, 1, 1, 1, 513}, QPT_RC, -EINVAL},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, QPT_RC, -EINVAL},
        {{1, 1, 1, 1, 0}, QPT_UC, 0},
        {{1, 1, 1, 1, 0}, QPT_UD, 0},
        {{1, 1, 1, 1, 0}, QPT_RAW_PACKET, 0},
        {{1, 1, 1, 1, 0}, 0, -EINVAL},
        {{1, 1, 1, 1, 0}, 99, -EINVAL},
    };
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct ctl_msg m = qp_request(pd, cq);
        const struct ctl_create_qp *q = &m.create_qp;

        m.create_qp.caps = row[i].caps;
        m.create_qp.type = row[i].type;
        assert_int_equal(call(session, CTL_CREATE_QP, &m), row[i].status);
        if (row[i].status)
            continue;
        assert_in_range(q->caps.max_send_wr, row[i].caps.max_send_wr, QUEUE_MAX_WR);
        assert_in_range(q->caps.max_recv_wr, row[i].caps.max_recv_wr, QUEUE_MAX_WR);
        assert_in_range(q->caps.max_send_sge, max_of(row[i].caps.max_send_sge, 2u), LIMIT_SGE);
        assert_in_range(q->caps.max_recv_sge, max_of(row[i].caps.max_recv_sge, 1u), LIMIT_SGE);
        assert_in_range(q->caps.max_inline_data, row[i].caps.max_inline_data, QUEUE_MAX_INLINE);
        assert_true(sqe_stride(q->caps.max_send_sge, q->caps.max_inline_data) <= q->sq_stride);
        assert_true(rqe_stride(q->caps.max_recv_sge) <= q->rq_stride);
        assert_true(q->rq_off + (uint64_t)q->rq_size * q->rq_stride <= q->segment_bytes);
        assert_int_equal(kit_call_handle(session, CTL_DESTROY_QP, q->qpn), 0);
    }
}

/* Who asks for some inline data is granted all that a small ring has room for. */
static void test_generous_inline(void **state)
{
    static const struct {
        uint32_t wr, wanted, granted;
    } row[] = {{64, 1, 512}, {128, 64, 512}, {256, 512, 512}, {64, 0, 64}, {256, 64, 64}};
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct ctl_msg m = qp_request(pd, cq);

        m.create_qp.caps = (struct qp_caps){row[i].wr, 1, 1, 1, row[i].wanted};
        assert_int_equal(call(session, CTL_CREATE_QP, &m), 0);
        assert_int_equal(m.create_qp.caps.max_inline_data, row[i].granted);
        assert_int_equal(kit_call_handle(session, CTL_DESTROY_QP, m.create_qp.qpn), 0);
    }
}

static struct ah_attr ah_attr(const char *dgid)
{
    struct ah_attr a = {.is_global = 1, .port_num = 1};
    union gid gid;

    assert_int_equal(gid_parse(&gid, dgid), 0);
    memcpy(a.dgid, gid.raw, sizeof(a.dgid));
    return a;
}

static void test_address_handles(void **state)
{
    uint32_t pd = alloc_pd(session);
    struct ctl_msg good = {.create_ah = {.pd = pd, .attr = ah_attr("10.0.0.2")}};
    struct ctl_msg own = {.create_ah = {.pd = pd, .attr = ah_attr("127.0.0.1")}}, m = own;
    struct ctl_msg group = {.create_ah = {.pd = pd, .attr = ah_attr("224.0.0.7")}};

    assert_int_equal(call(session, CTL_CREATE_AH, &good), 0);
    assert_int_equal(good.create_ah.dmac[5], 2);
    assert_int_equal(kit_call_handle(session, CTL_DEALLOC_PD, pd), -EBUSY);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_AH, good.create_ah.handle), 0);
    assert_int_equal(kit_call_handle(session, CTL_DESTROY_AH, good.create_ah.handle), -ENOENT);
    assert_int_equal(call(session, CTL_CREATE_AH, &own), 0);
    assert_int_equal(own.create_ah.dmac[5], 1);
    assert_int_equal(call(session, CTL_CREATE_AH, &group), 0);
    assert_int_equal(group.create_ah.dmac[0], 1);

    m.create_ah.attr.is_global = 0;
    assert_int_equal(call(session, CTL_CREATE_AH, &m), -EINVAL);
    m = (struct ctl_msg){.create_ah = {.pd = pd, .attr = ah_attr("127.0.0.1")}};
    m.create_ah.attr.sgid_index = 2;
    assert_int_equal(call(session, CTL_CREATE_AH, &m), -EINVAL);
    m = (struct ctl_msg){.create_ah = {.pd = pd, .attr = ah_attr("127.0.0.1")}};
    m.create_ah.attr.port_num = 2;
    assert_int_equal(call(session, CTL_CREATE_AH, &m), -EINVAL);
    m = (struct ctl_msg){.create_ah = {.pd = pd, .attr = ah_attr("fd00::1")}};
    assert_int_equal(call(session, CTL_CREATE_AH, &m), -EINVAL);
    m.create_ah.attr.sgid_index = 1;
    assert_int_equal(call(session, CTL_CREATE_AH, &m), -EHOSTUNREACH);
}

static int modify(uint32_t qpn, uint32_t mask, struct qp_attr attr)
{
    struct ctl_msg m = {.modify_qp = {.qpn = qpn, .mask = mask, .attr = attr}};

    return call(session, CTL_MODIFY_QP, &m);
}

static uint32_t ready_qp(uint32_t pd, uint32_t cq)
{
    struct ctl_msg m = qp_request(pd, cq);
    struct qp_attr attr = {.state = QPS_INIT, .port_num = 1, .access_flags = MEM_REMOTE_WRITE};
    uint32_t qpn;

    assert_int_equal(call(session, CTL_CREATE_QP, &m), 0);
    qpn = m.create_qp.qpn;
    assert_int_equal(modify(qpn, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, attr),
                     0);
    attr = (struct qp_attr){.state = QPS_RTR,
                            .path_mtu = 5,
                            .dest_qpn = qpn,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 1,
                            .ah = ah_attr("127.0.0.1")};
    assert_int_equal(modify(qpn,
                            QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                                QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
                            attr),
                     0);
    attr = (struct qp_attr){
        .state = QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    assert_int_equal(modify(qpn,
                            QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY |
                                QPA_MAX_RD_ATOMIC,
                            attr),
                     0);
    return qpn;
}

static void test_modify_and_query(void **state)
{
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);
    uint32_t qpn = ready_qp(pd, cq);
    struct ctl_msg m = {.handle = qpn};
    struct qp_attr attr = {.state = QPS_INIT, .port_num = 2};

    assert_int_equal(call(session, CTL_QUERY_QP, &m), 0);
    assert_int_equal(m.query_qp.attr.state, QPS_RTS);
    assert_int_equal(m.query_qp.attr.dest_qpn, qpn);
    assert_int_equal(m.query_qp.attr.path_mtu, 5);
    assert_int_equal(m.query_qp.caps.max_send_wr, 16);
    assert_int_equal(modify(0xdead, QPA_STATE, attr), -EINVAL);
    assert_int_equal(modify(qpn, QPA_STATE | QPA_PORT, attr), -EINVAL);
    attr = (struct qp_attr){.state = QPS_RESET};
    assert_int_equal(modify(qpn, QPA_STATE, attr), 0);
    attr = (struct qp_attr){.state = QPS_RTS};
    assert_int_equal(modify(qpn, QPA_STATE, attr), -EINVAL);
}

/* A message through the engine and both rings of the application. */
static void test_doorbell_to_completion(void **state)
{
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);
    uint32_t qpn = ready_qp(pd, cq);
    struct qp_object *q = container_of(TAILQ_FIRST(&session->objects[OBJ_QP]), struct qp_object, o);
    struct cq *c = container_of(TAILQ_FIRST(&session->objects[OBJ_CQ]), struct cq, o);
    struct cq_reader reader = {.shared = c->segment.base, .size = 128, .lanes = 1};
    struct qp_shared *shared = q->segment.base;
    struct sqe *sqe = (struct sqe *)((char *)q->segment.base + sizeof(*shared));
    struct worker *w = rnic_worker(rnic, 0);
    unsigned completions = 0;

    assert_int_equal(q->o.handle, qpn);
    *sqe = (struct sqe){.wr_id = 5, .opcode = SQE_WRITE, .flags = SQE_SIGNALED};
    atomic_store(&shared->sq_prod, 1);
    /* A doorbell without a queue pair is ignored. */
    doorbell_ring(session->ctx[0].doorbells, q->dp.slot + 1);
    doorbell_ring(session->ctx[0].doorbells, DB_SLOTS - 1);
    assert_false(doorbell_ring(session->ctx[0].doorbells, q->dp.slot));
    for (unsigned i = 0; i < 20; i++) {
        const struct cqe *e;

        worker_poll(w, worker_time());
        while ((e = cq_reader_peek(&reader))) {
            assert_int_equal(e->wr_id, 5);
            assert_int_equal(e->status, WC_SUCCESS);
            cq_reader_advance(&reader);
            completions++;
        }
    }
    assert_int_equal(completions, 1);
    assert_false(worker_poll(w, worker_time()));
}

/* The program does not read the channel: no event is lost, the worker does not wait, all events
 * come later. */
static void test_late_completion_events(void **state)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};
    struct worker *w = rnic_worker(rnic, 0);
    struct engine_host host;
    struct cq *cq;
    unsigned n = 3000, received = 0;
    uint64_t cookie;

    assert_int_equal(kit_call(session, CTL_CREATE_CHANNEL, &m, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    create_cq(session, k.reply.handle);
    cq = container_of(TAILQ_FIRST(&session->objects[OBJ_CQ]), struct cq, o);
    host = worker_host(session->device->port[0]);
    for (unsigned i = 0; i < n; i++) {
        host.cq_event(host.ctx, &cq->dp.cq);
        worker_poll(w, worker_time());
    }
    assert_true(atomic_load(&cq->dp.unsent) > 0);
    while (received < n) {
        while (recv(k.out_fd[0], &cookie, sizeof(cookie), MSG_DONTWAIT) == sizeof(cookie)) {
            assert_int_equal(cookie, 77);
            received++;
        }
        if (received < n)
            assert_true(event_loop_step(loop, 1000));
    }
    assert_int_equal(atomic_load(&cq->dp.unsent), 0);
    while (event_loop_step(loop, 0))
        ;
    assert_int_equal(recv(k.out_fd[0], &cookie, sizeof(cookie), MSG_DONTWAIT), -1);
    close(k.out_fd[0]);
}

static void test_show(void **state)
{
    json_error_t error;
    json_t *root, *device;
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);
    char *text;

    ready_qp(pd, cq);
    snprintf(session->comm, sizeof(session->comm), "bad \xff name\"");
    text = rnic_show(rnic, 0);
    assert_non_null(text);
    root = json_loads(text, 0, &error);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "version")), "kit");
    device = json_array_get(json_object_get(root, "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(device, "name")), "uroce0");
    assert_int_equal(json_array_size(json_object_get(root, "clients")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "qps")), 1);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(root, "qps"), 0), "state")),
                        "RTS");
    json_decref(root);
    free(text);
}

/* A queue pair's trace, by message. */
static void test_show_trace(void **state)
{
    struct ctl_msg m = {.show.what = CTL_SHOW_TRACE};
    uint32_t pd = alloc_pd(session), cq = create_cq(session, 0);
    struct ctl_call k = {0};
    char text[65536];
    json_error_t error;
    json_t *root, *list, *last;

    ready_qp(pd, cq);
    assert_int_equal(kit_call(session, CTL_SHOW, &m, &k, true), 0);
    assert_true(k.reply.show.length < sizeof(text));
    assert_int_equal(read(k.out_fd[0], text, sizeof(text)), (ssize_t)k.reply.show.length);
    close(k.out_fd[0]);
    root = json_loadb(text, k.reply.show.length, 0, &error);
    list = json_object_get(root, "trace");
    assert_int_equal(json_array_size(list), 3); /* INIT, RTR, RTS */
    last = json_array_get(list, 2);
    assert_string_equal(json_string_value(json_object_get(last, "event")), "state");
    assert_string_equal(json_string_value(json_object_get(last, "what")), "RTR to RTS");
    json_decref(root);
}

static void test_show_by_message(void **state)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};
    char text[65536];

    assert_int_equal(kit_call(session, CTL_SHOW, &m, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    assert_int_equal(read(k.out_fd[0], text, sizeof(text)), (ssize_t)k.reply.show.length);
    assert_int_equal(text[0], '{');
    close(k.out_fd[0]);
    m.show.what = 7;
    assert_int_equal(kit_call(session, CTL_SHOW, &m, &k, true), -EINVAL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_queries),
        T(test_order_of_messages),
        T(test_references),
        T(test_foreign_handles),
        T(test_memory_regions),
        T(test_memory_registered_again),
        T(test_memory_denied),
        T(test_memory_mapped),
        T(test_memory_frozen),
        T(test_memory_hot),
        T(test_memory_many_hot),
        T(test_completion_queue_limits),
        T(test_completion_queue_resize),
        T(test_completion_queue_too_many),
        T(test_queue_pairs_share_memory),
        T(test_queue_pair_caps),
        T(test_generous_inline),
        T(test_address_handles),
        T(test_modify_and_query),
        T(test_doorbell_to_completion),
        T(test_late_completion_events),
        T(test_show),
        T(test_show_trace),
        T(test_show_by_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
