/* SPDX-License-Identifier: BSD-3-Clause */
/* The language of laboratories: what each line makes, and what is refused, with its line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spec.h"
#include "unit.h"

static struct lab_error error;

static int try_text(struct lab_spec *s, const char *text)
{
    return lab_spec_read(s, text, strlen(text), NULL, 0, &error);
}

static struct lab_spec accept(const char *text)
{
    struct lab_spec s;
    int err = try_text(&s, text);

    if (err)
        print_message("# line %u: %s\n", error.line, error.text);
    assert_int_equal(err, 0);
    return s;
}

static unsigned node(const struct lab_spec *s, const char *name)
{
    int found = lab_find_node(s, name);

    assert_true(found >= 0);
    return (unsigned)found;
}

static void settings(void **state)
{
    struct lab_spec s = accept("seed 7 # a comment\n\n"
                               "until 1.5ms\nsample 2us\nconverge 0\n"
                               "hosts control=dcqcn ecn=no cnp=20us entropy=fixed:50000 repath=2 "
                               "mtu=1024 timeout=10 retry=3 window=64 reorder=4\n"
                               "switches buffer=2M mark=red:5K:200K:0.01 pfc=3,4 xoff=100K xon=8K "
                               "headroom=64K ecmp=spray alpha=0.5 trim=yes\n"
                               "links rate=25g delay=500ns loss=0.01\n"
                               "star hosts=3\n"
                               "hosts h2 control=none cnp=no trim=40\n"
                               "hosts h3 trim=no control=swift,fabric_delay=7,min_rate=50\n"
                               "flow h1 h2 size=3K message=1K depth=8 start=10us verb=read dscp=8 "
                               "entropy=spray name=x\n");
    const struct lab_host *h = &s.node[node(&s, "h1")].host;
    const struct fabric_switch *w = &s.node[node(&s, "s1")].sw;

    assert_int_equal(s.seed, 7);
    assert_int_equal(s.until, 1500000);
    assert_int_equal(s.sample, 2000);
    assert_int_equal(s.converge, 0);
    assert_ptr_equal(h->control, &cc_dcqcn);
    assert_false(h->ecn);
    assert_int_equal(h->cnp, 20000);
    assert_int_equal(h->entropy.rule, ENTROPY_FIXED);
    assert_int_equal(h->entropy.port, 50000);
    assert_int_equal(h->repath, 2);
    assert_int_equal(h->mtu, 1024);
    assert_int_equal(h->timeout, 10);
    assert_int_equal(h->retry, 3);
    assert_int_equal(h->window, 64);
    assert_int_equal(h->reorder, 4);
    assert_int_equal(w->buffer, 2 << 20);
    assert_int_equal(w->mark, FABRIC_MARK_RED);
    assert_int_equal(w->mark_min, 5 << 10);
    assert_int_equal(w->mark_max, 200 << 10);
    assert_int_equal(w->mark_chance, 10000);
    assert_int_equal(w->lossless, 0x18);
    assert_int_equal(w->xoff, 100 << 10);
    assert_int_equal(w->headroom, 64 << 10);
    assert_int_equal(w->spread, FABRIC_SPRAY);
    assert_int_equal(w->alpha, 512);
    assert_int_equal(w->trim, LAB_TRIM);
    assert_int_equal(h->trim, LAB_TRIM_AUTO);
    assert_int_equal(s.node[node(&s, "h2")].host.trim, 40);
    assert_int_equal(s.node[node(&s, "h3")].host.trim, 0);
    assert_int_equal(s.link[0].config.bps, UINT64_C(25000000000));
    assert_int_equal(s.link[0].config.delay, 500);
    assert_in_range(s.link[0].config.loss, 42949600, 42949700);
    assert_null(s.node[node(&s, "h2")].host.control);
    assert_int_equal(s.node[node(&s, "h2")].host.cnp, 0);
    h = &s.node[node(&s, "h3")].host;
    assert_ptr_equal(h->control, &cc_swift);
    assert_int_equal(h->params[1], 7 * NS_PER_US);
    assert_int_equal(h->params[2], 10 * NS_PER_US);
    assert_int_equal(h->params[10], UINT64_C(50000000));
    assert_int_equal(s.node[node(&s, "h2")].host.mtu, 1024);
    assert_int_equal(s.flows, 1);
    assert_string_equal(s.flow[0].name, "x");
    assert_int_equal(s.flow[0].size, 3072);
    assert_int_equal(s.flow[0].message, 1024);
    assert_int_equal(s.flow[0].depth, 8);
    assert_int_equal(s.flow[0].start, 10000);
    assert_int_equal(s.flow[0].verb, LAB_READ);
    assert_int_equal(s.flow[0].dscp, 8);
    assert_true(s.flow[0].has_entropy && s.flow[0].entropy.rule == ENTROPY_SPRAY);
    lab_spec_free(&s);
}

static void topologies(void **state)
{
    struct lab_spec s = accept("dumbbell left=2 right=3 neck=10g\nflow l1 r3\n");

    assert_int_equal(s.hosts, 5);
    assert_int_equal(s.links, 6);
    assert_int_equal(s.link[0].config.bps, UINT64_C(10000000000));
    lab_spec_free(&s);
    s = accept("clos leaves=3 spines=2 hosts=4 up=200g\nflow h1 h12\n");
    assert_int_equal(s.hosts, 12);
    assert_int_equal(s.switches, 5);
    assert_int_equal(s.links, 12 + 6);
    assert_true(lab_find_port(&s, node(&s, "leaf3"), node(&s, "spine2")) >= 0);
    assert_true(lab_find_port(&s, node(&s, "h5"), node(&s, "leaf2")) >= 0);
    assert_int_equal(lab_find_port(&s, node(&s, "h5"), node(&s, "leaf1")) >= 0, false);
    lab_spec_free(&s);
    s = accept("fattree k=4\nflow h1 h16\n");
    assert_int_equal(s.hosts, 16);
    assert_int_equal(s.switches, 20);
    assert_int_equal(s.links, 48);
    lab_spec_free(&s);
    s = accept("host a b\nswitch s\nlink a s rate=1g\nlink s b delay=2ms loss=1\nflow a b\n");
    assert_int_equal(s.links, 2);
    assert_int_equal(lab_find_port(&s, node(&s, "b"), node(&s, "s")), 3);
    assert_int_equal(s.link[1].config.loss, UINT32_MAX);
    lab_spec_free(&s);
}

static void traffic(void **state)
{
    struct lab_spec s = accept("star hosts=8\nincast h[2-5] to=h1 size=1M flows=2 stagger=1us\n");

    assert_int_equal(s.flows, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(s.flow[i].to, node(&s, "h1"));
        assert_int_equal(s.flow[i].start, i * 1000);
    }
    assert_string_equal(s.flow[7].name, "incast.8");
    lab_spec_free(&s);
    s = accept("star hosts=8\nalltoall h1,h3,h5 size=endless\n");
    assert_int_equal(s.flows, 6);
    assert_true(s.flow[0].size == LAB_ENDLESS);
    lab_spec_free(&s);
    s = accept("star hosts=8\npermutation shift=3\n");
    assert_int_equal(s.flows, 8);
    assert_int_equal(s.flow[6].to, node(&s, "h2"));
    lab_spec_free(&s);
}

static void permutations_are_random(void **state)
{
    const char *text = "star hosts=50\npermutation\n";
    uint64_t seeds[] = {1, 1, 2};
    struct lab_spec s[3];
    unsigned same = 0;

    for (unsigned i = 0; i < 3; i++) {
        unsigned received[64] = {0};

        assert_int_equal(lab_spec_read(&s[i], text, strlen(text), &seeds[i], 0, &error), 0);
        assert_int_equal(s[i].flows, 50);
        for (unsigned j = 0; j < 50; j++) {
            assert_int_not_equal(s[i].flow[j].from, s[i].flow[j].to);
            assert_int_equal(received[s[i].flow[j].to]++, 0);
        }
    }
    for (unsigned j = 0; j < 50; j++) {
        assert_int_equal(s[0].flow[j].to, s[1].flow[j].to);
        same += s[0].flow[j].to == s[2].flow[j].to;
    }
    assert_true(same < 10);
    for (unsigned i = 0; i < 3; i++)
        lab_spec_free(&s[i]);
}

/* Few hosts, so that chance alone would soon let one send to itself. */
static void permutations_have_no_fixed_point(void **state)
{
    const char *text = "star hosts=5\npermutation\n";

    for (uint64_t seed = 0; seed < 40; seed++) {
        struct lab_spec s;

        assert_int_equal(lab_spec_read(&s, text, strlen(text), &seed, 0, &error), 0);
        for (unsigned i = 0; i < s.flows; i++)
            assert_int_not_equal(s.flow[i].from, s.flow[i].to);
        lab_spec_free(&s);
    }
}

