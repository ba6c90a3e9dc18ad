/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes neighbour solicitations and advertisements, those of duplicate address detection among
 * them. */
#include "nd.h"

static const union gid all_nodes = {.raw = {0xFF, 2, [15] = 1}};

static void nd_send(struct net_port *p, const struct inet_tx *tx, uint8_t type, uint8_t flags,
                    const union gid *target, uint8_t option)
{
    uint8_t message[ND_LEN + ND_OPTION] = {type, [4] = flags};

    memcpy(message + 8, target->raw, 16);
    message[ND_LEN] = option;
    message[ND_LEN + 1] = ND_OPTION / 8;
    memcpy(message + ND_LEN + 2, p->cfg.mac, 6);
    if (net_port_send_ip(p, tx, message, ND_LEN + (option ? ND_OPTION : 0)))
        p->count.nd_tx++;
}

static struct inet_tx nd_tx(uint16_t vlan, const union gid *src, const union gid *dst)
{
    struct inet_tx tx = {
        .vlan = vlan, .src = *src, .dst = *dst, .proto = IP_PROTO_ICMPV6, .hop_limit = ND_HOPS};

    if (gid_is_multicast(dst))
        gid_multicast_mac(dst, tx.dmac);
    return tx;
}

void nd_solicit(struct net_port *p, uint16_t vlan, const union gid *src, const union gid *addr,
                const uint8_t *mac)
{
    union gid group = inet_solicited_node(addr);
    struct inet_tx tx = nd_tx(vlan, src, mac ? addr : &group);

    if (mac)
        memcpy(tx.dmac, mac, 6);
    nd_send(p, &tx, ND_SOLICIT, 0, addr, ND_OPTION_SOURCE_MAC);
}

void nd_probe(struct net_port *p, const struct net_address *a)
{
    union gid unspecified = inet_unspecified(false), group = inet_solicited_node(&a->addr);
    struct inet_tx tx = nd_tx(a->vlan, &unspecified, &group);

    nd_send(p, &tx, ND_SOLICIT, 0, &a->addr, 0);
}

void nd_announce(struct net_port *p, const struct net_address *a)
{
    struct inet_tx tx = nd_tx(a->vlan, &a->addr, &all_nodes);

    nd_send(p, &tx, ND_ADVERTISE, ND_OVERRIDE, &a->addr, ND_OPTION_TARGET_MAC);
}

void nd_advertise(struct net_port *p, uint16_t vlan, const union gid *target, const union gid *to,
                  const uint8_t mac[6], bool override)
{
    struct inet_tx tx = nd_tx(vlan, target, to ? to : &all_nodes);

    if (to)
        memcpy(tx.dmac, mac, 6);
    nd_send(p, &tx, ND_ADVERTISE, (override ? ND_OVERRIDE : 0) | (to ? ND_SOLICITED : 0), target,
            ND_OPTION_TARGET_MAC);
}
