/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What follows a frame's outer headers, for flow rules that ask for it: a tunnel's header (VXLAN,
 * GRE, MPLS) and the headers inside, or that of ESP, whose inside is encrypted. The bytes may be
 * any, as in flow_parse.c. One tunnel is entered; what is in a second one is not looked at, but for
 * MPLS, whose labels may follow GRE or UDP.
 */
#include "encap_layout.h"
#include "flow_rest.h"

#define PORT_VXLAN       4789
#define PORT_MPLS        6635
#define IP_PROTO_GRE     47
#define IP_PROTO_ESP     50
#define IP_PROTO_MPLS    137
#define ETHERTYPE_MPLS   0x8847
#define ETHERTYPE_MPLS_M 0x8848 /* of multicast */
#define ETHERTYPE_BRIDGE 0x6558 /* GRE: an Ethernet frame follows */

#define VXLAN_LEN     8
#define VXLAN_HAS_VNI 0x08
#define ESP_LEN       8
#define GRE_LEN       4
#define GRE_CHECKSUM  0x8000
#define GRE_KEY       0x2000
#define GRE_SEQUENCE  0x1000
#define GRE_OTHER     0x4C07 /* RFC 1701's routes and recursion, and versions but 0 */
#define MPLS_LEN      4
#define MPLS_BOTTOM   0x01 /* in the third byte */
#define MPLS_LABELS   8    /* a stack of more is not followed */

static void parse_inner_ip(union flow_deep_key *deep, struct flow_rest *r, uint16_t type)
{
    union flow_key inner = {0};

    flow_parse_network(&inner, r, type);
    memcpy(&deep->inner, &inner, sizeof(deep->inner));
    deep->inner_headers = inner.headers;
}

static void parse_inner_frame(union flow_deep_key *deep, struct flow_rest *r)
{
    union flow_key inner = {0};

    if (r->len < ETH_LEN)
        return;
    flow_parse_network(&inner, r, flow_parse_ethernet(&inner, r));
    memcpy(&deep->inner, &inner, sizeof(deep->inner));
    deep->inner_headers = inner.headers | FLOW_HAS_ETHERNET;
}

/* Through the labels; the first is the rule's. What is below them says itself which IP it is. */
static void parse_mpls(union flow_deep_key *deep, struct flow_rest *r)
{
    for (unsigned i = 0; i < MPLS_LABELS && r->len >= MPLS_LEN; i++) {
        bool bottom = r->p[2] & MPLS_BOTTOM;

        if (!i)
            memcpy(&deep->mpls, r->p, MPLS_LEN);
        deep->tunnels |= FLOW_HAS_MPLS;
        flow_rest_skip(r, MPLS_LEN);
        if (!bottom)
            continue;
        if (r->len && r->p[0] >> 4 == 4)
            parse_inner_ip(deep, r, ETHERTYPE_IPV4);
        else if (r->len && r->p[0] >> 4 == 6)
            parse_inner_ip(deep, r, ETHERTYPE_IPV6);
        return;
    }
}

static void parse_vxlan(union flow_deep_key *deep, struct flow_rest *r)
{
    if (r->len < VXLAN_LEN || !(r->p[0] & VXLAN_HAS_VNI))
        return;
    deep->tunnels |= FLOW_HAS_VXLAN;
    memcpy((uint8_t *)&deep->vni + 1, r->p + 4, 3);
    flow_rest_skip(r, VXLAN_LEN);
    parse_inner_frame(deep, r);
}

/* Bytes of the header with these flags; 0: it is of another kind. */
static uint32_t gre_len(uint16_t flags)
{
    if (flags & GRE_OTHER)
        return 0;
    return GRE_LEN + (flags & GRE_CHECKSUM ? 4 : 0) + (flags & GRE_KEY ? 4 : 0) +
           (flags & GRE_SEQUENCE ? 4 : 0);
}

static void parse_gre(union flow_deep_key *deep, struct flow_rest *r)
{
    uint16_t flags = r->len < GRE_LEN ? 0 : get_be16(r->p), type;
    uint32_t len = gre_len(flags);

    if (!len || r->len < len)
        return;
    type = get_be16(r->p + 2);
    deep->tunnels |= FLOW_HAS_GRE;
    memcpy(&deep->gre_flags, r->p, 2);
    memcpy(&deep->gre_protocol, r->p + 2, 2);
    if (flags & GRE_KEY) {
        deep->tunnels |= KEY_HAS_GRE_KEY;
        memcpy(&deep->gre_key, r->p + GRE_LEN + (flags & GRE_CHECKSUM ? 4 : 0), 4);
    }
    flow_rest_skip(r, len);
    if (type == ETHERTYPE_BRIDGE)
        parse_inner_frame(deep, r);
    else if (type == ETHERTYPE_MPLS || type == ETHERTYPE_MPLS_M)
        parse_mpls(deep, r);
    else
        parse_inner_ip(deep, r, type);
}

static void parse_esp(union flow_deep_key *deep, const struct flow_rest *r)
{
    if (r->len < ESP_LEN)
        return;
    deep->tunnels |= FLOW_HAS_ESP;
    memcpy(&deep->esp_spi, r->p, 4);
    memcpy(&deep->esp_seq, r->p + 4, 4);
}

static void parse_udp(union flow_deep_key *deep, const union flow_key *outer, struct flow_rest *r)
{
    uint16_t port = get_be16((const uint8_t *)&outer->dport);

    if (!(outer->headers & FLOW_HAS_UDP)) /* cut short */
        return;
    flow_rest_skip(r, UDP_LEN);
    if (port == PORT_VXLAN)
        parse_vxlan(deep, r);
    else if (port == PORT_MPLS)
        parse_mpls(deep, r);
}

void flow_parse_deep(union flow_deep_key *deep, const uint8_t *frame, uint32_t len)
{
    struct flow_rest r = {frame, len};
    union flow_key outer = {0};
    uint16_t type;

    memset(deep, 0, sizeof(*deep));
    if (len < ETH_LEN)
        return;
    type = flow_parse_ethernet(&outer, &r);
    if (type == ETHERTYPE_MPLS || type == ETHERTYPE_MPLS_M) {
        parse_mpls(deep, &r);
        return;
    }
    if (!flow_parse_network(&outer, &r, type))
        return;
    switch (outer.next_header) {
    case IP_PROTO_UDP:
        parse_udp(deep, &outer, &r);
        break;
    case IP_PROTO_GRE:
        parse_gre(deep, &r);
        break;
    case IP_PROTO_ESP:
        parse_esp(deep, &r);
        break;
    case IP_PROTO_MPLS:
        parse_mpls(deep, &r);
        break;
    default:
        break;
    }
}
