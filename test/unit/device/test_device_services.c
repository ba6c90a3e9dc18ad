/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, XRC domains, memory windows, multicast and address handles, as
 * applications get them from the daemon. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_app.h"
#include "engine_private.h"

#define GRH 40

static struct event_loop *loop;
static struct rnic *rnic;
static struct app a, b;
static struct app_cq cq_a, cq_b;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    kit_status = 0;
    for (unsigned i = 0; i < KIT_BYTES; i++)
        kit_memory[i] = (uint8_t)(i * 7 + i / 256);
    app_open(&a, rnic);
    app_open(&b, rnic);
    app_cq(&a, &cq_a, 64);
    app_cq(&b, &cq_b, 64);
    return 0;
}

static int teardown(void **state)
{
    if (a.session)
        app_close(&a);
    if (b.session)
        app_close(&b);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static struct cqe completes(struct app_cq *cq, uint64_t wr_id, enum wc_status status)
{
    struct cqe e;

    assert_true(app_poll(cq, &e));
    assert_int_equal(e.wr_id, wr_id);
    assert_int_equal(e.status, status);
    return e;
}

static void completes_nothing(struct app_cq *cq)
{
    struct cqe e;

    assert_false(app_poll(cq, &e));
}

static bool event_of(struct app *app, uint32_t type, uint64_t element)
{
    struct ctl_async_event e;

    return app_event(app, loop, &e) && e.type == type && e.element == element;
}

static void no_event(struct app *app)
{
    struct ctl_async_event e;

    assert_false(app_event(app, loop, &e));
}

/* ---- shared receive queues ---- */

/* A UD queue pair on srq that sends to itself. */
static void ud_on_srq(struct app_qp *qp, const struct app_srq *srq, uint32_t *ah)
{
    assert_int_equal(app_qp(&a, qp, QPT_UD, &cq_a, srq->layout.handle, 0), 0);
    app_ready(qp, 0, 0);
    app_ah(&a, a.pd, "127.0.0.1", ah);
}

static struct sqe datagram(uint64_t wr_id, uint32_t ah, uint32_t qpn)
{
    struct sqe wr = {.wr_id = wr_id, .opcode = SQE_SEND};

    wr.ud.ah = ah;
    wr.ud.remote_qpn = qpn;
    wr.ud.remote_qkey = APP_QKEY;
    return wr;
}

/* Sends one datagram, which takes the SRQ's entry recv. */
static void one_datagram(struct app_qp *qp, uint32_t ah, uint64_t recv)
{
    struct cqe e[2];

    app_send(qp, datagram(1000, ah, qp->qpn), 0, 8);
    assert_true(app_poll(&cq_a, &e[0]));
    assert_true(app_poll(&cq_a, &e[1]));
    if (e[0].opcode == WC_RECV) /* either first */
        e[0] = e[1].wr_id == 1000 ? e[0] : e[1];
    else
        e[0] = e[1];
    assert_int_equal(e[0].wr_id, recv);
    assert_int_equal(e[0].status, WC_SUCCESS);
    assert_int_equal(e[0].byte_len, GRH + 8);
}

static void test_srq_limits(void **state)
{
    static const struct {
        uint32_t max_wr, max_sge, type;
        int status;
    } rows[] = {
        {1, 1, CTL_SRQ_BASIC, 0},
        {1, 0, CTL_SRQ_BASIC, 0},
        {QUEUE_MAX_WR, LIMIT_SGE, CTL_SRQ_BASIC, 0},
        {0, 1, CTL_SRQ_BASIC, -EINVAL},
        {QUEUE_MAX_WR + 1, 1, CTL_SRQ_BASIC, -EINVAL},
        {UINT32_MAX, 1, CTL_SRQ_BASIC, -EINVAL},
        {1, LIMIT_SGE + 1, CTL_SRQ_BASIC, -EINVAL},
        {1, UINT32_MAX, CTL_SRQ_BASIC, -EINVAL},
        {1, 1, CTL_SRQ_XRC, -EINVAL}, /* without domain and queue */
        {1, 1, 2, -EINVAL},
        {1, 1, UINT32_MAX, -EINVAL},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
        struct ctl_msg m = {.create_srq = {.pd = a.pd,
                                           .type = rows[i].type,
                                           .max_wr = rows[i].max_wr,
                                           .max_sge = rows[i].max_sge}};
        const struct ctl_create_srq *s = &m.create_srq;

        assert_int_equal(app_call(&a, CTL_CREATE_SRQ, &m), rows[i].status);
        if (rows[i].status)
            continue;
        assert_in_range(s->max_wr, rows[i].max_wr, QUEUE_MAX_WR);
        assert_in_range(s->max_sge, rows[i].max_sge, LIMIT_SGE);
        assert_true(rqe_stride(s->max_sge) <= s->stride);
        assert_true(s->ring_off + (uint64_t)s->size * s->stride <= s->segment_bytes);
        assert_int_equal(app_call_handle(&a, CTL_DESTROY_SRQ, s->handle), 0);
        assert_int_equal(app_call_handle(&a, CTL_DESTROY_SRQ, s->handle), -ENOENT);
    }
}

static void test_srq_limit_event(void **state)
{
    struct app_srq srq;
    struct app_qp qp;
    uint32_t ah;
    struct ctl_msg m;

    assert_int_equal(app_srq(&a, &srq, 16, 0, NULL), 0);
    ud_on_srq(&qp, &srq, &ah);
    for (unsigned i = 0; i < 6; i++)
        app_srq_recv(&srq, i, 4096, 256);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 5), 0);
    no_event(&a);
    one_datagram(&qp, ah, 0); /* five wait: not fewer than the limit */
    no_event(&a);
    one_datagram(&qp, ah, 1);
    assert_true(event_of(&a, QP_EVENT_SRQ_LIMIT_REACHED, 815));
    one_datagram(&qp, ah, 2); /* once only */
    no_event(&a);
    m = (struct ctl_msg){.handle = srq.layout.handle};
    assert_int_equal(app_call(&a, CTL_QUERY_SRQ, &m), 0);
    assert_int_equal(m.create_srq.limit, 0);
    assert_int_equal(m.create_srq.max_wr, 16);

    /* Armed above the number of waiting WQEs: the event comes at once. */
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 4), 0);
    assert_true(event_of(&a, QP_EVENT_SRQ_LIMIT_REACHED, 815));
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 3), 0);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 0), 0); /* disarmed */
    one_datagram(&qp, ah, 3);
    no_event(&a);
    no_event(&b);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 17), -EINVAL);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, UINT32_MAX), -EINVAL);
    assert_int_equal(app_srq_modify(&srq, 4, 0, 0), -EINVAL);
}

