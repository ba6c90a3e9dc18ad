/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's addresses: detection of duplicates, announcements, defence. */
#include <errno.h>

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

/* Whether the host leaves it to somebody else to speak for an address. */
bool address_is_quiet(const struct net_host *h, const struct own_address *o)
{
    return h->cfg.quiet || o->a.quiet;
}

static const struct detection *rules_of(const struct own_address *o)
{
    return &detection[gid_is_ipv4(&o->a.addr)];
}

/* ---- which there are ---- */

struct own_address *address_find(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        struct own_address *o = &h->address[i];

        if (o->used && o->a.vlan == vlan && gid_eq(&o->a.addr, addr))
            return o;
    }
    return NULL;
}

bool address_counts(const struct net_host *h, const struct own_address *o)
{
    return o->state == NET_PREFERRED || (h->cfg.optimistic && o->state == NET_TENTATIVE);
}

bool address_is_usable(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    const struct own_address *o = address_find((struct net_host *)h, addr, vlan);

    return o && address_counts(h, o);
}

bool address_in_vlan(const struct net_host *h, uint16_t vlan)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++)
        if (h->address[i].used && h->address[i].a.vlan == vlan)
            return true;
    return false;
}

enum { SUITS_NETWORK = 3, SUITS_MOST };

/* How well the address suits dst: its scope, its network, or it is the one wanted. */
static int suits(const struct own_address *o, const union gid *wanted, const union gid *dst)
{
    if (wanted && gid_eq(&o->a.addr, wanted))
        return SUITS_MOST;
    if (inet_same_prefix(&o->a.addr, dst, o->a.prefix))
        return SUITS_NETWORK;
    return inet_is_link_local(&o->a.addr) == inet_is_link_local(dst) ? 2 : 1;
}

/* What is asked from a tentative address tells the neighbours a MAC that may be wrong (RFC
 * 4429 3.2), so a certain one is better, unless IPv4 hosts would not answer it: it is in another
 * network. */
static int grade_of(const struct net_host *h, const struct own_address *o, const union gid *wanted,
                    const union gid *dst)
{
    bool ipv4 = gid_is_ipv4(dst);
    int grade;

    if (!address_counts(h, o) || gid_is_ipv4(&o->a.addr) != ipv4)
        return 0;
    grade = suits(o, wanted, dst);
    return o->state == NET_PREFERRED && (!ipv4 || grade >= SUITS_NETWORK) ? SUITS_MOST + grade
                                                                          : grade;
}

bool address_source(const struct net_host *h, const union gid *wanted, const union gid *dst,
                    uint16_t vlan, union gid *src)
{
    int best = 0;

    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &h->address[i];
        int grade = o->used && o->a.vlan == vlan ? grade_of(h, o, wanted, dst) : 0;

        if (grade > best) {
            best = grade;
            *src = o->a.addr;
        }
    }
    return best;
}

bool address_is_awaited(const struct net_host *h, bool ipv4, uint16_t vlan)
{
    for (unsigned i = 0; h->link && i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &h->address[i];

        if (o->used && o->a.vlan == vlan && o->state == NET_TENTATIVE &&
            gid_is_ipv4(&o->a.addr) == ipv4)
            return true;
    }
    return false;
}

/* ---- detection and announcements ---- */

static void probe(struct net_host *h, const struct own_address *o)
{
    if (gid_is_ipv4(&o->a.addr))
        arp_probe(h, &o->a);
    else
        nd_probe(h, &o->a);
}

static void announce(struct net_host *h, const struct own_address *o)
{
    if (gid_is_ipv4(&o->a.addr))
        arp_announce(h, &o->a);
    else
        nd_announce(h, &o->a);
}

/* The callback may change the table: nothing of o is used after it. */
static void enter(struct net_host *h, struct own_address *o, enum net_address_state state)
{
    struct net_address a = o->a;

    o->state = state;
    h->cfg.ops->address_state(h->cfg.ctx, &a, state);
}

static void start_announcing(const struct net_host *h, struct own_address *o, ns_t now)
{
    bool quiet = address_is_quiet(h, o);

    o->phase = quiet ? ADDRESS_SETTLED : ADDRESS_ANNOUNCING;
    o->left = rules_of(o)->announcements;
    o->next = quiet ? NS_NEVER : now;
}

static void start_detecting(struct net_host *h, struct own_address *o, ns_t now)
{
    o->phase = ADDRESS_DETECTING;
    o->left = rules_of(o)->probes;
    o->next = now + host_random(h, rules_of(o)->delay);
}

/* Questions waited for an address, and reports that were sent from none (RFC 3590) are sent again.
 */
static void became_preferred(struct net_host *h, const struct own_address *o, ns_t now)
{
    bool ipv4 = gid_is_ipv4(&o->a.addr);

    ncache_address_preferred(h, o->a.vlan, now);
    if (ipv4 || inet_is_link_local(&o->a.addr))
        group_report_again(h, ipv4, o->a.vlan, now);
}

