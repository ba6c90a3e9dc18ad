/* SPDX-License-Identifier: BSD-3-Clause */
/* Follows a kernel interface: its addresses and routes become the device's, as they come and go. */
#ifndef UROCED_KERNEL_ADDRESSES_H
#define UROCED_KERNEL_ADDRESSES_H

#include "device.h"

struct kernel_follow;

struct kernel_follow_config {
    struct event_loop *loop;
    struct rnic *rnic;
    unsigned device;  /* index in rnic */
    uint32_t ifindex; /* of the interface */
    bool take;    /* its addresses and routes; else only which of the device's own it has, too */
    bool answers; /* the interface gets the port's frames: its kernel answers for its addresses */
    const struct port_address *own; /* those of the configuration; outlive this */
    unsigned owns;
};

/* Takes what the interface has now, and watches it from then on. Control thread. NULL and *err, a
 * negative errno. */
struct kernel_follow *kernel_follow_start(const struct kernel_follow_config *config, int *err);
/* While the rnic is there. */
void kernel_follow_stop(struct kernel_follow *f);

#endif
