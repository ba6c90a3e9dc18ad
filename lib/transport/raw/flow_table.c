/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow rules in the order in which they are tried, one after the other: a rule costs a masked
 * compare of one cache line, and most compares end in the first word. That is quick for the dozens
 * of rules that programs have; a port with thousands would want a hash by mask.
 */
#include <stdlib.h>

#include "raw_private.h"

/* The headers that a match asks for by its fields. */
static uint32_t headers_of(const struct flow_match *m)
{
    static const uint8_t none[16], mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    uint32_t headers = m->headers;
    bool src = memcmp(m->mask.src, none, 16), dst = memcmp(m->mask.dst, none, 16);

    if (m->mask.vlan_tci)
        headers |= FLOW_HAS_VLAN;
    if (src || dst || m->mask.traffic_class || m->mask.hop_limit || m->mask.next_header)
        headers |= KEY_HAS_IP;
    /* An IPv6 packet whose address looks like that is none of IPv4's, unless IPv6 is asked for. */
    if (!(headers & FLOW_HAS_IPV6) && ((src && !memcmp(m->value.src, mapped, sizeof(mapped))) ||
                                       (dst && !memcmp(m->value.dst, mapped, sizeof(mapped)))))
        headers |= FLOW_HAS_IPV4;
    if (m->mask.ipv4_flags)
        headers |= FLOW_HAS_IPV4;
    if (m->mask.flow_label)
        headers |= FLOW_HAS_IPV6;
    if (m->mask.sport || m->mask.dport)
        headers |= KEY_HAS_PORTS;
    return headers;
}

/* As headers_of. */
static uint32_t tunnels_of(const struct flow_deep *d)
{
    const struct flow_deep_fields *m = &d->mask;
    uint32_t tunnels = d->tunnels;

    if (m->vni)
        tunnels |= FLOW_HAS_VXLAN;
    if (m->gre_flags || m->gre_protocol || m->gre_key)
        tunnels |= FLOW_HAS_GRE;
    if (m->gre_key)
        tunnels |= KEY_HAS_GRE_KEY;
    if (m->mpls)
        tunnels |= FLOW_HAS_MPLS;
    if (m->esp_spi || m->esp_seq)
        tunnels |= FLOW_HAS_ESP;
    return tunnels;
}

static bool is_deep(const struct flow_rule *rule)
{
    static const struct flow_deep none;

    return memcmp(&rule->deep, &none, sizeof(none));
}

static void fill_deep(struct flow_deep_pair *pair, const struct flow_deep *d)
{
    struct flow_match inner = {
        .headers = d->inner_headers, .value = d->value.inner, .mask = d->mask.inner};

    _Static_assert(sizeof(d->value) == offsetof(union flow_deep_key, tunnels), "the same fields");
    *pair = (struct flow_deep_pair){0};
    memcpy(&pair->value, &d->value, sizeof(d->value));
    memcpy(&pair->mask, &d->mask, sizeof(d->mask));
    pair->value.tunnels = pair->mask.tunnels = tunnels_of(d);
    pair->value.inner_headers = pair->mask.inner_headers = headers_of(&inner);
}

static void fill_entry(struct flow_entry *r, const struct flow_rule *rule)
{
    const struct flow_match *m = &rule->match;

    _Static_assert(sizeof(m->value) == offsetof(union flow_key, headers), "the same fields");
    memcpy(&r->value, &m->value, sizeof(m->value));
    memcpy(&r->mask, &m->mask, sizeof(m->mask));
    r->value.headers = headers_of(m) | (rule->type == FLOW_MC_DEFAULT ? KEY_MULTICAST : 0);
    r->mask.headers = r->value.headers;
    r->qp = rule->qp;
    r->tag = rule->tagged ? rule->tag : 0;
    r->drop = rule->drop;
    r->is_default = rule->type == FLOW_ALL_DEFAULT || rule->type == FLOW_MC_DEFAULT;
}

