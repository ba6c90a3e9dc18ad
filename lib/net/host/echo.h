/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to ping: ICMP and ICMPv6 echo requests to an address of the host. */
#ifndef UROCE_NET_ECHO_H
#define UROCE_NET_ECHO_H

#include "address.h"
#include "net_port.h"

/* Bounds the rate of replies. */
struct echo_bucket {
    struct net_port *port;
    const struct address_table *addresses;
    ns_t full_at; /* when the bucket is full again */
};

enum inet_verdict echo_rx(struct echo_bucket *b, const struct inet_rx *rx, ns_t now);

#endif
