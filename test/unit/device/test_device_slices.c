/* SPDX-License-Identifier: BSD-3-Clause */
/* What one application has costs others little of the control thread: long work is done in slices,
 * between which descriptors are served, and unread events are found without a search. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control/errand.h"
#include "device_app.h"
#include "device_kit.h"
#include "device_private.h"
#include "objects/srq_object.h"
#include "show/show_write.h"
#include "trace.h"

static struct event_loop *loop;
static ns_t clock_step; /* by which the clock goes on when it is asked; 0: it is the kernel's */

int clock_gettime(clockid_t id, struct timespec *ts)
{
    static ns_t now;

    if (!clock_step)
        return (int)syscall(SYS_clock_gettime, id, ts);
    now += clock_step;
    *ts = (struct timespec){.tv_sec = (time_t)(now / NS_PER_SEC),
                            .tv_nsec = (long)(now % NS_PER_SEC)};
    return 0;
}

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    return loop ? 0 : -1;
}

static int teardown(void **state)
{
    event_loop_destroy(loop);
    return 0;
}

struct job {
    struct event_job j;
    unsigned left, *last;
};

static bool run_job(struct event_job *j)
{
    struct job *job = container_of(j, struct job, j);

    *job->last = job->left;
    return --job->left;
}

static unsigned served;

static void on_ready(struct event_source *s, uint32_t events)
{
    served++;
}

static void test_jobs(void **state)
{
    unsigned a_last = 0, b_last = 0;
    struct job a = {.j.run = run_job, .left = 3, .last = &a_last};
    struct job b = {.j.run = run_job, .left = 1, .last = &b_last};
    struct event_source source = {.fd = eventfd(1, EFD_CLOEXEC), .ready = on_ready};

    served = 0;
    assert_int_equal(event_loop_add(loop, &source, EPOLLIN), 0);
    event_loop_start(loop, &a.j);
    event_loop_start(loop, &b.j);
    /* In turn, one slice after each descriptor. */
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(served, 1);
    assert_int_equal(a_last, 3);
    assert_int_equal(b_last, 0);
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(served, 2);
    assert_int_equal(a_last, 3);
    assert_int_equal(b_last, 1);
    /* And without one. */
    event_loop_remove(loop, &source);
    assert_true(event_loop_step(loop, -1));
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(a.left, 0);
    assert_false(event_loop_step(loop, 0));
    assert_int_equal(served, 2);
    close(source.fd);
}

/* When no descriptor waits, or after some turns; and once. */
static void test_when_idle(void **state)
{
    unsigned last = 0;
    struct job j = {.j.run = run_job, .left = 10, .last = &last};
    struct event_source source = {.fd = eventfd(1, EFD_CLOEXEC), .ready = on_ready};

    served = 0;
    event_loop_when_idle(loop, &j.j);
    assert_true(event_loop_step(loop, -1));
    assert_int_equal(last, 10);
    assert_false(event_loop_step(loop, 0));
    assert_int_equal(event_loop_add(loop, &source, EPOLLIN), 0);
    event_loop_when_idle(loop, &j.j);
    for (unsigned i = 0; i < EVENT_LOOP_BUSY; i++) {
        assert_int_equal(last, 10);
        assert_true(event_loop_step(loop, -1));
    }
    assert_int_equal(last, 9);
    assert_int_equal(served, EVENT_LOOP_BUSY);
    event_loop_when_idle(loop, &j.j);
    event_loop_not_when_idle(loop, &j.j);
    event_loop_remove(loop, &source);
    assert_false(event_loop_step(loop, 0));
    assert_int_equal(last, 9);
    close(source.fd);
}

static uint32_t handle_of(struct session *sn, enum ctl_type type, struct ctl_msg m)
{
    struct ctl_call k = {0};

    assert_int_equal(kit_call(sn, type, &m, &k, false), 0);
    return type == CTL_ALLOC_MW ? k.reply.alloc_mw.handle : k.reply.handle;
}

