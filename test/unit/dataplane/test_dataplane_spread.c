/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two devices with several workers each, over ports with several queues: queue pairs are owned by
 * the worker at which their packets arrive, or their packets are forwarded until they are; every
 * byte is right at all times. The application runs on the control thread and reads its objects
 * directly.
 */
#include <sched.h>
#include <string.h>

#include "spread.h"
#include "unit.h"
#include "worker_kit.h"

#define FLOWS    12
#define WINDOW   3   /* messages of a flow outstanding */
#define UNIT     512 /* bytes of a message: two packets */
#define BATCH    40  /* messages of a flow */
#define DEADLINE (20 * NS_PER_SEC)

struct flow_memory {
    uint8_t local[WINDOW][UNIT], target[WINDOW][UNIT], inbox[WINDOW][UNIT];
    uint8_t source[UNIT]; /* READs read it */
};
_Static_assert(sizeof(struct flow_memory) * FLOWS <= KIT_BYTES, "the kit has no more");

/* Messages from pair[0], on side id % 2, to pair[1]: SEND, WRITE and READ in turn. */
struct flow {
    unsigned id;
    struct test_qp pair[2];
    struct flow_memory *memory;
    unsigned posted, done, received;
};

struct app {
    struct dataplane dp;
    struct test_cq cq[2];
    struct test_mr mr[2];
    struct flow flow[FLOWS];
    unsigned wanted; /* messages of each flow */
    ns_t deadline;
};

static struct app app;

static uint64_t va(const void *p)
{
    return KIT_BASE + (uint64_t)((const uint8_t *)p - kit_memory);
}

/* ---- messages ---- */

static enum sqe_op op_of(unsigned n)
{
    static const enum sqe_op op[] = {SQE_SEND, SQE_WRITE, SQE_READ};

    return op[n % 3];
}

static void fill(const struct flow *f, unsigned n, uint8_t *p)
{
    for (unsigned i = 0; i < UNIT; i++)
        p[i] = (uint8_t)(n * 37 + i * 7 + (i >> 8) * 3 + f->id * 101);
}

static bool holds(const struct flow *f, unsigned n, const uint8_t *p)
{
    uint8_t want[UNIT];

    fill(f, n, want);
    return !memcmp(p, want, UNIT);
}

static void give_inbox(struct flow *f, unsigned recv)
{
    uint8_t *unit = f->memory->inbox[recv % WINDOW];

    memset(unit, 0, UNIT);
    post_recv(&f->pair[1], va(unit), UNIT, app.mr[!(f->id % 2)].key);
}

static void post_next(struct flow *f)
{
    unsigned n = f->posted++;
    uint8_t *local = f->memory->local[n % WINDOW], *target = f->memory->target[n % WINDOW];
    struct test_send s = {.op = op_of(n),
                          .signaled = true,
                          .addr = va(local),
                          .len = UNIT,
                          .lkey = app.mr[f->id % 2].key,
                          .rkey = app.mr[!(f->id % 2)].key};

    s.remote_addr = va(s.op == SQE_READ ? f->memory->source : target);
    if (s.op == SQE_READ)
        memset(local, 0, UNIT);
    else
        fill(f, n, local);
    if (s.op == SQE_WRITE)
        memset(target, 0, UNIT);
    post_send(&f->pair[0], &s);
}

static void on_sent(struct flow *f, const struct cqe *e)
{
    unsigned n = f->done++;

    require(e->status == WC_SUCCESS && e->wr_id == n && n < f->posted);
    if (op_of(n) == SQE_WRITE)
        require(holds(f, n, f->memory->target[n % WINDOW]));
    if (op_of(n) == SQE_READ)
        require(!memcmp(f->memory->local[n % WINDOW], f->memory->source, UNIT));
}

/* SENDs are messages 0, 3, 6... */
static void on_received(struct flow *f, const struct cqe *e)
{
    require(e->status == WC_SUCCESS && e->wr_id == f->received && e->byte_len == UNIT);
    require(holds(f, f->received * 3, f->memory->inbox[f->received % WINDOW]));
    give_inbox(f, f->received++);
}

