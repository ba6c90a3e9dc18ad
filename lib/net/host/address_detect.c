/* SPDX-License-Identifier: BSD-3-Clause */
/* See address_detect.h. */
#include "address_detect.h"

#include <errno.h>

#include "arp.h"
#include "nd.h"
#include "net_internal.h"

/* RFC 5227 1.1; RFC 4862 5.1, RFC 4861 10. */
static const struct detection {
    uint8_t probes, announcements;
    ns_t delay;            /* before the first probe, at most */
    ns_t gap, gap_spread;  /* between probes: gap and up to gap_spread */
    ns_t wait;             /* after the last */
    ns_t announcement_gap; /* between announcements */
} detection[2] = {
    {.probes = 1,
     .announcements = 2,
     .delay = NS_PER_SEC,
     .wait = NS_PER_SEC,
     .announcement_gap = NS_PER_SEC},
    {.probes = 3,
     .announcements = 2,
     .delay = NS_PER_SEC,
     .gap = NS_PER_SEC,
     .gap_spread = NS_PER_SEC,
     .wait = 2 * NS_PER_SEC,
     .announcement_gap = 2 * NS_PER_SEC},
};
#define DEFEND_INTERVAL (10 * NS_PER_SEC)

static const struct detection *detection_rules(const struct own_address *o)
{
    return &detection[gid_is_ipv4(&o->a.addr)];
}

/* ---- detection and announcements ---- */

static void send_probe(struct net_host *h, const struct own_address *o)
{
    if (gid_is_ipv4(&o->a.addr))
        arp_probe(&h->port, &o->a);
    else
        nd_probe(&h->port, &o->a);
}

static void send_announcement(struct net_host *h, const struct own_address *o)
{
    if (gid_is_ipv4(&o->a.addr))
        arp_announce(&h->port, &o->a);
    else
        nd_announce(&h->port, &o->a);
}

/* The callback may change the table: callers do not use o afterwards. */
static void set_state(struct net_host *h, struct own_address *o, enum net_address_state state)
{
    struct net_address a = o->a;

    o->state = state;
    o->doubted = false;
    h->port.cfg.ops->address_state(h->port.cfg.ctx, &a, state);
}

static void start_announcing(const struct net_host *h, struct own_address *o, ns_t now)
{
    bool quiet = address_is_quiet(&h->addresses, o);

    o->phase = quiet ? ADDRESS_IDLE : ADDRESS_ANNOUNCING;
    o->packets_left = detection_rules(o)->announcements;
    o->next = quiet ? NS_NEVER : now;
}

static void start_detecting(struct net_host *h, struct own_address *o, ns_t now)
{
    o->phase = ADDRESS_DETECTING;
    o->packets_left = detection_rules(o)->probes;
    o->next = now + net_port_random(&h->port, detection_rules(o)->delay);
}

/* Requests that waited for an address are sent, and reports that had no source (RFC 3590) are
 * repeated. */
static void became_preferred(struct net_host *h, const struct own_address *o, ns_t now)
{
    bool ipv4 = gid_is_ipv4(&o->a.addr);

    ncache_address_preferred(&h->neighbours, o->a.vlan, now);
    if (ipv4 || gid_is_link_local(&o->a.addr))
        group_report_again(&h->groups, ipv4, o->a.vlan, now);
}

static void run_timer(struct net_host *h, struct own_address *o, ns_t now)
{
    const struct detection *d = detection_rules(o);
    bool was_tentative = o->state == NET_TENTATIVE;

    if (o->phase == ADDRESS_ANNOUNCING) {
        send_announcement(h, o);
        o->next = now + d->announcement_gap;
        if (!--o->packets_left) {
            o->phase = ADDRESS_IDLE;
            o->next = NS_NEVER;
        }
        return;
    }
    if (o->packets_left) {
        send_probe(h, o);
        o->packets_left--;
        o->next =
            now + (o->packets_left ? d->gap + net_port_random(&h->port, d->gap_spread) : d->wait);
        return;
    }
    start_announcing(h, o, now);
    if (!was_tentative)
        return;
    became_preferred(h, o, now);
    set_state(h, o, NET_PREFERRED);
}

