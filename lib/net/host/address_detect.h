/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of the host's addresses: detection of duplicates, announcements, defence. The neighbour
 * cache and the groups follow.
 */
#ifndef UROCE_NET_ADDRESS_DETECT_H
#define UROCE_NET_ADDRESS_DETECT_H

#include "address.h"

/* As the functions of net_host.h. */
int address_add(struct net_host *h, const struct net_address *a, bool skip_dad, ns_t now);
int address_remove(struct net_host *h, const union gid *addr, uint16_t vlan);
int address_set_quiet(struct net_host *h, const union gid *addr, uint16_t vlan, bool quiet,
                      ns_t now);

/* Another host uses, or is about to use, the address o. */
void address_conflict(struct net_host *h, struct own_address *o, ns_t now);

ns_t address_next(const struct net_host *h);
void address_timers(struct net_host *h, ns_t now);
void address_link_up(struct net_host *h, ns_t now);

#endif
