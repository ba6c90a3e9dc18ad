/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker loop for real: threads, clock, sleeping and waking, a bad network, and a control
 * thread that creates and destroys objects concurrently. test/sim tests recovery from loss under
 * one virtual clock; this tests the interaction of the threads.
 */
#include "worker_kit.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "forward.h"
#include "loop.h"
#include "random.h"
#include "unit.h"

#define FLOWS    3
#define MESSAGES 2000 /* of a flow */
#define WINDOW   6    /* of them outstanding */
#define UNIT     1024 /* the longest message */
#define SOURCE   (2 * UNIT)
#define DEADLINE (20 * NS_PER_SEC)

/* The application's view of its memory: the part of the flows, then that of the short-lived
 * objects. */
struct flow_memory {
    uint8_t local[WINDOW][UNIT], target[WINDOW][UNIT], inbox[WINDOW][UNIT];
    uint8_t source[SOURCE]; /* READs read it; never changes */
};
struct memory {
    struct flow_memory flow[FLOWS];
    uint8_t local[SOURCE], target[SOURCE];
};
_Static_assert(sizeof(struct memory) <= KIT_BYTES, "the kit has no more");

#define NOT_WRITTEN 0xEE

struct message {
    enum sqe_op op;
    bool signaled;
    uint32_t len, offset; /* in source */
};

/* Messages from `qp`, on side id % 2, to `peer`. */
struct flow {
    unsigned id;
    struct test_qp pair[2];
    struct flow_memory *memory;
    struct message message[MESSAGES];
    unsigned posted, done;         /* messages */
    unsigned received, next_recvd; /* SENDs; the message after the last received one */
};

struct app {
    struct dataplane dp;
    struct test_cq cq[2];
    struct test_mr mr[2];
    struct flow flow[FLOWS];
    unsigned stop_after; /* this many messages, whatever is outstanding; 0: when all are done */
    ns_t deadline;
    _Atomic bool ended;
    pthread_t thread;
};

static struct app app;

static struct memory *memory(void)
{
    return (struct memory *)kit_memory;
}

static uint64_t va(const void *p)
{
    return KIT_BASE + (uint64_t)((const uint8_t *)p - kit_memory);
}

/* ---- contents ---- */

static uint8_t content(const struct flow *f, unsigned n, unsigned at)
{
    return (uint8_t)(n * 37 + (n >> 8) * 11 + at * 7 + (at >> 8) * 3 + f->id * 101);
}

static void fill(const struct flow *f, unsigned n, uint8_t *p, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        p[i] = content(f, n, i);
}

static bool untouched(const uint8_t *unit, uint32_t from)
{
    for (uint32_t i = from; i < UNIT; i++) {
        if (unit[i] != NOT_WRITTEN)
            return false;
    }
    return true;
}

/* Whether the unit holds message n of the flow, and no byte was written behind it. */
static bool holds(const struct flow *f, unsigned n, const uint8_t *unit)
{
    uint32_t len = f->message[n].len;

    for (uint32_t i = 0; i < len; i++) {
        if (unit[i] != content(f, n, i))
            return false;
    }
    return untouched(unit, len);
}

/* ---- the application ---- */

static void plan(struct flow *f, struct random *r)
{
    static const enum sqe_op op[] = {SQE_SEND, SQE_WRITE, SQE_READ};

    for (unsigned n = 0; n < MESSAGES; n++)
        f->message[n] = (struct message){
            .op = op[random_below(r, 3)],
            .signaled = n % 3 == 2 || n == MESSAGES - 1 || random_below(r, 2),
            .len = random_below(r, random_below(r, 4) ? UNIT + 1 : 3),
            .offset = random_below(r, SOURCE - UNIT + 1),
        };
}

static void give_inbox(struct flow *f, unsigned recv)
{
    uint8_t *unit = f->memory->inbox[recv % WINDOW];

    memset(unit, NOT_WRITTEN, UNIT);
    post_recv(&f->pair[1], va(unit), UNIT, app.mr[!(f->id % 2)].key);
}

