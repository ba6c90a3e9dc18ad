/* SPDX-License-Identifier: BSD-3-Clause */
/* A rule's words: see inject.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "inject_names.h"
#include "inject_value.h"
#include "opcode.h"

#define QPN_MAX 0xFFFFFF

struct parse {
    struct inject_rule *rule;
    char *error;
    char text[INJECT_TEXT_MAX];
    const char *word[INJECT_WORDS_MAX];
    unsigned words, at;
    bool once;     /* what happens now is read, no rule */
    bool has_part; /* header or payload */
};

static int refuse(struct parse *p, const char *word, const char *why)
{
    snprintf(p->error, INJECT_ERROR_MAX, "\"%.60s\" %s", word, why);
    return -EINVAL;
}

/* ---- words ---- */

static int take(struct parse *p, const char **value)
{
    if (p->at + 1 == p->words)
        return refuse(p, p->word[p->at], "needs a value behind it");
    *value = p->word[++p->at];
    return 0;
}

static int take_number(struct parse *p, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *value;
    int err = take(p, &value);

    if (err)
        return err;
    if (inject_read_number(value, value + strlen(value), max, out) && *out >= min)
        return 0;
    snprintf(p->error, INJECT_ERROR_MAX, "\"%.60s\" is no number from %llu to %llu", value,
             (unsigned long long)min, (unsigned long long)max);
    return -EINVAL;
}

static int take_time(struct parse *p, ns_t max, ns_t *out)
{
    const char *value;
    int err = take(p, &value);

    if (err || inject_read_time(value, max, out))
        return err;
    snprintf(p->error, INJECT_ERROR_MAX, "\"%.60s\" is no time up to %llus: say 20us, 5ms or 3s",
             value, (unsigned long long)(max / NS_PER_SEC));
    return -EINVAL;
}

static int rx_word(struct parse *p)
{
    p->rule->directions |= INJECT_RX;
    return 0;
}

static int tx_word(struct parse *p)
{
    p->rule->directions |= INJECT_TX;
    return 0;
}

static int device_word(struct parse *p)
{
    const char *value;
    int err = take(p, &value);

    if (!err && strlen(value) >= sizeof(p->rule->device))
        err = refuse(p, value, "is too long for a device");
    if (!err)
        strcpy(p->rule->device, value);
    return err;
}

/* A name, or its beginning and an asterisk. */
static bool add_opcodes(struct inject_rule *rule, const char *name, size_t len)
{
    bool is_prefix = len && name[len - 1] == '*', found = false;

    len -= is_prefix;
    for (unsigned i = 0; i < 256; i++) {
        const char *known = opcode_table[i].name;

        if (!known || strncmp(known, name, len) || (!is_prefix && known[len]))
            continue;
        rule->opcode[i / 64] |= UINT64_C(1) << i % 64;
        found = true;
    }
    return found;
}

static int opcode_word(struct parse *p)
{
    const char *value;
    int err = take(p, &value);

    p->rule->by_opcode = true;
    while (!err) {
        size_t len = strcspn(value, ",");

        if (!len || !add_opcodes(p->rule, value, len))
            return refuse(p, value, "is no opcode: say RC_ACK, or RC_READ_*");
        if (!value[len])
            break;
        value += len + 1;
    }
    return err;
}

static int qp_word(struct parse *p)
{
    uint64_t n = 0;
    int err = take_number(p, 0, QPN_MAX, &n);

    p->rule->by_qp = true;
    p->rule->qp = (uint32_t)n;
    return err;
}

/* "100" or "100-200"; the range may wrap around. */
static int psn_word(struct parse *p)
{
    const char *value, *end;
    uint64_t first, last;
    int err = take(p, &value);

    if (err)
        return err;
    end = value + strcspn(value, "-");
    if (!inject_read_number(value, end, PSN_MASK, &first))
        return refuse(p, value, "is no PSN or range of PSNs");
    last = first;
    if (*end && !inject_read_number(end + 1, end + strlen(end), PSN_MASK, &last))
        return refuse(p, value, "is no PSN or range of PSNs");
    p->rule->by_psn = true;
    p->rule->psn = (uint32_t)first;
    p->rule->psn_count = ((uint32_t)(last - first) & PSN_MASK) + 1;
    return 0;
}

