/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer wheel against a list of deadlines: nothing early, nothing late, nothing lost. */
#include "unit.h"

#include "random.h"
#include "timer.h"

#define TICK   (UINT64_C(1) << TIMER_TICK_SHIFT)
#define TIMERS 200
#define START  (UINT64_C(1) << 55) /* a clock that has run for a year */

static struct timer_wheel wheel;
static unsigned looks = UINT32_MAX;

static void fires_once_and_not_early(void **state)
{
    struct timer t = {.deadline = NS_NEVER};

    (void)state;
    wheel = (struct timer_wheel){0};
    assert_true(timer_next(&wheel) == NS_NEVER);
    timer_arm(&wheel, &t, TIMER_ACK, START + 10 * TICK + 5, START);
    assert_null(timer_expired(&wheel, START + 10 * TICK + 4, &looks));
    assert_true(timer_next(&wheel) > START + 10 * TICK + 5);
    assert_true(timer_next(&wheel) <= START + 11 * TICK);
    assert_ptr_equal(timer_expired(&wheel, timer_next(&wheel), &looks), &t);
    assert_null(timer_expired(&wheel, START + 100 * TICK, &looks));
    assert_true(timer_next(&wheel) == NS_NEVER);
}

static void later_arming_replaces_earlier(void **state)
{
    struct timer t = {.deadline = NS_NEVER};

    (void)state;
    wheel = (struct timer_wheel){0};
    timer_arm(&wheel, &t, TIMER_ACK, START + TICK, START);
    timer_arm(&wheel, &t, TIMER_ACK, START + 50 * TICK, START);
    assert_null(timer_expired(&wheel, START + 49 * TICK, &looks));
    timer_arm(&wheel, &t, TIMER_ACK, START + 49 * TICK + 1, START + 49 * TICK);
    assert_ptr_equal(timer_expired(&wheel, START + 50 * TICK, &looks), &t);
    timer_arm(&wheel, &t, TIMER_ACK, START + 60 * TICK, START + 51 * TICK);
    timer_disarm(&t);
    assert_null(timer_expired(&wheel, START + 100 * TICK, &looks));
    /* It is looked at in the tick of its new deadline. */
    timer_arm(&wheel, &t, TIMER_ACK, START + 109 * TICK, START + 100 * TICK);
    timer_arm(&wheel, &t, TIMER_ACK, START + 110 * TICK + TICK / 2, START + 100 * TICK);
    assert_null(timer_expired(&wheel, START + 110 * TICK + 1, &looks));
    assert_ptr_equal(timer_expired(&wheel, START + 111 * TICK, &looks), &t);
}

static void beyond_the_horizon(void **state)
{
    struct timer t = {.deadline = NS_NEVER};
    ns_t deadline = START + UINT64_C(1000000) * TICK, now = START;
    unsigned wakes = 0;

    (void)state;
    wheel = (struct timer_wheel){0};
    timer_arm(&wheel, &t, TIMER_ACK, deadline, now);
    for (;;) {
        struct timer *due;

        now = timer_next(&wheel);
        assert_true(now != NS_NEVER);
        due = timer_expired(&wheel, now, &looks);
        wakes++;
        if (due)
            break;
    }
    assert_true(now > deadline && now <= deadline + 2 * TICK);
    assert_true(wakes < 1000000 / TIMER_SLOTS + 10);
}

/* Random armings, disarmings and steps of the clock, compared with a plain list. */
static void random_against_model(void **state)
{
    static struct timer timers[TIMERS];
    static ns_t model[TIMERS];
    struct random r = {.state = 42};
    ns_t now = START;
    unsigned fired = 0, cut_short = 0;

    (void)state;
    wheel = (struct timer_wheel){0};
    for (unsigned i = 0; i < TIMERS; i++) {
        timers[i] = (struct timer){.deadline = NS_NEVER};
        model[i] = NS_NEVER;
    }
    for (unsigned step = 0; step < 200000; step++) {
        unsigned i = random_below(&r, TIMERS);
        struct timer *t;
        unsigned few;

        switch (random_below(&r, 4)) {
        case 0:
            model[i] = now + random_below(&r, 1u << random_below(&r, 31));
            timer_arm(&wheel, &timers[i], TIMER_ACK, model[i], now);
            break;
        case 1:
            model[i] = NS_NEVER;
            if (random_below(&r, 2))
                timer_disarm(&timers[i]);
            else
                timer_remove(&wheel, &timers[i]);
            break;
        default:
            now += random_below(&r, 1u << random_below(&r, 28));
        }
        /* Looked at only when it says so, as an engine does. */
        do {
            few = 1 + (unsigned)random_below(&r, 4);
            while (timer_next(&wheel) <= now && (t = timer_expired(&wheel, now, &few))) {
                ptrdiff_t k = t - timers;

                assert_true(model[k] <= now);
                model[k] = NS_NEVER;
                fired++;
            }
            cut_short += !few;
        } while (!few);
        for (unsigned k = 0; k < TIMERS; k++)
            assert_true(model[k] == NS_NEVER || model[k] + 2 * TICK > now);
    }
    assert_true(fired > 10000);
    assert_true(cut_short > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_once_and_not_early),
        cmocka_unit_test(later_arming_replaces_earlier),
        cmocka_unit_test(beyond_the_horizon),
        cmocka_unit_test(random_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
