/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel follows the MTUs of paths itself, and refuses what is too long. What the engines would
 * hear from a router of the network, they hear from this port's: an ICMP message (RFC 1191, 4) or
 * one of ICMPv6 (RFC 8201; RFC 4443, 3.2), which quotes the packet.
 */
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "socket_internal.h"

#define ICMP_LEN 8
#define QUOTED   (UDP_LEN + 12) /* behind the IP header: as far as the BTH */

/* The kernel tells a path's MTU by a connected socket. 0: it does not. */
static uint32_t path_mtu(const uint8_t *l3, bool ipv4)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
    struct sockaddr_in *in = (struct sockaddr_in *)&to;
    socklen_t len = sizeof(int);
    int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;

    if (fd < 0)
        return 0;
    if (ipv4) {
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, l3 + 16, 4);
    } else {
        memcpy(&to.sin6_addr, l3 + 24, 16);
    }
    if (connect(fd, (struct sockaddr *)&to, ipv4 ? sizeof(*in) : sizeof(to)) ||
        getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu, &len))
        mtu = 0;
    close(fd);
    return mtu > 0 ? (uint32_t)mtu : 0;
}

static uint16_t checksum(uint32_t sum, const uint8_t *p, size_t len)
{
    return (uint16_t)~words_sum(sum, p, len);
}

static uint32_t build_ipv4(uint8_t *l3, const uint8_t *sent, uint32_t mtu)
{
    uint8_t *icmp = l3 + IPV4_LEN;
    const uint32_t len = IPV4_LEN + ICMP_LEN + IPV4_LEN + QUOTED;

    l3[0] = IPV4_VERSION_IHL;
    put_be16(l3 + 2, (uint16_t)len);
    l3[8] = 64;
    l3[9] = IPPROTO_ICMP;
    memcpy(l3 + 12, sent + 16, 4); /* from what lies behind the router */
    memcpy(l3 + 16, sent + 12, 4);
    put_be16(l3 + 10, checksum(0, l3, IPV4_LEN));
    icmp[0] = ICMP_DEST_UNREACH;
    icmp[1] = ICMP_FRAG_NEEDED;
    put_be16(icmp + 6, (uint16_t)mtu);
    memcpy(icmp + ICMP_LEN, sent, IPV4_LEN + QUOTED);
    put_be16(icmp + 2, checksum(0, icmp, len - IPV4_LEN));
    return len;
}

static uint32_t build_ipv6(uint8_t *l3, const uint8_t *sent, uint32_t mtu)
{
    uint8_t *icmp = l3 + IPV6_LEN;
    const uint32_t len = ICMP_LEN + IPV6_LEN + QUOTED;

    l3[0] = 0x60;
    put_be16(l3 + 4, (uint16_t)len);
    l3[6] = IPPROTO_ICMPV6;
    l3[7] = 64;
    memcpy(l3 + 8, sent + 24, 16);
    memcpy(l3 + 24, sent + 8, 16);
    icmp[0] = ICMP6_PACKET_TOO_BIG;
    put_be32(icmp + 4, mtu);
    memcpy(icmp + ICMP_LEN, sent, IPV6_LEN + QUOTED);
    /* The pseudo header: both addresses, the length, the protocol. */
    put_be16(icmp + 2,
             checksum(len + IPPROTO_ICMPV6 + 0xFFFFu - checksum(0, l3 + 8, 32), icmp, len));
    return IPV6_LEN + len;
}

void socket_report_too_big(struct socket_port *s, uint16_t slot)
{
    const uint8_t *frame = frame_slot(&s->slots, slot), *sent = frame + ETH_LEN;
    bool ipv4 = get_be16(frame + 12) == ETHERTYPE_IPV4;
    uint32_t mtu = path_mtu(sent, ipv4);
    uint16_t report;
    uint8_t *out;

    if (!mtu || !s->slots.free_count)
        return;
    report = frame_slots_take(&s->slots);
    out = frame_slot(&s->slots, report);
    memset(out, 0, ETH_LEN + IPV6_LEN + ICMP_LEN);
    memcpy(out, s->info.mac, MAC_LEN);
    memcpy(out + 6, s->info.router, MAC_LEN);
    memcpy(out + 12, frame + 12, 2);
    s->slots.len[report] = ETH_LEN + (ipv4 ? build_ipv4 : build_ipv6)(out + ETH_LEN, sent, mtu);
    s->slots.omitted[report] = false;
    frame_slots_put_local(&s->slots, report);
}
