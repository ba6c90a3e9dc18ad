/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics, ATOMIC WRITEs and FLUSHes by the batch path and by the general path: pair_kit.h compares
 * them.
 */
#include "pair_kit.h"

#define TRIALS    400
#define AGREED    4 /* READs and atomics at a time */
#define NO_ATOMIC (ALL_RIGHTS & ~MEM_REMOTE_ATOMIC)
#define NO_WRITE  (ALL_RIGHTS & ~MEM_REMOTE_WRITE)
#define NO_FLUSH  (ALL_RIGHTS & ~MEM_FLUSH_GLOBAL)

static void compare_trials(const struct ops *ops)
{
    uint64_t packets = 0;

    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        packets += pair_trial(seed, ops);
    batch_form = HDR_IPV4;
    assert_true(packets > TRIALS * PAIR_BURSTS / 2); /* most trials transfer data */
}

static void test_same_as_the_general_way(void **state)
{
    static const struct ops atomics = {.op = {SQE_FETCH_ADD, SQE_CMP_SWP, SQE_FETCH_ADD,
                                              SQE_CMP_SWP, SQE_READ, SQE_WRITE, SQE_SEND},
                                       .n = 7,
                                       .refused = NO_ATOMIC,
                                       .step = 1000};

    compare_trials(&atomics);
}

static void test_atomic_writes(void **state)
{
    static const struct ops writes = {.op = {SQE_ATOMIC_WRITE, SQE_ATOMIC_WRITE, SQE_FETCH_ADD,
                                             SQE_ATOMIC_WRITE, SQE_READ, SQE_WRITE, SQE_FLUSH},
                                      .n = 7,
                                      .refused = NO_WRITE,
                                      .step = 1000};

    compare_trials(&writes);
}

static void test_flushes(void **state)
{
    static const struct ops flushes = {
        .op = {SQE_FLUSH, SQE_FLUSH, SQE_FLUSH, SQE_ATOMIC_WRITE, SQE_READ, SQE_WRITE, SQE_SEND},
        .n = 7,
        .refused = NO_FLUSH,
        .step = 1000};

    compare_trials(&flushes);
}

/* Each work request another operation: batches of one, and packets of the general path between
 * them. */
static void test_mixed(void **state)
{
    static struct chain pair[2];
    static const enum sqe_op ops[] = {SQE_FETCH_ADD, SQE_CMP_SWP,      SQE_READ,  SQE_FETCH_ADD,
                                      SQE_FLUSH,     SQE_ATOMIC_WRITE, SQE_WRITE, SQE_CMP_SWP};

    pair_begin(pair);
    for (unsigned k = 0; k < 64; k++) {
        post_both(pair, ops[k % ARRAY_SIZE(ops)], 8);
        post_both(pair, ops[k / 8], 8);
        for (unsigned i = 0; i < 2; i++) {
            exchange(pair, false, NULL);
            exchange(pair, true, NULL);
        }
        for (unsigned i = 0; i < 2; i++)
            drain(&pair[i].a);
    }
    assert_int_equal(pair[0].b.qp->resp.msn, 1 + 2 * 64);
    pair_end(pair);
}

/* ---- requests ---- */

#define WORD 104 /* where the atomics of post_both are */

static uint64_t word(const struct side *s)
{
    uint64_t v;

    memcpy(&v, s->memory + WORD, sizeof(v));
    return v;
}

static void one_more(struct chain *c)
{
    copy_frame(c, c->n, c->n - 1, 1);
}

static void test_one_atomic_too_many(void **state)
{
    static struct chain pair[2];
    uint64_t before;

    pair_begin(pair);
    before = word(&pair[0].b);
    for (unsigned k = 0; k < 2; k++) {
        post_both(pair, SQE_FETCH_ADD, 8);
        post_both(pair, SQE_FETCH_ADD, 8);
        exchange(pair, false, k ? one_more : NULL);
    }
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_invalid_request), 1);
    assert_int_equal(word(&pair[0].b), before + AGREED);
    pair_end(pair);
}

static void lose_all(struct chain *c)
{
    c->n = 0;
}

/* The first atomic again, and behind it the request that came. */
static void first_again(struct chain *c)
{
    copy_frame(c, 1, 0, 0);
    copy_frame(c, 0, 0, -3u);
}

/* It is answered from memory. */
static void test_executed_once(void **state)
{
    static struct chain pair[2];
    uint64_t before;

    pair_begin(pair);
    before = word(&pair[0].b);
    for (unsigned k = 0; k < 3; k++)
        post_both(pair, SQE_FETCH_ADD, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, lose_all);
    post_both(pair, SQE_FETCH_ADD, 8);
    exchange(pair, false, first_again);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->duplicate_request), 1);
    assert_int_equal(word(&pair[0].b), before + 4);
    assert_int_equal(pair[0].b.qp->resp.res_pending, 2);
    exchange(pair, true, NULL);
    assert_memory_equal(pair[0].a.memory + 264, &before, sizeof(before));
    pair_end(pair);
}

