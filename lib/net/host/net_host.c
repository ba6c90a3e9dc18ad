/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls: which of the host's parts gets a frame, a timer, a question. */
#include "net_host.h"

#include <errno.h>
#include <stdlib.h>

#include "arp.h"
#include "encap_layout.h"
#include "nd.h"
#include "net_internal.h"

/* ---- creation ---- */

struct net_host *net_host_create(const struct net_host_config *config)
{
    struct net_host *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->port.cfg = *config;
    h->port.random.state = config->seed;
    h->port.link = true;
    h->addresses.quiet = config->quiet;
    h->addresses.optimistic = config->optimistic;
    h->neighbours.port = h->groups.port = h->pmtus.port = h->echo.port = &h->port;
    h->routes.addresses = h->neighbours.addresses = h->groups.addresses = h->pmtus.addresses =
        h->echo.addresses = &h->addresses;
    return h;
}

void net_host_destroy(struct net_host *h)
{
    free(h);
}

/* ---- configuration ---- */

int net_host_add_address(struct net_host *h, const struct net_address *a, bool skip_dad, ns_t now)
{
    return address_add(h, a, skip_dad, now);
}

int net_host_remove_address(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    return address_remove(h, addr, vlan);
}

int net_host_address_state(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    const struct own_address *o = address_find(&h->addresses, addr, vlan);

    return o ? (int)o->state : -ENOENT;
}

int net_host_set_quiet(struct net_host *h, const union gid *addr, uint16_t vlan, bool quiet,
                       ns_t now)
{
    return address_set_quiet(h, addr, vlan, quiet, now);
}

int net_host_add_route(struct net_host *h, const struct net_route *r)
{
    return route_add(&h->routes, r);
}

int net_host_remove_route(struct net_host *h, const struct net_route *r)
{
    return route_remove(&h->routes, r);
}

int net_host_add_neighbour(struct net_host *h, const union gid *addr, uint16_t vlan,
                           const uint8_t mac[6])
{
    return ncache_add_static(&h->neighbours, addr, vlan, mac);
}

int net_host_join(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now)
{
    return group_join(&h->groups, group, vlan, now);
}

int net_host_leave(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now)
{
    return group_leave(&h->groups, group, vlan, now);
}

/* ---- frames ---- */

enum {
    ICMP_UNREACHABLE = 3,
    ICMP_ECHO = 8,
    ICMPV6_UNREACHABLE = 1,
    ICMPV6_TOO_BIG = 2,
    ICMPV6_ECHO = 128,
    MLD_QUERY = 130,
    MLD_REPORT_V1 = 131,
    MLD_DONE = 132,
    MLD_REPORT_V2 = 143,
};

static enum inet_verdict rx_icmp(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    switch (rx->data[0]) {
    case ICMP_ECHO:
        return echo_rx(&h->echo, rx, now);
    case ICMP_UNREACHABLE:
        return pmtu_unreachable_rx(&h->pmtus, rx, now);
    default:
        return INET_IGNORED;
    }
}

static enum inet_verdict rx_icmpv6(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    switch (rx->data[0]) {
    case ND_SOLICIT:
    case ND_ADVERTISE:
        return nd_rx(h, rx, now);
    case ICMPV6_ECHO:
        return echo_rx(&h->echo, rx, now);
    case ICMPV6_TOO_BIG:
        return pmtu_too_big_rx(&h->pmtus, rx, now);
    case ICMPV6_UNREACHABLE:
        h->port.count.unreachable_rx++;
        return INET_OK;
    case MLD_QUERY:
        return group_mld_rx(&h->groups, rx, now);
    case MLD_REPORT_V1:
    case MLD_DONE:
    case MLD_REPORT_V2:
        h->port.count.mld_rx++;
        return INET_IGNORED;
    default:
        return INET_IGNORED; /* router advertisements too: routes are configured */
    }
}

static enum inet_verdict rx_ip(struct net_host *h, struct inet_rx *rx, ns_t now)
{
    enum inet_verdict verdict = inet_ip(rx);

    if (verdict != INET_OK)
        return verdict;
    if (!gid_is_multicast(&rx->dst) && !address_find(&h->addresses, &rx->dst, rx->vlan))
        return INET_IGNORED;
    switch (rx->proto) {
    case IP_PROTO_ICMP:
        return rx_icmp(h, rx, now);
    case IP_PROTO_IGMP:
        return group_igmp_rx(&h->groups, rx, now);
    default:
        return rx_icmpv6(h, rx, now);
    }
}

static enum inet_verdict rx_frame(struct net_host *h, const uint8_t *frame, uint32_t len, ns_t now)
{
    struct inet_rx rx;
    enum inet_verdict verdict = inet_ethernet(&rx, frame, len);

    if (verdict != INET_OK)
        return verdict;
    /* Some ports reflect what the host sends: that is no answer and no conflict. */
    if (net_port_has_mac(&h->port, rx.smac) ||
        (!inet_mac_is_group(rx.dmac) && !net_port_has_mac(&h->port, rx.dmac)))
        return INET_IGNORED;
    switch (rx.ethertype) {
    case ETHERTYPE_ARP:
        return arp_rx(h, &rx, now);
    case ETHERTYPE_IPV4:
    case ETHERTYPE_IPV6:
        return rx_ip(h, &rx, now);
    default:
        return INET_IGNORED;
    }
}

