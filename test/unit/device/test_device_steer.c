/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker of a new queue pair: while the port predicts where packets arrive, and after. */
#include "unit.h"

#include "worker_kit.h"

static struct dataplane dp;
static struct test_cq cq[2];

/* The reason for the workers of a new connection's queue pairs. */
static void connect_pair(struct test_qp pair[2], enum steer_reason reason[2])
{
    pair_open(&dp, pair, 0, cq);
    for (unsigned i = 0; i < 2; i++)
        reason[i] = qp_object_get(pair[i].session, pair[i].layout.qpn)->reason;
}

static void test_port_that_ceases_to_tell(void **state)
{
    const struct pktio_sim_config config = {.queues = {2, 2}};
    enum steer_reason reason[2];
    struct test_qp pair[3][2];
    struct device *d;

    dataplane_start(&dp, 2, &config);
    for (unsigned i = 0; i < 2; i++)
        cq_open(&dp, i, &cq[i]);
    connect_pair(pair[0], reason);
    assert_int_equal(reason[0], STEER_PREDICTED);
    assert_int_equal(reason[1], STEER_PREDICTED);
    d = dp.session[0]->device;
    assert_non_null(d->rss[0]);
    /* As a port whose packets arrived elsewhere. */
    pktio_sim_keep_rss_secret(dp.end[0]);
    for (unsigned n = 1; n < 3; n++) {
        connect_pair(pair[n], reason);
        assert_int_not_equal(reason[0], STEER_PREDICTED);
        assert_int_not_equal(reason[1], STEER_PREDICTED);
        assert_null(d->rss[0]);
    }
    for (unsigned i = 0; i < 3; i++) {
        qp_close(&pair[i][0]);
        qp_close(&pair[i][1]);
    }
    dataplane_stop(&dp);
    cq_close(&cq[0]);
    cq_close(&cq[1]);
}

/* Its queue pair moves to where the packets arrive, and nothing is left of it. */
static void test_rule_that_is_removed(void **state)
{
    const struct pktio_sim_config config = {.queues = {2, 2}, .rss_secret = true, .flows = 8};
    enum steer_reason reason[2];
    struct test_qp pair[2];
    struct qp_object *q;

    dataplane_start(&dp, 2, &config);
    for (unsigned i = 0; i < 2; i++)
        cq_open(&dp, i, &cq[i]);
    connect_pair(pair, reason);
    assert_int_equal(reason[0], STEER_RULE);
    q = qp_object_get(pair[0].session, pair[0].layout.qpn);
    assert_non_null(q->flow);
    q->flow_sport = 50001; /* of a port that knows rules by ports alone */
    steer_misplaced(q, !worker_index(q->dp.port->worker));
    assert_int_equal(q->reason, STEER_MISPLACED);
    assert_null(q->flow);
    assert_int_equal(q->flow_sport, 0);
    for (unsigned i = 0; i < 2; i++)
        qp_close(&pair[i]);
    dataplane_stop(&dp);
    cq_close(&cq[0]);
    cq_close(&cq[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_that_ceases_to_tell),
        cmocka_unit_test(test_rule_that_is_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
