/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of a rule, and which packets it picks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "inject.h"
#include "inject_names.h"
#include "opcode.h"
#include "pkt.h"
#include "random.h"
#include "unit.h"

static struct inject_rule rule_of(const char *text)
{
    char error[INJECT_ERROR_MAX] = "";
    struct inject_rule rule;

    if (inject_parse(&rule, text, error))
        fail_msg("%s: %s", text, error);
    return rule;
}

static bool has_opcode(const struct inject_rule *r, uint8_t opcode)
{
    return r->opcode[opcode / 64] >> opcode % 64 & 1;
}

static void test_every_word(void **state)
{
    struct inject_rule r = rule_of("drop rx opcode RC_ACK,RC_READ_* qp 0x11 psn 16777214-1 nth 3 "
                                   "count 4 chance 0.25 seed 7 after 20us\tfor 3s device uroce1");

    assert_int_equal(r.act, INJECT_DROP);
    assert_int_equal(r.directions, INJECT_RX);
    assert_true(r.by_opcode && has_opcode(&r, OPCODE(PKT_RC, OP_ACK)));
    assert_true(has_opcode(&r, OPCODE(PKT_RC, OP_READ_RESP_ONLY)));
    assert_false(has_opcode(&r, OPCODE(PKT_RC, OP_ATOMIC_ACK)));
    assert_false(has_opcode(&r, OPCODE(PKT_XRC, OP_ACK)));
    assert_true(r.by_qp && r.qp == 0x11);
    assert_true(r.by_psn && r.psn == 16777214 && r.psn_count == 4);
    assert_true(r.nth == 3 && r.count == 4 && r.by_chance && r.chance == INJECT_BILLION / 4);
    assert_true(r.seed == 7 && r.after == 20000 && r.lasts == 3 * NS_PER_SEC);
    assert_string_equal(r.device, "uroce1");

    r = rule_of("corrupt header sealed tx");
    assert_true(r.act == INJECT_CORRUPT && r.header && r.sealed && r.directions == INJECT_TX);
    r = rule_of("corrupt payload rx tx");
    assert_true(!r.header && !r.sealed && r.directions == (INJECT_RX | INJECT_TX));
    r = rule_of("  delay 5ms ");
    assert_true(r.act == INJECT_DELAY && r.delay == 5 * NS_PER_MS && !r.directions);
    r = rule_of("reorder 3 opcode CNP");
    assert_true(r.act == INJECT_REORDER && r.behind == 3 && has_opcode(&r, OPCODE_CNP));
    assert_int_equal(rule_of("duplicate psn 7").psn_count, 1);
    assert_int_equal(rule_of("mark chance 1").chance, INJECT_BILLION);
    assert_int_equal(rule_of("mark chance 0.000000001").chance, 1);
    r = rule_of("nak remote_access rx sport 0xC000");
    assert_true(r.act == INJECT_NAK && r.syndrome == (AETH_NAK | NAK_REMOTE_ACCESS));
    assert_true(r.by_sport && r.sport == 0xC000);
    r = rule_of("fail reg_mr ENOMEM program ib_write_bw nth 3 device uroce0");
    assert_true(r.act == INJECT_FAIL && r.verb == INJECT_VERB_reg_mr && r.error == ENOMEM);
    assert_string_equal(r.program, "ib_write_bw");
    r = rule_of("complete retry_exc_err operation write,fetch_add qp 9 program a nth 2 device d");
    assert_true(r.act == INJECT_COMPLETE && r.status == 12 && r.operations == (1 | 1 << 6));
    assert_true(r.by_qp && r.qp == 9 && r.nth == 2 && !strcmp(r.program, "a"));
    r = rule_of("drop rx program rping peer 10.0.0.2");
    assert_true(r.by_peer && gid_is_ipv4(&r.peer) && r.peer.raw[15] == 2);
    assert_string_equal(r.program, "rping");
    assert_int_equal(rule_of("drop peer fe80::7").peer.raw[15], 7);
    r = rule_of("qp_error qp 0x12 device uroce1");
    assert_true(r.act == INJECT_QP_ERROR && r.by_qp && r.qp == 0x12);
    r = rule_of("link_down after 1ms for 2s device uroce0");
    assert_true(r.act == INJECT_LINK_DOWN && r.after == NS_PER_MS && r.lasts == 2 * NS_PER_SEC);
    assert_int_equal(rule_of("daemon_death").act, INJECT_DAEMON_DEATH);
    r = rule_of("event port_err");
    assert_true(r.act == INJECT_EVENT && r.event == 10);
}

