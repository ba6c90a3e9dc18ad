/* SPDX-License-Identifier: BSD-3-Clause */
/* rtnetlink by libmnl. The content of a notification is not used, but to pass over routes of other
 * interfaces: the whole configuration is read after it. A lost notification therefore costs only
 * the time until the next one. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common.h"
#include "inet.h"
#include "netdev.h"

#define DUMP_BYTES   32768 /* the most that the kernel fills at a time */
#define DUMP_TIMEOUT 100   /* ms */

struct netdev_watch {
    struct mnl_socket *events;
    uint32_t ifindex;
};

static void close_socket(struct mnl_socket *s)
{
    if (s)
        mnl_socket_close(s);
}

struct netdev_watch *netdev_watch_open(uint32_t ifindex, int *err)
{
    struct netdev_watch *w = calloc(1, sizeof(*w));
    unsigned groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;

    if (ifindex)
        groups |= RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
    *err = -ENOMEM;
    if (!w)
        return NULL;
    w->ifindex = ifindex;
    w->events = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!w->events || mnl_socket_bind(w->events, groups, MNL_SOCKET_AUTOPID) < 0) {
        *err = -errno;
        netdev_watch_close(w);
        return NULL;
    }
    *err = 0;
    return w;
}

void netdev_watch_close(struct netdev_watch *w)
{
    close_socket(w->events);
    free(w);
}

int netdev_watch_fd(const struct netdev_watch *w)
{
    return mnl_socket_get_fd(w->events);
}

/* ---- parts of messages ---- */

static bool read_gid(union gid *gid, uint8_t family, const struct nlattr *attr)
{
    const uint8_t *bytes = mnl_attr_get_payload(attr);

    if (family == AF_INET && mnl_attr_get_payload_len(attr) == 4)
        *gid = gid_from_ipv4(bytes);
    else if (family == AF_INET6 && mnl_attr_get_payload_len(attr) == 16)
        memcpy(gid->raw, bytes, 16);
    else
        return false;
    return true;
}

/* What a route is to without RTA_DST: everything. */
static union gid any_destination(uint8_t family)
{
    return family == AF_INET ? gid_from_ipv4((const uint8_t[4]){0}) : (union gid){0};
}

/* The index of the route to the same destination, or s->routes. */
static unsigned find_route(const struct netdev_state *s, const union gid *dst, uint8_t prefix)
{
    unsigned i = 0;

    while (i < s->routes && (s->route[i].prefix != prefix || !gid_eq(&s->route[i].dst, dst)))
        i++;
    return i;
}

/* ---- notifications ---- */

/* A host may have very many routes, which change all the time. One with several next hops has no
 * RTA_OIF. When a route of another interface takes the place of ours, the kernel reports the new
 * one alone. */
static bool is_route_of_others(const struct nlmsghdr *h, uint32_t ifindex,
                               const struct netdev_state *have)
{
    const struct rtmsg *rtm = mnl_nlmsg_get_payload(h);
    const struct nlattr *attr;
    uint32_t oif = ifindex;
    union gid dst;

    if (h->nlmsg_type != RTM_NEWROUTE && h->nlmsg_type != RTM_DELROUTE)
        return false;
    dst = any_destination(rtm->rtm_family);
    mnl_attr_for_each(attr, h, sizeof(*rtm))
    {
        if (mnl_attr_get_type(attr) == RTA_OIF)
            oif = mnl_attr_get_u32(attr);
        else if (mnl_attr_get_type(attr) == RTA_DST)
            read_gid(&dst, rtm->rtm_family, attr);
    }
    return oif != ifindex && (!(h->nlmsg_flags & NLM_F_REPLACE) ||
                              find_route(have, &dst, rtm->rtm_dst_len) == have->routes);
}

static bool are_routes_of_others(const char *buffer, ssize_t n, uint32_t ifindex,
                                 const struct netdev_state *have)
{
    const struct nlmsghdr *h = (const void *)buffer;
    int left = (int)n;

    for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
        if (!is_route_of_others(h, ifindex, have))
            return false;
    return true;
}

bool netdev_watch_drain(struct netdev_watch *w, const struct netdev_state *have)
{
    alignas(struct nlmsghdr) char buffer[4096];
    bool changed = false;
    ssize_t n;

    /* ENOBUFS reports that notifications were lost, which is a change too. */
    while ((n = mnl_socket_recvfrom(w->events, buffer, sizeof(buffer))) >= 0 || errno == ENOSPC ||
           errno == EINTR || errno == ENOBUFS)
        changed |= n < 0 || !are_routes_of_others(buffer, n, w->ifindex, have);
    return changed;
}

/* ---- reading ---- */

struct config_reader {
    uint32_t ifindex;
    struct netdev_state *state;
    uint32_t metric[NET_ROUTE_MAX];
};

