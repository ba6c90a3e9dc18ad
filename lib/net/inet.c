/* SPDX-License-Identifier: BSD-3-Clause */
/* See inet.h. */
#include "inet.h"

#include "encap_layout.h"

#define ETH_PAYLOAD_MIN 46
#define ETH_FCS         4
#define IPV6_HOP_BY_HOP 0
#define OPTION_PAD1     0
#define OPTION_ALERT    5
#define IPV4_ALERT      UINT32_C(0x94040000) /* RFC 2113 */
#define IPV4_ALERT_LEN  4
#define IPV6_ALERT_LEN  8
#define MESSAGE_MIN     8

/* Adds the 16-bit words of len bytes to sum; only the last call of a series may have an odd len. */
static uint32_t sum_add(uint32_t sum, const uint8_t *p, uint32_t len)
{
    for (; len > 1; p += 2, len -= 2)
        sum += get_be16(p);
    return len ? sum + (uint32_t)(*p << 8) : sum;
}

static uint32_t sum_pseudo(const union gid *src, const union gid *dst, uint32_t len)
{
    uint32_t sum = sum_add(0, src->raw, 16);

    return sum_add(sum, dst->raw, 16) + len + IP_PROTO_ICMPV6;
}

/* ---- parsing ---- */

enum inet_verdict inet_ethernet(struct inet_rx *rx, const uint8_t *frame, uint32_t len)
{
    uint32_t header = ETH_LEN;

    if (len < ETH_LEN)
        return INET_MALFORMED;
    *rx = (struct inet_rx){
        .dmac = frame, .smac = frame + 6, .vlan = VLAN_NONE, .ethertype = get_be16(frame + 12)};
    if (rx->ethertype == ETHERTYPE_VLAN) {
        uint16_t id;

        header += VLAN_LEN;
        if (len < header)
            return INET_MALFORMED;
        id = get_be16(frame + 14) & VLAN_ID_MASK;
        if (id == VLAN_ID_RESERVED)
            return INET_MALFORMED;
        rx->vlan = id ? id : VLAN_NONE;
        rx->ethertype = get_be16(frame + 16);
    }
    rx->data = frame + header;
    rx->len = len - header;
    return inet_mac_is_group(rx->smac) ? INET_MALFORMED : INET_OK;
}

bool inet_rest_is_padding(uint32_t used, uint32_t len)
{
    return len <= ETH_PAYLOAD_MIN + ETH_FCS || len - used <= ETH_FCS;
}

static enum inet_verdict rx_ipv4(struct inet_rx *rx)
{
    const uint8_t *ip = rx->data;
    uint32_t header, total;

    if (rx->len < IPV4_LEN)
        return INET_MALFORMED;
    header = (ip[0] & 0x0F) * 4u;
    total = get_be16(ip + 2);
    if (ip[0] >> 4 != 4 || header < IPV4_LEN || total < header || total > rx->len ||
        !inet_rest_is_padding(total, rx->len) || sum_fold(sum_add(0, ip, header)) != 0xFFFF)
        return INET_MALFORMED;
    rx->src = gid_from_ipv4(ip + 12);
    rx->dst = gid_from_ipv4(ip + 16);
    rx->proto = ip[9];
    rx->hop_limit = ip[8];
    rx->traffic_class = ip[1];
    rx->data = ip + header;
    rx->len = total - header;
    if (get_be16(ip + 6) & IPV4_FRAGMENT_MASK)
        return INET_IGNORED;
    if (rx->proto != IP_PROTO_ICMP && rx->proto != IP_PROTO_IGMP)
        return INET_IGNORED;
    if (rx->len < MESSAGE_MIN || sum_fold(sum_add(0, rx->data, rx->len)) != 0xFFFF)
        return INET_MALFORMED;
    return INET_OK;
}

/* Skips the hop-by-hop options and finds a router alert for MLD. False: they are malformed. */
static bool rx_hop_by_hop(struct inet_rx *rx)
{
    uint32_t end, at = 2;

    if (rx->len < 8)
        return false;
    end = (rx->data[1] + 1u) * 8;
    if (end > rx->len)
        return false;
    while (at < end) {
        const uint8_t *option = rx->data + at;

        if (option[0] == OPTION_PAD1) {
            at++;
            continue;
        }
        if (end - at < 2 || end - at - 2 < option[1])
            return false;
        if (option[0] == OPTION_ALERT && option[1] == 2 && !get_be16(option + 2))
            rx->router_alert = true;
        at += 2u + option[1];
    }
    rx->proto = rx->data[0];
    rx->data += end;
    rx->len -= end;
    return true;
}

static enum inet_verdict rx_ipv6(struct inet_rx *rx)
{
    const uint8_t *ip = rx->data;
    uint32_t payload;

    if (rx->len < IPV6_LEN)
        return INET_MALFORMED;
    payload = get_be16(ip + 4);
    if (ip[0] >> 4 != 6 || payload > rx->len - IPV6_LEN ||
        !inet_rest_is_padding(IPV6_LEN + payload, rx->len))
        return INET_MALFORMED;
    memcpy(rx->src.raw, ip + 8, 16);
    memcpy(rx->dst.raw, ip + 24, 16);
    /* IPv4-mapped addresses are never on the wire, and would pass for IPv4 here. */
    if (gid_is_ipv4(&rx->src) || gid_is_ipv4(&rx->dst) || gid_is_multicast(&rx->src))
        return INET_MALFORMED;
    rx->traffic_class = (uint8_t)(get_be16(ip) >> 4);
    rx->proto = ip[6];
    rx->hop_limit = ip[7];
    rx->data = ip + IPV6_LEN;
    rx->len = payload;
    if (rx->proto == IPV6_HOP_BY_HOP && !rx_hop_by_hop(rx))
        return INET_MALFORMED;
    if (rx->proto != IP_PROTO_ICMPV6)
        return INET_IGNORED;
    if (rx->len < MESSAGE_MIN ||
        sum_fold(sum_add(sum_pseudo(&rx->src, &rx->dst, rx->len), rx->data, rx->len)) != 0xFFFF)
        return INET_MALFORMED;
    return INET_OK;
}

