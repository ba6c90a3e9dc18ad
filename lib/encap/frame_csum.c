/* SPDX-License-Identifier: BSD-3-Clause */
/* See frame_csum.h. The bytes may be any. */
#include "frame_csum.h"

#include "encap_layout.h"

#define IPV4_SUM_AT 10
#define IPV4_SRC_AT 12
#define IPV6_SRC_AT 8
#define TCP_SUM_AT  16
#define UDP_SUM_AT  6

/* Where they are, from the frame's first byte. */
struct places {
    uint32_t ipv4, ipv4_len; /* the IPv4 header; 0: there is none */
    uint32_t src, src_len;   /* both addresses */
    uint32_t body, body_len; /* TCP or UDP, with its header; 0: there is none as a whole */
    uint8_t protocol;
};

static uint32_t sum_at(const struct places *p)
{
    return p->body + (p->protocol == IP_PROTO_TCP ? TCP_SUM_AT : UDP_SUM_AT);
}

/* len: what the packet has behind its IP header, by that header; it is all there. */
static void find_body(struct places *p, const uint8_t *frame, uint32_t at, uint32_t len)
{
    if (p->protocol == IP_PROTO_UDP && len >= UDP_LEN) {
        uint32_t udp_len = get_be16(frame + at + 4);

        if (udp_len < UDP_LEN || udp_len > len)
            return;
        len = udp_len;
    } else if (p->protocol != IP_PROTO_TCP || len < TCP_LEN) {
        return;
    }
    p->body = at;
    p->body_len = len;
}

static void find_ipv4(struct places *p, const uint8_t *frame, uint32_t at, uint32_t len)
{
    const uint8_t *ip = frame + at;
    uint32_t header, total;

    if (len < IPV4_LEN || ip[0] >> 4 != 4)
        return;
    header = (ip[0] & 0x0Fu) * 4;
    total = get_be16(ip + 2);
    if (header < IPV4_LEN || total < header || total > len)
        return;
    p->ipv4 = at;
    p->ipv4_len = header;
    p->src = at + IPV4_SRC_AT;
    p->src_len = 8;
    p->protocol = ip[9];
    if (!(get_be16(ip + 6) & IPV4_FRAGMENT_MASK))
        find_body(p, frame, at + header, total - header);
}

static void find_ipv6(struct places *p, const uint8_t *frame, uint32_t at, uint32_t len)
{
    const uint8_t *ip = frame + at;

    if (len < IPV6_LEN || ip[0] >> 4 != 6 || get_be16(ip + 4) > len - IPV6_LEN)
        return;
    p->src = at + IPV6_SRC_AT;
    p->src_len = 32;
    p->protocol = ip[6];
    find_body(p, frame, at + IPV6_LEN, get_be16(ip + 4));
}

static struct places find(const uint8_t *frame, uint32_t len)
{
    struct places p = {0};
    uint32_t at = ETH_LEN;
    uint16_t type;

    if (len < ETH_LEN)
        return p;
    type = get_be16(frame + at - 2);
    for (unsigned i = 0; i < VLAN_TAGS_MAX; i++) {
        if ((type != ETHERTYPE_VLAN && type != ETHERTYPE_SERVICE_VLAN) || len - at < VLAN_LEN)
            break;
        type = get_be16(frame + at + 2);
        at += VLAN_LEN;
    }
    if (type == ETHERTYPE_IPV4)
        find_ipv4(&p, frame, at, len - at);
    else if (type == ETHERTYPE_IPV6)
        find_ipv6(&p, frame, at, len - at);
    return p;
}

/* Of the body and the pseudo header: addresses, protocol and length. */
static uint16_t body_sum(const struct places *p, const uint8_t *frame)
{
    uint16_t sum = words_sum(p->protocol + p->body_len, frame + p->src, p->src_len);

    return words_sum(sum, frame + p->body, p->body_len);
}

void frame_csum_write(uint8_t *frame, uint32_t len)
{
    struct places p = find(frame, len);
    uint16_t sum;

    if (p.ipv4) {
        uint8_t *at = frame + p.ipv4 + IPV4_SUM_AT;

        put_be16(at, 0);
        put_be16(at, (uint16_t)~words_sum(0, frame + p.ipv4, p.ipv4_len));
    }
    if (!p.body)
        return;
    put_be16(frame + sum_at(&p), 0);
    sum = (uint16_t)~body_sum(&p, frame);
    /* In UDP 0 means that there is none. */
    put_be16(frame + sum_at(&p), !sum && p.protocol == IP_PROTO_UDP ? UINT16_MAX : sum);
}

bool frame_csum_is_right(const uint8_t *frame, uint32_t len)
{
    struct places p = find(frame, len);

    if (!p.ipv4 || !p.body || words_sum(0, frame + p.ipv4, p.ipv4_len) != UINT16_MAX)
        return false;
    if (p.protocol == IP_PROTO_UDP && !get_be16(frame + sum_at(&p)))
        return true;
    return body_sum(&p, frame) == UINT16_MAX;
}