static int nth_word(struct parse *p)
{
    return take_number(p, 1, UINT32_MAX, &p->rule->nth);
}

static int count_word(struct parse *p)
{
    return take_number(p, 1, UINT32_MAX, &p->rule->count);
}

static int chance_word(struct parse *p)
{
    const char *value;
    int err = take(p, &value);

    p->rule->by_chance = true;
    if (!err && !inject_read_chance(value, &p->rule->chance))
        err = refuse(p, value, "is no probability from 0 to 1, with nine decimals at most");
    return err;
}

static int seed_word(struct parse *p)
{
    return take_number(p, 0, UINT32_MAX, &p->rule->seed);
}

static int after_word(struct parse *p)
{
    return take_time(p, INJECT_TIME_MAX, &p->rule->after);
}

static int for_word(struct parse *p)
{
    return take_time(p, INJECT_TIME_MAX, &p->rule->lasts);
}

static int for_corrupt(struct parse *p)
{
    return p->rule->act == INJECT_CORRUPT ? 0
                                          : refuse(p, p->word[p->at], "is for corrupt rules alone");
}

static int part_word(struct parse *p)
{
    if (p->has_part)
        return refuse(p, p->word[p->at], "is one of header and payload too many");
    p->has_part = true;
    p->rule->header = !strcmp(p->word[p->at], "header");
    return for_corrupt(p);
}

static int sealed_word(struct parse *p)
{
    p->rule->sealed = true;
    return for_corrupt(p);
}

static int sport_word(struct parse *p)
{
    uint64_t n = 0;
    int err = take_number(p, 1, UINT16_MAX, &n);

    p->rule->by_sport = true;
    p->rule->sport = (uint16_t)n;
    return err;
}

static int peer_word(struct parse *p)
{
    const char *value;
    int err = take(p, &value);

    p->rule->by_peer = true;
    if (!err && gid_parse(&p->rule->peer, value))
        err = refuse(p, value, "is no address: say 10.0.0.2 or fe80::1");
    return err;
}

static int operation_word(struct parse *p)
{
    char name[INJECT_PROGRAM_MAX];
    const char *value;
    int err = take(p, &value), number;

    while (!err) {
        size_t len = strcspn(value, ",");

        snprintf(name, sizeof(name), "%.*s", (int)len, value);
        if (!inject_find_name(INJECT_OPERATIONS, name, &number))
            return refuse(p, value, "is no operation: say write, send or read");
        p->rule->operations |= UINT32_C(1) << number;
        if (!value[len])
            break;
        value += len + 1;
    }
    return err;
}

static int program_word(struct parse *p)
{
    const char *value;
    int err = take(p, &value);

    if (!err && strlen(value) >= sizeof(p->rule->program))
        err = refuse(p, value, "is too long for a program: the kernel has 15 bytes of a name");
    if (!err)
        strcpy(p->rule->program, value);
    return err;
}

#define RULES (INJECT_OF_PACKETS | INJECT_OF_CALLS | INJECT_OF_REQUESTS)
#define TIMED (INJECT_OF_LINKS | RULES)
#define ANY   (INJECT_NOW | TIMED)

