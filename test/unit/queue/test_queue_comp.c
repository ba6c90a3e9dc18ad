/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comp_queue.h"
#include "unit.h"

#define SIZE 8u

struct pair {
    struct comp_queue cq;
    struct cq_reader reader;
    struct cq_shared *shared;
};

static void pair_init(struct pair *p, uint32_t size, uint32_t lanes)
{
    size_t bytes = cq_segment_bytes(size, lanes);

    p->shared = aligned_alloc(64, bytes);
    assert_non_null(p->shared);
    memset(p->shared, 0, bytes);
    comp_queue_init(&p->cq, p->shared, size, lanes);
    p->reader = (struct cq_reader){.shared = p->shared, .size = size, .lanes = lanes};
}

/* Both ends as if `index` entries had passed through the lane already. */
static void lane_at(struct pair *p, uint32_t lane, uint32_t index)
{
    p->cq.lane[lane].prod = index;
    p->cq.lane[lane].end = index + p->cq.size;
    p->reader.cons[lane] = index;
    atomic_store(&cq_lane_at(p->shared, p->cq.size, lane)->cons, index);
}

static int post(struct pair *p, uint32_t lane, uint64_t id)
{
    struct cqe e = {.wr_id = id, .byte_len = (uint32_t)id * 3, .smac = {1, 2, 3, 4, 5, 6}};

    return cq_post(&p->cq, lane, &e, false);
}

static void expect(struct pair *p, uint64_t id)
{
    const struct cqe *e = cq_reader_peek(&p->reader);

    assert_non_null(e);
    assert_int_equal(e->wr_id, id);
    assert_int_equal(e->byte_len, (uint32_t)id * 3);
    assert_int_equal(e->smac[5], 6);
    cq_reader_advance(&p->reader);
}

static void test_order_and_wrap(void **state)
{
    struct pair p;

    pair_init(&p, SIZE, 1);
    lane_at(&p, 0, UINT32_MAX - 20);
    assert_null(cq_reader_peek(&p.reader));
    for (uint64_t id = 0; id < 60; id += 4) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(post(&p, 0, id + i), 0);
        for (unsigned i = 0; i < 4; i++)
            expect(&p, id + i);
        assert_null(cq_reader_peek(&p.reader));
    }
    assert_int_equal(p.cq.lane[0].prod, 60 + (UINT32_MAX - 20));
    free(p.shared);
}

static void test_overflow(void **state)
{
    struct pair p;

    pair_init(&p, SIZE, 2);
    lane_at(&p, 0, UINT32_MAX - 3);
    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(post(&p, 0, i), 0);
    expect(&p, 0); /* room for one */
    assert_int_equal(post(&p, 0, SIZE), 0);
    assert_int_equal(post(&p, 0, SIZE + 1), -ENOSPC);
    assert_true(p.cq.lane[0].overrun);
    for (unsigned i = 1; i <= SIZE; i++)
        expect(&p, i); /* posted completions stay */
    assert_null(cq_reader_peek(&p.reader));
    assert_int_equal(post(&p, 0, 99), -ENOSPC); /* permanently, although there is room */
    assert_null(cq_reader_peek(&p.reader));
    assert_int_equal(post(&p, 1, 7), 0); /* another lane's worker is not affected */
    expect(&p, 7);
    free(p.shared);
}

static void test_ignored_overflow(void **state)
{
    struct pair p;

    pair_init(&p, SIZE, 1);
    p.cq.ignores_overrun = true;
    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(post(&p, 0, i), 0);
    assert_int_equal(post(&p, 0, SIZE), -ENOSPC);
    assert_false(p.cq.lane[0].overrun);
    expect(&p, 0);
    assert_int_equal(post(&p, 0, SIZE + 1), 0); /* there is room again */
    for (unsigned i = 1; i < SIZE; i++)
        expect(&p, i);
    expect(&p, SIZE + 1);
    free(p.shared);
}

static void test_hostile_consumer(void **state)
{
    static const uint32_t offsets[] = {1, SIZE, 0x80000000, UINT32_MAX - SIZE};

    for (unsigned i = 0; i < ARRAY_SIZE(offsets); i++) {
        struct pair p;

        pair_init(&p, SIZE, 1);
        for (unsigned n = 0; n < SIZE; n++)
            assert_int_equal(post(&p, 0, n), 0);
        /* Ahead of the producer, or far behind it. */
        atomic_store(&cq_lane_at(p.shared, SIZE, 0)->cons, SIZE + offsets[i]);
        assert_int_equal(post(&p, 0, 8), -ENOSPC);
        assert_true(p.cq.lane[0].overrun);
        free(p.shared);
    }
}

