/* SPDX-License-Identifier: BSD-3-Clause */
/* See route.h. */
#include "route.h"

#include <errno.h>

#include "inet.h"

#define LINK_LOCAL_BITS 64

/* 127.0.0.0/8 and ::1, which are the host's own wherever it has them. */
static bool is_loopback(const union gid *g)
{
    static const union gid v6 = {.raw = {[15] = 1}};

    return gid_is_ipv4(g) ? g->raw[12] == 127 : gid_eq(g, &v6);
}

/* Its hosts are on the link: it has no gateway. */
static bool is_direct(const struct net_route *r)
{
    return inet_is_unspecified(&r->via);
}

static bool fits(const struct net_route *r, const union gid *dst, uint16_t vlan)
{
    return r->vlan == vlan && inet_same_prefix(&r->dst, dst, r->prefix);
}

static bool is_on_link(const struct route_table *t, const union gid *addr, uint16_t vlan)
{
    bool found = address_on_link(t->addresses, addr, vlan);

    for (unsigned i = 0; i < t->len && !found; i++)
        found = is_direct(&t->route[i]) && fits(&t->route[i], addr, vlan);
    return found;
}

int route_lookup(const struct route_table *t, const union gid *dst, uint16_t vlan,
                 struct route_choice *c)
{
    int best;

    *c = (struct route_choice){.next_hop = *dst};
    if (gid_is_link_local(dst))
        return LINK_LOCAL_BITS;
    best = address_connected_bits(t->addresses, dst, vlan);
    for (unsigned i = 0; i < t->len && !is_loopback(dst); i++) {
        const struct net_route *r = &t->route[i];

        if ((int)r->prefix > best && fits(r, dst, vlan) &&
            (is_direct(r) || is_on_link(t, &r->via, vlan))) {
            best = r->prefix;
            c->next_hop = is_direct(r) ? *dst : r->via;
            c->by_source = r->by_source;
        }
    }
    return best < 0 ? -ENETUNREACH : best;
}

/* r with the bits after the prefix cleared. */
static struct net_route without_host_bits(const struct net_route *r)
{
    struct net_route n = *r;
    unsigned from = gid_is_ipv4(&r->dst) ? 12 : 0;

    for (unsigned bit = n.prefix; bit < (16 - from) * 8; bit++)
        n.dst.raw[from + bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    return n;
}

/* The index of the route to the same destination, or -1. */
static int find_route(const struct route_table *t, const struct net_route *r)
{
    for (unsigned i = 0; i < t->len; i++) {
        const struct net_route *o = &t->route[i];

        if (o->vlan == r->vlan && o->prefix == r->prefix && gid_eq(&o->dst, &r->dst))
            return (int)i;
    }
    return -1;
}

static bool is_gateway(const struct route_table *t, const union gid *via, uint16_t vlan)
{
    return inet_is_unicast(via) && is_on_link(t, via, vlan) &&
           !address_find(t->addresses, via, vlan);
}

static bool is_valid(const struct route_table *t, const struct net_route *r)
{
    bool ipv4 = gid_is_ipv4(&r->dst);

    return r->prefix <= (ipv4 ? 32 : 128) && gid_is_ipv4(&r->via) == ipv4 &&
           !gid_is_multicast(&r->dst) && inet_vlan_is_valid(r->vlan) &&
           (is_direct(r) || is_gateway(t, &r->via, r->vlan));
}

int route_add(struct route_table *t, const struct net_route *r)
{
    struct net_route n;

    if (!is_valid(t, r))
        return -EINVAL;
    n = without_host_bits(r);
    if (find_route(t, &n) >= 0)
        return -EEXIST;
    if (t->len == NET_ROUTE_MAX)
        return -ENOSPC;
    t->route[t->len++] = n;
    return 0;
}

int route_remove(struct route_table *t, const struct net_route *r)
{
    struct net_route n;
    int i;

    if (r->prefix > (gid_is_ipv4(&r->dst) ? 32 : 128))
        return -ENOENT;
    n = without_host_bits(r);
    i = find_route(t, &n);
    if (i < 0 || !gid_eq(&t->route[i].via, &r->via))
        return -ENOENT;
    t->route[i] = t->route[--t->len];
    return 0;
}

/* Whether an earlier address is in the same network. */
static bool is_repeated(const struct route_table *t, unsigned index)
{
    const struct net_address *a = &t->addresses->slot[index].a;

    for (unsigned i = 0; i < index; i++) {
        const struct own_address *o = &t->addresses->slot[i];

        if (address_is_connected(o, a->vlan) && o->a.prefix == a->prefix &&
            inet_same_prefix(&o->a.addr, &a->addr, a->prefix))
            return true;
    }
    return false;
}

void route_each(const struct route_table *t, void *ctx,
                void (*visit)(void *ctx, const struct net_route *r, bool connected))
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct net_address *a = &t->addresses->slot[i].a;
        struct net_route r = {.dst = a->addr, .prefix = a->prefix, .vlan = a->vlan};

        if (!address_is_connected(&t->addresses->slot[i], a->vlan) || is_repeated(t, i))
            continue;
        r.via = inet_unspecified(gid_is_ipv4(&a->addr));
        r = without_host_bits(&r);
        visit(ctx, &r, true);
    }
    for (unsigned i = 0; i < t->len; i++)
        visit(ctx, &t->route[i], is_direct(&t->route[i]));
}
