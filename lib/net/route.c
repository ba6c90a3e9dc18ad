/* SPDX-License-Identifier: BSD-3-Clause */
#include "route.h"

#include <errno.h>

#include "net_internal.h"

/* A network of the host's own; one whose address is somebody else's is not to be reached. */
static bool is_connected(const struct own_address *o, uint16_t vlan)
{
    return o->used && o->a.vlan == vlan && o->state != NET_DUPLICATE;
}

/* The bits of the longest connected network that holds addr, or -1. */
static int connected_bits(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    int best = -1;

    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &h->address[i];

        if (is_connected(o, vlan) && inet_same_prefix(&o->a.addr, addr, o->a.prefix))
            best = max_of(best, (int)o->a.prefix);
    }
    return best;
}

bool route_on_link(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    return inet_is_link_local(addr) || connected_bits(h, addr, vlan) >= 0;
}

int route_lookup(const struct net_host *h, const union gid *dst, uint16_t vlan, union gid *next_hop)
{
    int best;

    *next_hop = *dst;
    if (inet_is_link_local(dst))
        return 0;
    best = connected_bits(h, dst, vlan);
    for (unsigned i = 0; i < h->routes.len; i++) {
        const struct net_route *r = &h->routes.route[i];

        if (r->vlan == vlan && (int)r->prefix > best && inet_same_prefix(&r->dst, dst, r->prefix) &&
            route_on_link(h, &r->via, vlan)) {
            best = r->prefix;
            *next_hop = r->via;
        }
    }
    return best < 0 ? -ENETUNREACH : 0;
}

/* r with the bits behind the prefix cleared. */
static struct net_route normalized(const struct net_route *r)
{
    struct net_route n = *r;
    unsigned from = gid_is_ipv4(&r->dst) ? 12 : 0;

    for (unsigned bit = n.prefix; bit < (16 - from) * 8; bit++)
        n.dst.raw[from + bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    return n;
}

/* By what it is for; -1: there is none. */
static int find_route(const struct net_host *h, const struct net_route *r)
{
    for (unsigned i = 0; i < h->routes.len; i++) {
        const struct net_route *o = &h->routes.route[i];

        if (o->vlan == r->vlan && o->prefix == r->prefix && gid_eq(&o->dst, &r->dst))
            return (int)i;
    }
    return -1;
}

static bool is_valid(const struct net_host *h, const struct net_route *r)
{
    bool ipv4 = gid_is_ipv4(&r->dst);

    return r->prefix <= (ipv4 ? 32 : 128) && gid_is_ipv4(&r->via) == ipv4 &&
           !gid_is_multicast(&r->dst) && host_vlan_is_valid(r->vlan) && inet_is_unicast(&r->via) &&
           route_on_link(h, &r->via, r->vlan) &&
           !address_find((struct net_host *)h, &r->via, r->vlan);
}

int net_host_add_route(struct net_host *h, const struct net_route *r)
{
    struct net_route n;

    if (!is_valid(h, r))
        return -EINVAL;
    n = normalized(r);
    if (find_route(h, &n) >= 0)
        return -EEXIST;
    if (h->routes.len == NET_ROUTE_MAX)
        return -ENOSPC;
    h->routes.route[h->routes.len++] = n;
    return 0;
}

int net_host_remove_route(struct net_host *h, const struct net_route *r)
{
    struct net_route n;
    int i;

    if (r->prefix > (gid_is_ipv4(&r->dst) ? 32 : 128))
        return -ENOENT;
    n = normalized(r);
    i = find_route(h, &n);
    if (i < 0 || !gid_eq(&h->routes.route[i].via, &r->via))
        return -ENOENT;
    h->routes.route[i] = h->routes.route[--h->routes.len];
    return 0;
}

/* Whether an earlier address is in the same network. */
static bool is_repeated(const struct net_host *h, unsigned index)
{
    const struct net_address *a = &h->address[index].a;

    for (unsigned i = 0; i < index; i++) {
        const struct own_address *o = &h->address[i];

        if (is_connected(o, a->vlan) && o->a.prefix == a->prefix &&
            inet_same_prefix(&o->a.addr, &a->addr, a->prefix))
            return true;
    }
    return false;
}

void net_host_each_route(const struct net_host *h, void *ctx,
                         void (*visit)(void *ctx, const struct net_route *r, bool connected))
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct net_address *a = &h->address[i].a;
        struct net_route r = {.dst = a->addr, .prefix = a->prefix, .vlan = a->vlan};

        if (!is_connected(&h->address[i], a->vlan) || is_repeated(h, i))
            continue;
        r.via = inet_unspecified(gid_is_ipv4(&a->addr));
        r = normalized(&r);
        visit(ctx, &r, true);
    }
    for (unsigned i = 0; i < h->routes.len; i++)
        visit(ctx, &h->routes.route[i], false);
}
