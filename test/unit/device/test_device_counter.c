/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion counters, as applications get them from the daemon: which there are, and what they
 * count. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_app.h"
#include "engine_private.h"
#include "objects/counter_object.h"

#define LEN  48u
#define GRH  40u
#define MTU  3 /* 1024 bytes */
#define LONG 5000u

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
    app_open(&a, rnic);
    app_open(&b, rnic);
    app_cq(&a, &cq_a, 256);
    app_cq(&b, &cq_b, 256);
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

/* ---- what a program does ---- */

struct counter {
    struct app *app;
    uint32_t handle;
    struct counter_reader reader;
};

static void counter_of(struct app *app, struct counter *c, uint32_t type)
{
    struct ctl_msg m = {.create_counter = {.type = type}};
    struct object *o;

    assert_int_equal(app_call(app, CTL_CREATE_COUNTER, &m), 0);
    o = object_get(app->session, OBJ_COUNTER, m.create_counter.handle);
    *c =
        (struct counter){.app = app,
                         .handle = m.create_counter.handle,
                         .reader = {.line = container_of(o, struct counter_object, o)->segment.base,
                                    .lines = m.create_counter.lanes}};
}

static int attach_by(struct app *app, uint32_t handle, uint32_t qpn, uint32_t what)
{
    struct ctl_msg m = {.attach_counter = {.qpn = qpn, .counter = handle, .what = what}};

    return app_call(app, CTL_ATTACH_COUNTER, &m);
}

static void attach(const struct counter *c, const struct app_qp *qp, uint32_t what)
{
    assert_int_equal(attach_by(c->app, c->handle, qp->qpn, what), 0);
}

static int destroy(const struct counter *c)
{
    return app_call_handle(c->app, CTL_DESTROY_COUNTER, c->handle);
}

/* Counters of each kind of work of a queue pair. */
struct counters {
    struct counter of[QP_COUNTS];
};

static void count_all(struct counters *c, struct app_qp *qp, uint32_t type)
{
    for (unsigned i = 0; i < QP_COUNTS; i++) {
        counter_of(qp->app, &c->of[i], type);
        attach(&c->of[i], qp, 1u << i);
    }
}

static uint64_t done(const struct counters *c, enum qp_count what)
{
    return counter_reader_get(&c->of[__builtin_ctz(what)].reader, COUNTER_DONE);
}

static uint64_t failures(const struct counters *c, enum qp_count what)
{
    return counter_reader_get(&c->of[__builtin_ctz(what)].reader, COUNTER_FAILED);
}

/* What was counted in all since the queue pair was created. */
static void counted(const struct counters *c, const uint64_t expected[QP_COUNTS],
                    const uint64_t failed[QP_COUNTS])
{
    for (unsigned i = 0; i < QP_COUNTS; i++) {
        assert_int_equal(done(c, 1u << i), expected[i]);
        assert_int_equal(failures(c, 1u << i), failed[i]);
    }
}

/* ---- pairs of queue pairs ---- */

struct pair {
    struct app_qp at_a, at_b;
    struct counters of_a, of_b;
};

static void make_pair(struct pair *p, uint32_t type, uint32_t counts)
{
    assert_int_equal(app_qp(&a, &p->at_a, type, &cq_a, 0, 0), 0);
    assert_int_equal(app_qp(&b, &p->at_b, type, &cq_b, 0, 0), 0);
    count_all(&p->of_a, &p->at_a, counts);
    count_all(&p->of_b, &p->at_b, counts);
    app_ready(&p->at_a, p->at_b.qpn, MTU);
    app_ready(&p->at_b, p->at_a.qpn, MTU);
}

static void request(struct pair *p, enum sqe_op op, uint32_t len)
{
    struct sqe wr = {.opcode = (uint8_t)op, .remote_addr = KIT_BASE, .rkey = b.key};

    app_send(&p->at_a, wr, 8192, len);
    app_run(&a);
}

static void receive(struct pair *p)
{
    app_recv(&p->at_b, 1, 0, 2 * LONG);
}

/* One of each operation. */
static void one_of_each(struct pair *p, uint32_t len)
{
    receive(p);
    receive(p);
    receive(p);
    request(p, SQE_SEND, len);
    request(p, SQE_SEND_IMM, len);
    request(p, SQE_WRITE, len);
    request(p, SQE_WRITE_IMM, len);
    request(p, SQE_READ, len);
    request(p, SQE_FETCH_ADD, 8); /* counts as nothing */
}

