/* SPDX-License-Identifier: BSD-3-Clause */
/* Which MAC an address of the link has: RFC 4861 7.3's states, for ARP as for neighbour discovery.
 */
#ifndef UROCE_NEIGHBOUR_CACHE_H
#define UROCE_NEIGHBOUR_CACHE_H

#include "net_host.h"

struct cached_neighbour {
    bool used_slot;
    bool has_mac; /* false only before the first answer */
    bool waited;  /* somebody was told -EINPROGRESS */
    uint8_t tries;
    uint8_t mac[6];
    uint16_t vlan; /* VLAN_NONE of a static one: in every VLAN */
    enum net_neighbour_state state;
    union gid addr;
    union gid src; /* who asked for it last, or zero */
    ns_t next;     /* its timer */
    ns_t used;     /* when it was last resolved; 0: never */
};

struct neighbour_cache {
    unsigned len; /* slots ever used: the rest is free */
    struct cached_neighbour slot[NET_NEIGHBOUR_MAX];
};

/* As net_host_resolve, for an address of the link: 0, -EINPROGRESS or -EHOSTUNREACH. */
int ncache_resolve(struct net_host *h, const union gid *src, const union gid *addr, uint16_t vlan,
                   ns_t now, uint8_t mac[6]);

/* The MAC of a configured neighbour; NULL: it is none. */
const uint8_t *ncache_static_mac(const struct net_host *h, const union gid *addr, uint16_t vlan);
/* The MAC of an address if one is known, or NULL. */
const uint8_t *ncache_mac(const struct net_host *h, const union gid *addr, uint16_t vlan);

/*
 * Somebody said that addr has mac. confirmed: in answer to a question of ours. create: also if
 * nobody asked, as he is about to talk to us.
 */
void ncache_learn(struct net_host *h, const union gid *addr, uint16_t vlan, const uint8_t mac[6],
                  bool confirmed, bool create, ns_t now);

/* A neighbour advertisement (RFC 4861 7.2.5); mac may be NULL. */
void ncache_advertised(struct net_host *h, const union gid *addr, uint16_t vlan, const uint8_t *mac,
                       bool solicited, bool override, ns_t now);

/* There is an address to ask from, which questions may have waited for. */
void ncache_address_preferred(struct net_host *h, uint16_t vlan, ns_t now);

ns_t ncache_next(const struct net_host *h);
void ncache_timers(struct net_host *h, ns_t now);
void ncache_link_up(struct net_host *h, ns_t now);

#endif
