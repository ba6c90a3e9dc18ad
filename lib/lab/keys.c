/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of each kind of line, as tables. See parse_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse_internal.h"

#define PORT_RATE_MAX (UINT64_C(10000) * LAB_BILLION)

enum kind { SIZE, TIME, RATE, COUNT32, PART, YES, OTHER };

struct key {
    const char *name;
    enum kind kind;
    size_t offset;
    uint64_t least, most;
    bool (*other)(void *object, const char *text); /* OTHER */
    const char *takes;
};

/* The next part of *text up to the separator, into out; false: none, or too long. */
static bool next_part(const char **text, char separator, char *out, size_t room)
{
    size_t len;
    const char *end;

    if (!*text)
        return false;
    end = strchr(*text, separator);
    len = end ? (size_t)(end - *text) : strlen(*text);
    if (len >= room)
        return false;
    memcpy(out, *text, len);
    out[len] = '\0';
    *text = end ? end + 1 : NULL;
    return true;
}

/* "no", "yes", or a code point; what is not RoCE's usual traffic: 0 is none. */
static bool read_trim(uint8_t *trim, const char *text)
{
    uint64_t n = 0;
    bool yes;

    if (lab_read_yes(text, &yes))
        n = yes ? LAB_TRIM : 0;
    else if (!lab_read_count(text, &n) || !n || n > 63)
        return false;
    *trim = (uint8_t)n;
    return true;
}
#define TRIM_TAKES "no, yes, or a code point from 1 to 63"

/* ---- hosts ---- */

static bool read_host_trim(void *object, const char *text)
{
    return read_trim(&((struct lab_host *)object)->trim, text);
}

static bool read_control(void *object, const char *text)
{
    struct lab_host *h = object;
    char part[48];

    if (!next_part(&text, ',', part, sizeof(part)))
        return false;
    h->control = strcmp(part, "none") ? cc_find(part) : NULL;
    if (!h->control)
        return !strcmp(part, "none") && !text;
    cc_default_params(h->control, h->params);
    while (text)
        if (!next_part(&text, ',', part, sizeof(part)) ||
            !cc_read_param(h->control, h->params, part))
            return false;
    return true;
}

static bool read_cnp(void *object, const char *text)
{
    struct lab_host *h = object;

    if (!strcmp(text, "no")) {
        h->cnp = 0;
        return true;
    }
    return lab_read_time(text, &h->cnp) && h->cnp && h->cnp <= NS_PER_SEC;
}

static bool read_entropy(void *object, const char *text)
{
    struct lab_host *h = object;

    return !entropy_policy_parse(&h->entropy, text);
}

static bool read_mtu(void *object, const char *text)
{
    struct lab_host *h = object;
    uint64_t mtu;

    if (!lab_read_count(text, &mtu) || mtu < 256 || mtu > 4096 || !is_pow2(mtu))
        return false;
    h->mtu = (uint32_t)mtu;
    return true;
}

#define IN_HOST(field) offsetof(struct lab_host, field)
static const struct key host_keys[] = {
    {"control", OTHER, 0, 0, 0, read_control,
     "none, or a controller of lib/cc, and its parameters with commas"},
    {"ecn", YES, IN_HOST(ecn), 0, 0, NULL, NULL},
    {"cnp", OTHER, 0, 0, 0, read_cnp, "no, or a time up to 1s"},
    {"entropy", OTHER, 0, 0, 0, read_entropy, "kernel, rfc, spray or fixed:PORT"},
    {"repath", COUNT32, IN_HOST(repath), 0, 100, NULL, NULL},
    {"window", COUNT32, IN_HOST(window), 0, 16384, NULL, NULL},
    {"reorder", COUNT32, IN_HOST(reorder), 0, 8, NULL, NULL},
    {"selective", YES, IN_HOST(selective), 0, 0, NULL, NULL},
    {"mtu", OTHER, 0, 0, 0, read_mtu, "256, 512, 1024, 2048 or 4096"},
    {"timeout", COUNT32, IN_HOST(timeout), 0, 31, NULL, NULL},
    {"retry", COUNT32, IN_HOST(retry), 0, 7, NULL, NULL},
    {"trim", OTHER, 0, 0, 0, read_host_trim, TRIM_TAKES},
    {0},
};

/* ---- switches ---- */