static void test_lanes(void **state)
{
    unsigned next[3] = {0}, got = 0;
    const struct cqe *e;
    struct pair p;

    pair_init(&p, 256, 3);
    for (unsigned i = 0; i < 600; i++)
        assert_int_equal(post(&p, i % 3, i / 3 * 3 + i % 3), 0);
    while ((e = cq_reader_peek(&p.reader))) {
        unsigned lane = (unsigned)(e->wr_id % 3);

        assert_ptr_equal(e, cq_reader_peek(&p.reader)); /* a peek changes nothing */
        assert_int_equal(e->wr_id / 3, next[lane]);     /* a lane keeps its order */
        next[lane]++;
        got++;
        cq_reader_advance(&p.reader);
        if (got == 120) /* no lane waits until another is empty */
            assert_true(next[0] >= 16 && next[1] >= 16 && next[2] >= 16);
    }
    assert_int_equal(got, 600);
    assert_int_equal(post(&p, 1, 5), 0);
    assert_int_equal(cq_reader_peek(&p.reader)->wr_id, 5);
    free(p.shared);
}

static bool event_after(struct pair *p, enum wc_status status, bool solicited)
{
    struct cqe e = {.status = (uint8_t)status};

    assert_int_equal(cq_post(&p->cq, 0, &e, solicited), 0);
    assert_non_null(cq_reader_peek(&p->reader));
    cq_reader_advance(&p->reader);
    return cq_take_event(&p->cq, 0);
}

static void test_events(void **state)
{
    struct cqe bad = {.status = WC_WR_FLUSH_ERR}, good = {0};
    struct pair p;

    pair_init(&p, SIZE, 2);
    assert_false(event_after(&p, WC_SUCCESS, true)); /* not armed */
    cq_reader_arm(&p.reader, CQ_ARM_NEXT);
    assert_false(cq_take_event(&p.cq, 0)); /* nothing was posted since */
    assert_true(event_after(&p, WC_SUCCESS, false));
    assert_false(event_after(&p, WC_SUCCESS, true)); /* once */

    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED);
    assert_false(event_after(&p, WC_SUCCESS, false));
    assert_true(event_after(&p, WC_SUCCESS, true));
    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED);
    assert_true(event_after(&p, WC_RETRY_EXC_ERR, false)); /* errors count as solicited */

    cq_reader_arm(&p.reader, CQ_ARM_NEXT);
    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED); /* does not weaken */
    assert_true(event_after(&p, WC_SUCCESS, false));
    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED);
    cq_reader_arm(&p.reader, CQ_ARM_NEXT); /* strengthens */
    assert_true(event_after(&p, WC_SUCCESS, false));

    /* One solicited completion among several of a batch; its mark ends with the batch. */
    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED);
    assert_int_equal(cq_post(&p.cq, 1, &good, false), 0);
    assert_int_equal(cq_post(&p.cq, 1, &bad, false), 0);
    assert_int_equal(cq_post(&p.cq, 1, &good, false), 0);
    assert_true(cq_take_event(&p.cq, 1));
    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED);
    assert_int_equal(cq_post(&p.cq, 1, &good, false), 0);
    assert_false(cq_take_event(&p.cq, 1));

    /* Two workers, one event. */
    cq_reader_arm(&p.reader, CQ_ARM_NEXT);
    assert_int_equal(cq_post(&p.cq, 0, &good, false), 0);
    assert_int_equal(cq_post(&p.cq, 1, &good, false), 0);
    assert_true(cq_take_event(&p.cq, 1));
    assert_false(cq_take_event(&p.cq, 0));
    free(p.shared);
}

/* ---- a worker and a poller at the same time ---- */

#define STREAM 60000u /* a busy machine takes a time slice for each 8 of them */

static void *produce(void *arg)
{
    struct pair *p = arg;
    struct cq_lane *ring = cq_lane_at(p->shared, SIZE, 1);

    for (uint32_t id = 0; id < STREAM; id++) {
        while (id - atomic_load_explicit(&ring->cons, memory_order_acquire) == SIZE)
            sched_yield();
        if (post(p, 1, id))
            return p;
    }
    return NULL;
}

