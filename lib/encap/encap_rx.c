/* SPDX-License-Identifier: BSD-3-Clause */
/* The outer headers of received frames: see encap.h. */
#include "common.h"
#include "encap.h"
#include "encap_layout.h"

/* The rest of a frame that is not parsed yet. */
struct unparsed {
    const uint8_t *p;
    size_t len;
};

/* Parses Ethernet and 802.1Q. */
static enum drop rx_ethernet(struct encap_view *v, struct unparsed *r, uint16_t *ethertype,
                             const struct encap_port *port)
{
    v->vlan_tci = VLAN_NONE;
    if (r->len < ETH_LEN)
        return DROP_truncated;
    memcpy(v->dmac, r->p, 6);
    memcpy(v->smac, r->p + 6, 6);
    if (!port->promiscuous && memcmp(v->dmac, port->mac, 6) && !(v->dmac[0] & 1))
        return DROP_not_our_mac;
    *ethertype = get_be16(r->p + 12);
    r->p += ETH_LEN;
    r->len -= ETH_LEN;
    if (*ethertype != ETHERTYPE_VLAN)
        return DROP_NONE;
    if (r->len < VLAN_LEN)
        return DROP_truncated;
    v->vlan_tci = get_be16(r->p);
    /* Id 0xFFF is reserved and never on the wire. A tag of all ones would read as VLAN_NONE. */
    if ((v->vlan_tci & VLAN_ID_MASK) == VLAN_ID_RESERVED)
        return DROP_not_roce;
    *ethertype = get_be16(r->p + 2);
    r->p += VLAN_LEN;
    r->len -= VLAN_LEN;
    return DROP_NONE;
}

/* Whether the UDP header at l4 is RoCE's. `present` bytes are there, perhaps less than a header. */
static enum drop rx_udp_port(const uint8_t *l4, size_t present)
{
    if (present < UDP_LEN)
        return DROP_truncated;
    return get_be16(l4 + 2) == ROCE_UDP_PORT ? DROP_NONE : DROP_not_roce;
}

/* Parses a UDP header that is whole; ip_payload: its length according to the IP header. */
static enum drop rx_udp(struct encap_view *v, const uint8_t *udp, size_t ip_payload)
{
    if (get_be16(udp + 4) != ip_payload)
        return DROP_udp_length;
    v->udp_sport = get_be16(udp);
    v->bth = udp + UDP_LEN;
    v->bth_len = (uint32_t)(ip_payload - UDP_LEN);
    return DROP_NONE;
}

/*
 * Whether a source may be one host's: an answer to another would go to many. IPv4 (RFC 1122,
 * 3.2.1.3): it is below 224.0.0.0, or above 239.255.255.255. IPv6 (RFC 4291, 2.5.2 and 2.7).
 */
static bool is_ipv4_source(uint32_t address)
{
    return likely(address - 1 < 0xDFFFFFFF) || address - 0xF0000000 < 0x0FFFFFFF;
}

static bool is_ipv6_source(const union gid *address)
{
    return !gid_is_multicast(address) && !gid_is_zero(address);
}

/*
 * encap.h defines the order of the checks: a packet of another protocol is not_roce however broken
 * it is, so the ports are read before the header is checked.
 */
static enum drop rx_ipv4(struct encap_view *v, const struct unparsed *r)
{
    const uint8_t *ip = r->p;
    size_t header_len, total;
    enum drop drop;

    if (r->len < IPV4_LEN)
        return DROP_truncated;
    if (ip[9] != IP_PROTO_UDP)
        return DROP_not_roce;
    header_len = (size_t)(ip[0] & 0x0F) * 4;
    if (ip[0] >> 4 != 4 || header_len < IPV4_LEN)
        return DROP_bad_ip_header;
    if (get_be16(ip + 6) & IPV4_OFFSET_MASK)
        return DROP_ip_fragment; /* without a UDP header */
    if (r->len < header_len)
        return DROP_truncated;
    drop = rx_udp_port(ip + header_len, r->len - header_len);
    if (drop)
        return drop;
    total = get_be16(ip + 2);
    if (header_len != IPV4_LEN || ipv4_sum(ip) != 0xFFFF || total < IPV4_LEN ||
        !is_ipv4_source(get_be32(ip + 12)))
        return DROP_bad_ip_header;
    if (get_be16(ip + 6) & IPV4_FRAGMENT_MASK)
        return DROP_ip_fragment;
    if (total < IPV4_LEN + UDP_LEN || total > r->len)
        return DROP_truncated;
    v->l3_kind = ICRC_IPV4;
    v->l3 = ip;
    v->l3_len = (uint32_t)total;
    v->traffic_class = ip[1];
    v->ip_id = get_be16(ip + 4);
    v->hop_limit = ip[8];
    v->flow_label = 0;
    v->sgid = gid_from_ipv4(ip + 12);
    v->dgid = gid_from_ipv4(ip + 16);
    return rx_udp(v, ip + IPV4_LEN, total - IPV4_LEN);
}

