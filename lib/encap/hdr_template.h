/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers that the packets of one connection arrive with, as bytes to compare with: a frame
 * that matches them is one that encap_rx would pass, if the fields that differ from packet to
 * packet are right, too. RoCEv2 over IPv4 or IPv6, with a VLAN tag or without; other connections
 * have no template and go by encap_rx. ECN marks do not matter: congestion must not make receiving
 * slower. Pure; any thread reads, one writes.
 *
 * What each comparison leaves out, of the bytes up to the BTH's P_Key. parse (IPv4 without a tag
 * alone) and matches compare a frame with the template, the others with the head of an earlier
 * frame, which matches it.
 *
 *                                hdr_template_     hdr_
 *                                parse    matches  same_layout  same_but_mark  same
 *   source MAC                   out      out      out          .              .
 *   priority in the tag                   .        .            .              .
 *   ECN                          out      out      out          out            .
 *   the rest of traffic class    out      .        .            .              .
 *   DF; TTL or hop limit         out      .        .            .              .
 *   lengths of IP and UDP        checks   out      .            .              .
 *   identification, flow label   out      out      out          .              .
 *   checksum of the IPv4 header  checks   out      out          out            .
 *   UDP source port, checksum    out      out      out          .              .
 *   BTH opcode, pad count        out      out      .            .              .
 *   solicited, MigReq, membership of the P_Key
 *                                out      out      out          .              .
 *   BTH version, P_Key           out      .        .            .              .
 *
 * hdr_template_sum_ok and hdr_lengths_ok are the two checks for the other comparisons.
 * hdr_template_update makes the tag's priority, the traffic class (without ECN), DF and TTL or hop
 * limit of a frame those of the template, if the frame does not match; hdr_template_take does so
 * always. hdr_template_follow makes all of a frame's headers the template.
 *
 * Functions that take a form are inlined where it is a constant, and so cost each form what its
 * headers need.
 */
#ifndef UROCE_HDR_TEMPLATE_H
#define UROCE_HDR_TEMPLATE_H

#include "common.h"
#include "encap.h"
#include "encap_layout.h"
#include "pkt.h"

/* ---- forms ---- */

/* The lowest bit: IPv6. */
enum hdr_form { HDR_IPV4, HDR_IPV6, HDR_VLAN_IPV4, HDR_VLAN_IPV6, HDR_FORMS, HDR_NONE = HDR_FORMS };

ALWAYS_INLINE bool hdr_is_ipv6(enum hdr_form form)
{
    return form & 1;
}

/* Where the fields lie in a frame: Ethernet, IP, UDP, BTH. */
ALWAYS_INLINE unsigned hdr_l3_at(enum hdr_form form)
{
    return form < HDR_VLAN_IPV4 ? ETH_LEN : ETH_LEN + VLAN_LEN;
}

ALWAYS_INLINE unsigned hdr_ip_header(enum hdr_form form)
{
    return hdr_is_ipv6(form) ? IPV6_LEN : IPV4_LEN;
}

ALWAYS_INLINE unsigned hdr_udp_at(enum hdr_form form)
{
    return hdr_l3_at(form) + hdr_ip_header(form);
}

ALWAYS_INLINE unsigned hdr_bth_at(enum hdr_form form)
{
    return hdr_udp_at(form) + UDP_LEN;
}

/* Bytes of the IP packet beside other headers and payload: IP, UDP, BTH, ICRC. */
ALWAYS_INLINE unsigned hdr_l3_len(enum hdr_form form)
{
    return hdr_ip_header(form) + UDP_LEN + BTH_LEN + ICRC_LEN;
}

/* The least bytes of a RoCE frame. */
ALWAYS_INLINE unsigned hdr_min_len(enum hdr_form form)
{
    return hdr_l3_at(form) + hdr_l3_len(form);
}

/* What is compared: as many vectors from the frame's first byte on, and the one that ends with the
 * BTH's P_Key. */
#define HDR_VEC 16u

ALWAYS_INLINE unsigned hdr_tail_at(enum hdr_form form)
{
    return hdr_bth_at(form) + 4 - HDR_VEC;
}

ALWAYS_INLINE unsigned hdr_vecs(enum hdr_form form)
{
    return (hdr_tail_at(form) + HDR_VEC - 1) / HDR_VEC;
}

#define HDR_VECS  4u                    /* hdr_vecs of the longest form */
#define HDR_BYTES ((HDR_VECS + 1) * 16) /* what the longest form's headers have room in */

/* The form of a frame of at least hdr_min_len(HDR_IPV4) bytes by its Ethernet header alone, or
 * HDR_NONE. It may be shorter than its form needs. */
