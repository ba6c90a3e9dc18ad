/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The IP host of one port: what a network expects of a host that owns an address on it. ARP and
 * IPv6 neighbour discovery in both directions, duplicate address detection, announcements, routes,
 * echo, IGMP and MLD membership, and path MTUs learned from ICMP. It answers for the addresses of
 * the port's GID table; RoCE frames do not come here.
 *
 * Pure: no I/O, no clock; time and randomness are arguments. One thread at a time (the control
 * thread). Addresses are GIDs: IPv4 as ::ffff:a.b.c.d. A VLAN is an id, or VLAN_NONE. Received
 * frames can only make it keep a bounded amount of state.
 */
#ifndef UROCE_NET_HOST_H
#define UROCE_NET_HOST_H

#include "common.h"
#include "gid.h"

struct net_host;

#define NET_ADDRESS_MAX   GID_TABLE_MAX
#define NET_ROUTE_MAX     256
#define NET_NEIGHBOUR_MAX 1024
#define NET_GROUP_MAX     256  /* of a VLAN */
#define NET_VLAN_MAX      64   /* that have room for as many groups at a time */
#define NET_FRAME_MAX     9614 /* bytes of the frames it sends, with a tag 9618 */

enum net_address_state {
    NET_TENTATIVE, /* duplicate address detection runs (RFC 4862 5.4, RFC 5227 2.1) */
    NET_PREFERRED,
    NET_DUPLICATE, /* another host has it: it is not used */
};

struct net_address {
    union gid addr;
    uint8_t prefix; /* bits: 0 to 32 or 128 */
    uint16_t vlan;
    bool quiet; /* a kernel has the address too and answers for it, see net_host_config */
};

/* How packets to an address are sent. */
struct net_path {
    uint8_t mac[6];
    union gid next_hop; /* the address itself, or a gateway's */
    uint32_t mtu;       /* bytes of an IP packet: the port's, or less when a router reported less */
    uint8_t bits;       /* of the route's prefix, of 128 (0.0.0.0/0: 96); 0: none, or by_source */
    bool is_timed;      /* the answer is waited for, or verified: net_host_next_timer is earlier */
};

/* The host calls all of them from within a call of its own, in a state in which it may be called.
 */
/* A RoCE packet of the host that a router quotes in its report that the packet was too big. */
struct net_quote {
    union gid src, dst;
    uint16_t vlan;
    uint32_t mtu;        /* that the router reports, in the range that the host accepts */
    const uint8_t *roce; /* what follows the UDP header, as far as it is quoted */
    uint32_t len;        /* of that */
};

struct net_host_ops {
    /* Sends a whole Ethernet frame (tag and all); it is copied before this returns. */
    void (*send)(void *ctx, const uint8_t *frame, uint32_t len);
    /* A net_host_resolve that returned -EINPROGRESS for this next hop would now succeed (found) or
     * fail; or, when the hop has made room for another, begin again. */
    void (*resolved)(void *ctx, const union gid *next_hop, uint16_t vlan, bool found);
    /* A neighbour has another MAC than before. The host learns of it by an announcement, or by a
     * request that net_host_resolve sends; so callers resolve paths in use again from time to time.
     */
    void (*moved)(void *ctx, const union gid *next_hop, uint16_t vlan, const uint8_t mac[6]);
    /* An address left NET_TENTATIVE, or was found to be a duplicate after the link came up again.
     * The host answers later claims by other hosts (RFC 5227 2.4 (c), every 10 s at most), counts
     * them as conflicts, and keeps the address. */
    void (*address_state)(void *ctx, const struct net_address *a, enum net_address_state state);
    /* A report of a packet too big; the quote is valid during the call. Whether it is believed
     * decides net_host_learn_pmtu. NULL: all are believed. */
    void (*too_big)(void *ctx, const struct net_quote *quote);
};

struct net_host_config {
    uint8_t mac[6];
    uint32_t mtu; /* of the port: bytes of an Ethernet payload */
    /*
     * The kernel has the addresses too and answers for them: the host then resolves and joins
     * groups, but answers no request, announces nothing and detects no duplicates.
     */
    bool quiet;
    /* Addresses are used while their detection runs (RFC 4429), as NICs do: programs that start
     * with the port need not wait. */
    bool optimistic;
    /* All addresses but the host's own are behind the router with this MAC, its only neighbour: no
     * routes are looked up. Zero: there is no such router. */
    uint8_t router[6];
    uint64_t seed; /* of random delays */
    const struct net_host_ops *ops;
    void *ctx;
};

/* The link of a new host is up. NULL: out of memory. */
struct net_host *net_host_create(const struct net_host_config *config);
void net_host_destroy(struct net_host *h);

/* A received frame that is not RoCE, with its tag if it has one. Bad frames are counted and
 * ignored. */
void net_host_rx(struct net_host *h, const uint8_t *frame, uint32_t len, ns_t now);

/* The time of the next timer, or NS_NEVER; net_host_timers runs those that are due. Any call with a
 * time argument may change it, and so may removing an address. */
ns_t net_host_next_timer(const struct net_host *h);
void net_host_timers(struct net_host *h, ns_t now);

/*
 * The link went up or down. Down: nothing is sent. Up: detection and announcements start over (an
 * address that was NET_PREFERRED stays in use during that time), groups are reported again, and all
 * neighbours are resolved again within a second: net_host_resolve waits for their answers.
 */
void net_host_link(struct net_host *h, bool up, ns_t now);

/*
 * Adds an address, with its connected route. Starts duplicate address detection, unless quiet or
 * skip_dad is set: then it is NET_PREFERRED at once (no call of address_state) and announced.
 * 0, -EEXIST, -ENOSPC, -EINVAL (no unicast address, prefix too long).
 */
