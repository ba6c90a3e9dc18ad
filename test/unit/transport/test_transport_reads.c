/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * READs by the batch path and by the general path: pair_kit.h compares them.
 */
#include "pair_kit.h"

#define TRIALS 400

#define NO_READ (ALL_RIGHTS & ~MEM_REMOTE_READ)

static void test_same_as_the_general_way(void **state)
{
    static const struct ops ops = {
        .op = {SQE_READ, SQE_READ, SQE_READ, SQE_READ, SQE_READ, SQE_READ, SQE_WRITE, SQE_SEND},
        .n = 8,
        .refused = NO_READ,
        .step = 100000};
    uint64_t packets = 0;

    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        packets += pair_trial(seed, &ops);
    batch_form = HDR_IPV4;
    assert_true(packets > TRIALS * PAIR_BURSTS); /* most trials transfer data */
}

/* ---- one burst each, in which something is forged ---- */
/* Responses show that the path works in both directions (sport.c). */
static void test_responses_end_a_stall(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, SQE_READ, 8);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    for (unsigned i = 0; i < 2; i++)
        pair[i].a.qp->req.stalls = 1;
    exchange(pair, true, NULL);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pair[i].a.qp->req.stalls, 0);
    pair_end(pair);
}

static void lose_first(struct chain *c)
{
    for (unsigned i = 0; i + 1 < c->n; i++)
        copy_frame(c, i, i + 1, 0);
    c->n--;
}

/* The first response is lost, and the second has the PSN that the other direction expects next. */
static void test_batch_begins_with_the_oldest(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned i = 0; i < 3; i++)
        post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    for (unsigned i = 0; i < 2; i++)
        pair[i].a.qp->resp.epsn = psn_add(pair[i].a.qp->req.una, 1);
    exchange(pair, true, lose_first);
    assert_int_equal(counter_get(&qp_counters(pair[0].a.qp)->implied_nak_seq_err), 1);
    pair_end(pair);
}

static void one_more(struct chain *c)
{
    copy_frame(c, c->n, c->n - 1, 1);
}

static void test_one_read_too_many(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned k = 0; k < 2; k++) { /* four are agreed */
        post_both(pair, SQE_READ, 8);
        post_both(pair, SQE_READ, 8);
        exchange(pair, false, k ? one_more : NULL);
    }
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_invalid_request), 1);
    pair_end(pair);
}

/* The first READ again, and behind it the request that came. */
static void first_again(struct chain *c)
{
    copy_frame(c, 1, 0, 0);
    copy_frame(c, 0, 0, -4u);
}

/* The fifth READ has the resource of the first one, whose reply was to be repeated. */
static void test_repeated_read_is_replaced(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned k = 0; k < 3; k++)
        post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, NULL);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, first_again);
    exchange(pair, true, NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(counter_get(&qp_counters(pair[i].b.qp)->duplicate_request), 1);
        assert_int_equal(pair[i].b.qp->resp.res_pending, 0);
    }
    pair_end(pair);
}

static void into_the_first(struct chain *c)
{
    copy_frame(c, 1, 1, -2u);
}

static void test_read_inside_of_another(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, SQE_READ, 3072);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, into_the_first);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->duplicate_request), 1);
    pair_end(pair);
}

static void wrong_and_right(struct chain *c)
{
    copy_frame(c, 1, 0, 0);
    c->frames[0].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_READ_RESP_FIRST);
    copy_frame(c, 0, 0, 0);
}

static void test_failed_read_stays_failed(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, wrong_and_right);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    for (unsigned i = 264; i < 264 + 8; i++) /* its bytes are not written */
        assert_int_equal(pair[0].a.memory[i], (uint8_t)(i * 7));
    pair_end(pair);
}

/* The second frame acknowledges the WRITE. */
static void response_again(struct chain *c)
{
    assert_int_equal(c->n, 2);
    copy_frame(c, 1, 0, 1);
}

static void test_response_to_a_write(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    post_both(pair, SQE_READ, 8);
    post_both(pair, SQE_WRITE, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, response_again);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    pair_end(pair);
}

/* Regions longer than the longest message. */
static void begin_large(struct chain pair[2])
{
    pair_begin(pair);
    for (unsigned i = 0; i < 2; i++)
        pair[i].a.other.len = pair[i].b.other.len = UINT64_C(2) * MESSAGE_MAX;
}

static void test_read_too_long(void **state)
{
    static struct chain pair[2];
    struct wish w = {.op = SQE_READ, .len = MESSAGE_MAX + 1, .wrong = 1000, .other_to = true};

    begin_large(pair);
    for (unsigned i = 0; i < 2; i++) {
        post(&pair[i], &w);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
    exchange(pair, false, NULL);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    pair_end(pair);
}

/* In its RETH. */
static void ask_for_more(struct chain *c)
{
    put_be32(c->frames[0].data + AT_RETH_RKEY, c->b.other.key);
    put_be32(c->frames[0].data + AT_RETH_LENGTH, MESSAGE_MAX + 1);
    copy_frame(c, 0, 0, 0);
}

static void test_request_too_long(void **state)
{
    static struct chain pair[2];

    begin_large(pair);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, ask_for_more);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_invalid_request), 1);
    pair_end(pair);
}

/* The count has 32 bits and outlives more READs than that. */
static void test_count_of_resources_stays_small(void **state)
{
    static struct chain pair[2];

    pair_begin(pair);
    for (unsigned k = 0; k < 30; k++) {
        const struct responder *resp = &pair[k % 2].b.qp->resp;

        for (unsigned n = 0; n <= k % 3; n++)
            post_both(pair, SQE_READ, 8);
        exchange(pair, false, NULL);
        exchange(pair, true, NULL);
        assert_true(resp->res_head < 2 * resp->res_max);
        assert_int_equal(qp_current_state(pair[0].a.qp), QPS_RTS);
        for (unsigned i = 0; i < 2; i++)
            drain(&pair[i].a);
    }
    assert_int_equal(pair[0].b.qp->resp.msn, 61);
    pair_end(pair);
}

