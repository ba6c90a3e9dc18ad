/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The outer headers that packets of one connection arrive with, as words to compare with: what
 * encap_rx finds out about any frame is known of a frame that equals them but in the fields that
 * differ from packet to packet. RoCEv2 over IPv4 without a tag; other connections have none, and go
 * by encap_rx. Pure; any thread
 * reads, one writes.
 */
#ifndef UROCE_ENCAP_EXPECT_H
#define UROCE_ENCAP_EXPECT_H

#include "common.h"
#include "encap.h"

#define ENCAP_EXPECT_BTH 42 /* where the BTH lies in such frames: Ethernet, IPv4, UDP */

typedef uint64_t encap_vec __attribute__((vector_size(16)));

#define ENCAP_EXPECT_MIN 48
struct encap_head {
    encap_vec vec[3]; /* ENCAP_EXPECT_MIN bytes of a frame */
};

struct encap_expect {
    /* Bytes 0 to 47 of the frame. Traffic class, TTL and DF are those of the last one that was
     * learnt from; of the BTH version and P_Key. */
    union {
        uint64_t word[6];
        struct encap_head head;
    };
    uint64_t own;    /* the second half of our address */
    uint32_t ip_sum; /* of the IP header's constant words */
    uint8_t sgid_index;
    bool some; /* false: nothing is expected */
};

/* What the peer's packets look like on a port; nothing if they are not of that kind, or the port
 * takes anybody's. */
void encap_expect_make(struct encap_expect *x, const struct encap_port *port,
                       const struct address_vector *av);

static inline uint64_t encap_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* In each word, the fields that must be equal. In the third those that must be 0 are among them:
 * the fragment offset and "more fragments". */
#define EXPECT_MASK_0 UINT64_C(0x0000FFFFFFFFFFFF) /* destination MAC */
#define EXPECT_MASK_1 UINT64_C(0x00FFFFFF00000000) /* ethertype, version and header length */
#define EXPECT_MASK_2 UINT64_C(0xFF00FF3F00000000) /* fragment, protocol */
#define EXPECT_MASK_3 UINT64_C(0xFFFFFFFFFFFF0000) /* source, first half of destination */
#define EXPECT_MASK_4 UINT64_C(0x0000FFFF0000FFFF) /* second half; UDP destination port */

/*
 * Whether a frame has the headers that are expected, sound lengths and the right header checksum,
 * and so encap_rx would pass it to the same address from the same address. Then sets of *v what
 * checking the ICRC and parsing want: l3_kind, l3, l3_len, bth, bth_len, traffic_class, vlan_tci.
 * The frame has at least ENCAP_EXPECT_BTH bytes.
 */
static inline bool encap_expected(const struct encap_expect *x, const uint8_t *frame, size_t len,
                                  struct encap_view *v)
{
    uint64_t w1 = encap_load64(frame + 8), w2 = encap_load64(frame + 16);
    uint64_t w3 = encap_load64(frame + 24), w4 = encap_load64(frame + 32), differ, sum;
    uint32_t total = get_be16(frame + 16);

    differ = (encap_load64(frame) ^ x->word[0]) & EXPECT_MASK_0;
    differ |= (w1 ^ x->word[1]) & EXPECT_MASK_1;
    differ |= (w2 ^ x->word[2]) & EXPECT_MASK_2;
    differ |= (w3 ^ x->word[3]) & EXPECT_MASK_3;
    differ |= (w4 ^ x->word[4]) & EXPECT_MASK_4;
    /* The IP header is bytes 14 to 33; words of any size and byte order sum up the same. */
    sum = (w1 >> 48) + (w2 & UINT32_MAX) + (w2 >> 32) + (w3 & UINT32_MAX) + (w3 >> 32) +
          (w4 & UINT16_MAX);
    sum = (sum & UINT16_MAX) + (sum >> 16 & UINT16_MAX) + (sum >> 32);
    sum = (sum & UINT16_MAX) + (sum >> 16);
    sum = (sum & UINT16_MAX) + (sum >> 16);
    if (differ || !x->some || sum != UINT16_MAX || get_be16(frame + 38) != total - 20 ||
        total < 28 || total > len - 14)
        return false;
    v->l3_kind = ICRC_IPV4;
    v->l3 = frame + 14;
    v->l3_len = total;
    v->bth = frame + ENCAP_EXPECT_BTH;
    v->bth_len = total - 28;
    v->traffic_class = frame[15];
    v->vlan_tci = VLAN_NONE;
    return true;
}

/* ---- frames like the last one ---- */

/*
 * What differs from packet to packet of one connection, as 0: source MAC; length, identification
 * and checksum of the IP header; source port, length and checksum of UDP; of the BTH opcode, all
 * flags but the version, membership of the P_Key, and what is behind that.
 */