int net_host_add_address(struct net_host *h, const struct net_address *a, bool skip_dad, ns_t now);
int net_host_remove_address(struct net_host *h, const union gid *addr, uint16_t vlan); /* -ENOENT */
/* The state of an address, or -ENOENT. */
int net_host_address_state(const struct net_host *h, const union gid *addr, uint16_t vlan);
/* Changes net_address.quiet. Duplicates are detected by the one that answers for an address: with
 * quiet an address that was NET_TENTATIVE becomes NET_PREFERRED; without, detection starts while
 * the address is in use. -ENOENT */
int net_host_set_quiet(struct net_host *h, const union gid *addr, uint16_t vlan, bool quiet,
                       ns_t now);

/* A route: dst/prefix by the gateway via, of the same IP version; or, where via is 0.0.0.0 or ::, a
 * network whose hosts are on the link of vlan, though no address is of it. A gateway is on such a
 * network, on that of an address (while it is not, the route is ignored), or link-local. The more
 * specific route is preferred, then the connected one. 0, -EEXIST (the same destination), -ENOSPC,
 * -EINVAL. */
struct net_route {
    union gid dst, via;
    uint8_t prefix;
    uint16_t vlan;
    bool
        by_source; /* for packets that have a source already: it is no reason to choose this port */
};
int net_host_add_route(struct net_host *h, const struct net_route *r);
int net_host_remove_route(struct net_host *h, const struct net_route *r); /* -ENOENT */

/* A static neighbour: no requests, no route. It replaces what was learned and never expires.
 * VLAN_NONE as vlan: in every VLAN without a static entry of its own for the address. 0, -ENOSPC,
 * -EINVAL. */
int net_host_add_neighbour(struct net_host *h, const union gid *addr, uint16_t vlan,
                           const uint8_t mac[6]);

/*
 * Where packets from src (an address of this host on vlan) to dst go. Own addresses lead to the
 * port's own MAC, groups to their derived MAC.
 * 0 and *path; -EINPROGRESS: requests are being sent, `resolved` follows; -ENETUNREACH: no route;
 * -EHOSTUNREACH: no answer within the last second, or the table is full of neighbours in use (if
 * half of it are requests, or there is nothing else, the oldest is given up, and `resolved` is
 * called for it); -EINVAL: IP versions differ. A link-local dst is on the source's link. A path to
 * a neighbour that has been silent for a while is returned at once, and requests confirm it
 * afterwards. Requests come from src, or while src is NET_TENTATIVE from another address of the
 * VLAN, or wait for one. A neighbour is in use for a minute after it was resolved; the least
 * recently used one makes room for another.
 */
int net_host_resolve(struct net_host *h, const union gid *src, uint16_t vlan, const union gid *dst,
                     ns_t now, struct net_path *path);

/*
 * Membership in a multicast group on a VLAN, counted: each join needs a leave. 0, -ENOSPC,
 * -EINVAL (not a multicast GID), -ENOENT (leave). Reports are due at once, that is, with the next
 * net_host_timers, so that joins at one time share a packet. Their source is an address of the
 * VLAN, for MLD a link-local one, or unspecified. 224.0.0.1 and ff02::1 are joined and never
 * reported.
 */
int net_host_join(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now);
int net_host_leave(struct net_host *h, const union gid *group, uint16_t vlan, ns_t now);

/* ---- inspection ---- */

enum net_neighbour_state {
    NET_INCOMPLETE,
    NET_REACHABLE,
    NET_STALE,
    NET_PROBE,
    NET_FAILED,
    NET_STATIC,
};

/* A report of a packet to dst, in a VLAN, that was too big is believed: the path MTU is at most mtu
 * for ten minutes. */
void net_host_learn_pmtu(struct net_host *h, const union gid *dst, uint16_t vlan, uint32_t mtu,
                         ns_t now);

/* Calls visit for each neighbour (route, group, learned path MTU); visit must not change anything.
 * mac of a neighbour that never answered: zero. connected: of an address, or added as a network on
 * the link; its via is 0.0.0.0 or ::. */
void net_host_each_neighbour(const struct net_host *h, void *ctx,
                             void (*visit)(void *ctx, const union gid *addr, uint16_t vlan,
                                           const uint8_t mac[6], enum net_neighbour_state state));
void net_host_each_route(const struct net_host *h, void *ctx,
                         void (*visit)(void *ctx, const struct net_route *r, bool connected));
void net_host_each_group(const struct net_host *h, void *ctx,
                         void (*visit)(void *ctx, const union gid *group, uint16_t vlan,
                                       unsigned members));
void net_host_each_pmtu(const struct net_host *h, void *ctx,
                        void (*visit)(void *ctx, const union gid *dst, uint16_t vlan,
                                      uint32_t mtu));

/*
 * Counters. malformed: frames that break a rule of their protocol; ignored: valid frames that need
 * no reaction; conflicts: packets from other hosts that use an address of this one.
 */
/* clang-format off */
#define NET_COUNTERS(X)                                                                         \
    X(arp_rx) X(arp_tx) X(nd_rx) X(nd_tx) X(echo_rx) X(echo_tx) X(too_big_rx) X(unreachable_rx) \
    X(igmp_rx) X(igmp_tx) X(mld_rx) X(mld_tx) X(conflicts) X(malformed) X(ignored)
/* clang-format on */
struct net_counters {
#define X(name) uint64_t name;
    NET_COUNTERS(X)
#undef X
};
const struct net_counters *net_host_counters(const struct net_host *h);

#endif
