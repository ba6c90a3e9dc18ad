/* SPDX-License-Identifier: BSD-3-Clause */
/* See neighbour_cache.h. */
#include "neighbour_cache.h"

#include <errno.h>

#include "arp.h"
#include "nd.h"

#define REACHABLE_TIME (30 * NS_PER_SEC)
#define RETRANS_TIME   NS_PER_SEC
#define FAILED_TIME    NS_PER_SEC
#define TRIES          3
#define IN_USE_TIME    (60 * NS_PER_SEC)
#define SPREAD_TIME    NS_PER_SEC
/* Entries of neighbours that have not answered yet, and take no known one's place. */
#define UNKNOWN_MAX (NET_NEIGHBOUR_MAX / 2)

/* ---- the table ---- */

/* A static entry without a VLAN is valid in all of them; an entry of the VLAN itself takes
 * precedence. */
static struct cached_neighbour *find_entry(const struct neighbour_cache *c, const union gid *addr,
                                           uint16_t vlan)
{
    const struct cached_neighbour *everywhere = NULL;

    for (unsigned i = 0; i < c->len; i++) {
        const struct cached_neighbour *e = &c->slot[i];

        if (!e->used_slot || !gid_eq(&e->addr, addr))
            continue;
        if (e->vlan == vlan)
            return (struct cached_neighbour *)e;
        if (e->state == NET_STATIC && e->vlan == VLAN_NONE)
            everywhere = e;
    }
    return (struct cached_neighbour *)everywhere;
}

static bool is_in_use(const struct cached_neighbour *e, ns_t now)
{
    if (e->state == NET_STATIC || e->waited)
        return true;
    return e->state != NET_FAILED && e->used && now - e->used < IN_USE_TIME;
}

/* Whether `e` makes room rather than `than`: those without a MAC come first. */
static bool is_rather(const struct cached_neighbour *e, const struct cached_neighbour *than)
{
    if (!than || e->has_mac != than->has_mac)
        return !than || than->has_mac;
    return e->used < than->used;
}

/*
 * A free slot, or the least recently used one; NULL when all are in use. Connections do not resolve
 * their neighbours again, and still follow those that the table knows; requests for hosts that do
 * not exist, which forged packets can cause, leave at least half of it to these.
 */
static struct cached_neighbour *find_room(struct neighbour_cache *c, ns_t now)
{
    struct cached_neighbour *oldest = NULL;
    unsigned unknown = 0;

    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (!e->used_slot)
            return e;
        unknown += !e->has_mac;
        if (!is_in_use(e, now) && is_rather(e, oldest))
            oldest = e;
    }
    if (c->len < NET_NEIGHBOUR_MAX)
        return &c->slot[c->len++];
    return oldest && oldest->has_mac && unknown >= UNKNOWN_MAX ? NULL : oldest;
}

static void init_entry(struct cached_neighbour *e, const union gid *addr, uint16_t vlan)
{
    *e =
        (struct cached_neighbour){.used_slot = true, .addr = *addr, .vlan = vlan, .next = NS_NEVER};
}

static struct cached_neighbour *add_entry(struct neighbour_cache *c, const union gid *addr,
                                          uint16_t vlan, ns_t now)
{
    struct cached_neighbour *e = find_room(c, now);

    if (e)
        init_entry(e, addr, vlan);
    return e;
}

/* The entry to replace when requests for absent neighbours fill the table: neighbours that are
 * present answer at once, so the oldest request is the least likely to be answered. NULL: no
 * request is outstanding. */
static struct cached_neighbour *oldest_unanswered(struct neighbour_cache *c)
{
    struct cached_neighbour *oldest = NULL;

    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (e->state == NET_INCOMPLETE && is_rather(e, oldest))
            oldest = e;
    }
    return oldest;
}

/* ---- transitions ---- */

static void send_request(struct neighbour_cache *c, struct cached_neighbour *e, ns_t now)
{
    const uint8_t *mac = e->state == NET_PROBE ? e->mac : NULL;
    bool ipv4 = gid_is_ipv4(&e->addr);
    union gid src;

    e->next = now + RETRANS_TIME;
    if (!address_source(c->addresses, &e->src, &e->addr, e->vlan, &src)) {
        /* A request from the unspecified address would look like duplicate address detection. */
        if (!c->port->link || !address_is_awaited(c->addresses, ipv4, e->vlan))
            e->tries++;
        return;
    }
    e->tries++;
    if (ipv4)
        arp_request(c->port, e->vlan, &src, &e->addr, mac);
    else
        nd_solicit(c->port, e->vlan, &src, &e->addr, mac);
}