static void test_srq_empty_drops_datagrams(void **state)
{
    struct app_srq srq;
    struct app_qp qp;
    uint32_t ah;

    assert_int_equal(app_srq(&a, &srq, 1, 0, NULL), 0);
    ud_on_srq(&qp, &srq, &ah);
    app_send(&qp, datagram(1, ah, qp.qpn), 0, 8);
    completes(&cq_a, 1, WC_SUCCESS);
    completes_nothing(&cq_a);
    app_srq_recv(&srq, 7, 4096, 256);
    one_datagram(&qp, ah, 7);
}

/* Waiting WQEs keep their order through resizes, up and down, at every index. */
static void test_srq_resize(void **state)
{
    static const uint32_t sizes[] = {16, 64, 8, 4, 1024, 4};
    struct app_srq srq;
    struct app_qp qp;
    uint32_t ah, handle;
    uint64_t posted = 0, taken = 0;

    assert_int_equal(app_srq(&a, &srq, 4, 0, NULL), 0);
    handle = srq.layout.handle;
    ud_on_srq(&qp, &srq, &ah);
    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        while (posted - taken < 4)
            app_srq_recv(&srq, posted++, 4096, 256);
        one_datagram(&qp, ah, taken++);
        assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 2, 0), -EINVAL); /* 3 wait */
        assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, sizes[i], 0), 0);
        assert_int_equal(srq.layout.handle, handle);
        assert_int_equal(srq.layout.max_wr, sizes[i]);
        one_datagram(&qp, ah, taken++);
        app_srq_recv(&srq, posted++, 4096, 256);
    }
    while (taken < posted)
        one_datagram(&qp, ah, taken++);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 0, 0), -EINVAL);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, QUEUE_MAX_WR + 1, 0), -EINVAL);
    /* Both at once: the limit is checked against the new size. */
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR | CTL_SRQ_LIMIT, 2, 3), -EINVAL);
    assert_int_equal(srq.layout.max_wr, 4);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR | CTL_SRQ_LIMIT, 32, 20), 0);
    assert_true(event_of(&a, QP_EVENT_SRQ_LIMIT_REACHED, 815));
}

/* A queue is not made smaller than its limit: it would be below it with every WQE posted. */
static void test_srq_resize_below_limit(void **state)
{
    struct app_srq srq;

    assert_int_equal(app_srq(&a, &srq, 32, 0, NULL), 0);
    for (uint64_t i = 0; i < 8; i++)
        app_srq_recv(&srq, i, 4096, 256);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 8), 0);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 7, 0), -EINVAL);
    assert_int_equal(srq.layout.max_wr, 32);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 8, 0), 0);
    assert_int_equal(srq.layout.max_wr, 8);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 64, 0), 0);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 0), 0);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 8, 0), 0);
}

/* An invalid index harms only its own application: its queue pair fails, and the ring is not read,
 * not even by a resize. */
static void test_srq_index_out_of_range(void **state)
{
    struct app_srq srq;
    struct app_qp qp;
    struct srq_shared *shared;
    uint32_t ah;

    assert_int_equal(app_srq(&a, &srq, 4, 0, NULL), 0);
    ud_on_srq(&qp, &srq, &ah);
    shared = srq_object_get(a.session, srq.layout.handle)->segment.base;
    atomic_store(&shared->prod, 0x80000000);
    app_send(&qp, datagram(1, ah, qp.qpn), 0, 8);
    completes(&cq_a, 1, WC_SUCCESS);
    app_run(&a);
    assert_true(event_of(&a, QP_EVENT_QP_FATAL, 4711));
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_MAX_WR, 16, 0), 0);
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 3), 0);
}

static void test_last_wqe_reached(void **state)
{
    struct app_srq srq;
    struct app_qp qp;
    uint32_t ah;

    assert_int_equal(app_srq(&a, &srq, 4, 0, NULL), 0);
    ud_on_srq(&qp, &srq, &ah);
    app_srq_recv(&srq, 1, 4096, 256);
    assert_int_equal(app_modify(&qp, QPA_STATE, (struct qp_attr){.state = QPS_ERR}), 0);
    assert_true(event_of(&a, QP_EVENT_LAST_WQE_REACHED, 4711));
    completes_nothing(&cq_a); /* the WQE is for the others */
    assert_int_equal(srq_waiting(srq_object_get(a.session, srq.layout.handle)->srq), 1);
}

