/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that come when their connection is over: what the answers say. */
#include <string.h>

#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define PORT        7471
#define PASSIVE_QPN 0x222

static const struct cm_private none;

/* The active side has given up, and its REJ was lost, when the REP comes. */
static void test_response_too_late(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    struct cm_msg msg;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    k->loss = 256;
    while (!cm_kit_count(k, 0, CM_EVENT_UNREACHABLE))
        cm_kit_run(k, SEC);
    k->loss = 0;
    assert_int_equal(cm_id_state(active), CM_IDLE);
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    msg = cm_kit_last_sent(k, 0);
    assert_int_equal(msg.message, CM_REJ);
    assert_true(cm_msg_get(&msg, CM_REJ_remote_comm_id) == passive->local_comm_id);
    assert_int_equal(cm_kit_last(k, 1, CM_EVENT_REJECTED)->status, CM_REJ_INVALID_COMM_ID);
    assert_int_equal(cm_id_state(passive), CM_IDLE);
    assert_int_equal(k->node[0].cm->by_remote_id.count, 0);
    cm_kit_free(k);
}

/* Whether the last MAD of a node belongs to this one's transaction. */
static bool answers(const struct cm_kit *k, unsigned node, const uint8_t *mad)
{
    const struct cm_kit_node *n = &k->node[node];

    return mad_get(n->sent[n->sends - 1].mad, MAD_transaction_id) ==
           mad_get(mad, MAD_transaction_id);
}

/* Messages that are late at an end which has sent a DREQ of its own: the answers are theirs. */
static void test_late_messages_are_answered(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    uint8_t req[MAD_LEN], rtu[MAD_LEN], dreq[MAD_LEN];

    cm_kit_make_connection(k, &active, &passive);
    memcpy(req, k->node[0].sent[0].mad, sizeof(req));
    memcpy(rtu, k->node[0].sent[1].mad, sizeof(rtu));
    assert_int_equal(cm_disconnect(passive, none, k->now), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_id_state(passive), CM_TIMEWAIT);
    cm_kit_rx(k, 0, 1, req);
    assert_true(answers(k, 1, req));
    cm_kit_rx(k, 0, 1, rtu);
    assert_true(answers(k, 1, rtu));
    cm_msg_init(dreq, CM_DREQ, 77);
    cm_msg_set(dreq, CM_DREQ_local_comm_id, active->local_comm_id);
    cm_msg_set(dreq, CM_DREQ_remote_comm_id, passive->local_comm_id);
    cm_msg_set(dreq, CM_DREQ_remote_qpn, PASSIVE_QPN);
    cm_kit_rx(k, 0, 1, dreq);
    assert_int_equal(cm_kit_last_sent(k, 1).message, CM_DREP);
    assert_true(answers(k, 1, dreq));
    cm_kit_free(k);
}

/* A peer names two connections by one communication ID: the second REP is not taken. */
static void test_response_of_another(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id[2];
    uint8_t rep[2][MAD_LEN];

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct cm_connect_param param = cm_kit_param(k, 1, PORT);
        struct cm_path path = cm_kit_path(k, 0, 1);

        id[i] = cm_kit_bound(k, 0, IP_CM_PS_TCP);
        param.conn.qpn += i;
        assert_int_equal(cm_connect(id[i], &path, &param, k->now), 0);
        cm_kit_deliver(k);
        assert_int_equal(
            cm_kit_accept(k, cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id, PASSIVE_QPN + i), 0);
        memcpy(rep[i], k->node[1].sent[k->node[1].sends - 1].mad, MAD_LEN);
        k->flying = 0;
    }
    cm_kit_rx(k, 1, 0, rep[0]);
    assert_int_equal(cm_id_state(id[0]), CM_REP_RCVD);
    cm_kit_clear(k);
    cm_msg_set(rep[1], CM_REP_local_comm_id, id[0]->remote_comm_id);
    cm_kit_rx(k, 1, 0, rep[1]);
    assert_int_equal(cm_id_state(id[1]), CM_REQ_SENT);
    assert_int_equal(k->node[0].sends, 0);
    assert_int_equal(k->node[0].events, 0);
    assert_int_equal(cm_counters(k->node[0].cm)->malformed, 1);
    cm_id_destroy(id[0], k->now); /* and lingers: the peer shows that it is over */
    k->flying = 0;
    cm_kit_rx(k, 1, 0, rep[1]);
    assert_int_equal(cm_id_state(id[1]), CM_REP_RCVD);
    assert_int_equal(k->node[0].cm->ids, 1);
    cm_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response_too_late),
        cmocka_unit_test(test_late_messages_are_answered),
        cmocka_unit_test(test_response_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
