/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames without their payload: see frame_trim.h. */
#include "frame_trim.h"

#include <string.h>

#include "bth.h"
#include "common.h"
#include "encap_layout.h"

/* Where the network header is, and what it is; 0: no whole header of IP. */
static uint32_t find_ip(const uint8_t *frame, uint32_t len, uint16_t *type)
{
    uint32_t at = ETH_LEN;

    if (len < ETH_LEN)
        return 0;
    *type = get_be16(frame + ETH_LEN - 2);
    if (*type == ETHERTYPE_VLAN && len >= ETH_LEN + VLAN_LEN) {
        at += VLAN_LEN;
        *type = get_be16(frame + at - 2);
    }
    if (*type == ETHERTYPE_IPV4)
        return len >= at + IPV4_LEN ? at : 0;
    return *type == ETHERTYPE_IPV6 && len >= at + IPV6_LEN ? at : 0;
}

bool frame_may_be_trimmed(const struct encap_view *v)
{
    const struct opcode_info *info;

    if (v->l3_kind == ICRC_GRH || v->bth_len < BTH_LEN)
        return false;
    info = &opcode_table[bth_opcode(v->bth)];
    return (info->flags & PF_PAYLOAD) && !info->payload_fix &&
           v->bth_len > (uint32_t)info->header_len + ICRC_LEN;
}

int frame_dscp(const uint8_t *frame, uint32_t len)
{
    uint16_t type;
    uint32_t at = find_ip(frame, len, &type);

    if (!at)
        return -1;
    return type == ETHERTYPE_IPV4 ? frame[at + 1] >> 2 : get_be16(frame + at) >> 6 & 0x3F;
}

/* The bytes of UDP that an IP header announces; 0: not UDP, or a header that is not sound. */
static uint32_t announced(const uint8_t *ip, uint16_t type)
{
    if (type == ETHERTYPE_IPV6)
        return ip[0] >> 4 == 6 && ip[6] == IP_PROTO_UDP ? get_be16(ip + 4) : 0;
    if (ip[0] != IPV4_VERSION_IHL || ip[9] != IP_PROTO_UDP || ipv4_sum(ip) != 0xFFFF ||
        get_be16(ip + 6) & IPV4_FRAGMENT_MASK)
        return 0;
    return max_of(get_be16(ip + 2), (uint16_t)IPV4_LEN) - (uint32_t)IPV4_LEN;
}

/* The headers from UDP on: how long, as far as `len` bytes have them; 0: they are not RoCE's. */
static uint32_t headers_len(const uint8_t *udp, uint32_t len, uint32_t ip_payload)
{
    const struct opcode_info *info;
    uint32_t headers;

    if (len < UDP_LEN + BTH_LEN || get_be16(udp + 2) != ROCE_UDP_PORT ||
        get_be16(udp + 4) != ip_payload)
        return 0;
    info = &opcode_table[bth_opcode(udp + UDP_LEN)];
    headers = UDP_LEN + info->header_len;
    return info->name && headers <= len && headers <= ip_payload ? headers : 0;
}

static void write_ipv4(uint8_t *ip, uint32_t payload, uint8_t dscp)
{
    ip[1] = (uint8_t)(dscp << 2 | (ip[1] & ECN_MASK));
    put_be16(ip + 2, (uint16_t)(IPV4_LEN + payload));
    ipv4_write_sum(ip);
}

static void write_ipv6(uint8_t *ip, uint32_t payload, uint8_t dscp)
{
    put_be16(ip, (uint16_t)((get_be16(ip) & 0xF03F) | dscp << 6));
    put_be16(ip + 4, (uint16_t)payload);
}

uint32_t frame_trim(uint8_t *frame, uint32_t len, uint8_t dscp)
{
    uint16_t type;
    uint32_t at = find_ip(frame, len, &type), headers;
    uint8_t *ip = frame + at, *udp;

    if (!at)
        return 0;
    at += type == ETHERTYPE_IPV4 ? IPV4_LEN : IPV6_LEN;
    udp = frame + at;
    headers = headers_len(udp, len - at, announced(ip, type));
    if (!headers)
        return 0;
    if (type == ETHERTYPE_IPV4)
        write_ipv4(ip, headers, dscp);
    else
        write_ipv6(ip, headers, dscp);
    put_be16(udp + 4, (uint16_t)headers);
    put_be16(udp + 6, 0);
    return at + headers;
}

#define BTH_PAD_BITS 0x30 /* of its second byte */

bool frame_trim_read(struct frame_trimmed *t, const uint8_t *frame, uint32_t len, uint8_t dscp,
                     const struct encap_port *port)
{
    uint8_t *bth;

    if (frame_dscp(frame, len) != dscp)
        return false;
    len = min_of(len, (uint32_t)FRAME_TRIM_MAX);
    memcpy(t->headers, frame, len);
    len = frame_trim(t->headers, len, dscp);
    if (!len || encap_rx(&t->view, t->headers, len, port) != DROP_NONE)
        return false;
    bth = t->headers + (t->view.bth - t->headers);
    bth[1] &= (uint8_t)~BTH_PAD_BITS;
    memset(t->headers + len, 0, ICRC_LEN);
    return pkt_parse(&t->pkt, bth, t->view.bth_len + ICRC_LEN) == DROP_NONE &&
           (pkt_info(&t->pkt)->flags & PF_PAYLOAD);
}
