/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: what a congestion controller is told (lib/cc), and that its window and its rate hold. */
#include "cc.h"
#include "engine_private.h"
#include "rules.h"

#define LINE   UINT64_C(40000000000)
#define DELAY  (50 * NS_PER_US)
#define WINDOW 4

/* A controller that notes what it is told, and wants a window of WINDOW packets. */
static struct {
    unsigned starts, acks, marks, timeouts;
    uint64_t bytes, packet;
    ns_t shortest, longest;
} told;

/* Its window is large until the first round trip, then a packet. */
static bool shrinks;

/* Or it has a rate of 1 kb/s. */
static bool crawls;

static void start(struct cc *cc)
{
    if (crawls)
        cc->rate = 1000;
    told.starts++;
    told.packet = cc->packet;
    cc->window = shrinks ? 0 : WINDOW * cc->packet;
}

static void on_ack(struct cc *cc, uint64_t bytes, ns_t delay, ns_t now)
{
    if (shrinks)
        cc->window = 1;
    told.acks++;
    told.bytes += bytes;
    told.shortest = min_of(told.shortest, delay);
    told.longest = max_of(told.longest, delay);
}

static void on_ce(struct cc *cc, ns_t now)
{
    told.marks++;
}

static void on_timeout(struct cc *cc, ns_t now)
{
    told.timeouts++;
}

static const struct cc_ops teller = {.name = "teller",
                                     .by_delay = true,
                                     .start = start,
                                     .on_ce = on_ce,
                                     .on_ack = on_ack,
                                     .on_timeout = on_timeout};

static struct rules begin_with(unsigned mark_back, const struct kit_rc *rc)
{
    struct kit_link_config link = {.delay = DELAY}, back = {.delay = DELAY, .mark = mark_back};
    struct kit_config config = {.seed = 1,
                                .link = {link, back},
                                .log = true,
                                .congestion = {.ect = true, .control = &teller, .line = LINE}};

    memset(&told, 0, sizeof(told));
    told.shortest = NS_NEVER;
    return rules_start_on(kit_create(&config), rc);
}

static struct rules begin(unsigned mark_back)
{
    return begin_with(mark_back, NULL);
}

struct wanted {
    struct kit_qp *qp;
    unsigned left;
};

static bool have_completed(void *arg)
{
    struct wanted *w = arg;
    struct cqe e;

    while (w->left && kit_poll(w->qp->send_cq, &e, 1)) {
        assert_int_equal(e.status, WC_SUCCESS);
        w->left--;
    }
    return !w->left;
}

/* How long the next completions of t->a take. */
static ns_t time_of(struct rules *t, unsigned completions)
{
    struct wanted w = {t->a, completions};
    ns_t before = t->k->now;

    assert_int_equal(kit_run(t->k, have_completed, &w, NS_PER_SEC), KIT_DONE);
    return t->k->now - before;
}

static void write_all(struct rules *t, unsigned messages)
{
    for (unsigned i = 0; i < messages; i++)
        kit_do(t->a, SQE_WRITE, i, t->ma, 0, MEM_BYTES, t->mb, 0);
}

/* No more is in flight than the window, and what fills it is asked for at once: as many round trips
 * as windows, and the controller knows each of them. */
static void a_window_a_round_trip(void **state)
{
    struct rules t = begin(0);
    const unsigned packets = 4 * MEM_BYTES / MTU;

    assert_int_equal(told.starts, 2); /* both ends may send */
    assert_int_equal(told.packet, MTU);
    write_all(&t, 4);
    assert_in_range(time_of(&t, 4), packets / WINDOW * 2 * DELAY,
                    packets / WINDOW * 2 * DELAY + NS_PER_US);
    assert_int_equal(count_of(t.a, retransmits), 0);
    assert_int_equal(count_of(t.a, probes), 0);
    assert_in_range(told.acks, packets / WINDOW - 1, packets / WINDOW);
    assert_in_range(told.bytes, (packets - 4 * WINDOW) * MTU, packets * MTU);
    assert_in_range(told.shortest, 2 * DELAY, 2 * DELAY + NS_PER_US);
    assert_in_range(told.longest, 2 * DELAY, 2 * DELAY + NS_PER_US);
    assert_int_equal(told.marks, 0);
    rules_finish(&t);
}

