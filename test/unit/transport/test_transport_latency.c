/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests whose stages are timed: what is in the histograms after the program has told of the
 * end, and what is not. */
#include <string.h>

#include "kit.h"
#include "latency.h"
#include "unit.h"

#define ACCESS (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
#define BYTES  (1u << 20)
#define EARLY  700 /* ns from posting until the worker has its next pass */

struct fixture {
    struct kit *k;
    struct kit_qp *a, *b;
    struct kit_mr *from, *to;
    struct engine *e;
};

static void begin(struct fixture *f, uint32_t type)
{
    const struct kit_qp_config config = {.type = type};

    f->k = kit_create(&(struct kit_config){.seed = 1});
    f->a = kit_qp_create(&f->k->node[0], &config);
    f->b = kit_qp_create(&f->k->node[1], &config);
    kit_connect(f->a, f->b, NULL);
    f->from = kit_mr_create(&f->k->node[0], BYTES, ACCESS, KIT_MR_DIRECT);
    f->to = kit_mr_create(&f->k->node[1], BYTES, ACCESS, KIT_MR_DIRECT);
    f->e = f->k->node[0].engine;
    engine_time_sends(f->e, true);
}

/* Posts one that is marked. polled, total: of the one before. */
static void post(struct fixture *f, enum sqe_op op, uint32_t len, ns_t posted, uint64_t polled,
                 uint64_t total)
{
    struct sge sge = kit_sge(f->from, 0, len);
    struct kit_send wr = {.op = op,
                          .flags = SQE_SIGNALED | SQE_TIMED,
                          .rkey = f->to->region.key,
                          .remote_addr = kit_va(f->to, 0),
                          .sge = &sge,
                          .num_sge = 1};

    f->a->shared->sample.posted = posted;
    f->a->shared->sample.polled = polled;
    f->a->shared->sample.total = total;
    assert_int_equal(kit_post_send(f->a, &wr), 0);
    kit_ring(f->a);
}

/* Runs until all is done, and returns how long that took from the posting to the completion. */
static ns_t run(struct fixture *f, ns_t posted)
{
    struct cqe c = {0};

    kit_run(f->k, NULL, NULL, NS_PER_SEC);
    assert_int_equal(kit_poll(f->a->send_cq, &c, 1), 1);
    assert_int_equal(c.status, WC_SUCCESS);
    return c.timestamp - posted;
}

static uint64_t count_of(const struct latency_histogram *h)
{
    return counter_sum(h->bucket, LATENCY_BUCKETS);
}

static uint64_t sum_of(const struct fixture *f, enum latency_stage stage)
{
    return counter_get(&engine_latency(f->e)[stage].sum);
}

static void expect_samples(const struct fixture *f, uint64_t n)
{
    for (unsigned i = 0; i < LATENCY_STAGES; i++)
        assert_int_equal(count_of(&engine_latency(f->e)[i]), n);
}

/* Its stages add up to what the completion's time stamp says; then the program tells the rest. */
static void one(uint32_t type, enum sqe_op op, uint32_t len, bool waits)
{
    struct fixture f;
    ns_t posted, took;

    begin(&f, type);
    posted = f.k->now - EARLY;
    post(&f, op, len, posted, 0, 0);
    took = run(&f, posted);
    expect_samples(&f, 0);
    post(&f, op, len, f.k->now, 100, took + 100);
    run(&f, 0);
    expect_samples(&f, 1);
    assert_in_range(sum_of(&f, LATENCY_QUEUED), EARLY, EARLY + NS_PER_US);
    assert_int_equal(sum_of(&f, LATENCY_QUEUED) + sum_of(&f, LATENCY_SENDING) +
                         sum_of(&f, LATENCY_ANSWER),
                     took);
    assert_int_equal(sum_of(&f, LATENCY_POLLED), 100);
    assert_int_equal(sum_of(&f, LATENCY_TOTAL), took + 100);
    assert_true(waits ? sum_of(&f, LATENCY_ANSWER) > 0 : !sum_of(&f, LATENCY_ANSWER));
    kit_destroy(f.k);
}

static void test_stages(void **state)
{
    one(QPT_RC, SQE_WRITE, 64, true);
    one(QPT_RC, SQE_WRITE, 0, true);
    one(QPT_RC, SQE_READ, 8192, true);
    one(QPT_RC, SQE_FETCH_ADD, 8, true);
    one(QPT_UC, SQE_WRITE, 64, false);
    one(QPT_UC, SQE_WRITE, 64 * 1024, false);
}

