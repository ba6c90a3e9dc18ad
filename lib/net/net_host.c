/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_host.h"

#include <errno.h>
#include <stdlib.h>

#include "encap_layout.h"
#include "net_internal.h"

/* ---- making one ---- */

struct net_host *net_host_create(const struct net_host_config *config)
{
    struct net_host *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->cfg = *config;
    h->random.state = config->seed;
    h->link = true;
    return h;
}

void net_host_destroy(struct net_host *h)
{
    free(h);
}

const struct net_counters *net_host_counters(const struct net_host *h)
{
    return &h->count;
}

/* ---- for its parts ---- */

bool host_send(struct net_host *h, const uint8_t *frame, uint32_t len)
{
    if (h->link && len)
        h->cfg.ops->send(h->cfg.ctx, frame, len);
    return h->link && len;
}

bool host_send_ip(struct net_host *h, const struct inet_tx *tx, const uint8_t *message,
                  uint32_t len)
{
    uint8_t frame[INET_FRAME_ROOM];

    return host_send(h, frame, inet_build(frame, h->cfg.mac, tx, message, len));
}

ns_t host_random(struct net_host *h, ns_t limit)
{
    return random_below(&h->random, (uint32_t)(limit / NS_PER_US)) * NS_PER_US;
}

bool host_vlan_is_valid(uint16_t vlan)
{
    return vlan == VLAN_NONE || (vlan && vlan < VLAN_ID_RESERVED);
}

bool host_mac_is_ours(const struct net_host *h, const uint8_t mac[6])
{
    return !memcmp(mac, h->cfg.mac, 6);
}

/* ---- frames ---- */

enum {
    ICMP_UNREACHABLE = 3,
    ICMP_ECHO = 8,
    ICMPV6_UNREACHABLE = 1,
    ICMPV6_TOO_BIG = 2,
    ICMPV6_ECHO = 128,
    MLD_QUERY = 130,
    MLD_REPORT_V1 = 131,
    MLD_DONE = 132,
    ND_SOLICIT = 135,
    ND_ADVERTISE = 136,
    MLD_REPORT_V2 = 143,
};

static enum inet_verdict rx_icmp(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    switch (rx->data[0]) {
    case ICMP_ECHO:
        return echo_rx(h, rx, now);
    case ICMP_UNREACHABLE:
        return unreachable_rx(h, rx, now);
    default:
        return INET_IGNORED;
    }
}

static enum inet_verdict rx_icmpv6(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    switch (rx->data[0]) {
    case ND_SOLICIT:
    case ND_ADVERTISE:
        return nd_rx(h, rx, now);
    case ICMPV6_ECHO:
        return echo_rx(h, rx, now);
    case ICMPV6_TOO_BIG:
        return too_big_rx(h, rx, now);
    case ICMPV6_UNREACHABLE:
        h->count.unreachable_rx++;
        return INET_OK;
    case MLD_QUERY:
        return group_mld_rx(h, rx, now);
    case MLD_REPORT_V1:
    case MLD_DONE:
    case MLD_REPORT_V2:
        h->count.mld_rx++;
        return INET_IGNORED;
    default:
        return INET_IGNORED; /* router advertisements too: what to use is configured */
    }
}

static enum inet_verdict rx_ip(struct net_host *h, struct inet_rx *rx, ns_t now)
{
    enum inet_verdict verdict = inet_ip(rx);

    if (verdict != INET_OK)
        return verdict;
    if (!gid_is_multicast(&rx->dst) && !address_find(h, &rx->dst, rx->vlan))
        return INET_IGNORED;
    switch (rx->proto) {
    case IP_PROTO_ICMP:
        return rx_icmp(h, rx, now);
    case IP_PROTO_IGMP:
        return group_igmp_rx(h, rx, now);
    default:
        return rx_icmpv6(h, rx, now);
    }
}

static enum inet_verdict rx_frame(struct net_host *h, const uint8_t *frame, uint32_t len, ns_t now)
{
    struct inet_rx rx;
    enum inet_verdict verdict = inet_ethernet(&rx, frame, len);

    if (verdict != INET_OK)
        return verdict;
    /* Some ports bring back what was sent: that is no answer and no conflict. */
    if (host_mac_is_ours(h, rx.smac) ||
        (!inet_mac_is_group(rx.dmac) && !host_mac_is_ours(h, rx.dmac)))
        return INET_IGNORED;
    switch (rx.ethertype) {
    case ETHERTYPE_ARP:
        return arp_rx(h, &rx, now);
    case ETHERTYPE_IPV4:
    case ETHERTYPE_IPV6:
        return rx_ip(h, &rx, now);
    default:
        return INET_IGNORED;
    }
}

void net_host_rx(struct net_host *h, const uint8_t *frame, uint32_t len, ns_t now)
{
    switch (rx_frame(h, frame, len, now)) {
    case INET_OK:
        break;
    case INET_IGNORED:
        h->count.ignored++;
        break;
    case INET_MALFORMED:
        h->count.malformed++;
        break;
    }
}

/* ---- time ---- */

ns_t net_host_next_timer(const struct net_host *h)
{
    ns_t next = min_of(ncache_next(h), pmtu_next(h));

    if (!h->link)
        return next;
    next = min_of(next, address_next(h));
    return min_of(next, group_next(h));
}

void net_host_timers(struct net_host *h, ns_t now)
{
    if (h->link)
        address_timers(h, now);
    ncache_timers(h, now);
    if (h->link)
        group_timers(h, now);
    pmtu_timers(h, now);
}

void net_host_link(struct net_host *h, bool up, ns_t now)
{
    if (h->link == up)
        return;
    h->link = up;
    if (!up)
        return;
    address_link_up(h, now);
    group_link_up(h, now);
    ncache_link_up(h, now);
}

/* ---- where packets go ---- */

int net_host_resolve(struct net_host *h, const union gid *src, uint16_t vlan, const union gid *dst,
                     ns_t now, struct net_path *path)
{
    const struct own_address *own;
    const uint8_t *mac;
    int err;

    if (gid_is_ipv4(src) != gid_is_ipv4(dst))
        return -EINVAL;
    path->next_hop = *dst;
    path->mtu = h->cfg.mtu;
    if (gid_is_multicast(dst)) {
        gid_multicast_mac(dst, path->mac);
        return 0;
    }
    if (!inet_is_unicast(dst))
        return -ENETUNREACH;
    own = address_find(h, dst, vlan);
    if (own && own->state != NET_DUPLICATE) {
        memcpy(path->mac, h->cfg.mac, 6);
        return 0;
    }
    mac = ncache_static_mac(h, dst, vlan);
    if (mac) { /* whoever configured it knows the way, too */
        memcpy(path->mac, mac, 6);
        path->mtu = pmtu_of(h, dst, now);
        return 0;
    }
    err = route_lookup(h, dst, vlan, &path->next_hop);
    if (!err)
        err = ncache_resolve(h, src, &path->next_hop, vlan, now, path->mac);
    path->mtu = pmtu_of(h, dst, now);
    return err;
}
