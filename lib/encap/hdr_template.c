/* SPDX-License-Identifier: BSD-3-Clause */
/* The headers that a connection's packets arrive with: see hdr_template.h. */
#include "hdr_template.h"

/* ---- masks ---- */

#define ALL 0xFF

/* Ranges of bytes, for a form whose IP header is at l3 and whose UDP header is at udp. The tag's
 * identifier is compared, and so is its priority. */
#define ETHERNET(l3) [0 ... 5] = ALL, [12 ...(l3) - 1] = ALL
#define PORT_AND_BTH(udp)                                                          \
    [(udp) + 2] = ALL, [(udp) + 3] = ALL, [(udp) + 9] = 0x0F, [(udp) + 10] = 0x7F, \
             [(udp) + 11] = ALL
/* Version; traffic class without ECN; flags and fragment, TTL, protocol; addresses. */
#define IPV4(l3)                                                                 \
    [(l3)] = ALL, [(l3) + 1] = (uint8_t)~ECN_MASK, [(l3) + 6 ...(l3) + 9] = ALL, \
    [(l3) + 12 ...(l3) + 19] = ALL
/* Version and traffic class without ECN; next header, hop limit; addresses. */
#define IPV6(l3) [(l3)] = ALL, [(l3) + 1] = 0xC0, [(l3) + 6 ...(l3) + 39] = ALL
/* The lengths of IP (at l3 + ip) and UDP, the opcode and the pad count. */
#define LAYOUT(l3, ip, udp)                                                             \
    [(l3) + (ip)] = ALL, [(l3) + (ip) + 1] = ALL, [(udp) + 4] = ALL, [(udp) + 5] = ALL, \
            [(udp) + 8] = ALL
#define LAYOUT_BTH(udp)                                                            \
    [(udp) + 2] = ALL, [(udp) + 3] = ALL, [(udp) + 9] = 0x3F, [(udp) + 10] = 0x7F, \
             [(udp) + 11] = ALL
/* Everything up to the P_Key but ECN and the IPv4 header's checksum, which covers it. */
#define BUT_MARK_IPV4(l3, udp)                                                        \
    [0 ...(l3)] = ALL, [(l3) + 1] = (uint8_t)~ECN_MASK, [(l3) + 2 ...(l3) + 9] = ALL, \
       [(l3) + 12 ...(udp) + 11] = ALL
#define BUT_MARK_IPV6(l3, udp) [0 ...(l3)] = ALL, [(l3) + 1] = 0xCF, [(l3) + 2 ...(udp) + 11] = ALL

#define MASKS_IPV4(l3)                                                          \
    {                                                                           \
        .matches = {ETHERNET(l3), IPV4(l3), PORT_AND_BTH((l3) + IPV4_LEN)},     \
        .same_layout = {ETHERNET(l3), IPV4(l3), LAYOUT(l3, 2, (l3) + IPV4_LEN), \
                        LAYOUT_BTH((l3) + IPV4_LEN)},                           \
        .same_but_mark = {BUT_MARK_IPV4(l3, (l3) + IPV4_LEN)},                  \
    }
#define MASKS_IPV6(l3)                                                          \
    {                                                                           \
        .matches = {ETHERNET(l3), IPV6(l3), PORT_AND_BTH((l3) + IPV6_LEN)},     \
        .same_layout = {ETHERNET(l3), IPV6(l3), LAYOUT(l3, 4, (l3) + IPV6_LEN), \
                        LAYOUT_BTH((l3) + IPV6_LEN)},                           \
        .same_but_mark = {BUT_MARK_IPV6(l3, (l3) + IPV6_LEN)},                  \
    }

const struct hdr_mask hdr_mask[HDR_FORMS] = {
    [HDR_IPV4] = MASKS_IPV4(ETH_LEN),
    [HDR_IPV6] = MASKS_IPV6(ETH_LEN),
    [HDR_VLAN_IPV4] = MASKS_IPV4(ETH_LEN + VLAN_LEN),
    [HDR_VLAN_IPV6] = MASKS_IPV6(ETH_LEN + VLAN_LEN),
};

/* ---- templates ---- */

/* The template's share of the IPv4 header's sum: all but length, identification, ECN and checksum.
 */
static void sum_constant_words(struct hdr_template *t)
{
    const uint8_t *ip = t->byte + hdr_l3_at(t->form);
    uint16_t word;

    t->ip_sum = 0;
    for (unsigned at = 0; at < IPV4_LEN; at += sizeof(word)) {
        memcpy(&word, ip + at, sizeof(word));
        t->ip_sum += word;
    }
}