/* ---- what keeps what ---- */

static void test_references(void **state)
{
    struct app_srq basic, xrc;
    struct app_qp on_srq, receiver;
    struct ctl_msg m = {0};
    uint32_t domain, ah, ah_handle;

    assert_int_equal(app_call(&a, CTL_OPEN_XRCD, &m), 0);
    domain = m.open_xrcd.handle;
    assert_int_equal(app_srq(&a, &basic, 4, 0, NULL), 0);
    assert_int_equal(app_srq(&a, &xrc, 4, domain, &cq_a), 0);
    assert_int_equal(app_qp(&a, &on_srq, QPT_RC, &cq_b, basic.layout.handle, 0), -EINVAL);
    assert_int_equal(app_qp(&a, &on_srq, QPT_RC, &cq_a, xrc.layout.handle, 0), -EINVAL);
    assert_int_equal(app_qp(&a, &on_srq, QPT_XRC_SEND, &cq_a, basic.layout.handle, 0), -EINVAL);
    assert_int_equal(app_qp(&a, &on_srq, QPT_RC, &cq_a, basic.layout.handle, 0), 0);
    assert_int_equal(on_srq.layout.caps.max_recv_wr, 0);
    assert_int_equal(app_qp(&a, &receiver, QPT_XRC_RECV, NULL, 0, 0), -EINVAL);
    assert_int_equal(app_qp(&a, &receiver, QPT_XRC_RECV, NULL, 0, domain), 0);
    ah_handle = app_ah(&a, a.pd, "127.0.0.1", &ah);

    assert_int_equal(app_call_handle(&a, CTL_DESTROY_SRQ, basic.layout.handle), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, on_srq.qpn), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_SRQ, basic.layout.handle), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_CQ, cq_a.handle), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, domain), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_SRQ, xrc.layout.handle), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_CQ, cq_a.handle), 0);
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, domain), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, receiver.qpn), 0);
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, domain), 0);
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, domain), -ENOENT);

    m = (struct ctl_msg){.alloc_mw = {.pd = a.pd, .type = 1}};
    assert_int_equal(app_call(&a, CTL_ALLOC_MW, &m), 0);
    assert_int_equal(app_call_handle(&a, CTL_DEREG_MR, a.mr), 0);
    assert_int_equal(app_call_handle(&a, CTL_DEALLOC_PD, a.pd), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_DEALLOC_MW, m.alloc_mw.handle), 0);
    assert_int_equal(app_call_handle(&a, CTL_DEALLOC_PD, a.pd), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_AH, ah_handle), 0);
    assert_int_equal(app_call_handle(&a, CTL_DEALLOC_PD, a.pd), 0);
}

static void test_foreign_handles(void **state)
{
    struct app_srq srq;
    struct app_qp qp;
    struct ctl_msg m = {0};
    uint32_t domain, window;

    assert_int_equal(app_call(&a, CTL_OPEN_XRCD, &m), 0);
    domain = m.open_xrcd.handle;
    m = (struct ctl_msg){.alloc_mw = {.pd = a.pd, .type = 2}};
    assert_int_equal(app_call(&a, CTL_ALLOC_MW, &m), 0);
    window = m.alloc_mw.handle;
    assert_int_equal(app_srq(&a, &srq, 4, 0, NULL), 0);
    assert_int_equal(app_qp(&a, &qp, QPT_UD, &cq_a, 0, 0), 0);

    assert_int_equal(app_call_handle(&b, CTL_DESTROY_SRQ, srq.layout.handle), -ENOENT);
    assert_int_equal(app_call_handle(&b, CTL_QUERY_SRQ, srq.layout.handle), -EINVAL);
    assert_int_equal(app_call_handle(&b, CTL_CLOSE_XRCD, domain), -ENOENT);
    assert_int_equal(app_call_handle(&b, CTL_DEALLOC_MW, window), -ENOENT);
    m = (struct ctl_msg){.alloc_mw = {.pd = a.pd, .type = 1}};
    assert_int_equal(app_call(&b, CTL_ALLOC_MW, &m), -EINVAL);
    m = (struct ctl_msg){.mcast = {.qpn = qp.qpn, .gid = {0xff, 2}}};
    assert_int_equal(app_call(&b, CTL_ATTACH_MCAST, &m), -EINVAL);
    srq.app = &b;
    assert_int_equal(app_srq_modify(&srq, CTL_SRQ_LIMIT, 0, 1), -EINVAL);
    assert_int_equal(app_qp(&b, &qp, QPT_UD, &cq_b, srq.layout.handle, 0), -EINVAL);
    assert_int_equal(app_qp(&b, &qp, QPT_XRC_RECV, NULL, 0, domain), -EINVAL);
    assert_int_equal(app_srq(&b, &srq, 4, domain, &cq_b), -EINVAL);
}

/* ---- XRC ---- */

static int open_domain(struct app *app, int fd, uint32_t oflags, uint32_t *handle)
{
    struct ctl_msg m = {.open_xrcd = {.oflags = oflags}};
    int status = app_call_fd(app, CTL_OPEN_XRCD, &m, fd);

    *handle = m.open_xrcd.handle;
    return status;
}

