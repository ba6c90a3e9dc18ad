/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's parts, as they know each other. */
#ifndef UROCE_NET_INTERNAL_H
#define UROCE_NET_INTERNAL_H

#include "group.h"
#include "inet.h"
#include "neighbour_cache.h"
#include "net_host.h"
#include "random.h"
#include "route.h"

enum address_phase {
    ADDRESS_SETTLED,
    ADDRESS_DETECTING,
    ADDRESS_ANNOUNCING,
};

struct own_address {
    bool used;
    bool detect; /* duplicates are to be detected */
    bool joined; /* its solicited-node group */
    struct net_address a;
    enum net_address_state state;
    enum address_phase phase;
    uint8_t left; /* probes, or announcements */
    ns_t next;
    ns_t defend_again; /* not before */
};

#define PMTU_MAX 256

struct learned_pmtu {
    union gid dst;
    uint32_t mtu;
    ns_t until;
};

struct net_host {
    struct net_host_config cfg;
    struct random random;
    bool link;
    struct own_address address[NET_ADDRESS_MAX];
    struct route_table routes;
    struct neighbour_cache neighbours;
    struct group_table groups;
    unsigned pmtus;
    struct learned_pmtu pmtu[PMTU_MAX];
    ns_t echo_full; /* when the bucket of echo replies is full again */
    struct net_counters count;
};

/* ---- net_host.c ---- */

/* Sends a frame, unless the link is down. */
bool host_send(struct net_host *h, const uint8_t *frame, uint32_t len);
/* Builds and sends a packet; false when it was not sent. */
bool host_send_ip(struct net_host *h, const struct inet_tx *tx, const uint8_t *message,
                  uint32_t len);
/* A duration below limit (at most an hour). */
ns_t host_random(struct net_host *h, ns_t limit);
bool host_vlan_is_valid(uint16_t vlan);
bool host_mac_is_ours(const struct net_host *h, const uint8_t mac[6]);

/* ---- address.c ---- */

/* The address of this host, or NULL. */
struct own_address *address_find(struct net_host *h, const union gid *addr, uint16_t vlan);
/* Whether it is used: preferred, or expected to become so. */
bool address_counts(const struct net_host *h, const struct own_address *o);
/* Whether packets to addr are answered: one of ours, and known or hoped to be nobody else's. */
bool address_is_usable(const struct net_host *h, const union gid *addr, uint16_t vlan);
/* The best address to talk to dst from: wanted if it can be; false when there is none. */
bool address_source(const struct net_host *h, const union gid *wanted, const union gid *dst,
                    uint16_t vlan, union gid *src);
/* Whether somebody else speaks for it. */
bool address_is_quiet(const struct net_host *h, const struct own_address *o);
/* Whether detection may soon yield one. */
bool address_is_awaited(const struct net_host *h, bool ipv4, uint16_t vlan);
/* Whether the host has any address in vlan. */
bool address_in_vlan(const struct net_host *h, uint16_t vlan);
/* Somebody else uses, or is about to use, the address o. */
void address_conflict(struct net_host *h, struct own_address *o, ns_t now);
ns_t address_next(const struct net_host *h);
void address_timers(struct net_host *h, ns_t now);
void address_link_up(struct net_host *h, ns_t now);

/* ---- arp.c, nd.c ---- */

enum inet_verdict arp_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);
/* Asks for addr: everybody, or with mac only the one that had it. src may be unspecified. */
void arp_ask(struct net_host *h, uint16_t vlan, const union gid *src, const union gid *addr,
             const uint8_t *mac);
void arp_probe(struct net_host *h, const struct net_address *a);
void arp_announce(struct net_host *h, const struct net_address *a);

enum inet_verdict nd_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);
void nd_ask(struct net_host *h, uint16_t vlan, const union gid *src, const union gid *addr,
            const uint8_t *mac);
void nd_probe(struct net_host *h, const struct net_address *a);
void nd_announce(struct net_host *h, const struct net_address *a);

/* ---- echo.c, too_big.c ---- */

enum inet_verdict echo_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);

/* ICMP destination unreachable; ICMPv6 packet too big. */
enum inet_verdict unreachable_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);
enum inet_verdict too_big_rx(struct net_host *h, const struct inet_rx *rx, ns_t now);
/* The MTU to dst: the port's, or less. */
uint32_t pmtu_of(const struct net_host *h, const union gid *dst, ns_t now);
ns_t pmtu_next(const struct net_host *h);
void pmtu_timers(struct net_host *h, ns_t now);

#endif
