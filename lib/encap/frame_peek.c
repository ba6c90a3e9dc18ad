/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of any frame: see frame_peek.h. */
#include "frame_peek.h"

#include "encap_layout.h"
#include "gid.h"
#include "qos.h"

#define ETHER_TYPE      12
#define ETHERTYPE_ARP   0x0806
#define IPV4_PROTO      9
#define IPV6_NEXT       6
#define PROTO_ICMP      1
#define PROTO_IGMP      2
#define NEXT_HOP_BY_HOP 0
#define NEXT_ICMPV6     58

uint8_t frame_priority(const uint8_t *frame, uint32_t len)
{
    uint16_t tci = VLAN_NONE;
    uint8_t traffic_class = 0;

    if (len >= ETH_LEN + 2) {
        uint16_t type = get_be16(frame + ETHER_TYPE);

        if (type == ETHERTYPE_VLAN)
            tci = get_be16(frame + ETH_LEN);
        else if (type == ETHERTYPE_IPV4)
            traffic_class = frame[ETH_LEN + 1];
        else if (type == ETHERTYPE_IPV6)
            traffic_class = (uint8_t)(get_be16(frame + ETH_LEN) >> 4);
    }
    return qos_frame_priority(tci, traffic_class);
}

bool frame_mark(uint8_t *frame, uint32_t len)
{
    uint32_t at = len >= ETH_LEN && get_be16(frame + ETHER_TYPE) == ETHERTYPE_VLAN
                      ? ETH_LEN + VLAN_LEN
                      : ETH_LEN;
    uint8_t *ip = frame + at;
    uint16_t type = len >= at + IPV4_LEN ? get_be16(ip - 2) : 0;

    if (type == ETHERTYPE_IPV6 && len >= at + IPV6_LEN) {
        ip[1] |= ECN_CE << 4;
        return true;
    }
    if (type != ETHERTYPE_IPV4)
        return false;
    ip[1] |= ECN_CE;
    ipv4_write_sum(ip);
    return true;
}

bool frame_is_for_ip_host(const uint8_t *frame, uint32_t len)
{
    uint32_t at = ETH_LEN;
    uint16_t type = get_be16(frame + ETHER_TYPE);

    if (type == ETHERTYPE_VLAN && len >= ETH_LEN + VLAN_LEN) {
        type = get_be16(frame + ETHER_TYPE + VLAN_LEN);
        at += VLAN_LEN;
    }
    if (type == ETHERTYPE_ARP)
        return true;
    if (type == ETHERTYPE_IPV4 && len > at + IPV4_PROTO)
        return frame[at + IPV4_PROTO] == PROTO_ICMP || frame[at + IPV4_PROTO] == PROTO_IGMP;
    if (type == ETHERTYPE_IPV6 && len > at + IPV6_NEXT)
        return frame[at + IPV6_NEXT] == NEXT_ICMPV6 || frame[at + IPV6_NEXT] == NEXT_HOP_BY_HOP;
    return false;
}
