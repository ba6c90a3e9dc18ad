/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c: who is a member. group_report.c: what is sent. group_query.c: what queriers say. */
#ifndef UROCE_GROUP_INTERNAL_H
#define UROCE_GROUP_INTERNAL_H

#include "net_internal.h"

static inline bool group_is_member(const struct group *g)
{
    return g->members || g->own;
}

/* Not so for the groups that every host is in. */
bool group_is_reported(const struct group *g);

/* How often a change is reported. */
uint8_t group_robustness(const struct net_host *h, const struct group *g);

/* Versions that the queriers of a VLAN speak: 1 to 3 of IGMP; 1 or 2 of MLD. */
unsigned group_igmp_version(const struct net_host *h, uint16_t vlan, ns_t now);
unsigned group_mld_version(const struct net_host *h, uint16_t vlan, ns_t now);

/* Sends what is due in a VLAN, in as few packets as possible, and sets the timers anew. */
void group_report(struct net_host *h, uint16_t vlan, bool ipv4, ns_t now);

#endif
