/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames, which hold back all that a port sends, where they are to be heeded. */
#include "ceiling.h"
#include "engine_private.h"
#include "unit.h"

#include "kit.h"

#define LINE      UINT64_C(10000000000) /* bits per second */
#define SIZE      (64u << 10)
#define DEPTH     8
#define QUANTA(n) ((n)*512 * NS_PER_SEC / LINE) /* 51.2 ns each */

static struct {
    struct kit *k;
    struct tx_ceiling *ceiling;
    struct kit_qp *qp[2], *peer[2];
    struct kit_mr *from, *to;
    uint64_t posted[2], completed[2];
    uint8_t op;
} w;

/* rate, line: the ceiling's; both 0: there is none. op: what node 0 sends. */
static void start_with(uint64_t rate, uint64_t line, uint8_t op, const struct qos_classes *classes)
{
    struct kit_link_config link = {.delay = NS_PER_US, .bps = LINE};
    const uint32_t access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ;
    struct kit_rc rc = {.path_mtu = 3, .timeout = 18};

    memset(&w, 0, sizeof(w));
    w.op = op;
    w.k = kit_create(&(struct kit_config){.seed = 1,
                                          .engines = 2,
                                          .arrival = KIT_AT_OWNER,
                                          .link = {link, link},
                                          .classes = *classes});
    if (rate || line)
        w.ceiling = tx_ceiling_create(rate, line);
    w.from = kit_mr_create(&w.k->node[0], SIZE, access, KIT_MR_DIRECT);
    w.to = kit_mr_create(&w.k->node[1], SIZE, access, KIT_MR_DIRECT);
    for (unsigned i = 0; i < 2; i++) {
        struct kit_qp_config qp = {.sq_size = DEPTH, .rq_size = 1, .engine = i};

        w.k->node[0].part[i].engine->cfg.ceiling = w.ceiling;
        w.qp[i] = kit_qp_create(&w.k->node[0], &qp);
        w.peer[i] = kit_qp_create(&w.k->node[1], &qp);
        rc.sl = i ? 3 : 0;
        kit_connect(w.qp[i], w.peer[i], &rc);
    }
}

static void start(uint64_t rate, uint64_t line, uint8_t op)
{
    start_with(rate, line, op, &(struct qos_classes){0});
}

static void finish(void)
{
    assert_true(kit_counts_add_up(&w.k->node[0]));
    kit_destroy(w.k);
    tx_ceiling_destroy(w.ceiling);
}

/* Node 1 reads from node 0, or node 0 writes. */
static bool post_on(void *arg)
{
    for (unsigned i = 0; i < 2; i++) {
        bool writes = w.op == SQE_WRITE;
        struct kit_qp *qp = writes ? w.qp[i] : w.peer[i];
        const struct kit_mr *local = writes ? w.from : w.to, *remote = writes ? w.to : w.from;
        struct cqe e[DEPTH];
        unsigned n = kit_poll(qp->send_cq, e, DEPTH);

        for (unsigned c = 0; c < n; c++)
            assert_int_equal(e[c].status, WC_SUCCESS);
        for (w.completed[i] += n; w.posted[i] - w.completed[i] < DEPTH; w.posted[i]++)
            kit_do(qp, w.op, 0, local, 0, 8192, remote, 0);
    }
    return false;
}

static uint64_t sent(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < 2; i++)
        all +=
            counter_sum(engine_counters(w.k->node[0].part[i].engine)->tx_packets, QOS_PRIORITIES);
    return all;
}

/* What node 0 sends in the next `length`. */
static uint64_t sent_in(ns_t length)
{
    uint64_t before = sent();

    assert_int_equal(kit_run(w.k, post_on, NULL, length), KIT_BUDGET);
    return sent() - before;
}

/* A pause frame arrives at node 0, a microsecond later. */
static void pause(uint16_t quanta)
{
    uint8_t frame[60] = {0x01, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 8, 0, 1};

    frame[16] = (uint8_t)(quanta >> 8);
    frame[17] = (uint8_t)quanta;
    kit_link_inject(&w.k->link[1], frame, sizeof(frame));
}

