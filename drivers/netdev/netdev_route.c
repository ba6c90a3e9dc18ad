/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's routes by an interface: see netdev.h. */
#include <linux/rtnetlink.h>

#include "common.h"
#include "inet.h"
#include "netdev_internal.h"

/* What a route is worth: a lower rank, then a lower metric is preferred. */
struct route_order {
    unsigned rank; /* the index of the rule that takes it */
    uint32_t metric;
};

unsigned netdev_find_route(const struct netdev_state *s, const union gid *dst, uint8_t prefix)
{
    unsigned i = 0;

    while (i < s->routes && (s->route[i].prefix != prefix || !gid_eq(&s->route[i].dst, dst)))
        i++;
    return i;
}

/* Whether route i is preferred to another one to its destination. */
static bool is_before(const struct config_reader *r, unsigned i, struct route_order o)
{
    return r->rank[i] < o.rank || (r->rank[i] == o.rank && r->metric[i] <= o.metric);
}

/* Adds a route. Of several to one destination the kernel uses that of the table which is asked
 * first, and of those the one with the lowest metric. */
static void add_route(struct config_reader *r, const struct net_route *route, struct route_order o)
{
    struct netdev_state *s = r->state;
    unsigned i = netdev_find_route(s, &route->dst, route->prefix);
    bool by_source = route->by_source;

    if (i == NET_ROUTE_MAX)
        return;
    if (i < s->routes)
        by_source &= s->route[i].by_source;
    if (i == s->routes || !is_before(r, i, o)) {
        s->routes += i == s->routes;
        s->route[i] = *route;
        r->rank[i] = (uint8_t)o.rank;
        r->metric[i] = o.metric;
    }
    s->route[i].by_source = by_source;
}

static bool read_next_hop(union gid *via, uint8_t family, const struct rtnexthop *hop)
{
    const struct nlattr *attr;
    bool gateway = false;

    mnl_attr_for_each_payload((const void *)RTNH_DATA(hop), hop->rtnh_len - sizeof(*hop))
    {
        if (mnl_attr_get_type(attr) == RTA_GATEWAY)
            gateway = netdev_read_gid(via, family, attr);
    }
    return gateway;
}

/* Of several next hops the first one by this interface that lives. False: there is none. */
static bool choose_next_hop(union gid *via, uint8_t family, const struct nlattr *list,
                            uint32_t ifindex)
{
    const struct rtnexthop *hop = mnl_attr_get_payload(list);
    int left = mnl_attr_get_payload_len(list);

    for (; RTNH_OK(hop, left); hop = RTNH_NEXT(hop)) {
        if ((uint32_t)hop->rtnh_ifindex == ifindex &&
            !(hop->rtnh_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)) && read_next_hop(via, family, hop))
            return true;
        left -= (int)RTNH_ALIGN(hop->rtnh_len);
    }
    return false;
}

/* Whether a network is that of an address, or the link-local one: every port has a route there. */
static bool is_connected(const struct netdev_state *s, const struct net_route *route)
{
    for (unsigned i = 0; i < s->addresses; i++)
        if (s->address[i].prefix == route->prefix &&
            gid_is_ipv4(&s->address[i].addr) == gid_is_ipv4(&route->dst) &&
            inet_same_prefix(&s->address[i].addr, &route->dst, route->prefix))
            return true;
    return gid_is_link_local(&route->dst);
}

/* Adds a network whose hosts are on the link: the destination of a route without a gateway, or a
 * gateway that the kernel was told to be there (`onlink`). */
static void add_direct(struct config_reader *r, const struct net_route *route, struct route_order o)
{
    struct net_route direct = *route;

    direct.via = inet_unspecified(gid_is_ipv4(&route->dst));
    if (!is_connected(r->state, &direct))
        add_route(r, &direct, o);
}

