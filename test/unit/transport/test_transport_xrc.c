/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC by the batch path and by the general path: pair_kit.h compares them. Each request names one
 * of two SRQs, and with it the domain that its keys are checked in (A14.4).
 */
#include "pair_kit.h"
#include "srq.h"

#define TRIALS 400

static void compare_trials(const struct ops *ops)
{
    uint64_t packets = 0;

    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        packets += pair_trial(seed, ops);
    batch_form = HDR_IPV4;
    assert_true(packets > TRIALS * PAIR_BURSTS / 2); /* most trials transfer data */
}

static void test_messages(void **state)
{
    static const struct ops messages = {
        .op = {SQE_WRITE, SQE_WRITE_IMM, SQE_SEND, SQE_SEND_IMM, SQE_WRITE, SQE_READ},
        .n = 6,
        .refused = ALL_RIGHTS & ~MEM_REMOTE_WRITE,
        .step = 1000};

    compare_trials(&messages);
}

static void test_answered(void **state)
{
    static const struct ops answered = {.op = {SQE_READ, SQE_FETCH_ADD, SQE_CMP_SWP,
                                               SQE_ATOMIC_WRITE, SQE_FLUSH, SQE_READ, SQE_WRITE},
                                        .n = 7,
                                        .refused = ALL_RIGHTS & ~MEM_REMOTE_READ,
                                        .step = 1000};

    compare_trials(&answered);
}

/* Work requests in a burst that name the SRQs in turn: each is judged in the domain of its own. */
static void test_srqs_in_turn(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned k = 0; k < 8; k++) {
        struct wish w = {.op = k < 4 ? SQE_WRITE : SQE_READ,
                         .flags = SQE_SIGNALED,
                         .len = 8,
                         .from = 512 + 8 * k,
                         .to = 256 + 8 * k,
                         .other_from = k % 2,
                         .wrong = 1000};

        for (unsigned i = 0; i < 2; i++) {
            post(&pair[i], &w);
            engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
        }
    }
    exchange(pair, false, NULL);
    exchange(pair, true, NULL);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_RTS);
    assert_int_equal(pair[0].b.qp->resp.msn, 1 + 8);
    assert_memory_equal(pair[0].b.memory + 512, pair[0].a.memory + 256, 8);
    assert_memory_equal(pair[0].b.other_memory + 520, pair[0].a.memory + 264, 8);
    assert_memory_equal(pair[0].a.memory + 256 + 40, pair[0].b.other_memory + 512 + 40, 8);
    pair_end(pair);
}

/* All packets of a message name the SRQ, those in the middle, too. */
static void test_long_message(void **state)
{
    static struct chain pair[2];
    struct wish w = {.op = SQE_WRITE, .len = 8192, .from = 20000, .to = 4096, .wrong = 1000};

    pair_begin(pair);
    for (unsigned i = 0; i < 2; i++) {
        post(&pair[i], &w);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
    exchange(pair, false, NULL);
    assert_memory_equal(pair[0].b.memory + w.from, pair[0].a.memory + w.to, w.len);
    pair_end(pair);
}

/* The key of one domain under the SRQ of another, behind requests that were right. */
static void refused_in(enum sqe_op op, bool other)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned k = 0; k < 4; k++) {
        struct wish w = {.op = (uint8_t)op,
                         .flags = SQE_SIGNALED,
                         .len = 8,
                         .from = 512,
                         .to = 256,
                         .other_from = other,
                         .placement = FETH_GLOBAL,
                         .wrong = k < 3 ? 1000 : 12};

        for (unsigned i = 0; i < 2; i++) {
            post(&pair[i], &w);
            engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
        }
    }
    exchange(pair, false, NULL);
    exchange(pair, true, NULL);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_access_err), 1);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    pair_end(pair);
}

static void test_key_of_another_domain(void **state)
{
    static const enum sqe_op ops[] = {SQE_WRITE, SQE_READ, SQE_FETCH_ADD, SQE_ATOMIC_WRITE,
                                      SQE_FLUSH};

    for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
        refused_in(ops[i], false);
        refused_in(ops[i], true);
    }
}

/* An SRQ of another XRC domain is none of this queue pair's. */
static void test_srq_of_another_xrc_domain(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned i = 0; i < 2; i++)
        pair[i].b.srq->init.xrcd++;
    post_both(pair, SQE_WRITE, 8);
    post_both(pair, SQE_WRITE, 8);
    exchange(pair, false, NULL);
    assert_int_equal(counter_get(&engine_counters(pair[0].b.e)->drop[DROP_xrc_srq_mismatch]), 2);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_answered),
        cmocka_unit_test(test_srqs_in_turn),
        cmocka_unit_test(test_long_message),
        cmocka_unit_test(test_key_of_another_domain),
        cmocka_unit_test(test_srq_of_another_xrc_domain),
    };

    batch_type = QPT_XRC_SEND;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
