/* SPDX-License-Identifier: BSD-3-Clause */
/* Moderated completion events of a queue with two lanes, in virtual time. */
#include "moderation.h"

#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "unit.h"

#define START NS_PER_SEC
#define TICK  (UINT64_C(1) << TIMER_TICK_SHIFT)

static struct engine *engine[2];
static struct comp_queue *cq;
static struct cq_reader reader;
static unsigned events;
static ns_t now;

static void on_cq(void *ctx, struct comp_queue *of)
{
    assert_ptr_equal(of, cq);
    events++;
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *of, enum qp_event event)
{
    fail();
}

static int setup(void **state)
{
    size_t bytes = cq_segment_bytes(64, 2);
    struct cq_shared *shared = aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE));

    memset(shared, 0, bytes);
    cq = aligned_alloc(CACHE_LINE, round_up(sizeof(*cq), CACHE_LINE));
    comp_queue_init(cq, shared, 64, 2);
    reader = (struct cq_reader){.shared = shared, .size = 64, .lanes = 2};
    for (unsigned i = 0; i < 2; i++) {
        engine[i] = engine_create(&(struct engine_config){
            .lane = i, .host = {.cq_event = on_cq, .async_event = on_async}});
        assert_non_null(engine[i]);
    }
    now = START;
    events = 0;
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        engine_cq_forget(engine[i], cq);
        assert_true(engine_next_timer(engine[i]) == NS_NEVER);
        engine_destroy(engine[i]);
    }
    cq_moderation_free(cq);
    free(cq->shared);
    free(cq);
    return 0;
}

static void pass(ns_t time)
{
    now += time;
    for (unsigned i = 0; i < 2; i++)
        engine_timers(engine[i], now);
}

static void post(unsigned lane)
{
    struct cqe e = {0};

    pass(0);
    assert_true(engine_post(engine[lane], cq, &e, false));
    engine_raise_cq_events(engine[lane]);
}

static void arm(void)
{
    while (cq_reader_peek(&reader))
        cq_reader_advance(&reader);
    cq_reader_arm(&reader, CQ_ARM_NEXT);
    assert_null(cq_reader_peek(&reader));
}

static void event_by_count(void **state)
{
    assert_int_equal(cq_moderate(cq, 3, 500), 0);
    post(0); /* not armed: does not count */
    arm();
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(events, 0);
        post(0);
    }
    assert_int_equal(events, 1);
    pass(2 * NS_PER_MS);
    post(0);
    assert_int_equal(events, 1);
}

static void event_by_time(void **state)
{
    assert_int_equal(cq_moderate(cq, 100, 500), 0);
    for (unsigned i = 0; i < 3; i++) {
        arm();
        pass(2 * NS_PER_MS); /* no completion, no event */
        post(0);
        pass(300 * NS_PER_US);
        post(0); /* the first one's time counts */
        pass(199 * NS_PER_US);
        assert_int_equal(events, i);
        pass(NS_PER_US + TICK);
        assert_int_equal(events, i + 1);
        assert_true(engine_next_timer(engine[0]) == NS_NEVER);
    }
}

static void lanes_count_together(void **state)
{
    assert_int_equal(cq_moderate(cq, 4, 1000), 0);
    arm();
    post(0);
    post(1);
    post(1);
    assert_int_equal(events, 0);
    post(0);
    assert_int_equal(events, 1);
}

/* The other lane's timer still runs, for a completion that the application has read. */
static void timer_of_an_earlier_round_is_silent(void **state)
{
    assert_int_equal(cq_moderate(cq, 2, 1000), 0);
    arm();
    post(0);
    post(1);
    assert_int_equal(events, 1);
    arm();
    pass(2 * NS_PER_MS);
    assert_int_equal(events, 1);
    assert_true(comp_queue_disarm(cq)); /* it is still armed */
}

/* Also a completion that comes while such a timer runs has the whole period. */
static void each_round_has_its_period(void **state)
{
    assert_int_equal(cq_moderate(cq, 2, 1000), 0);
    arm();
    post(0);
    post(1);
    arm();
    pass(900 * NS_PER_US);
    post(0);
    pass(900 * NS_PER_US);
    assert_int_equal(events, 1);
    pass(100 * NS_PER_US + TICK);
    assert_int_equal(events, 2);
}

/* The control thread raises the event of a completion that was there when the queue was armed. */
static void event_of_another_thread_ends_the_round(void **state)
{
    assert_int_equal(cq_moderate(cq, 3, 1000), 0);
    arm();
    post(0);
    post(0);
    assert_true(comp_queue_disarm(cq));
    arm();
    post(0);
    assert_int_equal(events, 0);
    pass(NS_PER_MS + TICK);
    assert_int_equal(events, 1);
}

static void one_zero_ends_it(void **state)
{
    static const uint32_t off[][2] = {{0, 0}, {0, 1000}, {5, 0}, {1, 1000}};

    for (unsigned i = 0; i < ARRAY_SIZE(off); i++) {
        assert_int_equal(cq_moderate(cq, off[i][0], off[i][1]), 0);
        arm();
        post(0);
        assert_int_equal(events, i + 1);
    }
}

static void limits(void **state)
{
    assert_int_equal(cq_moderate(cq, 0x10000, 1), -EINVAL);
    assert_int_equal(cq_moderate(cq, 1, 0x10000), -EINVAL);
    assert_null(cq->moderation);
    assert_int_equal(cq_moderate(cq, 0xFFFF, 0xFFFF), 0);
    arm();
    post(0);
    pass(0xFFFF * NS_PER_US);
    assert_int_equal(events, 0);
    pass(TICK);
    assert_int_equal(events, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(event_by_count),
        T(event_by_time),
        T(lanes_count_together),
        T(timer_of_an_earlier_round_is_silent),
        T(each_round_has_its_period),
        T(event_of_another_thread_ends_the_round),
        T(one_zero_ends_it),
        T(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