static void post_next(struct flow *f)
{
    const struct message *m = &f->message[f->posted];
    uint8_t *local = f->memory->local[f->posted % WINDOW];
    uint8_t *target = f->memory->target[f->posted % WINDOW];
    struct test_send s = {.op = m->op,
                          .signaled = m->signaled,
                          .addr = va(local),
                          .len = m->len,
                          .lkey = app.mr[f->id % 2].key,
                          .rkey = app.mr[!(f->id % 2)].key};

    if (m->op == SQE_READ) {
        s.remote_addr = va(f->memory->source + m->offset);
        memset(local, NOT_WRITTEN, UNIT);
    } else {
        s.remote_addr = va(target);
        memset(target, NOT_WRITTEN, UNIT);
        fill(f, f->posted, local, m->len);
    }
    post_send(&f->pair[0], &s);
    f->posted++;
}

static void post_all(void)
{
    for (unsigned i = 0; i < FLOWS; i++) {
        struct flow *f = &app.flow[i];
        unsigned before = f->posted;

        while (f->posted < MESSAGES && f->posted < f->done + WINDOW)
            post_next(f);
        if (f->posted != before)
            ring_bell(&f->pair[0]);
    }
}

/* Message n has completed; the content of a SEND is checked when it is received. */
static void check_done(const struct flow *f, unsigned n)
{
    const struct message *m = &f->message[n];
    const uint8_t *local = f->memory->local[n % WINDOW];

    if (m->op == SQE_WRITE)
        require(holds(f, n, f->memory->target[n % WINDOW]));
    if (m->op == SQE_READ) {
        require(!memcmp(local, f->memory->source + m->offset, m->len));
        require(untouched(local, m->len));
    }
}

/* Completions come in order: this one is the next signaled one, and completes those before it. */
static void on_sent(struct flow *f, const struct cqe *e)
{
    static const uint8_t opcode[] = {
        [SQE_SEND] = WC_SEND, [SQE_WRITE] = WC_RDMA_WRITE, [SQE_READ] = WC_RDMA_READ};
    unsigned n = f->done;

    while (!f->message[n].signaled)
        n++;
    require(e->status == WC_SUCCESS);
    require(n < f->posted && e->wr_id == n && e->wqe == n);
    require(e->opcode == opcode[f->message[n].op]);
    while (f->done <= n)
        check_done(f, f->done++);
}

static void on_received(struct flow *f, const struct cqe *e)
{
    unsigned n = f->next_recvd;

    while (f->message[n].op != SQE_SEND)
        n++;
    require(e->status == WC_SUCCESS && e->opcode == WC_RECV);
    require(n < f->posted && e->wr_id == f->received && e->byte_len == f->message[n].len);
    require(holds(f, n, f->memory->inbox[f->received % WINDOW]));
    f->next_recvd = n + 1;
    give_inbox(f, f->received++);
}

static bool poll_side(unsigned side)
{
    struct cq_reader *reader = &app.cq[side].reader;
    const struct cqe *e;
    bool any = false;

    for (; (e = cq_reader_peek(reader)); any = true) {
        struct flow *f = app.flow;
        unsigned end = 0;

        while (f->pair[end = f->id % 2 != side].layout.qpn != e->qpn)
            require(++f < app.flow + FLOWS);
        if (end)
            on_received(f, e);
        else
            on_sent(f, e);
        cq_reader_advance(reader);
    }
    return any;
}

static bool poll_both(void)
{
    bool any = poll_side(0);

    return poll_side(1) || any;
}

/* Sleeps until a completion channel has an event; a lost event fails the test. */
static void wait_for_completions(void)
{
    struct pollfd p[2];
    uint64_t cookie;
    ns_t now;

    for (unsigned i = 0; i < 2; i++) {
        cq_arm(&app.cq[i]);
        p[i] = (struct pollfd){.fd = app.cq[i].channel, .events = POLLIN};
    }
    if (poll_both())
        return;
    now = worker_time();
    require(now < app.deadline);
    require(poll(p, 2, (int)((app.deadline - now) / NS_PER_MS)) > 0);
    for (unsigned i = 0; i < 2; i++) {
        while (recv(p[i].fd, &cookie, sizeof(cookie), MSG_DONTWAIT) > 0)
            ;
    }
}

static bool is_finished(void)
{
    unsigned done = 0;
    bool all = true;

    for (unsigned i = 0; i < FLOWS; i++) {
        const struct flow *f = &app.flow[i];
        unsigned n = f->next_recvd;

        while (n < MESSAGES && f->message[n].op != SQE_SEND)
            n++;
        done += f->done;
        all &= f->done == MESSAGES && n == MESSAGES;
    }
    return all || (app.stop_after && done >= app.stop_after);
}