static void run(struct net_host *h, struct own_address *o, ns_t now)
{
    const struct detection *d = rules_of(o);
    bool was_tentative = o->state == NET_TENTATIVE;

    if (o->phase == ADDRESS_ANNOUNCING) {
        announce(h, o);
        o->next = now + d->announcement_gap;
        if (!--o->left) {
            o->phase = ADDRESS_SETTLED;
            o->next = NS_NEVER;
        }
        return;
    }
    if (o->left) {
        probe(h, o);
        o->left--;
        o->next = now + (o->left ? d->gap + host_random(h, d->gap_spread) : d->wait);
        return;
    }
    start_announcing(h, o, now);
    if (!was_tentative)
        return;
    became_preferred(h, o, now);
    enter(h, o, NET_PREFERRED);
}

void address_conflict(struct net_host *h, struct own_address *o, ns_t now)
{
    if (address_is_quiet(h, o))
        return; /* that may be who speaks for it */
    h->count.conflicts++;
    if (o->phase == ADDRESS_DETECTING) {
        o->phase = ADDRESS_SETTLED;
        o->next = NS_NEVER;
        enter(h, o, NET_DUPLICATE);
    } else if (o->state == NET_PREFERRED && now >= o->defend_again) {
        /* RFC 5227 2.4 (c): connections stand on it, so it is held, but not fought over. */
        o->defend_again = now + DEFEND_INTERVAL;
        announce(h, o);
    }
}

ns_t address_next(const struct net_host *h)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++)
        if (h->address[i].used)
            next = min_of(next, h->address[i].next);
    return next;
}

void address_timers(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++)
        if (h->address[i].used && h->address[i].next <= now)
            run(h, &h->address[i], now);
}

void address_link_up(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        struct own_address *o = &h->address[i];

        if (!o->used)
            continue;
        o->defend_again = 0;
        if (!o->detect || address_is_quiet(h, o)) {
            start_announcing(h, o, now);
            continue;
        }
        /* One in use stays in use meanwhile: the connections on it were not told of a flap. */
        if (o->state == NET_DUPLICATE)
            o->state = NET_TENTATIVE;
        start_detecting(h, o, now);
    }
}

/* ---- changing them ---- */

/* Solicitations for an IPv6 address come to a group of its own. */
static void listen_for_questions(struct net_host *h, struct own_address *o, ns_t now)
{
    union gid group = inet_solicited_node(&o->a.addr);

    if (o->joined || gid_is_ipv4(&o->a.addr) || address_is_quiet(h, o))
        return;
    group_join_own(h, &group, o->a.vlan, now);
    o->joined = true;
}

static void ignore_questions(struct net_host *h, struct own_address *o)
{
    union gid group = inet_solicited_node(&o->a.addr);

    if (o->joined)
        group_leave_own(h, &group, o->a.vlan);
    o->joined = false;
}

static bool is_valid(const struct net_address *a)
{
    return inet_is_unicast(&a->addr) && a->prefix <= (gid_is_ipv4(&a->addr) ? 32 : 128) &&
           host_vlan_is_valid(a->vlan);
}

int net_host_add_address(struct net_host *h, const struct net_address *a, bool skip_dad, ns_t now)
{
    struct own_address *o = NULL;

    if (!is_valid(a))
        return -EINVAL;
    if (address_find(h, &a->addr, a->vlan))
        return -EEXIST;
    for (unsigned i = 0; i < NET_ADDRESS_MAX && !o; i++)
        if (!h->address[i].used)
            o = &h->address[i];
    if (!o)
        return -ENOSPC;
    *o = (struct own_address){.used = true, .a = *a};
    o->detect = !skip_dad;
    listen_for_questions(h, o, now);
    if (o->detect && !address_is_quiet(h, o)) {
        o->state = NET_TENTATIVE;
        start_detecting(h, o, now);
    } else {
        o->state = NET_PREFERRED;
        start_announcing(h, o, now);
        became_preferred(h, o, now);
    }
    return 0;
}

int net_host_remove_address(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    struct own_address *o = address_find(h, addr, vlan);

    if (!o)
        return -ENOENT;
    o->used = false;
    ignore_questions(h, o);
    return 0;
}

int net_host_address_state(const struct net_host *h, const union gid *addr, uint16_t vlan)
{
    const struct own_address *o = address_find((struct net_host *)h, addr, vlan);

    return o ? (int)o->state : -ENOENT;
}

/* Who takes over a tentative address takes over its detection, too; and when it is ours to speak
 * for, that may be because he found it to be somebody else's. */
int net_host_set_quiet(struct net_host *h, const union gid *addr, uint16_t vlan, bool quiet,
                       ns_t now)
{
    struct own_address *o = address_find(h, addr, vlan);
    bool was;

    if (!o)
        return -ENOENT;
    was = address_is_quiet(h, o);
    o->a.quiet = quiet;
    if (address_is_quiet(h, o))
        ignore_questions(h, o);
    else
        listen_for_questions(h, o, now);
    if (o->state == NET_DUPLICATE)
        return 0;
    if (!quiet) {
        if (was && !address_is_quiet(h, o) && o->detect)
            start_detecting(h, o, now);
        return 0;
    }
    o->phase = ADDRESS_SETTLED;
    o->next = NS_NEVER;
    if (o->state == NET_TENTATIVE) {
        became_preferred(h, o, now);
        enter(h, o, NET_PREFERRED);
    }
    return 0;
}
