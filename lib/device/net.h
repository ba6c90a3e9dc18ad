/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device on its network: the port's IP host (lib/net), the slow path that feeds it, the GID table
 * that follows its addresses, and the kernel behind the exception path. Control thread.
 */
#ifndef UROCE_DEVICE_NET_H
#define UROCE_DEVICE_NET_H

#include "event_loop.h"
#include "net_host.h"
#include "slow_path.h"

#define CONFLICTS_MAX 8

struct device;
struct port_address;
struct port_config;

struct device_net {
    struct net_host *host;
    struct slow_path slow;
    bool isolated; /* frames reach nobody but this port: nobody to be asked */
    bool detect;   /* duplicates of its addresses */
    struct event_source frames, timer, link, exception; /* fd -1: none */
    bool link_up;
    bool link_polled; /* link is a timer of ours */
    uint64_t exception_lost; /* frames that the kernel did not take */
    /* What the host told us while it was at work; acted on when it is done. */
    bool resolved, moved;
    struct net_address conflict[CONFLICTS_MAX];
    unsigned conflicts;
};

/* Makes d's host with the addresses, routes and neighbours of the configuration. The worker knows
 * the port already and does not run. 0 or a negative errno. */
int net_open(struct device *d, const struct port_config *config);
void net_close(struct device *d);

/*
 * The path to dgid from the GID entry source: 0, -EINPROGRESS (asked for: the rnic's retry is
 * called when it is known), -ENETUNREACH, -EHOSTUNREACH.
 */
int net_resolve(struct device *d, const struct gid_entry *source, const union gid *dgid,
                struct net_path *path);

/* Membership of the port itself in a group, in every VLAN where it has an address of the kind. */
int net_join(struct device *d, const union gid *group);
void net_leave(struct device *d, const union gid *group);

/* An address with its GID entries, before and while the workers run. 0, -EEXIST, -ENOSPC, -EINVAL,
 * -ENOENT. */
int net_address_add(struct device *d, const struct port_address *a);
int net_address_remove(struct device *d, const union gid *gid, uint16_t vlan);

#endif
