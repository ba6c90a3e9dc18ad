/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that both ends ask for: a peer's REQ that cannot be taken. */
#include <string.h>

#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define PORT 7471

/* A REQ that a listener would refuse is refused, and this end goes on asking. */
static void test_peer_with_faults(void **state)
{
    static const struct {
        enum cm_field field;
        uint32_t value;
        uint16_t reason;
    } faults[] = {
        {CM_REQ_path_mtu, 0, CM_REJ_INVALID_MTU},
        {CM_REQ_path_mtu, 6, CM_REJ_INVALID_MTU},
        {CM_REQ_transport_service_type, CM_TRANSPORT_UC, CM_REJ_INVALID_TRANSPORT},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(faults); i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_id *id[2];
        uint8_t mad[MAD_LEN];
        struct cm_msg rej;

        for (unsigned n = 0; n < 2; n++) {
            struct cm_connect_param param = cm_kit_param(k, 1 - n, PORT);
            struct cm_path path = cm_kit_path(k, n, 1 - n);

            id[n] = cm_kit_bound(k, n, IP_CM_PS_NONE);
            param.peer_to_peer = true;
            assert_int_equal(cm_connect(id[n], &path, &param, k->now), 0);
        }
        memcpy(mad, k->node[1].sent[0].mad, sizeof(mad)); /* of the larger CA GUID */
        cm_msg_set(mad, faults[i].field, faults[i].value);
        k->flying = 0;
        cm_kit_rx(k, 1, 0, mad);
        assert_int_equal(k->node[0].events, 0);
        assert_int_equal(cm_id_state(id[0]), CM_REQ_SENT);
        rej = cm_kit_last_sent(k, 0);
        assert_int_equal(rej.message, CM_REJ);
        assert_int_equal(cm_msg_get(&rej, CM_REJ_reason), faults[i].reason);
        k->flying = 0;
        cm_kit_free(k);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer_with_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
