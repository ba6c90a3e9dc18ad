/* SPDX-License-Identifier: BSD-3-Clause */
#include "neighbour_cache.h"

#include <errno.h>

#include "net_internal.h"

#define REACHABLE_TIME (30 * NS_PER_SEC)
#define RETRANS_TIME   NS_PER_SEC
#define FAILED_TIME    NS_PER_SEC
#define TRIES          3
#define IN_USE_TIME    (60 * NS_PER_SEC)
#define SPREAD_TIME    NS_PER_SEC

/* ---- the table ---- */

/* A static entry without a VLAN is for all of them, but one of the VLAN itself comes first. */
static struct cached_neighbour *find(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    struct neighbour_cache *c = &h->neighbours;
    struct cached_neighbour *everywhere = NULL;

    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (!e->used_slot || !gid_eq(&e->addr, addr))
            continue;
        if (e->vlan == vlan)
            return e;
        if (e->state == NET_STATIC && e->vlan == VLAN_NONE)
            everywhere = e;
    }
    return everywhere;
}

static bool is_in_use(const struct cached_neighbour *e, ns_t now)
{
    if (e->state == NET_STATIC || e->waited)
        return true;
    return e->state != NET_FAILED && e->used && now - e->used < IN_USE_TIME;
}

/* A free slot, or the one whose use is longest ago; NULL when all are in use. */
static struct cached_neighbour *take_slot(struct net_host *h, ns_t now)
{
    struct neighbour_cache *c = &h->neighbours;
    struct cached_neighbour *oldest = NULL;

    for (unsigned i = 0; i < c->len; i++) {
        struct cached_neighbour *e = &c->slot[i];

        if (!e->used_slot)
            return e;
        if (!is_in_use(e, now) && (!oldest || e->used < oldest->used))
            oldest = e;
    }
    return c->len < NET_NEIGHBOUR_MAX ? &c->slot[c->len++] : oldest;
}

static void fill(struct cached_neighbour *e, const union gid *addr, uint16_t vlan)
{
    *e =
        (struct cached_neighbour){.used_slot = true, .addr = *addr, .vlan = vlan, .next = NS_NEVER};
}

static struct cached_neighbour *add(struct net_host *h, const union gid *addr, uint16_t vlan,
                                    ns_t now)
{
    struct cached_neighbour *e = take_slot(h, now);

    if (e)
        fill(e, addr, vlan);
    return e;
}

/* Who asks for one absent neighbour after the other shall not keep all others from asking: those
 * that are there answer at once. NULL: there is no question. */
static struct cached_neighbour *oldest_question(struct net_host *h)
{
    struct cached_neighbour *oldest = NULL;

    for (unsigned i = 0; i < h->neighbours.len; i++) {
        struct cached_neighbour *e = &h->neighbours.slot[i];

        if (e->state == NET_INCOMPLETE && (!oldest || e->used < oldest->used))
            oldest = e;
    }
    return oldest;
}

/* ---- transitions ---- */

static void ask(struct net_host *h, struct cached_neighbour *e, ns_t now)
{
    const uint8_t *mac = e->state == NET_PROBE ? e->mac : NULL;
    bool ipv4 = gid_is_ipv4(&e->addr);
    union gid src;

    e->next = now + RETRANS_TIME;
    if (!address_source(h, &e->src, &e->addr, e->vlan, &src)) {
        /* From no address the question would pass for somebody's detection of a duplicate. */
        if (!address_is_awaited(h, ipv4, e->vlan))
            e->tries++;
        return;
    }
    e->tries++;
    if (ipv4)
        arp_ask(h, e->vlan, &src, &e->addr, mac);
    else
        nd_ask(h, e->vlan, &src, &e->addr, mac);
}

static void start(struct net_host *h, struct cached_neighbour *e, enum net_neighbour_state state,
                  ns_t now)
{
    e->state = state;
    e->tries = 0;
    ask(h, e, now);
}

