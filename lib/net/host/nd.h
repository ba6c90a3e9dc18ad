/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery (RFC 4861 7, RFC 4862 5.4): nd_send.c writes its messages, nd.c acts on those
 * received. */
#ifndef UROCE_NET_ND_H
#define UROCE_NET_ND_H

#include "net_port.h"

#define ND_SOLICIT   135
#define ND_ADVERTISE 136
#define ND_LEN       24
#define ND_OPTION    8
#define ND_HOPS      255

#define ND_OPTION_SOURCE_MAC 1
#define ND_OPTION_TARGET_MAC 2

#define ND_SOLICITED 0x40
#define ND_OVERRIDE  0x20

/* Requests the MAC of addr: by multicast, or with mac from that neighbour only. */
void nd_solicit(struct net_port *p, uint16_t vlan, const union gid *src, const union gid *addr,
                const uint8_t *mac);
/* Answers for target to the host `to`, which has mac; to all hosts if `to` is NULL. */
void nd_advertise(struct net_port *p, uint16_t vlan, const union gid *target, const union gid *to,
                  const uint8_t mac[6], bool override);
void nd_probe(struct net_port *p, const struct net_address *a);
void nd_announce(struct net_port *p, const struct net_address *a);

enum inet_verdict nd_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);

#endif
