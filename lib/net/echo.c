/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to ping: ICMP and ICMPv6 echo requests to an address of ours. */
#include "encap_layout.h"
#include "net_internal.h"

#define ICMP_ECHO_REPLY   0
#define ICMPV6_ECHO_REPLY 129
#define HOP_LIMIT         64

/* A bucket of ECHO_BURST replies, into which one comes back every ECHO_INTERVAL. */
#define ECHO_INTERVAL NS_PER_MS
#define ECHO_BURST    100

static bool bucket_take(struct net_host *h, ns_t now)
{
    if (h->echo_full > now + (ECHO_BURST - 1) * ECHO_INTERVAL)
        return false;
    h->echo_full = max_of(h->echo_full, now) + ECHO_INTERVAL;
    return true;
}

enum inet_verdict echo_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    bool ipv4 = rx->ethertype == ETHERTYPE_IPV4;
    uint8_t message[INET_FRAME_ROOM];
    struct inet_tx tx = {.vlan = rx->vlan,
                         .src = rx->dst,
                         .dst = rx->src,
                         .proto = rx->proto,
                         .hop_limit = HOP_LIMIT,
                         .traffic_class = rx->traffic_class};

    const struct own_address *own = address_find(h, &rx->dst, rx->vlan);

    h->count.echo_rx++;
    if (rx->data[1])
        return INET_MALFORMED;
    if (!own || !address_counts(h, own) || address_is_quiet(h, own) ||
        !host_mac_is_ours(h, rx->dmac) || !inet_is_unicast(&rx->src) ||
        address_find(h, &rx->src, rx->vlan) || rx->len > inet_message_room(&tx, h->cfg.mtu))
        return INET_IGNORED;
    if (!bucket_take(h, now))
        return INET_IGNORED;
    memcpy(tx.dmac, rx->smac, 6); /* the way it came */
    memcpy(message, rx->data, rx->len);
    message[0] = ipv4 ? ICMP_ECHO_REPLY : ICMPV6_ECHO_REPLY;
    if (host_send_ip(h, &tx, message, rx->len))
        h->count.echo_tx++;
    return INET_OK;
}