/* All names of a list, in the place where they belong. */
static void test_names(void **state)
{
    static const struct {
        enum inject_name_kind kind;
        const char *text;
    } place[] = {{INJECT_ERRORS, "fail create_qp %s"},
                 {INJECT_NAKS, "nak %s"},
                 {INJECT_VERBS, "fail %s EIO"},
                 {INJECT_EVENTS, "event %s"},
                 {INJECT_STATUSES, "complete %s"},
                 {INJECT_OPERATIONS, "complete fatal_err operation %s"}};
    char text[INJECT_TEXT_MAX];
    unsigned names = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(place); i++)
        for (const struct inject_name *n = inject_names[place[i].kind]; n->name; n++, names++) {
            struct inject_rule r;

            snprintf(text, sizeof(text), place[i].text, n->name);
            r = rule_of(text);
            assert_true(i != 0 || r.error == n->value);
            assert_true(i != 1 || r.syndrome == n->value);
            assert_true(i != 2 || (int)r.verb == n->value);
            assert_true(i != 3 || (int)r.event == n->value);
            assert_true(i != 4 || r.status == n->value);
            assert_true(i != 5 || r.operations == UINT32_C(1) << n->value);
        }
    assert_int_equal(names, 14 + 5 + INJECT_VERB_COUNT + 8 + 14 + 12);
}

static void test_kinds(void **state)
{
    assert_int_equal(inject_kind_of(rule_of("drop").act), INJECT_OF_PACKETS);
    assert_int_equal(inject_kind_of(rule_of("nak rnr").act), INJECT_OF_PACKETS);
    assert_int_equal(inject_kind_of(rule_of("fail reg_mr EIO").act), INJECT_OF_CALLS);
    assert_int_equal(inject_kind_of(rule_of("link_down").act), INJECT_OF_LINKS);
    assert_int_equal(inject_kind_of(rule_of("complete fatal_err").act), INJECT_OF_REQUESTS);
    assert_int_equal(inject_kind_of(rule_of("qp_error qp 1").act), INJECT_NOW);
    assert_int_equal(inject_kind_of(rule_of("event sm_change").act), INJECT_NOW);
}