static void test_stream(void **state)
{
    pthread_t thread;
    struct pair p;
    void *error;

    pair_init(&p, SIZE, 2);
    assert_int_equal(pthread_create(&thread, NULL, produce, &p), 0);
    for (uint32_t id = 0; id < STREAM; id++) {
        while (!cq_reader_peek(&p.reader))
            sched_yield();
        expect(&p, id);
    }
    pthread_join(thread, &error);
    assert_null(error);
    free(p.shared);
}

/* Completions are written in place as far as there is room; asking for the room changes nothing. */
static void test_runs(void **state)
{
    struct pair p;
    struct cq_batch run;

    pair_init(&p, SIZE, 1);
    assert_int_equal(cq_room(&p.cq, 0, 5), 5);
    assert_int_equal(cq_room(&p.cq, 0, 100), SIZE);
    run = cq_batch_begin(&p.cq, 0);
    for (uint64_t id = 0; id < SIZE; id++) {
        struct cqe *e = cq_batch_next(&run);

        assert_non_null(e);
        e->wr_id = id;
        e->byte_len = (uint32_t)id * 3;
        e->smac[5] = 6;
        cq_batch_give(&run, e);
    }
    assert_null(cq_batch_next(&run));
    assert_false(p.cq.lane[0].touched);
    cq_batch_end(&p.cq, 0, &run, true);
    assert_true(p.cq.lane[0].touched && p.cq.lane[0].solicited);
    assert_int_equal(cq_room(&p.cq, 0, 1), 0);
    assert_false(p.cq.lane[0].overrun);
    for (uint64_t id = 0; id < 3; id++)
        expect(&p, id);
    assert_int_equal(cq_room(&p.cq, 0, 8), 3);
    atomic_store(&cq_lane_at(p.shared, SIZE, 0)->cons, 99); /* ahead of the producer */
    assert_int_equal(cq_room(&p.cq, 0, 8), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post(&p, 0, i), 0);
    assert_int_equal(post(&p, 0, 10), -ENOSPC);
    assert_int_equal(cq_room(&p.cq, 0, 8), 0);
    free(p.shared);
}

/* ---- another segment ---- */

static struct cq_shared *segment_of(uint32_t size, uint32_t lanes)
{
    size_t bytes = cq_segment_bytes(size, lanes);
    struct cq_shared *fresh = aligned_alloc(64, bytes);

    assert_non_null(fresh);
    return memset(fresh, 0, bytes);
}

/* As the dataplane and the application do one after the other; -EINVAL changes nothing. */
static int move(struct pair *p, uint32_t size)
{
    struct cq_shared *fresh = segment_of(size, p->cq.lanes), *old = p->shared;
    int err = comp_queue_move(&p->cq, fresh, size);

    if (err) {
        free(fresh);
        assert_ptr_equal(p->cq.shared, old);
        return err;
    }
    p->shared = fresh;
    cq_reader_move(&p->reader, fresh, size);
    free(old);
    return 0;
}

/* Up to seven CQEs wait in each of two lanes and move to rings of other sizes, around the wrap of
 * the index, too. */
static void test_move(void **state)
{
    static const uint32_t sizes[] = {16, 1024, 16, 32, 64, 16, 128};

    for (uint32_t first = UINT32_MAX - 40; first != 3; first++) {
        uint64_t in[2] = {0}, out[2] = {0};
        struct pair p;

        pair_init(&p, 16, 2);
        lane_at(&p, 0, first);
        lane_at(&p, 1, first + 5);
        assert_int_equal(move(&p, 16), 0); /* a ring that knows of the wrap */
        for (unsigned turn = 0; turn < ARRAY_SIZE(sizes); turn++) {
            const struct cqe *e;

            for (unsigned i = 0; i < 14; in[i++ % 2]++)
                assert_int_equal(post(&p, i % 2, in[i % 2] * 2 + i % 2), 0);
            assert_int_equal(move(&p, sizes[turn]), 0);
            while ((e = cq_reader_peek(&p.reader))) {
                unsigned lane = (unsigned)(e->wr_id % 2);

                expect(&p, out[lane]++ * 2 + lane);
            }
            assert_memory_equal(in, out, sizeof(in));
        }
        for (unsigned i = 0; i < 128; i++) /* all of the room is there */
            assert_int_equal(post(&p, 0, i), 0);
        for (unsigned i = 0; i < 128; i++)
            expect(&p, i);
        free(p.shared);
    }
}