static bool read_alpha(void *object, const char *text)
{
    struct fabric_switch *s = object;
    uint64_t billionths;

    if (!strcmp(text, "all")) {
        s->alpha = 1 << 20;
        return true;
    }
    if (!lab_read_part(text, &billionths))
        return false;
    s->alpha = (uint32_t)(billionths * 1024 / LAB_BILLION);
    return s->alpha > 0;
}

static bool read_red(struct fabric_switch *s, const char *text)
{
    char part[32];
    uint64_t chance;

    s->mark = FABRIC_MARK_RED;
    if (!next_part(&text, ':', part, sizeof(part)) || !lab_read_size(part, &s->mark_min) ||
        !next_part(&text, ':', part, sizeof(part)) || !lab_read_size(part, &s->mark_max) ||
        !next_part(&text, ':', part, sizeof(part)) || !lab_read_part(part, &chance) || text)
        return false;
    s->mark_chance = (uint32_t)(chance / 1000);
    return s->mark_min < s->mark_max && s->mark_max < UINT32_MAX;
}

static bool read_mark(void *object, const char *text)
{
    struct fabric_switch *s = object;

    if (!strncmp(text, "red:", 4))
        return read_red(s, text + 4);
    s->mark = strcmp(text, "none") ? FABRIC_MARK_STEP : FABRIC_MARK_NONE;
    return s->mark == FABRIC_MARK_NONE ||
           (!strncmp(text, "step:", 5) && lab_read_size(text + 5, &s->mark_min));
}

static bool read_pfc(void *object, const char *text)
{
    struct fabric_switch *s = object;
    char part[4];

    s->lossless = 0;
    if (!strcmp(text, "no"))
        return true;
    while (text) {
        if (!next_part(&text, ',', part, sizeof(part)) || part[0] < '0' || part[0] > '7' || part[1])
            return false;
        s->lossless |= (uint8_t)(1 << (part[0] - '0'));
    }
    return true;
}

static bool read_ecmp(void *object, const char *text)
{
    static const char *const names[] = {[FABRIC_FLOW] = "flow",
                                        [FABRIC_LINEAR] = "linear",
                                        [FABRIC_SPRAY] = "spray",
                                        [FABRIC_ROUND_ROBIN] = "roundrobin",
                                        [FABRIC_ADAPTIVE] = "adaptive"};
    struct fabric_switch *s = object;

    for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
        if (!strcmp(text, names[i])) {
            s->spread = (enum fabric_spread)i;
            return true;
        }
    return false;
}

static bool read_switch_trim(void *object, const char *text)
{
    return read_trim(&((struct fabric_switch *)object)->trim, text);
}

#define IN_SWITCH(field) offsetof(struct fabric_switch, field)
#define BUFFER_MAX       (UINT64_C(1) << 32)
static const struct key switch_keys[] = {
    {"buffer", SIZE, IN_SWITCH(buffer), FABRIC_FRAME_ROOM, BUFFER_MAX, NULL, NULL},
    {"alpha", OTHER, 0, 0, 0, read_alpha, "a part from 0.001 to 1, or all"},
    {"mark", OTHER, 0, 0, 0, read_mark, "none, step:SIZE or red:SIZE:SIZE:PART"},
    {"pfc", OTHER, 0, 0, 0, read_pfc, "no, or priorities from 0 to 7 with commas"},
    {"xoff", SIZE, IN_SWITCH(xoff), 0, BUFFER_MAX, NULL, NULL},
    {"xon", SIZE, IN_SWITCH(xon), 0, BUFFER_MAX, NULL, NULL},
    {"headroom", SIZE, IN_SWITCH(headroom), 0, BUFFER_MAX, NULL, NULL},
    {"ecmp", OTHER, 0, 0, 0, read_ecmp, "flow, linear, spray, roundrobin or adaptive"},
    {"seed", COUNT32, IN_SWITCH(seed), 0, UINT32_MAX, NULL, NULL},
    {"trim", OTHER, 0, 0, 0, read_switch_trim, TRIM_TAKES},
    {0},
};

/* ---- links ---- */

static bool read_loss(void *object, const char *text)
{
    struct fabric_link *l = object;
    uint64_t billionths;

    if (!lab_read_part(text, &billionths))
        return false;
    l->loss = (uint32_t)(billionths * UINT32_MAX / LAB_BILLION);
    return true;
}

#define IN_LINK(field) offsetof(struct fabric_link, field)
static const struct key link_keys[] = {
    {"rate", RATE, IN_LINK(bps), 1000, PORT_RATE_MAX, NULL, NULL},
    {"delay", TIME, IN_LINK(delay), 0, NS_PER_SEC, NULL, NULL},
    {"loss", OTHER, 0, 0, 0, read_loss, "a part from 0 to 1"},
    {0},
};

