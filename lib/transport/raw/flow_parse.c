/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes a frame's headers apart for flow rules and for hashing. The bytes may be
 * any: a header is read only when all of it is there, and the IP length decides where a packet
 * ends, not the frame's length, which includes padding.
 */
#include "encap_layout.h"
#include "flow_rest.h"

#define IPV6_EXTENSIONS_MAX 8 /* a chain of more is not followed */
#define IPV6_FRAGMENT_LEN   8

uint16_t flow_parse_ethernet(union flow_key *key, struct flow_rest *r)
{
    uint16_t type = get_be16(r->p + 12);

    memcpy(key->dmac, r->p, 6);
    memcpy(key->smac, r->p + 6, 6);
    if (key->dmac[0] & 1)
        key->headers |= KEY_MULTICAST;
    flow_rest_skip(r, ETH_LEN);
    for (unsigned i = 0; i < VLAN_TAGS_MAX; i++) {
        if ((type != ETHERTYPE_VLAN && type != ETHERTYPE_SERVICE_VLAN) || r->len < VLAN_LEN)
            break;
        if (!i)
            memcpy(&key->vlan_tci, r->p, 2);
        key->headers |= FLOW_HAS_VLAN;
        type = get_be16(r->p + 2);
        flow_rest_skip(r, VLAN_LEN);
    }
    put_be16((uint8_t *)&key->ether_type, type);
    return type;
}

static void parse_ports(union flow_key *key, const struct flow_rest *r)
{
    uint32_t need = key->next_header == IP_PROTO_UDP ? UDP_LEN : TCP_LEN;

    if ((key->next_header != IP_PROTO_UDP && key->next_header != IP_PROTO_TCP) || r->len < need)
        return;
    key->headers |=
        KEY_HAS_PORTS | (key->next_header == IP_PROTO_UDP ? FLOW_HAS_UDP : FLOW_HAS_TCP);
    memcpy(&key->sport, r->p, 2);
    memcpy(&key->dport, r->p + 2, 2);
}

static bool parse_ipv4(union flow_key *key, struct flow_rest *r)
{
    const uint8_t *ip = r->p;
    uint32_t header, total;
    union gid src, dst;

    if (r->len < IPV4_LEN || ip[0] >> 4 != 4)
        return false;
    header = (ip[0] & 0x0Fu) * 4;
    total = get_be16(ip + 2);
    if (header < IPV4_LEN || header > r->len || total < header)
        return false;
    key->headers |= FLOW_HAS_IPV4 | KEY_HAS_IP;
    src = gid_from_ipv4(ip + 12);
    dst = gid_from_ipv4(ip + 16);
    memcpy(key->src, src.raw, sizeof(key->src));
    memcpy(key->dst, dst.raw, sizeof(key->dst));
    key->traffic_class = ip[1];
    key->hop_limit = ip[8];
    key->next_header = ip[9];
    key->ipv4_flags = ip[6] >> 5 & 3;
    r->len = min_of(r->len, total);
    flow_rest_skip(r, header);
    if (get_be16(ip + 6) & IPV4_FRAGMENT_MASK)
        key->headers |= KEY_FRAGMENT;
    if (get_be16(ip + 6) & IPV4_OFFSET_MASK)
        return false;
    parse_ports(key, r);
    return true;
}

/* The length of an extension header that begins with the n bytes at p, or 0: it is none, or not
 * all there. */
static uint32_t extension_len(uint8_t type, const uint8_t *p, uint32_t n)
{
    uint32_t len;

    if (n < 8)
        return 0;
    switch (type) {
    case 0:   /* hop by hop */
    case 43:  /* routing */
    case 60:  /* destination options */
    case 135: /* mobility */
    case 139: /* host identity */
    case 140: /* shim6 */
        len = (p[1] + 1u) * 8;
        break;
    case 51: /* authentication */
        len = (p[1] + 2u) * 4;
        break;
    case IPV6_NEXT_FRAGMENT:
        len = IPV6_FRAGMENT_LEN;
        break;
    default:
        return 0;
    }
    return len <= n ? len : 0;
}

/* To the last header, whose type is next_header. False: what follows is the middle of a packet. */
static bool parse_extensions(union flow_key *key, struct flow_rest *r)
{
    for (unsigned i = 0; i < IPV6_EXTENSIONS_MAX; i++) {
        uint32_t len = extension_len(key->next_header, r->p, r->len);
        uint16_t part = len && key->next_header == IPV6_NEXT_FRAGMENT ? get_be16(r->p + 2) : 0;

        if (!len)
            return true;
        key->next_header = r->p[0];
        flow_rest_skip(r, len);
        if (part & IPV6_FRAGMENT_MASK)
            key->headers |= KEY_FRAGMENT;
        if (part & IPV6_OFFSET_MASK)
            return false;
    }
    return true;
}

static bool parse_ipv6(union flow_key *key, struct flow_rest *r)
{
    const uint8_t *ip = r->p;
    uint32_t first;

    if (r->len < IPV6_LEN || ip[0] >> 4 != 6)
        return false;
    first = get_be32(ip);
    key->headers |= FLOW_HAS_IPV6 | KEY_HAS_IP;
    memcpy(key->src, ip + 8, 16);
    memcpy(key->dst, ip + 24, 16);
    put_be32((uint8_t *)&key->flow_label, first & FLOW_LABEL_MASK);
    key->traffic_class = (uint8_t)(first >> 20);
    key->next_header = ip[6];
    key->hop_limit = ip[7];
    flow_rest_skip(r, IPV6_LEN);
    r->len = min_of(r->len, (uint32_t)get_be16(ip + 4));
    if (!parse_extensions(key, r))
        return false;
    parse_ports(key, r);
    return true;
}

bool flow_parse_network(union flow_key *key, struct flow_rest *r, uint16_t type)
{
    if (type == ETHERTYPE_IPV4)
        return parse_ipv4(key, r);
    return type == ETHERTYPE_IPV6 && parse_ipv6(key, r);
}

void flow_parse(union flow_key *key, const uint8_t *frame, uint32_t len)
{
    struct flow_rest r = {frame, len};

    memset(key, 0, sizeof(*key));
    if (len >= ETH_LEN)
        flow_parse_network(key, &r, flow_parse_ethernet(key, &r));
}