static bool poll_side(unsigned side)
{
    struct cq_reader *reader = &app.cq[side].reader;
    const struct cqe *e;
    bool any = false;

    for (; (e = cq_reader_peek(reader)); any = true) {
        struct flow *f = app.flow;
        unsigned end;

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

static bool all_done(void)
{
    for (unsigned i = 0; i < FLOWS; i++) {
        const struct flow *f = &app.flow[i];

        if (f->done < app.wanted || f->received < (app.wanted + 2) / 3)
            return false;
    }
    return true;
}

/* One batch of every flow, to its end. */
static void run_batch(void)
{
    app.wanted += BATCH;
    while (!all_done()) {
        bool any = false;

        for (unsigned i = 0; i < FLOWS; i++) {
            struct flow *f = &app.flow[i];
            unsigned before = f->posted;

            while (f->posted < app.wanted && f->posted < f->done + WINDOW)
                post_next(f);
            if (f->posted != before)
                ring_bell(&f->pair[0]);
        }
        any |= poll_side(0);
        any |= poll_side(1);
        dataplane_control(&app.dp);
        require(worker_time() < app.deadline);
        if (!any)
            sched_yield();
    }
}

/* ---- setting up ---- */

static void start(unsigned workers, const struct pktio_sim_config *config,
                  struct pktio *(*wrap)(struct pktio *end))
{
    memset(&app, 0, sizeof(app));
    app.deadline = worker_time() + DEADLINE;
    app.dp.wrap = wrap;
    dataplane_start(&app.dp, workers, config);
    for (unsigned i = 0; i < 2; i++) {
        cq_open(&app.dp, i, &app.cq[i]);
        app.mr[i] = mr_open(&app.dp, i, KIT_BASE, sizeof(struct flow_memory) * FLOWS);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        struct flow *f = &app.flow[i];

        f->id = i;
        f->memory = (struct flow_memory *)kit_memory + i;
        fill(f, 999, f->memory->source);
        pair_open(&app.dp, f->pair, i % 2, app.cq);
        for (unsigned k = 0; k < WINDOW; k++)
            give_inbox(f, k);
    }
}

static void stop(void)
{
    dataplane_stop(&app.dp);
    cq_close(&app.cq[0]);
    cq_close(&app.cq[1]);
}

static struct device *device(unsigned side)
{
    return app.dp.session[side]->device;
}

static uint64_t forwarded_over(void)
{
    uint64_t sum = 0;

    for (unsigned side = 0; side < 2; side++)
        for (unsigned i = 0; i < device(side)->parts; i++)
            sum += counter_get(&engine_counters(device(side)->port[i]->engine)->rx_forwarded_out);
    return sum;
}

/* Each device has this many parts, and the parts with queue pairs have worked. Queue pair numbers
 * are random, so nearly always all parts have some. */
static void require_busy(unsigned parts)
{
    for (unsigned side = 0; side < 2; side++) {
        assert_int_equal(device(side)->parts, parts);
        for (unsigned i = 0; i < parts; i++) {
            const struct engine_counters *c = engine_counters(device(side)->port[i]->engine);

            if (!device(side)->assigned[i])
                continue;
            assert_true(counter_sum(c->rx_packets, QOS_PRIORITIES) > 0);
            assert_true(counter_sum(c->tx_packets, QOS_PRIORITIES) > 0);
        }
    }
}

/* ---- tests ---- */

/* Two workers for each device. Both ports report the rule by which they spread packets: no packet
 * arrives at another worker. */
static void test_predicted(void **state)
{
    const struct pktio_sim_config config = {.queues = {2, 2}};

    start(4, &config, NULL);
    run_batch();
    require_busy(2);
    assert_int_equal(forwarded_over(), 0);
    stop();
}

/* The same with three workers, and a port that does not report its rule but accepts flow rules. */
static void test_rules(void **state)
{
    const struct pktio_sim_config config = {.queues = {3, 3}, .rss_secret = true, .flows = FLOWS};

    start(6, &config, NULL);
    for (unsigned side = 0; side < 2; side++)
        assert_int_equal(pktio_sim_flows(app.dp.end[side]), FLOWS);
    run_batch();
    require_busy(3);
    assert_int_equal(forwarded_over(), 0);
    stop();
}

/* Neither port reports a rule: packets are forwarded until every queue pair has migrated to where
 * its packets arrive. */
static void test_secret(void **state)
{
    const struct pktio_sim_config config = {.queues = {2, 2}, .rss_secret = true};
    uint64_t before = 0;

    start(4, &config, NULL);
    run_batch();
    assert_true(forwarded_over() > 0);
    while (forwarded_over() != before) {
        before = forwarded_over();
        run_batch();
    }
    assert_true(device(0)->moved_after_misplaced + device(1)->moved_after_misplaced > 0);
    require_busy(2);
    stop();
}

/* A bad cable between ports of different widths; both devices on the same workers. */
static void test_bad_network(void **state)
{
    const struct pktio_sim_config config = {.seed = 3,
                                            .drop = 20,
                                            .duplicate = 10,
                                            .reorder = 20,
                                            .corrupt = 10,
                                            .queues = {3, 2},
                                            .rss_secret = true};

    start(3, &config, NULL);
    run_batch();
    assert_true(forwarded_over() > 0);
    assert_int_equal(device(0)->parts, 3);
    assert_int_equal(device(1)->parts, 2);
    stop();
}

static struct pktio *in_software(struct pktio *end)
{
    const struct pktio_spread_config config = {.queues = 2, .slots = 64};
    char error[128];
    struct pktio *io = pktio_spread_open(end, &config, error, sizeof(error));

    require(io);
    return io;
}

/* Ports with one queue, spread in software: as good as a NIC's. */
static void test_software(void **state)
{
    const struct pktio_sim_config config = {0};

    start(4, &config, in_software);
    run_batch();
    require_busy(2);
    assert_int_equal(forwarded_over(), 0);
    stop();
}

static void test_software_bad_network(void **state)
{
    const struct pktio_sim_config config = {
        .seed = 4, .drop = 20, .duplicate = 10, .reorder = 20, .corrupt = 10, .slots = 16};

    start(2, &config, in_software);
    run_batch();
    require_busy(2);
    stop();
}

/* ---- sleep ---- */

/* One message after another while all workers sleep: each worker on the path is woken, those of
 * queue 0 also by frames for others. */
static void test_software_wakes(void **state)
{
    const struct pktio_sim_config config = {0};

    start(4, &config, in_software);
    for (unsigned n = 0; n < 4; n++) {
        for (unsigned i = 0; i < FLOWS; i++) {
            struct flow *f = &app.flow[i];

            for (unsigned k = 0; k < 4; k++)
                while (strcmp(worker_mode(rnic_worker(app.dp.rnic, k)), "asleep"))
                    sched_yield();
            post_next(f);
            ring_bell(&f->pair[0]);
            while (f->done < f->posted) {
                if (!poll_side(0) && !poll_side(1))
                    sched_yield();
                require(worker_time() < app.deadline);
            }
        }
    }
    assert_int_equal(forwarded_over(), 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predicted),      cmocka_unit_test(test_rules),
        cmocka_unit_test(test_secret),         cmocka_unit_test(test_bad_network),
        cmocka_unit_test(test_software),       cmocka_unit_test(test_software_bad_network),
        cmocka_unit_test(test_software_wakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