/* ---- the requester's window and timer ---- */

/* A READ takes as many PSNs as it has responses, here more than may be in flight. */
static void test_read_beyond_the_window(void **state)
{
    static struct chain pair[2];
    struct nature narrow = calm;

    narrow.inflight = 12;
    for (unsigned i = 0; i < 2; i++)
        chain_init(&pair[i], i, &narrow);
    post_both(pair, SQE_READ, 20000);
    post_both(pair, SQE_WRITE, 8);
    for (unsigned i = 0; i < 2; i++) {
        send_from(&pair[i], &pair[i].a, &narrow, 1);
        assert_int_equal(pair[i].n, 1);
        chain_fini(&pair[i]);
    }
}

static void ask_for_acknowledge(struct chain *c)
{
    struct frame *f = &c->frames[c->n - 1];

    f->data[AT_BTH_ACK_REQ] |= 0x80;
    icrc_seal(ICRC_IPV4, f->data + AT_IP, total_of(f) - ICRC_LEN);
}

/* All that was sent is acknowledged, and the timer stops: it starts again with the packets that
 * follow, though they ask for nothing. */
static void test_timer_in_the_middle_of_a_message(void **state)
{
    static struct chain pair[2];
    struct chain *c = &pair[0];

    pair_begin(pair);
    post_both(pair, SQE_WRITE, 20000);
    make_frames(c->frames, c->bytes);
    c->n = engine_tx(c->a.e, c->frames, 2, 1);
    ask_for_acknowledge(c);
    receive(c, &c->b, &calm, (struct random){1}, 1);
    assert_true(c->a.qp->timer.deadline != NS_NEVER);
    send_from(c, &c->b, &calm, 1);
    receive(c, &c->a, &calm, (struct random){1}, 1);
    assert_true(c->a.qp->timer.deadline == NS_NEVER);
    c->n = engine_tx(c->a.e, c->frames, 3, 1);
    assert_int_equal(c->n, 3);
    assert_true(c->a.qp->timer.deadline != NS_NEVER);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* ---- requests and responses of one queue pair ---- */

/* The opcodes of up to n frames that s sends, in a string: R a response, S a SEND. */
static void sent(char *text, struct side *s, unsigned n)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];

    make_frames(f, bytes);
    n = engine_tx(s->e, f, n, 1);
    for (unsigned i = 0; i < n; i++)
        text[i] = opcode_table[f[i].data[AT_BTH_OPCODE]].flags & PF_RESPONSE ? 'R' : 'S';
    text[n] = 0;
}

static void post_sends(struct side *s, unsigned n)
{
    for (; n > 0; n--) {
        struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);

        *e = (struct sqe){.opcode = SQE_SEND, .num_sge = 1};
        *(struct sge *)(e + 1) = (struct sge){.addr = IOVA, .length = 8, .lkey = s->mr.key};
    }
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(s->e, s->qp, 1);
}

static void test_short_ones_take_turns(void **state)
{
    static struct chain pair[2];
    struct side *b = &pair[0].b;
    char text[FRAME_BURST + 1];

    pair_begin(pair);
    post_sends(b, 40); /* so that there are enough slots */
    sent(text, b, FRAME_BURST);
    sent(text, b, FRAME_BURST);
    assert_string_equal(text, "SSSSSSSS");
    for (unsigned i = 0; i < 4; i++)
        post_both(pair, SQE_READ, 8);
    send_from(&pair[0], &pair[0].a, &calm, 1);
    post_sends(b, 12);
    receive(&pair[0], b, &calm, (struct random){1}, 1);
    sent(text, b, 3);
    assert_string_equal(text, "RRR");
    sent(text, b, FRAME_BURST);
    assert_string_equal(text, "SSSSSSSSRSSSS");
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* Each response of a READ takes a turn, and so does each request, whatever its length. */
static void test_long_ones_take_turns(void **state)
{
    static struct chain pair[2];
    struct side *b = &pair[0].b;
    char text[FRAME_BURST + 1];

    pair_begin(pair);
    post_sends(b, 40);
    sent(text, b, FRAME_BURST);
    sent(text, b, FRAME_BURST);
    post_both(pair, SQE_READ, 3072);
    send_from(&pair[0], &pair[0].a, &calm, 1);
    post_sends(b, 12);
    receive(&pair[0], b, &calm, (struct random){1}, 1);
    sent(text, b, 8);
    assert_string_equal(text, "RSRSRSSS");
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_general_way),
        cmocka_unit_test(test_responses_end_a_stall),
        cmocka_unit_test(test_batch_begins_with_the_oldest),
        cmocka_unit_test(test_one_read_too_many),
        cmocka_unit_test(test_repeated_read_is_replaced),
        cmocka_unit_test(test_read_inside_of_another),
        cmocka_unit_test(test_failed_read_stays_failed),
        cmocka_unit_test(test_response_to_a_write),
        cmocka_unit_test(test_read_too_long),
        cmocka_unit_test(test_request_too_long),
        cmocka_unit_test(test_count_of_resources_stays_small),
        cmocka_unit_test(test_read_beyond_the_window),
        cmocka_unit_test(test_timer_in_the_middle_of_a_message),
        cmocka_unit_test(test_short_ones_take_turns),
        cmocka_unit_test(test_long_ones_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
