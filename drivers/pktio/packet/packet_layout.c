/* SPDX-License-Identifier: BSD-3-Clause */
/* The headers of long frames and of the packets that they carry. */
#include "bytes.h"
#include "packet_internal.h"

static bool is_ipv4(const uint8_t *l3, uint32_t len)
{
    return l3[0] == IPV4_VERSION_IHL && l3[9] == IP_PROTO_UDP &&
           !(get_be16(l3 + 6) & IPV4_FRAGMENT_MASK) && get_be16(l3 + 2) == len;
}

static bool is_ipv6(const uint8_t *l3, uint32_t len)
{
    return l3[0] >> 4 == 6 && l3[6] == IP_PROTO_UDP && len == IPV6_LEN + (uint32_t)get_be16(l3 + 4);
}

bool packet_find_layout(const uint8_t *frame, uint32_t len, struct packet_layout *l)
{
    uint16_t type;
    unsigned udp;

    if (len < ETH_LEN + VLAN_LEN + IPV4_LEN + UDP_LEN)
        return false;
    l->l3 = get_be16(frame + 12) == ETHERTYPE_VLAN ? ETH_LEN + VLAN_LEN : ETH_LEN;
    type = get_be16(frame + l->l3 - 2);
    l->ipv4 = type == ETHERTYPE_IPV4;
    if (!l->ipv4 && type != ETHERTYPE_IPV6)
        return false;
    udp = l->l3 + (l->ipv4 ? IPV4_LEN : IPV6_LEN);
    l->payload = (uint8_t)(udp + UDP_LEN);
    return len >= (uint32_t)l->payload + PACKET_MIN &&
           (l->ipv4 ? is_ipv4 : is_ipv6)(frame + l->l3, len - l->l3) &&
           get_be16(frame + udp + 2) == ROCE_UDP_PORT;
}

bool packet_may_join(const uint8_t *frame, uint32_t len, const struct packet_layout *l,
                     uint32_t mtu)
{
    const uint8_t *udp = frame + l->payload - UDP_LEN;

    return len - l->l3 <= mtu && !get_be16(udp + 6) &&
           get_be16(udp + 4) == len - l->payload + UDP_LEN;
}

void packet_write_lengths(uint8_t *frame, const struct packet_layout *l, uint32_t payload,
                          uint16_t id)
{
    uint8_t *l3 = frame + l->l3, *udp = frame + l->payload - UDP_LEN;

    put_be16(udp + 4, (uint16_t)(payload + UDP_LEN));
    put_be16(udp + 6, 0);
    if (!l->ipv4) {
        put_be16(l3 + 4, (uint16_t)(payload + UDP_LEN));
        return;
    }
    put_be16(l3 + 2, (uint16_t)(payload + UDP_LEN + IPV4_LEN));
    put_be16(l3 + 4, id);
    ipv4_write_sum(l3);
}

void packet_renumber(uint8_t *frame, uint32_t len, const struct packet_layout *l, uint16_t id)
{
    uint8_t *l3 = frame + l->l3;
    size_t covered = len - l->l3 - 4;
    uint32_t error = icrc_error(ICRC_IPV4, l3, covered);

    put_be16(l3 + 4, id);
    ipv4_write_sum(l3);
    icrc_seal_wrong(ICRC_IPV4, l3, covered, error);
}

uint16_t packet_pseudo_sum(const uint8_t *frame, const struct packet_layout *l)
{
    const uint8_t *address = frame + l->l3 + (l->ipv4 ? 12 : 8);
    uint32_t sum = IP_PROTO_UDP + get_be16(frame + l->payload - UDP_LEN + 4);

    for (unsigned i = 0; i < (l->ipv4 ? 8u : 32u); i += 2)
        sum += get_be16(address + i);
    return sum_fold(sum);
}
