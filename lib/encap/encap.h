/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ethernet, 802.1Q, IPv4, IPv6, GRH and UDP around a transport packet, in and out
 * (Annex A17.3.1, A17.3.2; RoCEv1: Annex A16). Pure; any thread.
 */
#ifndef UROCE_ENCAP_H
#define UROCE_ENCAP_H

#include "bytes.h"
#include "drop.h"
#include "gid.h"
#include "icrc.h"
#include "qos.h"

#define ROCE_UDP_PORT  4791
#define ROCE_ETHERTYPE 0x8915
#define ENCAP_MAX_LEN  (14 + 4 + 40 + 8) /**< Ethernet, 802.1Q, IPv6, UDP */

/** What a port accepts: its address and its GID table. */
struct encap_port {
    uint8_t mac[6];
    bool promiscuous; /**< accept any destination MAC and address (dissecting, replay) */
    uint16_t
        max_frame; /**< bytes of the longest raw frame that it sends; 0: what lent frames hold */
    const struct gid_table *gids;
};

/** A received frame's outer headers. The pointers lead into the frame. */
struct encap_view {
    enum icrc_l3 l3_kind;
    uint8_t smac[6], dmac[6];
    uint16_t vlan_tci; /**< whole tag, or VLAN_NONE */
    uint8_t traffic_class, hop_limit;
    uint32_t flow_label;
    uint16_t udp_sport; /**< 0 for RoCEv1 */
    uint16_t ip_id;
    union gid sgid, dgid;
    /** The destination's entry in the GID table; for a multicast destination the first entry of the
     * same type and VLAN, and in RoCEv2 IP version; -1 when promiscuous. */
    int16_t gid_index;
    const uint8_t *l3;  /**< network header */
    uint32_t l3_len;    /**< bytes from the network header through the ICRC */
    const uint8_t *bth; /**< transport packet */
    uint32_t bth_len;   /**< bytes from the BTH through the ICRC */
};

/**
 * Parse and check the outer headers of a received frame (CA17-3 to CA17-12, A17.3.4, A17.4.4).
 *
 * Ethernet padding behind the IP length is ignored. The UDP checksum is not verified (the ICRC
 * covers more), and the UDP source port may be any. RoCE to a group MAC passes only with the
 * multicast address that the MAC is derived from; whether a queue pair has joined that group is for
 * the caller to find out. A tag with VLAN id 0 counts as none.
 *
 * @param v  Set on DROP_NONE, its pointers lead into the frame. vlan_tci and traffic_class are
 *     right whatever is returned, as far as the frame has them (else VLAN_NONE and 0); all else is
 *     undefined after a drop.
 * @param frame  The first byte of the Ethernet header; borrowed as long as v is used.
 * @param len  Bytes at frame.
 * @param port  The port that received it.
 * @return  DROP_NONE, or the first of these that is found, in this order: DROP_truncated,
 *     DROP_not_our_mac, DROP_not_roce, DROP_bad_ip_header (also IPv4-mapped addresses in an IPv6
 *     header, and a source that is a group, broadcast or unspecified), DROP_ip_fragment,
 *     DROP_udp_length, DROP_wrong_destination. A length is checked where it is met, so that
 *     DROP_truncated may come later.
 */
enum drop encap_rx(struct encap_view *v, const uint8_t *frame, size_t len,
                   const struct encap_port *port);

/**
 * Whether a frame that encap_rx() or pkt_parse() refused is RoCE with an error: by its ethertype,
 * or by its UDP destination port where the frame is long enough to have one.
 *
 * @param frame  The first byte of the Ethernet header.
 * @param len  Bytes at frame.
 * @return  True when it is RoCE.
 */
bool encap_is_roce(const uint8_t *frame, size_t len);