/* The fields that an IPv6 header and a GRH have in common. */
static void view_ipv6(struct encap_view *v, const uint8_t *ip, size_t payload)
{
    uint32_t word = get_be32(ip);

    v->l3 = ip;
    v->l3_len = (uint32_t)(IPV6_LEN + payload);
    v->traffic_class = (uint8_t)(word >> 20);
    v->flow_label = word & FLOW_LABEL_MASK;
    v->hop_limit = ip[7];
    v->ip_id = 0;
    memcpy(v->sgid.raw, ip + 8, 16);
    memcpy(v->dgid.raw, ip + 24, 16);
}

static enum drop rx_ipv6(struct encap_view *v, const struct unparsed *r)
{
    const uint8_t *ip = r->p;
    size_t payload;
    enum drop drop;

    if (r->len < IPV6_LEN)
        return DROP_truncated;
    if (ip[6] == IPV6_NEXT_FRAGMENT && r->len > IPV6_LEN && ip[IPV6_LEN] == IP_PROTO_UDP)
        return DROP_ip_fragment;
    if (ip[6] != IP_PROTO_UDP)
        return DROP_not_roce;
    drop = rx_udp_port(ip + IPV6_LEN, r->len - IPV6_LEN);
    if (drop)
        return drop;
    if (ip[0] >> 4 != 6)
        return DROP_bad_ip_header;
    payload = get_be16(ip + 4);
    if (payload < UDP_LEN || payload > r->len - IPV6_LEN)
        return DROP_truncated;
    v->l3_kind = ICRC_IPV6;
    view_ipv6(v, ip, payload);
    /* IPv4-mapped addresses are never on the wire; they would match the IPv4 GID of that form. */
    if (gid_is_ipv4(&v->sgid) || gid_is_ipv4(&v->dgid) || !is_ipv6_source(&v->sgid))
        return DROP_bad_ip_header;
    return rx_udp(v, ip + IPV6_LEN, payload);
}

static enum drop rx_grh(struct encap_view *v, const struct unparsed *r)
{
    const uint8_t *grh = r->p;
    size_t payload;

    if (r->len < IPV6_LEN)
        return DROP_truncated;
    if (grh[0] >> 4 != 6 || grh[6] != GRH_NEXT_BTH)
        return DROP_bad_ip_header;
    payload = get_be16(grh + 4);
    if (payload > r->len - IPV6_LEN)
        return DROP_truncated;
    v->l3_kind = ICRC_GRH;
    view_ipv6(v, grh, payload);
    if (!is_ipv6_source(&v->sgid))
        return DROP_bad_ip_header;
    v->udp_sport = 0;
    v->bth = grh + IPV6_LEN;
    v->bth_len = (uint32_t)payload;
    return DROP_NONE;
}

/* The first entry that can receive a packet to a group: one of its type, VLAN and IP version.
 * RoCEv1 does not distinguish IP versions. */
static int find_for_group(const struct gid_table *t, bool ipv4, enum gid_type type, uint16_t vlan)
{
    for (unsigned i = 0; i < t->len; i++) {
        const struct gid_entry *e = &t->entry[i];

        if (e->valid && e->type == type && e->vlan == vlan &&
            (type == GID_TYPE_ROCE_V1 || gid_is_ipv4(&e->gid) == ipv4))
            return (int)i;
    }
    return -1;
}

static enum drop rx_destination(struct encap_view *v, const struct encap_port *port)
{
    enum gid_type type = v->l3_kind == ICRC_GRH ? GID_TYPE_ROCE_V1 : GID_TYPE_ROCE_V2;
    uint16_t vlan = v->vlan_tci == VLAN_NONE ? VLAN_NONE : v->vlan_tci & VLAN_ID_MASK;
    int index;

