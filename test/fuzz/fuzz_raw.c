/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a received frame: parsed for flow rules and hashes. Four bytes before it select a
 * byte of the fields that a rule compares, how, and the fields of a hash.
 */
#include <stdlib.h>
#include <string.h>

#include "frame_csum.h"
#include "frame_peek.h"
#include "fuzz.h"
#include "raw_private.h"

#define L4 (FLOW_HAS_TCP | FLOW_HAS_UDP)
#define IP (FLOW_HAS_IPV4 | FLOW_HAS_IPV6)

static bool all_zero(const void *p, size_t len)
{
    const uint8_t *bytes = p;

    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/* No header without the one it lies in, and no field without its header. */
static void check_key(const union flow_key *k, size_t size)
{
    uint32_t ip = k->headers & IP, l4 = k->headers & L4;

    REQUIRE(ip != IP && l4 != L4);
    REQUIRE(!l4 == !(k->headers & KEY_HAS_PORTS) && !ip == !(k->headers & KEY_HAS_IP));
    REQUIRE(!l4 || ip);
    REQUIRE(!(k->headers & FLOW_HAS_VLAN) || size >= 18);
    REQUIRE(!(k->headers & FLOW_HAS_IPV4) || size >= 34);
    REQUIRE(!(k->headers & FLOW_HAS_IPV6) || size >= 54);
    REQUIRE(!(k->headers & FLOW_HAS_TCP) || k->next_header == 6);
    REQUIRE(!(k->headers & FLOW_HAS_UDP) || k->next_header == 17);
    REQUIRE((k->headers & FLOW_HAS_VLAN) || !k->vlan_tci);
    REQUIRE(l4 || (!k->sport && !k->dport));
    REQUIRE((k->headers & FLOW_HAS_IPV6) || !k->flow_label);
    REQUIRE((k->headers & FLOW_HAS_IPV4) || !k->ipv4_flags);
    REQUIRE(ip || (all_zero(k->src, 32) && !k->traffic_class && !k->hop_limit && !k->next_header));
    REQUIRE(size >= 14 || all_zero(k, sizeof(*k)));
}

struct one_rule {
    struct flow_entry *entry;
    struct flow_table *table;
};

static struct one_rule begin_rule(const struct flow_rule *rule)
{
    struct one_rule r = {.entry = flow_entry_create(rule)};

    REQUIRE(r.entry);
    r.table = flow_table_with(NULL, r.entry);
    REQUIRE(r.table);
    return r;
}

static void end_rule(const struct one_rule *r)
{
    flow_table_free(r->table);
    flow_entry_free(r->entry);
}

/* A rule of the frame's own fields matches it; with one bit changed it does not. */
static void check_rule(struct flow_keys *keys, uint8_t place, uint8_t mask, uint8_t type)
{
    const union flow_key *k = &keys->outer;
    struct flow_rule rule = {.type = (enum flow_type)(type % 4)};
    struct one_rule r;
    bool found;

    memcpy(&rule.match.value, k, sizeof(rule.match.value));
    rule.match.headers = k->headers & 0xFF;
    r = begin_rule(&rule);
    found = flow_table_match(r.table, keys);
    if (rule.type == FLOW_SNIFFER)
        REQUIRE(!found && flow_entry_matches(r.entry, keys));
    else
        REQUIRE(found == (rule.type != FLOW_MC_DEFAULT || (k->dmac[0] & 1)));
    end_rule(&r);
    if (!mask)
        return;
    place %= sizeof(rule.match.value);
    ((uint8_t *)&rule.match.mask)[place] = mask;
    ((uint8_t *)&rule.match.value)[place] ^= mask & -mask;
    r = begin_rule(&rule);
    REQUIRE(!flow_table_match(r.table, keys) && !flow_entry_matches(r.entry, keys));
    end_rule(&r);
}

/* As check_key, for tunnels and what is inside. */
static void check_deep_key(const union flow_deep_key *d, size_t size)
{
    const uint32_t alone = FLOW_HAS_VXLAN | FLOW_HAS_ESP;
    uint32_t ip = d->inner_headers & IP, l4 = d->inner_headers & L4;

    REQUIRE(!(d->tunnels & alone) || !(d->tunnels & (d->tunnels - 1)));
    REQUIRE(ip != IP && l4 != L4 && (!l4 || ip) && !d->zero);
    REQUIRE(!(d->tunnels & FLOW_HAS_ESP) || (size >= 42 && !d->inner_headers));
    REQUIRE(!d->inner_headers || d->tunnels);
    REQUIRE(!(d->tunnels & FLOW_HAS_VXLAN) || size >= 50);
    REQUIRE((d->tunnels & FLOW_HAS_VXLAN) || !d->vni);
    REQUIRE((d->tunnels & FLOW_HAS_GRE) || (!d->gre_flags && !d->gre_protocol && !d->gre_key));
    REQUIRE((d->tunnels & KEY_HAS_GRE_KEY) || !d->gre_key);
    REQUIRE((d->tunnels & FLOW_HAS_MPLS) || !d->mpls);
    REQUIRE((d->tunnels & FLOW_HAS_ESP) || (!d->esp_spi && !d->esp_seq));
    REQUIRE(d->inner_headers || all_zero(&d->inner, sizeof(d->inner)));
}

/* As check_rule. */
static void check_deep_rule(struct flow_keys *keys, uint8_t place, uint8_t mask)
{
    struct flow_rule rule = {.type = FLOW_NORMAL};
    struct one_rule r;

    memcpy(&rule.deep.value, &keys->deep, sizeof(rule.deep.value));
    rule.deep.tunnels = keys->deep.tunnels & 0xFF;
    rule.deep.inner_headers = keys->deep.inner_headers & 0xFF;
    r = begin_rule(&rule);
    REQUIRE(flow_table_match(r.table, keys) == r.entry);
    end_rule(&r);
    if (!mask)
        return;
    place %= sizeof(rule.deep.value);
    ((uint8_t *)&rule.deep.mask)[place] = mask;
    ((uint8_t *)&rule.deep.value)[place] ^= mask & -mask;
    r = begin_rule(&rule);
    REQUIRE(r.entry->deep && !flow_table_match(r.table, keys));
    end_rule(&r);
}

static void check_hash(const union flow_key *k, uint8_t fields)
{
    struct rx_hash hash = {.function = RSS_TOEPLITZ, .fields = fields};
    struct rx_spread *s;

    if (!rx_hash_fields_valid(fields))
        return;
    memcpy(hash.key, toeplitz_key_microsoft, sizeof(hash.key));
    s = rx_spread_create(&hash, NULL);
    REQUIRE(s);
    if ((k->headers & s->headers) != s->headers)
        REQUIRE(!rx_spread_hash(s, k));
    else
        (void)rx_spread_hash(s, k);
    free(s);
}

/* Written checksums are right, and stay so. */
static void check_sums(const union flow_key *k, uint8_t *frame, uint32_t len)
{
    bool was_right = frame_csum_is_right(frame, len), is_right;
    uint8_t *once = malloc(len + !len);

    REQUIRE(once);
    frame_csum_write(frame, len);
    is_right = frame_csum_is_right(frame, len);
    REQUIRE(is_right || !was_right);
    REQUIRE(!is_right || (k->headers & FLOW_HAS_IPV4 && k->headers & KEY_HAS_PORTS));
    memcpy(once, frame, len);
    frame_csum_write(frame, len);
    REQUIRE(!memcmp(once, frame, len));
    free(once);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flow_keys keys;
    uint8_t *frame;

    if (size < 4)
        return 0;
    frame = malloc(size - 4 ? size - 4 : 1);
    REQUIRE(frame);
    memcpy(frame, data + 4, size - 4);
    flow_keys_parse(&keys, &(struct frame){.data = frame, .len = (uint32_t)(size - 4)});
    flow_keys_deep(&keys);
    check_key(&keys.outer, size - 4);
    check_deep_key(&keys.deep, size - 4);
    check_rule(&keys, data[0], data[1], data[2]);
    check_deep_rule(&keys, data[0], data[1]);
    check_hash(&keys.outer, data[3]);
    check_sums(&keys.outer, frame, (uint32_t)(size - 4));
    REQUIRE(frame_priority(frame, (uint32_t)(size - 4)) < QOS_PRIORITIES);
    free(frame);
    return 0;
}
