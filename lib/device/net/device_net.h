/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device on its network: the port's IP host (lib/net), the slow path that feeds it, and the
 * kernel behind the exception path. Control thread.
 */
#ifndef UROCE_DEVICE_NET_H
#define UROCE_DEVICE_NET_H

#include "event_loop.h"
#include "net_host.h"
#include "objects/walk.h"
#include "slow_path.h"

struct device;
struct port_address;
struct port_config;

/* A router's report of a packet that was too big, while it is judged: too_big.c. */
struct net_report {
    struct event_job job;
    bool active;
    ns_t judged; /* when the last one came */
    union gid src, dst;
    uint16_t vlan;
    uint32_t mtu, dest_qpn, psn; /* of the quoted packet */
    struct walk walk;
};

/* Redirecting packets after neighbours have moved: net_changes.c. */
struct net_follow {
    struct event_job job;
    bool active, again; /* again: others have moved since it began */
    struct walk walk;
};

struct device_net {
    struct net_host *host;
    struct slow_path slow;
    bool isolated; /* frames reach no other port, so there are no neighbours */
    bool detect;   /* duplicates of its addresses are detected */
    struct event_source frames, timer, link, exception; /* fd -1: none */
    struct net_report report;
    struct net_follow follow;
    bool link_up;
    bool taken_down;         /* by a rule that is in force: fault_link.c */
    bool link_polled;        /* link is a timer */
    uint64_t exception_lost; /* frames that the kernel did not accept */
    /* What the host reported during a call; net_apply_changes acts on it after the call. */
    bool resolved, moved;
    struct {
        struct net_address a;
        bool duplicate;
    } change[NET_ADDRESS_MAX]; /* at most one of each address, as each change takes a timer */
    unsigned changes;
};

/* ---- net_open.c ---- */

/* Creates the host with the addresses, routes and neighbours of the configuration. The workers know
 * the port already and do not run. 0 or a negative errno. */
int net_open(struct device *d, const struct port_config *config);
void net_close(struct device *d);

/* An address with its GID entries, before and while the workers run. 0, -EEXIST, -ENOSPC, -EINVAL,
 * -ENOENT. */
int net_address_add(struct device *d, const struct port_address *a);
int net_address_remove(struct device *d, const union gid *gid, uint16_t vlan);
/* Sets whether a kernel answers for this untagged address. -ENOENT */
int net_address_answered(struct device *d, const union gid *gid, bool answered);

/* ---- net_events.c ---- */

/* Watches the descriptors of the port. 0 or a negative errno. */
int net_events_open(struct device *d, const struct port_config *config);
/* Also of a device that was not opened. */
void net_events_close(struct device *d);

/* Whether the port's link is up, as programs see it. info: of the port, now. */
bool net_link_is_up(const struct device *d, const struct pktio_info *info);
/* The name of the kernel's interface with the port's addresses. info: as above, and lives as long
 * as the name is read. */
const char *net_interface(const struct device *d, const struct pktio_info *info);
/* Looks whether that has changed, and tells the host and the programs. */
void net_link_look(struct device *d);

/* ---- net_changes.c ---- */

/* After each call of the host that may change something: acts on what the host reported. */
void net_apply_changes(struct device *d);
/* The device ends. */
void net_follow_cancel(struct device *d);

/* ---- net.c ---- */

ns_t net_time(const struct device *d);
/* After each call of the host that may change when its next timer is due. */
void net_arm_timer(struct device *d);

/*
 * The path to dgid from the GID entry source: 0, -EINPROGRESS (being resolved: the rnic's retry is
 * called at the end), -ENETUNREACH, -EHOSTUNREACH.
 */
int net_resolve(struct device *d, const struct gid_entry *source, const union gid *dgid,
                struct net_path *path);

/* ---- too_big.c ---- */

/* The host's callback: ctx is the device. */
void net_too_big(void *ctx, const struct net_quote *quote);
void net_too_big_cancel(struct device *d);

/* ---- net_group.c ---- */

/* Membership of the port itself in a group, in every VLAN where it has an address of the IP
 * version. */
struct net_membership {
    union gid group;
    unsigned vlans; /* those that it joined in, so that it leaves these and no others */
    uint16_t vlan[GID_TABLE_MAX];
};

/* Joins and leaves as the addresses are now. 0, or the first error of a join. */
int net_join(struct device *d, struct net_membership *m);
void net_leave(struct device *d, struct net_membership *m);

#endif
