/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules of a laboratory act: on the frames of their hosts, in virtual time, and the same each time.
 */
#include "lab_kit.h"

#define NET "until 50ms\nhosts timeout=8\nstar hosts=3\n"

static struct lab_hits hits(const struct trial *t, unsigned rule)
{
    struct lab_hits h;

    lab_rule_hits(t->lab, rule, &h);
    return h;
}

static uint64_t dropped(const struct trial *t, enum drop reason)
{
    uint64_t drop[DROP_COUNT];

    lab_drops(t->lab, drop);
    return drop[reason];
}

/* A flow of 1 MiB from h1 to h2 with a rule; it is done. */
static struct lab_result run_rule(struct trial *t, const char *rule)
{
    char text[400];

    snprintf(text, sizeof(text), NET "fault %s\nflow h1 h2 size=1M\n", rule);
    run(t, text, 1, true);
    all_done(t);
    return result(t, 0);
}

/* Not even the time of a frame. */
static void a_rule_without_frames_changes_nothing(void **state)
{
    struct trial with, without;

    run_rule(&with, "drop opcode UD_*");
    run(&without, NET "flow h1 h2 size=1M\n", 1, true);
    assert_int_equal(hits(&with, 0).matched, 0);
    assert_int_equal(with.frames, without.frames);
    assert_true(with.hash == without.hash);
    assert_int_equal(lab_ended(with.lab), lab_ended(without.lab));
    end(&with);
    end(&without);
}

static void what_is_lost_is_sent_again(void **state)
{
    static const struct {
        const char *rule;
        uint64_t acted, received; /* the frames that are gone; of these, on reception */
    } row[] = {
        {"h2 drop rx opcode RC_WRITE_* nth 50 count 4", 4, 4},
        {"h1 drop tx opcode RC_WRITE_* nth 50 count 3", 3, 0},
        {"h1 drop tx rx opcode RC_WRITE_MIDDLE count 1", 1, 0},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct trial t;
        struct lab_result r = run_rule(&t, row[i].rule);

        assert_int_equal(hits(&t, 0).acted, row[i].acted);
        assert_int_equal(hits(&t, 0).missed, 0);
        assert_true(hits(&t, 0).matched > row[i].acted);
        assert_int_equal(dropped(&t, DROP_fault_rule), row[i].received);
        assert_true(r.counter[LAB_COUNTER_retransmits] >= row[i].acted);
        end(&t);
    }
}

static void damage_is_found_unless_sealed(void **state)
{
    struct lab_result r;
    struct trial t;

    r = run_rule(&t, "h2 corrupt rx opcode RC_WRITE_* nth 60 count 4");
    assert_int_equal(hits(&t, 0).acted, 4);
    assert_int_equal(dropped(&t, DROP_bad_icrc), 4);
    assert_true(r.counter[LAB_COUNTER_retransmits] >= 4);
    end(&t);
    r = run_rule(&t, "h1 corrupt sealed tx opcode RC_WRITE_* nth 60 count 4");
    assert_int_equal(hits(&t, 0).acted, 4);
    assert_int_equal(dropped(&t, DROP_bad_icrc), 0);
    assert_int_equal(r.counter[LAB_COUNTER_retransmits], 0);
    end(&t);
    r = run_rule(&t, "h1 corrupt rx opcode RC_ACK");
    assert_int_equal(hits(&t, 0).acted, 0);
    assert_true(hits(&t, 0).matched > 0);
    assert_int_equal(hits(&t, 0).missed, hits(&t, 0).matched);
    end(&t);
    /* What a rule misses is for the next one. */
    run_rule(&t, "h1 corrupt rx opcode RC_ACK\nfault h1 drop rx opcode RC_ACK count 1");
    assert_int_equal(hits(&t, 0).acted, 0);
    assert_int_equal(hits(&t, 1).acted, 1);
    assert_int_equal(hits(&t, 1).matched, hits(&t, 0).matched);
    end(&t);
}

static void marks_cause_cnps(void **state)
{
    struct trial t;
    struct lab_result r = run_rule(&t, "h1 mark tx opcode RC_WRITE_MIDDLE count 3");

    assert_int_equal(hits(&t, 0).acted, 3);
    assert_int_equal(r.counter[LAB_COUNTER_np_ecn_marked_roce_packets], 3);
    assert_int_equal(r.counter[LAB_COUNTER_np_cnp_sent], 1);
    end(&t);
}