static void *application(void *arg)
{
    while (!is_finished()) {
        post_all();
        if (!poll_both())
            wait_for_completions();
    }
    atomic_store(&app.ended, true);
    return NULL;
}

/* ---- running it ---- */

static void start(unsigned workers, const struct pktio_sim_config *config, unsigned stop_after)
{
    struct random r = {config->seed};

    memset(&app, 0, sizeof(app));
    memset(kit_memory, NOT_WRITTEN, sizeof(kit_memory));
    app.stop_after = stop_after;
    app.deadline = worker_time() + DEADLINE;
    dataplane_start(&app.dp, workers, config);
    for (unsigned i = 0; i < 2; i++) {
        cq_open(&app.dp, i, &app.cq[i]);
        app.mr[i] = mr_open(&app.dp, i, KIT_BASE, sizeof(struct flow_memory) * FLOWS);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        struct flow *f = &app.flow[i];

        f->id = i;
        f->memory = &memory()->flow[i];
        fill(f, MESSAGES, f->memory->source, SOURCE);
        plan(f, &r);
        pair_open(&app.dp, f->pair, i % 2, app.cq);
        for (unsigned k = 0; k < WINDOW; k++)
            give_inbox(f, k);
    }
}

static void start_application(void)
{
    require(!pthread_create(&app.thread, NULL, application, NULL));
}

static void stop(void)
{
    dataplane_stop(&app.dp);
    cq_close(&app.cq[0]);
    cq_close(&app.cq[1]);
}

static const struct pktio_sim_config bad_network = {
    .seed = 7, .drop = 20, .duplicate = 10, .reorder = 20, .corrupt = 10};

/* Both ends on one worker, and a cable that is full of delayed frames. */
static void test_full_port(void **state)
{
    const struct pktio_sim_config config = {.seed = 3, .slots = 2, .reorder = 300};

    start(1, &config, 0);
    start_application();
    pthread_join(app.thread, NULL);
    for (unsigned i = 0; i < 2; i++)
        assert_true(counter_get(&pktio_sim_stats(app.dp.end[i])->full) > 0);
    stop();
}

/* ---- objects that come and go ---- */

#define CHURN_WRITES 8
#define CHURN_LEN    (SOURCE / CHURN_WRITES)

static void churn_post(struct test_qp *qp, uint32_t lkey, uint32_t rkey)
{
    for (unsigned i = 0; i < CHURN_WRITES; i++) {
        struct test_send s = {.op = SQE_WRITE,
                              .signaled = true,
                              .addr = va(memory()->local + i * CHURN_LEN),
                              .remote_addr = va(memory()->target + i * CHURN_LEN),
                              .len = CHURN_LEN,
                              .lkey = lkey,
                              .rkey = rkey};

        post_send(qp, &s);
    }
    ring_bell(qp);
}

/* In order: successful ones, then one refused, then flushed ones. */
static void churn_check(struct cq_reader *reader)
{
    const struct cqe *e;
    bool failed = false;

    for (unsigned n = 0; (e = cq_reader_peek(reader)); n++) {
        require(e->wr_id == n && n < CHURN_WRITES);
        require(failed ? e->status == WC_WR_FLUSH_ERR
                       : e->status == WC_SUCCESS || e->status == WC_REM_ACCESS_ERR);
        failed = e->status != WC_SUCCESS;
        cq_reader_advance(reader);
    }
}

/*
 * Deregisters the target of a connection's WRITEs, then destroys the queue pair during its
 * retransmissions. After the reply the memory is the application's again: the dataplane does not
 * access it.
 */
