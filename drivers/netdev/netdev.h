/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's network interfaces: what addresses and routes one has, when that changes, and tap
 * devices of our own. Linux, by rtnetlink. One thread at a time.
 */
#ifndef UROCE_NETDEV_H
#define UROCE_NETDEV_H

#include "gid.h"
#include "net_host.h"

#define NETDEV_NAME_MAX 16 /* IFNAMSIZ */

/* What an interface has, as far as a host on its network needs it. */
struct netdev_state {
    struct net_address address[NET_ADDRESS_MAX]; /* vlan VLAN_NONE; without those that the kernel
                                                    itself found to be duplicates */
    unsigned addresses;
    struct net_route route[NET_ROUTE_MAX]; /* by a gateway, of the main table */
    unsigned routes;
};

struct netdev_watch;

/* Watches the interfaces. NULL and *err, a negative errno. */
struct netdev_watch *netdev_watch_open(int *err);
void netdev_watch_close(struct netdev_watch *w);
/* Readable when something changed. */
int netdev_watch_fd(const struct netdev_watch *w);
/* Forgets the changes so far: call it before netdev_read. Never blocks. */
void netdev_watch_drain(struct netdev_watch *w);

/* What an interface has now; what does not fit is left out. 0 or a negative errno; -EINTR: it kept
 * changing, so that a watch has something to tell. */
int netdev_read(uint32_t ifindex, struct netdev_state *s);

/*
 * Makes a tap device named `name` ("": named by the kernel, roce0 and so on) with this MAC and MTU,
 * and sets it up. Its descriptor, non-blocking, carries one Ethernet frame per read and write; when
 * it is closed the device is gone. Fills name. A negative errno: -EPERM without CAP_NET_ADMIN,
 * -EBUSY when the name is taken.
 */
int netdev_tap_open(char name[NETDEV_NAME_MAX], const uint8_t mac[6], uint32_t mtu);

/* Gives an interface an address; -EEXIST when it has it, or another negative errno. */
int netdev_add_address(uint32_t ifindex, const union gid *addr, uint8_t prefix);

#endif