/** Where packets of a connection or an address handle go: values, all resolved. */
struct address_vector {
    union gid sgid, dgid;
    uint8_t smac[6], dmac[6];
    uint8_t gid_type; /**< enum gid_type of the source entry */
    uint8_t sgid_index;
    uint16_t vlan; /**< id, or VLAN_NONE */
    uint8_t sl;    /**< service level; on the wire only as pcp */
    uint8_t pcp;   /**< priority in the 802.1Q tag, 0 to 7 */
    uint8_t traffic_class, hop_limit;
    uint32_t flow_label;
    uint16_t udp_sport;
};

/** The outer headers of a flow, made once; lengths and checksums come per packet. */
struct encap_template {
    uint8_t bytes[ENCAP_MAX_LEN + 2];
    uint8_t len;      /**< offset of the BTH */
    uint8_t l3_off;   /**< offset of the network header */
    uint8_t l3_kind;  /**< enum icrc_l3 */
    uint8_t priority; /**< as qos_frame_priority says of its frames */
    uint16_t ip_sum;  /**< IPv4: folded sum of the constant words */
};

/**
 * Make the headers of a flow: IPv4 when both GIDs are IPv4-mapped. A RoCEv1 group of either version
 * may be sent to from any GID: the GRH has one form, and rdma_cm gives IPv4 groups an FF.. GID
 * there.
 *
 * @param t  Set on success.
 * @param av  Where the packets go; copied.
 * @return  0; -EINVAL: one GID is IPv4 and the other is not, or gid_type is unknown.
 */
int encap_template_make(struct encap_template *t, const struct address_vector *av);

/**
 * Send later frames of a flow to another MAC.
 *
 * @param t  The flow's headers.
 * @param mac  The new destination.
 */
static inline void encap_template_redirect(struct encap_template *t, const uint8_t mac[6])
{
    memcpy(t->bytes, mac, 6);
}

/**
 * Have the frames of a flow say that the network may mark them: ECT(0) (RFC 3168, 5; A17.9.1).
 *
 * @param t  The flow's headers, as encap_template_make() made them, of RoCEv2.
 */
void encap_template_set_ect(struct encap_template *t);

/**
 * Whether a flow's frames have a UDP header, and with it a source port; RoCEv1's have none.
 *
 * @param t  The flow's headers.
 * @return  True for RoCEv2.
 */
static inline bool encap_template_has_udp(const struct encap_template *t)
{
    return t->l3_kind != ICRC_GRH;
}

/**
 * Give later frames of a flow another UDP source port. No checksum but the ICRC covers it.
 *
 * @param t  The flow's headers, of RoCEv2.
 * @param port  The port.
 */
static inline void encap_template_set_sport(struct encap_template *t, uint16_t port)
{
    put_be16(t->bytes + t->len - 8, port);
}

/**
 * Give one packet another UDP source port.
 *
 * @param bth  Where its BTH begins; the outer headers, with UDP, are written.
 * @param port  The port.
 */
static inline void encap_packet_set_sport(uint8_t *bth, uint16_t port)
{
    put_be16(bth - 8, port);
}

/**
 * Tell whether the network marked a packet "congestion experienced" (RFC 3168, 5).
 *
 * @param traffic_class  The network header's.
 * @return  True when it did.
 */
static inline bool encap_is_ce(uint8_t traffic_class)
{
    return (traffic_class & 3) == 3;
}

/**
 * Tell whether the network marked a received packet. The traffic class of a GRH has no mark: on
 * their way such packets are Ethernet alone (A16).
 *
 * @param v  The packet, as encap_rx() accepted it.
 * @return  True when it did.
 */
static inline bool encap_is_marked(const struct encap_view *v)
{
    return v->l3_kind != ICRC_GRH && encap_is_ce(v->traffic_class);
}

/**
 * Write the outer headers of a packet. The ECN bits are 00 (CA17-5) unless encap_template_set_ect()
 * has changed them, and the UDP checksum is 0.
 *
 * @param frame  Where the Ethernet header begins, with room for t->len + bth_len bytes.
 * @param t  The flow's headers.
 * @param bth_len  Bytes of the transport packet, from the BTH through the ICRC.
 * @param ip_id  The IPv4 identification.
 * @return  t->len, where the BTH begins.
 */