/* An interface may have an address with several prefixes: the first counts. */
static bool has_address(const struct netdev_state *s, const union gid *addr)
{
    for (unsigned i = 0; i < s->addresses; i++)
        if (gid_eq(&s->address[i].addr, addr))
            return true;
    return false;
}

/* False: the message has no address that can be used. *scope: enum rt_scope_t. */
static bool read_address(const struct nlmsghdr *h, struct netdev_address *a, uint8_t *scope)
{
    const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(h);
    const struct nlattr *attr, *local = NULL, *address = NULL;

    if (h->nlmsg_type != RTM_NEWADDR || (ifa->ifa_flags & IFA_F_DADFAILED))
        return false;
    mnl_attr_for_each(attr, h, sizeof(*ifa))
    {
        if (mnl_attr_get_type(attr) == IFA_LOCAL)
            local = attr;
        else if (mnl_attr_get_type(attr) == IFA_ADDRESS)
            address = attr;
    }
    /* On point-to-point links IFA_ADDRESS is the peer's. */
    if (!local)
        local = address;
    a->prefix = ifa->ifa_prefixlen;
    a->ifindex = ifa->ifa_index;
    *scope = ifa->ifa_scope;
    return local && read_gid(&a->addr, ifa->ifa_family, local);
}

static int on_address(const struct nlmsghdr *h, void *arg)
{
    struct config_reader *r = arg;
    struct netdev_state *s = r->state;
    struct netdev_address a;
    uint8_t scope;

    if (s->addresses < NET_ADDRESS_MAX && read_address(h, &a, &scope) && a.ifindex == r->ifindex &&
        scope < RT_SCOPE_HOST && !has_address(s, &a.addr))
        s->address[s->addresses++] =
            (struct net_address){.addr = a.addr, .prefix = a.prefix, .vlan = VLAN_NONE};
    return MNL_CB_OK;
}

struct address_list {
    struct netdev_address *address;
    unsigned count, room;
};

static int on_host_address(const struct nlmsghdr *h, void *arg)
{
    struct address_list *l = arg;
    uint8_t scope;

    if (l->count == l->room) {
        unsigned room = l->room ? 2 * l->room : 64;
        void *more = realloc(l->address, room * sizeof(*l->address));

        if (!more) {
            errno = ENOMEM;
            return MNL_CB_ERROR;
        }
        l->address = more;
        l->room = room;
    }
    l->count += read_address(h, &l->address[l->count], &scope);
    return MNL_CB_OK;
}

/* Adds a route. Of several to one destination the kernel uses the one with the lowest metric. */
static void add_route(struct config_reader *r, const struct net_route *route, uint32_t metric)
{
    struct netdev_state *s = r->state;
    unsigned i = find_route(s, &route->dst, route->prefix);

    if (i == NET_ROUTE_MAX || (i < s->routes && r->metric[i] <= metric))
        return;
    s->routes += i == s->routes;
    s->route[i] = *route;
    r->metric[i] = metric;
}