void address_conflict(struct net_host *h, struct own_address *o, ns_t now)
{
    if (address_is_quiet(&h->addresses, o))
        return; /* the other host may be the one that answers for it */
    h->port.count.conflicts++;
    if (o->phase == ADDRESS_DETECTING) {
        o->phase = ADDRESS_IDLE;
        o->next = NS_NEVER;
        set_state(h, o, NET_DUPLICATE);
    } else if (o->state == NET_PREFERRED && now >= o->defend_after) {
        /* RFC 5227 2.4 (c): connections use the address, so the host keeps it, but limits its
         * defence. */
        o->defend_after = now + DEFEND_INTERVAL;
        send_announcement(h, o);
    }
}

ns_t address_next(const struct net_host *h)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++)
        if (h->addresses.slot[i].used)
            next = min_of(next, h->addresses.slot[i].next);
    return next;
}

void address_timers(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++)
        if (h->addresses.slot[i].used && h->addresses.slot[i].next <= now)
            run_timer(h, &h->addresses.slot[i], now);
}

void address_link_up(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        struct own_address *o = &h->addresses.slot[i];

        if (!o->used)
            continue;
        o->defend_after = 0;
        if (!o->detect || address_is_quiet(&h->addresses, o)) {
            start_announcing(h, o, now);
            continue;
        }
        /* A preferred address stays in use during detection: its connections did not notice the
         * link's flap. */
        if (o->state == NET_DUPLICATE) {
            o->state = NET_TENTATIVE;
            o->doubted = true;
        }
        start_detecting(h, o, now);
    }
}

/* ---- changes ---- */

/* Solicitations for an IPv6 address are sent to its solicited-node group. */
static void join_solicited_node(struct net_host *h, struct own_address *o, ns_t now)
{
    union gid group = inet_solicited_node(&o->a.addr);

    if (o->joined || gid_is_ipv4(&o->a.addr) || address_is_quiet(&h->addresses, o))
        return;
    group_join_own(&h->groups, &group, o->a.vlan, now);
    o->joined = true;
}

static void leave_solicited_node(struct net_host *h, struct own_address *o)
{
    union gid group = inet_solicited_node(&o->a.addr);

    if (o->joined)
        group_leave_own(&h->groups, &group, o->a.vlan);
    o->joined = false;
}

static bool is_valid(const struct net_address *a)
{
    return inet_is_unicast(&a->addr) && a->prefix <= (gid_is_ipv4(&a->addr) ? 32 : 128) &&
           inet_vlan_is_valid(a->vlan);
}

int address_add(struct net_host *h, const struct net_address *a, bool skip_dad, ns_t now)
{
    struct own_address *o = NULL;

    if (!is_valid(a))
        return -EINVAL;
    if (address_find(&h->addresses, &a->addr, a->vlan))
        return -EEXIST;
    for (unsigned i = 0; i < NET_ADDRESS_MAX && !o; i++)
        if (!h->addresses.slot[i].used)
            o = &h->addresses.slot[i];
    if (!o)
        return -ENOSPC;
    *o = (struct own_address){.used = true, .a = *a};
    o->detect = !skip_dad;
    join_solicited_node(h, o, now);
    if (o->detect && !address_is_quiet(&h->addresses, o)) {
        o->state = NET_TENTATIVE;
        start_detecting(h, o, now);
    } else {
        o->state = NET_PREFERRED;
        start_announcing(h, o, now);
        became_preferred(h, o, now);
    }
    return 0;
}

int address_remove(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    struct own_address *o = address_find(&h->addresses, addr, vlan);

    if (!o)
        return -ENOENT;
    o->used = false;
    leave_solicited_node(h, o);
    return 0;
}

/* The kernel that answers for an address also detects duplicates of it. When it stops answering, it
 * may have found one, so the host detects again. */
int address_set_quiet(struct net_host *h, const union gid *addr, uint16_t vlan, bool quiet,
                      ns_t now)
{
    struct own_address *o = address_find(&h->addresses, addr, vlan);
    bool was;

    if (!o)
        return -ENOENT;
    was = address_is_quiet(&h->addresses, o);
    o->a.quiet = quiet;
    if (address_is_quiet(&h->addresses, o))
        leave_solicited_node(h, o);
    else
        join_solicited_node(h, o, now);
    if (o->state == NET_DUPLICATE)
        return 0;
    if (!quiet) {
        if (was && !address_is_quiet(&h->addresses, o) && o->detect)
            start_detecting(h, o, now);
        return 0;
    }
    o->phase = ADDRESS_IDLE;
    o->next = NS_NEVER;
    if (o->state == NET_TENTATIVE) {
        became_preferred(h, o, now);
        set_state(h, o, NET_PREFERRED);
    }
    return 0;
}