static uint64_t interruptions(struct rnic *r)
{
    return counter_get(&worker_stats(rnic_worker(r, 0))->calls);
}

/* The end of an application with much of everything: few interruptions of the workers, and no slice
 * that lasts long. */
static void test_end(void **state)
{
    enum { MANY = 20000 };
    struct rnic *r = kit_rnic(loop, NULL);
    struct session *sn = session_create(r, &(struct ucred){.pid = getpid()});
    uint64_t before;
    unsigned slices = 1;
    uint32_t pd;

    handle_of(sn, CTL_OPEN, (struct ctl_msg){0});
    pd = handle_of(sn, CTL_ALLOC_PD, (struct ctl_msg){0});
    for (unsigned i = 0; i < MANY; i++) {
        struct ctl_msg ah = {.create_ah = {.pd = pd, .attr = {.is_global = 1, .port_num = 1}}};
        struct ctl_msg mr = {.reg_mr = {.pd = pd, .addr = KIT_BASE, .length = 64}};

        handle_of(sn, CTL_ALLOC_MW, (struct ctl_msg){.alloc_mw = {.pd = pd, .type = 2}});
        handle_of(sn, CTL_REG_MR, mr);
        memcpy(ah.create_ah.attr.dgid, sn->device->gids.entry[0].gid.raw, 16);
        handle_of(sn, CTL_CREATE_AH, ah);
        handle_of(sn, CTL_ALLOC_PD, (struct ctl_msg){0});
    }
    before = interruptions(r);
    while (session_close_some(sn))
        slices++;
    assert_in_range(interruptions(r) - before, 1, 3 * MANY / 64);
    assert_true(slices > 1);
    rnic_destroy(r);
}

static struct app app;

/* ---- a shared receive queue that is resized ---- */

static int resize(struct app_srq *srq, struct ctl_msg *m, struct ctl_call *k, bool again)
{
    *m = (struct ctl_msg){
        .modify_srq = {.handle = srq->layout.handle, .mask = CTL_SRQ_MAX_WR, .max_wr = 8192}};
    *k = (struct ctl_call){.again = again};
    return kit_call(app.session, CTL_MODIFY_SRQ, m, k, true);
}

static void wait_for_errand(void)
{
    while (session_busy(app.session))
        event_loop_step(loop, 100);
}

/* The control thread copies no WQEs: there may be megabytes of them. */
static void test_srq_resize(void **state)
{
    struct rnic *r = kit_rnic(loop, NULL);
    struct app_srq srq;
    struct srq_object *s;
    struct ctl_call k;
    struct ctl_msg m;
    void *ring;
    int fd, err;

    app_open(&app, r);
    assert_int_equal(app_srq(&app, &srq, 16, 0, NULL), 0);
    app_srq_recv(&srq, 77, 0, 8);
    s = srq_object_get(app.session, srq.layout.handle);
    r->errands = errands_create(loop, &err);
    assert_int_equal(resize(&srq, &m, &k, false), -EINPROGRESS);
    assert_int_equal(k.out_fds, 0);
    wait_for_errand();
    assert_int_equal(resize(&srq, &m, &k, true), 0);
    assert_int_equal(k.out_fds, 1);
    assert_int_equal(k.reply.create_srq.size, 8192);
    assert_int_equal(s->layout.size, 8192);
    assert_int_equal(srq_waiting(s->srq), 1);
    ring = (uint8_t *)s->segment.base + s->layout.ring_off;
    assert_int_equal(((struct rqe *)ring)->wr_id, 77);
    close(k.out_fd[0]);
    /* The session ends before the answer, in which a descriptor would have been. */
    assert_int_equal(app_srq(&app, &srq, 16, 0, NULL), 0);
    assert_int_equal(resize(&srq, &m, &k, false), -EINPROGRESS);
    wait_for_errand();
    fd = app.session->resize.fd;
    assert_int_equal(fcntl(fd, F_GETFD) >= 0, 1);
    app_close(&app);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    rnic_destroy(r);
}