static void churn(struct test_cq cq[2], unsigned round)
{
    unsigned first = round % 2;
    struct test_mr local = mr_open(&app.dp, first, va(memory()->local), SOURCE);
    struct test_mr target = mr_open(&app.dp, !first, va(memory()->target), SOURCE);
    struct test_qp pair[2];

    pair_open(&app.dp, pair, first, cq);
    memset(memory()->local, (int)round, SOURCE);
    churn_post(&pair[0], local.key, target.key);
    for (unsigned i = 0; i < round % 4; i++)
        worker_quiesce(app.dp.session[!first]->device->workers[0]);
    mr_close(&app.dp, !first, target);
    memset(memory()->target, NOT_WRITTEN, SOURCE);
    qp_close(&pair[round % 3 == 0]);
    qp_close(&pair[round % 3 != 0]);
    mr_close(&app.dp, first, local);
    memset(memory()->local, NOT_WRITTEN, SOURCE);
    churn_check(&cq[first].reader);
    require(!cq_reader_peek(&cq[!first].reader));
    for (unsigned i = 0; i < SOURCE; i++)
        require(memory()->target[i] == NOT_WRITTEN);
}

static void look_around(unsigned round)
{
    struct test_qp *qp = &app.flow[round % FLOWS].pair[round % 2];
    struct ctl_msg m = {.handle = qp->layout.qpn};
    struct ctl_call k = {0};
    char *text = rnic_show(app.dp.rnic, 0);

    require(text);
    free(text);
    require(!kit_call(qp->session, CTL_QUERY_QP, &m, &k, false));
    require(k.reply.query_qp.attr.state == QPS_RTS);
}

static void test_bad_network(void **state)
{
    struct test_cq cq[2];
    unsigned rounds = 0;

    start(2, &bad_network, 0);
    cq_open(&app.dp, 0, &cq[0]);
    cq_open(&app.dp, 1, &cq[1]);
    start_application();
    while (!atomic_load(&app.ended)) {
        churn(cq, rounds);
        look_around(rounds++);
        event_loop_step(app.dp.loop, 1);
        dataplane_control(&app.dp);
    }
    pthread_join(app.thread, NULL);
    assert_true(rounds > 0);
    for (unsigned i = 0; i < 2; i++) {
        const struct pktio_sim_stats *s = pktio_sim_stats(app.dp.end[i]);

        assert_true(counter_get(&s->dropped) > 0);
        assert_true(counter_get(&s->duplicated) > 0);
        assert_true(counter_get(&s->reordered) > 0);
        assert_true(counter_get(&s->corrupted) > 0);
    }
    stop();
    cq_close(&cq[0]);
    cq_close(&cq[1]);
}

/* The contexts close while requests are in flight, some of them retransmitted. */
static void test_close_amid_traffic(void **state)
{
    for (unsigned i = 0; i < 5; i++) {
        struct pktio_sim_config config = bad_network;

        config.seed = i;
        start(1 + i % 2, &config, 100 + i);
        start_application();
        pthread_join(app.thread, NULL);
        post_all();
        stop();
    }
}

/* ---- sleep ---- */

#define SLEEPS 20

/* Both workers sleep; a doorbell wakes one, a frame the other. A worker without a wake-up would run
 * at its next safety tick; the test must not count that. */
static void test_sleep_and_wake(void **state)
{
    const struct pktio_sim_config config = {0};
    const struct worker_stats *s[2];
    uint64_t before[2];
    struct flow *f = &app.flow[0];

    start(2, &config, 0);
    for (unsigned i = 0; i < 2; i++) {
        s[i] = worker_stats(rnic_worker(app.dp.rnic, i));
        before[i] = counter_get(&s[i]->wakes);
    }
    for (unsigned n = 0; n < SLEEPS; n++) {
        for (unsigned i = 0; i < 2; i++) {
            while (strcmp(worker_mode(rnic_worker(app.dp.rnic, i)), "asleep"))
                sched_yield();
        }
        f->message[n] = (struct message){.op = SQE_WRITE, .signaled = true, .len = UNIT};
        post_next(f);
        ring_bell(&f->pair[0]);
        while (f->done <= n) {
            if (!poll_both())
                wait_for_completions();
        }
    }
    for (unsigned i = 0; i < 2; i++)
        assert_true(counter_get(&s[i]->wakes) - before[i] >= SLEEPS / 2);
    stop();
}

/* ---- what applications are told ---- */

static struct ctx_shared *told(unsigned side)
{
    return app.dp.session[side]->segment.base;
}