static uint32_t id_of(uint32_t handle)
{
    struct object *o = object_get(a.session, OBJ_XRCD, handle);

    return container_of(o, struct xrcd, o)->domain->id;
}

/* Ids come again after 2^32 domains, and never one that is in use. */
static void test_xrc_ids(void **state)
{
    uint32_t x[4];

    assert_int_equal(open_domain(&a, -1, O_CREAT, &x[0]), 0);
    assert_int_equal(open_domain(&a, -1, O_CREAT, &x[1]), 0);
    a.session->device->xrc_domains_made += UINT32_MAX;
    a.session->device->xrc_domains_made -= 3;
    assert_int_equal(open_domain(&a, -1, O_CREAT, &x[2]), 0);
    assert_int_equal(id_of(x[2]), UINT32_MAX);
    assert_int_equal(open_domain(&a, -1, O_CREAT, &x[3]), 0);
    assert_int_equal(id_of(x[3]), 3);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, x[i]), 0);
}

static void test_xrc_domains(void **state)
{
    int file = memfd_create("domain", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
    uint32_t x, y, z;

    assert_true(file >= 0 && other >= 0);
    assert_int_equal(open_domain(&a, file, 0, &x), -ENOENT);
    assert_int_equal(open_domain(&a, file, 1u << 31, &x), -EINVAL);
    assert_int_equal(open_domain(&a, file, O_CREAT, &x), 0);
    assert_int_equal(open_domain(&b, file, O_CREAT | O_EXCL, &y), -EEXIST);
    assert_int_equal(open_domain(&b, file, 0, &y), 0);
    assert_int_equal(open_domain(&b, other, 0, &z), -ENOENT);
    assert_int_equal(open_domain(&b, other, O_CREAT | O_EXCL, &z), 0);
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, x), 0);
    assert_int_equal(open_domain(&a, file, 0, &x), 0); /* b keeps it */
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, x), 0);
    assert_int_equal(app_call_handle(&b, CTL_CLOSE_XRCD, y), 0);
    assert_int_equal(open_domain(&a, file, 0, &x), -ENOENT); /* it was freed with the last one */
    assert_int_equal(open_domain(&a, -1, 0, &x), 0);
    assert_int_equal(open_domain(&b, -1, 0, &y), 0);
    close(file);
    close(other);
}

/* O_PATH needs no permission for the file; it must not open the domain of one that may not be read.
 */
static void test_xrc_domain_of_a_path(void **state)
{
    int file = memfd_create("domain", MFD_CLOEXEC), path;
    char name[32];
    uint32_t x, y;

    snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
    path = open(name, O_PATH | O_CLOEXEC);
    assert_true(file >= 0 && path >= 0);
    assert_int_equal(open_domain(&a, path, O_CREAT, &x), -EBADF);
    assert_int_equal(open_domain(&a, file, O_CREAT, &x), 0);
    assert_int_equal(open_domain(&b, path, 0, &y), -EBADF);
    assert_int_equal(open_domain(&b, file, 0, &y), 0);
    close(path);
    close(file);
}

/* How many descriptors of this process lead to the inode. */
static unsigned descriptors_of(ino_t ino)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;

        n += !fstat(fd, &st) && st.st_ino == ino;
    }
    return n;
}

/* The number of an inode that no descriptor holds would be another file's next. */
static void test_xrc_domain_keeps_its_file(void **state)
{
    char name[] = "/tmp/test_device_services.XXXXXX";
    int file = mkstemp(name);
    struct stat st;
    uint32_t x, y;

    assert_true(file >= 0);
    unlink(name);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(open_domain(&a, file, O_CREAT, &x), 0);
    assert_int_equal(open_domain(&b, file, 0, &y), 0);
    close(file);
    assert_int_equal(descriptors_of(st.st_ino), 1);
    assert_int_equal(app_call_handle(&a, CTL_CLOSE_XRCD, x), 0);
    assert_int_equal(descriptors_of(st.st_ino), 1);
    assert_int_equal(app_call_handle(&b, CTL_CLOSE_XRCD, y), 0);
    while (descriptors_of(st.st_ino)) /* another thread closes it */
        event_loop_step(loop, 10);
}

/* A sender of b's, a receive side of b's, and an SRQ of a's, in one domain. */
struct xrc {
    uint32_t domain_a, domain_b;
    struct app_srq srq;
    struct app_qp sender, receiver;
};

static struct xrc xrc_start(uint32_t mtu_code)
{
    int file = memfd_create("domain", MFD_CLOEXEC);
    struct xrc x;

    assert_int_equal(open_domain(&a, file, O_CREAT, &x.domain_a), 0);
    assert_int_equal(open_domain(&b, file, O_CREAT, &x.domain_b), 0);
    close(file);
    assert_int_equal(app_srq(&a, &x.srq, 4, x.domain_a, &cq_a), 0);
    assert_int_equal(app_qp(&b, &x.receiver, QPT_XRC_RECV, NULL, 0, x.domain_b), 0);
    assert_int_equal(app_qp(&b, &x.sender, QPT_XRC_SEND, &cq_b, 0, 0), 0);
    app_ready(&x.receiver, x.sender.qpn, mtu_code);
    app_ready(&x.sender, x.receiver.qpn, mtu_code);
    return x;
}