    v->gid_index = -1;
    if (port->promiscuous)
        return DROP_NONE;
    if (!vlan)
        vlan = VLAN_NONE; /* a tag with id 0 carries a priority only */
    if (gid_is_multicast(&v->dgid)) {
        uint8_t mac[6];

        gid_multicast_mac(&v->dgid, mac);
        if (memcmp(v->dmac, mac, 6))
            return DROP_wrong_destination;
        index = find_for_group(port->gids, gid_is_ipv4(&v->dgid), type, vlan);
    } else {
        if (v->dmac[0] & 1)
            return DROP_wrong_destination; /* a group MAC with a unicast address */
        index = gid_table_find(port->gids, &v->dgid, type, vlan);
    }
    if (index < 0)
        return DROP_wrong_destination;
    v->gid_index = (int16_t)index;
    return DROP_NONE;
}

static enum drop rx_frame(struct encap_view *v, const uint8_t *frame, size_t len,
                          const struct encap_port *port)
{
    struct unparsed r = {frame, len};
    uint16_t ethertype;
    enum drop drop = rx_ethernet(v, &r, &ethertype, port);

    if (unlikely(drop))
        return drop;
    switch (ethertype) {
    case ETHERTYPE_IPV4:
        drop = rx_ipv4(v, &r);
        break;
    case ETHERTYPE_IPV6:
        drop = rx_ipv6(v, &r);
        break;
    case ROCE_ETHERTYPE:
        drop = rx_grh(v, &r);
        break;
    default:
        return DROP_not_roce;
    }
    return unlikely(drop) ? drop : rx_destination(v, port);
}

/* Tag and traffic class of a frame that is dropped, wherever parsing ended: counters file it by
 * them. */
static __attribute__((cold)) void rx_priority(struct encap_view *v, const uint8_t *frame,
                                              size_t len)
{
    size_t l3 = ETH_LEN;
    uint16_t ethertype;

    v->vlan_tci = VLAN_NONE;
    v->traffic_class = 0;
    if (len < ETH_LEN)
        return;
    ethertype = get_be16(frame + 12);
    if (ethertype == ETHERTYPE_VLAN) {
        if (len < ETH_LEN + VLAN_LEN)
            return;
        v->vlan_tci = get_be16(frame + ETH_LEN);
        ethertype = get_be16(frame + ETH_LEN + 2);
        l3 += VLAN_LEN;
    }
    if (len < l3 + 2)
        return;
    if (ethertype == ETHERTYPE_IPV4)
        v->traffic_class = frame[l3 + 1];
    else if (ethertype == ETHERTYPE_IPV6 || ethertype == ROCE_ETHERTYPE)
        v->traffic_class = (uint8_t)(get_be16(frame + l3) >> 4);
}

enum drop encap_rx(struct encap_view *v, const uint8_t *frame, size_t len,
                   const struct encap_port *port)
{
    enum drop drop = rx_frame(v, frame, len, port);

    if (unlikely(drop))
        rx_priority(v, frame, len);
    return drop;
}

bool encap_is_roce(const uint8_t *frame, size_t len)
{
    const uint8_t *l3 = frame + ETH_LEN;
    size_t header_len = IPV6_LEN;
    uint16_t ethertype;

    if (len < ETH_LEN)
        return false;
    ethertype = get_be16(frame + 12);
    if (ethertype == ETHERTYPE_VLAN && len >= ETH_LEN + VLAN_LEN) {
        ethertype = get_be16(l3 + 2);
        l3 += VLAN_LEN;
    }
    len -= (size_t)(l3 - frame);
    if (ethertype == ROCE_ETHERTYPE)
        return true;
    if (ethertype == ETHERTYPE_IPV4 && len >= IPV4_LEN && l3[9] == IP_PROTO_UDP)
        header_len = (size_t)(l3[0] & 0x0F) * 4;
    else if (ethertype != ETHERTYPE_IPV6 || len < IPV6_LEN || l3[6] != IP_PROTO_UDP)
        return false;
    return len >= header_len + 4 && get_be16(l3 + header_len + 2) == ROCE_UDP_PORT;
}