/* One message of the first flow, and a time in which both applications poll. */
static void message_while_polling(void)
{
    struct flow *f = &app.flow[0];
    ns_t end = worker_time() + 300 * NS_PER_US;
    unsigned n = f->posted;

    require(n < MESSAGES);
    f->message[n] = (struct message){.op = SQE_WRITE, .signaled = true, .len = UNIT};
    post_next(f);
    ring_bell(&f->pair[0]);
    while (f->done <= n || worker_time() < end) {
        for (unsigned i = 0; i < 2; i++)
            atomic_fetch_add(&told(i)->polls, 1);
        if (!poll_both())
            sched_yield();
        require(worker_time() < app.deadline);
    }
}

/* Each learns which worker serves it. */
static bool all_know(uint32_t limit)
{
    bool known = true;

    for (unsigned i = 0; i < 2; i++)
        known &= atomic_load(&told(i)->spin_limit) == limit &&
                 atomic_load(&told(i)->worker_cpu[i]) >= WORKER_CPU_KNOWN;
    return known;
}

static void test_tells_applications(void **state)
{
    const struct pktio_sim_config config = {0};
    const struct worker_stats *s;
    uint64_t yields;

    start(2, &config, 0);
    s = worker_stats(rnic_worker(app.dp.rnic, 0));
    assert_false(all_know(0));
    /* Also over an earlier worker's value, or one that an application wrote. */
    atomic_store(&app.dp.rnic->group.cpus, 1);
    while (!all_know(0))
        message_while_polling();
    atomic_store(&told(1)->spin_limit, 7);
    while (!all_know(0))
        message_while_polling();
    /* A worker that is always busy shares its CPU nevertheless. */
    yields = counter_get(&s->yields);
    while (counter_get(&s->yields) - yields < 10)
        message_while_polling();
    atomic_store(&app.dp.rnic->group.cpus, 64);
    while (!all_know(POLL_SPINS))
        message_while_polling();
    /* A program that comes now is notified at once. */
    session_close(app.dp.session[1]);
    dataplane_open_context(&app.dp, 1);
    assert_true(all_know(POLL_SPINS));
    stop();
}

/* A peer's WRITE completes nothing for the program whose memory it changes; a thread of that
 * program may sleep in a poll, and looks at the memory between two polls. */
static void test_write_wakes_a_poller(void **state)
{
    const struct pktio_sim_config config = {0};
    uint32_t writes;

    start(1, &config, 0);
    writes = atomic_load(&told(1)->worker[0].writes);
    atomic_store(&told(1)->app_armed, 1);
    message_while_polling();
    assert_int_not_equal(atomic_load(&told(1)->worker[0].writes), writes);
    assert_int_equal(atomic_load(&told(1)->app_armed), 0);
    assert_int_equal(atomic_load(&told(0)->worker[0].writes),
                     0); /* it has written, and nothing was written to it */
    stop();
}

/* ---- a full port ---- */

#define TIMEOUT (5 * NS_PER_SEC)

static atomic_bool held, released;

static void hold(struct worker *w, void *arg)
{
    atomic_store(&held, true);
    while (!atomic_load(&released))
        sched_yield();
}

static void *holder(void *arg)
{
    worker_call(rnic_worker(app.dp.rnic, 1), hold, NULL);
    return NULL;
}

static bool rises_to(const counter_t *counter, uint64_t value)
{
    ns_t end = worker_time() + TIMEOUT;

    while (counter_get(counter) < value && worker_time() < end)
        sched_yield();
    return counter_get(counter) >= value;
}

/* The far end receives nothing for a while: the worker sleeps until there is room, as the peer that
 * makes the room may need its CPU, and continues by itself. */
static void test_full_port_is_waited_for_asleep(void **state)
{
    const struct pktio_sim_config config = {.slots = 4};
    struct flow *f = &app.flow[0];
    const struct worker_stats *s;
    pthread_t thread;

    atomic_store(&held, false);
    atomic_store(&released, false);
    start(2, &config, 0);
    s = worker_stats(rnic_worker(app.dp.rnic, 0));
    require(!pthread_create(&thread, NULL, holder, NULL));
    while (!atomic_load(&held))
        sched_yield();
    for (unsigned n = 0; n < WINDOW; n++) {
        f->message[n] = (struct message){.op = SQE_WRITE, .signaled = true, .len = UNIT};
        post_next(f);
    }
    ring_bell(&f->pair[0]);
    assert_true(rises_to(&pktio_sim_stats(app.dp.end[0])->full, 1));
    assert_true(rises_to(&s->sleeps, counter_get(&s->sleeps) + 20));
    atomic_store(&released, true);
    pthread_join(thread, NULL);
    while (f->done < WINDOW) {
        if (!poll_both())
            wait_for_completions();
    }
    stop();
}

