/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More contexts than a worker looks at in each pass: those that have been silent for long are
 * served as well, whether the worker sleeps or is busy with others. A worker that misses a doorbell
 * would look at its next safety tick; the tests must not count that.
 */
#include "worker_kit.h"

#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

#include "random.h"
#include "unit.h"
#include "worker_internal.h"

#define PROGRAMS 160
#define ROUNDS   60
#define LEN      64

struct program {
    struct session *session;
    struct test_cq cq;
    struct test_mr mr;
    struct test_qp pair[2];
    unsigned sent;
};

static struct dataplane dp;
static struct program program[PROGRAMS];

static void program_open(struct program *p)
{
    dataplane_open_context(&dp, 0);
    p->session = dp.session[0];
    p->sent = 0;
    cq_open(&dp, 0, &p->cq);
    p->mr = mr_open(&dp, 0, KIT_BASE, KIT_BYTES);
    loop_pair_open(&dp, p->pair, &p->cq);
}

static void program_close(struct program *p)
{
    session_close(p->session);
    cq_close(&p->cq);
    p->session = NULL;
}

static void start(unsigned workers)
{
    dataplane_start_loop(&dp, workers, &kit_provider);
    for (unsigned i = 0; i < PROGRAMS; i++)
        program_open(&program[i]);
}

static void stop(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        if (program[i].session)
            program_close(&program[i]);
    dp.session[0] = NULL;
    dataplane_stop(&dp);
}

static void post(struct program *p)
{
    struct test_send w = {.op = SQE_WRITE,
                          .signaled = true,
                          .addr = KIT_BASE,
                          .remote_addr = KIT_BASE + LEN,
                          .len = LEN,
                          .lkey = p->mr.key,
                          .rkey = p->mr.key};

    post_send(&p->pair[0], &w);
}

static bool take(struct program *p)
{
    const struct cqe *e = cq_reader_peek(&p->cq.reader);

    if (!e)
        return false;
    require(e->status == WC_SUCCESS);
    cq_reader_advance(&p->cq.reader);
    return true;
}

static void send_one(struct program *p)
{
    post(p);
    ring_bell(&p->pair[0]);
    while (!take(p))
        sched_yield();
}

static struct worker *worker(unsigned i)
{
    return rnic_worker(dp.rnic, i);
}

static void await_sleep(unsigned i)
{
    while (strcmp(worker_mode(worker(i)), "asleep"))
        sched_yield();
}

static void count_cold(struct worker *w, void *arg)
{
    *(unsigned *)arg = w->contexts - w->hot;
}

static unsigned cold(unsigned i)
{
    unsigned n;

    worker_call(worker(i), count_cold, &n);
    return n;
}

/* Only a worker that is awake finds out who is silent. */
static void await_cold(unsigned i)
{
    while (cold(i) < PROGRAMS / 2)
        send_one(&program[0]);
}

static void test_silent_ones_wake_the_worker(void **state)
{
    struct random r = {1};
    uint64_t wakes;

    start(1);
    await_cold(0);
    wakes = counter_get(&worker_stats(worker(0))->wakes);
    for (unsigned n = 0; n < ROUNDS; n++) {
        await_sleep(0);
        send_one(&program[random_below(&r, PROGRAMS)]);
    }
    assert_true(counter_get(&worker_stats(worker(0))->wakes) - wakes >= ROUNDS / 2);
    stop();
}

/* One program keeps the worker busy; the others have to be served, too. */
static void test_silent_ones_beside_a_busy_one(void **state)
{
    struct random r = {2};

    start(1);
    await_cold(0);
    for (unsigned n = 0; n < ROUNDS; n++) {
        struct program *p = &program[1 + random_below(&r, PROGRAMS - 1)];

        post(p);
        ring_bell(&p->pair[0]);
        while (!take(p))
            send_one(&program[0]);
    }
    stop();
}

static void ring_all(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        ring_bell(&program[i].pair[0]);
}

/* More at once than a pass looks at. */
static void test_all_at_once(void **state)
{
    start(1);
    await_cold(0);
    for (unsigned n = 0; n < ROUNDS; n++) {
        for (unsigned i = 0; i < PROGRAMS; i++)
            post(&program[i]);
        ring_all();
        for (unsigned i = 0; i < PROGRAMS; i++)
            while (!take(&program[i]))
                sched_yield();
        if (n % 8 == 0)
            await_sleep(0);
    }
    assert_true(cold(0) <= PROGRAMS);
    stop();
}