/* The message names the word. */
static void test_wrong_words(void **state)
{
    static const struct {
        const char *text, *word, *why;
    } row[] = {
        {"", "", "is no rule"},
        {" \t ", "", "is no rule"},
        {"explode rx", "explode", "no action"},
        {"rx drop", "rx", "no action"},
        {"drop sideways", "sideways", "is not a word"},
        {"drop rx rx", "rx", "twice"},
        {"drop opcode", "opcode", "needs a value"},
        {"drop opcode RC_NACK", "RC_NACK", "no opcode"},
        {"drop opcode RC_ACK,", "", "no opcode"},
        {"drop opcode RC_ACK,,CNP", ",CNP", "no opcode"},
        {"drop opcode RC_AC", "RC_AC", "no opcode"},
        {"drop opcode RD_*", "RD_*", "no opcode"},
        {"drop qp 16777216", "16777216", "from 0 to 16777215"},
        {"drop qp -1", "-1", "no number"},
        {"drop qp 0x", "0x", "no number"},
        {"drop psn 1-", "1-", "no PSN"},
        {"drop psn -", "-", "no PSN"},
        {"drop psn 1-2-3", "1-2-3", "no PSN"},
        {"drop nth 0", "0", "from 1"},
        {"drop nth 99999999999999999999", "99999999999999999999", "no number"},
        {"drop count 1x", "1x", "no number"},
        {"drop chance 1.1", "1.1", "no probability"},
        {"drop chance .5", ".5", "no probability"},
        {"drop chance 0.", "0.", "no probability"},
        {"drop chance 0.0000000001", "0.0000000001", "no probability"},
        {"drop seed x", "x", "no number"},
        {"drop after 5", "5", "no time"},
        {"drop after 0s", "0s", "no time"},
        {"drop for 5minutes", "5minutes", "no time"},
        {"drop for 99999999999999s", "99999999999999s", "no time"},
        {"delay", "delay", "needs a value"},
        {"delay rx", "rx", "no time"},
        {"delay 11s", "11s", "no time up to 10s"},
        {"reorder 33", "33", "from 1 to 32"},
        {"drop sealed", "sealed", "corrupt rules alone"},
        {"drop header", "header", "corrupt rules alone"},
        {"corrupt header payload", "payload", "too many"},
        {"nak", "nak", "needs a value"},
        {"nak 3", "3", "is no NAK"},
        {"fail", "fail", "needs a value"},
        {"fail destroy_qp EIO", "destroy_qp", "is no verb"},
        {"fail reg_mr", "reg_mr", "needs a value"},
        {"fail reg_mr EAGAIN", "EAGAIN", "is no error"},
        {"fail reg_mr 12", "12", "is no error"},
        {"fail reg_mr EIO qp 3", "qp", "does not go with"},
        {"fail reg_mr EIO rx", "rx", "does not go with"},
        {"fail reg_mr EIO program a_name_of_16_byt", "a_name_of_16_byt", "too long"},
        {"drop program rping", "program", "say rx"},
        {"drop tx program rping", "program", "say rx"},
        {"drop rx tx program rping", "program", "say rx"},
        {"link_down program rping", "program", "does not go with"},
        {"drop peer 10.0.0", "10.0.0", "is no address"},
        {"drop peer", "peer", "needs a value"},
        {"drop operation send", "operation", "does not go with"},
        {"complete", "complete", "needs a value"},
        {"complete success", "success", "is no status"},
        {"complete wr_flush_err", "wr_flush_err", "is no status"},
        {"complete fatal_err rx", "rx", "does not go with"},
        {"complete fatal_err peer 10.0.0.2", "peer", "does not go with"},
        {"complete fatal_err operation recv", "recv", "is no operation"},
        {"complete fatal_err operation send,", "", "is no operation"},
        {"complete fatal_err operation a_name_that_is_longer", "a_name_that_is_longer",
         "is no operation"},
        {"drop sport 0", "0", "from 1 to 65535"},
        {"drop sport 65536", "65536", "from 1 to 65535"},
        {"qp_error", "qp_error", "needs a queue pair"},
        {"qp_error qp 5 nth 2", "nth", "does not go with"},
        {"link_down rx", "rx", "does not go with"},
        {"link_down count 3", "count", "does not go with"},
        {"qp_error qp 5 for 3s", "for", "does not go with"},
        {"event sq_drained", "sq_drained", "is no event"},
        {"event port_err qp 5", "qp", "does not go with"},
        {"daemon_death qp 5", "qp", "does not go with"},
        {"daemon_death device a", "device", "does not go with"},
        {"daemon_death after 3s", "after", "does not go with"},
        {"drop device", "device", "needs a value"},
        {"drop\n", "...", "bytes"},
        {"drop \xC3\xA9", "...", "bytes"},
    };
    char error[INJECT_ERROR_MAX], quoted[INJECT_ERROR_MAX], text[INJECT_TEXT_MAX + 1];
    struct inject_rule r;

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        error[0] = '\0';
        if (!inject_parse(&r, row[i].text, error))
            fail_msg("%s: is taken", row[i].text);
        snprintf(quoted, sizeof(quoted), "\"%s\"", row[i].word);
        if (strncmp(error, quoted, strlen(quoted)) || !strstr(error, row[i].why))
            fail_msg("%s: %s", row[i].text, error);
    }
    /* Too long, also without an end; too many words. */
    memset(text, 'a', sizeof(text));
    assert_int_not_equal(inject_parse(&r, text, error), 0);
    memset(text, ' ', sizeof(text));
    for (unsigned i = 0; i <= INJECT_WORDS_MAX; i++)
        text[2 * i] = 'a';
    text[INJECT_TEXT_MAX - 1] = '\0';
    assert_int_not_equal(inject_parse(&r, text, error), 0);
    assert_non_null(strstr(error, "one word too many"));
}

