/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups, their members and the queriers of each VLAN. */
#include <errno.h>

#include "encap_layout.h"
#include "group_internal.h"

/* ---- queriers ---- */

static struct group_querier *find_querier(const struct group_table *t, uint16_t vlan)
{
    for (unsigned i = 0; i < GROUP_QUERIERS; i++)
        if (t->querier[i].used && t->querier[i].vlan == vlan)
            return (struct group_querier *)&t->querier[i];
    return NULL;
}

/* Whether the host is in the VLAN at all. */
static bool in_vlan(const struct group_table *t, uint16_t vlan)
{
    for (unsigned i = 0; i < t->len; i++)
        if (t->slot[i].used && t->slot[i].vlan == vlan)
            return true;
    return address_in_vlan(t->addresses, vlan);
}

struct group_querier *group_querier(struct group_table *t, uint16_t vlan)
{
    struct group_querier *q = find_querier(t, vlan);

    if (q || !in_vlan(t, vlan))
        return q;
    for (unsigned i = 0; i < GROUP_QUERIERS && !q; i++)
        if (!t->querier[i].used || !in_vlan(t, t->querier[i].vlan))
            q = &t->querier[i];
    if (q)
        *q = (struct group_querier){
            .used = true, .vlan = vlan, .robustness = {GROUP_ROBUSTNESS, GROUP_ROBUSTNESS}};
    return q;
}

uint8_t group_robustness(const struct group_table *t, const struct group *g)
{
    const struct group_querier *q = find_querier(t, g->vlan);

    return q ? q->robustness[gid_is_ipv4(&g->addr) ? GROUP_IGMP : GROUP_MLD] : GROUP_ROBUSTNESS;
}

unsigned group_igmp_version(const struct group_table *t, uint16_t vlan, ns_t now)
{
    const struct group_querier *q = find_querier(t, vlan);

    if (q && now < q->igmp_v1_until)
        return 1;
    return q && now < q->igmp_v2_until ? 2 : 3;
}

unsigned group_mld_version(const struct group_table *t, uint16_t vlan, ns_t now)
{
    const struct group_querier *q = find_querier(t, vlan);

    return q && now < q->mld_v1_until ? 1 : 2;
}

/* ---- groups ---- */

static struct group *find_group(struct group_table *t, const union gid *addr, uint16_t vlan)
{
    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        if (g->used && g->vlan == vlan && gid_eq(&g->addr, addr))
            return g;
    }
    return NULL;
}

/* A free slot; or if there is none, that of a group without members, whose remaining reports of
 * leaving are given up. */
static struct group *find_slot(struct group_table *t)
{
    struct group *without = NULL;

    for (unsigned i = 0; i < t->len; i++) {
        if (!t->slot[i].used)
            return &t->slot[i];
        if (!group_is_member(&t->slot[i]))
            without = &t->slot[i];
    }
    return t->len < ARRAY_SIZE(t->slot) ? &t->slot[t->len++] : without;
}

static struct group *add_group(struct group_table *t, const union gid *addr, uint16_t vlan)
{
    struct group *slot = find_slot(t);

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

static void start_reporting(struct group_table *t, struct group *g, ns_t now)
{
    if (!group_is_reported(g))
        return;
    g->changes = group_robustness(t, g);
    g->change_at = now;
}

static void last_member_left(struct group_table *t, struct group *g, ns_t now)
{
    g->answer_at = NS_NEVER;
    start_reporting(t, g, now);
    if (!group_is_reported(g) || !t->port->link)
        g->used = false;
}

void group_join_own(struct group_table *t, const union gid *group, uint16_t vlan, ns_t now)
{
    struct group *g = find_group(t, group, vlan);

    /* The table has room for the solicited-node groups of all addresses. */
    if (!g)
        g = add_group(t, group, vlan);
    if (!group_is_member(g))
        start_reporting(t, g, now);
    g->own++;
}

void group_leave_own(struct group_table *t, const union gid *group, uint16_t vlan)
{
    struct group *g = find_group(t, group, vlan);

    g->own--;
    if (!group_is_member(g))
        last_member_left(t, g, 0);
}

/* Whether one more group may be joined in the VLAN. */
static bool has_room(const struct group_table *t, uint16_t vlan)
{
    unsigned here = 0, all = 0;

    for (unsigned i = 0; i < t->len; i++) {
        const struct group *g = &t->slot[i];
        bool joined = g->used && g->members;

        all += joined;
        here += joined && g->vlan == vlan;
    }
    return here < NET_GROUP_MAX && all < GROUP_JOINED_MAX;
}

int group_join(struct group_table *t, const union gid *group, uint16_t vlan, ns_t now)
{
    struct group *g = find_group(t, group, vlan);

    if (!gid_is_multicast(group) || !inet_vlan_is_valid(vlan))
        return -EINVAL;
    if ((!g || !g->members) && !has_room(t, vlan))
        return -ENOSPC;
    if (g && g->members == UINT32_MAX)
        return -ENOSPC;
    if (!g)
        g = add_group(t, group, vlan);
    if (!group_is_member(g))
        start_reporting(t, g, now);
    g->members++;
    return 0;
}

int group_leave(struct group_table *t, const union gid *group, uint16_t vlan, ns_t now)
{
    struct group *g = find_group(t, group, vlan);

    if (!gid_is_multicast(group))
        return -EINVAL;
    if (!g || !g->members)
        return -ENOENT;
    g->members--;
    if (!group_is_member(g))
        last_member_left(t, g, now);
    return 0;
}

void group_report_again(struct group_table *t, bool ipv4, uint16_t vlan, ns_t now)
{
    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        if (g->used && g->vlan == vlan && gid_is_ipv4(&g->addr) == ipv4 && group_is_member(g))
            start_reporting(t, g, now);
    }
}

void group_link_up(struct group_table *t, ns_t now)
{
    /* The link may lead to another network now, with other queriers. */
    memset(t->querier, 0, sizeof(t->querier));
    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        g->answer_at = NS_NEVER;
        if (g->used && !group_is_member(g))
            g->used = false;
        else if (g->used)
            start_reporting(t, g, now);
    }
}
