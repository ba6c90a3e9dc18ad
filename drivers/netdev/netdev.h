/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's network interfaces: their addresses and routes, notification of changes, and tap
 * devices. Linux, by rtnetlink. One thread at a time.
 */
#ifndef UROCE_NETDEV_H
#define UROCE_NETDEV_H

#include "gid.h"
#include "net_host.h"

#define NETDEV_NAME_MAX 16 /* IFNAMSIZ */

/* The configuration of an interface, as far as a host on its network needs it. */
struct netdev_state {
    struct net_address address[NET_ADDRESS_MAX]; /* vlan VLAN_NONE; without those that the kernel
                                                    itself found to be duplicates */
    unsigned addresses;
    struct net_route route[NET_ROUTE_MAX]; /* of the tables that the kernel's rules name for the
                                              addresses; without those that addresses imply */
    unsigned routes;
};

/* An address of an interface. */
struct netdev_address {
    union gid addr;
    uint8_t prefix;
    uint32_t ifindex;
};

struct netdev_watch;

/* Watches the addresses of all interfaces, or (ifindex not 0) the addresses, link and routes of
 * one, and the rules. NULL: *err is a negative errno. */
struct netdev_watch *netdev_watch_open(uint32_t ifindex, int *err);
void netdev_watch_close(struct netdev_watch *w);
/* Readable after a change. */
int netdev_watch_fd(const struct netdev_watch *w);
/* Discards the notifications so far: call it before netdev_read. Never blocks. have: what that has
 * read before. False: all were about routes of other interfaces than that which is watched, and
 * none took the place of one in *have. */
bool netdev_watch_drain(struct netdev_watch *w, const struct netdev_state *have);

/* Reads the addresses and routes of an interface; those that do not fit are left out. 0 or a
 * negative errno; -EINTR: the host's changed all the time, and the watch has notifications, if only
 * about others. */
int netdev_read(uint32_t ifindex, struct netdev_state *s);

/* Reads the addresses of all interfaces of the network namespace, also those that mean nothing
 * outside the host (127.0.0.1), in the kernel's order: IPv4 first, of each version by interface. An
 * address occurs once for each interface and prefix. 0 and *list, which the caller frees (NULL:
 * there are none); or a negative errno as above. */
int netdev_read_host(struct netdev_address **list, unsigned *count);

/*
 * Creates a tap device named `name` ("": the kernel chooses roce0 and so on) with this MAC and MTU,
 * and sets it up. Returns its non-blocking descriptor, which carries one Ethernet frame per read
 * and write; the device ends when it is closed. Fills name. Or a negative errno: -EPERM without
 * CAP_NET_ADMIN, -EBUSY if the name is in use.
 */
int netdev_tap_open(char name[NETDEV_NAME_MAX], const uint8_t mac[6], uint32_t mtu);

/* Adds an address to an interface: 0, -EEXIST if it has the address, or another negative errno. */
int netdev_add_address(uint32_t ifindex, const union gid *addr, uint8_t prefix);

#endif
