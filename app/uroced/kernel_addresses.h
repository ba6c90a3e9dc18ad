/* SPDX-License-Identifier: BSD-3-Clause */
/* Follows a kernel interface, or all of them: the device gets and loses addresses and routes as the
 * interface does. */
#ifndef UROCED_KERNEL_ADDRESSES_H
#define UROCED_KERNEL_ADDRESSES_H

#include "device.h"

struct kernel_follow;

struct kernel_follow_config {
    struct event_loop *loop;
    struct rnic *rnic;
    unsigned device;  /* index in rnic */
    bool host;        /* the addresses of all interfaces, and no routes: ifindex, use and answers
                         mean nothing */
    bool outside;     /* host: only those by which other hosts reach it without naming a link */
    unsigned room;    /* host: for addresses besides own */
    uint32_t ifindex; /* of the interface */
    bool use; /* use its addresses and routes; else only report which of the device's own it has,
                 too */
    bool answers; /* the interface gets the port's frames, and its kernel answers for its addresses
                   */
    const struct port_address *own; /* those of the configuration; must outlive the follower */
    unsigned owns;
    const struct net_route *route; /* of the configuration, likewise, whose gateways may be on
                                      networks of the interface; use alone */
    unsigned routes;
};

/* Applies the interface's present state, and watches it from then on. Control thread. NULL and
 * *err, a negative errno. */
struct kernel_follow *kernel_follow_start(const struct kernel_follow_config *config, int *err);
/* Before the rnic is destroyed. */
void kernel_follow_stop(struct kernel_follow *f);

#endif