/* Most of what is in flight was sent without a request for an ACK when the window shrinks to less.
 */
static void a_shrinking_window_waits_for_nothing(void **state)
{
    struct rules t;

    shrinks = true;
    t = begin_with(0, &(struct kit_rc){.path_mtu = 1});
    write_all(&t, 4);
    (void)time_of(&t, 4);
    assert_int_equal(count_of(t.a, retransmits), 0);
    assert_int_equal(count_of(t.a, probes), 0);
    assert_int_equal(t.a->qp->req.window, 1);
    shrinks = false;
    rules_finish(&t);
}

/* READs, too: the responses that are due count. */
static void reads_have_the_window(void **state)
{
    struct rules t = begin(0);

    for (unsigned i = 0; i < 8; i++)
        kit_do(t.a, SQE_READ, i, t.ma, i * WINDOW * MTU, WINDOW * MTU, t.mb, 0);
    assert_in_range(time_of(&t, 8), 8 * 2 * DELAY, 8 * 2 * DELAY + NS_PER_US);
    assert_true(told.acks >= 7);
    rules_finish(&t);
}

/* Of the peer's packets: ACKs, here. */
static void marks_on_the_way_back(void **state)
{
    struct rules t = begin(1000);

    write_all(&t, 1);
    assert_int_equal(kit_run(t.k, NULL, NULL, NS_PER_SEC), KIT_IDLE);
    completes(t.a->send_cq, 0, WC_SUCCESS);
    assert_true(told.marks >= MEM_BYTES / MTU / WINDOW);
    assert_int_equal(count_of(t.b, np_ecn_marked_roce_packets), 0);
    rules_finish(&t);
}

/* Four packets in a local ACK timeout: more slowly they would be sent again until the connection
 * ends. */
static void has_a_least_rate(void **state)
{
    struct rules t;
    ns_t timeout = 4096 << 8;

    crawls = true;
    t = begin_with(0, &(struct kit_rc){.path_mtu = 3, .timeout = 8});
    write_all(&t, 1);
    assert_in_range(time_of(&t, 1), 14 * timeout, 18 * timeout);
    assert_int_equal(count_of(t.a, timeouts), 0);
    crawls = false;
    rules_finish(&t);
}

/* Of the timeout that the queue pair has now: it may be changed while it is drained. */
static void the_least_rate_follows_the_timeout(void **state)
{
    struct qp_attr attr = {.state = QPS_SQD, .timeout = 8};
    struct rules t;
    ns_t timeout = 4096 << 8;

    crawls = true;
    t = begin_with(0, &(struct kit_rc){.path_mtu = 3, .timeout = 12});
    assert_int_equal(
        engine_qp_modify(t.k->node[0].engine, t.a->qp, &attr, QPA_STATE, NULL, 5, t.k->now), 0);
    assert_int_equal(engine_qp_modify(t.k->node[0].engine, t.a->qp, &attr, QPA_STATE | QPA_TIMEOUT,
                                      NULL, 5, t.k->now),
                     0);
    attr.state = QPS_RTS;
    assert_int_equal(
        engine_qp_modify(t.k->node[0].engine, t.a->qp, &attr, QPA_STATE, NULL, 5, t.k->now), 0);
    write_all(&t, 1);
    assert_in_range(time_of(&t, 1), 14 * timeout, 18 * timeout);
    assert_int_equal(count_of(t.a, timeouts), 0);
    crawls = false;
    rules_finish(&t);
}

/* What a controller knows by delay are its requests: responses to READs do not wait, and requests
 * do not pay for them. */