/* Tells what became of an entry that was as *was. The callbacks may change the table. */
static void tell(struct net_host *h, const struct cached_neighbour *was, const uint8_t *mac)
{
    const struct net_host_ops *ops = h->cfg.ops;

    if (mac && was->has_mac && memcmp(was->mac, mac, 6))
        ops->moved(h->cfg.ctx, &was->addr, was->vlan, mac);
    if (was->waited)
        ops->resolved(h->cfg.ctx, &was->addr, was->vlan);
}

static void set_mac(struct net_host *h, struct cached_neighbour *e, const uint8_t mac[6],
                    enum net_neighbour_state state, ns_t now)
{
    struct cached_neighbour was = *e;

    memcpy(e->mac, mac, 6);
    e->has_mac = true;
    e->waited = false;
    e->tries = 0;
    e->state = state;
    e->next = state == NET_REACHABLE ? now + REACHABLE_TIME : NS_NEVER;
    tell(h, &was, mac);
}

/* A failure that is over. Its MAC is kept: packets go there that are to follow when he comes back
 * with another. */
static void forget(struct cached_neighbour *e)
{
    e->state = NET_FAILED;
    e->next = NS_NEVER;
    e->used_slot = e->has_mac;
}

/* The failure is remembered for those who waited; for others it is worth another question. */
static void fail(struct net_host *h, struct cached_neighbour *e, ns_t now)
{
    struct cached_neighbour was = *e;

    if (!e->waited) {
        forget(e);
        return;
    }
    e->state = NET_FAILED;
    e->waited = false;
    e->next = now + FAILED_TIME;
    tell(h, &was, NULL);
}

static void run(struct net_host *h, struct cached_neighbour *e, ns_t now)
{
    switch (e->state) {
    case NET_INCOMPLETE:
        if (e->tries < TRIES)
            ask(h, e, now);
        else
            fail(h, e, now);
        break;
    case NET_REACHABLE:
        e->state = NET_STALE;
        e->next = NS_NEVER;
        break;
    case NET_PROBE:
        /* The one that had it is silent. Somebody else may have it now (RFC 7048). */
        if (e->tries < TRIES)
            ask(h, e, now);
        else
            start(h, e, NET_INCOMPLETE, now);
        break;
    case NET_FAILED:
        forget(e);
        break;
    case NET_STALE:
    case NET_STATIC:
        break;
    }
}

ns_t ncache_next(const struct net_host *h)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < h->neighbours.len; i++)
        if (h->neighbours.slot[i].used_slot)
            next = min_of(next, h->neighbours.slot[i].next);
    return next;
}

void ncache_timers(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < h->neighbours.len; i++) {
        struct cached_neighbour *e = &h->neighbours.slot[i];

        if (e->used_slot && e->next <= now)
            run(h, e, now);
    }
}

void ncache_address_preferred(struct net_host *h, uint16_t vlan, ns_t now)
{
    for (unsigned i = 0; i < h->neighbours.len; i++) {
        struct cached_neighbour *e = &h->neighbours.slot[i];

        if (e->used_slot && e->vlan == vlan && e->state == NET_INCOMPLETE && !e->tries)
            e->next = now;
    }
}

/* All are asked for again, at moments of their own; what they had is kept to see who moved. */
void ncache_link_up(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < h->neighbours.len; i++) {
        struct cached_neighbour *e = &h->neighbours.slot[i];

        if (!e->used_slot || e->state == NET_STATIC)
            continue;
        if (e->state == NET_FAILED) {
            forget(e);
            continue;
        }
        e->state = NET_INCOMPLETE;
        e->tries = 0;
        e->next = now + host_random(h, SPREAD_TIME);
    }
}

/* ---- in use ---- */