/* The program that shares the memory is told that it has changed. */
static void test_memory_is_written(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    assert_false(pair[0].b.written);
    post_both(pair, SQE_CMP_SWP, 8);
    exchange(pair, false, NULL);
    assert_true(pair[0].b.written);
    pair_end(pair);
}

/*
 * A WRITE whose bytes have to be copied, and an atomic of the same word, which is mapped under
 * another key, in one burst: the atomic finds what was written, or is not executed.
 */
static void behind_a_copy(bool fails)
{
    static struct chain pair[2];
    struct wish write = {.op = SQE_WRITE, .len = 8, .from = WORD, .to = 800, .wrong = 1000},
                add = {.op = SQE_FETCH_ADD,
                       .len = 8,
                       .from = WORD,
                       .to = 808,
                       .compare_add = 1,
                       .wrong = 1000,
                       .other_from = true};
    uint64_t written, before;

    pair_begin(pair);
    before = word(&pair[0].b);
    memcpy(&written, pair[0].a.memory + write.to, sizeof(written));
    for (unsigned i = 0; i < 2; i++) {
        struct chain *c = &pair[i];

        c->b.mr.direct = NULL;
        c->b.other.direct = i ? NULL : c->b.memory;
        c->b.other_copied.memory = c->b.memory;
        if (fails)
            c->b.copied = (struct copied){c->b.memory, IOVA + WORD, 1};
        post(c, &write);
        post(c, &add);
        engine_doorbell(c->a.e, c->a.qp, 1);
    }
    exchange(pair, false, NULL);
    assert_int_equal(word(&pair[0].b), fails ? before : written + 1);
    assert_int_equal(qp_current_state(pair[0].b.qp), fails ? QPS_ERR : QPS_RTS);
    exchange(pair, true, NULL);
    if (!fails)
        assert_memory_equal(pair[0].a.memory + add.to, &written, sizeof(written));
    pair_end(pair);
}

static void test_behind_a_copy(void **state)
{
    behind_a_copy(false);
    behind_a_copy(true);
}

/* A copy of the burst has failed already: there was no room for another one, so those that were
 * queued were made. What comes behind it is not executed. */
static void test_behind_a_failed_copy(void **state)
{
    static struct chain pair[2];
    uint64_t before;

    pair_begin(pair);
    before = word(&pair[0].b);
    post_both(pair, SQE_FETCH_ADD, 8);
    for (unsigned i = 0; i < 2; i++) {
        struct side *b = &pair[i].b;
        struct rx_job *failed = &b->e->rx_job[FRAME_BURST - 1];

        failed->qp = b->qp;
        failed->is_response = false;
        failed->copy_failed = b->e->copies_failed = true;
        failed->pkt.psn = b->qp->resp.epsn;
    }
    exchange(pair, false, NULL);
    assert_int_equal(word(&pair[0].b), before);
    assert_int_equal(qp_current_state(pair[0].b.qp), QPS_ERR);
    pair_end(pair);
}

static uint8_t saved[ROOM];

static void save(struct chain *c)
{
    memcpy(saved, c->frames[0].data, c->frames[0].len);
}

/* The atomic that was saved comes in the place of the second packet. */
static void in_the_middle(struct chain *c)
{
    uint32_t psn = get_be24(c->frames[1].data + AT_BTH_PSN);

    memcpy(c->frames[1].data, saved, AT_BTH + 40 + ICRC_LEN);
    c->frames[1].len = AT_BTH + 40 + ICRC_LEN;
    put_be24(c->frames[1].data + AT_BTH_PSN, psn);
    copy_frame(c, 1, 1, 0);
}

static void test_in_the_middle_of_a_message(void **state)
{
    static struct chain pair[2];
    uint64_t before;

    pair_begin(pair);
    post_both(pair, SQE_FETCH_ADD, 8);
    exchange(pair, false, save);
    exchange(pair, true, NULL);
    before = word(&pair[0].b);
    for (unsigned i = 0; i < 2; i++) {
        struct wish w = {.op = SQE_WRITE, .len = 3072, .from = 4096, .to = 8192, .wrong = 1000};

        post(&pair[i], &w);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
    exchange(pair, false, in_the_middle);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_invalid_request), 1);
    assert_int_equal(word(&pair[0].b), before);
    pair_end(pair);
}

