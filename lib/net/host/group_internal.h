/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c: the tables. group_report.c: what the host sends, and when. group_query.c: what queriers
 * send. */
#ifndef UROCE_GROUP_INTERNAL_H
#define UROCE_GROUP_INTERNAL_H

#include "group.h"

enum { GROUP_IGMP, GROUP_MLD }; /* index of group_querier.robustness */

#define GROUP_ROBUSTNESS 2 /* the default */

/* Whether memberships of the group are reported: not those that every host has. */
bool group_is_reported(const struct group *g);

/* The querier of a VLAN, with a new entry if need be. NULL: the host is not in that VLAN, or the
 * table is full; the present versions are spoken then. */
struct group_querier *group_querier(struct group_table *t, uint16_t vlan);
/* How many times a change is reported. */
uint8_t group_robustness(const struct group_table *t, const struct group *g);
/* The version that the queriers of a VLAN speak: 1 to 3 of IGMP; 1 or 2 of MLD. */
unsigned group_igmp_version(const struct group_table *t, uint16_t vlan, ns_t now);
unsigned group_mld_version(const struct group_table *t, uint16_t vlan, ns_t now);

#endif
