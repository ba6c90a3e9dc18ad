/* SPDX-License-Identifier: BSD-3-Clause */
/* A rule's words: see inject.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "inject.h"
#include "opcode.h"

#define QPN_MAX 0xFFFFFF

struct parse {
    struct inject_rule *rule;
    char *error;
    char text[INJECT_TEXT_MAX];
    const char *word[INJECT_WORDS_MAX];
    unsigned words, at;
    bool has_part; /* header or payload */
};

static int refuse(struct parse *p, const char *word, const char *why)
{
    snprintf(p->error, INJECT_ERROR_MAX, "\"%.60s\" %s", word, why);
    return -EINVAL;
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal digits, or 0x and hexadecimal ones, up to `end`. */
static bool read_number(const char *text, const char *end, uint64_t max, uint64_t *out)
{
    unsigned base = end - text > 2 && text[0] == '0' && text[1] == 'x' ? 16 : 10;
    uint64_t value = 0;

    if (base == 16)
        text += 2;
    if (text == end)
        return false;
    for (; text < end; text++) {
        unsigned digit;

        if (is_digit(*text))
            digit = (unsigned)(*text - '0');
        else if (base == 16 && *text >= 'a' && *text <= 'f')
            digit = (unsigned)(*text - 'a') + 10;
        else if (base == 16 && *text >= 'A' && *text <= 'F')
            digit = (unsigned)(*text - 'A') + 10;
        else
            return false;
        if (value > (max - min_of(digit, max)) / base)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return value <= max;
}

/* 0 to 1, with at most nine decimals. */
static bool read_chance(const char *text, uint64_t *billionths)
{
    uint64_t part = 0, unit = INJECT_BILLION;

    if ((text[0] != '0' && text[0] != '1') || (text[1] && text[1] != '.'))
        return false;
    if (text[1] && !text[2])
        return false;
    for (const char *at = text + (text[1] ? 2 : 1); *at; at++) {
        unit /= 10;
        if (!is_digit(*at) || !unit)
            return false;
        part += (uint64_t)(*at - '0') * unit;
    }
    *billionths = (text[0] == '1' ? INJECT_BILLION : 0) + part;
    return *billionths <= INJECT_BILLION;
}

static bool read_time(const char *text, ns_t max, ns_t *out)
{
    static const struct {
        const char *name;
        ns_t ns;
    } unit[] = {{"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_SEC}};
    const char *end = text;

    while (is_digit(*end))
        end++;
    for (unsigned i = 0; i < ARRAY_SIZE(unit); i++)
        if (!strcmp(end, unit[i].name) && read_number(text, end, max / unit[i].ns, out)) {
            *out *= unit[i].ns;
            return *out > 0;
        }
    return false;
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
    if (read_number(value, value + strlen(value), max, out) && *out >= min)
        return 0;
    snprintf(p->error, INJECT_ERROR_MAX, "\"%.60s\" is no number from %llu to %llu", value,
             (unsigned long long)min, (unsigned long long)max);
    return -EINVAL;
}

static int take_time(struct parse *p, ns_t max, ns_t *out)
{
    const char *value;
    int err = take(p, &value);

    if (!err && !read_time(value, max, out))
        err = refuse(p, value, "is no time: say 20us, 5ms or 3s");
    return err;
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
    if (!read_number(value, end, PSN_MASK, &first))
        return refuse(p, value, "is no PSN or range of PSNs");
    last = first;
    if (*end && !read_number(end + 1, end + strlen(end), PSN_MASK, &last))
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
    if (!err && !read_chance(value, &p->rule->chance))
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

static const struct {
    const char *name;
    int (*take)(struct parse *p);
} match_words[] = {
    {"rx", rx_word},         {"tx", tx_word},       {"device", device_word},
    {"opcode", opcode_word}, {"qp", qp_word},       {"psn", psn_word},
    {"nth", nth_word},       {"count", count_word}, {"chance", chance_word},
    {"seed", seed_word},     {"after", after_word}, {"for", for_word},
    {"payload", part_word},  {"header", part_word}, {"sealed", sealed_word},
};

static int read_act(struct parse *p)
{
    static const char *const name[] = {
        [INJECT_DROP] = "drop", [INJECT_DUPLICATE] = "duplicate", [INJECT_CORRUPT] = "corrupt",
        [INJECT_MARK] = "mark", [INJECT_DELAY] = "delay",         [INJECT_REORDER] = "reorder"};
    uint64_t n = 0;
    int err;

    for (unsigned i = INJECT_DROP; i < ARRAY_SIZE(name); i++)
        if (!strcmp(p->word[0], name[i]))
            p->rule->act = (enum inject_act)i;
    switch (p->rule->act) {
    case INJECT_NOTHING:
        return refuse(p, p->word[0],
                      "is no action: say drop, duplicate, corrupt, mark, delay or reorder");
    case INJECT_DELAY:
        return take_time(p, INJECT_DELAY_MAX, &p->rule->delay);
    case INJECT_REORDER:
        err = take_number(p, 1, INJECT_BEHIND_MAX, &n);
        p->rule->behind = (unsigned)n;
        return err;
    default:
        return 0;
    }
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
        return match_words[i].take(p);
    }
    return refuse(p, word, "is not a word of a rule");
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

int inject_parse(struct inject_rule *rule, const char *text, char error[INJECT_ERROR_MAX])
{
    struct parse p = {.rule = rule, .error = error};
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
        return refuse(&p, "", "is no rule");
    err = read_act(&p);
    while (!err && ++p.at < p.words)
        err = read_match(&p, &seen);
    return err;
}
