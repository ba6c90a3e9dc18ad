/* SPDX-License-Identifier: BSD-3-Clause */
/* From a port's addresses to its GID table. Workers read the table, so it changes while they stand
 * still. */
#ifndef UROCE_DEVICE_GIDS_H
#define UROCE_DEVICE_GIDS_H

#include "device.h"

struct device;

/* Fills the GID table: see port_config. 0, -EINVAL (an address twice, no VLAN id), -ENOSPC. */
int device_add_gids(struct device *d, const struct port_config *config);
/* Adds and removes the entries of an address, one for each RoCE version of the port; also while the
 * workers run. As above; -ENOENT. */
int device_gids_add(struct device *d, const struct port_address *a);
int device_gids_remove(struct device *d, const union gid *gid, uint16_t vlan);
/* Sets the kernel interface of an untagged address, which no worker reads. 0: the port's. */
int device_gids_interface(struct device *d, const union gid *gid, uint32_t ifindex);

#endif