/* 0.3 of 10 hosts at 100 Gb/s for 10 ms are 375 MB. */
static void arrivals_are_poisson(void **state)
{
    struct lab_spec s = accept("until 10ms\nstar hosts=10\npoisson load=0.3 sizes=10K:3,100K:1\n");
    uint64_t bytes = 0, small = 0;

    for (unsigned i = 0; i < s.flows; i++) {
        assert_true(s.flow[i].start < s.until);
        assert_int_not_equal(s.flow[i].from, s.flow[i].to);
        small += s.flow[i].size == 10 << 10;
        bytes += s.flow[i].size;
    }
    assert_in_range(bytes, 360000000, 390000000);
    assert_in_range(small * 100 / s.flows, 73, 77);
    lab_spec_free(&s);
}

static void faults(void **state)
{
    struct lab_spec s = accept("star hosts=2\nflow h1 h2\n"
                               "fail h1 s1 at=1ms until=2ms\nfail h2 s1 silent=yes\n"
                               "mark s1 h2 at=3us frames=4\nlose h1 s1\n");

    assert_int_equal(s.changes, 5);
    assert_int_equal(s.change[0].kind, LAB_DOWN);
    assert_int_equal(s.change[0].at, NS_PER_MS);
    assert_int_equal(s.change[1].kind, LAB_UP);
    assert_int_equal(s.change[2].kind, LAB_BLACK);
    assert_int_equal(s.change[3].kind, LAB_MARK);
    assert_int_equal(s.change[3].frames, 4);
    assert_int_equal(s.change[3].port, lab_find_port(&s, node(&s, "s1"), node(&s, "h2")));
    assert_int_equal(s.change[4].frames, 1);
    lab_spec_free(&s);
}