/* The time of a pass is that of its beginning: a work request may be posted and done after it. */
static void test_within_a_pass(void **state)
{
    struct fixture f;

    begin(&f, QPT_UC);
    post(&f, SQE_WRITE, 64, f.k->now + NS_PER_MS, 0, 0);
    run(&f, 0);
    post(&f, SQE_WRITE, 64, f.k->now, 10, 20);
    run(&f, 0);
    expect_samples(&f, 1);
    assert_int_equal(sum_of(&f, LATENCY_QUEUED) + sum_of(&f, LATENCY_SENDING), 0);
    kit_destroy(f.k);
}

/* Longer than the window: sending takes several round trips, the answer about one. */
static void test_long(void **state)
{
    struct fixture f;

    begin(&f, QPT_RC);
    post(&f, SQE_WRITE, BYTES, f.k->now, 0, 0);
    run(&f, 0);
    post(&f, SQE_WRITE, 8, f.k->now, 1, 1);
    run(&f, 0);
    expect_samples(&f, 1);
    assert_true(sum_of(&f, LATENCY_ANSWER) > 0);
    assert_true(sum_of(&f, LATENCY_SENDING) > sum_of(&f, LATENCY_ANSWER));
    kit_destroy(f.k);
}

/* What is sent again counts from the first time. */
static void test_loss(void **state)
{
    struct fixture f;

    begin(&f, QPT_RC);
    kit_link_lose(&f.k->link[1], 1);
    post(&f, SQE_WRITE, 8, f.k->now, 0, 0);
    run(&f, 0);
    post(&f, SQE_WRITE, 8, f.k->now, 1, 1);
    run(&f, 0);
    expect_samples(&f, 1);
    assert_true(sum_of(&f, LATENCY_ANSWER) > NS_PER_MS); /* the local ACK timeout */
    assert_true(sum_of(&f, LATENCY_SENDING) < NS_PER_MS);
    kit_destroy(f.k);
}

/* Posts one, has it done, and expects n samples. */
static void post_and_count(struct fixture *f, ns_t posted, uint64_t polled, uint64_t total,
                           uint64_t n)
{
    post(f, SQE_WRITE, 8, posted, polled, total);
    run(f, 0);
    expect_samples(f, n);
}

/* Nonsense of the application, and marks without engine_time_sends, are no samples. */
static void test_none(void **state)
{
    const uint64_t far = UINT64_C(1) << LATENCY_MAX;
    struct fixture f;

    begin(&f, QPT_RC);
    post_and_count(&f, f.k->now + far, 0, 0, 0);
    post_and_count(&f, f.k->now, 1, 1, 0); /* the one before was none */
    post_and_count(&f, f.k->now, far, 1, 0);
    post_and_count(&f, f.k->now, 1, UINT64_MAX, 0);
    post_and_count(&f, f.k->now, 1, 0, 0); /* the program does not have its completion, it says */
    engine_time_sends(f.e, false);
    post_and_count(&f, f.k->now, 1, 1, 1); /* the last one that was timed */
    post_and_count(&f, f.k->now, 1, 1, 1);
    kit_destroy(f.k);
}

/* A queue pair that is reset has forgotten the one that was out. */
static void test_reset(void **state)
{
    struct fixture f;

    begin(&f, QPT_RC);
    kit_link_lose(&f.k->link[1], UINT64_MAX);
    post(&f, SQE_WRITE, 8, f.k->now, 0, 0);
    kit_run(f.k, NULL, NULL, NS_PER_US);
    kit_link_lose(&f.k->link[1], 0);
    kit_modify(f.a, QPS_RESET);
    kit_modify(f.b, QPS_RESET);
    kit_connect(f.a, f.b, NULL);
    kit_do(f.a, SQE_WRITE, 0, f.from, 0, 8, f.to, 0); /* in the slot of that one */
    run(&f, 0);
    post(&f, SQE_WRITE, 8, f.k->now, 1, 1);
    run(&f, 0);
    expect_samples(&f, 0);
    kit_destroy(f.k);
}

/* A bucket has the times that it says. */
static void test_buckets(void **state)
{
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        uint64_t end = log_bucket_end(LATENCY_BITS, i);

        assert_int_equal(log_bucket(LATENCY_BITS, end), i);
        assert_int_equal(log_bucket(LATENCY_BITS, end + 1), i + 1);
    }
    assert_int_equal(log_bucket(LATENCY_BITS, (UINT64_C(1) << LATENCY_MAX) - 1),
                     LATENCY_BUCKETS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),  cmocka_unit_test(test_within_a_pass),
        cmocka_unit_test(test_long),    cmocka_unit_test(test_loss),
        cmocka_unit_test(test_none),    cmocka_unit_test(test_reset),
        cmocka_unit_test(test_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
