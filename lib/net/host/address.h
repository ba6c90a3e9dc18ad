/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the host's addresses, and what can be asked of it. address_detect.c alone changes
 * it. */
#ifndef UROCE_NET_ADDRESS_H
#define UROCE_NET_ADDRESS_H

#include "net_host.h"

/* What the host does about an address at present. */
enum address_phase {
    ADDRESS_IDLE,
    ADDRESS_DETECTING,
    ADDRESS_ANNOUNCING,
};

struct own_address {
    bool used;
    bool detect;  /* duplicates are to be detected */
    bool joined;  /* its solicited-node group */
    bool doubted; /* tentative, and a duplicate before: it may still be another host's */
    struct net_address a;
    enum net_address_state state;
    enum address_phase phase;
    uint8_t packets_left; /* probes, or announcements */
    ns_t next;
    ns_t defend_after;
};

struct address_table {
    bool quiet, optimistic; /* as in net_host_config */
    struct own_address slot[NET_ADDRESS_MAX];
};

/* The host's address, or NULL. */
struct own_address *address_find(const struct address_table *t, const union gid *addr,
                                 uint16_t vlan);
/* Whether the host uses the address: it is preferred, or the host is optimistic. */
bool address_is_used(const struct address_table *t, const struct own_address *o);
/* Whether the host accepts packets to addr: one of its addresses, and used. */
bool address_is_usable(const struct address_table *t, const union gid *addr, uint16_t vlan);
/* Whether another host, usually the kernel of this one, answers for the address. */
bool address_is_quiet(const struct address_table *t, const struct own_address *o);

/* The best source for packets to dst: wanted (or NULL) if it is usable. False: there is none. */
bool address_source(const struct address_table *t, const union gid *wanted, const union gid *dst,
                    uint16_t vlan, union gid *src);
/* Whether detection of an address of this IP version is running in vlan. */
bool address_is_awaited(const struct address_table *t, bool ipv4, uint16_t vlan);
/* Whether the host has any address in vlan. */
bool address_in_vlan(const struct address_table *t, uint16_t vlan);

/* Whether the network of the address is reachable on vlan; a duplicate's is not. */
bool address_is_connected(const struct own_address *o, uint16_t vlan);
/* The prefix length of the longest connected network that holds addr, or -1. */
int address_connected_bits(const struct address_table *t, const union gid *addr, uint16_t vlan);
/* Whether addr is on the link: link-local, or in a connected network of vlan. */
bool address_on_link(const struct address_table *t, const union gid *addr, uint16_t vlan);

#endif
