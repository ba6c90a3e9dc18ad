/* SPDX-License-Identifier: BSD-3-Clause */
/* From an application's address vector to one with MACs. */
#ifndef UROCE_DEVICE_RESOLVE_H
#define UROCE_DEVICE_RESOLVE_H

#include "encap.h"
#include "qp_attr.h"

struct device;
struct net_path;

/*
 * Makes an address vector from which packets can be built, and returns the MTU of the path. 0,
 * -EINVAL (no GRH, bad port, GID index or flow label, IP versions differ), or as net_resolve.
 */
int device_resolve(struct device *d, const struct ah_attr *attr, struct address_vector *av,
                   uint32_t *mtu);

/* The same, with the path: its next hop is set, if the result is -EINPROGRESS, too. */
int device_resolve_path(struct device *d, const struct ah_attr *attr, struct address_vector *av,
                        struct net_path *path);

#endif
