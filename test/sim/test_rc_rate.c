/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: a queue pair's own limit of its rate (IBV_QP_RATE_LIMIT). */
#include <errno.h>

#include "cc.h"
#include "ceiling.h"
#include "engine_private.h"
#include "rate.h"
#include "rules.h"

#define LINE  UINT64_C(40000000000) /* bits per second */
#define SIZE  (64u << 10)
#define DEPTH 32

struct limited {
    struct kit *k;
    struct kit_qp *qp, *peer;
    struct kit_mr *from, *to;
    uint8_t op;
    uint64_t posted, completed;
};

static bool post_on(void *arg)
{
    struct limited *t = arg;
    struct cqe e[DEPTH];
    unsigned n = kit_poll(t->qp->send_cq, e, DEPTH);

    for (unsigned i = 0; i < n; i++)
        assert_int_equal(e[i].status, WC_SUCCESS);
    for (t->completed += n; t->posted - t->completed < DEPTH; t->posted++)
        kit_do(t->qp, t->op, t->posted, t->from, 0, 8192, t->to, 0);
    return false;
}

static struct limited start_on_path(uint8_t op, uint8_t static_rate)
{
    struct kit_link_config link = {.delay = 5 * NS_PER_US, .bps = LINE};
    struct kit_qp_config qp = {.sq_size = DEPTH, .rq_size = 1};
    struct kit_rc rc = {.path_mtu = 3, .timeout = 18, .static_rate = static_rate};
    struct limited t = {.op = op};

    t.k = kit_create(&(struct kit_config){.seed = 1, .link = {link, link}});
    t.qp = kit_qp_create(&t.k->node[0], &qp);
    t.peer = kit_qp_create(&t.k->node[1], &qp);
    kit_connect(t.qp, t.peer, &rc);
    t.from = kit_mr_create(&t.k->node[0], SIZE, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    t.to = kit_mr_create(&t.k->node[1], SIZE, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ,
                         KIT_MR_DIRECT);
    return t;
}

static struct limited start_limited(uint8_t op)
{
    return start_on_path(op, 0);
}

static int limit(struct limited *t, struct kit_qp *qp, uint32_t kbps, uint32_t burst)
{
    struct qp_attr attr = {.rate_limit = kbps, .rate_burst = burst};

    return engine_qp_modify(qp->node->engine, qp->qp, &attr, QPA_RATE_LIMIT, NULL, 5, t->k->now);
}

/* What a node sends in the next `length`, in bits per second. */
static double rate_of(struct limited *t, unsigned node, ns_t length)
{
    const struct engine_counters *c = engine_counters(t->k->node[node].engine);
    uint64_t before = counter_sum(c->tx_bytes, QOS_PRIORITIES);

    assert_int_equal(kit_run(t->k, post_on, t, length), KIT_BUDGET);
    return (double)(counter_sum(c->tx_bytes, QOS_PRIORITIES) - before) * 8 * (double)NS_PER_SEC /
           (double)length;
}

static void assert_rate(double is, uint64_t should)
{
    if (is < (double)should * 0.99 || is > (double)should * 1.01)
        fail_msg("%.0f is not %llu", is, (unsigned long long)should);
}

/* A queue pair's own limit (IBV_QP_RATE_LIMIT): exact for slow and fast ones, and what sends is
 * held back, whether it is asked for (requests) or asks (responses to READs). */
static void own_limit(void **state)
{
    static const uint32_t kbps[] = {1000, 123456, 5000000, 20000000};
    struct limited w = start_limited(SQE_WRITE), r = start_limited(SQE_READ);

    for (unsigned i = 0; i < ARRAY_SIZE(kbps); i++) {
        ns_t length = kbps[i] < 100000 ? 20 * NS_PER_SEC : 100 * NS_PER_MS;

        assert_int_equal(limit(&w, w.qp, kbps[i], 0), 0);
        assert_int_equal(limit(&r, r.peer, kbps[i], 0), 0);
        assert_rate(rate_of(&w, 0, length), kbps[i] * UINT64_C(1000));
        assert_rate(rate_of(&r, 1, length), kbps[i] * UINT64_C(1000));
    }
    assert_int_equal(limit(&w, w.qp, 0, 0), 0);
    assert_true(rate_of(&w, 0, 100 * NS_PER_MS) > 0.9 * (double)LINE);
    assert_int_equal(counter_get(&qp_counters(w.qp->qp)->timeouts), 0);
    kit_destroy(w.k);
    kit_destroy(r.k);
}

/* 64 us at the limit, and a packet, may leave at once: a program that allows less is refused. */
static void smaller_bursts_are_refused(void **state)
{
    struct limited t = start_limited(SQE_WRITE);

    assert_int_equal(limit(&t, t.qp, 1000000, 8000 + 1024), 0);
    assert_int_equal(limit(&t, t.qp, 1000000, 8000 + 1023), -EINVAL);
    t.peer->qp->type = QPT_XRC_RECV;
    assert_int_equal(limit(&t, t.peer, 1000000, 0), -EINVAL);
    t.peer->qp->type = QPT_RC;
    assert_int_equal(kit_modify(t.qp, QPS_RESET), 0);
    assert_int_equal(t.qp->qp->attr.rate_limit, 0);
    assert_false(cc_is_limited(&t.qp->qp->cc));
    kit_destroy(t.k);
}

/* The controller and the limit: the lower one counts, and the limit stays when the controller has
 * gone. */
static void limit_and_controller(void **state)
{
    struct kit_config config = {.seed = 1,
                                .congestion = {true, 50 * NS_PER_US, 48, 6, &cc_dcqcn, LINE}};
    struct limited t = start_limited(SQE_WRITE);
    struct engine *e = t.qp->node->engine;

    e->cfg.congestion = config.congestion;
    assert_int_equal(limit(&t, t.qp, 4000000, 0), 0);
    for (unsigned i = 0; i < 12; i++) {
        rate_of(&t, 0, 60 * NS_PER_US);
        e->now = t.k->now;
        rate_on_cnp(e, t.qp->qp);
    }
    assert_true(t.qp->qp->cc.rate < UINT64_C(2000000000));
    assert_true(rate_of(&t, 0, 100 * NS_PER_US) < 2e9);
    rate_of(&t, 0, NS_PER_SEC); /* recovers */
    assert_null(t.qp->qp->cc.ops);
    assert_rate(rate_of(&t, 0, 100 * NS_PER_MS), UINT64_C(4000000000));
    kit_destroy(t.k);
}

/* The ACK is lost, and the limit holds back what is sent again for longer than all retries take:
 * they begin when it was sent. */
static void sent_again_slowly(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.path_mtu = 3, .timeout = 8});
    struct qp_attr attr = {.rate_limit = 200}; /* a packet in 43 ms */

    assert_int_equal(
        engine_qp_modify(t.k->node[0].engine, t.a->qp, &attr, QPA_RATE_LIMIT, NULL, 5, t.k->now),
        0);
    link_does(t.ba, KIT_DROP);
    kit_do(t.a, SQE_WRITE, 0, t.ma, 0, 2 * MTU, t.mb, 0);
    run_for(&t, 60 * NS_PER_MS);
    assert_int_equal(state_of(t.a), QPS_RTS);
    assert_int_equal(count_of(t.a, timeouts), 1);
    link_does(t.ba, KIT_PASS);
    run_for(&t, NS_PER_SEC);
    completes(t.a->send_cq, 0, WC_SUCCESS);
    rules_finish(&t);
}

