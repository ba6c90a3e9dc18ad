/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected and static routes. The connected routes are those of the addresses; the table has the
 * static ones, by gateways or on the link. */
#ifndef UROCE_ROUTE_H
#define UROCE_ROUTE_H

#include "address.h"

struct route_table {
    const struct address_table *addresses;
    unsigned len;
    struct net_route route[NET_ROUTE_MAX];
};

/* As the functions of net_host.h. */
int route_add(struct route_table *t, const struct net_route *r);
int route_remove(struct route_table *t, const struct net_route *r);
void route_each(const struct route_table *t, void *ctx,
                void (*visit)(void *ctx, const struct net_route *r, bool connected));

struct route_choice {
    union gid next_hop;
    bool by_source; /* as net_route.by_source */
};

/* The route's prefix length, or -ENETUNREACH. */
int route_lookup(const struct route_table *t, const union gid *dst, uint16_t vlan,
                 struct route_choice *c);

#endif