static const struct {
    const char *name;
    int (*take)(struct parse *p);
    unsigned kinds; /* enum inject_kind */
} match_words[] = {
    {"rx", rx_word, INJECT_OF_PACKETS},
    {"tx", tx_word, INJECT_OF_PACKETS},
    {"device", device_word, ANY},
    {"opcode", opcode_word, INJECT_OF_PACKETS},
    {"qp", qp_word, INJECT_OF_PACKETS | INJECT_OF_REQUESTS | INJECT_NOW},
    {"psn", psn_word, INJECT_OF_PACKETS},
    {"sport", sport_word, INJECT_OF_PACKETS},
    {"peer", peer_word, INJECT_OF_PACKETS},
    {"operation", operation_word, INJECT_OF_REQUESTS},
    {"program", program_word, RULES},
    {"nth", nth_word, RULES},
    {"count", count_word, RULES},
    {"chance", chance_word, RULES},
    {"seed", seed_word, RULES},
    {"after", after_word, TIMED},
    {"for", for_word, TIMED},
    {"payload", part_word, INJECT_OF_PACKETS},
    {"header", part_word, INJECT_OF_PACKETS},
    {"sealed", sealed_word, INJECT_OF_PACKETS},
};

/* ---- acts ---- */

static int take_name(struct parse *p, enum inject_name_kind kind, const char *what, int *value)
{
    const char *word;
    int err = take(p, &word);

    if (!err && !inject_find_name(kind, word, value))
        err = refuse(p, word, what);
    return err;
}

static int delay_act(struct parse *p)
{
    return take_time(p, INJECT_DELAY_MAX, &p->rule->delay);
}

static int reorder_act(struct parse *p)
{
    uint64_t n = 0;
    int err = take_number(p, 1, INJECT_BEHIND_MAX, &n);

    p->rule->behind = (unsigned)n;
    return err;
}

static int nak_act(struct parse *p)
{
    int value = 0, err = take_name(p, INJECT_NAKS, "is no NAK: say rnr or remote_access", &value);

    p->rule->syndrome = (uint8_t)value;
    return err;
}

static int fail_act(struct parse *p)
{
    int verb = 0, err = take_name(p, INJECT_VERBS, "is no verb that can fail: say reg_mr", &verb);

    p->rule->verb = (enum inject_verb)verb;
    return err ? err : take_name(p, INJECT_ERRORS, "is no error: say ENOMEM", &p->rule->error);
}

static int complete_act(struct parse *p)
{
    int value = 0,
        err = take_name(p, INJECT_STATUSES,
                        "is no status that a work request can have: say retry_exc_err", &value);

    p->rule->status = (uint8_t)value;
    return err;
}

static int event_act(struct parse *p)
{
    int value = 0, err = take_name(p, INJECT_EVENTS, "is no event: say port_err", &value);

    p->rule->event = (uint32_t)value;
    return err;
}

static const struct {
    const char *name;
    int (*take)(struct parse *p); /* the words behind it; NULL: none */
    enum inject_kind kind;
} acts[INJECT_ACTS] = {
    [INJECT_NOTHING] = {"", NULL, INJECT_OF_PACKETS},
    [INJECT_DROP] = {"drop", NULL, INJECT_OF_PACKETS},
    [INJECT_DUPLICATE] = {"duplicate", NULL, INJECT_OF_PACKETS},
    [INJECT_CORRUPT] = {"corrupt", NULL, INJECT_OF_PACKETS},
    [INJECT_MARK] = {"mark", NULL, INJECT_OF_PACKETS},
    [INJECT_DELAY] = {"delay", delay_act, INJECT_OF_PACKETS},
    [INJECT_REORDER] = {"reorder", reorder_act, INJECT_OF_PACKETS},
    [INJECT_NAK] = {"nak", nak_act, INJECT_OF_PACKETS},
    [INJECT_LINK_DOWN] = {"link_down", NULL, INJECT_OF_LINKS},
    [INJECT_FAIL] = {"fail", fail_act, INJECT_OF_CALLS},
    [INJECT_COMPLETE] = {"complete", complete_act, INJECT_OF_REQUESTS},
    [INJECT_QP_ERROR] = {"qp_error", NULL, INJECT_NOW},
    [INJECT_EVENT] = {"event", event_act, INJECT_NOW},
    [INJECT_DAEMON_DEATH] = {"daemon_death", NULL, INJECT_NOW},
};

