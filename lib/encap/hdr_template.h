/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers that the packets of one connection arrive with, as words to compare with: a frame
 * that matches them is one that encap_rx would pass, if the fields that differ from packet to
 * packet are right, too. RoCEv2 over IPv4 without a VLAN tag; other connections have no template
 * and go by encap_rx. ECN marks do not matter: congestion must not make receiving slower. Pure; any
 * thread reads, one writes.
 *
 * What each comparison leaves out, of the bytes up to the BTH's P_Key. parse and matches compare a
 * frame with the template, the others with the head of an earlier frame, which matches it.
 *
 *                                hdr_template_     hdr_
 *                                parse    matches  same_layout  same_but_mark  same
 *   source MAC                   out      out      out          .              .
 *   ECN                          out      out      out          out            .
 *   the rest of traffic class    out      .        .            .              .
 *   DF, TTL                      out      .        .            .              .
 *   lengths of IP and UDP        checks   out      .            .              .
 *   identification               out      out      out          .              .
 *   checksum of the IP header    checks   out      out          out            .
 *   UDP source port, checksum    out      out      out          .              .
 *   BTH opcode, pad count        out      out      .            .              .
 *   solicited, MigReq, membership of the P_Key
 *                                out      out      out          .              .
 *   BTH version, P_Key           out      .        .            .              .
 *
 * hdr_template_sum_ok and hdr_lengths_ok are the two checks for the other comparisons.
 * hdr_template_update makes the traffic class (without ECN), DF and TTL of a frame those of the
 * template, if the frame does not match; hdr_template_take does so always.
 */
#ifndef UROCE_HDR_TEMPLATE_H
#define UROCE_HDR_TEMPLATE_H

#include "common.h"
#include "encap.h"
#include "encap_layout.h"
#include "pkt.h"

/* Where the fields lie in such frames: Ethernet, IPv4, UDP, BTH. */
#define HDR_TRAFFIC_CLASS (ETH_LEN + 1)
#define HDR_IP_LEN        (ETH_LEN + 2)
#define HDR_IP_FLAGS      (ETH_LEN + 6)
#define HDR_IP_TTL        (ETH_LEN + 8)
#define HDR_IP_CHECK      (ETH_LEN + 10)
#define HDR_UDP_LEN       (ETH_LEN + IPV4_LEN + 4)
#define HDR_BTH           (ETH_LEN + IPV4_LEN + UDP_LEN)
#define HDR_MIN           48 /* bytes of a frame that are compared */
/* Bytes of the IP packet beside other headers and payload: IP, UDP, BTH, ICRC. */
#define HDR_L3_LEN (IPV4_LEN + UDP_LEN + BTH_LEN + ICRC_LEN)

typedef uint64_t hdr_vec __attribute__((vector_size(16)));

/* The first HDR_MIN bytes of a frame, and its bytes from HDR_TAIL on: up to the BTH's P_Key. */
#define HDR_TAIL 30
struct hdr_head {
    hdr_vec vec[3], tail;
};

struct hdr_template {
    /* Traffic class (without ECN), TTL and DF are those of the frame that it was updated by last;
     * of the BTH it has version and P_Key. */
    union {
        uint64_t word[6];
        hdr_vec vec[3];
    };
    uint64_t own;    /* the second half of our address */
    uint32_t ip_sum; /* of the IP header's constant words, without ECN */
    uint8_t sgid_index;
    bool valid; /* false: the connection has no template */
};

/* The template of av's peer on a port; invalid if its packets are of another kind, or the port is
 * promiscuous. */
void hdr_template_make(struct hdr_template *t, const struct encap_port *port,
                       const struct address_vector *av);

static inline uint64_t hdr_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* ---- fields, in place ---- */

static inline const uint8_t *hdr_l3(const uint8_t *frame)
{
    return frame + ETH_LEN;
}

static inline const uint8_t *hdr_bth(const uint8_t *frame)
{
    return frame + HDR_BTH;
}

/* The BTH of a packet whose IP header is at l3. */
static inline const uint8_t *hdr_template_bth(const uint8_t *l3)
{
    return l3 + IPV4_LEN + UDP_LEN;
}

/* The UDP source port of such a packet, by its BTH. */
static inline uint16_t hdr_template_sport(const uint8_t *bth)
{
    return get_be16(bth - UDP_LEN);
}