/* ---- traffic ---- */

static bool read_bytes(void *object, const char *text)
{
    struct lab_flow *f = &((struct lab_traffic *)object)->flow;

    if (!strcmp(text, "endless")) {
        f->size = LAB_ENDLESS;
        return true;
    }
    return lab_read_size(text, &f->size) && f->size && f->size <= UINT64_C(1) << 50;
}

static bool read_message(void *object, const char *text)
{
    struct lab_flow *f = &((struct lab_traffic *)object)->flow;
    uint64_t bytes;

    if (!lab_read_size(text, &bytes) || !bytes || bytes > LAB_MESSAGE_MAX)
        return false;
    f->message = (uint32_t)bytes;
    return true;
}

static bool read_verb(void *object, const char *text)
{
    struct lab_flow *f = &((struct lab_traffic *)object)->flow;

    for (unsigned i = 0; i < ARRAY_SIZE(lab_verb_name); i++)
        if (!strcmp(text, lab_verb_name[i])) {
            f->verb = (enum lab_verb)i;
            return true;
        }
    return false;
}

static bool read_dscp(void *object, const char *text)
{
    struct lab_flow *f = &((struct lab_traffic *)object)->flow;
    uint64_t n;

    if (!lab_read_count(text, &n) || n > 63)
        return false;
    f->dscp = (uint8_t)n;
    return true;
}

static bool read_flow_entropy(void *object, const char *text)
{
    struct lab_flow *f = &((struct lab_traffic *)object)->flow;

    f->has_entropy = true;
    return !entropy_policy_parse(&f->entropy, text);
}

static bool copy_name(char out[LAB_NAME_MAX], const char *text)
{
    if (!lab_is_name(text))
        return false;
    strcpy(out, text);
    return true;
}

static bool read_name(void *object, const char *text)
{
    return copy_name(((struct lab_traffic *)object)->flow.name, text);
}

static bool read_to(void *object, const char *text)
{
    return copy_name(((struct lab_traffic *)object)->to, text);
}

static bool read_sizes(void *object, const char *text)
{
    struct lab_traffic *t = object;
    char part[48], bytes[32];
    uint64_t weight;

    for (t->sizes = 0; text; t->sizes++) {
        const char *at = part;

        if (t->sizes == LAB_SIZES_MAX || !next_part(&text, ',', part, sizeof(part)) ||
            !next_part(&at, ':', bytes, sizeof(bytes)) ||
            !lab_read_size(bytes, &t->size[t->sizes].bytes))
            return false;
        weight = 1;
        if ((at && !lab_read_count(at, &weight)) || !weight || weight > 1000000 ||
            !t->size[t->sizes].bytes || t->size[t->sizes].bytes > UINT64_C(1) << 40)
            return false;
        t->size[t->sizes].weight = (uint32_t)weight;
    }
    return true;
}

#define IN_TRAFFIC(field) offsetof(struct lab_traffic, field)
static const struct key traffic_keys[] = {
    {"name", OTHER, 0, 0, 0, read_name,
     "a name: up to 23 characters of ASCII, without , \" & and <"},
    {"size", OTHER, 0, 0, 0, read_bytes, "a number of bytes, or endless"},
    {"message", OTHER, 0, 0, 0, read_message, "bytes from 1 to 64M"},
    {"depth", COUNT32, IN_TRAFFIC(flow.depth), 1, 1024, NULL, NULL},
    {"start", TIME, IN_TRAFFIC(flow.start), 0, LAB_TIME_MAX, NULL, NULL},
    {"verb", OTHER, 0, 0, 0, read_verb, "write, send or read"},
    {"dscp", OTHER, 0, 0, 0, read_dscp, "a code point from 0 to 63"},
    {"entropy", OTHER, 0, 0, 0, read_flow_entropy, "kernel, rfc, spray or fixed:PORT"},
    {"flows", COUNT32, IN_TRAFFIC(count), 1, LAB_FLOWS_MAX, NULL, NULL},
    {"stagger", TIME, IN_TRAFFIC(stagger), 0, LAB_TIME_MAX, NULL, NULL},
    {"to", OTHER, 0, 0, 0, read_to, "a host"},
    {"shift", COUNT32, IN_TRAFFIC(shift), 0, LAB_NODES_MAX, NULL, NULL},
    {"load", PART, IN_TRAFFIC(load), 1, LAB_BILLION, NULL, NULL},
    {"sizes", OTHER, 0, 0, 0, read_sizes, "SIZE[:WEIGHT],..."},
    {"stop", TIME, IN_TRAFFIC(stop), 1, LAB_TIME_MAX, NULL, NULL},
    {0},
};

