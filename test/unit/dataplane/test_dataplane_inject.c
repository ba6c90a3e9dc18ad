/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules in front of a port: a real worker, a connected pair of queue pairs, and packets that are
 * dropped, doubled, damaged, marked, delayed and overtaken. The messages arrive all the same; every
 * frame is accounted for; and without rules the worker has the port itself again.
 */
#include <sched.h>
#include <string.h>

#include "port_inject.h"
#include "unit.h"
#include "worker_kit.h"

#define TIMEOUT  (20 * NS_PER_SEC)
#define MESSAGES 100u
#define DEPTH    8u

static struct dataplane dp;
static struct test_qp pair[2];
static struct test_cq cq;
static struct test_mr mr;
static struct inject_live live[4];

static struct worker_port *port(void)
{
    return dp.rnic->device[0]->port[0];
}

static const struct engine_counters *counters(void)
{
    return engine_counters(port()->engine);
}

static uint64_t received(void)
{
    return counter_sum(counters()->rx_packets, QOS_PRIORITIES);
}

static void compare_sums(struct worker *w, void *arg)
{
    const struct engine_counters *c = counters();

    assert_int_equal(received() + counter_get(&c->rx_copies), counter_get(&c->rx_delivered) +
                                                                  counter_get(&c->rx_punted) +
                                                                  counter_sum(c->drop, DROP_COUNT));
}

/* Between two passes. */
static void check_sums(void)
{
    worker_call(port()->worker, compare_sums, NULL);
}

static void set_rules(const char *const *text, unsigned n)
{
    struct inject_live *rule[ARRAY_SIZE(live)];
    char error[INJECT_ERROR_MAX];

    assert_int_equal(port_inject_set(port(), NULL, 0), 0);
    memset(live, 0, sizeof(live));
    for (unsigned i = 0; i < n; i++) {
        if (inject_parse(&live[i].rule, text[i], error))
            fail_msg("%s: %s", text[i], error);
        live[i].since = worker_time();
        rule[i] = &live[i];
    }
    assert_int_equal(port_inject_set(port(), rule, n), 0);
}

static void set_rule(const char *text)
{
    set_rules(&text, 1);
}

static int setup(void **state)
{
    dp = (struct dataplane){0};
    dataplane_start_loop(&dp, 1, &kit_provider);
    dataplane_open_context(&dp, 0);
    cq_open(&dp, 0, &cq);
    mr = mr_open(&dp, 0, KIT_BASE, KIT_BYTES);
    loop_pair_open(&dp, pair, &cq);
    return 0;
}

static int teardown(void **state)
{
    dataplane_stop(&dp);
    cq_close(&cq);
    return 0;
}

/* WRITEs of 64 bytes, each with another content, several at a time; all of them succeed. */
static void transfer(unsigned messages)
{
    const ns_t deadline = worker_time() + TIMEOUT;
    unsigned posted = 0, done = 0;

    while (done < messages) {
        struct test_send s = {.op = SQE_WRITE,
                              .signaled = true,
                              .addr = KIT_BASE,
                              .remote_addr = KIT_BASE + 4096,
                              .len = 64,
                              .lkey = mr.key,
                              .rkey = mr.key};

        for (; posted < messages && posted - done < DEPTH; posted++)
            post_send(&pair[0], &s);
        ring_bell(&pair[0]);
        while (!cq_reader_peek(&cq.reader)) {
            require(worker_time() < deadline);
            sched_yield();
        }
        assert_int_equal(cq_reader_peek(&cq.reader)->status, WC_SUCCESS);
        cq_reader_advance(&cq.reader);
        done++;
    }
}

static void compare_ports(struct worker *w, void *arg)
{
    *(bool *)arg = port()->io == dp.rnic->device[0]->io;
}

static bool has_port_itself(void)
{
    bool same;

    worker_call(port()->worker, compare_ports, &same);
    return same;
}

/* At once, or when the last frame has left. */
static void remove_rules(void)
{
    const ns_t deadline = worker_time() + TIMEOUT;

    assert_int_equal(port_inject_set(port(), NULL, 0), 0);
    while (!has_port_itself()) {
        require(worker_time() < deadline);
        sched_yield();
    }
}

static void expect_port_itself(void)
{
    remove_rules();
    transfer(10);
    check_sums();
}

static void test_no_rule(void **state)
{
    expect_port_itself();
    assert_null(port()->inject);
}

static void test_drop(void **state)
{
    uint64_t before = counter_get(&counters()->drop[DROP_fault_rule]);

    set_rule("drop rx opcode RC_ACK nth 3 count 3");
    assert_false(has_port_itself());
    transfer(MESSAGES);
    assert_int_equal(live[0].hits.acted, 3);
    assert_int_equal(live[0].hits.missed, 0);
    assert_true(live[0].hits.matched >= 9);
    assert_int_equal(counter_get(&counters()->drop[DROP_fault_rule]) - before, 3);
    check_sums();

    set_rule("drop tx opcode RC_WRITE_* nth 7 count 3");
    transfer(MESSAGES);
    assert_int_equal(live[0].hits.acted, 3);
    assert_int_equal(counter_get(&counters()->drop[DROP_fault_rule]) - before, 3);
    expect_port_itself();
}

/* Twice as many packets arrive. */
static void test_duplicate(void **state)
{
    static const char *const text[] = {"duplicate rx opcode RC_WRITE_ONLY",
                                       "duplicate tx opcode RC_WRITE_ONLY"};

    for (unsigned i = 0; i < ARRAY_SIZE(text); i++) {
        uint64_t before = received(), acks;

        set_rules(text + i, 1);
        transfer(MESSAGES);
        assert_true(live[0].hits.acted >= MESSAGES);
        expect_port_itself(); /* what waits has come */
        acks = received() - before;
        assert_true(acks >= 2 * MESSAGES + 1);
    }
}