static void start_requests(struct neighbour_cache *c, struct cached_neighbour *e,
                           enum net_neighbour_state state, ns_t now)
{
    e->state = state;
    e->tries = 0;
    send_request(c, e, now);
}

/* Reports the change of an entry that was as *was. The callbacks may change the table. */
static void report_change(struct neighbour_cache *c, const struct cached_neighbour *was,
                          const uint8_t *mac)
{
    const struct net_host_ops *ops = c->port->cfg.ops;

    if (mac && was->has_mac && memcmp(was->mac, mac, 6))
        ops->moved(c->port->cfg.ctx, &was->addr, was->vlan, mac);
    if (was->waited)
        ops->resolved(c->port->cfg.ctx, &was->addr, was->vlan, mac);
}

static void set_mac(struct neighbour_cache *c, struct cached_neighbour *e, const uint8_t mac[6],
                    enum net_neighbour_state state, ns_t now)
{
    struct cached_neighbour was = *e;

    memcpy(e->mac, mac, 6);
    e->has_mac = true;
    e->waited = false;
    e->tries = 0;
    e->state = state;
    e->next = state == NET_REACHABLE ? now + REACHABLE_TIME : NS_NEVER;
    report_change(c, &was, mac);
}

/* Ends the time in which a failure is reported at once. A MAC is kept: queue pairs still send to
 * it, and `moved` redirects them when the neighbour comes back with another. */
static void forget_failure(struct cached_neighbour *e)
{
    e->state = NET_FAILED;
    e->next = NS_NEVER;
    e->used_slot = e->has_mac;
}

/* Callers that waited see the failure for FAILED_TIME; without any, the next call sends requests
 * again. */
static void enter_failed(struct neighbour_cache *c, struct cached_neighbour *e, ns_t now)
{
    struct cached_neighbour was = *e;

    if (!e->waited) {
        forget_failure(e);
        return;
    }
    e->state = NET_FAILED;
    e->waited = false;
    e->next = now + FAILED_TIME;
    report_change(c, &was, NULL);
}

static void run_timer(struct neighbour_cache *c, struct cached_neighbour *e, ns_t now)
{
    switch (e->state) {
    case NET_INCOMPLETE:
        if (e->tries < TRIES)
            send_request(c, e, now);
        else
            enter_failed(c, e, now);
        break;
    case NET_REACHABLE:
        e->state = NET_STALE;
        e->next = NS_NEVER;
        break;
    case NET_PROBE:
        /* The neighbour is silent. Another host may have the address now (RFC 7048). */
        if (e->tries < TRIES)
            send_request(c, e, now);
        else
            start_requests(c, e, NET_INCOMPLETE, now);
        break;
    case NET_FAILED:
        forget_failure(e);
        break;
    case NET_STALE:
    case NET_STATIC:
        break;
    }
}

ns_t ncache_next(const struct neighbour_cache *c)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < c->len; i++)
        if (c->slot[i].used_slot)
            next = min_of(next, c->slot[i].next);
    return next;
}

void ncache_timers(struct neighbour_cache *c, ns_t now)
{
    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (e->used_slot && e->next <= now)
            run_timer(c, e, now);
    }
}

void ncache_address_preferred(struct neighbour_cache *c, uint16_t vlan, ns_t now)
{
    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (e->used_slot && e->vlan == vlan && e->state == NET_INCOMPLETE && !e->tries)
            e->next = now;
    }
}

/* Requests for all neighbours are spread over SPREAD_TIME; known MACs are kept, so that `moved` can
 * be reported. */
void ncache_link_up(struct neighbour_cache *c, ns_t now)
{
    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (!e->used_slot || e->state == NET_STATIC)
            continue;
        if (e->state == NET_FAILED) {
            forget_failure(e);
            continue;
        }
        e->state = NET_INCOMPLETE;
        e->tries = 0;
        e->next = now + net_port_random(c->port, SPREAD_TIME);
    }
}

/* ---- resolution ---- */

