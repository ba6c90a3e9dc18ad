/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Membership reports: IGMPv3 (RFC 3376) and MLDv2 (RFC 3810), and the older versions while a
 * querier of theirs is about. Every membership is of all sources (EXCLUDE {}).
 */
#ifndef UROCE_GROUP_H
#define UROCE_GROUP_H

#include "inet.h"
#include "net_host.h"

#define GROUP_LINKS 64 /* VLANs whose querier is remembered */

struct group {
    bool used;
    uint8_t changes; /* reports of having joined, or left, that are still to be sent */
    uint16_t vlan;
    uint32_t members; /* those of net_host_join */
    uint32_t own;     /* addresses whose solicited-node group it is */
    union gid addr;
    ns_t change_at; /* when the next of those */
    ns_t answer_at; /* when to answer a query */
};

/* What queriers said in a VLAN. */
struct group_link {
    bool used;
    uint16_t vlan;
    uint8_t robustness[2]; /* IGMP, MLD */
    ns_t igmp_v1_until, igmp_v2_until, mld_v1_until;
};

struct group_table {
    struct group slot[NET_GROUP_MAX + NET_ADDRESS_MAX];
    struct group_link link[GROUP_LINKS];
};

/* The solicited-node group of an IPv6 address. */
void group_join_own(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now);
void group_leave_own(struct net_host *h, const union gid *group, uint16_t vlan);

/* An IGMP message, and an MLD query. */
enum inet_verdict group_igmp_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);
enum inet_verdict group_mld_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);

/* Reports the groups of one IP version in vlan as if they had been joined now. */
void group_report_again(struct net_host *h, bool ipv4, uint16_t vlan, ns_t now);

ns_t group_next(const struct net_host *h);
void group_timers(struct net_host *h, ns_t now);
void group_link_up(struct net_host *h, ns_t now);

#endif
