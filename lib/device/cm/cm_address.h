/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device an address of rdma_cm leads to, and the paths from there. Control thread. */
#ifndef UROCE_DEVICE_CM_ADDRESS_H
#define UROCE_DEVICE_CM_ADDRESS_H

#include <stdbool.h>

#include "ctl_cm.h"
#include "gid.h"

struct cm_addr;
struct cm_object;
struct cm_path;
struct device;
struct rnic;

/* The device and entry of its GID table with this address of ours; -ENODEV: *d is NULL. */
int cm_address_find(struct rnic *r, const struct ctl_cm_addr *a, struct device **d,
                    unsigned *sgid_index);
/* A device and entry of its GID table that reach dst: the more specific network first. -ENODEV,
 * -ENETUNREACH: *d is NULL. */
int cm_address_towards(struct rnic *r, const struct ctl_cm_addr *dst, struct device **d,
                       unsigned *sgid_index);
/* Whether it is the unspecified address, or none. */
bool cm_address_is_any(const struct ctl_cm_addr *a);
/* Also one of AF_INET6, such as ::ffff:192.0.2.1. */
bool cm_address_is_ipv4(const struct ctl_cm_addr *a);
/* The address of an entry, with port number and scope. */
struct ctl_cm_addr cm_address_of(const struct device *d, unsigned sgid_index, uint16_t number);
/* Fields of ctl_cm_addr from the manager's. */
struct ctl_cm_addr cm_address_from(const struct rnic *r, const struct cm_addr *a);
/* The place of an id's own address in its device's GID table, in the VLAN that the id is bound in.
 * -EADDRNOTAVAIL: it has gone. */
int cm_address_place(const struct cm_object *o);
/* The path of an id whose address is resolved. 0 or a negative errno, -EINPROGRESS. */
int cm_address_path(struct cm_object *o, struct cm_path *path);

/* Binds it in the manager to addr, which is one of o->device's or a wildcard. */
int cm_object_bind(struct cm_object *o, const struct ctl_cm_addr *addr);
/* What the program may know of it. */
void cm_object_info(const struct cm_object *o, struct ctl_cm_info *info);

/* The path from an entry of a device's GID table to a peer, with what is the port's in it. */
void cm_address_port_path(const struct device *d, unsigned sgid_index, const union gid *dgid,
                          struct cm_path *path);

#endif