/* ---- events that an application does not read ---- */

static int channel_fd; /* the application's end */

static struct channel *make_channel(uint32_t *handle)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(app.session, CTL_CREATE_CHANNEL, &m, &k, true), 0);
    channel_fd = k.out_fd[0];
    *handle = k.reply.handle;
    return container_of(object_get(app.session, OBJ_CHANNEL, *handle), struct channel, o);
}

static struct app_cq make_cq(uint32_t channel, uint64_t cookie)
{
    struct ctl_msg m = {.create_cq = {.cqe = 16, .channel = channel, .cookie = cookie}};
    struct app_cq cq = {.app = &app};
    struct object *o;

    assert_int_equal(app_call(&app, CTL_CREATE_CQ, &m), 0);
    cq.handle = m.create_cq.handle;
    o = object_get(app.session, OBJ_CQ, cq.handle);
    cq.reader = (struct cq_reader){.shared = container_of(o, struct cq, o)->segment.base,
                                   .size = m.create_cq.cqe,
                                   .lanes = m.create_cq.lanes};
    return cq;
}

/* A completion in an armed queue. */
static void complete(struct app_qp *qp, struct app_cq *cq)
{
    struct sqe wr = {.opcode = SQE_WRITE, .flags = SQE_SIGNALED};
    struct cqe e;

    cq_reader_arm(&cq->reader, CQ_ARM_NEXT);
    wr.remote_addr = KIT_BASE;
    wr.rkey = app.key;
    app_send(qp, wr, 0, 8);
    app_run(&app);
    assert_true(app_poll(cq, &e));
}

static uint64_t read_event(void)
{
    uint64_t cookie = 0;

    return recv(channel_fd, &cookie, sizeof(cookie), MSG_DONTWAIT) < 0 ? 0 : cookie;
}

static void fill_channel(struct channel *ch)
{
    uint64_t filler = 99;

    while (send(ch->dp.fd, &filler, sizeof(filler), MSG_DONTWAIT) > 0) {
    }
}

static void test_unread_events(void **state)
{
    struct rnic *r = kit_rnic(loop, NULL);
    struct app_cq a, b;
    struct app_qp qa, qb;
    unsigned events[3] = {0};
    struct channel *ch;
    uint32_t handle;

    app_open(&app, r);
    ch = make_channel(&handle);
    a = make_cq(handle, 1);
    b = make_cq(handle, 2);
    app_qp(&app, &qa, QPT_RC, &a, 0, 0);
    app_qp(&app, &qb, QPT_RC, &b, 0, 0);
    app_ready(&qa, qb.qpn, 3);
    app_ready(&qb, qa.qpn, 3);
    fill_channel(ch);
    complete(&qb, &b);
    complete(&qa, &a);
    complete(&qb, &b);
    /* The control thread tries once, and then waits for room. */
    while (event_loop_step(loop, 0)) {
    }
    assert_false(TAILQ_EMPTY(&ch->unsent));
    complete(&qb, &b);
    assert_false(event_loop_step(loop, 0)); /* another event does not wake it */
    while (read_event() == 99) {
    }
    while (event_loop_step(loop, 0)) {
    }
    assert_true(TAILQ_EMPTY(&ch->unsent));
    /* In any order of the queues: three of b, one of a. */
    for (unsigned k = 0; k < 4; k++)
        events[read_event() % 3]++;
    assert_int_equal(events[1], 1);
    assert_int_equal(events[2], 3);
    assert_int_equal(read_event(), 0);
    /* A queue ends with events that were not sent. */
    fill_channel(ch);
    complete(&qa, &a);
    complete(&qb, &b);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_QP, qa.qpn), 0);
    assert_int_equal(app_call_handle(&app, CTL_DESTROY_CQ, a.handle), 0);
    while (read_event() == 99) {
    }
    while (event_loop_step(loop, 0)) {
    }
    assert_int_equal(read_event(), 2);
    assert_int_equal(read_event(), 0);
    app_close(&app);
    close(channel_fd);
    rnic_destroy(r);
}

