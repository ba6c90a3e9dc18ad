/* SPDX-License-Identifier: BSD-3-Clause */
/* rtnetlink by libmnl. The content of a notification is not used, but to pass over routes of other
 * interfaces: the whole configuration is read after it. A lost notification therefore costs only
 * the time until the next one. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common.h"
#include "inet.h"
#include "netdev_internal.h"

#define DUMP_BYTES   32768 /* the most that the kernel fills at a time */
#define DUMP_TIMEOUT 100   /* ms */

/* <linux/rtnetlink.h> has names for the groups of old alone. */
#define GROUP_IPV4_RULE (1U << (RTNLGRP_IPV4_RULE - 1))
#define GROUP_IPV6_RULE (1U << (RTNLGRP_IPV6_RULE - 1))

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
        groups |=
            RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | GROUP_IPV4_RULE | GROUP_IPV6_RULE;
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
    dst = netdev_any_destination(rtm->rtm_family);
    mnl_attr_for_each(attr, h, sizeof(*rtm))
    {
        if (mnl_attr_get_type(attr) == RTA_OIF)
            oif = mnl_attr_get_u32(attr);
        else if (mnl_attr_get_type(attr) == RTA_DST)
            netdev_read_gid(&dst, rtm->rtm_family, attr);
    }
    return oif != ifindex && (!(h->nlmsg_flags & NLM_F_REPLACE) ||
                              netdev_find_route(have, &dst, rtm->rtm_dst_len) == have->routes);
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
    return local && netdev_read_gid(&a->addr, ifa->ifa_family, local);
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

static int read_dump(const struct dump *d, void *arg)
{
    struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    int err;

    if (!s)
        return -errno;
    err = mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : request_dump(s, d, arg);
    mnl_socket_close(s);
    return err;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static int read_interface(struct config_reader *r)
{
    static const struct dump addresses = {RTM_GETADDR, sizeof(struct ifaddrmsg), on_address};
    static const struct dump rules = {RTM_GETRULE, sizeof(struct fib_rule_hdr), netdev_on_rule};
    static const struct dump routes = {RTM_GETROUTE, sizeof(struct rtmsg), netdev_on_route};
    int err;

    r->state->addresses = r->state->routes = r->rules = 0;
    err = read_dump(&addresses, r);
    if (err)
        return err;
    err = read_dump(&rules, r);
    if (err == -EINTR)
        return err;
    if (err)
        netdev_default_rules(r);
    err = read_dump(&routes, r);
    if (!err)
        netdev_apply_ranks(r);
    return err;
}

/* If the configuration changes during a dump (NLM_F_DUMP_INTR), unchanged entries may be missing.
 */
int netdev_read(uint32_t ifindex, struct netdev_state *state)
{
    struct config_reader r = {.ifindex = ifindex, .state = state};
    int64_t until = now_ms() + DUMP_TIMEOUT;
    int err;

    do {
        err = read_interface(&r);
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
        err = read_dump(&dump, &l);
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
