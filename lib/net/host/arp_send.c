/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes ARP packets (RFC 826), those of IPv4 address conflict detection (RFC 5227) among them. */
#include "arp.h"
#include "encap_layout.h"

const uint8_t arp_fixed[ARP_FIXED_LEN] = {0, 1, 0x08, 0, 6, 4};

static const uint8_t broadcast[6] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

static void arp_send(struct net_port *p, uint16_t vlan, const uint8_t *dmac, uint16_t op,
                     const union gid *spa, const uint8_t *tha, const union gid *tpa)
{
    uint8_t frame[ETH_LEN + VLAN_LEN + ARP_LEN];
    uint32_t at = inet_put_ethernet(frame, dmac, p->cfg.mac, vlan, ETHERTYPE_ARP);
    uint8_t *arp = frame + at;

    memcpy(arp, arp_fixed, ARP_FIXED_LEN);
    put_be16(arp + 6, op);
    memcpy(arp + 8, p->cfg.mac, 6);
    memcpy(arp + 14, spa->raw + 12, 4);
    memcpy(arp + 18, tha, 6);
    memcpy(arp + 24, tpa->raw + 12, 4);
    if (net_port_send(p, frame, at + ARP_LEN))
        p->count.arp_tx++;
}

void arp_request(struct net_port *p, uint16_t vlan, const union gid *src, const union gid *addr,
                 const uint8_t *mac)
{
    arp_send(p, vlan, mac ? mac : broadcast, ARP_REQUEST, src, (const uint8_t[6]){0}, addr);
}

void arp_reply(struct net_port *p, uint16_t vlan, const union gid *addr, const uint8_t mac[6],
               const union gid *to)
{
    arp_send(p, vlan, mac, ARP_REPLY, addr, mac, to);
}

void arp_probe(struct net_port *p, const struct net_address *a)
{
    union gid unspecified = inet_unspecified(true);

    arp_request(p, a->vlan, &unspecified, &a->addr, NULL);
}

void arp_announce(struct net_port *p, const struct net_address *a)
{
    arp_request(p, a->vlan, &a->addr, &a->addr, NULL);
}
