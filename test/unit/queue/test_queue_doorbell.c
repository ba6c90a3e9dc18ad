/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doorbell.h"
#include "random.h"
#include "unit.h"

static struct doorbells db;
static uint32_t got[DB_SLOTS];
static uint8_t rung[DB_SLOTS];

static int reset(void **state)
{
    memset(&db, 0, sizeof(db));
    memset(rung, 0, sizeof(rung));
    return 0;
}

static void test_every_level(void **state)
{
    static const uint32_t slots[] = {0, 1, 63, 64, 4095, 4096, 4097, 70000, DB_SLOTS - 1};

    assert_int_equal(doorbell_take(&db, got, 64), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(slots); i++) {
        doorbell_ring(&db, slots[i]);
        doorbell_ring(&db, slots[i]); /* twice is once */
        assert_true(doorbell_pending(&db));
        assert_int_equal(doorbell_take(&db, got, 64), 1);
        assert_int_equal(got[0], slots[i]);
        assert_false(doorbell_pending(&db));
    }
    for (unsigned i = 0; i < ARRAY_SIZE(slots); i++)
        doorbell_ring(&db, slots[i]);
    assert_int_equal(doorbell_take(&db, got, 64), ARRAY_SIZE(slots));
    assert_memory_equal(got, slots, sizeof(slots));
    assert_int_equal(doorbell_take(&db, got, 64), 0);
}

static void test_all_slots(void **state)
{
    for (uint32_t i = 0; i < DB_SLOTS; i++)
        doorbell_ring(&db, i);
    assert_int_equal(doorbell_take(&db, got, 0), 0);
    assert_int_equal(doorbell_take(&db, got, DB_SLOTS), DB_SLOTS);
    for (uint32_t i = 0; i < DB_SLOTS; i++)
        assert_int_equal(got[i], i);
    assert_false(doorbell_pending(&db));
}

static void test_wake(void **state)
{
    assert_false(doorbell_ring(&db, 5));
    atomic_store(&db.worker_armed, 1);
    assert_true(doorbell_ring(&db, 6));
    assert_false(doorbell_ring(&db, 7)); /* one poster wakes */
    assert_int_equal(atomic_load(&db.worker_armed), 0);
}

/* Doorbells rung and taken at random, compared with a plain set. */
static void test_model(void **state)
{
    struct random r = {7};
    unsigned waiting = 0;

    for (int round = 0; round < 20000; round++) {
        uint32_t spread = 1u << random_below(&r, 19);
        unsigned max = 1 + random_below(&r, 64), n;

        for (unsigned i = random_below(&r, 40); i > 0; i--) {
            uint32_t slot = random_below(&r, spread);

            doorbell_ring(&db, slot);
            waiting += !rung[slot];
            rung[slot] = 1;
        }
        n = doorbell_take(&db, got, max);
        assert_true(n == min_of(max, waiting));
        for (unsigned i = 0; i < n; i++) {
            assert_true(rung[got[i]]);
            rung[got[i]] = 0;
        }
        waiting -= n;
        assert_int_equal(doorbell_pending(&db), waiting > 0);
    }
}

/* Low slots that ring all the time do not delay a high one by more than a round. */
static void check_fairness(uint32_t busy, uint32_t lonely, unsigned max)
{
    unsigned calls = 0;
    bool seen = false;

    reset(NULL);
    doorbell_ring(&db, lonely);
    while (!seen) {
        unsigned n;

        for (uint32_t i = 0; i < busy; i++)
            doorbell_ring(&db, i);
        n = doorbell_take(&db, got, max);
        for (unsigned i = 0; i < n; i++)
            seen |= got[i] == lonely;
        assert_true(++calls <= busy / max + 1);
    }
}

static void test_fairness(void **state)
{
    check_fairness(100, 120, 1);
    check_fairness(1000, 1001, 48);
    check_fairness(5000, 9000, 64);
    check_fairness(5000, DB_SLOTS - 1, 64);
    check_fairness(10000, 10001, 63);
}

/* Upper bits without a lower one cost the worker a bounded number of scans, and are cleared. */
static void test_bits_without_bells(void **state)
{
    unsigned calls = 0;

    atomic_store(&db.top, UINT64_MAX);
    for (unsigned i = 0; i < 64; i++)
        atomic_store(doorbell_mid(&db, i), UINT64_MAX);
    while (doorbell_pending(&db)) {
        assert_int_equal(doorbell_take(&db, got, 64), 0);
        calls++;
    }
    assert_int_equal(calls, 64);
}

static void test_hostile_words(void **state)
{
    struct random r = {99};

    for (int round = 0; round < 200; round++) {
        uint64_t *words = (uint64_t *)&db;
        unsigned n, max = 1 + random_below(&r, 200);

        for (unsigned i = 0; i < sizeof(db) / sizeof(*words); i++)
            words[i] = random_next(&r) & random_next(&r);
        memset(got, 0xff, sizeof(got));
        n = doorbell_take(&db, got, max);
        assert_true(n <= max);
        for (unsigned i = 0; i < n; i++)
            assert_true(got[i] < DB_SLOTS);
        assert_int_equal(got[n], UINT32_MAX);
    }
}

/* ---- a poster and a worker at the same time ---- */

#define STRESS_SLOTS 256
#define STRESS_NS    NS_PER_SEC