static void test_corrupt(void **state)
{
    uint64_t before = counter_get(&counters()->drop[DROP_bad_icrc]);

    set_rule("corrupt rx opcode RC_WRITE_ONLY nth 10 count 2");
    transfer(MESSAGES);
    assert_int_equal(counter_get(&counters()->drop[DROP_bad_icrc]) - before, 2);
    set_rule("corrupt header tx opcode RC_ACK nth 3 count 2");
    transfer(MESSAGES);
    assert_int_equal(counter_get(&counters()->drop[DROP_bad_icrc]) - before, 4);
    /* An ACK has no payload: the rule misses it. */
    set_rule("corrupt rx opcode RC_ACK");
    transfer(MESSAGES);
    assert_int_equal(live[0].hits.acted, 0);
    assert_true(live[0].hits.missed > 0);
    assert_int_equal(live[0].hits.missed, live[0].hits.matched);
    set_rule("corrupt sealed rx opcode RC_WRITE_ONLY count 2");
    transfer(MESSAGES);
    assert_int_equal(live[0].hits.acted, 2);
    assert_int_equal(counter_get(&counters()->drop[DROP_bad_icrc]) - before, 4);
    expect_port_itself();
}

static void test_wait(void **state)
{
    static const char *const text[] = {
        "delay 3ms rx opcode RC_ACK nth 4",
        "delay 3ms tx opcode RC_WRITE_ONLY nth 20",
        "reorder 3 rx opcode RC_WRITE_* nth 9",
        "reorder 2 tx opcode RC_WRITE_* nth 9",
        "delay 2ms count 64",
    };

    for (unsigned i = 0; i < ARRAY_SIZE(text); i++) {
        set_rules(text + i, 1);
        transfer(MESSAGES);
        assert_true(live[0].hits.acted > 0);
        check_sums();
    }
    expect_port_itself();
}

static void send_one(void)
{
    struct test_send s = {.op = SQE_WRITE,
                          .signaled = true,
                          .addr = KIT_BASE,
                          .remote_addr = KIT_BASE + 4096,
                          .len = 64,
                          .lkey = mr.key,
                          .rkey = mr.key};

    post_send(&pair[0], &s);
    ring_bell(&pair[0]);
}

static void await_one(void)
{
    const ns_t deadline = worker_time() + TIMEOUT;

    while (!cq_reader_peek(&cq.reader)) {
        require(worker_time() < deadline);
        sched_yield();
    }
    assert_int_equal(cq_reader_peek(&cq.reader)->status, WC_SUCCESS);
    cq_reader_advance(&cq.reader);
}

static void await_action(void)
{
    const ns_t deadline = worker_time() + TIMEOUT;

    while (!atomic_load(&live[0].hits.acted)) {
        require(worker_time() < deadline);
        sched_yield();
    }
}

/* Rules are removed while frames wait, and while the worker sends. */
static void test_remove_with_frames(void **state)
{
    for (unsigned i = 0; i < 20; i++) {
        set_rule(i % 2 ? "delay 9s rx" : "delay 9s tx");
        send_one();
        await_action();
        remove_rules();
        await_one();
    }
}

/* The rule is gone and another one is there: the ACK that waited comes at once. It is the only one,
 * as the request is not sent again. */
static void test_remove_one(void **state)
{
    static const char *const text[] = {"delay 9s rx opcode RC_ACK", "delay 9s tx opcode RC_ACK"};
    struct inject_live *const stays = &live[1];
    char error[INJECT_ERROR_MAX];

    for (unsigned i = 0; i < ARRAY_SIZE(text); i++) {
        set_rules(text + i, 1);
        assert_int_equal(inject_parse(&stays->rule, "drop tx opcode RC_WRITE_ONLY", error), 0);
        send_one();
        await_action();
        assert_int_equal(port_inject_set(port(), &stays, 1), 0);
        await_one();
    }
    expect_port_itself();
}

/* The first rule that acts decides; one that does not act leaves the packet to the next. */
static void test_order(void **state)
{
    static const char *const text[] = {"drop rx opcode RC_ACK count 2", "mark rx opcode RC_*"};

    set_rules(text, 2);
    transfer(MESSAGES);
    assert_int_equal(live[0].hits.acted, 2);
    assert_int_equal(live[1].hits.acted, live[1].hits.matched);
    assert_true(live[1].hits.acted >= MESSAGES);
    expect_port_itself();
}

/* An ACK has no payload: the first rule picks each and misses, so the second one has it. */
static void test_missed(void **state)
{
    static const char *const text[] = {"corrupt rx opcode RC_ACK", "drop rx opcode RC_ACK count 2"};

    set_rules(text, 2);
    transfer(MESSAGES);
    assert_int_equal(live[0].hits.acted, 0);
    assert_int_equal(live[0].hits.missed, live[0].hits.matched);
    assert_int_equal(live[1].hits.acted, 2);
    assert_int_equal(live[1].hits.matched, live[0].hits.matched);
    expect_port_itself();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_rule),    cmocka_unit_test(test_drop),
        cmocka_unit_test(test_duplicate),  cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_wait),       cmocka_unit_test(test_order),
        cmocka_unit_test(test_missed),     cmocka_unit_test(test_remove_with_frames),
        cmocka_unit_test(test_remove_one),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