enum inject_kind inject_kind_of(enum inject_act act)
{
    return acts[act].kind;
}

static int read_act(struct parse *p)
{
    for (unsigned i = INJECT_NOTHING + 1; i < INJECT_ACTS; i++)
        if (!strcmp(p->word[0], acts[i].name))
            p->rule->act = (enum inject_act)i;
    if (p->rule->act == INJECT_NOTHING)
        return refuse(p, p->word[0],
                      p->once ? "is not what can happen now: say qp_error, event or daemon_death"
                              : "is no action: say drop, delay, nak, link_down, fail or complete");
    return acts[p->rule->act].take ? acts[p->rule->act].take(p) : 0;
}

static int read_match(struct parse *p, unsigned *seen)
{
    const char *word = p->word[p->at];

    for (unsigned i = 0; i < ARRAY_SIZE(match_words); i++) {
        if (strcmp(word, match_words[i].name))
            continue;
        if (*seen >> i & 1)
            return refuse(p, word, "is there twice");
        *seen |= 1u << i;
        if (!(match_words[i].kinds & inject_kind_of(p->rule->act)))
            return refuse(p, word, "does not go with this action");
        return match_words[i].take(p);
    }
    return refuse(p, word, "is not a word of a rule");
}

/* What an action cannot do without; and what only one of two has. */
static int check_whole(struct parse *p)
{
    bool is_qp_error = p->rule->act == INJECT_QP_ERROR;

    if (is_qp_error && !p->rule->by_qp)
        return refuse(p, p->word[0], "needs a queue pair: say qp N");
    if (inject_kind_of(p->rule->act) == INJECT_NOW && !is_qp_error && p->rule->by_qp)
        return refuse(p, "qp", "does not go with this action");
    if (p->rule->act == INJECT_DAEMON_DEATH && p->rule->device[0])
        return refuse(p, "device", "does not go with this action");
    /* What is sent has the number of the receiver's queue pair alone. */
    if (p->rule->program[0] && inject_kind_of(p->rule->act) == INJECT_OF_PACKETS &&
        p->rule->directions != INJECT_RX)
        return refuse(p, "program", "is known of packets that are received alone: say rx, too");
    return 0;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((*text < ' ' || *text > '~') && *text != '\t')
            return false;
    return true;
}

/* False: there are too many words. */
static bool split(struct parse *p)
{
    for (char *at = p->text;;) {
        at += strspn(at, " \t");
        if (!*at)
            return true;
        if (p->words == INJECT_WORDS_MAX)
            return false;
        p->word[p->words++] = at;
        at += strcspn(at, " \t");
        if (*at)
            *at++ = '\0';
    }
}

static int parse(struct inject_rule *rule, const char *text, bool once,
                 char error[INJECT_ERROR_MAX])
{
    struct parse p = {.rule = rule, .error = error, .once = once};
    unsigned seen = 0;
    int err;

    *rule = (struct inject_rule){0};
    if (strnlen(text, INJECT_TEXT_MAX) == INJECT_TEXT_MAX)
        return refuse(&p, "...", "is too long for a rule");
    if (!is_printable(text))
        return refuse(&p, "...", "has bytes that no rule has");
    strcpy(p.text, text);
    if (!split(&p))
        return refuse(&p, p.word[INJECT_WORDS_MAX - 1], "is one word too many");
    if (!p.words)
        return refuse(&p, "", once ? "is not what can happen now" : "is no rule");
    err = read_act(&p);
    while (!err && ++p.at < p.words)
        err = read_match(&p, &seen);
    return err ? err : check_whole(&p);
}

int inject_parse(struct inject_rule *rule, const char *text, char error[INJECT_ERROR_MAX])
{
    return parse(rule, text, false, error);
}

int inject_parse_once(struct inject_rule *rule, const char *text, char error[INJECT_ERROR_MAX])
{
    return parse(rule, text, true, error);
}