/* ---- show ---- */

static void note_retry(void *ctx)
{
    *(bool *)ctx = true;
}

static json_t *read_answer(struct ctl_call *k)
{
    char *text = mmap(NULL, k->reply.show.length, PROT_READ, MAP_PRIVATE, k->out_fd[0], 0);
    json_t *json;

    assert_true(text != MAP_FAILED);
    json = json_loadb(text, k->reply.show.length, 0, NULL);
    assert_non_null(json);
    munmap(text, k->reply.show.length);
    close(k->out_fd[0]);
    return json;
}

/* A slice ends after a tenth of a millisecond, and a part of an answer has few objects: a clock
 * that goes on by more than half a slice when it is asked lets a slice have two parts. */
static void test_show_slices(void **state)
{
    enum { MANY = 1600, PART = 16 };
    struct rnic *r = kit_rnic(loop, NULL);
    struct session *sn = session_create(r, &(struct ucred){.pid = getpid()});
    struct ctl_msg m = {.show.what = CTL_SHOW_ALL};
    struct ctl_call k = {0};
    unsigned slices = 0;
    bool retry = false;
    uint32_t pd;

    rnic_on_retry(r, note_retry, &retry);
    handle_of(sn, CTL_OPEN, (struct ctl_msg){0});
    pd = handle_of(sn, CTL_ALLOC_PD, (struct ctl_msg){0});
    for (unsigned i = 0; i < MANY; i++) {
        struct ctl_msg reg = {.reg_mr = {.pd = pd, .addr = KIT_BASE, .length = 64}};

        handle_of(sn, CTL_REG_MR, reg);
    }
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    clock_step = 60 * NS_PER_US;
    while (!retry) {
        event_loop_step(loop, 0);
        slices++;
    }
    clock_step = 0;
    assert_in_range(slices, MANY / PART / 2, MANY);
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), 0);
    json_decref(read_answer(&k));
    rnic_on_retry(r, NULL, NULL);
    session_close(sn);
    rnic_destroy(r);
}