#define ALIKE_MASK_0 UINT64_C(0x0000FFFFFFFFFFFF)
#define ALIKE_MASK_1 UINT64_C(0xFFFFFFFF00000000)
#define ALIKE_MASK_2 UINT64_C(0xFFFFFFFF00000000)
#define ALIKE_MASK_3 UINT64_C(0xFFFFFFFFFFFF0000)
#define ALIKE_MASK_4 UINT64_C(0x0000FFFF0000FFFF)
#define ALIKE_MASK_5 UINT64_C(0x0000FF7F0F000000)
/* The same and both lengths, the opcode and the pad count: of a row of packets of one size. */
#define SHAPE_MASK_2 UINT64_C(0xFFFFFFFF0000FFFF)
#define SHAPE_MASK_4 UINT64_C(0xFFFFFFFF0000FFFF)
#define SHAPE_MASK_5 UINT64_C(0x0000FF7F3FFF0000)

static inline void encap_head_take(struct encap_head *h, const uint8_t *frame)
{
    memcpy(h->vec, frame, sizeof(h->vec));
}

ALWAYS_INLINE encap_vec encap_vec_at(const uint8_t *p)
{
    encap_vec v;

    memcpy(&v, p, sizeof(v));
    return v;
}

ALWAYS_INLINE bool encap_head_is(const struct encap_head *h, const uint8_t *frame, encap_vec m0,
                                 encap_vec m1, encap_vec m2)
{
    encap_vec differ = ((encap_vec_at(frame) ^ h->vec[0]) & m0) |
                       ((encap_vec_at(frame + 16) ^ h->vec[1]) & m1) |
                       ((encap_vec_at(frame + 32) ^ h->vec[2]) & m2);

    return !(differ[0] | differ[1]);
}

/*
 * Where anything is expected: whether a frame has the same headers as the one that was learnt from
 * last, but for lengths and what is said above. Together with a sound length and the right header
 * checksum this means that encap_expected is true, and that the BTH's version and P_Key are the
 * right ones. Here and below a frame has at least ENCAP_EXPECT_MIN bytes.
 */
static inline bool encap_alike(const struct encap_expect *x, const uint8_t *frame)
{
    return encap_head_is(&x->head, frame, (encap_vec){ALIKE_MASK_0, ALIKE_MASK_1},
                         (encap_vec){ALIKE_MASK_2, ALIKE_MASK_3},
                         (encap_vec){ALIKE_MASK_4, ALIKE_MASK_5});
}

/* Whether a frame is of the same size and opcode, too, as one that had this head. */
static inline bool encap_same_shape(const struct encap_head *h, const uint8_t *frame)
{
    return encap_head_is(h, frame, (encap_vec){ALIKE_MASK_0, ALIKE_MASK_1},
                         (encap_vec){SHAPE_MASK_2, ALIKE_MASK_3},
                         (encap_vec){SHAPE_MASK_4, SHAPE_MASK_5});
}

/* Whether a frame begins as the one with this head in every byte up to the BTH's P_Key. */
static inline bool encap_begins_same(const struct encap_head *h, const uint8_t *frame)
{
    const uint8_t *b = (const uint8_t *)h->vec;
    encap_vec differ = (encap_vec_at(frame) ^ h->vec[0]) | (encap_vec_at(frame + 16) ^ h->vec[1]) |
                       (encap_vec_at(frame + 30) ^ encap_vec_at(b + 30));

    return !(differ[0] | differ[1]);
}

/* Whether a frame that is alike has the right header checksum. */
static inline bool encap_alike_sum(const struct encap_expect *x, const uint8_t *frame)
{
    uint32_t word, sum;
    uint16_t check;

    memcpy(&word, frame + 16, sizeof(word)); /* length, identification */
    memcpy(&check, frame + 24, sizeof(check));
    sum = x->ip_sum + (word & UINT16_MAX) + (word >> 16) + check;
    /* Ten words at most: the sum is a multiple of 2^16 - 1 only if this is so. */
    return (uint16_t)(sum + (sum >> 16)) == UINT16_MAX;
}

/* Whether IP and UDP agree on the length, and the frame has that much. total: the IP header's. It
 * is at least that of IP and UDP headers. */
static inline bool encap_alike_length(const uint8_t *frame, size_t len, uint32_t total)
{
    return total + 14 <= len && get_be16(frame + 38) + 20u == total;
}

/* A frame of at least ENCAP_EXPECT_MIN bytes that is expected is what later ones are likely to look
 * like. */
void encap_expect_like(struct encap_expect *x, const uint8_t *frame);
static inline void encap_expect_learn(struct encap_expect *x, const uint8_t *frame)
{
    if (unlikely(!encap_alike(x, frame)))
        encap_expect_like(x, frame);
}

/* Whether anything is expected, and the address that it comes to is still the port's: it may go,
 * and another come in its place. */
static inline bool encap_expect_is_ours(const struct encap_expect *x, const struct gid_table *gids)
{
    const struct gid_entry *own;

    if (!x->some)
        return false;
    own = &gids->entry[x->sgid_index];
    return own->valid && own->gid.word[1] == x->own;
}

#endif