enum inet_verdict inet_ip(struct inet_rx *rx)
{
    return rx->ethertype == ETHERTYPE_IPV4 ? rx_ipv4(rx) : rx_ipv6(rx);
}

/* ---- building ---- */

uint32_t inet_put_ethernet(uint8_t *out, const uint8_t dmac[6], const uint8_t smac[6],
                           uint16_t vlan, uint16_t ethertype)
{
    uint32_t len = ETH_LEN;

    memcpy(out, dmac, 6);
    memcpy(out + 6, smac, 6);
    if (vlan != VLAN_NONE) {
        put_be16(out + 12, ETHERTYPE_VLAN);
        put_be16(out + 14, vlan & VLAN_ID_MASK);
        len += VLAN_LEN;
    }
    put_be16(out + len - 2, ethertype);
    return len;
}

/* put_ipv4 and put_ipv6 return the header's length. */
static uint32_t put_ipv4(uint8_t *ip, const struct inet_tx *tx, uint32_t message)
{
    uint32_t header = IPV4_LEN + (tx->router_alert ? IPV4_ALERT_LEN : 0);

    memset(ip, 0, IPV4_LEN);
    ip[0] = (uint8_t)(0x40 | header / 4);
    ip[1] = tx->traffic_class;
    put_be16(ip + 2, (uint16_t)(header + message));
    put_be16(ip + 6, IPV4_DF);
    ip[8] = tx->hop_limit;
    ip[9] = tx->proto;
    memcpy(ip + 12, tx->src.raw + 12, 4);
    memcpy(ip + 16, tx->dst.raw + 12, 4);
    if (tx->router_alert)
        put_be32(ip + IPV4_LEN, IPV4_ALERT);
    put_be16(ip + 10, (uint16_t)~sum_fold(sum_add(0, ip, header)));
    return header;
}

static uint32_t put_ipv6(uint8_t *ip, const struct inet_tx *tx, uint32_t message)
{
    uint32_t options = tx->router_alert ? IPV6_ALERT_LEN : 0;

    put_be32(ip, UINT32_C(6) << 28 | (uint32_t)tx->traffic_class << 20);
    put_be16(ip + 4, (uint16_t)(options + message));
    ip[6] = tx->router_alert ? IPV6_HOP_BY_HOP : tx->proto;
    ip[7] = tx->hop_limit;
    memcpy(ip + 8, tx->src.raw, 16);
    memcpy(ip + 24, tx->dst.raw, 16);
    if (tx->router_alert) /* the option, and a PadN of two bytes */
        memcpy(ip + IPV6_LEN, (const uint8_t[]){tx->proto, 0, OPTION_ALERT, 2, 0, 0, 1, 0}, 8);
    return IPV6_LEN + options;
}

uint32_t inet_message_room(const struct inet_tx *tx, uint32_t mtu)
{
    uint32_t headers = gid_is_ipv4(&tx->dst) ? IPV4_LEN + (tx->router_alert ? IPV4_ALERT_LEN : 0)
                                             : IPV6_LEN + (tx->router_alert ? IPV6_ALERT_LEN : 0);
    uint32_t most = min_of(mtu, (uint32_t)(INET_FRAME_ROOM - ETH_LEN - VLAN_LEN));

    return most > headers ? most - headers : 0;
}

uint32_t inet_build(uint8_t *out, const uint8_t smac[6], const struct inet_tx *tx,
                    const uint8_t *message, uint32_t len)
{
    bool ipv4 = gid_is_ipv4(&tx->dst);
    uint32_t at, sum;

    if (len < MESSAGE_MIN || len > inet_message_room(tx, UINT32_MAX))
        return 0;
    at = inet_put_ethernet(out, tx->dmac, smac, tx->vlan, ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    at += ipv4 ? put_ipv4(out + at, tx, len) : put_ipv6(out + at, tx, len);
    memcpy(out + at, message, len);
    put_be16(out + at + 2, 0);
    sum = ipv4 ? 0 : sum_pseudo(&tx->src, &tx->dst, len);
    put_be16(out + at + 2, (uint16_t)~sum_fold(sum_add(sum, out + at, len)));
    return at + len;
}

/* ---- addresses ---- */

bool inet_is_unicast(const union gid *g)
{
    static const uint8_t broadcast[4] = {0xFF, 0xFF, 0xFF, 0xFF};

    return !inet_is_unspecified(g) && !gid_is_multicast(g) &&
           !(gid_is_ipv4(g) && !memcmp(g->raw + 12, broadcast, 4));
}

bool inet_same_prefix(const union gid *a, const union gid *b, unsigned bits)
{
    bool ipv4 = gid_is_ipv4(a);
    unsigned from = ipv4 ? 12 : 0, bytes = bits / 8, rest = bits % 8;

    if (ipv4 != gid_is_ipv4(b) || memcmp(a->raw + from, b->raw + from, bytes))
        return false;
    return !rest || !((a->raw[from + bytes] ^ b->raw[from + bytes]) >> (8 - rest));
}

union gid inet_solicited_node(const union gid *addr)
{
    union gid g = {.raw = {0xFF, 2, [11] = 1, 0xFF, addr->raw[13], addr->raw[14], addr->raw[15]}};

    return g;
}

bool inet_vlan_is_valid(uint16_t vlan)
{
    return vlan == VLAN_NONE || (vlan && vlan < VLAN_ID_RESERVED);
}