int ncache_resolve(struct net_host *h, const union gid *src, const union gid *addr, uint16_t vlan,
                   ns_t now, uint8_t mac[6])
{
    struct cached_neighbour *e = find(h, addr, vlan), gone = {.waited = false};

    /* Timers that are due and were not run. */
    if (e && e->state == NET_REACHABLE && e->next <= now)
        run(h, e, now);
    if (e && e->state == NET_FAILED) {
        if (e->next != NS_NEVER && now < e->next)
            return -EHOSTUNREACH;
        e->state = NET_INCOMPLETE;
        e->tries = 0;
    }
    if (!e) {
        e = add(h, addr, vlan, now);
        if (!e) {
            e = oldest_question(h);
            if (!e)
                return -EHOSTUNREACH;
            gone = *e;
            fill(e, addr, vlan);
        }
    }
    e->used = max_of(now, (ns_t)1);
    e->src = *src;
    if (e->state == NET_INCOMPLETE) {
        /* A question for its own sake may be about to be given up: who waits gets all of one. */
        if (!e->waited && e->tries > 1)
            e->tries = 0;
        e->waited = true;
        if (!e->tries)
            ask(h, e, now);
        tell(h, &gone, NULL);
        return -EINPROGRESS;
    }
    memcpy(mac, e->mac, 6);
    if (e->state == NET_STALE)
        start(h, e, NET_PROBE, now);
    return 0;
}

const uint8_t *ncache_static_mac(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    const struct cached_neighbour *e = find((struct net_host *)h, addr, vlan);

    return e && e->state == NET_STATIC ? e->mac : NULL;
}

const uint8_t *ncache_mac(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    const struct cached_neighbour *e = find((struct net_host *)h, addr, vlan);

    return e && e->has_mac ? e->mac : NULL;
}

void ncache_learn(struct net_host *h, const union gid *addr, uint16_t vlan, const uint8_t mac[6],
                  bool confirmed, bool create, ns_t now)
{
    struct cached_neighbour *e = find(h, addr, vlan);

    if (!e && create && inet_is_unicast(addr) && route_on_link(h, addr, vlan))
        e = add(h, addr, vlan, now);
    if (!e || e->state == NET_STATIC)
        return;
    if (confirmed)
        set_mac(h, e, mac, NET_REACHABLE, now);
    else if (e->state == NET_INCOMPLETE || e->state == NET_FAILED || memcmp(e->mac, mac, 6))
        set_mac(h, e, mac, NET_STALE, now);
}

void ncache_advertised(struct net_host *h, const union gid *addr, uint16_t vlan, const uint8_t *mac,
                       bool solicited, bool override, ns_t now)
{
    struct cached_neighbour *e = find(h, addr, vlan);
    bool differs;

    if (!e || e->state == NET_STATIC)
        return;
    if (e->state == NET_INCOMPLETE || e->state == NET_FAILED) {
        if (mac)
            set_mac(h, e, mac, solicited ? NET_REACHABLE : NET_STALE, now);
        return;
    }
    differs = mac && memcmp(mac, e->mac, 6);
    if (differs && !override) {
        /* Two claim it: what is known is used until a question is answered. */
        if (e->state == NET_REACHABLE) {
            e->state = NET_STALE;
            e->next = NS_NEVER;
        }
        return;
    }
    if (solicited)
        set_mac(h, e, mac ? mac : e->mac, NET_REACHABLE, now);
    else if (differs)
        set_mac(h, e, mac, NET_STALE, now);
}

/* ---- static ones ---- */

int net_host_add_neighbour(struct net_host *h, const union gid *addr, uint16_t vlan,
                           const uint8_t mac[6])
{
    struct neighbour_cache *c = &h->neighbours;
    struct cached_neighbour *e, was = {.used_slot = false};

    if (!inet_is_unicast(addr) || !host_vlan_is_valid(vlan) || inet_mac_is_group(mac) ||
        !memcmp(mac, (const uint8_t[6]){0}, 6))
        return -EINVAL;
    e = find(h, addr, vlan);
    if (e && e->vlan == vlan)
        was = *e;
    else
        e = add(h, addr, vlan, NS_NEVER);
    if (!e)
        return -ENOSPC;
    memcpy(e->mac, mac, 6);
    e->has_mac = true;
    e->waited = false;
    e->state = NET_STATIC;
    e->next = NS_NEVER;
    tell(h, &was, mac);
    for (unsigned i = 0; vlan == VLAN_NONE && i < c->len; i++) {
        was = c->slot[i];
        if (!was.used_slot || was.state == NET_STATIC || !gid_eq(&was.addr, addr))
            continue;
        c->slot[i].used_slot = false;
        tell(h, &was, mac);
    }
    return 0;
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
