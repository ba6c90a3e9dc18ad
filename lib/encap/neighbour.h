/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours: which MAC address a next hop has. Static entries from the configuration. Written
 * by the control thread only, before and between look-ups of its own; workers never read it:
 * they get finished address vectors.
 */
#ifndef UROCE_NEIGHBOUR_H
#define UROCE_NEIGHBOUR_H

#include "gid.h"

#define NEIGHBOUR_MAX 256

struct neighbour_table {
    unsigned len;
    struct {
        union gid addr;
        uint8_t mac[6];
    } entry[NEIGHBOUR_MAX];
};

/* Adds or replaces a static entry. Returns 0 or -ENOSPC. */
int neighbour_add(struct neighbour_table *t, const union gid *addr, const uint8_t mac[6]);

/* The MAC that frames to a multicast GID carry: 01:00:5E and 23 bits, or 33:33 and 32 bits. */
void neighbour_multicast_mac(const union gid *group, uint8_t mac[6]);

/*
 * The MAC for addr: derived for multicast (01:00:5E, 33:33), else from the table.
 * Returns 0 or -EHOSTUNREACH.
 */
int neighbour_resolve(const struct neighbour_table *t, const union gid *addr, uint8_t mac[6]);

#endif
