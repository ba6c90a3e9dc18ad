/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet, 802.1Q, IPv4 and IPv6 headers of the control traffic of a host: parsed with every
 * length checked, and built. Pure; any thread.
 */
#ifndef UROCE_INET_H
#define UROCE_INET_H

#include "common.h"
#include "gid.h"
#include "net_host.h"

#define ETHERTYPE_ARP   0x0806
#define IP_PROTO_ICMP   1
#define IP_PROTO_IGMP   2
#define IP_PROTO_ICMPV6 58

#define INET_FRAME_ROOM (NET_FRAME_MAX + 4)

enum inet_verdict {
    INET_OK,
    INET_IGNORED,   /* valid as far as it was read, but needs no reaction of this host */
    INET_MALFORMED, /* breaks a rule of its protocol */
};

/* A received packet. The pointers point into the frame. */
struct inet_rx {
    const uint8_t *dmac, *smac;
    uint16_t vlan; /* id, or VLAN_NONE; a tag with id 0 counts as none */
    uint16_t ethertype;
    union gid src, dst; /* from here on: after inet_ip */
    uint8_t proto, hop_limit, traffic_class;
    bool router_alert;   /* an IPv6 hop-by-hop router alert for MLD */
    const uint8_t *data; /* what follows the headers that were read */
    uint32_t len;
};

/* Reads the Ethernet header and at most one tag of the len bytes at frame. */
enum inet_verdict inet_ethernet(struct inet_rx *rx, const uint8_t *frame, uint32_t len);

/*
 * Reads the IP header of rx->ethertype, and hop-by-hop options. INET_OK: data and len are a whole,
 * unfragmented ICMP, IGMP or ICMPv6 message of at least 8 bytes with a valid checksum.
 */
enum inet_verdict inet_ip(struct inet_rx *rx);

/* Whether the bytes after the first `used` of the len that follow an Ethernet header are no more
 * than padding to the shortest frame, or a frame check sequence that the port left on. */
bool inet_rest_is_padding(uint32_t used, uint32_t len);

/* A packet to be built. IPv4 when dst is. */
struct inet_tx {
    uint8_t dmac[6];
    uint16_t vlan;
    union gid src, dst;
    uint8_t proto, hop_limit, traffic_class;
    bool router_alert; /* IPv4: RFC 2113; IPv6: RFC 2711, for MLD */
};

/* Writes Ethernet header and tag; returns their length. */
uint32_t inet_put_ethernet(uint8_t *out, const uint8_t dmac[6], const uint8_t smac[6],
                           uint16_t vlan, uint16_t ethertype);

/*
 * Writes the whole frame into out[INET_FRAME_ROOM], with the checksum of the message, which in
 * each of ICMP, IGMP and ICMPv6 is in bytes 2 and 3. Returns its length, or 0: too long.
 */
uint32_t inet_build(uint8_t *out, const uint8_t smac[6], const struct inet_tx *tx,
                    const uint8_t *message, uint32_t len);

/* The most bytes of a message that fit a packet of mtu bytes in a frame of this host. */
uint32_t inet_message_room(const struct inet_tx *tx, uint32_t mtu);

/* ---- addresses ---- */

static inline bool inet_mac_is_group(const uint8_t mac[6])
{
    return mac[0] & 1;
}

/* A single host's. */
static inline bool inet_mac_is_host(const uint8_t mac[6])
{
    return !inet_mac_is_group(mac) && (mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]);
}

/* 0.0.0.0 or ::, as a GID. */
static inline union gid inet_unspecified(bool ipv4)
{
    return ipv4 ? gid_from_ipv4((const uint8_t[4]){0}) : (union gid){.raw = {0}};
}

static inline bool inet_is_unspecified(const union gid *g)
{
    return gid_is_zero(g) || (gid_is_ipv4(g) && !memcmp(g->raw + 12, (const uint8_t[4]){0}, 4));
}

/* Neither unspecified, nor a group, nor the broadcast address. */
bool inet_is_unicast(const union gid *g);

/* Whether the first bits (of 32 or 128) of two addresses of one IP version agree. */
bool inet_same_prefix(const union gid *a, const union gid *b, unsigned bits);

/* An id of a VLAN, or VLAN_NONE. */
bool inet_vlan_is_valid(uint16_t vlan);

/* ff02::1:ffXX:XXXX (RFC 4291 2.7.1). */
union gid inet_solicited_node(const union gid *addr);

#endif