static void acks_become_naks(void **state)
{
    struct lab_result r;
    struct trial t;

    r = run_rule(&t, "h1 nak rnr rx count 1");
    assert_int_equal(r.counter[LAB_COUNTER_rnr_nak_rcvd], 1);
    assert_true(r.end > 1280 * NS_PER_US);
    end(&t);
    run(&t, NET "fault h1 nak remote_access rx count 1\nflow h1 h2\nflow h3 h2\n", 1, true);
    r = result(&t, 0);
    assert_int_equal(r.outcome, LAB_FAILED);
    assert_int_equal(r.status, WC_REM_ACCESS_ERR);
    assert_int_equal(result(&t, 1).outcome, LAB_DONE);
    assert_int_equal(hits(&t, 0).acted, 1);
    end(&t);
}

/* A message in one packet takes longer by exactly as much, wherever the rule is. */
static void delays_are_exact(void **state)
{
    static const char *const rule[] = {
        "h1 delay 7us tx opcode RC_WRITE_ONLY",
        "h2 delay 7us rx opcode RC_WRITE_ONLY",
        "delay 7us tx opcode RC_ACK device h2",
        "h1 delay 7us rx opcode RC_ACK",
    };

    for (unsigned i = 0; i <= ARRAY_SIZE(rule); i++) {
        static ns_t undisturbed;
        char text[300];
        struct trial t;

        snprintf(text, sizeof(text), NET "%s%s\nflow h1 h2 size=4K\n", i ? "fault " : "",
                 i ? rule[i - 1] : "");
        run(&t, text, 1, i % 2);
        all_done(&t);
        if (!i)
            undisturbed = lab_ended(t.lab);
        else
            assert_int_equal(lab_ended(t.lab), undisturbed + 7 * NS_PER_US);
        end(&t);
    }
}

static void frames_come_twice_and_in_another_order(void **state)
{
    struct lab_result r;
    struct trial t;

    r = run_rule(&t, "h2 duplicate rx opcode RC_WRITE_MIDDLE count 9");
    assert_int_equal(hits(&t, 0).acted, 9);
    assert_int_equal(r.counter[LAB_COUNTER_duplicate_request], 9);
    end(&t);
    r = run_rule(&t, "h1 duplicate tx opcode RC_WRITE_MIDDLE count 9");
    assert_int_equal(r.counter[LAB_COUNTER_duplicate_request], 9);
    end(&t);
    r = run_rule(&t, "h2 reorder 3 rx opcode RC_WRITE_MIDDLE nth 40 count 2");
    assert_int_equal(hits(&t, 0).acted, 2);
    assert_int_equal(r.counter[LAB_COUNTER_out_of_sequence], 6);
    end(&t);
    /* None overtakes the last one: it comes after 10 ms, and was sent again before. */
    r = run_rule(&t, "h2 reorder 32 rx opcode RC_WRITE_LAST count 1");
    assert_int_equal(hits(&t, 0).acted, 1);
    assert_true(r.counter[LAB_COUNTER_timeouts] > 0);
    end(&t);
}

/* Times count from the beginning. What waits is on its way, and lost. */
static void a_link_is_down_for_its_time(void **state)
{
    struct lab_result r;
    struct trial t;

    run(&t, NET "fault h2 link_down after 20us for 3ms\nflow h1 h2 size=1M\n", 1, true);
    all_done(&t);
    r = result(&t, 0);
    assert_true(r.end > 3020 * NS_PER_US);
    assert_true(hits(&t, 0).acted > 0);
    assert_int_equal(hits(&t, 0).acted, hits(&t, 0).matched);
    assert_true(dropped(&t, DROP_fault_rule) > 0);
    assert_true(r.counter[LAB_COUNTER_timeouts] > 0);
    end(&t);
    run(&t,
        NET "fault h2 delay 15us rx opcode RC_WRITE_LAST count 1\n"
            "fault link_down after 95us for 1us device h2\nflow h1 h2 size=1M\n",
        1, true);
    all_done(&t);
    assert_int_equal(hits(&t, 0).acted, 1);
    assert_true(result(&t, 0).counter[LAB_COUNTER_timeouts] > 0);
    end(&t);
}