static void test_move_to_one(void **state)
{
    for (uint32_t first = UINT32_MAX - 3; first != 3; first++) {
        struct pair p;

        pair_init(&p, 4, 1);
        lane_at(&p, 0, first);
        assert_int_equal(move(&p, 4), 0);
        assert_int_equal(post(&p, 0, 1), 0);
        assert_int_equal(post(&p, 0, 2), 0);
        assert_int_equal(move(&p, 1), -EINVAL); /* two wait */
        expect(&p, 1);
        assert_int_equal(move(&p, 1), 0);
        expect(&p, 2);
        assert_null(cq_reader_peek(&p.reader));
        assert_int_equal(move(&p, 2), 0);
        assert_null(cq_reader_peek(&p.reader));
        assert_int_equal(post(&p, 0, 3), 0);
        expect(&p, 3);
        free(p.shared);
    }
}

static void test_move_is_refused(void **state)
{
    struct pair p;

    pair_init(&p, SIZE, 2);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(post(&p, i % 2, i), 0);
    assert_int_equal(move(&p, 4), -EINVAL); /* three in each lane: the application sees six */
    atomic_store(&cq_lane_at(p.shared, SIZE, 0)->cons, 4); /* ahead of what was posted */
    assert_int_equal(move(&p, 1024), -EINVAL);
    free(p.shared);

    pair_init(&p, SIZE, 1);
    for (unsigned i = 0; i <= SIZE; i++)
        assert_int_equal(post(&p, 0, i), i < SIZE ? 0 : -ENOSPC);
    assert_int_equal(move(&p, 4 * SIZE), 0);
    assert_int_equal(post(&p, 0, 77), -ENOSPC); /* an overrun is permanent */
    assert_int_equal(cq_room(&p.cq, 0, 1), 0);
    for (unsigned i = 0; i < SIZE; i++)
        expect(&p, i);
    assert_null(cq_reader_peek(&p.reader));
    free(p.shared);
}

static void test_move_keeps_the_arming(void **state)
{
    struct pair p;

    pair_init(&p, SIZE, 1);
    assert_int_equal(move(&p, 2 * SIZE), 0);
    assert_false(event_after(&p, WC_SUCCESS, true));
    cq_reader_arm(&p.reader, CQ_ARM_SOLICITED);
    assert_int_equal(move(&p, SIZE), 0);
    assert_false(event_after(&p, WC_SUCCESS, false));
    assert_true(event_after(&p, WC_SUCCESS, true));
    assert_int_equal(move(&p, 2 * SIZE), 0);
    assert_false(event_after(&p, WC_SUCCESS, true));
    free(p.shared);
}

/* The worker stands still while the queue moves, and posts on while the reader follows. */
struct moving {
    struct pair p;
    pthread_mutex_t worker;
};

static void *produce_moving(void *arg)
{
    struct moving *m = arg;

    for (uint32_t id = 0; id < STREAM;) {
        pthread_mutex_lock(&m->worker);
        if (cq_room(&m->p.cq, 0, 1)) {
            if (post(&m->p, 0, id++))
                abort();
        } else {
            sched_yield();
        }
        pthread_mutex_unlock(&m->worker);
    }
    return NULL;
}

static void move_under_way(struct moving *m, uint32_t size)
{
    struct cq_shared *fresh = segment_of(size, 1), *old = m->p.shared;
    int err;

    pthread_mutex_lock(&m->worker);
    err = comp_queue_move(&m->p.cq, fresh, size);
    pthread_mutex_unlock(&m->worker);
    if (err) {
        free(fresh);
        return;
    }
    m->p.shared = fresh;
    cq_reader_move(&m->p.reader, fresh, size);
    free(old);
}

static void test_moving_stream(void **state)
{
    struct moving m = {.worker = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;

    pair_init(&m.p, SIZE, 1);
    assert_int_equal(pthread_create(&thread, NULL, produce_moving, &m), 0);
    for (uint32_t id = 0; id < STREAM; id++) {
        while (!cq_reader_peek(&m.p.reader))
            sched_yield();
        expect(&m.p, id);
        if (id % 100 == 0)
            move_under_way(&m, id % 200 ? SIZE : 4 * SIZE);
    }
    pthread_join(thread, NULL);
    free(m.p.shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_order_and_wrap),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_ignored_overflow),
        cmocka_unit_test(test_hostile_consumer),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_move_to_one),
        cmocka_unit_test(test_move_is_refused),
        cmocka_unit_test(test_move_keeps_the_arming),
        cmocka_unit_test(test_moving_stream),
    };

    return cmocka_run_group_tests_name("queue_comp", tests, NULL, NULL);
}