static bool read_next_hop(union gid *via, uint8_t family, const struct rtnexthop *hop)
{
    const struct nlattr *attr;
    bool gateway = false;

    mnl_attr_for_each_payload((const void *)RTNH_DATA(hop), hop->rtnh_len - sizeof(*hop))
    {
        if (mnl_attr_get_type(attr) == RTA_GATEWAY)
            gateway = read_gid(via, family, attr);
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
static void add_direct(struct config_reader *r, const struct net_route *route, uint32_t metric)
{
    struct net_route direct = *route;

    direct.via = inet_unspecified(gid_is_ipv4(&route->dst));
    if (!is_connected(r->state, &direct))
        add_route(r, &direct, metric);
}

static int on_route(const struct nlmsghdr *h, void *arg)
{
    const struct rtmsg *rtm = mnl_nlmsg_get_payload(h);
    struct config_reader *r = arg;
    struct net_route route = {.prefix = rtm->rtm_dst_len, .vlan = VLAN_NONE}, gateway;
    const struct nlattr *attr;
    uint32_t oif = 0, table = rtm->rtm_table, metric = 0;
    enum { DIRECT, GATEWAY, OTHER } way = DIRECT;

    /* What the kernel has learned of a single destination, such as its MTU, is no route. */
    if (h->nlmsg_type != RTM_NEWROUTE || rtm->rtm_type != RTN_UNICAST ||
        rtm->rtm_flags & RTM_F_CLONED)
        return MNL_CB_OK;
    route.dst = any_destination(rtm->rtm_family);
    mnl_attr_for_each(attr, h, sizeof(*rtm))
    {
        switch (mnl_attr_get_type(attr)) {
        case RTA_DST:
            if (!read_gid(&route.dst, rtm->rtm_family, attr))
                return MNL_CB_OK;
            break;
        case RTA_GATEWAY:
            way = read_gid(&route.via, rtm->rtm_family, attr) ? GATEWAY : OTHER;
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
            metric = mnl_attr_get_u32(attr);
            break;
        }
    }
    if (way == OTHER || oif != r->ifindex || table != RT_TABLE_MAIN)
        return MNL_CB_OK;
    if (way == DIRECT) {
        add_direct(r, &route, metric);
        return MNL_CB_OK;
    }
    gateway = (struct net_route){
        .dst = route.via, .prefix = gid_is_ipv4(&route.via) ? 32 : 128, .vlan = VLAN_NONE};
    if (rtm->rtm_flags & RTNH_F_ONLINK)
        add_direct(r, &gateway, metric);
    add_route(r, &route, metric);
    return MNL_CB_OK;
}

/* A dump to request, and what takes its messages. */
struct dump {
    uint16_t type;
    size_t header; /* the body of the request is the family's header, all zero */
    mnl_cb_t cb;
};

static int request_dump(struct mnl_socket *s, const struct dump *d, void *arg)
{
    char *buffer = malloc(DUMP_BYTES);
    struct nlmsghdr *h;
    unsigned port = mnl_socket_get_portid(s);
    ssize_t n;
    int ret = -1;

    if (!buffer)
        return -ENOMEM;
    h = mnl_nlmsg_put_header(buffer);
    h->nlmsg_type = d->type;
    h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    h->nlmsg_seq = d->type;
    mnl_nlmsg_put_extra_header(h, d->header);
    if (mnl_socket_sendto(s, h, h->nlmsg_len) >= 0) {
        do {
            n = mnl_socket_recvfrom(s, buffer, DUMP_BYTES);
            ret = n < 0 ? -1 : mnl_cb_run(buffer, (size_t)n, d->type, port, d->cb, arg);
        } while (ret > 0);
    }
    ret = ret < 0 ? -errno : 0;
    free(buffer);
    return ret;
}

static int request_dumps(const struct dump *d, unsigned n, void *arg)
{
    struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    int err = 0;

    if (!s)
        return -errno;
    if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0)
        err = -errno;
    for (unsigned i = 0; i < n && !err; i++)
        err = request_dump(s, &d[i], arg);
    mnl_socket_close(s);
    return err;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

/* If the configuration changes during a dump (NLM_F_DUMP_INTR), unchanged entries may be missing.
 */
int netdev_read(uint32_t ifindex, struct netdev_state *state)
{
    static const struct dump dumps[] = {{RTM_GETADDR, sizeof(struct ifaddrmsg), on_address},
                                        {RTM_GETROUTE, sizeof(struct rtmsg), on_route}};
    struct config_reader r = {.ifindex = ifindex, .state = state};
    int64_t until = now_ms() + DUMP_TIMEOUT;
    int err;

    do {
        state->addresses = state->routes = 0;
        err = request_dumps(dumps, ARRAY_SIZE(dumps), &r);
    } while (err == -EINTR && now_ms() < until);
    return err;
}

int netdev_read_host(struct netdev_address **list, unsigned *count)
{
    static const struct dump dump = {RTM_GETADDR, sizeof(struct ifaddrmsg), on_host_address};
    struct address_list l = {0};
    int64_t until = now_ms() + DUMP_TIMEOUT;
    int err;

    do {
        l.count = 0;
        err = request_dumps(&dump, 1, &l);
    } while (err == -EINTR && now_ms() < until);
    if (err) {
        free(l.address);
        l = (struct address_list){0};
    }
    *list = l.address;
    *count = l.count;
    return err;
}

/* ---- writing ---- */

static int ignore_message(const struct nlmsghdr *h, void *arg)
{
    return MNL_CB_OK;
}

int netdev_add_address(uint32_t ifindex, const union gid *addr, uint8_t prefix)
{
    char buffer[MNL_NLMSG_HDRLEN + 256];
    struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
    struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    bool ipv4 = gid_is_ipv4(addr);
    struct ifaddrmsg *ifa;
    ssize_t n = -1;
    int err = 0;

    if (!s)
        return -errno;
    h->nlmsg_type = RTM_NEWADDR;
    h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    h->nlmsg_seq = 1;
    ifa = mnl_nlmsg_put_extra_header(h, sizeof(*ifa));
    ifa->ifa_family = ipv4 ? AF_INET : AF_INET6;
    ifa->ifa_prefixlen = prefix;
    ifa->ifa_index = ifindex;
    mnl_attr_put(h, IFA_LOCAL, ipv4 ? 4 : 16, ipv4 ? addr->raw + 12 : addr->raw);
    mnl_attr_put(h, IFA_ADDRESS, ipv4 ? 4 : 16, ipv4 ? addr->raw + 12 : addr->raw);
    if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) >= 0 &&
        mnl_socket_sendto(s, h, h->nlmsg_len) >= 0)
        n = mnl_socket_recvfrom(s, buffer, sizeof(buffer));
    if (n < 0 ||
        mnl_cb_run(buffer, (size_t)n, 1, mnl_socket_get_portid(s), ignore_message, NULL) < 0)
        err = -errno;
    mnl_socket_close(s);
    return err;
}
