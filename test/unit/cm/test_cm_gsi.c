/* SPDX-License-Identifier: BSD-3-Clause */
/* What the general services interface answers to MADs of other kinds, and classes with a handler.
 */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "cm_internal.h"
#include "cm_kit.h"
#include "gsi.h"
#include "unit.h"

static void test_gsi(void **state)
{
    static const struct {
        uint8_t base, class, version, method;
        uint16_t attribute;
        int status; /* -1: no answer */
        uint8_t answer_method;
    } cases[] = {
        {1, 7, 2, MAD_GET, MAD_CLASS_PORT_INFO, 0, 0x81},
        {1, 7, 2, MAD_GET, 0x0010, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, 7, 2, MAD_SET, MAD_CLASS_PORT_INFO, MAD_STATUS_BAD_METHOD, 0x81},
        {1, 7, 2, MAD_REPORT, 1, MAD_STATUS_BAD_METHOD, 0x86},
        {1, 7, 1, MAD_GET, MAD_CLASS_PORT_INFO, MAD_STATUS_BAD_VERSION, 0x81},
        {2, 7, 2, MAD_GET, MAD_CLASS_PORT_INFO, MAD_STATUS_BAD_VERSION, 0x81},
        {1, 4, 1, MAD_GET, 0x0012, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, 3, 2, MAD_SET, 0x0031, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        /* Subnet management, which is queue pair 0's, and classes of vendors. */
        {1, MAD_CLASS_SM_LID, 1, MAD_GET, 0x0011, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, MAD_CLASS_SM_LID, 1, MAD_SET, 0x0015, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, MAD_CLASS_SM_DIRECTED, 1, MAD_GET, 0x0011, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, MAD_CLASS_VENDOR_FIRST, 1, MAD_GET, 0x0010, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, MAD_CLASS_VENDOR_OUI_LAST, 1, MAD_GET, 1, MAD_STATUS_BAD_METHOD_ATTRIBUTE, 0x81},
        {1, 7, 2, MAD_SEND, 0x00FF, -1, 0},
        {1, 4, 1, MAD_TRAP, 2, -1, 0},
        {1, 4, 1, MAD_TRAP_REPRESS, 2, -1, 0},
        {1, 7, 2, 0x81, MAD_CLASS_PORT_INFO, -1, 0}, /* a response is never answered */
        {1, 9, 1, 0x86, 2, -1, 0},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        uint8_t mad[MAD_LEN] = {cases[i].base, cases[i].class, cases[i].version, cases[i].method};
        struct cm_kit *k = cm_kit_new(NULL);
        uint8_t answer[MAD_LEN];

        put_be64(mad + 8, 0x1122334455667788);
        put_be16(mad + 16, cases[i].attribute);
        mad[200] = 0xEE;
        cm_kit_rx(k, 0, 1, mad);
        assert_int_equal(k->node[1].sends, cases[i].status >= 0);
        assert_false(gsi_answer(answer, mad, MAD_LEN - 1));
        if (cases[i].status >= 0) {
            const uint8_t *sent = k->node[1].sent[0].mad;

            assert_int_equal(sent[3], cases[i].answer_method);
            assert_int_equal(get_be16(sent + 4), cases[i].status);
            assert_int_equal(sent[0], 1);
            assert_memory_equal(sent + 6, mad + 6, 18);
            assert_int_equal(sent[200], cases[i].status ? 0xEE : 0);
            assert_int_equal(cm_counters(k->node[1].cm)->gsi_answered, 1);
        }
        if (!cases[i].status) {
            const uint8_t *sent = k->node[1].sent[0].mad;

            assert_int_equal(class_port_info_get(sent, CPI_base_version), 1);
            assert_int_equal(class_port_info_get(sent, CPI_class_version), 2);
            assert_int_equal(class_port_info_get(sent, CPI_capability_mask), 0x3200);
            assert_int_equal(class_port_info_get(sent, CPI_resp_time_value), 18);
            assert_int_equal(class_port_info_get(sent, CPI_redirect_qpn), 0);
        }
        cm_kit_free(k);
    }
}

/* ---- classes with a handler ---- */

struct seen {
    enum gsi_verdict verdict;
    unsigned count;
    bool asked; /* for an answer */
    union gid from;
    uint8_t last[MAD_LEN];
};

static enum gsi_verdict on_class(void *ctx, const struct cm_path *way, const uint8_t *mad,
                                 uint8_t *answer)
{
    struct seen *s = ctx;

    s->count++;
    s->asked = answer != NULL;
    s->from = way->dgid;
    memcpy(s->last, mad, MAD_LEN);
    if (answer && s->verdict == GSI_ANSWER)
        put_be32(answer + 100, 0x600DF00D);
    return s->verdict;
}

static void test_classes_that_are_open(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct gsi_handler h = {.rx = on_class};
    unsigned open = 0;

    for (unsigned class = 0; class < 256; class ++) {
        int err = cm_class_register(k->node[1].cm, (uint8_t) class, &h);

        assert_int_equal(err, (class >= 0x09 && class <= 0x4F) ? 0 : -EINVAL);
        if (!err)
            assert_int_equal(cm_class_register(k->node[1].cm, (uint8_t) class, &h), -EBUSY);
        open += !err;
        cm_class_unregister(k->node[1].cm, (uint8_t) class);
    }
    assert_int_equal(open, 7 + 32 + 32);
    for (unsigned i = 0; i < GSI_CLASSES_MAX; i++)
        assert_int_equal(cm_class_register(k->node[1].cm, (uint8_t)(0x30 + i), &h), 0);
    assert_int_equal(cm_class_register(k->node[1].cm, 0x09, &h), -ENOSPC);
    cm_class_unregister(k->node[1].cm, 0x30);
    assert_int_equal(cm_class_register(k->node[1].cm, 0x09, &h), 0);
    assert_int_equal(cm_class_register(k->node[1].cm, 0x31, &h), -EBUSY);
    h.rx = NULL;
    assert_int_equal(cm_class_register(k->node[1].cm, 0x30, &h), -EINVAL);
    cm_kit_free(k);
}

static void test_a_class_with_a_handler(void **state)
{
    uint8_t mad[MAD_LEN] = {1, 0x32, 1, MAD_SET}, bad[MAD_LEN];
    struct cm_kit *k = cm_kit_new(NULL);
    struct seen seen = {.verdict = GSI_ANSWER};
    struct gsi_handler h = {on_class, &seen};
    const uint8_t *sent;

    put_be64(mad + 8, 0x1122334455667788);
    assert_int_equal(cm_class_register(k->node[1].cm, 0x32, &h), 0);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(k->node[1].sends, 1);
    sent = k->node[1].sent[0].mad;
    assert_int_equal(sent[3], 0x81);
    assert_int_equal(get_be16(sent + 4), MAD_STATUS_OK);
    assert_true(get_be64(sent + 8) == 0x1122334455667788);
    assert_int_equal(get_be32(sent + 100), 0x600DF00D);
    assert_memory_equal(seen.last, mad, MAD_LEN);
    assert_true(seen.asked);
    assert_true(gid_eq(&seen.from, &k->node[1].sent[0].path.dgid));
    assert_int_equal(cm_counters(k->node[1].cm)->gsi_taken, 1);

    /* A response and a method without one are the handler's, too, and are not answered. */
    for (unsigned i = 0; i < 2; i++) {
        mad[3] = i ? 0x81 : MAD_SEND;
        cm_kit_rx(k, 0, 1, mad);
        assert_int_equal(seen.count, 2 + i);
        assert_false(seen.asked);
    }
    assert_int_equal(k->node[1].sends, 1);
    mad[3] = MAD_GET;
    seen.verdict = GSI_TAKEN;
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(k->node[1].sends, 1);

    /* A stranger's, another base version, another class, and one whose handler has gone. */
    seen.verdict = GSI_NOT_MINE;
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(seen.count, 5);
    memcpy(bad, mad, MAD_LEN);
    bad[0] = 2;
    cm_kit_rx(k, 0, 1, bad);
    bad[0] = 1;
    bad[1] = 0x33;
    cm_kit_rx(k, 0, 1, bad);
    cm_class_unregister(k->node[1].cm, 0x32);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(seen.count, 5);
    assert_int_equal(k->node[1].sends, 5);
    for (unsigned i = 1; i < 5; i++)
        assert_int_equal(get_be16(k->node[1].sent[i].mad + 4),
                         i == 2 ? MAD_STATUS_BAD_VERSION : MAD_STATUS_BAD_METHOD_ATTRIBUTE);
    assert_int_equal(cm_counters(k->node[1].cm)->gsi_taken, 4);
    cm_kit_free(k);
}

/* Requests of forged senders get no more answers than messages of no connection do. */
static void test_answers_of_a_handler_are_limited(void **state)
{
    uint8_t mad[MAD_LEN] = {1, 0x0A, 1, MAD_GET};
    struct cm_config config = {.answers = 3};
    struct cm_kit *k = cm_kit_new(&config);
    struct seen seen = {.verdict = GSI_ANSWER};
    struct gsi_handler h = {on_class, &seen};

    assert_int_equal(cm_class_register(k->node[1].cm, 0x0A, &h), 0);
    for (unsigned i = 0; i < 10; i++)
        cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(seen.count, 10);
    assert_int_equal(k->node[1].sends, 3);
    assert_int_equal(cm_counters(k->node[1].cm)->answers_limited, 7);
    cm_kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gsi),
        cmocka_unit_test(test_classes_that_are_open),
        cmocka_unit_test(test_a_class_with_a_handler),
        cmocka_unit_test(test_answers_of_a_handler_are_limited),
    };

    return cmocka_run_group_tests_name("cm_gsi", tests, NULL, NULL);
}