static void rules(void **state)
{
    struct lab_spec s = accept("fault drop rx chance 0.5 # of later hosts, too\n"
                               "star hosts=3\nhost drop\nflow h1 h2\n"
                               "fault h[1-2]\t delay  5us tx \r\n"
                               "fault mark device h3 after 1ms\nfault drop drop\n"
                               "fault h3 link_down for 1ms\n");
    char why[INJECT_ERROR_MAX];

    assert_int_equal(s.rules, 5);
    assert_int_equal(s.rule[0].rule.act, INJECT_DROP);
    assert_string_equal(s.rule[0].hosts, "*");
    assert_string_equal(s.rule[0].text, "drop rx chance 0.5");
    assert_string_equal(s.rule[1].hosts, "h[1-2]");
    assert_string_equal(s.rule[1].text, "delay 5us tx");
    assert_int_equal(s.rule[1].rule.delay, 5000);
    assert_string_equal(s.rule[2].hosts, "h3");
    assert_string_equal(s.rule[2].text, "mark device h3 after 1ms");
    assert_string_equal(s.rule[3].hosts, "drop");
    assert_string_equal(s.rule[3].text, "drop");
    assert_int_equal(s.rule[4].rule.act, INJECT_LINK_DOWN);
    assert_int_equal(lab_read_rule(&s, " h1\tnak rnr ", why), 0);
    assert_string_equal(s.rule[5].hosts, "h1");
    assert_int_equal(lab_read_rule(&s, "h4 drop", why), -EINVAL);
    assert_non_null(strstr(why, "h4"));
    while (s.rules < LAB_RULES_MAX)
        assert_int_equal(lab_read_rule(&s, "drop", why), 0);
    assert_int_equal(lab_read_rule(&s, "drop", why), -ENOSPC);
    assert_non_null(strstr(why, "too many"));
    lab_spec_free(&s);
}

