/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected and static routes. The connected ones are those of the addresses; nothing is kept. */
#ifndef UROCE_ROUTE_H
#define UROCE_ROUTE_H

#include "net_host.h"

struct route_table {
    unsigned len;
    struct net_route route[NET_ROUTE_MAX];
};

/* Whether addr is on the link: link-local, or in the network of an address on vlan. */
bool route_on_link(const struct net_host *h, const union gid *addr, uint16_t vlan);

/* 0 and the next hop, or -ENETUNREACH. */
int route_lookup(const struct net_host *h, const union gid *dst, uint16_t vlan,
                 union gid *next_hop);

#endif
