/* SPDX-License-Identifier: BSD-3-Clause */
#include "rss_frame.h"

#include <string.h>

#include "bytes.h"
#include "encap.h"

enum {
    ETH_LEN = 14,
    TAG_LEN = 4,
    UDP_LEN = 8,
    BTH_LEN = 12,
    IPV4_MIN = 20,
    IPV6_LEN = 40,
    TYPE_VLAN = 0x8100,
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86DD,
    PROTO_UDP = 17,
    IPV4_FRAGMENT = 0x3FFF, /* more fragments, or an offset */
};

/* The length of the header; 0: not such a packet. */
static uint32_t read_ipv4(struct rss_tuple *t, const uint8_t *ip, uint32_t len)
{
    uint32_t header = 4u * (ip[0] & 0xF);

    if (len < IPV4_MIN || ip[0] >> 4 != 4 || header < IPV4_MIN || ip[9] != PROTO_UDP ||
        (get_be16(ip + 6) & IPV4_FRAGMENT))
        return 0;
    t->src = gid_from_ipv4(ip + 12);
    t->dst = gid_from_ipv4(ip + 16);
    return header;
}

static uint32_t read_ipv6(struct rss_tuple *t, const uint8_t *ip, uint32_t len)
{
    if (len < IPV6_LEN || ip[0] >> 4 != 6 || ip[6] != PROTO_UDP)
        return 0;
    memcpy(t->src.raw, ip + 8, sizeof(t->src.raw));
    memcpy(t->dst.raw, ip + 24, sizeof(t->dst.raw));
    /* No such packet exists, and its tuple would be that of an IPv4 packet. */
    return rss_is_ipv4(t) ? 0 : IPV6_LEN;
}

bool rss_frame_read(struct rss_frame *out, const uint8_t *frame, uint32_t len)
{
    uint32_t at = ETH_LEN, header;
    uint16_t type;

    if (len < ETH_LEN + TAG_LEN)
        return false;
    type = get_be16(frame + 12);
    if (type == TYPE_VLAN) {
        type = get_be16(frame + 16);
        at += TAG_LEN;
    }
    if (len < at + IPV4_MIN)
        return false;
    header = type == TYPE_IPV4   ? read_ipv4(&out->tuple, frame + at, len - at)
             : type == TYPE_IPV6 ? read_ipv6(&out->tuple, frame + at, len - at)
                                 : 0;
    at += header;
    if (!header || len < at + UDP_LEN + BTH_LEN)
        return false;
    out->tuple.sport = get_be16(frame + at);
    out->tuple.dport = get_be16(frame + at + 2);
    out->dest_qpn = get_be32(frame + at + UDP_LEN + 4) & 0xFFFFFF;
    return out->tuple.dport == ROCE_UDP_PORT;
}
