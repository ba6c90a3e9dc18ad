/* SPDX-License-Identifier: BSD-3-Clause */
/* See kernel_addresses.h. */
#include "kernel_addresses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host_addresses.h"
#include "inet.h"
#include "netdev.h"

#define RETRY_SECONDS 1

struct kernel_follow {
    struct kernel_follow_config config;
    struct netdev_watch *watch;
    struct event_source source;
    struct event_source retry; /* a timer */
    bool missed;               /* the last change could not be read: the timer runs */
    struct netdev_state now;   /* what the device has of it */
    struct host_addresses has; /* and of the whole host */
    bool told;                 /* that the host has more addresses than fit, or which routes wait */
};

/* ---- one interface ---- */

static bool same_route(const struct net_route *a, const struct net_route *b)
{
    return gid_eq(&a->dst, &b->dst) && gid_eq(&a->via, &b->via) && a->prefix == b->prefix &&
           a->by_source == b->by_source;
}

static bool has_same_address(const struct netdev_state *s, const struct net_address *a)
{
    for (unsigned i = 0; i < s->addresses; i++) {
        if (gid_eq(&s->address[i].addr, &a->addr))
            return s->address[i].prefix == a->prefix;
    }
    return false;
}

static bool has_address(const struct netdev_state *s, const union gid *addr)
{
    for (unsigned i = 0; i < s->addresses; i++) {
        if (gid_eq(&s->address[i].addr, addr))
            return true;
    }
    return false;
}

static bool has_route(const struct netdev_state *s, const struct net_route *route)
{
    for (unsigned i = 0; i < s->routes; i++) {
        if (same_route(&s->route[i], route))
            return true;
    }
    return false;
}

static bool is_own(const struct kernel_follow *f, const union gid *addr)
{
    for (unsigned i = 0; i < f->config.owns; i++) {
        if (f->config.own[i].vlan == VLAN_NONE && gid_eq(&f->config.own[i].gid, addr))
            return true;
    }
    return false;
}

static void remove_old(struct kernel_follow *f, const struct netdev_state *next)
{
    const struct kernel_follow_config *c = &f->config;

    for (unsigned i = 0; i < f->now.routes; i++) {
        if (!has_route(next, &f->now.route[i]))
            rnic_remove_route(c->rnic, c->device, &f->now.route[i]);
    }
    for (unsigned i = 0; i < f->now.addresses; i++) {
        const struct net_address *a = &f->now.address[i];

        if (!has_same_address(next, a) && !is_own(f, &a->addr))
            rnic_remove_address(c->rnic, c->device, &a->addr, VLAN_NONE);
    }
}

/* Those that wait at the start are named: a gateway may be misspelt. */
static void add_configured_routes(struct kernel_follow *f)
{
    const struct kernel_follow_config *c = &f->config;
    char via[46];

    for (unsigned i = 0; i < c->routes; i++) {
        if (rnic_add_route(c->rnic, c->device, &c->route[i]) != -EINVAL || f->told)
            continue;
        gid_format(via, &c->route[i].via);
        fprintf(stderr,
                "uroced: uroce%u: a route waits until its gateway %s is on a network of the "
                "kernel's addresses\n",
                c->device, via);
    }
    f->told = true;
}

/* direct: those that need no gateway. */
static void add_kernel_routes(struct kernel_follow *f, const struct netdev_state *next, bool direct)
{
    for (unsigned i = 0; i < next->routes; i++)
        if (inet_is_unspecified(&next->route[i].via) == direct)
            rnic_add_route(f->config.rnic, f->config.device, &next->route[i]);
}

/* An address that does not fit into the device's table is skipped, and tried again only after it
 * was removed from the interface. Routes are offered each time, as a gateway may have become
 * reachable, and may be on a network without one; of two to one destination that of the
 * configuration comes before the kernel's gateways. */
static void add_new(struct kernel_follow *f, const struct netdev_state *next)
{
    const struct kernel_follow_config *c = &f->config;

    for (unsigned i = 0; i < next->addresses; i++) {
        const struct net_address *a = &next->address[i];
        struct port_address pa = {
            .gid = a->addr, .prefix = a->prefix, .vlan = VLAN_NONE, .answered = c->answers};

        if (!has_same_address(&f->now, a) && !is_own(f, &a->addr))
            rnic_add_address(c->rnic, c->device, &pa);
    }
    add_kernel_routes(f, next, true);
    add_configured_routes(f);
    add_kernel_routes(f, next, false);
}

/* Reports which of the device's own addresses the kernel has, too: for these the kernel answers. */
static void report_answered(struct kernel_follow *f, const struct netdev_state *next)
{
    const struct kernel_follow_config *c = &f->config;

    for (unsigned i = 0; i < c->owns; i++) {
        if (c->own[i].vlan == VLAN_NONE)
            rnic_answered(c->rnic, c->device, &c->own[i].gid,
                          c->answers && has_address(next, &c->own[i].gid));
    }
}