static inline enum hdr_form hdr_form_of(const uint8_t *frame)
{
    unsigned tagged = get_be16(frame + 12) == ETHERTYPE_VLAN ? HDR_VLAN_IPV4 : 0;

    switch (get_be16(frame + 12 + (tagged ? VLAN_LEN : 0))) {
    case ETHERTYPE_IPV4:
        return (enum hdr_form)(HDR_IPV4 + tagged);
    case ETHERTYPE_IPV6:
        return (enum hdr_form)(HDR_IPV6 + tagged);
    default:
        return HDR_NONE;
    }
}

ALWAYS_INLINE bool hdr_is_plain_ipv4(const uint8_t *frame)
{
    return get_be16(frame + 12) == ETHERTYPE_IPV4;
}

typedef uint64_t hdr_vec __attribute__((vector_size(16)));

/* The first bytes of a frame, and those up to the BTH's P_Key. 128 bytes: an index is a shift. */
struct hdr_head {
    hdr_vec vec[HDR_VECS], tail, unused[3];
};

struct hdr_template {
    /* The tag's priority, traffic class (without ECN), TTL and DF are those of the frame that it
     * was updated by last; of the BTH it has version and P_Key. */
    union {
        uint8_t byte[HDR_BYTES];
        uint64_t word[HDR_BYTES / 8];
        hdr_vec vec[HDR_BYTES / 16];
    };
    uint64_t own[2]; /* our address */
    uint32_t ip_sum; /* of the IPv4 header's constant words, without ECN */
    uint16_t vlan;   /* of our address: its id, or VLAN_NONE */
    uint8_t sgid_index;
    uint8_t form; /* enum hdr_form; HDR_NONE: the connection has no template */
};

/* The template of av's peer on a port; without a form if its packets are of another kind, or the
 * port is promiscuous. */
void hdr_template_make(struct hdr_template *t, const struct encap_port *port,
                       const struct address_vector *av);

static inline uint64_t hdr_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* ---- fields, in place ---- */

/* The UDP source port of such a packet, by its BTH. */
static inline uint16_t hdr_template_sport(const uint8_t *bth)
{
    return get_be16(bth - UDP_LEN);
}

/* Bytes of the IP packet. */
ALWAYS_INLINE uint32_t hdr_ip_len(enum hdr_form form, const uint8_t *frame)
{
    const uint8_t *ip = frame + hdr_l3_at(form);

    return hdr_is_ipv6(form) ? IPV6_LEN + (uint32_t)get_be16(ip + 4) : get_be16(ip + 2);
}

ALWAYS_INLINE uint8_t hdr_traffic_class(enum hdr_form form, const uint8_t *frame)
{
    const uint8_t *ip = frame + hdr_l3_at(form);

    return hdr_is_ipv6(form) ? (uint8_t)(ip[0] << 4 | ip[1] >> 4) : ip[1];
}

/* The whole tag, or VLAN_NONE. */
ALWAYS_INLINE uint16_t hdr_vlan_tci(enum hdr_form form, const uint8_t *frame)
{
    return form < HDR_VLAN_IPV4 ? VLAN_NONE : get_be16(frame + ETH_LEN);
}

/* Whether the network marked the frame "congestion experienced" (RFC 3168, 5). */
ALWAYS_INLINE bool hdr_is_ce(enum hdr_form form, const uint8_t *frame)
{
    return encap_is_ce(hdr_traffic_class(form, frame));
}

/* ---- IPv4 without a tag: any frame ---- */

/* In each word, the fields that must be equal. In the third word those that must be 0 are among
 * them: the fragment offset and "more fragments". */
#define MATCH_MASK_0 UINT64_C(0x0000FFFFFFFFFFFF) /* destination MAC */
#define MATCH_MASK_1 UINT64_C(0x00FFFFFF00000000) /* ethertype, version and header length */
#define MATCH_MASK_2 UINT64_C(0xFF00FF3F00000000) /* fragment, protocol */
#define MATCH_MASK_3 UINT64_C(0xFFFFFFFFFFFF0000) /* source, first half of destination */
#define MATCH_MASK_4 UINT64_C(0x0000FFFF0000FFFF) /* second half; UDP destination port */

/*
 * Whether the template is of IPv4 without a tag, and a frame has its headers, sound lengths and the
 * right header checksum, so that encap_rx would pass it with the same addresses. If so sets of *v
 * what verifying the ICRC and parsing read: l3_kind, l3, l3_len, bth, bth_len, traffic_class,
 * vlan_tci. The frame has at least hdr_bth_at(HDR_IPV4) bytes.
 */
