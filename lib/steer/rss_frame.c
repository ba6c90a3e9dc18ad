/* SPDX-License-Identifier: BSD-3-Clause */
/* The RSS input of a received frame: see rss_frame.h. */
#include "rss_frame.h"

#include <string.h>

#include "bytes.h"
#include "encap.h"
#include "encap_layout.h"
#include "pkt.h"

/* Returns the length of the header, or 0 if the packet has no UDP header. read_ipv6 likewise. */
static uint32_t read_ipv4(struct rss_tuple *t, const uint8_t *ip, uint32_t len)
{
    uint32_t header = 4u * (ip[0] & 0xF);

    if (len < IPV4_LEN || ip[0] >> 4 != 4 || header < IPV4_LEN || ip[9] != IP_PROTO_UDP ||
        (get_be16(ip + 6) & IPV4_FRAGMENT_MASK))
        return 0;
    t->src = gid_from_ipv4(ip + 12);
    t->dst = gid_from_ipv4(ip + 16);
    return header;
}

static uint32_t read_ipv6(struct rss_tuple *t, const uint8_t *ip, uint32_t len)
{
    if (len < IPV6_LEN || ip[0] >> 4 != 6 || ip[6] != IP_PROTO_UDP)
        return 0;
    memcpy(t->src.raw, ip + 8, sizeof(t->src.raw));
    memcpy(t->dst.raw, ip + 24, sizeof(t->dst.raw));
    /* IPv4-mapped addresses are never on the wire; the tuple would be that of an IPv4 packet. */
    return rss_is_ipv4(t) ? 0 : IPV6_LEN;
}

bool rss_frame_read(struct rss_frame *out, const uint8_t *frame, uint32_t len)
{
    uint32_t at = ETH_LEN, header;
    uint16_t type;

    if (len < ETH_LEN + VLAN_LEN)
        return false;
    type = get_be16(frame + 12);
    if (type == ETHERTYPE_VLAN) {
        type = get_be16(frame + 16);
        at += VLAN_LEN;
    }
    if (len < at + IPV4_LEN)
        return false;
    header = type == ETHERTYPE_IPV4   ? read_ipv4(&out->tuple, frame + at, len - at)
             : type == ETHERTYPE_IPV6 ? read_ipv6(&out->tuple, frame + at, len - at)
                                      : 0;
    at += header;
    if (!header || len < at + UDP_LEN + BTH_LEN)
        return false;
    out->tuple.sport = get_be16(frame + at);
    out->tuple.dport = get_be16(frame + at + 2);
    out->dest_qpn = get_be32(frame + at + UDP_LEN + 4) & 0xFFFFFF;
    return out->tuple.dport == ROCE_UDP_PORT;
}