/* The same of priorities. */
static void pause_priorities(uint8_t priorities, uint16_t quanta)
{
    uint8_t frame[60] = {0x01, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 8, 1, 1, 0, priorities};

    for (unsigned i = 0; i < 8; i++) {
        frame[18 + 2 * i] = (uint8_t)(quanta >> 8);
        frame[19 + 2 * i] = (uint8_t)quanta;
    }
    kit_link_inject(&w.k->link[1], frame, sizeof(frame));
}

static void assert_pauses(uint64_t frames, ns_t time)
{
    struct tx_pauses p = tx_ceiling_pauses(w.ceiling, w.k->now);

    assert_int_equal(p.frames, frames);
    assert_in_range(p.ns, time, time + frames);
}

/* It pauses for as long as was asked, with requests, responses and acknowledges, at all engines. */
static void pauses(void **state)
{
    static const uint8_t ops[] = {SQE_WRITE, SQE_READ};

    for (unsigned i = 0; i < ARRAY_SIZE(ops); i++)
        for (unsigned with_rate = 0; with_rate < 2; with_rate++) {
            start(with_rate ? LINE / 2 : 0, LINE, ops[i]);
            assert_true(sent_in(NS_PER_MS) > 400);
            pause(UINT16_MAX);
            sent_in(2 * NS_PER_US); /* it arrives */
            assert_int_equal(sent_in(QUANTA(UINT16_MAX) - 3 * NS_PER_US), 0);
            assert_true(sent_in(NS_PER_MS) > 400);
            assert_pauses(1, QUANTA(UINT16_MAX));
            finish();
        }
}

/* A further frame replaces the first one: longer, shorter, or none. */
static void replaced(void **state)
{
    start(0, LINE, SQE_WRITE);
    sent_in(NS_PER_MS);
    pause(20000);
    sent_in(2 * NS_PER_US);
    assert_int_equal(sent_in(NS_PER_MS / 2), 0);
    for (unsigned i = 0; i < 2; i++) /* they look whether it has ended early */
        assert_true(engine_next_timer(w.k->node[0].part[i].engine) <= w.k->now + 100 * NS_PER_US);
    assert_int_equal(sent_in(NS_PER_MS / 2), 0);
    pause(20000);
    assert_int_equal(sent_in(1020 * NS_PER_US), 0);
    assert_in_range(tx_ceiling_pauses(w.ceiling, w.k->now).ns, 2018 * NS_PER_US, 2024 * NS_PER_US);
    pause(0);
    sent_in(2 * NS_PER_US + 200 * NS_PER_US); /* the other engine sees it a little later */
    assert_true(sent_in(100 * NS_PER_US) > 50);
    assert_int_equal(tx_ceiling_pauses(w.ceiling, w.k->now).frames, 3);
    assert_in_range(tx_ceiling_pauses(w.ceiling, w.k->now).ns, 2020 * NS_PER_US, 2026 * NS_PER_US);
    pause(0);
    sent_in(2 * NS_PER_US);
    assert_true(sent_in(100 * NS_PER_US) > 50);
    assert_in_range(tx_ceiling_pauses(w.ceiling, w.k->now).ns, 2020 * NS_PER_US, 2026 * NS_PER_US);
    finish();
}

/* Nothing is lost: all that waited arrives. A long pause takes no retries: nothing was sent. */
static void nothing_is_lost(void **state)
{
    start(0, LINE, SQE_WRITE);
    sent_in(NS_PER_MS);
    for (unsigned i = 0; i < 50; i++) {
        pause((uint16_t)(i * 1299));
        sent_in(NS_PER_MS);
    }
    sent_in(10 * NS_PER_MS);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(counter_get(&qp_counters(w.qp[i]->qp)->retransmits), 0);
        assert_true(w.completed[i] > 1000);
    }
    finish();
}

/* Frames that are not heeded: there is a ceiling alone, or nothing. They are dropped and counted as
 * any other frame. */
static void not_heeded(void **state)
{
    for (unsigned with_rate = 0; with_rate < 2; with_rate++) {
        start(with_rate ? LINE / 2 : 0, 0, SQE_WRITE);
        sent_in(NS_PER_MS);
        pause(UINT16_MAX);
        sent_in(2 * NS_PER_US);
        assert_true(sent_in(NS_PER_MS) > 400);
        if (with_rate)
            assert_pauses(0, 0);
        finish();
    }
}