static inline bool hdr_template_parse(const struct hdr_template *t, const uint8_t *frame,
                                      size_t len, struct encap_view *v)
{
    uint64_t w1 = hdr_load64(frame + 8), w2 = hdr_load64(frame + 16);
    uint64_t w3 = hdr_load64(frame + 24), w4 = hdr_load64(frame + 32), differ, sum;
    uint32_t total = hdr_ip_len(HDR_IPV4, frame);

    differ = (hdr_load64(frame) ^ t->word[0]) & MATCH_MASK_0;
    differ |= (w1 ^ t->word[1]) & MATCH_MASK_1;
    differ |= (w2 ^ t->word[2]) & MATCH_MASK_2;
    differ |= (w3 ^ t->word[3]) & MATCH_MASK_3;
    differ |= (w4 ^ t->word[4]) & MATCH_MASK_4;
    /* The IP header is bytes 14 to 33; words of any size and byte order sum up the same. */
    sum = (w1 >> 48) + (w2 & UINT32_MAX) + (w2 >> 32) + (w3 & UINT32_MAX) + (w3 >> 32) +
          (w4 & UINT16_MAX);
    sum = (sum & UINT16_MAX) + (sum >> 16 & UINT16_MAX) + (sum >> 32);
    sum = (sum & UINT16_MAX) + (sum >> 16);
    sum = (sum & UINT16_MAX) + (sum >> 16);
    if (differ || t->form != HDR_IPV4 || sum != UINT16_MAX ||
        get_be16(frame + hdr_udp_at(HDR_IPV4) + 4) != total - IPV4_LEN ||
        total < IPV4_LEN + UDP_LEN || total > len - ETH_LEN)
        return false;
    v->l3_kind = ICRC_IPV4;
    v->l3 = frame + ETH_LEN;
    v->l3_len = total;
    v->bth = frame + hdr_bth_at(HDR_IPV4);
    v->bth_len = total - (IPV4_LEN + UDP_LEN);
    v->traffic_class = hdr_traffic_class(HDR_IPV4, frame);
    v->vlan_tci = VLAN_NONE;
    return true;
}

/* ---- frames like the last one ---- */

/* By form, of the bytes of a frame those bits that are compared: see the table above. */
struct hdr_mask {
    uint8_t matches[HDR_BYTES], same_layout[HDR_BYTES], same_but_mark[HDR_BYTES];
};
extern const struct hdr_mask hdr_mask[HDR_FORMS];

ALWAYS_INLINE hdr_vec hdr_vec_at(const uint8_t *p)
{
    hdr_vec v;

    memcpy(&v, p, sizeof(v));
    return v;
}

ALWAYS_INLINE void hdr_head_take(enum hdr_form form, struct hdr_head *h, const uint8_t *frame)
{
#pragma GCC unroll 4
    for (unsigned i = 0; i < hdr_vecs(form); i++)
        h->vec[i] = hdr_vec_at(frame + HDR_VEC * i);
    h->tail = hdr_vec_at(frame + hdr_tail_at(form));
}

/* A head that no frame has: no frame is sent to MAC address 0. */
static inline void hdr_head_clear(struct hdr_head *h)
{
    h->vec[0] = (hdr_vec){0};
}

ALWAYS_INLINE bool hdr_vec_is_zero(hdr_vec v)
{
#ifdef __SSE2__
    typedef char bytes __attribute__((vector_size(16)));

    return __builtin_ia32_pmovmskb128((bytes)((bytes)v == (bytes){0})) == 0xFFFF;
#else
    return !(v[0] | v[1]);
#endif
}

/* Whether the first bytes of a frame are those of vec and tail, where the mask has a 1. */
ALWAYS_INLINE bool hdr_vecs_match(enum hdr_form form, const hdr_vec *vec, hdr_vec tail,
                                  const uint8_t *frame, const uint8_t *mask)
{
    unsigned at = hdr_tail_at(form);
    hdr_vec differ = (hdr_vec_at(frame + at) ^ tail) & hdr_vec_at(mask + at);

#pragma GCC unroll 4
    for (unsigned i = 0; i < hdr_vecs(form); i++)
        differ |= (hdr_vec_at(frame + HDR_VEC * i) ^ vec[i]) & hdr_vec_at(mask + HDR_VEC * i);
    return hdr_vec_is_zero(differ);
}

/*
 * For a template of this form: whether a frame has its headers, as the table above says. Together
 * with sound lengths and the right header checksum encap_rx passes it then, and the BTH's version
 * and P_Key are right. Here and below a frame has at least hdr_min_len bytes.
 */
