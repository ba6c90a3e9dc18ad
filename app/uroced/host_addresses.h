/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of the host's addresses a device has, when its GID table may be too small for all. Pure. */
#ifndef UROCED_HOST_ADDRESSES_H
#define UROCED_HOST_ADDRESSES_H

#include "device.h"
#include "netdev.h"

/* What the device has of the host's addresses, each once. */
struct host_addresses {
    struct netdev_address address[GID_TABLE_MAX];
    unsigned count;
    bool more; /* the host has others, for which there was no room */
};

struct host_addresses_limit {
    const struct port_address *own; /* the device has these anyway */
    unsigned owns;
    unsigned room; /* the most addresses besides; at most GID_TABLE_MAX */
};

/* Keeps those by which other hosts reach this one without naming a link: none of the host itself, and
 * none that is link-local. Returns their number. */
unsigned host_addresses_outside(struct netdev_address *all, unsigned count);

/*
 * Chooses among all of the host's, in the kernel's order: first those that the device has (`now`);
 * then routable IPv4 addresses, routable IPv6 ones, link-local ones. Of several interfaces with one
 * address the first counts, but an address stays with its interface.
 */
void host_addresses_choose(struct host_addresses *next, const struct host_addresses *now,
                           const struct netdev_address *all, unsigned count,
                           const struct host_addresses_limit *limit);

/* The interface of an address, or 0: it is not among them. */
uint32_t host_addresses_interface(const struct host_addresses *h, const union gid *addr);

#endif
