/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast membership: IGMPv3 (RFC 3376) and MLDv2 (RFC 3810), and the older versions while the
 * VLAN has an older querier. Every membership is of all sources (EXCLUDE {}).
 */
#ifndef UROCE_GROUP_H
#define UROCE_GROUP_H

#include "address.h"
#include "net_port.h"

#define GROUP_QUERIERS 64 /* VLANs whose querier is remembered */
/* Each VLAN has room of its own: a port joins a group in all of its VLANs. */
#define GROUP_JOINED_MAX (NET_GROUP_MAX * NET_VLAN_MAX)

struct group {
    bool used;
    uint8_t changes; /* reports of joining, or leaving, that are still to be sent */
    uint16_t vlan;
    uint32_t members; /* calls of group_join */
    uint32_t own;     /* addresses whose solicited-node group it is */
    union gid addr;
    ns_t change_at; /* when to send the next of them */
    ns_t answer_at; /* when to answer a query */
};

/* What the queriers of a VLAN said. */
struct group_querier {
    bool used;
    uint16_t vlan;
    uint8_t robustness[2]; /* IGMP, MLD */
    ns_t igmp_v1_until, igmp_v2_until, mld_v1_until;
};

struct group_table {
    struct net_port *port;
    const struct address_table *addresses;
    unsigned len; /* slots ever used; the slots after them are free */
    struct group slot[GROUP_JOINED_MAX + NET_ADDRESS_MAX];
    struct group_querier querier[GROUP_QUERIERS];
};

static inline bool group_is_member(const struct group *g)
{
    return g->members || g->own;
}

/* As the functions of net_host.h. */
int group_join(struct group_table *t, const union gid *group, uint16_t vlan, ns_t now);
int group_leave(struct group_table *t, const union gid *group, uint16_t vlan, ns_t now);

/* The solicited-node group of an IPv6 address. */
void group_join_own(struct group_table *t, const union gid *group, uint16_t vlan, ns_t now);
void group_leave_own(struct group_table *t, const union gid *group, uint16_t vlan);

/* An IGMP message, and an MLD query. */
enum inet_verdict group_igmp_rx(struct group_table *t, const struct inet_rx *rx, ns_t now);
enum inet_verdict group_mld_rx(struct group_table *t, const struct inet_rx *rx, ns_t now);

/* Reports the groups of one IP version in vlan as if they had been joined now. */
void group_report_again(struct group_table *t, bool ipv4, uint16_t vlan, ns_t now);

ns_t group_next(const struct group_table *t);
void group_timers(struct group_table *t, ns_t now);
void group_link_up(struct group_table *t, ns_t now);

#endif