static struct {
    _Atomic uint32_t prod[STRESS_SLOTS]; /* as sq_prod is */
    _Atomic uint64_t taken;              /* work that the worker found */
    _Atomic bool stop;
} stress;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void *stress_worker(void *arg)
{
    static uint32_t cons[STRESS_SLOTS];
    uint32_t slots[7];

    while (!atomic_load_explicit(&stress.stop, memory_order_relaxed)) {
        unsigned n = doorbell_take(&db, slots, ARRAY_SIZE(slots));
        uint64_t found = 0;

        for (unsigned i = 0; i < n; i++) {
            uint32_t s = slots[i] / 811;
            uint32_t prod = atomic_load_explicit(&stress.prod[s], memory_order_acquire);

            found += prod - cons[s];
            cons[s] = prod;
        }
        if (found)
            atomic_fetch_add(&stress.taken, found);
        else
            sched_yield();
    }
    return NULL;
}

/* Whether the worker finds everything that was posted without further doorbells. */
static bool all_taken(uint64_t posted)
{
    uint64_t limit = now_ns() + 5 * NS_PER_SEC;

    while (atomic_load(&stress.taken) != posted) {
        if (now_ns() > limit)
            return false;
        sched_yield();
    }
    return true;
}

static void test_nothing_is_lost(void **state)
{
    struct random r = {3};
    uint64_t posted = 0, end = now_ns() + STRESS_NS;
    bool ok = true;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, stress_worker, NULL), 0);
    while (ok && now_ns() < end) {
        uint32_t spread = 1u << random_below(&r, 9); /* few slots: both sides at the same words */

        /* After each batch the worker must find the last doorbells without the help of
         * later ones. */
        for (unsigned i = 1 + random_below(&r, 50); i > 0; i--, posted++) {
            uint32_t s = random_below(&r, spread);
            uint32_t prod = atomic_load_explicit(&stress.prod[s], memory_order_relaxed);

            atomic_store_explicit(&stress.prod[s], prod + 1, memory_order_release);
            doorbell_ring(&db, s * 811);
        }
        ok = all_taken(posted);
    }
    atomic_store(&stress.stop, true);
    pthread_join(thread, NULL);
    assert_true(ok);
    assert_true(posted > 1000);
}

/* ---- posters and a worker that sleeps ---- */

#define SLEEP_POSTERS 2
#define SLEEP_BURSTS  3000

static struct {
    _Atomic uint32_t prod[SLEEP_POSTERS], taken[SLEEP_POSTERS];
    _Atomic bool stop;
    _Atomic unsigned sleeps;
    sem_t wake;
} sleeper;

static unsigned nap_look(void)
{
    uint32_t slot[2];
    unsigned n = doorbell_take(&db, slot, ARRAY_SIZE(slot));

    for (unsigned i = 0; i < n; i++)
        atomic_store(&sleeper.taken[slot[i]],
                     atomic_load_explicit(&sleeper.prod[slot[i]], memory_order_acquire));
    return n;
}

/* As a worker does: arm, fence, check once more, and sleep until a poster wakes it. */
static void *nap_worker(void *arg)
{
    while (!atomic_load(&sleeper.stop)) {
        if (nap_look())
            continue;
        atomic_store_explicit(&db.worker_armed, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        if (!doorbell_pending(&db) && !atomic_load(&sleeper.stop)) {
            atomic_fetch_add(&sleeper.sleeps, 1);
            sem_wait(&sleeper.wake);
        }
        atomic_store_explicit(&db.worker_armed, 0, memory_order_relaxed);
    }
    return NULL;
}

/* False: its last post was not taken in time, so the worker sleeps although a doorbell is
 * pending. */
static bool nap_posts(uint32_t slot)
{
    uint32_t posted = 0;

    for (unsigned burst = 0; burst < SLEEP_BURSTS; burst++) {
        uint64_t limit = now_ns() + 10 * NS_PER_SEC;

        for (unsigned i = 0; i <= burst % 3; i++) {
            atomic_store_explicit(&sleeper.prod[slot], ++posted, memory_order_release);
            if (doorbell_ring(&db, slot))
                sem_post(&sleeper.wake);
        }
        while (atomic_load(&sleeper.taken[slot]) != posted) {
            if (now_ns() > limit)
                return false;
            sched_yield();
        }
    }
    return true;
}

static void *nap_poster(void *slot)
{
    return nap_posts(*(const uint32_t *)slot) ? slot : NULL;
}

/* Two queue pairs, so that each poster finds bits set by the other. */
static void test_nobody_sleeps_on_a_bell(void **state)
{
    static const uint32_t slot[SLEEP_POSTERS] = {0, 1};
    pthread_t worker, poster[SLEEP_POSTERS];
    bool ok = true;

    sem_init(&sleeper.wake, 0, 0);
    assert_int_equal(pthread_create(&worker, NULL, nap_worker, NULL), 0);
    for (unsigned i = 0; i < SLEEP_POSTERS; i++)
        assert_int_equal(pthread_create(&poster[i], NULL, nap_poster, (void *)&slot[i]), 0);
    for (unsigned i = 0; i < SLEEP_POSTERS; i++) {
        void *done;

        pthread_join(poster[i], &done);
        ok &= done != NULL;
    }
    atomic_store(&sleeper.stop, true);
    sem_post(&sleeper.wake);
    pthread_join(worker, NULL);
    sem_destroy(&sleeper.wake);
    assert_true(ok);
    assert_true(atomic_load(&sleeper.sleeps) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_level, reset),
        cmocka_unit_test_setup(test_all_slots, reset),
        cmocka_unit_test_setup(test_wake, reset),
        cmocka_unit_test_setup(test_model, reset),
        cmocka_unit_test(test_fairness),
        cmocka_unit_test_setup(test_bits_without_bells, reset),
        cmocka_unit_test_setup(test_hostile_words, reset),
        cmocka_unit_test_setup(test_nothing_is_lost, reset),
        cmocka_unit_test_setup(test_nobody_sleeps_on_a_bell, reset),
    };

    return cmocka_run_group_tests_name("queue_doorbell", tests, NULL, NULL);
}