static void responses_do_not_wait(void **state)
{
    struct rules t;
    ns_t before;

    crawls = true;
    t = begin_with(0, &(struct kit_rc){.path_mtu = 3, .timeout = KIT_NO_TIMEOUT});
    write_all(&t, 1);
    run_for(&t, NS_PER_MS);
    before = t.k->now;
    kit_do(t.b, SQE_READ, 0, t.mb, 0, WINDOW * MTU, t.ma, 0);
    run_for(&t, 20 * NS_PER_MS);
    completes(t.b->send_cq, 0, WC_SUCCESS);
    completes_nothing(t.a->send_cq);
    assert_true(t.a->qp->cc.next < before + 10 * NS_PER_SEC); /* a packet's 8.8 s */
    crawls = false;
    rules_finish(&t);
}

/* It does not want CNPs: they are counted as ignored. */
static void ignores_cnps(void **state)
{
    struct kit_link_config link = {.delay = DELAY}, marking = {.delay = DELAY, .mark = 1000};
    struct kit_config config = {
        .seed = 1,
        .link = {marking, link},
        .log = true,
        .congestion = {
            .ect = true, .cnp_interval = 50 * NS_PER_US, .control = &teller, .line = LINE}};
    struct rules t = rules_start_on(kit_create(&config), NULL);

    write_all(&t, 1);
    (void)time_of(&t, 1);
    assert_true(drops_of(&t.k->node[0], cnp_unsupported) > 0);
    assert_int_equal(count_of(t.a, rp_cnp_handled), 0);
    rules_finish(&t);
}

/* Once for each local ACK timeout, not for probes; and nothing that was sent again counts as the
 * first copy's round trip. */
static void timeouts(void **state)
{
    struct rules t = begin(0);

    link_does(t.ab, KIT_DROP);
    kit_do(t.a, SQE_WRITE, 0, t.ma, 0, MTU, t.mb, 0);
    while (!told.timeouts)
        run_for(&t, NS_PER_MS);
    assert_int_equal(count_of(t.a, timeouts), 1);
    link_does(t.ab, KIT_PASS);
    assert_int_equal(kit_run(t.k, NULL, NULL, NS_PER_SEC), KIT_IDLE);
    completes(t.a->send_cq, 0, WC_SUCCESS);
    assert_int_equal(told.timeouts, count_of(t.a, timeouts));
    assert_true(!told.acks || told.longest <= 2 * DELAY + NS_PER_US);
    rules_finish(&t);
}

/* RTS to RTS, and through SQD: the controller goes on. RESET ends it. */
static void goes_on_through_states(void **state)
{
    struct rules t = begin(0);
    struct qp_attr sqd = {.state = QPS_SQD}, rts = {.state = QPS_RTS}, reset = {.state = QPS_RESET};

    assert_int_equal(
        engine_qp_modify(t.k->node[0].engine, t.a->qp, &sqd, QPA_STATE, NULL, 5, t.k->now), 0);
    assert_int_equal(
        engine_qp_modify(t.k->node[0].engine, t.a->qp, &rts, QPA_STATE, NULL, 5, t.k->now), 0);
    assert_int_equal(told.starts, 2);
    write_all(&t, 1);
    assert_int_equal(kit_run(t.k, NULL, NULL, NS_PER_SEC), KIT_IDLE);
    assert_in_range(told.acks, 15, 16);
    assert_int_equal(
        engine_qp_modify(t.k->node[0].engine, t.a->qp, &reset, QPA_STATE, NULL, 5, t.k->now), 0);
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_a_round_trip),
        cmocka_unit_test(a_shrinking_window_waits_for_nothing),
        cmocka_unit_test(reads_have_the_window),
        cmocka_unit_test(marks_on_the_way_back),
        cmocka_unit_test(has_a_least_rate),
        cmocka_unit_test(the_least_rate_follows_the_timeout),
        cmocka_unit_test(responses_do_not_wait),
        cmocka_unit_test(ignores_cnps),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(goes_on_through_states),
    };

    return cmocka_run_group_tests_name("rc_controller", tests, NULL, NULL);
}
