/* SPDX-License-Identifier: BSD-3-Clause */
/* See echo.h. */
#include "echo.h"

#include "encap_layout.h"

#define ICMP_ECHO_REPLY   0
#define ICMPV6_ECHO_REPLY 129
#define HOP_LIMIT         64

/* A bucket of ECHO_BURST replies, refilled by one every ECHO_INTERVAL. */
#define ECHO_INTERVAL NS_PER_MS
#define ECHO_BURST    100

static bool reply_is_allowed(struct echo_bucket *b, ns_t now)
{
    if (b->full_at > now + (ECHO_BURST - 1) * ECHO_INTERVAL)
        return false;
    b->full_at = max_of(b->full_at, now) + ECHO_INTERVAL;
    return true;
}

enum inet_verdict echo_rx(struct echo_bucket *b, const struct inet_rx *rx, ns_t now)
{
    bool ipv4 = rx->ethertype == ETHERTYPE_IPV4;
    uint8_t message[INET_FRAME_ROOM];
    struct inet_tx tx = {.vlan = rx->vlan,
                         .src = rx->dst,
                         .dst = rx->src,
                         .proto = rx->proto,
                         .hop_limit = HOP_LIMIT,
                         .traffic_class = rx->traffic_class};
    const struct own_address *own = address_find(b->addresses, &rx->dst, rx->vlan);

    b->port->count.echo_rx++;
    if (rx->data[1])
        return INET_MALFORMED;
    if (!own || !address_is_used(b->addresses, own) || address_is_quiet(b->addresses, own) ||
        !net_port_has_mac(b->port, rx->dmac) || !inet_is_unicast(&rx->src) ||
        address_find(b->addresses, &rx->src, rx->vlan) ||
        rx->len > inet_message_room(&tx, b->port->cfg.mtu))
        return INET_IGNORED;
    if (!reply_is_allowed(b, now))
        return INET_IGNORED;
    memcpy(tx.dmac, rx->smac, 6); /* the way the request came */
    memcpy(message, rx->data, rx->len);
    message[0] = ipv4 ? ICMP_ECHO_REPLY : ICMPV6_ECHO_REPLY;
    if (net_port_send_ip(b->port, &tx, message, rx->len))
        b->port->count.echo_tx++;
    return INET_OK;
}
