/* SPDX-License-Identifier: BSD-3-Clause */
/* The port of a host as the host's parts see it: the way out, the link, random numbers, counters.
 * Every part may use the port; the port uses no part. */
#ifndef UROCE_NET_PORT_H
#define UROCE_NET_PORT_H

#include "inet.h"
#include "net_host.h"
#include "random.h"

struct net_port {
    struct net_host_config cfg;
    struct random random;
    bool link;
    struct net_counters count;
};

/* Sends a frame; false when the link is down or len is 0. */
bool net_port_send(struct net_port *p, const uint8_t *frame, uint32_t len);
/* Builds and sends a packet; false when it was not sent. */
bool net_port_send_ip(struct net_port *p, const struct inet_tx *tx, const uint8_t *message,
                      uint32_t len);

/* A duration below limit (at most an hour). */
ns_t net_port_random(struct net_port *p, ns_t limit);

bool net_port_has_mac(const struct net_port *p, const uint8_t mac[6]);

#endif
