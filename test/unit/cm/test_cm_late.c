/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that come when their connection is over: what the answers say. */
#include <string.h>

#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define PORT        7471
#define PASSIVE_QPN 0x222

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response_too_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