/* Work requests of one packet, and of several. */
static void test_operations(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    static const uint32_t lens[] = {LEN, LONG, 0};
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
        uint64_t n = i + 1;

        one_of_each(&p, lens[i]);
        counted(&p.of_a, (uint64_t[]){2 * n, 0, n, 0, 2 * n, 0}, none);
        counted(&p.of_b, (uint64_t[]){0, 3 * n, 0, n, 0, 2 * n}, none);
    }
}

static void test_bytes(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    static const uint32_t lens[] = {LEN, LONG, 0};
    uint64_t n = 0;
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_BYTES);
    for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
        n += lens[i];
        one_of_each(&p, lens[i]);
        counted(&p.of_a, (uint64_t[]){2 * n, 0, n, 0, 2 * n, 0}, none);
        counted(&p.of_b, (uint64_t[]){0, 3 * n, 0, n, 0, 2 * n}, none);
    }
}

/* Nothing is acknowledged, and there are no READs. */
static void test_unreliable(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    struct pair p;

    make_pair(&p, QPT_UC, CTL_COUNTER_WRS);
    receive(&p);
    receive(&p);
    request(&p, SQE_SEND, LONG);
    request(&p, SQE_WRITE, LONG);
    request(&p, SQE_WRITE, LEN);
    request(&p, SQE_WRITE_IMM, LEN);
    counted(&p.of_a, (uint64_t[]){1, 0, 0, 0, 3, 0}, none);
    counted(&p.of_b, (uint64_t[]){0, 2, 0, 0, 0, 3}, none);
}

/* A datagram's receive has 40 bytes more, as its completion says. */
static void test_datagrams(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    struct counters c;
    struct app_qp qp;
    struct sqe wr = {.opcode = SQE_SEND};

    assert_int_equal(app_qp(&a, &qp, QPT_UD, &cq_a, 0, 0), 0);
    count_all(&c, &qp, CTL_COUNTER_BYTES);
    app_ready(&qp, 0, 0);
    app_ah(&a, a.pd, "127.0.0.1", &wr.ud.ah);
    wr.ud.remote_qpn = qp.qpn;
    wr.ud.remote_qkey = APP_QKEY;
    for (unsigned i = 1; i <= 3; i++) {
        app_recv(&qp, i, 0, 1000);
        app_send(&qp, wr, 0, LEN);
        app_run(&a);
        counted(&c, (uint64_t[]){i * LEN, i * (LEN + GRH), 0, 0, 0, 0}, none);
    }
}

/* Memory that is reached by copying: what a counter shows is there. */
static void test_copied_memory(void **state)
{
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    for (unsigned i = 1; i <= 20; i++) {
        kit_memory[8192] = (uint8_t)i;
        request(&p, SQE_WRITE, LEN);
        assert_int_equal(done(&p.of_b, QP_COUNT_PEER_WRITE), i);
        assert_int_equal(kit_memory[0], i);
    }
}

/* Receives from an SRQ. */
static void test_srq(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    struct app_srq srq;
    struct pair p;

    assert_int_equal(app_srq(&b, &srq, 16, 0, NULL), 0);
    assert_int_equal(app_qp(&a, &p.at_a, QPT_RC, &cq_a, 0, 0), 0);
    assert_int_equal(app_qp(&b, &p.at_b, QPT_RC, &cq_b, srq.layout.handle, 0), 0);
    count_all(&p.of_b, &p.at_b, CTL_COUNTER_BYTES);
    app_ready(&p.at_a, p.at_b.qpn, MTU);
    app_ready(&p.at_b, p.at_a.qpn, MTU);
    for (unsigned i = 0; i < 4; i++)
        app_srq_recv(&srq, i, 0, 2 * LONG);
    request(&p, SQE_SEND, LEN);
    request(&p, SQE_SEND, LEN);
    request(&p, SQE_SEND, LONG);
    request(&p, SQE_WRITE_IMM, LEN);
    counted(&p.of_b, (uint64_t[]){0, 3 * LEN + LONG, 0, 0, 0, LEN}, none);
}

static void open_domain(struct app *app, int file, struct ctl_msg *m)
{
    *m = (struct ctl_msg){.open_xrcd = {.oflags = O_CREAT}};
    assert_int_equal(app_call_fd(app, CTL_OPEN_XRCD, m, file), 0);
}

static int domain_file(void)
{
    char name[] = "/tmp/uroce-counter.XXXXXX";
    int file = mkstemp(name);

    assert_true(file >= 0);
    unlink(name);
    return file;
}