/* What happens once has words of its own for what is wrong. */
static void test_once(void **state)
{
    char error[INJECT_ERROR_MAX] = "";
    struct inject_rule r;

    assert_int_equal(inject_parse_once(&r, "event port_err", error), 0);
    assert_int_equal(r.act, INJECT_EVENT);
    assert_int_equal(inject_parse_once(&r, "explode", error), -EINVAL);
    assert_string_equal(
        error, "\"explode\" is not what can happen now: say qp_error, event or daemon_death");
    assert_int_equal(inject_parse_once(&r, " ", error), -EINVAL);
    assert_string_equal(error, "\"\" is not what can happen now");
}

static void test_matches(void **state)
{
    const struct inject_packet ack = {.direction = INJECT_RX,
                                      .opcode = OPCODE(PKT_RC, OP_ACK),
                                      .sport = 0xC005,
                                      .dest_qpn = 17,
                                      .psn = 1,
                                      .is_ack = true,
                                      .peer = gid_from_ipv4((const uint8_t[]){10, 0, 0, 2}),
                                      .program = "rping"};
    static const struct {
        const char *text;
        bool matches;
    } row[] = {
        {"drop", true},
        {"drop rx", true},
        {"drop tx", false},
        {"drop rx tx", true},
        {"drop opcode RC_ACK", true},
        {"drop opcode RC_*", true},
        {"drop opcode UD_*", false},
        {"nak rnr", true},
        {"drop qp 17", true},
        {"drop sport 0xC005", true},
        {"drop sport 0xC004", false},
        {"drop qp 18", false},
        {"drop psn 1", true},
        {"drop psn 2", false},
        {"drop psn 16777215-1", true},
        {"drop psn 2-0", false},
        {"drop psn 0-16777215", true},
        {"drop rx qp 17 psn 1 opcode RC_ACK", true},
        {"drop rx qp 17 psn 2 opcode RC_ACK", false},
        {"drop peer 10.0.0.2", true},
        {"drop peer 10.0.0.3", false},
        {"drop peer ::10.0.0.2", false},
        {"drop rx program rping", true},
        {"drop rx program rpin", false},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        struct inject_rule r = rule_of(row[i].text);

        if (inject_matches(&r, &ack) != row[i].matches)
            fail_msg("%s", row[i].text);
    }
}

/* Which of the first 64 packets a rule acts on, a bit for each. */
static uint64_t acted_on(const struct inject_rule *r, struct inject_hits *hits)
{
    const struct inject_packet p = {INJECT_RX, OPCODE(PKT_RC, OP_ACK), 17, 1};
    uint64_t bits = 0, index;

    for (unsigned i = 0; i < 64; i++)
        if (inject_decide(r, hits, &p, 0, &index)) {
            assert_int_equal(index, i);
            bits |= UINT64_C(1) << i;
        }
    assert_int_equal(hits->matched, 64);
    assert_int_equal(hits->picked, __builtin_popcountll(bits));
    return bits;
}

/* What is no ACK is not counted. */
static void test_nak_matches_acks(void **state)
{
    struct inject_packet p = {.direction = INJECT_RX, .opcode = OPCODE(PKT_RC, OP_SEND_ONLY)};
    struct inject_rule r = rule_of("nak rnr count 1");

    assert_false(inject_matches(&r, &p));
    p.opcode = OPCODE(PKT_XRC, OP_ACK); /* a NAK */
    assert_false(inject_matches(&r, &p));
    p.is_ack = true;
    assert_true(inject_matches(&r, &p));
}

static void test_nth_and_count(void **state)
{
    struct inject_rule r = rule_of("drop nth 10 count 3");
    struct inject_hits hits = {0};

    assert_int_equal(acted_on(&r, &hits), UINT64_C(1) << 9 | 1 << 19 | 1 << 29);
    r = rule_of("drop count 2");
    hits = (struct inject_hits){0};
    assert_int_equal(acted_on(&r, &hits), 3);
}