static enum hdr_form form_of(const struct encap_port *port, const struct address_vector *av)
{
    bool ipv4 = gid_is_ipv4(&av->sgid);

    if (port->promiscuous || av->gid_type != GID_TYPE_ROCE_V2 || ipv4 != gid_is_ipv4(&av->dgid))
        return HDR_NONE;
    if (av->vlan == VLAN_NONE)
        return ipv4 ? HDR_IPV4 : HDR_IPV6;
    return ipv4 ? HDR_VLAN_IPV4 : HDR_VLAN_IPV6;
}

static void put_ip(uint8_t *ip, bool ipv4, const union gid *from, const union gid *to)
{
    if (ipv4) {
        ip[0] = IPV4_VERSION_IHL;
        ip[9] = IP_PROTO_UDP;
        memcpy(ip + 12, from->raw + 12, 4);
        memcpy(ip + 16, to->raw + 12, 4);
    } else {
        ip[0] = 6 << 4;
        ip[6] = IP_PROTO_UDP;
        memcpy(ip + 8, from->raw, 16);
        memcpy(ip + 24, to->raw, 16);
    }
}

void hdr_template_make(struct hdr_template *t, const struct encap_port *port,
                       const struct address_vector *av)
{
    enum hdr_form form = form_of(port, av);
    bool ipv4 = !hdr_is_ipv6(form);
    uint8_t *b = t->byte;

    memset(t, 0, sizeof(*t));
    t->form = (uint8_t)form;
    if (form == HDR_NONE)
        return;
    memcpy(b, port->mac, MAC_LEN);
    if (form >= HDR_VLAN_IPV4) {
        put_be16(b + 12, ETHERTYPE_VLAN);
        put_be16(b + ETH_LEN, av->vlan & VLAN_ID_MASK);
    }
    put_be16(b + hdr_l3_at(form) - 2, ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    put_ip(b + hdr_l3_at(form), ipv4, &av->dgid, &av->sgid); /* from the peer */
    put_be16(b + hdr_udp_at(form) + 2, ROCE_UDP_PORT);
    put_be16(b + hdr_bth_at(form) + 2, PKEY_DEFAULT);
    memcpy(t->own, av->sgid.word, sizeof(t->own));
    t->vlan = av->vlan;
    t->sgid_index = av->sgid_index % GID_TABLE_MAX;
    if (ipv4)
        sum_constant_words(t);
}

void hdr_template_take(struct hdr_template *t, const uint8_t *frame)
{
    unsigned l3 = hdr_l3_at(t->form);
    uint8_t *b = t->byte;

    if (t->form >= HDR_VLAN_IPV4)
        put_be16(b + ETH_LEN,
                 (get_be16(frame + ETH_LEN) & (uint16_t)~VLAN_ID_MASK) | (t->vlan & VLAN_ID_MASK));
    if (hdr_is_ipv6(t->form)) {
        b[l3] = frame[l3];
        b[l3 + 1] = frame[l3 + 1] & 0xC0;
        b[l3 + 7] = frame[l3 + 7];
        return;
    }
    b[l3 + 1] = frame[l3 + 1] & (uint8_t)~ECN_MASK;
    memcpy(b + l3 + 6, frame + l3 + 6, 2);
    b[l3 + 8] = frame[l3 + 8];
    sum_constant_words(t);
}

void hdr_template_learn(struct hdr_template *t, const uint8_t *frame, size_t len)
{
    struct hdr_template with;

    if (t->form == HDR_NONE || t->form == HDR_IPV4 || len < hdr_min_len(t->form) ||
        hdr_form_of(frame) != t->form || hdr_template_matches(t->form, t, frame))
        return;
    with = *t;
    hdr_template_take(&with, frame);
    if (hdr_template_matches(t->form, &with, frame))
        *t = with;
}

void hdr_template_follow(struct hdr_template *t, const struct gid_table *gids, int gid_index,
                         const uint8_t *frame, size_t len)
{
    enum hdr_form form = len < hdr_min_len(HDR_IPV4) ? HDR_NONE : hdr_form_of(frame);
    const struct gid_entry *own;

    t->form = HDR_NONE;
    if (form == HDR_NONE || len < hdr_min_len(form) || gid_index < 0)
        return;
    own = &gids->entry[gid_index];
    for (unsigned i = 0; i < hdr_bth_at(form) + 4; i++)
        t->byte[i] = frame[i] & hdr_mask[form].matches[i];
    memcpy(t->own, own->gid.word, sizeof(t->own));
    t->vlan = own->vlan;
    t->sgid_index = (uint8_t)gid_index;
    t->form = (uint8_t)form;
    if (!hdr_is_ipv6(form))
        sum_constant_words(t);
}
