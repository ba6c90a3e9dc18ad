/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive-side scaling of a queue pair: its hash over the fields that it chose. */
#include <stdlib.h>

#include "raw_private.h"

static const struct {
    uint32_t field;   /* enum rx_hash_field */
    uint32_t headers; /* enum flow_header */
    unsigned rss;     /* RSS_SRC_ADDRESS and others */
} fields[] = {
    {RX_HASH_SRC_IPV4, FLOW_HAS_IPV4, RSS_SRC_ADDRESS},
    {RX_HASH_DST_IPV4, FLOW_HAS_IPV4, RSS_DST_ADDRESS},
    {RX_HASH_SRC_IPV6, FLOW_HAS_IPV6, RSS_SRC_ADDRESS},
    {RX_HASH_DST_IPV6, FLOW_HAS_IPV6, RSS_DST_ADDRESS},
    {RX_HASH_SRC_PORT_TCP, FLOW_HAS_TCP, RSS_SRC_PORT},
    {RX_HASH_DST_PORT_TCP, FLOW_HAS_TCP, RSS_DST_PORT},
    {RX_HASH_SRC_PORT_UDP, FLOW_HAS_UDP, RSS_SRC_PORT},
    {RX_HASH_DST_PORT_UDP, FLOW_HAS_UDP, RSS_DST_PORT},
};

bool rx_hash_fields_valid(uint32_t chosen)
{
    const uint32_t ipv4 = RX_HASH_SRC_IPV4 | RX_HASH_DST_IPV4;
    const uint32_t ipv6 = RX_HASH_SRC_IPV6 | RX_HASH_DST_IPV6;
    const uint32_t tcp = RX_HASH_SRC_PORT_TCP | RX_HASH_DST_PORT_TCP;
    const uint32_t udp = RX_HASH_SRC_PORT_UDP | RX_HASH_DST_PORT_UDP;

    return !(chosen & ~RX_HASH_FIELDS) && !((chosen & ipv4) && (chosen & ipv6)) &&
           !((chosen & tcp) && (chosen & udp));
}

struct rx_spread *rx_spread_create(const struct rx_hash *hash, struct rwq_ind *ind)
{
    struct rx_spread *s = calloc(1, sizeof(*s));
    unsigned rss = 0;

    if (!s)
        return NULL;
    s->ind = ind;
    for (unsigned i = 0; i < ARRAY_SIZE(fields); i++)
        if (hash->fields & fields[i].field) {
            s->headers |= fields[i].headers;
            rss |= fields[i].rss;
        }
    s->looked_at = s->headers | (s->headers & (FLOW_HAS_TCP | FLOW_HAS_UDP) ? KEY_FRAGMENT : 0);
    if (hash->function == RSS_XOR)
        rss_init_xor(&s->rss, rss);
    else
        rss_init_toeplitz(&s->rss, hash->key, rss);
    return s;
}

uint32_t rx_spread_hash(const struct rx_spread *s, const union flow_key *key)
{
    struct rss_tuple t;

    if ((key->headers & s->looked_at) != s->headers)
        return 0;
    memcpy(t.src.raw, key->src, sizeof(t.src.raw));
    memcpy(t.dst.raw, key->dst, sizeof(t.dst.raw));
    t.sport = __builtin_bswap16(key->sport);
    t.dport = __builtin_bswap16(key->dport);
    return rss_hash(&s->rss, &t);
}

struct wq *rx_spread_wq(const struct rx_spread *s, const union flow_key *key)
{
    const struct rwq_entries *entries =
        atomic_load_explicit(&s->ind->entries, memory_order_acquire);

    return entries->wq[rx_spread_hash(s, key) & (entries->size - 1)];
}