/* The numbers are the generator's, in their order; another seed has others. */
static void test_chance(void **state)
{
    struct inject_rule r = rule_of("drop chance 0.25 seed 7"), other = rule_of("drop chance 0.25");
    struct random random = {7};
    struct inject_hits hits = {0}, again = {0}, hits_other = {0};
    uint64_t wanted = 0, bits;

    for (unsigned i = 0; i < 64; i++)
        wanted |= (uint64_t)((random_next(&random) >> 62) == 0) << i;
    bits = acted_on(&r, &hits);
    assert_int_equal(bits, wanted);
    assert_int_equal(acted_on(&r, &again), bits);
    assert_int_not_equal(acted_on(&other, &hits_other), bits);
    for (unsigned i = 0; i < 1000; i++)
        assert_true(inject_below(&r, i, 3) < 3);
    r = rule_of("drop chance 0");
    hits = (struct inject_hits){0};
    assert_int_equal(acted_on(&r, &hits), 0);
    r = rule_of("drop chance 1");
    hits = (struct inject_hits){0};
    assert_int_equal(acted_on(&r, &hits), UINT64_MAX);
}

static void test_time(void **state)
{
    const struct inject_packet p = {.direction = INJECT_TX};
    struct inject_rule r = rule_of("drop after 5us for 2us");
    struct inject_hits hits = {0};
    uint64_t index;

    assert_false(inject_decide(&r, &hits, &p, 4999, &index));
    assert_true(inject_decide(&r, &hits, &p, 5000, &index));
    assert_true(inject_decide(&r, &hits, &p, 6999, &index));
    assert_false(inject_decide(&r, &hits, &p, 7000, &index));
    assert_int_equal(hits.matched, 2);
}

/* Work requests of a queue pair, an operation and a program; opcodes that are none match no name.
 */
static void test_requests(void **state)
{
    struct inject_rule r = rule_of("complete fatal_err operation write qp 7 program a after 5us");
    struct inject_request w = {.qpn = 7, .operation = 0, .program = "a"}, bad;
    struct inject_hits hits = {0};

    assert_false(inject_decide_request(&r, &hits, &w, 4999));
    assert_true(inject_decide_request(&r, &hits, &w, 5000));
    bad = w;
    bad.qpn = 8;
    assert_false(inject_decide_request(&r, &hits, &bad, 5000));
    bad = w;
    bad.program = "b";
    assert_false(inject_decide_request(&r, &hits, &bad, 5000));
    bad.program = NULL;
    assert_false(inject_decide_request(&r, &hits, &bad, 5000));
    for (unsigned i = 1; i < 256; i++) {
        bad = w;
        bad.operation = (uint8_t)i;
        assert_false(inject_decide_request(&r, &hits, &bad, 5000));
    }
    assert_int_equal(hits.matched, 1);
    r = rule_of("complete fatal_err nth 2 count 1");
    hits = (struct inject_hits){0};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(inject_decide_request(&r, &hits, &w, 0), i == 1);
}

/* Calls of a name and of a program, with the same ways to pick among them. */
static void test_calls(void **state)
{
    struct inject_rule r = rule_of("fail create_qp ENOMEM program rping nth 2 count 1 after 5us");
    struct inject_call c = {INJECT_VERB_create_qp, "rping"};
    struct inject_hits hits = {0};

    assert_false(inject_decide_call(&r, &hits, &c, 4999));
    c.verb = INJECT_VERB_create_cq;
    assert_false(inject_decide_call(&r, &hits, &c, 5000));
    c = (struct inject_call){INJECT_VERB_create_qp, "rpin"};
    assert_false(inject_decide_call(&r, &hits, &c, 5000));
    assert_int_equal(hits.matched, 0);
    c.program = "rping";
    assert_false(inject_decide_call(&r, &hits, &c, 5000));
    assert_true(inject_decide_call(&r, &hits, &c, 5000));
    assert_false(inject_decide_call(&r, &hits, &c, 5000));
    assert_false(inject_decide_call(&r, &hits, &c, 5000)); /* one is enough */
    assert_int_equal(hits.matched, 4);
    r = rule_of("fail create_qp ENOMEM");
    c.program = "anything";
    assert_true(inject_decide_call(&r, &hits, &c, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_word),    cmocka_unit_test(test_wrong_words),
        cmocka_unit_test(test_once),          cmocka_unit_test(test_matches),
        cmocka_unit_test(test_nth_and_count), cmocka_unit_test(test_chance),
        cmocka_unit_test(test_time),          cmocka_unit_test(test_names),
        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_requests),
        cmocka_unit_test(test_calls),         cmocka_unit_test(test_nak_matches_acks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