int netdev_on_route(const struct nlmsghdr *h, void *arg)
{
    const struct rtmsg *rtm = mnl_nlmsg_get_payload(h);
    struct config_reader *r = arg;
    struct net_route route = {.prefix = rtm->rtm_dst_len, .vlan = VLAN_NONE}, gateway;
    const struct nlattr *attr;
    struct route_order order = {0};
    uint32_t oif = 0, table = rtm->rtm_table;
    enum { DIRECT, GATEWAY, OTHER } way = DIRECT;

    /* What the kernel has learned of a single destination, such as its MTU, is no route. */
    if (h->nlmsg_type != RTM_NEWROUTE || rtm->rtm_type != RTN_UNICAST ||
        rtm->rtm_flags & RTM_F_CLONED)
        return MNL_CB_OK;
    route.dst = netdev_any_destination(rtm->rtm_family);
    mnl_attr_for_each(attr, h, sizeof(*rtm))
    {
        switch (mnl_attr_get_type(attr)) {
        case RTA_DST:
            if (!netdev_read_gid(&route.dst, rtm->rtm_family, attr))
                return MNL_CB_OK;
            break;
        case RTA_GATEWAY:
            way = netdev_read_gid(&route.via, rtm->rtm_family, attr) ? GATEWAY : OTHER;
            break;
        case RTA_VIA: /* a gateway of the other IP version */
            way = OTHER;
            break;
        case RTA_MULTIPATH:
            way = choose_next_hop(&route.via, rtm->rtm_family, attr, r->ifindex) ? GATEWAY : OTHER;
            oif = r->ifindex;
            break;
        case RTA_OIF:
            oif = mnl_attr_get_u32(attr);
            break;
        case RTA_TABLE:
            table = mnl_attr_get_u32(attr);
            break;
        case RTA_PRIORITY:
            order.metric = mnl_attr_get_u32(attr);
            break;
        }
    }
    order.rank = netdev_rule_of(r, rtm->rtm_family, table, route.prefix);
    if (way == OTHER || oif != r->ifindex || order.rank == r->rules)
        return MNL_CB_OK;
    route.by_source = r->rule[order.rank].by_source;
    if (way == DIRECT) {
        add_direct(r, &route, order);
        return MNL_CB_OK;
    }
    gateway = (struct net_route){
        .dst = route.via, .prefix = gid_is_ipv4(&route.via) ? 32 : 128, .vlan = VLAN_NONE};
    if (rtm->rtm_flags & RTNH_F_ONLINK)
        add_direct(r, &gateway, order);
    add_route(r, &route, order);
    return MNL_CB_OK;
}

/* Whether a packet to the destination of route i finds route k. */
static bool covers(const struct net_route *route, unsigned k, unsigned i)
{
    return route[k].prefix <= route[i].prefix &&
           gid_is_ipv4(&route[k].dst) == gid_is_ipv4(&route[i].dst) &&
           inet_same_prefix(&route[k].dst, &route[i].dst, route[k].prefix);
}

/* The route that packets find in place of route i, or i. */
static unsigned found_first(const struct config_reader *r, unsigned i)
{
    const struct net_route *route = r->state->route;
    unsigned best = i;

    for (unsigned k = 0; k < r->state->routes; k++)
        if (covers(route, k, i) &&
            (r->rank[k] < r->rank[best] ||
             (r->rank[k] == r->rank[best] && route[k].prefix > route[best].prefix)))
            best = k;
    return best;
}

/* A network on the link stays as it is: gateways are found there, whatever the rules say. */
void netdev_apply_ranks(struct config_reader *r)
{
    struct netdev_state *s = r->state;
    union gid via[NET_ROUTE_MAX];

    for (unsigned i = 0; i < s->routes; i++)
        via[i] = s->route[inet_is_unspecified(&s->route[i].via) ? i : found_first(r, i)].via;
    for (unsigned i = 0; i < s->routes; i++)
        s->route[i].via = via[i];
}