/* The rate of a path (enum ibv_rate) holds where the port is faster; with a limit of the queue pair
 * the lower one counts. */
static void path_limit(void **state)
{
    static const struct {
        uint8_t code;
        uint64_t bps;
    } paths[] = {{2, UINT64_C(2500000000)}, {5, UINT64_C(5000000000)}, {3, UINT64_C(10000000000)}};

    for (unsigned i = 0; i < ARRAY_SIZE(paths); i++) {
        struct limited w = start_on_path(SQE_WRITE, paths[i].code);
        struct limited r = start_on_path(SQE_READ, paths[i].code);

        assert_rate(rate_of(&w, 0, 100 * NS_PER_MS), paths[i].bps);
        assert_rate(rate_of(&r, 1, 100 * NS_PER_MS), paths[i].bps);
        assert_int_equal(limit(&w, w.qp, 1000000, 0), 0);
        assert_rate(rate_of(&w, 0, 100 * NS_PER_MS), UINT64_C(1000000000));
        assert_int_equal(limit(&w, w.qp, 20000000, 0), 0);
        assert_rate(rate_of(&w, 0, 100 * NS_PER_MS), paths[i].bps);
        kit_destroy(w.k);
        kit_destroy(r.k);
    }
}

/* One as fast as the port, and one that does not exist. */
static void path_without_limit(void **state)
{
    static const uint8_t codes[] = {7, 99};

    for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
        struct limited t = start_limited(SQE_WRITE);
        struct kit_rc rc = {.path_mtu = 3, .timeout = 18, .static_rate = codes[i]};

        t.qp->node->engine->cfg.congestion.line = LINE;
        assert_int_equal(kit_modify(t.qp, QPS_RESET), 0);
        assert_int_equal(kit_modify(t.peer, QPS_RESET), 0);
        kit_connect(t.qp, t.peer, &rc);
        assert_false(cc_is_limited(&t.qp->qp->cc));
        kit_destroy(t.k);
    }
}

/* What a port sends together: two queue pairs in opposite roles, and their acknowledges. Bursts are
 * bounded, and what is idle gathers no credit. */
static void ceiling(void **state)
{
    static const uint32_t mbps[] = {1, 1000, 20000};
    struct limited t = start_limited(SQE_WRITE), r = start_limited(SQE_READ);

    for (unsigned i = 0; i < ARRAY_SIZE(mbps); i++) {
        uint64_t rate = mbps[i] * UINT64_C(1000000);
        struct tx_ceiling *c = tx_ceiling_create(rate, 0), *d = tx_ceiling_create(rate, 0);
        ns_t length = mbps[i] < 100 ? 20 * NS_PER_SEC : 100 * NS_PER_MS;

        assert_non_null(c);
        assert_non_null(d);
        t.qp->node->engine->cfg.ceiling = c;
        r.peer->node->engine->cfg.ceiling = d;
        rate_of(&t, 0, NS_PER_MS); /* the first burst may be longer: no frame was sent before */
        rate_of(&r, 1, NS_PER_MS);
        assert_rate(rate_of(&t, 0, length), rate);
        assert_rate(rate_of(&r, 1, length), rate);
        t.qp->node->engine->cfg.ceiling = r.peer->node->engine->cfg.ceiling = NULL;
        t.qp->node->engine->ceiling_until = r.peer->node->engine->ceiling_until = 0;
        tx_ceiling_destroy(c);
        tx_ceiling_destroy(d);
    }
    kit_destroy(t.k);
    kit_destroy(r.k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_limit),
        cmocka_unit_test(smaller_bursts_are_refused),
        cmocka_unit_test(limit_and_controller),
        cmocka_unit_test(sent_again_slowly),
        cmocka_unit_test(path_limit),
        cmocka_unit_test(path_without_limit),
        cmocka_unit_test(ceiling),
    };

    return cmocka_run_group_tests_name("rc_rate", tests, NULL, NULL);
}