size_t encap_tx(uint8_t *frame, const struct encap_template *t, size_t bth_len, uint16_t ip_id);

/**
 * Compute and store the ICRC of a frame that is complete otherwise.
 *
 * @param frame  The first byte of the Ethernet header.
 * @param t  The flow's headers, which encap_tx() wrote.
 * @param bth_len  As for encap_tx().
 * @return  The frame's whole length in bytes.
 */
static inline size_t encap_seal(uint8_t *frame, const struct encap_template *t, size_t bth_len)
{
    icrc_seal((enum icrc_l3)t->l3_kind, frame + t->l3_off,
              (size_t)(t->len - t->l3_off) + bth_len - 4);
    return t->len + bth_len;
}

/**
 * The same where the payload is not in the frame yet: icrc_seal_copy.
 *
 * @param frame  The first byte of the Ethernet header.
 * @param t  The flow's headers, which encap_tx() wrote.
 * @param bth_len  As for encap_tx().
 * @param from  The payload.
 * @param len  Its length in bytes.
 * @return  The frame's whole length in bytes.
 */
static inline size_t encap_seal_copy(uint8_t *frame, const struct encap_template *t, size_t bth_len,
                                     const uint8_t *from, size_t len)
{
    size_t head_len = (size_t)(t->len - t->l3_off) + bth_len - 4 - ((len + 3) & ~(size_t)3);

    icrc_seal_copy((enum icrc_l3)t->l3_kind, frame + t->l3_off, head_len, from, len);
    return t->len + bth_len;
}

/**
 * encap_seal_copy without an ICRC: the last four bytes of the frame are undefined.
 *
 * @param frame  The first byte of the Ethernet header.
 * @param t  The flow's headers, which encap_tx() wrote.
 * @param bth_len  As for encap_tx().
 * @param from  The payload.
 * @param len  Its length in bytes.
 * @return  The frame's whole length in bytes.
 */
static inline size_t encap_copy(uint8_t *frame, const struct encap_template *t, size_t bth_len,
                                const uint8_t *from, size_t len)
{
    size_t pad = -len & 3;
    uint8_t *end = frame + t->len + bth_len - 4;

    memcpy(end - pad - len, from, len);
    memset(end - pad, 0, pad);
    return t->len + bth_len;
}

/**
 * Store the ICRCs of several frames of a flow that are alike: icrc_seal_batch.
 *
 * @param t  The flow's headers, which encap_tx() wrote into each frame.
 * @param f  The frames, in the order in which they were made; their len is set.
 * @param n  How many, at least 1.
 */
static inline void encap_seal_batch(const struct encap_template *t, const struct frame *f,
                                    unsigned n)
{
    icrc_seal_batch((enum icrc_l3)t->l3_kind, t->l3_off, f, n);
}

#define ENCAP_GRH_LEN 40

/**
 * Write the 40 bytes with which the receive buffers of UD begin (A17.4.5.2): an IPv6 header or GRH
 * as it came, or 20 zero bytes and the IPv4 header.
 *
 * @param out  The bytes.
 * @param kind  What the network header is.
 * @param l3  Its bytes, in the received frame.
 */
static inline void encap_grh(uint8_t out[ENCAP_GRH_LEN], enum icrc_l3 kind, const uint8_t *l3)
{
    const unsigned ipv4 = 20; /* the bytes of such a header */

    if (kind == ICRC_IPV4) {
        memset(out, 0, ENCAP_GRH_LEN - ipv4);
        memcpy(out + ENCAP_GRH_LEN - ipv4, l3, ipv4);
    } else {
        memcpy(out, l3, ENCAP_GRH_LEN);
    }
}

#endif
