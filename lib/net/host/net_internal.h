/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host as a whole, for the files that let its parts work together. Each part is a struct that
 * its own file changes, in a header of its own; a part knows the port and the addresses, and no
 * other part:
 *
 *   net_host.c         the public calls; which part gets a frame
 *   arp.c nd.c         received ARP and neighbour discovery
 *   address_detect.c   changes of addresses: conflicts, neighbours and groups follow
 *   group_*.c neighbour_cache.c route.c pmtu.c echo.c
 *   address.c          the addresses
 *   arp_send.c nd_send.c
 *   net_port.c         the port
 *   inet.c             headers
 *
 * A file calls those below it only.
 */
#ifndef UROCE_NET_INTERNAL_H
#define UROCE_NET_INTERNAL_H

#include "address.h"
#include "address_detect.h"
#include "echo.h"
#include "group.h"
#include "neighbour_cache.h"
#include "net_port.h"
#include "pmtu.h"
#include "route.h"

struct net_host {
    struct net_port port;
    struct address_table addresses;
    struct route_table routes;
    struct neighbour_cache neighbours;
    struct group_table groups;
    struct pmtu_table pmtus;
    struct echo_bucket echo;
};

#endif
