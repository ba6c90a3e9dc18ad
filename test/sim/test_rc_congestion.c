/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: connections that share a switch whose queue marks packets (A17.9.3). */
#include "cc.h"
#include "rules.h"

#define LINE    UINT64_C(40000000000) /* of the sender, bits per second */
#define NECK    UINT64_C(10000000000) /* of the switch's port */
#define MARK    (100u << 10) /* bytes in the switch's queue, from which on packets are marked */
#define SIZE    (64u << 10)
#define DEPTH   32
#define MANY    8
#define SENDERS (KIT_NODES - 1) /* hosts; the last one receives */

struct flow {
    struct kit_qp *qp;
    uint64_t posted, completed, before; /* before: completed when the measured half began */
};

struct flows {
    struct kit *k;
    struct kit_mr *from[SENDERS], *to;
    struct flow flow[MANY];
    unsigned n;
};

static bool write_on(void *arg)
{
    struct flows *t = arg;

    for (struct flow *f = t->flow; f < t->flow + t->n; f++) {
        struct cqe e[DEPTH];
        unsigned n = kit_poll(f->qp->send_cq, e, DEPTH);

        for (unsigned i = 0; i < n; i++)
            assert_int_equal(e[i].status, WC_SUCCESS);
        for (f->completed += n; f->posted - f->completed < DEPTH; f->posted++)
            kit_do(f->qp, SQE_WRITE, f->posted, t->from[(f - t->flow) % SENDERS], 0, SIZE, t->to,
                   0);
    }
    return false;
}

static void start(struct flows *t, unsigned n, const struct cc_ops *control)
{
    struct kit_link_config link = {
        .delay = 5 * NS_PER_US, .bps = LINE, .neck = {NECK, control ? MARK : UINT32_MAX}};
    struct kit_link_config back = {.delay = 5 * NS_PER_US, .bps = LINE};
    struct kit_config config = {.seed = 1, .nodes = KIT_NODES};
    struct kit_qp_config qp = {.sq_size = DEPTH, .rq_size = 1};
    struct kit_rc rc = {.path_mtu = 5, .timeout = 18};

    for (unsigned i = 0; i < KIT_NODES; i++)
        config.link[i] = i < SENDERS ? link : back;
    if (control)
        config.congestion = (struct congestion_config){true, 50 * NS_PER_US, 48, 6, control, LINE};
    *t = (struct flows){.k = kit_create(&config), .n = n};
    for (unsigned i = 0; i < n; i++) {
        t->flow[i].qp = kit_qp_create(&t->k->node[i % SENDERS], &qp);
        kit_connect(t->flow[i].qp, kit_qp_create(&t->k->node[SENDERS], &qp), &rc);
    }
    for (unsigned i = 0; i < SENDERS; i++)
        t->from[i] = kit_mr_create(&t->k->node[i], SIZE, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    t->to = kit_mr_create(&t->k->node[SENDERS], SIZE, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE,
                          KIT_MR_DIRECT);
}

/* Runs a while, then as long again, which is measured. */
static void run(struct flows *t, ns_t half)
{
    assert_int_equal(kit_run(t->k, write_on, t, half), KIT_BUDGET);
    for (unsigned i = 0; i < t->n; i++)
        t->flow[i].before = t->flow[i].completed;
    t->k->neck_most = 0;
    assert_int_equal(kit_run(t->k, write_on, t, half), KIT_BUDGET);
}

/* Of the switch's rate, per mille. */
static unsigned carried(const struct flows *t, ns_t half)
{
    uint64_t messages = 0;

    for (unsigned i = 0; i < t->n; i++)
        messages += t->flow[i].completed - t->flow[i].before;
    return (unsigned)(messages * SIZE * 8 * 1000 / (NECK * half / NS_PER_SEC));
}

/* Jain's index of fairness, per mille: 1000 if all flows have moved as much. */
static unsigned fairness(const struct flows *t)
{
    uint64_t sum = 0, squares = 0;

    for (unsigned i = 0; i < t->n; i++) {
        uint64_t x = t->flow[i].completed - t->flow[i].before;

        sum += x;
        squares += x * x;
    }
    return (unsigned)(sum * sum * 1000 / (t->n * squares));
}

static void check_shared(unsigned n, ns_t half)
{
    struct flows without, with;

    start(&without, n, NULL);
    run(&without, half);
    start(&with, n, &cc_dcqcn);
    run(&with, half);
    print_message("# %u flows: %u of 1000 carried, fairness %u of 1000, at most %u KiB in the "
                  "queue; without control %u, %u, %u KiB\n",
                  n, carried(&with, half), fairness(&with), (unsigned)(with.k->neck_most >> 10),
                  carried(&without, half), fairness(&without),
                  (unsigned)(without.k->neck_most >> 10));
    /* Nothing is lost, however fast the queue grows: nothing is sent twice. */
    assert_true(carried(&without, half) >= 980);
    assert_true(carried(&with, half) >= 850);
    assert_true(fairness(&with) >= 980);
    assert_true(with.k->neck_most < without.k->neck_most / 5);
    kit_destroy(without.k);
    kit_destroy(with.k);
}

static void two_flows_share(void **state)
{
    check_shared(2, 200 * NS_PER_MS);
}

static void eight_flows_share(void **state)
{
    check_shared(8, 200 * NS_PER_MS);
}

/* All packets are marked. The packet that asks for an ACK leaves later than the ACK timeout after
 * the first: nothing was lost, and nothing is sent again. */
static void slower_than_the_timeout(void **state)
{
    struct kit_config config = {.seed = 1,
                                .congestion = {true, 50 * NS_PER_US, 48, 6, &cc_dcqcn, NECK}};
    struct kit_rc rc = {.path_mtu = 1, .timeout = 6};
    struct kit_qp_config qp = {.sq_size = DEPTH, .rq_size = 1};
    struct kit_mr *from, *to;
    struct kit_qp *sender;
    struct kit *k;

    for (unsigned i = 0; i < 2; i++)
        config.link[i] =
            (struct kit_link_config){.delay = NS_PER_US, .bps = NECK, .mark = i ? 0 : 1000};
    k = kit_create(&config);
    sender = kit_qp_create(&k->node[0], &qp);
    kit_connect(sender, kit_qp_create(&k->node[1], &qp), &rc);
    from = kit_mr_create(&k->node[0], SIZE, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    to = kit_mr_create(&k->node[1], SIZE, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE, KIT_MR_DIRECT);
    for (unsigned i = 0; i < DEPTH; i++)
        kit_do(sender, SQE_WRITE, i, from, 0, SIZE, to, 0);
    assert_int_equal(kit_run(k, NULL, NULL, 10 * NS_PER_SEC), KIT_IDLE);
    for (unsigned i = 0; i < DEPTH; i++)
        completes(sender->send_cq, i, WC_SUCCESS);
    assert_int_equal(counter_get(&qp_counters(sender->qp)->timeouts), 0);
    assert_int_equal(counter_get(&qp_counters(sender->qp)->retransmits), 0);
    kit_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slower_than_the_timeout),
        cmocka_unit_test(two_flows_share),
        cmocka_unit_test(eight_flows_share),
    };

    return cmocka_run_group_tests_name("rc_congestion", tests, NULL, NULL);
}