/* ---- a worker that is behind ---- */

#define PAIRS      8
#define BEHIND_LEN 32768 /* bytes of a message */

/* The worker of a pair's second queue pair: not that of the first. */
static void part(struct test_qp pair[2])
{
    struct device *d = app.dp.rnic->device[0];

    for (unsigned i = 0; i < 2; i++)
        require(
            worker_migrate_qp(&qp_object_get(pair[i].session, pair[i].layout.qpn)->dp, d->port[i]));
}

static uint64_t forward_drops(void)
{
    const struct engine *e = app.dp.rnic->device[0]->port[0]->engine;

    return counter_get(&engine_counters(e)->drop[DROP_forward_full]);
}

/* Posts more frames for the second worker than its ring holds, while that worker is stopped.
 * Returns how many were dropped; *took: how long it was stopped, at least. */
static uint64_t fall_behind(ns_t *took)
{
    static struct test_qp pair[PAIRS][2];
    const struct worker_stats *s;
    struct test_mr mr;
    pthread_t thread;
    uint64_t before, drops;
    struct test_cq cq;

    atomic_store(&held, false);
    atomic_store(&released, false);
    dataplane_start_loop(&app.dp, 2, &kit_provider);
    dataplane_open_context(&app.dp, 0);
    cq_open(&app.dp, 0, &cq);
    mr = mr_open(&app.dp, 0, KIT_BASE, KIT_BYTES);
    for (unsigned i = 0; i < PAIRS; i++) {
        loop_pair_open(&app.dp, pair[i], &cq);
        part(pair[i]);
    }
    require(!pthread_create(&thread, NULL, holder, NULL));
    while (!atomic_load(&held))
        sched_yield();
    *took = worker_time();
    for (unsigned i = 0; i < PAIRS; i++) {
        for (unsigned n = 0; n < 4; n++) {
            struct test_send w = {.op = SQE_WRITE,
                                  .signaled = true,
                                  .addr = KIT_BASE,
                                  .remote_addr = KIT_BASE + BEHIND_LEN,
                                  .len = BEHIND_LEN,
                                  .lkey = mr.key,
                                  .rkey = mr.key};

            post_send(&pair[i][0], &w);
        }
        ring_bell(&pair[i][0]);
    }
    s = worker_stats(rnic_worker(app.dp.rnic, 0));
    assert_true(rises_to(&s->forwarded_out, FORWARD_RING_BYTES / 2 / LOOP_ROOM));
    before = counter_get(&s->sleeps);
    assert_true(rises_to(&s->sleeps, before + 5)); /* asleep, except for short wake-ups */
    atomic_store(&released, true);
    pthread_join(thread, NULL);
    for (unsigned n = 0; n < PAIRS * 4;) {
        const struct cqe *e = cq_reader_peek(&cq.reader);

        if (!e) {
            sched_yield();
            continue;
        }
        assert_int_equal(e->status, WC_SUCCESS);
        cq_reader_advance(&cq.reader);
        n++;
    }
    *took = worker_time() - *took;
    drops = forward_drops();
    dataplane_stop(&app.dp);
    cq_close(&cq);
    return drops;
}

/* Frames that cannot be forwarded wait at the port, and none is lost; but no longer than
 * RX_PAUSE_MAX, and a machine may stand still for that time. */
static void test_who_is_behind_is_waited_for(void **state)
{
    ns_t took = RX_PAUSE_MAX;
    uint64_t drops = 1;

    for (unsigned tries = 0; tries < 10 && drops && took >= RX_PAUSE_MAX; tries++)
        drops = fall_behind(&took);
    assert_int_equal(drops, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_behind_is_waited_for),
        cmocka_unit_test(test_full_port),
        cmocka_unit_test(test_bad_network),
        cmocka_unit_test(test_close_amid_traffic),
        cmocka_unit_test(test_sleep_and_wake),
        cmocka_unit_test(test_tells_applications),
        cmocka_unit_test(test_write_wakes_a_poller),
        cmocka_unit_test(test_full_port_is_waited_for_asleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
