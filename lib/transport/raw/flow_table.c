/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow rules in the order in which they are tried, one after the other: a rule costs a masked
 * compare of one cache line, and most compares end in the first word. That is quick for the dozens
 * of rules that programs have; a port with thousands would want a hash by mask.
 *
 * A rule is an entry that stays where it is, with its counts, while tables come and go: a table is
 * the entries' addresses, so that a change of a large one copies little.
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

/* Sniffers stand apart; default rules come last, and that for everything behind that for
 * multicast. */
static unsigned rank(const struct flow_rule *r)
{
    static const uint8_t ranks[] = {
        [FLOW_SNIFFER] = 0, [FLOW_NORMAL] = 1, [FLOW_MC_DEFAULT] = 2, [FLOW_ALL_DEFAULT] = 3};

    return ranks[r->type & 3];
}

static uint32_t order_of(const struct flow_rule *r)
{
    return rank(r) << 16 | r->priority;
}

static bool is_sniffer(const struct flow_entry *r)
{
    return r->order <= UINT16_MAX;
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
    r->order = order_of(rule);
    r->drop = rule->drop;
    r->is_default = rule->type == FLOW_ALL_DEFAULT || rule->type == FLOW_MC_DEFAULT;
}

struct flow_entry *flow_entry_create(const struct flow_rule *rule)
{
    size_t size = sizeof(struct flow_entry) + (is_deep(rule) ? sizeof(struct flow_deep_pair) : 0);
    struct flow_entry *r;

    size = round_up(size, CACHE_LINE);
    r = aligned_alloc(CACHE_LINE, size);
    if (!r)
        return NULL;
    memset(r, 0, size);
    fill_entry(r, rule);
    if (is_deep(rule)) {
        fill_deep(r->deep_pair, &rule->deep);
        r->deep = r->deep_pair;
    }
    return r;
}

void flow_entry_free(struct flow_entry *r)
{
    free(r);
}

struct flow_count flow_entry_count(const struct flow_entry *r)
{
    struct flow_count sum = {0};

    for (uint32_t lane = 0; lane < CQ_MAX_LANES; lane++) {
        sum.frames += counter_get(&r->taken[lane].frames);
        sum.bytes += counter_get(&r->taken[lane].bytes);
    }
    return sum;
}

/* ---- the table ---- */

/* In an empty place: no frame has this bit. */
static struct flow_entry nothing = {.value.headers = KEY_NEVER, .mask.headers = KEY_NEVER};

static void append(struct flow_table *t, struct flow_entry *r, bool sniffer)
{
    atomic_init(&t->entry[t->rules++], r);
    t->sniffers += sniffer;
}

/* Behind which of the places a rule belongs. It is sought from the end: most programs' rules are
 * equals, and each entry that is looked at is a miss of the cache. */
static unsigned place_for(const struct flow_table *t, const struct flow_entry *added)
{
    unsigned i = t->rules;

    for (; i; i--) {
        const struct flow_entry *r = flow_table_at(t, i - 1);

        if (r != &nothing && r->order <= added->order)
            break;
    }
    return i;
}

static void copy_places(struct flow_table *t, const struct flow_table *old, unsigned from,
                        unsigned to)
{
    unsigned n = t->rules, sniffers = t->sniffers;

    for (unsigned i = from; i < to; i++) {
        struct flow_entry *r = flow_table_at(old, i);

        atomic_init(&t->entry[n], r);
        n += r != &nothing;
        sniffers += r != &nothing && i < old->sniffers;
    }
    t->rules = n;
    t->sniffers = sniffers;
}

struct flow_table *flow_table_with(const struct flow_table *old, struct flow_entry *added)
{
    static const struct flow_table none;
    struct flow_table *t;
    unsigned place;

    if (!old)
        old = &none;
    t = malloc(sizeof(*t) + (old->rules + 1) * sizeof(t->entry[0]));
    if (!t)
        return NULL;
    t->rules = t->sniffers = 0;
    place = added ? place_for(old, added) : old->rules;
    copy_places(t, old, 0, place);
    if (added)
        append(t, added, is_sniffer(added));
    copy_places(t, old, place, old->rules);
    return t;
}

void flow_table_remove(struct flow_table *t, const struct flow_entry *r)
{
    for (unsigned i = 0; i < t->rules; i++)
        if (flow_table_at(t, i) == r)
            atomic_store_explicit(&t->entry[i], &nothing, memory_order_relaxed);
}

void flow_table_free(struct flow_table *t)
{
    free(t);
}

struct flow_entry *flow_table_match(const struct flow_table *t, struct flow_keys *keys)
{
    for (unsigned i = t->sniffers; i < t->rules; i++) {
        struct flow_entry *r = flow_table_at(t, i);

        if (flow_entry_matches(r, keys))
            return r;
    }
    return NULL;
}
