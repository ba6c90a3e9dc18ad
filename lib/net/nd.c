/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour solicitations and advertisements (RFC 4861 7, RFC 4862 5.4). */
#include "encap_layout.h"
#include "net_internal.h"

#define ND_SOLICIT   135
#define ND_ADVERTISE 136
#define ND_LEN       24
#define ND_OPTION    8
#define ND_HOPS      255

#define OPTION_SOURCE_MAC 1
#define OPTION_TARGET_MAC 2

#define FLAG_SOLICITED 0x40
#define FLAG_OVERRIDE  0x20

static const union gid all_nodes = {.raw = {0xFF, 2, [15] = 1}};

/* ---- out ---- */

static void nd_send(struct net_host *h, const struct inet_tx *tx, uint8_t type, uint8_t flags,
                    const union gid *target, uint8_t option)
{
    uint8_t message[ND_LEN + ND_OPTION] = {type, [4] = flags};

    memcpy(message + 8, target->raw, 16);
    message[ND_LEN] = option;
    message[ND_LEN + 1] = ND_OPTION / 8;
    memcpy(message + ND_LEN + 2, h->cfg.mac, 6);
    if (host_send_ip(h, tx, message, ND_LEN + (option ? ND_OPTION : 0)))
        h->count.nd_tx++;
}

static struct inet_tx nd_tx(uint16_t vlan, const union gid *src, const union gid *dst)
{
    struct inet_tx tx = {
        .vlan = vlan, .src = *src, .dst = *dst, .proto = IP_PROTO_ICMPV6, .hop_limit = ND_HOPS};

    if (gid_is_multicast(dst))
        gid_multicast_mac(dst, tx.dmac);
    return tx;
}

void nd_ask(struct net_host *h, uint16_t vlan, const union gid *src, const union gid *addr,
            const uint8_t *mac)
{
    union gid group = inet_solicited_node(addr);
    struct inet_tx tx = nd_tx(vlan, src, mac ? addr : &group);

    if (mac)
        memcpy(tx.dmac, mac, 6);
    nd_send(h, &tx, ND_SOLICIT, 0, addr, OPTION_SOURCE_MAC);
}

void nd_probe(struct net_host *h, const struct net_address *a)
{
    union gid nobody = inet_unspecified(false), group = inet_solicited_node(&a->addr);
    struct inet_tx tx = nd_tx(a->vlan, &nobody, &group);

    nd_send(h, &tx, ND_SOLICIT, 0, &a->addr, 0);
}

void nd_announce(struct net_host *h, const struct net_address *a)
{
    struct inet_tx tx = nd_tx(a->vlan, &a->addr, &all_nodes);

    nd_send(h, &tx, ND_ADVERTISE, FLAG_OVERRIDE, &a->addr, OPTION_TARGET_MAC);
}

/* ---- in ---- */

struct nd_options {
    const uint8_t *source, *target; /* MACs, or NULL */
};

static bool nd_options(struct nd_options *o, const uint8_t *p, uint32_t len)
{
    *o = (struct nd_options){0};
    while (len) {
        uint32_t size = len < ND_OPTION ? 0 : p[1] * 8u;

        if (!size || size > len)
            return false;
        if (size == ND_OPTION && p[0] == OPTION_SOURCE_MAC)
            o->source = p + 2;
        if (size == ND_OPTION && p[0] == OPTION_TARGET_MAC)
            o->target = p + 2;
        p += size;
        len -= size;
    }
    return !(o->source && inet_mac_is_group(o->source)) &&
           !(o->target && inet_mac_is_group(o->target));
}

/* Answers the solicitation rx for target. mac: the solicitor's, as far as he gave it. */
static void answer(struct net_host *h, const struct inet_rx *rx, const union gid *target,
                   const uint8_t *mac)
{
    bool nobody = gid_is_zero(&rx->src);
    bool certain = address_find(h, target, rx->vlan)->state == NET_PREFERRED; /* RFC 4429 3.3 */
    struct inet_tx tx = nd_tx(rx->vlan, target, nobody ? &all_nodes : &rx->src);

    if (!nobody) {
        if (!mac)
            mac = ncache_mac(h, &rx->src, rx->vlan);
        /* To ask for it first would be of no use: this is where he is. */
        memcpy(tx.dmac, mac ? mac : rx->smac, 6);
    }
    nd_send(h, &tx, ND_ADVERTISE, (certain ? FLAG_OVERRIDE : 0) | (nobody ? 0 : FLAG_SOLICITED),
            target, OPTION_TARGET_MAC);
}

static enum inet_verdict rx_solicit(struct net_host *h, const struct inet_rx *rx,
                                    const union gid *target, const struct nd_options *o, ns_t now)
{
    bool nobody = gid_is_zero(&rx->src);
    struct own_address *own = address_find(h, target, rx->vlan);

    if (nobody) {
        union gid group = inet_solicited_node(target);

        /* 7.1.1 */
        if (o->source || !gid_eq(&rx->dst, &group))
            return INET_MALFORMED;
        if (own && own->phase == ADDRESS_DETECTING) {
            address_conflict(h, own, now);
            return INET_OK;
        }
    }
    if (!address_is_usable(h, target, rx->vlan))
        return INET_IGNORED;
    if (!nobody && address_is_usable(h, &rx->src, rx->vlan))
        return INET_IGNORED; /* from ourselves, says somebody else */
    if (o->source && host_mac_is_ours(h, o->source))
        return INET_IGNORED;
    if (o->source)
        ncache_learn(h, &rx->src, rx->vlan, o->source, false, true, now);
    if (!address_is_quiet(h, own))
        answer(h, rx, target, o->source);
    return INET_OK;
}

static enum inet_verdict rx_advertise(struct net_host *h, const struct inet_rx *rx,
                                      const union gid *target, const struct nd_options *o, ns_t now)
{
    uint8_t flags = rx->data[4];
    struct own_address *own = address_find(h, target, rx->vlan);

    if (gid_is_multicast(&rx->dst) && (flags & FLAG_SOLICITED))
        return INET_MALFORMED; /* 7.1.2 */
    if (own && own->state != NET_DUPLICATE) {
        address_conflict(h, own, now);
        return INET_OK;
    }
    if (o->target && host_mac_is_ours(h, o->target))
        return INET_IGNORED;
    ncache_advertised(h, target, rx->vlan, o->target, flags & FLAG_SOLICITED, flags & FLAG_OVERRIDE,
                      now);
    return INET_OK;
}

enum inet_verdict nd_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    struct nd_options options;
    union gid target;

    h->count.nd_rx++;
    if (rx->hop_limit != ND_HOPS || rx->data[1] || rx->len < ND_LEN ||
        !nd_options(&options, rx->data + ND_LEN, rx->len - ND_LEN))
        return INET_MALFORMED;
    memcpy(target.raw, rx->data + 8, 16);
    if (!inet_is_unicast(&target) || gid_is_ipv4(&target))
        return INET_MALFORMED;
    return rx->data[0] == ND_SOLICIT ? rx_solicit(h, rx, &target, &options, now)
                                     : rx_advertise(h, rx, &target, &options, now);
}
