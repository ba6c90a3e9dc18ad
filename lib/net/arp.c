/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP (RFC 826), and the packets of IPv4 address conflict detection (RFC 5227). */
#include "encap_layout.h"
#include "net_internal.h"

#define ARP_LEN     28
#define ARP_REQUEST 1
#define ARP_REPLY   2

static const uint8_t broadcast[6] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
static const uint8_t fixed[6] = {0, 1, 0x08, 0, 6, 4}; /* Ethernet, IPv4 and their lengths */

static void arp_send(struct net_host *h, uint16_t vlan, const uint8_t *dmac, uint16_t op,
                     const union gid *spa, const uint8_t *tha, const union gid *tpa)
{
    uint8_t frame[ETH_LEN + VLAN_LEN + ARP_LEN];
    uint32_t at = inet_put_ethernet(frame, dmac, h->cfg.mac, vlan, ETHERTYPE_ARP);
    uint8_t *arp = frame + at;

    memcpy(arp, fixed, sizeof(fixed));
    put_be16(arp + 6, op);
    memcpy(arp + 8, h->cfg.mac, 6);
    memcpy(arp + 14, spa->raw + 12, 4);
    memcpy(arp + 18, tha, 6);
    memcpy(arp + 24, tpa->raw + 12, 4);
    if (host_send(h, frame, at + ARP_LEN))
        h->count.arp_tx++;
}

void arp_ask(struct net_host *h, uint16_t vlan, const union gid *src, const union gid *addr,
             const uint8_t *mac)
{
    arp_send(h, vlan, mac ? mac : broadcast, ARP_REQUEST, src, (const uint8_t[6]){0}, addr);
}

void arp_probe(struct net_host *h, const struct net_address *a)
{
    union gid nobody = inet_unspecified(true);

    arp_ask(h, a->vlan, &nobody, &a->addr, NULL);
}

void arp_announce(struct net_host *h, const struct net_address *a)
{
    arp_ask(h, a->vlan, &a->addr, &a->addr, NULL);
}

/* A packet whose sender, or a probe whose target, may be an address of ours. True: it was. */
static bool is_conflict(struct net_host *h, const union gid *spa, const union gid *tpa,
                        uint16_t vlan, ns_t now)
{
    bool probe = inet_is_unspecified(spa);
    struct own_address *o = address_find(h, probe ? tpa : spa, vlan);

    /* A probe for an address in use is a question to be answered. */
    if (!o || o->state == NET_DUPLICATE || (probe && o->phase != ADDRESS_DETECTING))
        return false;
    address_conflict(h, o, now);
    return true;
}

enum inet_verdict arp_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    const uint8_t *arp = rx->data, *sha = arp + 8;
    bool aimed, request;
    union gid spa, tpa;

    if (rx->len < ARP_LEN || !inet_rest_is_padding(ARP_LEN, rx->len))
        return INET_MALFORMED;
    h->count.arp_rx++;
    if (memcmp(arp, fixed, sizeof(fixed)))
        return INET_IGNORED; /* of another protocol or medium */
    request = get_be16(arp + 6) == ARP_REQUEST;
    if (!request && get_be16(arp + 6) != ARP_REPLY)
        return INET_IGNORED;
    if (host_mac_is_ours(h, sha))
        return INET_IGNORED; /* our own, come back */
    spa = gid_from_ipv4(arp + 14);
    tpa = gid_from_ipv4(arp + 24);
    if (inet_mac_is_group(sha) || !memcmp(sha, (const uint8_t[6]){0}, 6) ||
        (!inet_is_unspecified(&spa) && !inet_is_unicast(&spa)))
        return INET_MALFORMED;
    if (is_conflict(h, &spa, &tpa, rx->vlan, now))
        return INET_OK;
    aimed = address_is_usable(h, &tpa, rx->vlan);
    if (!inet_is_unspecified(&spa))
        ncache_learn(h, &spa, rx->vlan, sha, !request && host_mac_is_ours(h, rx->dmac),
                     request && aimed, now);
    if (!request || !aimed)
        return request ? INET_IGNORED : INET_OK;
    if (!address_is_quiet(h, address_find(h, &tpa, rx->vlan)))
        arp_send(h, rx->vlan, sha, ARP_REPLY, &tpa, sha, &spa);
    return INET_OK;
}
