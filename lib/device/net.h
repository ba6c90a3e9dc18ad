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
    bool link_polled;        /* link is a timer of ours */
    uint64_t exception_lost; /* frames that the kernel did not take */
    /* What the host told us while it was at work; acted on when it is done. */
    bool resolved, moved;
    struct {
        struct net_address a;
        bool duplicate;
    } change[NET_ADDRESS_MAX]; /* one of an address at most, as each of its changes takes a timer */
    unsigned changes;
};

/* Makes d's host with the addresses, routes and neighbours of the configuration. The worker knows
 * the port already and does not run. 0 or a negative errno. */
int net_open(struct device *d, const struct port_config *config);
void net_close(struct device *d);

ns_t net_time(const struct device *d);

/* After the host was at work: acts on what it said meanwhile. */
void net_settle(struct device *d);
/* An event of its port (enum port_event) to all applications of a device. */
void net_tell_applications(struct device *d, unsigned event);

/* net_events.c: what wakes the control thread for the port. 0 or a negative errno. */
int net_events_open(struct device *d, const struct port_config *config);
/* Also of a device that was not opened. */
void net_events_close(struct device *d);

/* After the host was told something: when its next timer is due may have changed. */
void net_arm_timer(struct device *d);

/*
 * The path to dgid from the GID entry source: 0, -EINPROGRESS (asked for: the rnic's retry is
 * called when it is known), -ENETUNREACH, -EHOSTUNREACH.
 */
int net_resolve(struct device *d, const struct gid_entry *source, const union gid *dgid,
                struct net_path *path);

/* Membership of the port itself in a group, in every VLAN where it has an address of the kind. */
struct net_membership {
    union gid group;
    unsigned vlans; /* it has joined in, so that it leaves these and no others */
    uint16_t vlan[GID_TABLE_MAX];
};

/* Joins and leaves as the addresses are now. 0, or why it could not join everywhere. */
int net_join(struct device *d, struct net_membership *m);
void net_leave(struct device *d, struct net_membership *m);

/* An address with its GID entries, before and while the workers run. 0, -EEXIST, -ENOSPC, -EINVAL,
 * -ENOENT. */
int net_address_add(struct device *d, const struct port_address *a);
int net_address_remove(struct device *d, const union gid *gid, uint16_t vlan);
/* Whether a kernel speaks for this untagged address. -ENOENT */
int net_address_answered(struct device *d, const union gid *gid, bool answered);

#endif