/* ---- faults, shapes ---- */

#define IN_FAULT(field) offsetof(struct lab_fault, field)
static const struct key fault_keys[] = {
    {"at", TIME, IN_FAULT(at), 0, LAB_TIME_MAX, NULL, NULL},
    {"until", TIME, IN_FAULT(until), 1, LAB_TIME_MAX, NULL, NULL},
    {"silent", YES, IN_FAULT(silent), 0, 0, NULL, NULL},
    {"frames", COUNT32, IN_FAULT(frames), 1, 1000000, NULL, NULL},
    {0},
};

#define IN_SHAPE(field) offsetof(struct lab_shape, field)
static const struct key shape_keys[] = {
    {"hosts", COUNT32, IN_SHAPE(hosts), 1, LAB_NODES_MAX, NULL, NULL},
    {"leaves", COUNT32, IN_SHAPE(leaves), 1, 256, NULL, NULL},
    {"spines", COUNT32, IN_SHAPE(spines), 1, 256, NULL, NULL},
    {"left", COUNT32, IN_SHAPE(left), 1, FABRIC_PORTS_MAX - 1, NULL, NULL},
    {"right", COUNT32, IN_SHAPE(right), 1, FABRIC_PORTS_MAX - 1, NULL, NULL},
    {"k", COUNT32, IN_SHAPE(k), 2, 16, NULL, NULL},
    {"up", RATE, IN_SHAPE(up), 1000, PORT_RATE_MAX, NULL, NULL},
    {"neck", RATE, IN_SHAPE(neck), 1000, PORT_RATE_MAX, NULL, NULL},
    {0},
};

/* ---- applying ---- */

static const struct key *const sections[] = {
    [LAB_HOSTS] = host_keys,      [LAB_SWITCHES] = switch_keys, [LAB_LINKS] = link_keys,
    [LAB_TRAFFIC] = traffic_keys, [LAB_FAULT] = fault_keys,     [LAB_SHAPE] = shape_keys,
};

static const char *const takes[] = {
    [SIZE] = "bytes, with K, M or G",
    [TIME] = "a time with ns, us, ms or s",
    [RATE] = "bits per second, with k, m or g",
    [COUNT32] = "a number",
    [PART] = "a part from 0 to 1",
    [YES] = "yes or no",
};

static bool read_value(const struct key *k, void *object, const char *text)
{
    static bool (*const readers[])(const char *, uint64_t *) = {
        [SIZE] = lab_read_size,     [TIME] = lab_read_time, [RATE] = lab_read_rate,
        [COUNT32] = lab_read_count, [PART] = lab_read_part,
    };
    char *field = (char *)object + k->offset;
    uint64_t value;

    if (k->kind == OTHER)
        return k->other(object, text);
    if (k->kind == YES)
        return lab_read_yes(text, (bool *)(void *)field);
    if (!readers[k->kind](text, &value) || value < k->least || value > k->most)
        return false;
    if (k->kind == COUNT32)
        *(uint32_t *)(void *)field = (uint32_t)value;
    else
        *(uint64_t *)(void *)field = value;
    return true;
}

static void list_keys(const struct key *k, char why[LAB_WHY], const char *word)
{
    int at = snprintf(why, LAB_WHY, "\"%.40s\" is none of", word);

    for (; k->name && at < LAB_WHY; k++)
        at += snprintf(why + at, (size_t)(LAB_WHY - at), " %s", k->name);
}

bool lab_apply_key(enum lab_section section, void *object, const char *word, char why[LAB_WHY])
{
    const char *is = strchr(word, '=');
    size_t len = is ? (size_t)(is - word) : strlen(word);

    for (const struct key *k = sections[section]; k->name; k++) {
        if (strlen(k->name) != len || memcmp(k->name, word, len))
            continue;
        if (is && read_value(k, object, is + 1))
            return true;
        snprintf(why, LAB_WHY, "%s= takes %s%s", k->name, k->takes ? k->takes : takes[k->kind],
                 k->kind != OTHER && is ? ", in its range" : "");
        return false;
    }
    list_keys(sections[section], why, word);
    return false;
}