static void patterns(void **state)
{
    assert_true(lab_name_matches("h12", "h[1-64]"));
    assert_false(lab_name_matches("h65", "h[1-64]"));
    assert_false(lab_name_matches("h012", "h[1-64]"));
    assert_false(lab_name_matches("h", "h[1-64]"));
    assert_false(lab_name_matches("h12x", "h[1-64]"));
    assert_true(lab_name_matches("h12x", "h[1-64]x"));
    assert_true(lab_name_matches("b", "a,b"));
    assert_false(lab_name_matches("ab", "a,b"));
    assert_true(lab_name_matches("anything", "*"));
    assert_true(lab_name_matches("leaf7", "spine*,leaf*"));
    assert_false(lab_name_matches("h1", "h[1"));
    assert_false(lab_name_matches("h1", "h[1-"));
    assert_false(lab_name_matches("h1", ""));
}

/* As editors write one at the start of a file. */
static void byte_order_mark(void **state)
{
    struct lab_spec s = accept("\xEF\xBB\xBFstar hosts=2\nflow h1 h2\n");

    assert_int_equal(s.flows, 1);
    lab_spec_free(&s);
    assert_int_equal(lab_spec_read(&s, "\xEF\xBB", 2, NULL, 0, &error), -EINVAL);
    lab_spec_free(&s);
    assert_int_equal(try_text(&s, "star hosts=2\n\xEF\xBB\xBF"
                                  "flow h1 h2\n"),
                     -EINVAL);
    assert_int_equal(error.line, 2);
    lab_spec_free(&s);
}

