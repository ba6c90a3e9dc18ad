/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <errno.h>

#include "encap_layout.h"
#include "group_internal.h"
#include "net_internal.h"

/* ---- the table ---- */

static struct group *find(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        if (g->used && g->vlan == vlan && gid_eq(&g->addr, addr))
            return g;
    }
    return NULL;
}

/* A free slot, or that of a group that was left and is only being taken leave of. */
static struct group *add(struct net_host *h, const union gid *addr, uint16_t vlan)
{
    struct group *slot = NULL;

    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        if (!g->used) {
            slot = g;
            break;
        }
        if (!group_is_member(g))
            slot = g;
    }
    if (slot)
        *slot = (struct group){.used = true,
                               .addr = *addr,
                               .vlan = vlan,
                               .change_at = NS_NEVER,
                               .answer_at = NS_NEVER};
    return slot;
}

/* All hosts are members of these, or they do not leave the host: RFC 3376 6, RFC 3810 6. */
bool group_is_reported(const struct group *g)
{
    static const uint8_t all_systems[4] = {224, 0, 0, 1};
    static const union gid all_nodes = {.raw = {0xFF, 2, [15] = 1}};

    if (gid_is_ipv4(&g->addr))
        return memcmp(g->addr.raw + 12, all_systems, 4);
    return (g->addr.raw[1] & 0x0F) > 1 && !gid_eq(&g->addr, &all_nodes);
}

static void start_reporting(struct net_host *h, struct group *g, ns_t now)
{
    if (!group_is_reported(g))
        return;
    g->changes = group_robustness(h, g);
    g->change_at = now;
}

/* Nobody here is in the group any more. */
static void left(struct net_host *h, struct group *g, ns_t now)
{
    g->answer_at = NS_NEVER;
    start_reporting(h, g, now);
    if (!group_is_reported(g) || !h->link)
        g->used = false;
}

void group_join_own(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now)
{
    struct group *g = find(h, group, vlan);

    /* There is room for those of all addresses. */
    if (!g)
        g = add(h, group, vlan);
    if (!group_is_member(g))
        start_reporting(h, g, now);
    g->own++;
}

void group_leave_own(struct net_host *h, const union gid *group, uint16_t vlan)
{
    struct group *g = find(h, group, vlan);

    g->own--;
    if (!group_is_member(g))
        left(h, g, 0);
}

static unsigned joined(const struct net_host *h)
{
    unsigned n = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++)
        n += h->groups.slot[i].used && h->groups.slot[i].members;
    return n;
}

int net_host_join(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now)
{
    struct group *g = find(h, group, vlan);

    if (!gid_is_multicast(group) || !host_vlan_is_valid(vlan))
        return -EINVAL;
    if ((!g || !g->members) && joined(h) == NET_GROUP_MAX)
        return -ENOSPC;
    if (g && g->members == UINT32_MAX)
        return -ENOSPC;
    if (!g)
        g = add(h, group, vlan);
    if (!group_is_member(g))
        start_reporting(h, g, now);
    g->members++;
    return 0;
}

int net_host_leave(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now)
{
    struct group *g = find(h, group, vlan);

    if (!gid_is_multicast(group))
        return -EINVAL;
    if (!g || !g->members)
        return -ENOENT;
    g->members--;
    if (!group_is_member(g))
        left(h, g, now);
    return 0;
}

void net_host_each_group(const struct net_host *h, void *ctx,
                         void (*visit)(void *ctx, const union gid *group, uint16_t vlan,
                                       unsigned members))
{
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        const struct group *g = &h->groups.slot[i];

        if (g->used && group_is_member(g))
            visit(ctx, &g->addr, g->vlan, g->members + g->own);
    }
}

void group_report_again(struct net_host *h, bool ipv4, uint16_t vlan, ns_t now)
{
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        if (g->used && g->vlan == vlan && gid_is_ipv4(&g->addr) == ipv4 && group_is_member(g))
            start_reporting(h, g, now);
    }
}

void group_link_up(struct net_host *h, ns_t now)
{
    /* What queriers said was on the other side of another link, perhaps. */
    memset(h->groups.link, 0, sizeof(h->groups.link));
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        g->answer_at = NS_NEVER;
        if (g->used && !group_is_member(g))
            g->used = false;
        else if (g->used)
            start_reporting(h, g, now);
    }
}

/* ---- timers ---- */

ns_t group_next(const struct net_host *h)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        const struct group *g = &h->groups.slot[i];

        if (g->used)
            next = min_of(next, min_of(g->change_at, g->answer_at));
    }
    return next;
}

void group_timers(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        if (g->used && min_of(g->change_at, g->answer_at) <= now)
            group_report(h, g->vlan, gid_is_ipv4(&g->addr), now);
    }
}