ALWAYS_INLINE bool hdr_template_matches(enum hdr_form form, const struct hdr_template *t,
                                        const uint8_t *frame)
{
    return hdr_vecs_match(form, t->vec, hdr_vec_at(t->byte + hdr_tail_at(form)), frame,
                          hdr_mask[form].matches);
}

/* Whether a frame is also of the size and opcode of the one with this head. */
ALWAYS_INLINE bool hdr_same_layout(enum hdr_form form, const struct hdr_head *h,
                                   const uint8_t *frame)
{
    return hdr_vecs_match(form, h->vec, h->tail, frame, hdr_mask[form].same_layout);
}

/* Whether a frame begins as the one with this head, in every byte up to the BTH's P_Key but the ECN
 * mark and the checksum. */
ALWAYS_INLINE bool hdr_same_but_mark(enum hdr_form form, const struct hdr_head *h,
                                     const uint8_t *frame)
{
    return hdr_vecs_match(form, h->vec, h->tail, frame, hdr_mask[form].same_but_mark);
}

/* Whether a frame begins as the one with this head, in every byte up to the BTH's P_Key. */
ALWAYS_INLINE bool hdr_same(enum hdr_form form, const struct hdr_head *h, const uint8_t *frame)
{
    hdr_vec differ = hdr_vec_at(frame + hdr_tail_at(form)) ^ h->tail;

#pragma GCC unroll 4
    for (unsigned i = 0; i < hdr_vecs(form); i++)
        differ |= hdr_vec_at(frame + HDR_VEC * i) ^ h->vec[i];
    return hdr_vec_is_zero(differ);
}

/* Whether a frame that matches has the right header checksum, if its header has one. */
ALWAYS_INLINE bool hdr_template_sum_ok(enum hdr_form form, const struct hdr_template *t,
                                       const uint8_t *frame)
{
    const uint8_t *ip = frame + hdr_l3_at(form);
    uint32_t word, sum;
    uint16_t check;

    if (hdr_is_ipv6(form))
        return true;
    memcpy(&word, ip + 2, sizeof(word)); /* length, identification */
    memcpy(&check, ip + 10, sizeof(check));
    sum = t->ip_sum + (word & UINT16_MAX) + (word >> 16) + check +
          ((uint32_t)(ip[1] & ECN_MASK) << 8); /* ECN, as a little-endian word */
    /* Ten words at most: the sum is a multiple of 2^16 - 1 only if this is so. */
    return (uint16_t)(sum + (sum >> 16)) == UINT16_MAX;
}

/* Whether IP and UDP agree on the length, and the frame has that much. total: hdr_ip_len, which is
 * at least that of IP and UDP headers. */
ALWAYS_INLINE bool hdr_lengths_ok(enum hdr_form form, const uint8_t *frame, size_t len,
                                  uint32_t total)
{
    return total + hdr_l3_at(form) <= len &&
           get_be16(frame + hdr_udp_at(form) + 4) + hdr_ip_header(form) == total;
}

/* A frame that encap_rx passes, of the template's form: later frames are likely to have its
 * priority, traffic class, TTL and DF. */
void hdr_template_take(struct hdr_template *t, const uint8_t *frame);

/* The same for a frame that hdr_template_parse has passed, if it does not match. */
static inline void hdr_template_update(struct hdr_template *t, const uint8_t *frame)
{
    if (unlikely(!hdr_template_matches(HDR_IPV4, t, frame)))
        hdr_template_take(t, frame);
}

/* The same for a frame that encap_rx has passed, if it is of the template's form, which is not
 * HDR_IPV4, and from the peer. */
void hdr_template_learn(struct hdr_template *t, const uint8_t *frame, size_t len);

/* The template of the sender of a datagram that encap_rx has passed, addressed to this entry of the
 * port's table; without a form if its headers are of another kind, or the entry is -1: on a
 * promiscuous port. */
void hdr_template_follow(struct hdr_template *t, const struct gid_table *gids, int gid_index,
                         const uint8_t *frame, size_t len);

/* Whether there is a template, and its destination address is still the port's: the address may be
 * removed, and another take its place in the table. */
static inline bool hdr_template_is_ours(const struct hdr_template *t, const struct gid_table *gids)
{
    const struct gid_entry *own;

    if (t->form == HDR_NONE)
        return false;
    own = &gids->entry[t->sgid_index];
    return own->valid && own->gid.word[1] == t->own[1] && own->gid.word[0] == t->own[0] &&
           own->vlan == t->vlan;
}

#endif