/* Each text is refused at that line, and the reason has that word. */
static void errors_have_a_line(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *word;
    } bad[] = {
        {"", 0, "hosts"},
        {"star hosts=2\n", 0, "flows"},
        {"star hosts=2\nflow h1 h2\nuntil 1h\n", 3, "until"},
        {"\n\nstir hosts=2\n", 3, "stir"},
        {"star\n", 1, "hosts="},
        {"star hosts=0\n", 1, "hosts="},
        {"star hosts=x\n", 1, "number"},
        {"star hosts=600\n", 1, "512"},
        {"star hosts=2 color=red\n", 1, "leaves"},
        {"clos leaves=2\n", 1, "spines="},
        {"fattree k=3\n", 1, "even"},
        {"dumbbell left=2\n", 1, "right="},
        {"host a a\n", 1, "taken"},
        {"host a=b\n", 1, "a node's name"},
        {"host aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 1, "a node's name"},
        {"host\n", 1, "name"},
        {"host a b\nlink a c\n", 2, "\"c\""},
        {"host a b\nlink a\n", 2, "missing"},
        {"host a b\nlink a b\nlink a b\n", 3, "one link"},
        {"host a\nlink a a\n", 2, "not possible"},
        {"host a b\nlink a b rate=fast\n", 2, "bits"},
        {"host a b\nlink a b rate=0\n", 2, "bits"},
        {"host a b\nlink a b delay=1\n", 2, "time"},
        {"host a b\nlink a b delay=-1us\n", 2, "time"},
        {"host a b\nlink a b loss=1.5\n", 2, "part"},
        {"star hosts=2\nflow h1 h1\n", 2, "another"},
        {"star hosts=2\nflow h1 s1\n", 2, "host"},
        {"star hosts=2\nflow h1 h2 size=0\n", 2, "bytes"},
        {"star hosts=2\nflow h1 h2 size=1T\n", 2, "bytes"},
        {"star hosts=2\nflow h1 h2 size=99999999999999999999\n", 2, "bytes"},
        {"star hosts=2\nflow h1 h2 message=65M\n", 2, "64M"},
        {"star hosts=2\nflow h1 h2 depth=0\n", 2, "depth"},
        {"star hosts=2\nflow h1 h2 verb=push\n", 2, "write"},
        {"star hosts=2\nflow h1 h2 dscp=64\n", 2, "63"},
        {"star hosts=2\nflow h1 h2 entropy=none\n", 2, "spray"},
        {"star hosts=2\nflow h1 h2 flows=65537\n", 2, "flows"},
        {"star hosts=2\nflow h1 h2 flows=65536\nflow h2 h1\n", 3, "many"},
        {"star hosts=2\nflow h1 h2 flows=9000 stagger=1s\n", 2, "late"},
        {"star hosts=2\nincast\n", 2, "to="},
        {"star hosts=2\nincast h1 to=h1\n", 2, "no host sends"},
        {"star hosts=2\nincast x[1-3] to=h1\n", 2, "no such hosts"},
        {"star hosts=1\npermutation\n", 2, "another"},
        {"star hosts=4\npermutation shift=4\n", 2, "another"},
        {"star hosts=4\npoisson load=0.5\n", 2, "sizes="},
        {"star hosts=4\npoisson load=2 sizes=1K\n", 2, "part"},
        {"star hosts=4\npoisson load=0.5 sizes=1K:0\n", 2, "SIZE"},
        {"star hosts=4\npoisson load=1 sizes=1\n", 2, "many"},
        {"star hosts=2\nhosts h9 mtu=256\n", 2, "h9"},
        {"hosts mtu=1000\nstar hosts=2\nflow h1 h2\n", 1, "mtu"},
        {"star hosts=2\nhosts mtu=1000\n", 2, "1024"},
        {"star hosts=2\nhosts control=magic\n", 2, "lib/cc"},
        {"switches mark=sometimes\nstar hosts=2\nflow h1 h2\n", 1, "mark"},
        {"star hosts=2\nswitches mark=red:2K:1K:0.1\n", 2, "red"},
        {"star hosts=2\nswitches pfc=8\n", 2, "0 to 7"},
        {"star hosts=2\nswitches trim=0\n", 2, "1 to 63"},
        {"star hosts=2\nswitches trim=64\n", 2, "1 to 63"},
        {"star hosts=2\nhosts trim=maybe\n", 2, "1 to 63"},
        {"star hosts=2\nfail h1 h2 at=1ms\n", 2, "no link"},
        {"star hosts=2\nfail h1 s1 at=2ms until=1ms\n", 2, "after"},
        {"star hosts=2\nflow h1 h2\nsample 10ns\n", 3, "sample"},
        {"star hosts=2\nflow h1 h2\nuntil 1s\nsample 1us\n", 0, "samples"},
        {"star hosts=2\nfault\n", 2, "no rule"},
        {"star hosts=2\nfault h1\n", 2, "no rule"},
        {"star hosts=2\nfault dorp rx\n", 2, "dorp"},
        {"star hosts=2\nfault drop chance 2\n", 2, "probability"},
        {"star hosts=2\nfault h1 drop chance 2\n", 2, "probability"},
        {"star hosts=2\nfault h3 drop\n", 2, "h3"},
        {"star hosts=2\nfault s1 drop\n", 2, "s1"},
        {"fault h1 drop\nstar hosts=2\n", 1, "h1"},
        {"star hosts=2\nfault drop device h3\n", 2, "h3"},
        {"star hosts=2\nfault h1 drop device h1\n", 2, "device"},
        {"star hosts=2\nfault drop rx program p\n", 2, "\"drop\" names a program"},
        {"star hosts=2\nfault complete retry_exc_err\n", 2, "about work requests"},
        {"star hosts=2\nfault daemon_death\n", 2, "at once"},
        {"star hosts=2\nfault fail reg_mr ENOMEM\n", 2, "\"fail\" is about the calls"},
        {"star hosts=2\nfault h1 fail reg_mr ENOMEM\n", 2, "\"fail\" is about the calls"},
        {"star hosts=2\nfault qp_error qp 3\n", 2, "at once"},
        {"star hosts=2\nfault event port_err\n", 2, "at once"},
        {"host a b\n\nflow a b\n", 3, "flow: no links lead from a to b"},
        {"host a b\nswitch s t\nlink a s\nlink b t\nflow b a name=x\n", 5,
         "x: no links lead from b to a"},
        {"star hosts=2\nhost a\nincast to=h1\n", 3, "incast.2: no links lead from a to h1"},
        {"host a b\npoisson load=0.5 sizes=1K\nlink a b\n", 2, "a has no link before"},
        {"seed x\n", 1, "number"},
        {"star hosts=4\npermutation\nseed 4\n", 3, "before"},
        {"host h\xFF h2\n", 1, "a node's name"},
        {"host a,b\n", 1, "a node's name"},
        {"switch a&b\n", 1, "a node's name"},
        {"host a>b\n", 1, "a node's name"},
        {"host abcdefghijklmnopqrstuvwx\n", 1, "a node's name"},
        {"star hosts=2\nflow h1 h2 name=a,b\n", 2, "a name"},
        {"star hosts=2\nflow h1 h2 name=a\"b\n", 2, "a name"},
        {"star hosts=2\nflow h1 h2 name=a&b\n", 2, "a name"},
        {"star hosts=2\nflow h1 h2 name=a<b\n", 2, "a name"},
        {"star hosts=2\nflow h1 h2 name=\x1B[m\n", 2, "a name"},
        {"star hosts=2\nflow h1 h2 name=\xC3\xA9\n", 2, "a name"},
        {"star hosts=4\npoisson load=0.5 sizes=1M\nuntil 20ms\n", 3, "until comes before"},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        struct lab_spec s;
        int err = try_text(&s, bad[i].text);

        if (err != -EINVAL || !strstr(error.text, bad[i].word) || error.line != bad[i].line)
            print_message("# %s: %d, line %u: %s\n", bad[i].text, err, error.line, error.text);
        assert_int_equal(err, -EINVAL);
        assert_non_null(strstr(error.text, bad[i].word));
        assert_int_equal(error.line, bad[i].line);
        lab_spec_free(&s);
    }
}