/* An XRC target counts what it receives into SRQs, and its peer's WRITEs and READs. */
static void test_xrc(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    struct sqe wr = {.remote_addr = KIT_BASE, .rkey = b.key};
    int file = domain_file();
    struct app_srq srq;
    struct ctl_msg m;
    struct pair p;

    open_domain(&b, file, &m);
    close(file);
    assert_int_equal(app_srq(&b, &srq, 4, m.open_xrcd.handle, &cq_b), 0);
    assert_int_equal(app_qp(&a, &p.at_a, QPT_XRC_SEND, &cq_a, 0, 0), 0);
    assert_int_equal(app_qp(&b, &p.at_b, QPT_XRC_RECV, NULL, 0, m.open_xrcd.handle), 0);
    count_all(&p.of_a, &p.at_a, CTL_COUNTER_WRS);
    count_all(&p.of_b, &p.at_b, CTL_COUNTER_WRS);
    app_ready(&p.at_a, p.at_b.qpn, MTU);
    app_ready(&p.at_b, p.at_a.qpn, MTU);
    app_srq_recv(&srq, 5, 0, LONG);
    wr.remote_srqn = srq.layout.handle;
    for (unsigned i = 0; i < 3; i++) {
        wr.opcode = (uint8_t[]){SQE_SEND, SQE_WRITE, SQE_READ}[i];
        app_send(&p.at_a, wr, 8192, LONG);
        app_run(&a);
    }
    counted(&p.of_a, (uint64_t[]){1, 0, 1, 0, 1, 0}, none);
    counted(&p.of_b, (uint64_t[]){0, 1, 0, 1, 0, 1}, none);
}

/* One counter of several kinds of work of several queue pairs. */
static void test_one_for_all(void **state)
{
    struct counter c;
    struct app_qp qp[2];

    counter_of(&a, &c, CTL_COUNTER_WRS);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(app_qp(&a, &qp[i], QPT_RC, &cq_a, 0, 0), 0);
        attach(&c, &qp[i], QP_COUNT_WRITE | QP_COUNT_PEER_WRITE);
    }
    for (unsigned i = 0; i < 2; i++)
        app_ready(&qp[i], qp[1 - i].qpn, MTU);
    for (unsigned i = 0; i < 3; i++) {
        struct sqe wr = {.opcode = SQE_WRITE, .remote_addr = KIT_BASE, .rkey = a.key};

        app_send(&qp[i % 2], wr, 8192, LEN);
        app_run(&a);
    }
    assert_int_equal(counter_reader_get(&c.reader, COUNTER_DONE), 6);
}

/* ---- work that fails ---- */

/* The first fails, and the others are flushed; at the peer the request was refused. */
static void test_refused_write(void **state)
{
    struct sqe wr = {.opcode = SQE_WRITE, .remote_addr = KIT_BASE, .rkey = b.key ^ 0x100};
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_BYTES);
    receive(&p);
    app_recv(&p.at_a, 1, 0, LEN);
    request(&p, SQE_WRITE, LEN);
    app_send(&p.at_a, wr, 0, LEN);
    app_send(&p.at_a, wr, 0, LEN);
    wr.opcode = SQE_READ;
    app_send(&p.at_a, wr, 0, LEN);
    wr.opcode = SQE_SEND;
    app_send(&p.at_a, wr, 0, LEN);
    app_run(&a);
    counted(&p.of_a, (uint64_t[]){0, 0, 0, 0, LEN, 0}, (uint64_t[]){1, 1, 1, 0, 2, 0});
    counted(&p.of_b, (uint64_t[]){0, 0, 0, 0, 0, LEN}, (uint64_t[]){0, 1, 0, 0, 0, 1});
    app_send(&p.at_a, wr, 0, LEN); /* flushed at once */
    app_run(&a);
    assert_int_equal(failures(&p.of_a, QP_COUNT_SEND), 2);
    assert_int_equal(app_modify(&p.at_a, QPA_STATE, (struct qp_attr){.state = QPS_RESET}), 0);
    counted(&p.of_a, (uint64_t[]){0, 0, 0, 0, LEN, 0}, (uint64_t[]){2, 1, 1, 0, 2, 0});
}

static void test_refused_read(void **state)
{
    struct sqe wr = {.opcode = SQE_READ, .remote_addr = KIT_BASE, .rkey = b.key ^ 0x100};
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    request(&p, SQE_READ, LEN);
    app_send(&p.at_a, wr, 0, LEN);
    app_run(&a);
    counted(&p.of_a, (uint64_t[]){0, 0, 1, 0, 0, 0}, (uint64_t[]){0, 0, 1, 0, 0, 0});
    counted(&p.of_b, (uint64_t[]){0, 0, 0, 1, 0, 0}, (uint64_t[]){0, 0, 0, 1, 0, 0});
}