static struct sqe to_srq(uint64_t wr_id, uint32_t srqn)
{
    return (struct sqe){.wr_id = wr_id, .opcode = SQE_SEND, .remote_srqn = srqn};
}

static void test_xrc_between_processes(void **state)
{
    struct xrc x = xrc_start(5);
    struct cqe e;

    app_srq_recv(&x.srq, 5, 8192, 4096);
    app_send(&x.sender, to_srq(1, x.srq.layout.handle), 0, 4000);
    completes(&cq_b, 1, WC_SUCCESS);
    e = completes(&cq_a, 5, WC_SUCCESS);
    assert_int_equal(e.byte_len, 4000);
    assert_int_equal(e.qpn, x.receiver.qpn);
    assert_int_equal(e.uidx, CQE_UIDX_NONE);
    assert_memory_equal(kit_memory, kit_memory + 8192, 4000);
}

/* An SRQ of another domain, a basic one, and none: as if it did not exist. */
static void test_xrc_wrong_srq(void **state)
{
    struct xrc x = xrc_start(5);
    const struct engine_counters *counters = engine_counters(a.session->device->port[0]->engine);
    struct app_srq other, basic;
    uint32_t domain;

    assert_int_equal(open_domain(&a, -1, 0, &domain), 0);
    assert_int_equal(app_srq(&a, &other, 4, domain, &cq_a), 0);
    assert_int_equal(app_srq(&a, &basic, 4, 0, NULL), 0);
    app_srq_recv(&other, 5, 8192, 4096);
    app_srq_recv(&basic, 6, 8192, 4096);
    app_send(&x.sender, to_srq(1, other.layout.handle), 0, 100);
    app_send(&x.sender, to_srq(2, basic.layout.handle), 0, 100);
    app_send(&x.sender, to_srq(3, 0), 0, 100);
    app_send(&x.sender, to_srq(4, UINT32_MAX), 0, 100);
    app_run(&b);
    assert_int_equal(counter_get(&counters->drop[DROP_xrc_srq_mismatch]), 4);
    completes_nothing(&cq_a);
}

/* Part of a message of 256 packets has arrived. */
static struct xrc half_received(void)
{
    struct xrc x = xrc_start(1);
    struct qp_object *q = qp_object_get(b.session, x.receiver.qpn);

    /* So that they cannot all be in flight. */
    qp_object_get(b.session, x.sender.qpn)->dp.qp->req.window = 128;
    app_srq_recv(&x.srq, 5, 0, KIT_BYTES);
    app_send(&x.sender, to_srq(1, x.srq.layout.handle), 0, KIT_BYTES);
    for (unsigned i = 0; counter_get(&qp_counters(q->dp.qp)->rx_packets) < 8; i++) {
        assert_true(i < 1000);
        worker_poll(a.session->device->workers[0], worker_time());
    }
    assert_true(counter_get(&qp_counters(q->dp.qp)->rx_packets) < 250);
    return x;
}

static void destroy_srq_and_cq(struct xrc *x)
{
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_SRQ, x->srq.layout.handle), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_CQ, cq_a.handle), 0);
    app_cq(&a, &cq_a, 64);
}

/* The SRQ is destroyed, then its completion queue, then the queue pair: no event is due any
 * more. */
static void test_xrc_srq_destroyed_in_mid_message(void **state)
{
    struct xrc x = half_received();

    destroy_srq_and_cq(&x);
    app_run(&b);
    assert_int_equal(app_srq(&a, &x.srq, 4, x.domain_a, &cq_a), 0);
    assert_int_equal(app_modify(&x.receiver, QPA_STATE, (struct qp_attr){.state = QPS_ERR}), 0);
    app_run(&b);
    completes_nothing(&cq_a);
    assert_int_equal(app_modify(&x.sender, QPA_STATE, (struct qp_attr){.state = QPS_ERR}), 0);
    completes(&cq_b, 1, WC_WR_FLUSH_ERR);
}

/* The same, and the peer continues with another SRQ, as no correct peer does. */
static void test_xrc_srq_changed_in_mid_message(void **state)
{
    struct xrc x = half_received();
    struct qp *sender = qp_object_get(b.session, x.sender.qpn)->dp.qp;
    struct app_srq next;

    destroy_srq_and_cq(&x);
    assert_int_equal(app_srq(&a, &next, 4, x.domain_a, &cq_a), 0);
    app_srq_recv(&next, 6, 0, KIT_BYTES);
    slot_at(&sender->req, sender->req.tail)->wqe.h.remote_srqn = next.layout.handle;
    completes(&cq_b, 1, WC_REM_INV_REQ_ERR);
    completes_nothing(&cq_a);
    assert_int_equal(qp_current_state(qp_object_get(b.session, x.receiver.qpn)->dp.qp), QPS_ERR);
    assert_true(event_of(&b, QP_EVENT_QP_REQ_ERR, 4711));
}

static void test_xrc_owner_dies_in_mid_message(void **state)
{
    half_received();
    app_close(&a);
    app_run(&b);
    completes_nothing(&cq_b); /* the sender still tries */
}

static void test_xrc_peer_dies_in_mid_message(void **state)
{
    half_received();
    app_close(&b);
    app_run(&a);
    completes_nothing(&cq_a);
}

/* ---- memory windows ---- */

static uint32_t alloc_mw(uint32_t type, uint32_t *rkey)
{
    struct ctl_msg m = {.alloc_mw = {.pd = a.pd, .type = type}};

    assert_int_equal(app_call(&a, CTL_ALLOC_MW, &m), 0);
    *rkey = m.alloc_mw.rkey;
    return m.alloc_mw.handle;
}

