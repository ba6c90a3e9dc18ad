/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the control thread runs on a worker that sleeps, without waking it. */
#include <sched.h>
#include <string.h>

#include "unit.h"
#include "worker_kit.h"

#define TIMEOUT (10 * NS_PER_SEC)
#define TICK    (100 * NS_PER_MS) /* of a worker that sleeps */
#define ROUNDS  4000

static struct dataplane dp;

static void start(void)
{
    dp = (struct dataplane){0};
    dataplane_start_loop(&dp, 1, &kit_provider);
    dataplane_open_context(&dp, 0);
}

static struct worker *worker(void)
{
    return rnic_worker(dp.rnic, 0);
}

static uint64_t borrowed(void)
{
    return counter_get(&worker_stats(worker())->borrowed);
}

static uint64_t wakes(void)
{
    return counter_get(&worker_stats(worker())->wakes);
}

static struct engine *engine(void)
{
    return dp.rnic->device[0]->port[0]->engine;
}

struct visit {
    pthread_t thread;
    ns_t timer;
};

static void note_thread(struct worker *w, void *arg)
{
    struct visit *v = arg;

    v->thread = pthread_self();
    v->timer = engine_next_timer(engine());
}

/* Until a call has found the worker asleep. */
static void call_asleep(worker_fn fn, void *arg)
{
    ns_t end = worker_time() + TIMEOUT;
    uint64_t before;

    do {
        require(worker_time() < end);
        while (strcmp(worker_mode(worker()), "asleep"))
            sched_yield();
        before = borrowed();
        worker_call(worker(), fn, arg);
    } while (borrowed() == before);
}

/* The function runs on the caller's thread, and the worker sleeps on. */
static void test_sleeper_is_not_woken(void **state)
{
    uint64_t calls, was_woken;
    unsigned slept_on = 0;
    struct visit v;

    start();
    for (unsigned i = 0; i < 20; i++) {
        calls = counter_get(&worker_stats(worker())->calls);
        call_asleep(note_thread, &v);
        assert_true(pthread_equal(v.thread, pthread_self()));
        assert_true(counter_get(&worker_stats(worker())->calls) > calls);
        was_woken = wakes();
        call_asleep(note_thread, &v);
        slept_on += wakes() == was_woken;
    }
    /* A call that found the worker on its way to sleep woke it; its kick may end a later sleep. */
    assert_in_range(slept_on, 15, 20);
    dataplane_stop(&dp);
}

static void ring(struct worker *w, void *arg)
{
    engine_doorbell(engine(), arg, worker_time());
}

/* What a function leaves for the worker is done at once, not at the worker's next tick. */
static void test_work_wakes(void **state)
{
    const ns_t deadline = worker_time() + TIMEOUT;
    struct test_qp pair[2];
    unsigned in_time = 0;
    struct test_cq cq;
    struct test_mr mr;

    start();
    cq_open(&dp, 0, &cq);
    mr = mr_open(&dp, 0, KIT_BASE, KIT_BYTES);
    loop_pair_open(&dp, pair, &cq);
    for (unsigned i = 0; i < 10; i++) {
        struct test_send s = {.op = SQE_WRITE,
                              .signaled = true,
                              .addr = KIT_BASE,
                              .remote_addr = KIT_BASE + 64,
                              .len = 64,
                              .lkey = mr.key,
                              .rkey = mr.key};
        ns_t began;

        post_send(&pair[0], &s); /* and no doorbell */
        call_asleep(ring, qp_object_get(pair[0].session, pair[0].layout.qpn)->dp.qp);
        began = worker_time();
        while (!cq_reader_peek(&cq.reader)) {
            require(worker_time() < deadline);
            sched_yield();
        }
        assert_int_equal(cq_reader_peek(&cq.reader)->status, WC_SUCCESS);
        cq_reader_advance(&cq.reader);
        in_time += worker_time() - began < TICK / 4;
    }
    assert_true(in_time >= 6); /* by the tick it would be 2 or 3 */
    dataplane_stop(&dp);
    cq_close(&cq);
}

static _Atomic bool ended;

static void *kick(void *arg)
{
    while (!atomic_load(&ended)) {
        worker_kick(worker());
        sched_yield();
    }
    return NULL;
}

/* The worker wants its state back while the function has it. */
static void linger(struct worker *w, void *arg)
{
    unsigned *round = arg;

    note_thread(w, &(struct visit){0});
    if (++*round % 8 == 0) {
        worker_kick(w);
        for (unsigned i = 0; i < 50; i++)
            sched_yield();
    }
    note_thread(w, &(struct visit){0});
}

/* Functions and passes take turns, the worker or the control thread first: ThreadSanitizer looks
 * on. */
static void test_one_at_a_time(void **state)
{
    unsigned rounds = 0;
    pthread_t thread;

    start();
    atomic_store(&ended, false);
    require(!pthread_create(&thread, NULL, kick, NULL));
    while (rounds < ROUNDS || borrowed() < ROUNDS / 100)
        worker_call(worker(), linger, &rounds);
    atomic_store(&ended, true);
    pthread_join(thread, NULL);
    dataplane_stop(&dp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleeper_is_not_woken),
        cmocka_unit_test(test_work_wakes),
        cmocka_unit_test(test_one_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