/* The first rule that acts decides; a rule's counts are of all of its hosts. */
static void rules_have_an_order_and_hosts(void **state)
{
    struct trial t;

    run(&t,
        NET "fault drop rx opcode RC_WRITE_MIDDLE count 5\nfault h[2-3] mark rx opcode RC_WRITE_*\n"
            "fault h3 mark rx\nfault h1 mark tx peer 10.0.0.3\n"
            "flow h1 h2\nflow h1 h3\nflow h2 h1\n",
        1, true);
    all_done(&t);
    assert_int_equal(hits(&t, 0).acted, 5);
    assert_int_equal(dropped(&t, DROP_fault_rule), 5);
    assert_true(hits(&t, 0).matched > hits(&t, 1).acted);
    assert_true(hits(&t, 1).acted > 512);
    assert_int_equal(hits(&t, 2).matched, 0);
    assert_in_range(hits(&t, 3).acted, 256, 259); /* one flow's */
    end(&t);
}

/* More frames than there is room for: the others pass. All are gone with the laboratory. */
static void frames_that_wait_have_a_bound(void **state)
{
    struct trial t;

    run(&t,
        "until 1ms\nstar hosts=17\nfault h17 delay 9s rx opcode RC_WRITE_*\n"
        "incast h[1-16] to=h17 size=endless\n",
        1, false);
    assert_int_equal(hits(&t, 0).acted, 1024);
    assert_true(hits(&t, 0).missed > 0);
    assert_int_equal(hits(&t, 0).matched, 1024 + hits(&t, 0).missed);
    end(&t);
}

static const char several[] = "until 3ms\nhosts control=dcqcn timeout=8\n"
                              "clos leaves=2 spines=2 hosts=3\n"
                              "fault drop rx chance 0.004 seed %u\n"
                              "fault h[1-3] corrupt tx opcode RC_READ_*,RC_WRITE_* chance 0.002\n"
                              "fault delay 20us chance 0.01\n"
                              "fault reorder 4 tx nth 99\n"
                              "fault duplicate rx nth 101\n"
                              "fault h6 link_down after 30us for 20us\n"
                              "alltoall size=400K\nincast to=h1 size=200K verb=read\n";

/* With and without a look at the frames, whose ICRC is only made for it, or for damage. */
static void the_same_rules_give_the_same_frames(void **state)
{
    struct trial a, b, c, blind;
    char text[sizeof(several) + 10], other[sizeof(several) + 10];

    snprintf(text, sizeof(text), several, 3);
    snprintf(other, sizeof(other), several, 4);
    run(&a, text, 5, true);
    run(&b, text, 5, true);
    run(&c, other, 5, true);
    run(&blind, text, 5, false);
    assert_true(a.frames > 2000);
    assert_int_equal(a.frames, b.frames);
    assert_true(a.hash == b.hash);
    assert_true(a.hash != c.hash);
    assert_int_equal(fabric_events(lab_fabric(a.lab)), fabric_events(lab_fabric(blind.lab)));
    for (unsigned i = 0; i < a.spec.rules; i++) {
        assert_true(hits(&a, i).acted > 0);
        assert_int_equal(hits(&a, i).matched, hits(&b, i).matched);
        assert_int_equal(hits(&a, i).matched, hits(&blind, i).matched);
        assert_int_equal(hits(&a, i).acted, hits(&blind, i).acted);
    }
    assert_true(dropped(&a, DROP_bad_icrc) > 0);
    for (unsigned i = 0; i < DROP_COUNT; i++)
        assert_int_equal(dropped(&a, (enum drop)i), dropped(&blind, (enum drop)i));
    end(&a);
    end(&b);
    end(&c);
    end(&blind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_without_frames_changes_nothing),
        cmocka_unit_test(what_is_lost_is_sent_again),
        cmocka_unit_test(damage_is_found_unless_sealed),
        cmocka_unit_test(marks_cause_cnps),
        cmocka_unit_test(acks_become_naks),
        cmocka_unit_test(delays_are_exact),
        cmocka_unit_test(frames_come_twice_and_in_another_order),
        cmocka_unit_test(a_link_is_down_for_its_time),
        cmocka_unit_test(rules_have_an_order_and_hosts),
        cmocka_unit_test(frames_that_wait_have_a_bound),
        cmocka_unit_test(the_same_rules_give_the_same_frames),
    };

    return cmocka_run_group_tests_name("lab_rules", tests, NULL, NULL);
}