/* Two classes, of priority 3 (queue pair 1) and of the others (queue pair 0). */
static const struct qos_classes classes = {
    .count = 2, .of_priority = {1, 1, 1, 0, 1, 1, 1, 1}, .percent = {0, 100}};

/* What the queue pairs send in the next `length`. */
static void sent_by_each(ns_t length, uint64_t sent[2])
{
    for (unsigned i = 0; i < 2; i++)
        sent[i] = counter_get(&qp_counters(w.qp[i]->qp)->tx_packets);
    sent_in(length);
    for (unsigned i = 0; i < 2; i++)
        sent[i] = counter_get(&qp_counters(w.qp[i]->qp)->tx_packets) - sent[i];
}

/* A priority pauses, and with it its class; the other class goes on. The queue pairs are on two
 * engines, or on one. */
static void priorities_pause(void **state)
{
    for (unsigned on_one = 0; on_one < 2; on_one++) {
        uint64_t sent[2];

        start_with(0, LINE, SQE_WRITE, &classes);
        if (on_one) {
            struct kit_rc rc = {.path_mtu = 3, .timeout = 18};
            struct kit_qp_config qp = {.sq_size = DEPTH, .rq_size = 1, .engine = 1};

            w.qp[0] = kit_qp_create(&w.k->node[0], &qp);
            w.peer[0] = kit_qp_create(&w.k->node[1], &qp);
            kit_connect(w.qp[0], w.peer[0], &rc);
        }
        sent_by_each(NS_PER_MS, sent);
        for (unsigned i = 0; i < 2; i++) {
            pause_priorities(i ? 1u << 3 : 1u << 5, 40000); /* 2 ms */
            sent_by_each(10 * NS_PER_US, sent);
            sent_by_each(2 * NS_PER_MS, sent);
            assert_int_equal(sent[i], 0);
            assert_true(sent[!i] > 1000);
            sent_by_each(NS_PER_MS, sent);
            sent_by_each(NS_PER_MS, sent);
            assert_true(sent[i] > 300 || (on_one && !i));
        }
        pause_priorities(0xFF, UINT16_MAX);
        sent_by_each(10 * NS_PER_US, sent);
        sent_by_each(2 * NS_PER_MS, sent);
        assert_int_equal(sent[0] + sent[1], 0);
        pause_priorities(0xFF, 0);
        sent_by_each(200 * NS_PER_US, sent);
        assert_true(sent[1] > 50);
        pause_priorities(0xFF, 20000); /* to its end */
        sent_by_each(1200 * NS_PER_US, sent);
        sent_by_each(NS_PER_MS, sent);
        assert_true(sent[1] > 300);
        assert_int_equal(tx_ceiling_pauses(w.ceiling, w.k->now).priority_frames, 5);
        assert_int_equal(tx_ceiling_pauses(w.ceiling, w.k->now).frames, 0);
        finish();
    }
}

/* Priorities that are not named go on; and all do without classes. */
static void priorities_that_do_not(void **state)
{
    uint64_t sent[2];

    start_with(0, LINE, SQE_WRITE, &classes);
    sent_by_each(NS_PER_MS, sent);
    pause_priorities(0, UINT16_MAX);
    sent_by_each(NS_PER_MS, sent);
    assert_true(sent[0] > 300 && sent[1] > 300);
    finish();
    start(0, LINE, SQE_WRITE);
    pause_priorities(0xFF, UINT16_MAX);
    sent_by_each(10 * NS_PER_US, sent);
    sent_by_each(NS_PER_MS, sent);
    assert_true(sent[0] > 300 && sent[1] > 300);
    assert_int_equal(tx_ceiling_pauses(w.ceiling, w.k->now).priority_frames, 0);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses),           cmocka_unit_test(replaced),
        cmocka_unit_test(nothing_is_lost),  cmocka_unit_test(not_heeded),
        cmocka_unit_test(priorities_pause), cmocka_unit_test(priorities_that_do_not),
    };

    return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