/* Windows are bound on `to`, and used by its peer. */
struct pair {
    struct app_qp to, from;
};

static void connect_rc(struct pair *p)
{
    assert_int_equal(app_qp(&a, &p->to, QPT_RC, &cq_a, 0, 0), 0);
    assert_int_equal(app_qp(&a, &p->from, QPT_RC, &cq_a, 0, 0), 0);
    app_ready(&p->to, p->from.qpn, 5);
    app_ready(&p->from, p->to.qpn, 5);
}

static void bind_window(struct pair *p, uint32_t *rkey, uint64_t off, uint64_t len, uint32_t access)
{
    struct sqe wr = {
        .wr_id = 1, .opcode = SQE_BIND_MW, .remote_addr = KIT_BASE + off, .rkey = *rkey};

    wr.imm = *rkey = (*rkey & ~0xFFu) | ((*rkey + 1) & 0xFF);
    wr.bind.length = len;
    wr.bind.region_key = a.key;
    wr.bind.access = access;
    app_post(&p->to, wr);
    assert_int_equal(completes(&cq_a, 1, WC_SUCCESS).opcode, WC_BIND_MW);
}

static void write_to(struct pair *p, uint32_t rkey, uint64_t off, uint32_t len,
                     enum wc_status status)
{
    struct sqe wr = {.wr_id = 2, .opcode = SQE_WRITE, .remote_addr = KIT_BASE + off, .rkey = rkey};

    app_send(&p->from, wr, 0, len);
    completes(&cq_a, 2, status);
}

static void test_window(uint32_t type)
{
    uint32_t rkey, window = alloc_mw(type, &rkey);
    struct pair p;

    connect_rc(&p);
    bind_window(&p, &rkey, 8192, 100, MEM_REMOTE_WRITE);
    write_to(&p, rkey, 8192, 100, WC_SUCCESS);
    assert_memory_equal(kit_memory, kit_memory + 8192, 100);
    assert_int_equal(app_call_handle(&a, CTL_DEREG_MR, a.mr), -EBUSY);
    write_to(&p, a.key, 8192, 100, WC_SUCCESS); /* and the region is as it was */
    assert_int_equal(app_call_handle(&a, CTL_DEALLOC_MW, window), 0);
    assert_int_equal(app_call_handle(&a, CTL_DEALLOC_MW, window), -ENOENT);
    write_to(&p, rkey, 8192, 100, WC_REM_ACCESS_ERR);
    assert_int_equal(app_call_handle(&a, CTL_DEREG_MR, a.mr), 0);
}

static void test_window_type_1(void **state)
{
    test_window(1);
}

static void test_window_type_2(void **state)
{
    test_window(2);
}

/* A type 2 window serves the queue pair it was bound on, a type 1 window all of the domain. */
static void test_window_and_other_queue_pair(void **state)
{
    uint32_t one, two;
    struct pair first, second;

    alloc_mw(1, &one);
    alloc_mw(2, &two);
    connect_rc(&first);
    connect_rc(&second);
    bind_window(&first, &one, 0, 4096, MEM_REMOTE_WRITE);
    bind_window(&first, &two, 0, 4096, MEM_REMOTE_WRITE);
    write_to(&first, two, 0, 8, WC_SUCCESS);
    write_to(&second, one, 0, 8, WC_SUCCESS);
    write_to(&second, two, 0, 8, WC_REM_ACCESS_ERR);
}

static void test_window_refused(void **state)
{
    struct ctl_msg m = {.alloc_mw = {.pd = a.pd}};
    struct sqe wr = {.wr_id = 1, .opcode = SQE_BIND_MW, .remote_addr = KIT_BASE};
    uint32_t rkey;
    struct pair p;

    assert_int_equal(app_call(&a, CTL_ALLOC_MW, &m), -EINVAL);
    m = (struct ctl_msg){.alloc_mw = {.pd = a.pd, .type = 3}};
    assert_int_equal(app_call(&a, CTL_ALLOC_MW, &m), -EINVAL);
    alloc_mw(1, &rkey);
    connect_rc(&p);
    wr.rkey = wr.imm = rkey;
    wr.bind.length = KIT_BYTES + 1;
    wr.bind.region_key = a.key;
    app_post(&p.to, wr);
    completes(&cq_a, 1, WC_MW_BIND_ERR);
    assert_int_equal(app_call_handle(&a, CTL_DEREG_MR, a.mr), 0);
}

/* By the peer, with a message. */
static void test_send_with_invalidate(void **state)
{
    uint32_t rkey;
    struct pair p;
    struct sqe wr = {.wr_id = 3, .opcode = SQE_SEND_INV};
    struct cqe e;

    alloc_mw(2, &rkey);
    connect_rc(&p);
    bind_window(&p, &rkey, 0, 4096, MEM_REMOTE_WRITE);
    app_recv(&p.to, 4, 8192, 4096);
    wr.imm = rkey;
    app_send(&p.from, wr, 0, 10);
    e = completes(&cq_a, 4, WC_SUCCESS);
    assert_int_equal(e.wc_flags & WC_WITH_INV, WC_WITH_INV);
    assert_int_equal(e.imm, rkey);
    completes(&cq_a, 3, WC_SUCCESS);
    assert_int_equal(app_call_handle(&a, CTL_DEREG_MR, a.mr), 0); /* nothing is bound any more */
}