/* Sniffers stand apart; default rules come last, and that for everything behind that for
 * multicast. */
static unsigned rank(const struct flow_rule *r)
{
    static const uint8_t ranks[] = {
        [FLOW_SNIFFER] = 0, [FLOW_NORMAL] = 1, [FLOW_MC_DEFAULT] = 2, [FLOW_ALL_DEFAULT] = 3};

    return ranks[r->type & 3];
}

/* The order in which rules are tried, as numbers: by rank and priority, among equals by place. */
static uint64_t sort_key(const struct flow_rule *rule, unsigned i)
{
    return (uint64_t)rank(&rule[i]) << 48 | (uint64_t)rule[i].priority << 32 | i;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The sorted keys of the rules; their lower halves are the rules' indices. NULL: out of memory. */
static uint64_t *sort(const struct flow_rule *rule, unsigned rules)
{
    uint64_t *key = malloc(max_of(rules, 1u) * sizeof(*key));

    for (unsigned i = 0; key && i < rules; i++)
        key[i] = sort_key(rule, i);
    if (key)
        qsort(key, rules, sizeof(*key), compare_keys);
    return key;
}

static void fill(struct flow_table *t, const struct flow_rule *rule, const uint64_t *key)
{
    for (unsigned place = 0; place < t->rules; place++) {
        uint32_t i = (uint32_t)key[place];

        t->place[i] = t->entry[place].place = place;
        t->sniffers += rule[i].type == FLOW_SNIFFER;
        fill_entry(&t->entry[place], &rule[i]);
        if (is_deep(&rule[i])) {
            fill_deep(&t->deep[t->deep_rules], &rule[i].deep);
            t->entry[place].deep = &t->deep[t->deep_rules++];
        }
    }
}

static unsigned count_deep(const struct flow_rule *rule, unsigned rules)
{
    unsigned n = 0;

    for (unsigned i = 0; i < rules; i++)
        n += is_deep(&rule[i]);
    return n;
}

struct flow_table *flow_table_create(const struct flow_rule *rule, unsigned rules)
{
    struct flow_table *t = calloc(1, sizeof(*t) + rules * sizeof(t->entry[0]));
    size_t stride = round_up(max_of(rules, 1u), CACHE_LINE / sizeof(struct flow_taken));
    uint64_t *key;

    if (!t)
        return NULL;
    t->rules = rules;
    t->lane_stride = stride;
    t->place = calloc(max_of(rules, 1u), sizeof(t->place[0]));
    t->taken = aligned_alloc(CACHE_LINE, CQ_MAX_LANES * stride * sizeof(t->taken[0]));
    t->deep = calloc(max_of(count_deep(rule, rules), 1u), sizeof(t->deep[0]));
    key = sort(rule, rules);
    if (!t->deep || !t->place || !t->taken || !key) {
        free(key);
        flow_table_free(t);
        return NULL;
    }
    memset(t->taken, 0, CQ_MAX_LANES * stride * sizeof(t->taken[0]));
    fill(t, rule, key);
    free(key);
    return t;
}

void flow_table_free(struct flow_table *t)
{
    if (!t)
        return;
    free(t->deep);
    free(t->place);
    free(t->taken);
    free(t);
}

struct flow_count flow_table_count(const struct flow_table *t, unsigned rule)
{
    struct flow_count sum = {0};

    for (uint32_t lane = 0; lane < CQ_MAX_LANES; lane++) {
        const struct flow_taken *taken = &t->taken[lane * t->lane_stride + t->place[rule]];

        sum.frames += counter_get(&taken->frames);
        sum.bytes += counter_get(&taken->bytes);
    }
    return sum;
}

const struct flow_entry *flow_table_match(const struct flow_table *t, const struct flow_keys *keys)
{
    for (unsigned i = t->sniffers; i < t->rules; i++)
        if (flow_entry_matches(&t->entry[i], keys))
            return &t->entry[i];
    return NULL;
}
