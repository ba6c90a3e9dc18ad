/* SPDX-License-Identifier: BSD-3-Clause */
/* Laboratories run: every frame is accounted for, the same seed gives the same frames, and what
 * engines do with marks, losses and failures shows. */
#include "lab_kit.h"

/* A flow that is alone takes what its bytes take. */
static void a_flow_takes_its_time(void **state)
{
    static const char *const verbs[] = {"write", "send", "read"};

    for (unsigned i = 0; i < ARRAY_SIZE(verbs); i++) {
        char text[200];
        struct lab_result r;
        struct trial t;

        snprintf(text, sizeof(text),
                 "star hosts=2\nflow h1 h2 size=10M depth=16 message=256K verb=%s start=5us\n",
                 verbs[i]);
        run(&t, text, 1, false);
        all_done(&t);
        r = result(&t, 0);
        assert_int_equal(r.start, 5000);
        assert_true(r.ideal > 850000 && r.ideal < 870000);
        assert_true(r.end - r.start >= r.ideal - 1000);
        assert_true(r.end - r.start < r.ideal * 102 / 100);
        assert_int_equal(r.arrived, 10 << 20);
        assert_int_equal(r.counter[LAB_COUNTER_retransmits], 0);
        end(&t);
    }
}

static void small_messages_arrive(void **state)
{
    struct trial t;

    run(&t,
        "hosts mtu=256\nstar hosts=3\nflow h1 h2 size=1 message=1\n"
        "flow h2 h3 size=100001 message=1000 depth=3 verb=send\n"
        "flow h3 h1 size=5000 message=999 verb=read\n",
        1, true);
    all_done(&t);
    end(&t);
}

static void endless_flows_share(void **state)
{
    struct lab_result a, b;
    struct trial t;

    run(&t, "until 2ms\nstar hosts=3\nflow h1 h3 size=endless\nflow h2 h3 size=endless\n", 1,
        false);
    a = result(&t, 0);
    b = result(&t, 1);
    assert_int_equal(a.outcome, LAB_RUNNING);
    assert_int_equal(lab_ended(t.lab), 2 * NS_PER_MS);
    assert_in_range(a.bytes + b.bytes, 22000000, 25000000);
    assert_in_range(a.bytes * 100 / (a.bytes + b.bytes), 40, 60);
    assert_int_equal(t.samples, 500);
    end(&t);
}

/* A run ends with the last flow, also where that could have gone on. */
static void endless_flows_fail(void **state)
{
    struct trial t;

    run(&t,
        "until 1s\nhosts timeout=1 retry=1\nstar hosts=2\nflow h1 h2 size=endless\n"
        "fail h1 s1 at=10us silent=yes\n",
        1, false);
    assert_int_equal(result(&t, 0).outcome, LAB_FAILED);
    assert_int_equal(lab_ended(t.lab), result(&t, 0).end);
    assert_true(lab_ended(t.lab) < NS_PER_MS);
    end(&t);
}

static const char mixed[] = "until 3ms\n"
                            "hosts control=dcqcn timeout=8\n"
                            "switches buffer=300K ecmp=spray\n"
                            "links loss=0.0005\n"
                            "clos leaves=3 spines=2 hosts=4\n"
                            "poisson load=0.4 sizes=2K:5,40K:3,300K:1\n"
                            "incast h[2-12] to=h1 size=200K start=500us verb=read\n"
                            "fail leaf1 spine1 at=1ms until=1.5ms\n";

/* With and without a look at the frames, whose ICRC is only made for it. */
static void the_same_seed_gives_the_same_frames(void **state)
{
    struct trial a, b, c, blind;

    run(&a, mixed, 5, true);
    run(&b, mixed, 5, true);
    run(&c, mixed, 6, true);
    run(&blind, mixed, 5, false);
    assert_true(a.frames > 10000);
    assert_int_equal(a.frames, b.frames);
    assert_true(a.hash == b.hash);
    assert_true(a.hash != c.hash);
    assert_true(fabric_totals(lab_fabric(a.lab))->lost > 0);
    assert_true(fabric_totals(lab_fabric(a.lab))->dropped > 0);
    assert_int_equal(fabric_events(lab_fabric(a.lab)), fabric_events(lab_fabric(blind.lab)));
    for (unsigned i = 0; i < a.spec.flows; i++) {
        struct lab_result x = result(&a, i), y = result(&blind, i);

        assert_memory_equal(&x, &y, sizeof(x));
    }
    end(&a);
    end(&b);
    end(&c);
    end(&blind);
}

/* Marks are answered by CNPs, and these slow a controlled sender down. */
static void marks_slow_senders(void **state)
{
    struct lab_result r;
    uint64_t most[2], dropped[2];

    for (unsigned i = 0; i < 2; i++) {
        char text[300];
        struct trial t;

        snprintf(text, sizeof(text),
                 "until 10ms\nhosts control=%s\nstar hosts=5\n"
                 "incast h[1-4] to=h5 size=endless\n",
                 i ? "dcqcn" : "none");
        run(&t, text, 1, false);
        r = result(&t, 0);
        most[i] = fabric_counters(lab_fabric(t.lab), 9)->queue_most;
        dropped[i] = fabric_totals(lab_fabric(t.lab))->dropped;
        assert_true(r.counter[LAB_COUNTER_np_ecn_marked_roce_packets] > 0);
        assert_true(r.counter[LAB_COUNTER_np_cnp_sent] > 0);
        assert_int_equal(r.counter[LAB_COUNTER_rp_cnp_handled] > 0, i);
        end(&t);
    }
    assert_true(most[1] <= most[0]);
    assert_true(dropped[1] <= dropped[0]);
}