static void odd_bytes_are_refused(void **state)
{
    static char text[LAB_LINE_MAX + 10];
    struct lab_spec s;

    memset(text, 'x', sizeof(text));
    assert_int_equal(lab_spec_read(&s, text, sizeof(text), NULL, 0, &error), -EINVAL);
    assert_int_equal(error.line, 1);
    lab_spec_free(&s);
    assert_int_equal(lab_spec_read(&s, "star\0hosts", 10, NULL, 0, &error), -EINVAL);
    lab_spec_free(&s);
    for (unsigned i = 0; i < LAB_LINE_MAX - 1; i++)
        text[i] = i % 2 ? ' ' : 'a';
    text[LAB_LINE_MAX - 1] = '\n';
    assert_int_equal(lab_spec_read(&s, text, LAB_LINE_MAX, NULL, 0, &error), -EINVAL);
    assert_non_null(strstr(error.text, "words"));
    lab_spec_free(&s);
}

/* The caller's seed counts, not the text's. */
static void a_seed_can_be_given(void **state)
{
    const char *text = "seed 3\nstar hosts=2\nflow h1 h2\n";
    uint64_t seed = 9;
    struct lab_spec s;

    assert_int_equal(lab_spec_read(&s, text, strlen(text), &seed, 0, &error), 0);
    assert_int_equal(s.seed, 9);
    lab_spec_free(&s);
}

/* The caller's end counts, not the text's, also for what follows from it. */
static void an_end_can_be_given(void **state)
{
    const char *text = "until 1ms\nstar hosts=2\npoisson load=0.5 sizes=100K\n";
    struct lab_spec s;

    assert_int_equal(lab_spec_read(&s, text, strlen(text), NULL, 50 * NS_PER_MS, &error), 0);
    assert_int_equal(s.until, 50 * NS_PER_MS);
    assert_int_equal(s.sample, 100 * NS_PER_US);
    assert_true(s.flow[s.flows - 1].start > 40 * NS_PER_MS);
    lab_spec_free(&s);
    text = "until 1ms\nsample 10us\nstar hosts=2\nflow h1 h2\n";
    assert_int_equal(lab_spec_read(&s, text, strlen(text), NULL, 100 * NS_PER_SEC, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "samples"));
    lab_spec_free(&s);
}

/* It matters to nothing that ends by itself. */
static void an_end_may_come_late(void **state)
{
    struct lab_spec s = accept("star hosts=2\nflow h1 h2\n"
                               "poisson load=0.5 sizes=1M stop=2ms\nuntil 20ms\n");

    assert_int_equal(s.until, 20 * NS_PER_MS);
    lab_spec_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings),
        cmocka_unit_test(topologies),
        cmocka_unit_test(traffic),
        cmocka_unit_test(permutations_are_random),
        cmocka_unit_test(permutations_have_no_fixed_point),
        cmocka_unit_test(arrivals_are_poisson),
        cmocka_unit_test(faults),
        cmocka_unit_test(rules),
        cmocka_unit_test(patterns),
        cmocka_unit_test(byte_order_mark),
        cmocka_unit_test(errors_have_a_line),
        cmocka_unit_test(odd_bytes_are_refused),
        cmocka_unit_test(a_seed_can_be_given),
        cmocka_unit_test(an_end_can_be_given),
        cmocka_unit_test(an_end_may_come_late),
    };

    return cmocka_run_group_tests_name("lab_spec", tests, NULL, NULL);
}