static inline uint32_t hdr_ip_len(const uint8_t *frame)
{
    return get_be16(frame + HDR_IP_LEN);
}

static inline uint8_t hdr_traffic_class(const uint8_t *frame)
{
    return frame[HDR_TRAFFIC_CLASS];
}

/* Whether the network marked the frame "congestion experienced" (RFC 3168, 5). */
static inline bool hdr_is_ce(const uint8_t *frame)
{
    return encap_is_ce(hdr_traffic_class(frame));
}

/* ---- any frame ---- */

/* In each word, the fields that must be equal. In the third word those that must be 0 are among
 * them: the fragment offset and "more fragments". */
#define MATCH_MASK_0 UINT64_C(0x0000FFFFFFFFFFFF) /* destination MAC */
#define MATCH_MASK_1 UINT64_C(0x00FFFFFF00000000) /* ethertype, version and header length */
#define MATCH_MASK_2 UINT64_C(0xFF00FF3F00000000) /* fragment, protocol */
#define MATCH_MASK_3 UINT64_C(0xFFFFFFFFFFFF0000) /* source, first half of destination */
#define MATCH_MASK_4 UINT64_C(0x0000FFFF0000FFFF) /* second half; UDP destination port */

/*
 * Whether a frame has the template's headers, sound lengths and the right header checksum, so that
 * encap_rx would pass it with the same addresses. If so sets of *v what verifying the ICRC and
 * parsing read: l3_kind, l3, l3_len, bth, bth_len, traffic_class, vlan_tci. The frame has at least
 * HDR_BTH bytes.
 */
static inline bool hdr_template_parse(const struct hdr_template *t, const uint8_t *frame,
                                      size_t len, struct encap_view *v)
{
    uint64_t w1 = hdr_load64(frame + 8), w2 = hdr_load64(frame + 16);
    uint64_t w3 = hdr_load64(frame + 24), w4 = hdr_load64(frame + 32), differ, sum;
    uint32_t total = hdr_ip_len(frame);

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
    if (differ || !t->valid || sum != UINT16_MAX || get_be16(frame + HDR_UDP_LEN) != total - 20 ||
        total < IPV4_LEN + UDP_LEN || total > len - ETH_LEN)
        return false;
    v->l3_kind = ICRC_IPV4;
    v->l3 = hdr_l3(frame);
    v->l3_len = total;
    v->bth = hdr_bth(frame);
    v->bth_len = total - (IPV4_LEN + UDP_LEN);
    v->traffic_class = hdr_traffic_class(frame);
    v->vlan_tci = VLAN_NONE;
    return true;
}

/* ---- frames like the last one ---- */

/* What differs from packet to packet of one connection, as 0: see the table above. */
#define SAME_MASK_0 UINT64_C(0x0000FFFFFFFFFFFF)
#define SAME_MASK_1 UINT64_C(0xFCFFFFFF00000000)
#define SAME_MASK_2 UINT64_C(0xFFFFFFFF00000000)
#define SAME_MASK_3 UINT64_C(0xFFFFFFFFFFFF0000)
#define SAME_MASK_4 UINT64_C(0x0000FFFF0000FFFF)
#define SAME_MASK_5 UINT64_C(0x0000FF7F0F000000)
/* The same and both lengths, the opcode and the pad count: packets of one size. */
#define LAYOUT_MASK_2 UINT64_C(0xFFFFFFFF0000FFFF)
#define LAYOUT_MASK_4 UINT64_C(0xFFFFFFFF0000FFFF)
#define LAYOUT_MASK_5 UINT64_C(0x0000FF7F3FFF0000)
/* Everything except ECN and the IP header's checksum, which covers ECN. */
#define MARK_MASK_1 UINT64_C(0xFCFFFFFFFFFFFFFF)
#define MARK_MASK_3 UINT64_C(0xFFFFFFFFFFFF0000)
#define MARK_MASK_5 UINT64_C(0x0000FFFFFFFFFFFF)

