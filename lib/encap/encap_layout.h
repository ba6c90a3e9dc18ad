/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and numbers of the outer headers, for lib/encap, lib/net, lib/steer and tools that build
 * frames. */
#ifndef UROCE_ENCAP_LAYOUT_H
#define UROCE_ENCAP_LAYOUT_H

#include <stdint.h>
#include <string.h>

#include "bytes.h"

#define MAC_LEN  6
#define ETH_LEN  14
#define VLAN_LEN 4
#define IPV4_LEN 20
#define IPV6_LEN 40 /* and the GRH */
#define UDP_LEN  8
#define TCP_LEN  20

#define ETHERTYPE_IPV4         0x0800
#define ETHERTYPE_VLAN         0x8100
#define ETHERTYPE_IPV6         0x86DD
#define ETHERTYPE_SERVICE_VLAN 0x88A8 /* 802.1ad */

#define VLAN_TAGS_MAX      2 /* of a frame whose IP header is looked for */
#define VLAN_ID_MASK       0x0FFF
#define VLAN_ID_RESERVED   0x0FFF
#define IPV4_VERSION_IHL   0x45
#define IPV4_DF            0x4000
#define IPV4_FRAGMENT_MASK 0x3FFF /* more fragments, or an offset */
#define IPV4_OFFSET_MASK   0x1FFF
#define IP_PROTO_TCP       6
#define IP_PROTO_UDP       17
#define IPV6_NEXT_FRAGMENT 44
#define IPV6_FRAGMENT_MASK 0xFFF9 /* more fragments, or an offset */
#define IPV6_OFFSET_MASK   0xFFF8
#define GRH_NEXT_BTH       0x1B
#define ECN_MASK           0x03
#define ECN_ECT0           0x02 /* its sender reacts to marks */
#define ECN_CE             0x03 /* congestion experienced */
#define FLOW_LABEL_MASK    UINT32_C(0xFFFFF)

/* Folds a sum of up to 65536 16-bit words to 16 bits with end-around carry. */
static inline uint16_t sum_fold(uint32_t sum)
{
    sum = (sum & 0xFFFF) + (sum >> 16);
    return (uint16_t)(sum + (sum >> 16));
}

/* The folded sum of `sum` and the big-endian words of at most 65536 bytes; an odd last byte is the
 * first half of a word (RFC 1071). */
static inline uint16_t words_sum(uint32_t sum, const uint8_t *p, size_t len)
{
    uint64_t native = 0;
    uint16_t folded;

    /* The sum of the machine's words has the bytes of the sum of big-endian ones, in its order. */
    for (; len >= sizeof(uint32_t); p += sizeof(uint32_t), len -= sizeof(uint32_t)) {
        uint32_t word;

        memcpy(&word, p, sizeof(word));
        native += word;
    }
    native = (native & UINT32_MAX) + (native >> 32);
    folded = sum_fold((uint32_t)((native & UINT16_MAX) + (native >> 16)));
    sum = sum_fold(sum) + get_be16((const uint8_t *)&folded);
    if (len >= 2)
        sum += get_be16(p);
    if (len & 1)
        sum += (uint32_t)p[len - 1] << 8;
    return sum_fold(sum);
}

/* The folded sum of the words of a 20-byte IPv4 header: 0xFFFF if its checksum is right. */
static inline uint16_t ipv4_sum(const uint8_t *ip)
{
    uint32_t sum = 0;

    for (int i = 0; i < IPV4_LEN; i += 2)
        sum += get_be16(ip + i);
    return sum_fold(sum);
}

/* Writes the checksum of a 20-byte IPv4 header that was changed. */
static inline void ipv4_write_sum(uint8_t *ip)
{
    put_be16(ip + 10, 0);
    put_be16(ip + 10, (uint16_t)~ipv4_sum(ip));
}

#endif