int ncache_resolve(struct neighbour_cache *c, const union gid *src, const union gid *addr,
                   uint16_t vlan, ns_t now, uint8_t mac[6])
{
    struct cached_neighbour *e = find_entry(c, addr, vlan), gone = {.waited = false};

    /* Its timer may be due and not have run yet. */
    if (e && e->state == NET_REACHABLE && e->next <= now)
        run_timer(c, e, now);
    if (e && e->state == NET_FAILED) {
        if (e->next != NS_NEVER && now < e->next)
            return -EHOSTUNREACH;
        e->state = NET_INCOMPLETE;
        e->tries = 0;
    }
    if (!e) {
        e = add_entry(c, addr, vlan, now);
        if (!e) {
            e = oldest_unanswered(c);
            if (!e)
                return -EHOSTUNREACH;
            gone = *e;
            init_entry(e, addr, vlan);
        }
    }
    e->used = max_of(now, (ns_t)1);
    e->src = *src;
    if (e->state == NET_INCOMPLETE) {
        /* A caller that starts to wait gets all TRIES requests, however many were sent before. */
        if (!e->waited && e->tries > 1)
            e->tries = 0;
        e->waited = true;
        if (!e->tries)
            send_request(c, e, now);
        report_change(c, &gone, NULL);
        return -EINPROGRESS;
    }
    memcpy(mac, e->mac, 6);
    if (e->state == NET_STALE)
        start_requests(c, e, NET_PROBE, now);
    return 0;
}

const uint8_t *ncache_static_mac(const struct neighbour_cache *c, const union gid *addr,
                                 uint16_t vlan)
{
    const struct cached_neighbour *e = find_entry(c, addr, vlan);

    return e && e->state == NET_STATIC ? e->mac : NULL;
}

const uint8_t *ncache_mac(const struct neighbour_cache *c, const union gid *addr, uint16_t vlan)
{
    const struct cached_neighbour *e = find_entry(c, addr, vlan);

    return e && e->has_mac ? e->mac : NULL;
}

void ncache_learn(struct neighbour_cache *c, const union gid *addr, uint16_t vlan,
                  const uint8_t mac[6], bool confirmed, bool create, ns_t now)
{
    struct cached_neighbour *e = find_entry(c, addr, vlan);

    if (!e && create && inet_is_unicast(addr) && address_on_link(c->addresses, addr, vlan))
        e = add_entry(c, addr, vlan, now);
    if (!e || e->state == NET_STATIC)
        return;
    if (confirmed)
        set_mac(c, e, mac, NET_REACHABLE, now);
    else if (e->state == NET_INCOMPLETE || e->state == NET_FAILED || memcmp(e->mac, mac, 6))
        set_mac(c, e, mac, NET_STALE, now);
}

void ncache_advertised(struct neighbour_cache *c, const union gid *addr, uint16_t vlan,
                       const uint8_t *mac, bool solicited, bool override, ns_t now)
{
    struct cached_neighbour *e = find_entry(c, addr, vlan);
    bool differs;

    if (!e || e->state == NET_STATIC)
        return;
    if (e->state == NET_INCOMPLETE || e->state == NET_FAILED) {
        if (mac)
            set_mac(c, e, mac, solicited ? NET_REACHABLE : NET_STALE, now);
        return;
    }
    differs = mac && memcmp(mac, e->mac, 6);
    if (differs && !override) {
        /* Two hosts claim the address: the known MAC is used until one answers a request. */
        if (e->state == NET_REACHABLE) {
            e->state = NET_STALE;
            e->next = NS_NEVER;
        }
        return;
    }
    if (solicited)
        set_mac(c, e, mac ? mac : e->mac, NET_REACHABLE, now);
    else if (differs)
        set_mac(c, e, mac, NET_STALE, now);
}

/* ---- static entries ---- */

int ncache_add_static(struct neighbour_cache *c, const union gid *addr, uint16_t vlan,
                      const uint8_t mac[6])
{
    struct cached_neighbour *e, was = {.used_slot = false};

    if (!inet_is_unicast(addr) || !inet_vlan_is_valid(vlan) || !inet_mac_is_host(mac))
        return -EINVAL;
    e = find_entry(c, addr, vlan);
    if (e && e->vlan == vlan)
        was = *e;
    else
        e = add_entry(c, addr, vlan, NS_NEVER);
    if (!e)
        return -ENOSPC;
    memcpy(e->mac, mac, 6);
    e->has_mac = true;
    e->waited = false;
    e->state = NET_STATIC;
    e->next = NS_NEVER;
    report_change(c, &was, mac);
    for (unsigned i = 0; vlan == VLAN_NONE && i < c->len; i++) {
        was = c->slot[i];
        if (!was.used_slot || was.state == NET_STATIC || !gid_eq(&was.addr, addr))
            continue;
        c->slot[i].used_slot = false;
        report_change(c, &was, mac);
    }
    return 0;
}