/* Clients come and go, and so do their objects, while a long answer is written. */
static void test_show(void **state)
{
    enum { MANY = 3000 };
    struct rnic *r = kit_rnic(loop, NULL);
    struct session *sn = session_create(r, &(struct ucred){.pid = getpid()}), *other;
    struct ctl_msg m = {.show.what = CTL_SHOW_ALL};
    struct ctl_call k = {0};
    uint32_t pd, mr[MANY];
    unsigned turns = 0;
    bool retry = false;
    json_t *json;
    int status;

    rnic_on_retry(r, note_retry, &retry);
    handle_of(sn, CTL_OPEN, (struct ctl_msg){0});
    pd = handle_of(sn, CTL_ALLOC_PD, (struct ctl_msg){0});
    for (unsigned i = 0; i < MANY; i++) {
        struct ctl_msg reg = {.reg_mr = {.pd = pd, .addr = KIT_BASE, .length = 64}};

        assert_int_equal(kit_call(sn, CTL_REG_MR, &reg, &k, false), 0);
        mr[i] = k.reply.reg_mr.handle;
    }
    other = session_create(r, &(struct ucred){.pid = getpid()});
    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    /* Those of one process take turns. */
    assert_int_equal(kit_call(other, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    assert_null(other->show);
    session_close(other);
    other = session_create(r, &(struct ucred){.pid = 1});
    assert_int_equal(kit_call(other, CTL_SHOW, &m, &k, true), -EINPROGRESS);
    session_close(other); /* in the middle */
    do {
        retry = false;
        while (!retry) {
            assert_true(event_loop_step(loop, 0));
            assert_int_equal(kit_call_handle(sn, CTL_DEREG_MR, mr[turns]), 0);
            if (++turns % 2)
                assert_int_equal(kit_call_handle(sn, CTL_DEREG_MR, mr[MANY - turns]), 0);
        }
        status = kit_call(sn, CTL_SHOW, &m, &k, true);
    } while (status == -EINPROGRESS);
    assert_int_equal(status, 0);
    assert_true(turns > 2);
    json = read_answer(&k);
    assert_int_equal(json_array_size(json_object_get(json, "clients")), 1);
    assert_in_range(json_array_size(json_object_get(json, "mrs")), MANY - 2 * turns, MANY);
    json_decref(json);
    rnic_on_retry(r, NULL, NULL);
    session_close(sn);
    rnic_destroy(r);
}

static bool asks(struct session *sn, uint32_t what)
{
    struct ctl_msg m = {.show.what = what};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(sn, CTL_SHOW, &m, &k, false), -EINPROGRESS);
    return sn->show;
}

/* What waits for the answer of another connection is asked again when that is closed. */
static void test_show_closed(void **state)
{
    struct rnic *r = kit_rnic(loop, NULL);
    struct session *a = session_create(r, &(struct ucred){.pid = 1}), *b, *c, *d;
    bool retry = false;

    b = session_create(r, &(struct ucred){.pid = 1});
    rnic_on_retry(r, note_retry, &retry);
    assert_true(asks(a, CTL_SHOW_ALL));
    assert_false(asks(b, CTL_SHOW_TRACE));
    session_close(a);
    assert_false(retry); /* not from here */
    while (!retry)
        assert_true(event_loop_step(loop, 0));
    assert_true(asks(b, CTL_SHOW_TRACE));
    /* Processes that the daemon sees no pid of are told apart by their users. */
    c = session_create(r, &(struct ucred){.pid = 0, .uid = 1});
    d = session_create(r, &(struct ucred){.pid = 0, .uid = 2});
    assert_true(asks(c, CTL_SHOW_TRACE));
    assert_true(asks(d, CTL_SHOW_ALL));
    session_close(b);
    session_close(c);
    session_close(d);
    rnic_destroy(r); /* before the loop's next turn */
}

/* Writes an answer. The most bytes that were written at once. */
static size_t write_all(struct rnic *r, uint32_t what, char **text)
{
    struct show_write w = {.rnic = r};
    size_t before, most = 0;
    bool more;

    show_out_init(&w.out, -1, NULL);
    show_write_begin(&w, r, 0, what);
    do {
        before = w.out.length;
        more = show_write_some(&w);
        most = max_of(most, w.out.length - before);
    } while (more);
    show_write_end(&w);
    *text = show_out_text(&w.out);
    assert_non_null(*text);
    return most;
}

/* Also of what is no object of a client, there is little at once. */
static void test_show_parts(void **state)
{
    enum { MANY = 1000, MOST = 16384 };
    static struct port_neighbour neighbour[MANY];
    struct port_address address = {.prefix = 8, .vlan = VLAN_NONE};
    struct trace *trace;
    struct rnic *r;
    json_t *json, *port;
    char *text;

    gid_parse(&address.gid, "10.0.0.1");
    for (unsigned i = 0; i < MANY; i++) {
        neighbour[i].mac[5] = 2;
        gid_parse(&neighbour[i].addr, "10.0.0.2");
        neighbour[i].addr.raw[14] = (uint8_t)(i >> 8);
        neighbour[i].addr.raw[15] = (uint8_t)i;
        neighbour[i].addr.raw[13] = 1;
    }
    r = kit_rnic_with(
        loop, NULL,
        (struct port_config){
            .address = &address, .addresses = 1, .neighbour = neighbour, .neighbours = MANY});
    trace = (struct trace *)engine_trace(r->device[0]->port[0]->engine);
    for (unsigned i = 0; i < TRACE_RECORDS; i++)
        trace_put(trace, i, TRACE_DROP, i, DROP_unknown_qpn, 0);
    assert_in_range(write_all(r, CTL_SHOW_TRACE, &text), 1, MOST);
    json = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(json, "trace")), TRACE_RECORDS - 1);
    json_decref(json);
    free(text);
    assert_in_range(write_all(r, CTL_SHOW_ALL, &text), 1, MOST);
    json = json_loads(text, 0, NULL);
    port = json_object_get(json_array_get(json_object_get(json, "devices"), 0), "ports");
    port = json_array_get(port, 0);
    assert_int_equal(json_array_size(json_object_get(port, "neighbours")), MANY);
    json_decref(json);
    free(text);
    rnic_destroy(r);
}