void net_host_rx(struct net_host *h, const uint8_t *frame, uint32_t len, ns_t now)
{
    switch (rx_frame(h, frame, len, now)) {
    case INET_OK:
        break;
    case INET_IGNORED:
        h->port.count.ignored++;
        break;
    case INET_MALFORMED:
        h->port.count.malformed++;
        break;
    }
}

/* ---- time ---- */

ns_t net_host_next_timer(const struct net_host *h)
{
    ns_t next = min_of(ncache_next(&h->neighbours), pmtu_next(&h->pmtus));

    if (!h->port.link)
        return next;
    next = min_of(next, address_next(h));
    return min_of(next, group_next(&h->groups));
}

void net_host_timers(struct net_host *h, ns_t now)
{
    if (h->port.link)
        address_timers(h, now);
    ncache_timers(&h->neighbours, now);
    if (h->port.link)
        group_timers(&h->groups, now);
    pmtu_timers(&h->pmtus, now);
}

void net_host_link(struct net_host *h, bool up, ns_t now)
{
    if (h->port.link == up)
        return;
    h->port.link = up;
    if (!up)
        return;
    address_link_up(h, now);
    group_link_up(&h->groups, now);
    ncache_link_up(&h->neighbours, now);
}

/* ---- where packets go ---- */

int net_host_resolve(struct net_host *h, const union gid *src, uint16_t vlan, const union gid *dst,
                     ns_t now, struct net_path *path)
{
    const struct own_address *own;
    struct route_choice choice;
    const uint8_t *mac;
    ns_t before;
    int bits, err;

    path->is_timed = false;
    path->bits = 128;
    if (gid_is_ipv4(src) != gid_is_ipv4(dst))
        return -EINVAL;
    path->next_hop = *dst;
    path->mtu = h->port.cfg.mtu;
    if (gid_is_multicast(dst)) {
        gid_multicast_mac(dst, path->mac);
        return 0;
    }
    if (!inet_is_unicast(dst))
        return -ENETUNREACH;
    own = address_find(&h->addresses, dst, vlan);
    if (own && own->state != NET_DUPLICATE && !own->doubted) {
        memcpy(path->mac, h->port.cfg.mac, 6);
        return 0;
    }
    bits = route_lookup(&h->routes, dst, vlan, &choice);
    path->bits = (uint8_t)(bits < 0 || choice.by_source ? 0 : gid_is_ipv4(dst) ? bits + 96 : bits);
    mac = ncache_static_mac(&h->neighbours, dst, vlan);
    if (mac) { /* the configuration overrides the routes */
        memcpy(path->mac, mac, 6);
        path->mtu = pmtu_of(&h->pmtus, dst, vlan, now);
        return 0;
    }
    if (h->port.cfg.router[0]) {
        memcpy(path->mac, h->port.cfg.router, 6);
        path->mtu = pmtu_of(&h->pmtus, dst, vlan, now);
        return 0;
    }
    if (bits < 0)
        return bits;
    path->next_hop = choice.next_hop;
    before = ncache_next(&h->neighbours);
    err = ncache_resolve(&h->neighbours, src, &path->next_hop, vlan, now, path->mac);
    path->is_timed = ncache_next(&h->neighbours) < before;
    path->mtu = pmtu_of(&h->pmtus, dst, vlan, now);
    return err;
}

/* ---- inspection ---- */

const struct net_counters *net_host_counters(const struct net_host *h)
{
    return &h->port.count;
}

void net_host_each_neighbour(const struct net_host *h, void *ctx,
                             void (*visit)(void *ctx, const union gid *addr, uint16_t vlan,
                                           const uint8_t mac[6], enum net_neighbour_state state))
{
    for (unsigned i = 0; i < h->neighbours.len; i++) {
        const struct cached_neighbour *e = &h->neighbours.slot[i];

        if (e->used_slot)
            visit(ctx, &e->addr, e->vlan, e->mac, e->state);
    }
}

void net_host_each_route(const struct net_host *h, void *ctx,
                         void (*visit)(void *ctx, const struct net_route *r, bool connected))
{
    route_each(&h->routes, ctx, visit);
}

void net_host_each_group(const struct net_host *h, void *ctx,
                         void (*visit)(void *ctx, const union gid *group, uint16_t vlan,
                                       unsigned members))
{
    for (unsigned i = 0; i < h->groups.len; i++) {
        const struct group *g = &h->groups.slot[i];

        if (g->used && group_is_member(g))
            visit(ctx, &g->addr, g->vlan, g->members + g->own);
    }
}

void net_host_learn_pmtu(struct net_host *h, const union gid *dst, uint16_t vlan, uint32_t mtu,
                         ns_t now)
{
    pmtu_learn(&h->pmtus, dst, vlan, mtu, now);
}

void net_host_each_pmtu(const struct net_host *h, void *ctx,
                        void (*visit)(void *ctx, const union gid *dst, uint16_t vlan, uint32_t mtu))
{
    for (unsigned i = 0; i < h->pmtus.len; i++)
        visit(ctx, &h->pmtus.slot[i].dst, h->pmtus.slot[i].vlan, h->pmtus.slot[i].mtu);
}