static void test_windows_of_a_dead_process(void **state)
{
    uint32_t one, two;
    struct pair p;

    alloc_mw(1, &one);
    alloc_mw(2, &two);
    connect_rc(&p);
    bind_window(&p, &one, 0, 4096, MEM_REMOTE_WRITE);
    bind_window(&p, &two, 64, 4096, MEM_REMOTE_READ);
    app_close(&a);
    app_run(&b);
}

/* ---- multicast ---- */

static int mcast(struct app_qp *qp, enum ctl_type type, const char *group)
{
    struct ctl_msg m = {.mcast = {.qpn = qp->qpn}};
    union gid gid;

    assert_int_equal(gid_parse(&gid, group), 0);
    memcpy(m.mcast.gid, gid.raw, sizeof(gid.raw));
    return app_call(qp->app, type, &m);
}

static void ud(struct app *app, struct app_cq *cq, struct app_qp *qp)
{
    assert_int_equal(app_qp(app, qp, QPT_UD, cq, 0, 0), 0);
    app_ready(qp, 0, 0);
}

static void test_multicast(void **state)
{
    struct app_cq cq[4];
    struct app *const app[4] = {&a, &a, &b, &b};
    struct app_qp member[4], sender;
    uint32_t ah;
    struct cqe e;

    for (unsigned i = 0; i < 4; i++) {
        app_cq(app[i], &cq[i], 16);
        ud(app[i], &cq[i], &member[i]);
        for (unsigned n = 0; n < 2; n++)
            app_recv(&member[i], 10 * i + n, 8192 + 1024 * i, 1024);
        if (i < 3) /* the fourth is in another group */
            assert_int_equal(mcast(&member[i], CTL_ATTACH_MCAST, "224.0.0.7"), 0);
    }
    assert_int_equal(mcast(&member[3], CTL_ATTACH_MCAST, "224.0.0.8"), 0);
    ud(&b, &cq_b, &sender);
    app_ah(&b, b.pd, "224.0.0.7", &ah);
    app_send(&sender, datagram(1, ah, 0xFFFFFF), 100, 500);
    completes(&cq_b, 1, WC_SUCCESS);
    for (unsigned i = 0; i < 3; i++) {
        e = completes(&cq[i], 10 * i, WC_SUCCESS);
        assert_int_equal(e.byte_len, GRH + 500);
        assert_int_equal(e.src_qpn, sender.qpn);
        assert_int_equal(e.qpn, member[i].qpn);
        assert_memory_equal(kit_memory + 100, kit_memory + 8192 + 1024 * i + GRH, 500);
    }
    completes_nothing(&cq[3]);

    /* One leaves, one is destroyed: the others still get their copies. */
    assert_int_equal(mcast(&member[0], CTL_DETACH_MCAST, "224.0.0.7"), 0);
    assert_int_equal(app_modify(&member[1], QPA_STATE, (struct qp_attr){.state = QPS_ERR}), 0);
    app_send(&sender, datagram(2, ah, 0xFFFFFF), 100, 500);
    completes(&cq_b, 2, WC_SUCCESS);
    completes(&cq[2], 21, WC_SUCCESS);
    completes_nothing(&cq[0]);
    completes(&cq[1], 11, WC_WR_FLUSH_ERR);
    completes_nothing(&cq[1]);

    /* Another key. */
    {
        struct sqe wr = datagram(3, ah, 0xFFFFFF);

        app_recv(&member[2], 22, 8192, 1024);
        wr.ud.remote_qkey = APP_QKEY + 1;
        app_send(&sender, wr, 100, 500);
        completes(&cq_b, 3, WC_SUCCESS);
        completes_nothing(&cq[2]);
    }
    app_close(&a);
    app_send(&sender, datagram(4, ah, 0xFFFFFF), 100, 500);
    completes(&cq_b, 4, WC_SUCCESS);
    completes(&cq[2], 22, WC_SUCCESS);
}

/* A flow label has 20 bits; UCX sets all 32. */
static void test_long_flow_label(void **state)
{
    struct ah_attr attr = app_address("127.0.0.1");
    struct app_qp sender, receiver;
    uint32_t ah;

    ud(&a, &cq_a, &receiver);
    ud(&b, &cq_b, &sender);
    attr.flow_label = UINT32_MAX;
    app_ah_by(&b, b.pd, attr, &ah);
    app_recv(&receiver, 1, 8192, 1024);
    app_send(&sender, datagram(2, ah, receiver.qpn), 100, 500);
    completes(&cq_b, 2, WC_SUCCESS);
    completes(&cq_a, 1, WC_SUCCESS);
}

static void test_multicast_membership(void **state)
{
    struct app_qp qp;
    struct pair p;

    ud(&a, &cq_a, &qp);
    connect_rc(&p);
    assert_int_equal(mcast(&p.to, CTL_ATTACH_MCAST, "224.0.0.7"), -EINVAL);
    assert_int_equal(mcast(&qp, CTL_ATTACH_MCAST, "10.0.0.7"), -EINVAL);
    assert_int_equal(mcast(&qp, CTL_DETACH_MCAST, "224.0.0.7"), -EINVAL);
    assert_int_equal(mcast(&qp, CTL_ATTACH_MCAST, "224.0.0.7"), 0);
    assert_int_equal(mcast(&qp, CTL_ATTACH_MCAST, "224.0.0.7"), 0); /* as if once */
    assert_int_equal(mcast(&qp, CTL_ATTACH_MCAST, "ff02::7"), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qp.qpn), -EBUSY);
    assert_int_equal(mcast(&qp, CTL_DETACH_MCAST, "224.0.0.7"), 0);
    assert_int_equal(mcast(&qp, CTL_DETACH_MCAST, "224.0.0.7"), -EINVAL);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qp.qpn), -EBUSY);
    assert_int_equal(mcast(&qp, CTL_DETACH_MCAST, "ff02::7"), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qp.qpn), 0);
}