/* Contexts end and begin, whether they are looked at in each pass or not. */
static void test_they_come_and_go(void **state)
{
    struct random r = {3};

    start(1);
    for (unsigned n = 0; n < 4 * ROUNDS; n++) {
        struct program *p = &program[1 + random_below(&r, PROGRAMS - 1)];

        if (n % ROUNDS == 0)
            await_cold(0);
        if (random_below(&r, 3)) {
            send_one(p);
        } else {
            program_close(p);
            program_open(p);
        }
    }
    for (unsigned i = 0; i < PROGRAMS; i++)
        send_one(&program[i]);
    stop();
}

static void move_to(struct program *p, unsigned part)
{
    struct device *d = dp.rnic->device[0];

    for (unsigned i = 0; i < 2; i++)
        require(worker_migrate_qp(&qp_object_get(p->session, p->pair[i].layout.qpn)->dp,
                                  d->port[part]));
}

/* The application rings at the worker that its queue pairs have left, for a context that the other
 * worker does not look at. */
static void test_forwarded_to_a_silent_one(void **state)
{
    uint64_t wakes;

    start(2);
    for (unsigned i = 0; i < PROGRAMS; i++)
        move_to(&program[i], 1);
    await_cold(1);
    wakes = counter_get(&worker_stats(worker(1))->wakes);
    for (unsigned n = 1; n <= ROUNDS; n++) {
        struct program *p = &program[n];

        await_sleep(1);
        post(p);
        ring_bell_on(&p->pair[0], 0);
        while (!take(p))
            sched_yield();
    }
    assert_true(counter_get(&worker_stats(worker(1))->wakes) - wakes >= ROUNDS / 2);
    stop();
}

/* ---- a worker without a thread ---- */

static struct worker_group alone = {.notify_fd = -1};
static struct worker *w;
static struct dp_slots no_slots;
/* Of each a struct ctx_shared, with the doorbells of one worker. */
static CACHE_ALIGNED uint8_t memory[PROGRAMS][sizeof(struct ctx_shared) + sizeof(struct doorbells)];
static struct worker_ctx context[PROGRAMS];
static ns_t now;

static void begin(void)
{
    w = worker_create(&(struct worker_config){.group = &alone});
    memset(memory, 0, sizeof(memory));
    require(w);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        struct ctx_shared *shared = (struct ctx_shared *)memory[i];

        context[i] = (struct worker_ctx){
            .shared = shared, .doorbells = &shared->worker[0], .slots = &no_slots};
        require(!worker_ctx_attach(w, &context[i]));
    }
    now = worker_time();
}

static void end(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        worker_ctx_detach(w, &context[i]);
    require(!w->contexts && !w->hot);
    worker_destroy(w);
}

static bool is_armed(const struct worker_ctx *ctx)
{
    return atomic_load(&ctx->doorbells->worker_armed);
}

static bool is_cold(const struct worker_ctx *ctx)
{
    for (unsigned i = w->hot; i < w->contexts; i++)
        if (w->ctx[i] == ctx)
            return true;
    return false;
}

/* The first one rings, so that it stays hot. */
static void cool_all(void)
{
    now += 20 * NS_PER_MS;
    doorbell_ring(context[0].doorbells, 1);
    w->look_at_all = true;
    worker_serve_contexts(w, false, now);
    worker_cool_contexts(w, now);
    w->asked = now;
    assert_int_equal(w->hot, 64);
    assert_false(is_cold(&context[0]));
    for (unsigned i = 0; i < PROGRAMS; i++)
        assert_int_equal(is_armed(&context[i]), is_cold(&context[i]));
}

static struct worker_ctx *a_cold_one(void)
{
    return w->ctx[w->contexts - 1];
}

static bool is_served(struct worker_ctx *ctx, bool idle)
{
    worker_serve_contexts(w, idle, now);
    return !doorbell_pending(ctx->doorbells);
}

/* As an application does. */
static void ring(struct worker_ctx *ctx)
{
    if (doorbell_ring(ctx->doorbells, 3))
        require(!eventfd_write(ctx->wake_fd, 1));
}

