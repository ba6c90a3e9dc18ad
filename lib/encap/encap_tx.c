/* SPDX-License-Identifier: BSD-3-Clause */
/* The outer headers of sent frames: see encap.h. */
#include <errno.h>

#include "bytes.h"
#include "common.h"
#include "encap.h"
#include "encap_layout.h"

/* Writes Ethernet and 802.1Q headers; returns their length. */
static size_t make_ethernet(uint8_t *b, const struct address_vector *av, uint16_t ethertype)
{
    size_t len = ETH_LEN;

    memcpy(b, av->dmac, 6);
    memcpy(b + 6, av->smac, 6);
    if (av->vlan != VLAN_NONE) {
        put_be16(b + 12, ETHERTYPE_VLAN);
        put_be16(b + 14, (uint16_t)((av->pcp & 7) << 13 | (av->vlan & VLAN_ID_MASK)));
        len += VLAN_LEN;
    }
    put_be16(b + len - 2, ethertype);
    return len;
}

/* All fields but total length, identification and checksum, which stay zero. */
static void make_ipv4(uint8_t *ip, const struct address_vector *av)
{
    ip[0] = IPV4_VERSION_IHL;
    ip[1] = av->traffic_class & (uint8_t)~ECN_MASK;
    put_be16(ip + 6, IPV4_DF);
    ip[8] = av->hop_limit;
    ip[9] = IP_PROTO_UDP;
    memcpy(ip + 12, av->sgid.raw + 12, 4);
    memcpy(ip + 16, av->dgid.raw + 12, 4);
}

/* An IPv6 header or, with next_header GRH_NEXT_BTH, a GRH. The payload length stays zero. */
static void make_ipv6(uint8_t *ip, const struct address_vector *av, uint8_t next_header)
{
    uint32_t tclass = av->traffic_class & (uint8_t)~ECN_MASK;

    put_be32(ip, UINT32_C(6) << 28 | tclass << 20 | (av->flow_label & FLOW_LABEL_MASK));
    ip[6] = next_header;
    ip[7] = av->hop_limit;
    memcpy(ip + 8, av->sgid.raw, 16);
    memcpy(ip + 24, av->dgid.raw, 16);
}

/* Returns enum icrc_l3, or -EINVAL. */
static int choose_l3(const struct address_vector *av)
{
    bool ipv4 = gid_is_ipv4(&av->sgid), same = ipv4 == gid_is_ipv4(&av->dgid);

    if (av->gid_type == GID_TYPE_ROCE_V1 && (same || gid_is_multicast(&av->dgid)))
        return ICRC_GRH;
    if (!same)
        return -EINVAL;
    if (av->gid_type != GID_TYPE_ROCE_V2)
        return -EINVAL;
    return ipv4 ? ICRC_IPV4 : ICRC_IPV6;
}

int encap_template_make(struct encap_template *t, const struct address_vector *av)
{
    static const uint16_t ethertypes[] = {
        [ICRC_IPV4] = ETHERTYPE_IPV4, [ICRC_IPV6] = ETHERTYPE_IPV6, [ICRC_GRH] = ROCE_ETHERTYPE};
    int kind = choose_l3(av);
    uint8_t *l3, *udp;

    if (kind < 0)
        return kind;
    memset(t, 0, sizeof(*t));
    t->l3_kind = (uint8_t)kind;
    t->priority = av->vlan == VLAN_NONE ? av->traffic_class >> 5 : av->pcp & 7;
    t->l3_off = (uint8_t)make_ethernet(t->bytes, av, ethertypes[kind]);
    l3 = t->bytes + t->l3_off;
    if (kind == ICRC_IPV4) {
        make_ipv4(l3, av);
        t->ip_sum = ipv4_sum(l3);
        udp = l3 + IPV4_LEN;
    } else {
        make_ipv6(l3, av, kind == ICRC_GRH ? GRH_NEXT_BTH : IP_PROTO_UDP);
        udp = l3 + IPV6_LEN;
    }
    if (kind != ICRC_GRH) {
        put_be16(udp, av->udp_sport);
        put_be16(udp + 2, ROCE_UDP_PORT);
        udp += UDP_LEN;
    }
    t->len = (uint8_t)(udp - t->bytes);
    return 0;
}

void encap_template_set_ect(struct encap_template *t)
{
    uint8_t *l3 = t->bytes + t->l3_off;

    if (t->l3_kind == ICRC_IPV4) {
        l3[1] |= ECN_ECT0;
        t->ip_sum = ipv4_sum(l3);
    } else {
        l3[1] |= ECN_ECT0 << 4;
    }
}

/* put_ipv4 and put_ipv6 copy two pieces of fixed size that overlap: no call, no loop. */

static void put_ipv4(uint8_t *frame, const struct encap_template *t, size_t bth_len, uint16_t ip_id)
{
    uint8_t *ip = frame + t->l3_off;
    uint32_t udp_len = (uint32_t)bth_len + UDP_LEN, ip_len = udp_len + IPV4_LEN;

    memcpy(frame, t->bytes, 32);
    memcpy(frame + t->len - 16, t->bytes + t->len - 16, 16); /* of 42 or 46 */
    put_be32(ip + 2, ip_len << 16 | ip_id);
    put_be16(ip + 10, (uint16_t)~sum_fold(t->ip_sum + ip_len + ip_id));
    put_be16(ip + IPV4_LEN + 4, (uint16_t)udp_len);
}

static void put_ipv6(uint8_t *frame, const struct encap_template *t, size_t bth_len)
{
    uint8_t *ip = frame + t->l3_off;

    memcpy(frame, t->bytes, 48);
    memcpy(frame + t->len - 32, t->bytes + t->len - 32, 32); /* of 54 to 66 */
    if (t->l3_kind == ICRC_GRH) {
        put_be16(ip + 4, (uint16_t)bth_len);
        return;
    }
    put_be16(ip + 4, (uint16_t)(bth_len + UDP_LEN));
    put_be16(ip + IPV6_LEN + 4, (uint16_t)(bth_len + UDP_LEN));
}

size_t encap_tx(uint8_t *frame, const struct encap_template *t, size_t bth_len, uint16_t ip_id)
{
    if (likely(t->l3_kind == ICRC_IPV4))
        put_ipv4(frame, t, bth_len, ip_id);
    else
        put_ipv6(frame, t, bth_len);
    return t->len;
}