/* Bytes that cannot be written, or read, which is found after the request was accepted. */
static void test_memory_fails(void **state)
{
    static const uint64_t none[QP_COUNTS] = {0};
    struct sqe wr = {.opcode = SQE_WRITE,
                     .flags = SQE_INLINE,
                     .inline_len = 8,
                     .remote_addr = KIT_BASE,
                     .rkey = b.key};
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    app_post(&p.at_a, wr);
    app_run(&a);
    counted(&p.of_b, (uint64_t[]){0, 0, 0, 0, 0, 1}, none);
    kit_status = -EFAULT;
    app_post(&p.at_a, wr);
    app_run(&a);
    kit_status = 0;
    counted(&p.of_a, (uint64_t[]){0, 0, 0, 0, 1, 0}, (uint64_t[]){0, 0, 0, 0, 1, 0});
    counted(&p.of_b, (uint64_t[]){0, 0, 0, 0, 0, 1}, (uint64_t[]){0, 0, 0, 0, 0, 1});
}

static void test_memory_of_read_fails(void **state)
{
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    kit_status = -EFAULT;
    request(&p, SQE_READ, LEN);
    kit_status = 0;
    counted(&p.of_a, (uint64_t[]){0, 0, 0, 0, 0, 0}, (uint64_t[]){0, 0, 1, 0, 0, 0});
    counted(&p.of_b, (uint64_t[]){0, 0, 0, 0, 0, 0}, (uint64_t[]){0, 0, 0, 1, 0, 0});
}

/* After RESET and a new connection the counters go on. */
static void test_after_reset(void **state)
{
    const struct qp_attr reset = {.state = QPS_RESET};
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    request(&p, SQE_WRITE, LEN);
    assert_int_equal(app_modify(&p.at_a, QPA_STATE, reset), 0);
    assert_int_equal(app_modify(&p.at_b, QPA_STATE, reset), 0);
    atomic_store(&((struct qp_shared *)p.at_a.segment)->sq_prod, 0);
    app_ready(&p.at_a, p.at_b.qpn, MTU);
    app_ready(&p.at_b, p.at_a.qpn, MTU);
    request(&p, SQE_WRITE, LEN);
    assert_int_equal(done(&p.of_a, QP_COUNT_WRITE), 2);
    assert_int_equal(done(&p.of_b, QP_COUNT_PEER_WRITE), 2);
}

/* An application that fills its counters with anything only changes what it reads. */
static void test_hostile_application(void **state)
{
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    request(&p, SQE_WRITE, LEN);
    for (unsigned i = 0; i < QP_COUNTS; i++)
        memset((void *)p.of_b.of[i].reader.line, 0xFF, sizeof(struct counter_line));
    request(&p, SQE_WRITE, LEN);
    request(&p, SQE_READ, LEN);
    assert_int_equal(done(&p.of_b, QP_COUNT_PEER_WRITE), 0);
    assert_int_equal(done(&p.of_a, QP_COUNT_WRITE), 2);
    assert_int_equal(done(&p.of_a, QP_COUNT_READ), 1);
}

/* ---- what is refused ---- */

static void test_refused_types(void **state)
{
    for (uint32_t type = CTL_COUNTER_BYTES + 1; type; type *= 2) {
        struct ctl_msg m = {.create_counter = {.type = type}};

        assert_int_equal(app_call(&a, CTL_CREATE_COUNTER, &m), -EINVAL);
    }
    assert_int_equal(a.session->count[OBJ_COUNTER], 0);
}

static void test_refused_attachments(void **state)
{
    struct counter c, of_b;
    struct app_qp qp, other;

    counter_of(&a, &c, CTL_COUNTER_WRS);
    counter_of(&b, &of_b, CTL_COUNTER_WRS);
    assert_int_equal(app_qp(&a, &qp, QPT_RC, &cq_a, 0, 0), 0);
    assert_int_equal(app_qp(&b, &other, QPT_RC, &cq_b, 0, 0), 0);
    assert_int_equal(attach_by(&a, c.handle, qp.qpn, 0), -EINVAL);
    assert_int_equal(attach_by(&a, c.handle, qp.qpn, QP_COUNT_ALL + 1), -EOPNOTSUPP);
    assert_int_equal(attach_by(&a, c.handle, qp.qpn, UINT32_MAX), -EOPNOTSUPP);
    assert_int_equal(attach_by(&a, c.handle, qp.qpn | CTL_QP_OPENED, QP_COUNT_SEND), -EOPNOTSUPP);
    assert_int_equal(attach_by(&a, c.handle, other.qpn, QP_COUNT_SEND), -EINVAL);
    assert_int_equal(attach_by(&a, of_b.handle, qp.qpn, QP_COUNT_SEND), -EINVAL);
    assert_int_equal(attach_by(&a, c.handle, 0, QP_COUNT_SEND), -EINVAL);
    assert_int_equal(attach_by(&a, 0, qp.qpn, QP_COUNT_SEND), -EINVAL);
    assert_int_equal(destroy(&c), 0); /* none of them has left anything */
}

