/* SPDX-License-Identifier: BSD-3-Clause */
/* Which MAC an address of the link has: the states of RFC 4861 7.3, for ARP and for neighbour
 * discovery. */
#ifndef UROCE_NEIGHBOUR_CACHE_H
#define UROCE_NEIGHBOUR_CACHE_H

#include "address.h"
#include "net_port.h"

struct cached_neighbour {
    bool used_slot;
    bool has_mac; /* false only before the first answer */
    bool waited;  /* a caller got -EINPROGRESS and waits */
    uint8_t tries;
    uint8_t mac[6];
    uint16_t vlan; /* VLAN_NONE of a static one: in every VLAN */
    enum net_neighbour_state state;
    union gid addr;
    union gid src; /* the source for which it was last resolved, or zero */
    ns_t next;     /* its timer */
    ns_t used;     /* when it was last resolved; 0: never */
};

struct neighbour_cache {
    struct net_port *port;
    const struct address_table *addresses;
    unsigned len; /* slots ever used; the slots after them are free */
    struct cached_neighbour slot[NET_NEIGHBOUR_MAX];
};

/* As net_host_resolve, for an address of the link: 0, -EINPROGRESS or -EHOSTUNREACH. */
int ncache_resolve(struct neighbour_cache *c, const union gid *src, const union gid *addr,
                   uint16_t vlan, ns_t now, uint8_t mac[6]);
/* As net_host_add_neighbour. */
int ncache_add_static(struct neighbour_cache *c, const union gid *addr, uint16_t vlan,
                      const uint8_t mac[6]);

/* The MAC of a static entry; NULL: there is none. */
const uint8_t *ncache_static_mac(const struct neighbour_cache *c, const union gid *addr,
                                 uint16_t vlan);
/* The MAC of an address if one is known, or NULL. */
const uint8_t *ncache_mac(const struct neighbour_cache *c, const union gid *addr, uint16_t vlan);

/*
 * A packet says that addr has mac. confirmed: it answers a request of this host. create: make an
 * entry if there is none, because the neighbour is about to talk to this host.
 */
void ncache_learn(struct neighbour_cache *c, const union gid *addr, uint16_t vlan,
                  const uint8_t mac[6], bool confirmed, bool create, ns_t now);

/* A neighbour advertisement (RFC 4861 7.2.5); mac may be NULL. */
void ncache_advertised(struct neighbour_cache *c, const union gid *addr, uint16_t vlan,
                       const uint8_t *mac, bool solicited, bool override, ns_t now);

/* The host has an address from which requests can be sent that had to wait for one. */
void ncache_address_preferred(struct neighbour_cache *c, uint16_t vlan, ns_t now);

ns_t ncache_next(const struct neighbour_cache *c);
void ncache_timers(struct neighbour_cache *c, ns_t now);
void ncache_link_up(struct neighbour_cache *c, ns_t now);

#endif