/* ---- reports of packets too big: believed when they quote what a queue pair has sent ---- */

static void count_pmtu(void *ctx, const union gid *dst, uint16_t vlan, uint32_t mtu)
{
    assert_int_equal(vlan, VLAN_NONE);
    assert_int_equal(mtu, 1500);
    ++*(unsigned *)ctx;
}

static ns_t fake_time = NS_PER_SEC;

static ns_t fake_clock(void)
{
    return fake_time;
}

static unsigned learned_in(uint16_t vlan, struct device *d, uint32_t dest_qpn, uint32_t psn,
                           uint32_t len, const union gid *dst)
{
    uint8_t bth[12] = {
        [5] = (uint8_t)(dest_qpn >> 16), [6] = (uint8_t)(dest_qpn >> 8), [7] = (uint8_t)dest_qpn,
        [9] = (uint8_t)(psn >> 16),      [10] = (uint8_t)(psn >> 8),     [11] = (uint8_t)psn};
    struct net_quote quote = {.src = d->gids.entry[0].gid,
                              .dst = *dst,
                              .vlan = vlan,
                              .mtu = 1500,
                              .roce = bth,
                              .len = len};
    unsigned n = 0;

    fake_time += NS_PER_SEC;
    net_too_big(d, &quote);
    while (event_loop_step(loop, 0)) {
    }
    net_host_each_pmtu(d->net.host, &n, count_pmtu);
    return n;
}

static unsigned learned(struct device *d, uint32_t dest_qpn, uint32_t psn, uint32_t len,
                        const union gid *dst)
{
    return learned_in(VLAN_NONE, d, dest_qpn, psn, len, dst);
}

static void test_too_big(void **state)
{
    struct rnic *r = kit_rnic(loop, fake_clock);
    struct qp_attr attr;
    struct app_qp qa, qb;
    struct app_cq cq;
    struct device *d;
    union gid gid;
    uint32_t psn;

    app_open(&app, r);
    d = app.session->device;
    gid = d->gids.entry[0].gid;
    app_cq(&app, &cq, 16);
    app_qp(&app, &qa, QPT_RC, &cq, 0, 0);
    app_qp(&app, &qb, QPT_RC, &cq, 0, 0);
    app_ready(&qa, qb.qpn, 3);
    qp_object_attr(qp_object_get(app.session, qa.qpn), &attr);
    psn = attr.sq_psn - 1;
    assert_int_equal(learned(d, qb.qpn, psn, 11, &gid), 0);            /* too little is quoted */
    assert_int_equal(learned(d, qb.qpn ^ 1, psn, 12, &gid), 0);        /* another queue pair */
    assert_int_equal(learned(d, qb.qpn, psn ^ 1u << 23, 12, &gid), 0); /* an old packet */
    assert_int_equal(learned(d, qb.qpn, psn, 12, &d->gids.entry[1].gid), 0);
    assert_int_equal(learned_in(5, d, qb.qpn, psn, 12, &gid), 0);
    assert_int_equal(learned(d, qb.qpn, psn, 12, &gid), 1);
    app_close(&app);
    rnic_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_when_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_srq_resize, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unread_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_show_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_show, setup, teardown),
        cmocka_unit_test_setup_teardown(test_show_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_show_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_big, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_slices", tests, NULL, NULL);
}
