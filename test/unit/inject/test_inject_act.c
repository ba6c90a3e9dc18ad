/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules of a port do to a frame: which one decides, how long a copy waits, what is
 * counted.
 */
#include <string.h>

#include "inject_act.h"
#include "opcode.h"
#include "unit.h"

#define RULES 4

static struct inject_live live[RULES];
static struct inject_live *rule[RULES];

static unsigned set_rules(const char *const *text)
{
    char error[INJECT_ERROR_MAX];
    unsigned n;

    memset(live, 0, sizeof(live));
    for (n = 0; n < RULES && text[n]; n++) {
        if (inject_parse(&live[n].rule, text[n], error))
            fail_msg("%s: %s", text[n], error);
        live[n].since = 1000;
        rule[n] = &live[n];
    }
    return n;
}

static const struct inject_packet ack = {.direction = INJECT_RX, .opcode = OPCODE(PKT_RC, OP_ACK)};

static struct inject_live *choose(unsigned n, const struct inject_packet *p, ns_t now,
                                  uint64_t *index)
{
    unsigned next = 0;

    return inject_choose(rule, n, p, now, &next, index);
}

/* The first one that acts; those before it have counted the packet if it matches. */
static void test_first_rule(void **state)
{
    static const char *const text[RULES] = {"drop tx", "delay 1us count 1", "mark", "drop"};
    unsigned n = set_rules(text);
    uint64_t index = 9;

    assert_ptr_equal(choose(n, &ack, 1000, &index), &live[1]);
    assert_int_equal(index, 0);
    assert_ptr_equal(choose(n, &ack, 1000, &index), &live[2]);
    assert_int_equal(live[0].hits.matched, 0);
    assert_int_equal(live[1].hits.matched, 2);
    assert_int_equal(live[2].hits.matched, 1);
    assert_int_equal(live[3].hits.matched, 0);
    assert_null(choose(n, NULL, 1000, &index));
    assert_null(choose(1, &ack, 1000, &index));
}

/* Each rule that picks the packet in its turn, and then none. */
static void test_next_rule(void **state)
{
    static const char *const text[RULES] = {"corrupt", "drop tx", "mark", "drop"};
    unsigned n = set_rules(text), next = 0;
    uint64_t index;

    assert_ptr_equal(inject_choose(rule, n, &ack, 1000, &next, &index), &live[0]);
    assert_ptr_equal(inject_choose(rule, n, &ack, 1000, &next, &index), &live[2]);
    assert_ptr_equal(inject_choose(rule, n, &ack, 1000, &next, &index), &live[3]);
    assert_null(inject_choose(rule, n, &ack, 1000, &next, &index));
}

/* A link that is down takes all frames, before the rules above it, for its time. */
static void test_link(void **state)
{
    static const char *const text[RULES] = {"drop", "link_down after 5us for 3us"};
    unsigned n = set_rules(text);
    uint64_t index;

    assert_null(inject_link_taker(rule, n, 1000 + 4999));
    assert_ptr_equal(choose(n, &ack, 1000 + 4999, &index), &live[0]);
    assert_ptr_equal(inject_link_taker(rule, n, 1000 + 5000), &live[1]);
    assert_ptr_equal(choose(n, &ack, 1000 + 5000, &index), &live[1]);
    assert_ptr_equal(choose(n, NULL, 1000 + 7999, &index), &live[1]);
    assert_int_equal(live[1].hits.matched, 2);
    assert_ptr_equal(choose(n, &ack, 1000 + 8000, &index), &live[0]);
    assert_null(choose(n, NULL, 1000 + 8000, &index));
}

static void test_waits(void **state)
{
    static const struct {
        const char *text;
        ns_t due;
        uint64_t after;
        enum inject_act taken; /* when it was done */
    } row[] = {
        {"duplicate", 100, 0, INJECT_NOTHING},
        {"delay 3us", 3100, UINT64_MAX, INJECT_DELAY},
        {"reorder 2", 100 + 10 * NS_PER_MS, 9, INJECT_REORDER},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        const char *const text[RULES] = {row[i].text};
        struct inject_wait wait;

        set_rules(text);
        assert_true(inject_waits(live[0].rule.act));
        wait = inject_wait_of(&live[0].rule, 100, 7);
        assert_int_equal(wait.due, row[i].due);
        assert_true(wait.after == row[i].after);
        assert_int_equal(inject_wait_is_over(&wait, 100, 7), live[0].rule.act == INJECT_DUPLICATE);
        assert_true(inject_wait_is_over(&wait, row[i].due, 7));
        assert_int_equal(inject_wait_is_over(&wait, row[i].due - 1, 9),
                         live[0].rule.act != INJECT_DELAY);
        assert_int_equal(inject_conclude(&live[0], true), row[i].taken);
        assert_int_equal(inject_conclude(&live[0], false), INJECT_NOTHING);
    }
}

/* Frames that no rule can change; the packets' own tests are inject_frame's. */
static void test_change(void **state)
{
    static const struct {
        const char *text;
        bool done;
        enum inject_act taken;
    } row[] = {
        {"drop", true, INJECT_DROP},        {"link_down", true, INJECT_DROP},
        {"corrupt", false, INJECT_NOTHING}, {"mark", false, INJECT_NOTHING},
        {"nak rnr", false, INJECT_NOTHING},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        const char *const text[RULES] = {row[i].text};
        uint8_t bytes[20] = {0}, before[20] = {0};
        struct frame f = {.data = bytes, .len = sizeof(bytes)};

        set_rules(text);
        assert_false(inject_waits(live[0].rule.act));
        assert_int_equal(inject_change(&live[0].rule, 0, &f), row[i].done);
        assert_memory_equal(bytes, before, sizeof(bytes));
        assert_int_equal(inject_conclude(&live[0], row[i].done), row[i].taken);
        assert_int_equal(live[0].hits.acted, row[i].done);
        assert_int_equal(live[0].hits.missed, !row[i].done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_rule), cmocka_unit_test(test_next_rule),
        cmocka_unit_test(test_link),       cmocka_unit_test(test_waits),
        cmocka_unit_test(test_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