static int apply_interface(struct kernel_follow *f)
{
    static struct netdev_state next;
    int err = netdev_read(f->config.ifindex, &next);

    if (err)
        return err;
    report_answered(f, &next);
    if (f->config.use) {
        remove_old(f, &next);
        add_new(f, &next);
        f->now = next;
    }
    return 0;
}

/* ---- all interfaces ---- */

static void remove_from_device(struct kernel_follow *f, const struct host_addresses *next)
{
    const struct kernel_follow_config *c = &f->config;

    for (unsigned i = 0; i < f->has.count; i++) {
        if (!host_addresses_interface(next, &f->has.address[i].addr))
            rnic_remove_address(c->rnic, c->device, &f->has.address[i].addr, VLAN_NONE);
    }
}

static void add_to_device(struct kernel_follow *f, const struct host_addresses *next)
{
    const struct kernel_follow_config *c = &f->config;

    for (unsigned i = 0; i < next->count; i++) {
        const struct netdev_address *a = &next->address[i];
        uint32_t before = host_addresses_interface(&f->has, &a->addr);
        struct port_address pa = {
            .gid = a->addr, .prefix = a->prefix, .vlan = VLAN_NONE, .ifindex = a->ifindex};

        if (!before)
            rnic_add_address(c->rnic, c->device, &pa);
        else if (before != a->ifindex)
            rnic_address_interface(c->rnic, c->device, &a->addr, a->ifindex);
    }
}

static void tell_of_more(struct kernel_follow *f, const struct host_addresses *next)
{
    if (!next->more || f->told)
        return;
    f->told = true;
    fprintf(stderr,
            "uroced: the host has more addresses than the GID table has room for: uroce%u has %u "
            "of them (doc/network.md, \"The loopback device\")\n",
            f->config.device, f->config.owns + next->count);
}

static int apply_host(struct kernel_follow *f)
{
    static struct host_addresses next;
    struct host_addresses_limit limit = {
        .own = f->config.own, .owns = f->config.owns, .room = f->config.room};
    struct netdev_address *all;
    unsigned count;
    int err = netdev_read_host(&all, &count);

    if (err)
        return err;
    if (f->config.outside)
        count = host_addresses_outside(all, count);
    host_addresses_choose(&next, &f->has, all, count, &limit);
    free(all);
    remove_from_device(f, &next);
    add_to_device(f, &next);
    tell_of_more(f, &next);
    f->has = next;
    return 0;
}

/* ---- both ---- */

/* The notification is gone, and there may be no other one for long: what could not be read, for
 * lack of memory or of descriptors, is read later. */
static int apply_changes(struct kernel_follow *f)
{
    int err = f->config.host ? apply_host(f) : apply_interface(f);
    struct itimerspec when = {.it_value.tv_sec = err ? RETRY_SECONDS : 0};

    f->missed = err;
    timerfd_settime(f->retry.fd, 0, &when, NULL);
    return err;
}

static void on_retry(struct event_source *s, uint32_t events)
{
    struct kernel_follow *f = container_of(s, struct kernel_follow, retry);
    uint64_t times;

    (void)!read(s->fd, &times, sizeof(times));
    if (f->missed)
        apply_changes(f);
}

static void on_change(struct event_source *s, uint32_t events)
{
    struct kernel_follow *f = container_of(s, struct kernel_follow, source);

    if (netdev_watch_drain(f->watch, &f->now) || f->missed)
        apply_changes(f);
}

struct kernel_follow *kernel_follow_start(const struct kernel_follow_config *config, int *err)
{
    struct kernel_follow *f = calloc(1, sizeof(*f));

    *err = -ENOMEM;
    if (!f)
        return NULL;
    f->config = *config;
    f->retry = (struct event_source){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = on_retry};
    if (f->retry.fd < 0)
        *err = -errno;
    else
        f->watch = netdev_watch_open(config->host ? 0 : config->ifindex, err);
    if (f->watch) {
        f->source = (struct event_source){.fd = netdev_watch_fd(f->watch), .ready = on_change};
        netdev_watch_drain(f->watch, &f->now);
        *err = apply_changes(f);
        if (!*err || *err == -EINTR)
            *err = event_loop_add(config->loop, &f->source, EPOLLIN);
        if (!*err)
            *err = event_loop_add(config->loop, &f->retry, EPOLLIN);
    }
    if (!*err)
        return f;
    kernel_follow_stop(f);
    return NULL;
}

void kernel_follow_stop(struct kernel_follow *f)
{
    if (f->watch) {
        event_loop_remove(f->config.loop, &f->source);
        event_loop_remove(f->config.loop, &f->retry);
        netdev_watch_close(f->watch);
    }
    if (f->retry.fd >= 0)
        close(f->retry.fd);
    free(f);
}