/* No atomic crosses a cache line because a mapping begins elsewhere than the application's. */
static void test_mapping_without_alignment(void **state)
{
    static struct chain pair[2];
    struct chain *c = &pair[0];
    uint64_t before;

    pair_begin(pair);
    before = word(&c->b);
    c->b.mr.direct += 4;
    post_both(pair, SQE_FETCH_ADD, 8);
    send_from(c, &c->a, &calm, 1);
    receive(c, &c->b, &calm, (struct random){1}, 1);
    assert_int_equal(counter_get(&qp_counters(c->b.qp)->remote_operational_err), 1);
    assert_int_equal(word(&c->b), before);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* Both pairs refuse the atomic at `from`. */
static void refused(struct chain pair[2], uint32_t from, uint64_t (*count)(const struct side *b))
{
    struct wish add = {
        .op = SQE_FETCH_ADD, .len = 8, .from = from, .compare_add = 1, .wrong = 1000};

    for (unsigned i = 0; i < 2; i++) {
        post(&pair[i], &add);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
    exchange(pair, false, NULL);
    assert_int_equal(count(&pair[0].b), 1);
    pair_end(pair);
}

static uint64_t misaligned(const struct side *b)
{
    return counter_get(&qp_counters(b->qp)->remote_invalid_request);
}

static uint64_t not_allowed(const struct side *b)
{
    return counter_get(&qp_counters(b->qp)->remote_access_err);
}

/* The address decides, not where it is mapped. */
static void test_address_without_alignment(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    pair[0].b.mr.direct += 4;
    refused(pair, WORD + 4, misaligned);
}

/* All of the eight bytes have to be in the region. */
static void test_end_of_the_region(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned i = 0; i < 2; i++)
        pair[i].b.mr.len = MEMORY - 4;
    refused(pair, MEMORY - 8, not_allowed);
}

/* ---- results ---- */

static void as_read_response(struct chain *c)
{
    c->frames[0].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_READ_RESP_ONLY);
    copy_frame(c, 0, 0, 0);
}

static void as_result(struct chain *c)
{
    c->frames[0].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_ATOMIC_ACK);
    copy_frame(c, 0, 0, 0);
}

static void wrong_and_right(struct chain *c)
{
    copy_frame(c, 1, 0, 0);
    as_read_response(c);
}

static void answered_by(enum sqe_op op, void (*forge)(struct chain *c))
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, op, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, forge);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    for (unsigned i = 264; i < 264 + 8; i++) /* its bytes are not written */
        assert_int_equal(pair[0].a.memory[i], (uint8_t)(i * 7));
    pair_end(pair);
}

static void test_answer_of_another_kind(void **state)
{
    answered_by(SQE_FETCH_ADD, as_read_response);
    answered_by(SQE_READ, as_result);
    answered_by(SQE_CMP_SWP, wrong_and_right);
}

/* The answer that was saved comes in the place of the first one. */
static void as_saved(struct chain *c)
{
    uint32_t psn = get_be24(c->frames[0].data + AT_BTH_PSN);

    memcpy(c->frames[0].data, saved, AT_BTH + 16 + ICRC_LEN);
    c->frames[0].len = AT_BTH + 16 + ICRC_LEN;
    put_be24(c->frames[0].data + AT_BTH_PSN, psn);
    copy_frame(c, 0, 0, 0);
}

/* The empty answer to a FLUSH does not complete a READ of some bytes, nor an atomic. */
static void answered_as_flush(enum sqe_op op)
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, SQE_FLUSH, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, save);
    post_both(pair, op, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, as_saved);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    pair_end(pair);
}

static void as_first_response(struct chain *c)
{
    c->frames[0].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_READ_RESP_FIRST);
    copy_frame(c, 0, 0, 0);
}

static void test_empty_answer(void **state)
{
    answered_as_flush(SQE_READ);
    answered_as_flush(SQE_FETCH_ADD);
    answered_by(SQE_FLUSH, as_first_response); /* of several */
}

static void again_behind(struct chain *c)
{
    copy_frame(c, 1, 0, 1);
}

/* The second frame answers the WRITE, which no response may. */
static void test_result_of_a_write(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, SQE_FETCH_ADD, 8);
    post_both(pair, SQE_WRITE, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, again_behind);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    pair_end(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_general_way),
        cmocka_unit_test(test_atomic_writes),
        cmocka_unit_test(test_flushes),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_one_atomic_too_many),
        cmocka_unit_test(test_executed_once),
        cmocka_unit_test(test_memory_is_written),
        cmocka_unit_test(test_behind_a_copy),
        cmocka_unit_test(test_behind_a_failed_copy),
        cmocka_unit_test(test_in_the_middle_of_a_message),
        cmocka_unit_test(test_mapping_without_alignment),
        cmocka_unit_test(test_address_without_alignment),
        cmocka_unit_test(test_end_of_the_region),
        cmocka_unit_test(test_answer_of_another_kind),
        cmocka_unit_test(test_empty_answer),
        cmocka_unit_test(test_result_of_a_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