static void a_failed_host_ends_its_flow(void **state)
{
    struct lab_result r;
    struct trial t;

    run(&t,
        "until 10s\nhosts timeout=4 retry=1\nstar hosts=2\nflow h1 h2 size=100M\n"
        "fail h2 s1 at=1ms\n",
        1, false);
    r = result(&t, 0);
    assert_int_equal(r.outcome, LAB_FAILED);
    assert_int_equal(r.status, WC_RETRY_EXC_ERR);
    assert_true(r.end > NS_PER_MS && r.end < 10 * NS_PER_SEC);
    assert_int_equal(lab_ended(t.lab), r.end);
    end(&t);
}

/* A receiver that cannot take what all send, with PFC: nothing is dropped, everything arrives. */
static void pfc_drops_nothing(void **state)
{
    struct trial t;

    run(&t,
        "until 100ms\nswitches pfc=3 buffer=1M mark=none\nstar hosts=17\n"
        "incast h[2-17] to=h1 size=1M\n",
        1, false);
    all_done(&t);
    assert_int_equal(fabric_totals(lab_fabric(t.lab))->dropped, 0);
    assert_true(fabric_counters(lab_fabric(t.lab), 2)->pauses > 0);
    assert_in_range(lab_ended(t.lab), 1370000, 1410000); /* at the rate of the link */
    end(&t);
}

/* One frame is marked: one CNP. */
static void a_mark_is_one_cnp(void **state)
{
    struct lab_result r;
    struct trial t;

    run(&t,
        "until 2ms\nhosts control=dcqcn\nswitches mark=none\nstar hosts=2\n"
        "flow h1 h2 size=endless\nmark s1 h2 at=1ms\n",
        1, false);
    r = result(&t, 0);
    assert_int_equal(r.counter[LAB_COUNTER_np_ecn_marked_roce_packets], 1);
    assert_int_equal(r.counter[LAB_COUNTER_np_cnp_sent], 1);
    assert_int_equal(r.counter[LAB_COUNTER_rp_cnp_handled], 1);
    end(&t);
}

/* Source ports spread connections over spines; `fixed` does not. */
static void ports_choose_paths(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        char text[300];
        unsigned used = 0;
        struct trial t;

        snprintf(text, sizeof(text),
                 "until 10ms\nclos leaves=2 spines=8 hosts=1\n"
                 "flow h1 h2 flows=64 size=20K entropy=%s\n",
                 i ? "fixed:50000" : "spray");
        run(&t, text, 1, false);
        all_done(&t);
        for (unsigned s = 1; s <= 8; s++) {
            char name[LAB_NAME_MAX];
            int leaf = lab_find_node(&t.spec, "leaf1"), spine, port;

            snprintf(name, sizeof(name), "spine%u", s);
            spine = lab_find_node(&t.spec, name);
            port = lab_find_port(&t.spec, (unsigned)leaf, (unsigned)spine);
            used += fabric_counters(lab_fabric(t.lab), (unsigned)port)->frames > 0;
        }
        assert_int_equal(used, i ? 1 : 8);
        end(&t);
    }
}

/* Hosts that are much faster than the link between them: what is trimmed is sent again so that the
 * queue drains, with a congestion controller, too, and for READs, whose responses it does not
 * control. */
static void a_narrow_link_that_trims(void **state)
{
    static const char *const text[] = {
        "until 1s\n"
        "hosts control=swift mtu=512 timeout=10 retry=7\n"
        "switches buffer=235K mark=step:20K ecmp=adaptive trim=yes\n"
        "links rate=71g delay=2212ns\n"
        "clos leaves=2 spines=3 hosts=1 up=2g\n"
        "flow h1 h2 size=200K message=20K depth=3 verb=send\n"
        "flow h1 h2 size=200K message=9K depth=4 verb=write\n",
        "until 1s\n"
        "hosts control=rtt mtu=256 timeout=10 retry=7 reorder=4 window=198 entropy=spray\n"
        "switches buffer=481K mark=none ecmp=spray trim=yes\n"
        "links rate=64g delay=4150ns\n"
        "clos leaves=2 spines=2 hosts=1 up=2g\n"
        "flow h1 h2 size=200K message=40K depth=3 verb=read\n",
        "until 1s\n"
        "hosts control=swift mtu=256 timeout=10 retry=7 reorder=8 window=27 repath=2\n"
        "switches buffer=859K mark=step:20K ecmp=adaptive trim=yes\n"
        "links rate=89g delay=1604ns\n"
        "clos leaves=2 spines=2 hosts=1 up=1g\n"
        "flow h1 h2 size=150K message=24K depth=3 verb=read\n"};

    for (unsigned i = 0; i < ARRAY_SIZE(text); i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct trial t;

            run(&t, text[i], seed, false);
            all_done(&t);
            end(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flow_takes_its_time),
        cmocka_unit_test(small_messages_arrive),
        cmocka_unit_test(endless_flows_share),
        cmocka_unit_test(endless_flows_fail),
        cmocka_unit_test(the_same_seed_gives_the_same_frames),
        cmocka_unit_test(marks_slow_senders),
        cmocka_unit_test(a_failed_host_ends_its_flow),
        cmocka_unit_test(pfc_drops_nothing),
        cmocka_unit_test(a_mark_is_one_cnp),
        cmocka_unit_test(ports_choose_paths),
        cmocka_unit_test(a_narrow_link_that_trims),
    };

    return cmocka_run_group_tests_name("lab_run", tests, NULL, NULL);
}