ALWAYS_INLINE hdr_vec hdr_vec_at(const uint8_t *p)
{
    hdr_vec v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void hdr_head_take(struct hdr_head *h, const uint8_t *frame)
{
    memcpy(h->vec, frame, sizeof(h->vec));
    h->tail = hdr_vec_at(frame + HDR_TAIL);
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

/* Whether the first bytes of a frame are those of vec, where the masks have a 1. */
ALWAYS_INLINE bool hdr_vecs_match(const hdr_vec vec[3], const uint8_t *frame, hdr_vec m0,
                                  hdr_vec m1, hdr_vec m2)
{
    return hdr_vec_is_zero(((hdr_vec_at(frame) ^ vec[0]) & m0) |
                           ((hdr_vec_at(frame + 16) ^ vec[1]) & m1) |
                           ((hdr_vec_at(frame + 32) ^ vec[2]) & m2));
}

/*
 * For a valid template: whether a frame has its headers, as the table above says. Together with a
 * sound length and the right header checksum hdr_template_parse is true then, and the BTH's version
 * and P_Key are right. Here and below a frame has at least HDR_MIN bytes.
 */
static inline bool hdr_template_matches(const struct hdr_template *t, const uint8_t *frame)
{
    return hdr_vecs_match(t->vec, frame, (hdr_vec){SAME_MASK_0, SAME_MASK_1},
                          (hdr_vec){SAME_MASK_2, SAME_MASK_3}, (hdr_vec){SAME_MASK_4, SAME_MASK_5});
}

/* Whether a frame is also of the size and opcode of the one with this head. */
static inline bool hdr_same_layout(const struct hdr_head *h, const uint8_t *frame)
{
    return hdr_vecs_match(h->vec, frame, (hdr_vec){SAME_MASK_0, SAME_MASK_1},
                          (hdr_vec){LAYOUT_MASK_2, SAME_MASK_3},
                          (hdr_vec){LAYOUT_MASK_4, LAYOUT_MASK_5});
}

/* Whether a frame begins as the one with this head, in every byte up to the BTH's P_Key but the ECN
 * mark and the checksum. */
static inline bool hdr_same_but_mark(const struct hdr_head *h, const uint8_t *frame)
{
    return hdr_vecs_match(h->vec, frame, (hdr_vec){UINT64_MAX, MARK_MASK_1},
                          (hdr_vec){UINT64_MAX, MARK_MASK_3}, (hdr_vec){UINT64_MAX, MARK_MASK_5});
}

/* Whether a frame begins as the one with this head, in every byte up to the BTH's P_Key. */
static inline bool hdr_same(const struct hdr_head *h, const uint8_t *frame)
{
    return hdr_vec_is_zero((hdr_vec_at(frame) ^ h->vec[0]) | (hdr_vec_at(frame + 16) ^ h->vec[1]) |
                           (hdr_vec_at(frame + HDR_TAIL) ^ h->tail));
}

/* Whether a frame that matches has the right header checksum. */
static inline bool hdr_template_sum_ok(const struct hdr_template *t, const uint8_t *frame)
{
    uint32_t word, sum;
    uint16_t check;

    memcpy(&word, frame + HDR_IP_LEN, sizeof(word)); /* length, identification */
    memcpy(&check, frame + HDR_IP_CHECK, sizeof(check));
    sum = t->ip_sum + (word & UINT16_MAX) + (word >> 16) + check +
          ((uint32_t)(hdr_traffic_class(frame) & ECN_MASK) << 8); /* ECN, as a little-endian word */
    /* Ten words at most: the sum is a multiple of 2^16 - 1 only if this is so. */
    return (uint16_t)(sum + (sum >> 16)) == UINT16_MAX;
}

/* Whether IP and UDP agree on the length, and the frame has that much. total: the IP header's,
 * which is at least that of IP and UDP headers. */
static inline bool hdr_lengths_ok(const uint8_t *frame, size_t len, uint32_t total)
{
    return total + ETH_LEN <= len && get_be16(frame + HDR_UDP_LEN) + 20u == total;
}

/* A frame of at least HDR_MIN bytes that hdr_template_parse has passed: later frames are likely to
 * have its traffic class, TTL and DF. */
void hdr_template_take(struct hdr_template *t, const uint8_t *frame);
static inline void hdr_template_update(struct hdr_template *t, const uint8_t *frame)
{
    if (unlikely(!hdr_template_matches(t, frame)))
        hdr_template_take(t, frame);
}

/* Whether the template is valid, and its destination address is still the port's: the address may
 * be removed, and another take its place in the table. */
static inline bool hdr_template_is_ours(const struct hdr_template *t, const struct gid_table *gids)
{
    const struct gid_entry *own;

    if (!t->valid)
        return false;
    own = &gids->entry[t->sgid_index];
    return own->valid && own->gid.word[1] == t->own;
}

#endif