/* RESET and INIT are the states for it. */
static void test_states(void **state)
{
    const struct qp_attr init = {
        .state = QPS_INIT, .port_num = 1, .access_flags = MEM_REMOTE_WRITE};
    struct counter c;
    struct app_qp qp, peer;

    counter_of(&a, &c, CTL_COUNTER_WRS);
    assert_int_equal(app_qp(&a, &qp, QPT_RC, &cq_a, 0, 0), 0);
    assert_int_equal(app_qp(&a, &peer, QPT_RC, &cq_a, 0, 0), 0);
    attach(&c, &qp, QP_COUNT_SEND);
    assert_int_equal(
        app_modify(&qp, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, init), 0);
    attach(&c, &qp, QP_COUNT_RECV);
    app_ready(&peer, qp.qpn, MTU);
    assert_int_equal(attach_by(&a, c.handle, peer.qpn, QP_COUNT_SEND), -EINVAL);
    assert_int_equal(app_modify(&peer, QPA_STATE, (struct qp_attr){.state = QPS_ERR}), 0);
    assert_int_equal(attach_by(&a, c.handle, peer.qpn, QP_COUNT_SEND), -EINVAL);
}

/* Each kind of work has one counter. */
static void test_overlap(void **state)
{
    struct counter c[2];
    struct app_qp qp;

    counter_of(&a, &c[0], CTL_COUNTER_WRS);
    counter_of(&a, &c[1], CTL_COUNTER_BYTES);
    assert_int_equal(app_qp(&a, &qp, QPT_RC, &cq_a, 0, 0), 0);
    attach(&c[0], &qp, QP_COUNT_SEND | QP_COUNT_WRITE);
    assert_int_equal(attach_by(&a, c[1].handle, qp.qpn, QP_COUNT_WRITE | QP_COUNT_READ), -EBUSY);
    assert_int_equal(attach_by(&a, c[0].handle, qp.qpn, QP_COUNT_SEND), -EBUSY);
    attach(&c[1], &qp, QP_COUNT_READ);
    assert_int_equal(destroy(&c[0]), -EBUSY);
    assert_int_equal(destroy(&c[1]), -EBUSY);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qp.qpn), 0);
    assert_int_equal(destroy(&c[0]), 0);
    assert_int_equal(destroy(&c[1]), 0);
    assert_int_equal(destroy(&c[0]), -ENOENT);
}

/* ---- ends ---- */

/* An XRC target goes on without its creator, and without the creator's counters. */
static void test_creator_leaves(void **state)
{
    int file = domain_file();
    struct counters c;
    struct app_qp qp;
    struct ctl_msg m;

    open_domain(&a, file, &m);
    assert_int_equal(app_qp(&a, &qp, QPT_XRC_RECV, NULL, 0, m.open_xrcd.handle), 0);
    count_all(&c, &qp, CTL_COUNTER_WRS);
    open_domain(&b, file, &m);
    close(file);
    m = (struct ctl_msg){.open_qp = {.xrcd = m.open_xrcd.handle, .qpn = qp.qpn}};
    assert_int_equal(app_call(&b, CTL_OPEN_QP, &m), 0);
    assert_int_equal(app_call_handle(&a, CTL_DESTROY_QP, qp.qpn), 0);
    for (unsigned i = 0; i < QP_COUNTS; i++)
        assert_int_equal(destroy(&c.of[i]), 0);
    app_close(&a);
    assert_int_equal(app_call_handle(&b, CTL_DESTROY_QP, m.open_qp.handle), 0);
}

/* A program ends with its counters attached, and in use. */
static void test_program_ends(void **state)
{
    struct pair p;

    make_pair(&p, QPT_RC, CTL_COUNTER_WRS);
    request(&p, SQE_WRITE, LEN);
    app_send(&p.at_a, (struct sqe){.opcode = SQE_WRITE, .remote_addr = KIT_BASE, .rkey = b.key}, 0,
             LEN);
    app_close(&b);
    app_run(&a);
    app_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_operations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreliable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_datagrams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copied_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_srq, setup, teardown),
        cmocka_unit_test_setup_teardown(test_xrc, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_for_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_of_read_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_after_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_application, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_attachments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_states, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overlap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_creator_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_program_ends, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_counter", tests, NULL, NULL);
}