static void test_asks_for_silent_ones(void **state)
{
    struct worker_ctx *ctx;
    unsigned passes;

    begin();
    for (unsigned idle = 0; idle < 2; idle++) {
        cool_all();
        ctx = a_cold_one();
        ring(ctx);
        assert_false(is_served(ctx, idle));
        for (passes = 1; !is_served(ctx, idle); passes++)
            now += NS_PER_US;
        assert_in_range(passes, idle ? 3 : 20, idle ? 10 : 60);
        assert_false(is_cold(ctx));
        assert_false(is_armed(ctx));
    }
    end();
}

static void test_asks_for_many(void **state)
{
    unsigned left = PROGRAMS, asked = 0;

    begin();
    cool_all();
    for (unsigned i = 0; i < PROGRAMS; i++)
        ring(&context[i]);
    now += 50 * NS_PER_US;
    for (; left; asked++) {
        now++; /* a full answer is followed by the next question at once */
        worker_serve_contexts(w, false, now);
        left = 0;
        for (unsigned i = 0; i < PROGRAMS; i++)
            left += doorbell_pending(context[i].doorbells);
    }
    assert_in_range(asked, 3, 5); /* WAKES_MAX at a time, of those that were cold */
    assert_int_equal(w->hot, PROGRAMS);
    end();
}

/* What has ended a sleep is served in the pass that follows. */
static void test_woken_from_a_sleep(void **state)
{
    struct worker_ctx *ctx;

    begin();
    cool_all();
    ctx = a_cold_one();
    ring(ctx);
    assert_true(worker_sleep(w, worker_time(), NS_PER_SEC));
    assert_true(is_served(ctx, false));
    end();
}

/* One that is hot wrote its eventfd after the pass had looked at it: its doorbell is not left to a
 * wake-up that the question has taken. */
static void test_asked_before_a_sleep(void **state)
{
    struct worker_ctx *ctx = &context[0];

    begin();
    cool_all();
    worker_arm_contexts(w, 1);
    worker_serve_contexts(w, true, now);
    ring(ctx);
    assert_true(worker_was_woken(w));
    w->next_hot = w->hot;
    assert_true(worker_serve_contexts(w, true, now));
    assert_false(doorbell_pending(ctx->doorbells));
    end();
}

/* Its application has ended between the doorbell and the write. */
static void test_without_a_write(void **state)
{
    struct worker_ctx *ctx;

    begin();
    cool_all();
    ctx = a_cold_one();
    w->looked = now;
    assert_true(doorbell_ring(ctx->doorbells, 3));
    now += 99 * NS_PER_MS;
    assert_false(is_served(ctx, true));
    now += NS_PER_MS;
    assert_true(is_served(ctx, true));
    end();
}

/* A timer that fires while the worker is awake does not serve the next sleep. */
static void test_timer_while_awake(void **state)
{
    ns_t before = worker_time();

    begin();
    assert_false(worker_sleep(w, before, NS_PER_MS));
    assert_int_equal(w->timer_at, 0);
    require(!eventfd_write(context[0].wake_fd, 1));
    assert_true(worker_sleep(w, before, 20 * NS_PER_MS));
    while (worker_time() < before + 25 * NS_PER_MS)
        sched_yield();
    assert_false(worker_was_woken(w));
    assert_int_equal(w->timer_at, 0);
    end();
}

/* When others have gone, those that are left are looked at in each pass. */
static void test_few_are_left(void **state)
{
    begin();
    cool_all();
    for (unsigned i = 0; i < PROGRAMS - 10; i++)
        worker_ctx_detach(w, &context[i]);
    worker_cool_contexts(w, now);
    assert_int_equal(w->hot, 10);
    assert_int_equal(w->contexts, 10);
    for (unsigned i = PROGRAMS - 10; i < PROGRAMS; i++)
        assert_false(is_armed(&context[i]));
    for (unsigned i = 0; i < PROGRAMS - 10; i++)
        require(!worker_ctx_attach(w, &context[i]));
    end();
}

/* Attached later than the pass began. */
static void test_new_ones_are_hot(void **state)
{
    ns_t before = worker_time();

    begin();
    worker_cool_contexts(w, before - 5 * NS_PER_MS);
    assert_int_equal(w->hot, PROGRAMS);
    end();
}

