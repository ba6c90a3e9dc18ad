/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The condition of a flow rule, as a value: the control protocol carries it, and the engine matches
 * frames with it.
 */
#ifndef UROCE_FLOW_MATCH_H
#define UROCE_FLOW_MATCH_H

#include <stdint.h>

/* Headers of a frame, whatever their fields are. */
enum flow_header {
    FLOW_HAS_VLAN = 1 << 0,
    FLOW_HAS_IPV4 = 1 << 1,
    FLOW_HAS_IPV6 = 1 << 2,
    FLOW_HAS_TCP = 1 << 3,
    FLOW_HAS_UDP = 1 << 4,
    FLOW_HAS_ETHERNET = 1 << 5, /* inside a tunnel; outside each frame has it */
};

/* Fields of more than a byte are in network order. */
struct flow_fields {
    uint8_t dmac[6], smac[6];
    uint16_t ether_type;      /* behind the tag, if there is one */
    uint16_t vlan_tci;        /* requires a tag */
    uint8_t src[16], dst[16]; /* IPv6, or IPv4-mapped */
    uint32_t flow_label;      /* IPv6 */
    uint8_t traffic_class;    /* IPv6, or IPv4 TOS */
    uint8_t hop_limit;        /* IPv6, or IPv4 TTL */
    uint8_t next_header;      /* behind IPv6's extensions; IPv4 protocol */
    uint8_t ipv4_flags;       /* bit 1: don't fragment, bit 0: more fragments */
    uint16_t sport, dport;    /* TCP or UDP */
};

/*
 * (field ^ value) & mask must be 0 for each field. A mask other than 0 also requires the field's
 * header: IPv4, IPv6, TCP, UDP. Only the first fragment of a packet has ports.
 */
struct flow_match {
    uint32_t headers; /* enum flow_header: the headers that the frame must have */
    struct flow_fields value, mask;
};

/* What follows the outer headers. */
enum flow_tunnel {
    FLOW_HAS_VXLAN = 1 << 0, /* UDP port 4789 */
    FLOW_HAS_GRE = 1 << 1,
    FLOW_HAS_MPLS = 1 << 2, /* in Ethernet, IP, GRE, or UDP port 6635 */
    FLOW_HAS_ESP = 1 << 3,
};

/* In network order. */
struct flow_deep_fields {
    uint32_t vni; /* VXLAN: in the low 24 bits */
    uint16_t gre_flags, gre_protocol;
    uint32_t gre_key; /* requires that there is one */
    uint32_t mpls;    /* the first label, with its class, bottom bit and TTL */
    uint32_t esp_spi, esp_seq;
    struct flow_fields inner;
};

/* As struct flow_match, for tunnels and the headers inside; all zero: any frame. */
struct flow_deep {
    uint32_t tunnels;       /* enum flow_tunnel */
    uint32_t inner_headers; /* enum flow_header */
    struct flow_deep_fields value, mask;
};

#endif