/* ---- address handles ---- */

/* A handle of another domain, a destroyed one, one that never existed: the request fails, and no
 * other. */
static void test_wrong_address_handles(void **state)
{
    struct ctl_msg m = {0};
    struct app_qp qp;
    uint32_t number[4], gone;

    assert_int_equal(app_call(&a, CTL_ALLOC_PD, &m), 0);
    app_ah(&a, m.handle, "127.0.0.1", &number[0]);
    app_ah(&b, b.pd, "127.0.0.1", &number[1]);
    gone = app_ah(&a, a.pd, "127.0.0.1", &number[2]);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_AH, gone), 0);
    number[3] = UINT32_MAX;
    ud(&a, &cq_a, &qp);
    for (unsigned i = 0; i < ARRAY_SIZE(number); i++) {
        app_send(&qp, datagram(i, number[i], qp.qpn), 0, 8);
        completes(&cq_a, i, WC_LOC_QP_OP_ERR);
        assert_int_equal(qp_current_state(qp_object_get(a.session, qp.qpn)->dp.qp), QPS_SQE);
        assert_int_equal(app_modify(&qp, QPA_STATE, (struct qp_attr){.state = QPS_RTS}), 0);
    }
    completes_nothing(&cq_a);
}

/* ---- READs and atomics of the peer ---- */

static int to_rtr(struct app_qp *qp, uint8_t reads)
{
    uint32_t mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                    QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
    struct qp_attr attr = {.state = QPS_INIT, .port_num = 1, .access_flags = MEM_REMOTE_READ};

    assert_int_equal(app_modify(qp, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, attr),
                     0);
    attr = (struct qp_attr){.state = QPS_RTR,
                            .path_mtu = 5,
                            .dest_qpn = qp->qpn,
                            .max_dest_rd_atomic = reads,
                            .ah = app_address("127.0.0.1")};
    return app_modify(qp, mask, attr);
}

/* Each queue pair is charged for 16; those that ask for more, for these. */
static void test_reads_are_charged(void **state)
{
    const uint64_t *memory = &a.session->account.used[QUOTA_MEMORY];
    const uint64_t more = qp_memory_reads(128) - qp_memory_reads(16);
    struct qp_attr reset = {.state = QPS_RESET};
    uint64_t before = *memory, created;
    struct app_qp qp;

    assert_int_equal(app_qp(&a, &qp, QPT_RC, &cq_a, 0, 0), 0);
    created = *memory;
    assert_int_equal(to_rtr(&qp, 16), 0);
    assert_int_equal(*memory, created);
    assert_int_equal(app_modify(&qp, QPA_STATE, reset), 0);
    assert_int_equal(to_rtr(&qp, 129), -EINVAL);
    assert_int_equal(*memory, created);
    assert_int_equal(app_modify(&qp, QPA_STATE, reset), 0);
    rnic->quota.limit[QUOTA_MEMORY].client = created + more - 1;
    assert_int_equal(to_rtr(&qp, 128), -ENOMEM);
    assert_int_equal(*memory, created);
    rnic->quota.limit[QUOTA_MEMORY].client = created + more;
    assert_int_equal(app_modify(&qp, QPA_STATE, reset), 0);
    assert_int_equal(to_rtr(&qp, 128), 0);
    assert_int_equal(*memory, created + more);
    assert_int_equal(app_modify(&qp, QPA_STATE, reset), 0);
    assert_int_equal(to_rtr(&qp, 100), 0); /* it keeps the charge */
    assert_int_equal(*memory, created + more);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qp.qpn), 0);
    assert_true(*memory >= before && *memory < created); /* the slab may stay */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_srq_limits),
        T(test_srq_limit_event),
        T(test_srq_empty_drops_datagrams),
        T(test_srq_resize),
        T(test_srq_resize_below_limit),
        T(test_srq_index_out_of_range),
        T(test_last_wqe_reached),
        T(test_reads_are_charged),
        T(test_references),
        T(test_foreign_handles),
        T(test_xrc_domains),
        T(test_xrc_ids),
        T(test_xrc_domain_of_a_path),
        T(test_xrc_domain_keeps_its_file),
        T(test_xrc_between_processes),
        T(test_xrc_wrong_srq),
        T(test_xrc_srq_destroyed_in_mid_message),
        T(test_xrc_srq_changed_in_mid_message),
        T(test_xrc_owner_dies_in_mid_message),
        T(test_xrc_peer_dies_in_mid_message),
        T(test_window_type_1),
        T(test_window_type_2),
        T(test_window_and_other_queue_pair),
        T(test_window_refused),
        T(test_send_with_invalidate),
        T(test_windows_of_a_dead_process),
        T(test_multicast),
        T(test_long_flow_label),
        T(test_multicast_membership),
        T(test_wrong_address_handles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