/* At most every 50 us, but before a sleep. */
static void test_forwarded_doorbells(void **state)
{
    struct worker_ctx *ctx;

    begin();
    cool_all();
    for (unsigned sleeps = 0; sleeps < 2; sleeps++) {
        w->looked = now;
        ctx = a_cold_one();
        assert_true(doorbell_ring(ctx->doorbells, 3));
        atomic_store(&w->bells_forwarded, true);
        if (sleeps) {
            worker_arm_contexts(w, 1);
        } else {
            assert_false(is_served(ctx, false));
            now += 50 * NS_PER_US;
        }
        assert_true(is_served(ctx, false));
        assert_false(is_cold(ctx));
    }
    end();
}

/* Another worker has set the bits, and finds the wake-up armed only when the context was served,
 * and is cold again: nothing is to be served, and the application's next doorbell is not missed. */
static void test_forwarded_late(void **state)
{
    struct worker_ctx *ctx;

    begin();
    cool_all();
    w->looked = now;
    ctx = a_cold_one();
    assert_true(atomic_exchange(&ctx->doorbells->worker_armed, 0));
    atomic_store(&w->bells_forwarded, true);
    now += 50 * NS_PER_US;
    worker_serve_contexts(w, false, now);
    assert_int_equal(is_armed(ctx), is_cold(ctx));
    ring(ctx);
    for (unsigned passes = 0; !is_served(ctx, false); passes++) {
        assert_true(passes < 60);
        now += NS_PER_US;
    }
    end();
}

/* What was rung before the wake-up was armed is not left to the wake-up. */
static void test_rung_just_before(void **state)
{
    begin();
    now += 20 * NS_PER_MS;
    doorbell_ring(context[PROGRAMS - 1].doorbells, 9);
    worker_cool_contexts(w, now);
    assert_int_equal(w->hot, 64);
    assert_false(is_cold(&context[PROGRAMS - 1]));
    assert_false(is_armed(&context[PROGRAMS - 1]));
    end();
}

/* Before it sleeps a worker looks at all whose wake-ups it has just armed. */
static void test_looks_in_turn(void **state)
{
    struct worker_ctx *last;

    begin();
    last = w->ctx[w->hot - 1];
    w->looked = now;
    for (unsigned i = 0; i < 2; i++) {
        w->next_hot = 0;
        for (unsigned k = 0; k < PROGRAMS; k++)
            if (i || w->ctx[k] == last) /* few that have rung are found in one pass */
                doorbell_ring(w->ctx[k]->doorbells, 2);
        assert_int_equal(is_served(last, true), !i);
    }
    assert_false(is_served(last, true));
    assert_true(is_served(last, true));
    for (unsigned k = 0; k < PROGRAMS; k++)
        doorbell_ring(w->ctx[k]->doorbells, 2);
    worker_arm_contexts(w, 1);
    assert_true(is_served(last, true));
    assert_true(is_armed(last));
    end();
}

/* ---- memory that fails ---- */

static ns_t processor_time(void)
{
    struct timespec ts;

    require(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts));
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

/* A program may let its memory fail again and again: a worker that ends its queue pairs does not
 * look at all the numbers that these could have. */
static void test_few_queue_pairs_fail(void **state)
{
    _Atomic uint32_t faults = 0;
    ns_t took;

    begin();
    for (unsigned i = 0; i < PROGRAMS; i++)
        context[i].faults = &faults;
    atomic_store(&faults, 1);
    took = processor_time();
    worker_fail_programs(w, now);
    took = processor_time() - took;
    for (unsigned i = 0; i < PROGRAMS; i++)
        assert_int_equal(context[i].faults_seen, 1);
    assert_true(took < 5 * NS_PER_MS);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_for_silent_ones),
        cmocka_unit_test(test_asks_for_many),
        cmocka_unit_test(test_woken_from_a_sleep),
        cmocka_unit_test(test_asked_before_a_sleep),
        cmocka_unit_test(test_forwarded_doorbells),
        cmocka_unit_test(test_forwarded_late),
        cmocka_unit_test(test_without_a_write),
        cmocka_unit_test(test_timer_while_awake),
        cmocka_unit_test(test_few_are_left),
        cmocka_unit_test(test_new_ones_are_hot),
        cmocka_unit_test(test_rung_just_before),
        cmocka_unit_test(test_looks_in_turn),
        cmocka_unit_test(test_silent_ones_wake_the_worker),
        cmocka_unit_test(test_silent_ones_beside_a_busy_one),
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_they_come_and_go),
        cmocka_unit_test(test_forwarded_to_a_silent_one),
        cmocka_unit_test(test_few_queue_pairs_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
