/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP: arp_send.c writes its packets, arp.c acts on those received. */
#ifndef UROCE_NET_ARP_H
#define UROCE_NET_ARP_H

#include "net_port.h"

#define ARP_LEN       28
#define ARP_FIXED_LEN 6
#define ARP_REQUEST   1
#define ARP_REPLY     2

/* The first bytes of each packet: Ethernet, IPv4 and the lengths of their addresses. */
extern const uint8_t arp_fixed[ARP_FIXED_LEN];

/* Requests the MAC of addr: by broadcast, or with mac from that neighbour only. src may be
 * unspecified. */
void arp_request(struct net_port *p, uint16_t vlan, const union gid *src, const union gid *addr,
                 const uint8_t *mac);
/* Answers for addr to the host `to`, which has mac. */
void arp_reply(struct net_port *p, uint16_t vlan, const union gid *addr, const uint8_t mac[6],
               const union gid *to);
void arp_probe(struct net_port *p, const struct net_address *a);
void arp_announce(struct net_port *p, const struct net_address *a);

enum inet_verdict arp_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);

#endif
