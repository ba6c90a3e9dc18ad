/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The invariant CRC (Annex A17.3.3; volume 1, 7.8.1): CRC-32 over eight bytes of ones and then the
 * packet from its network header to the last pad byte, with the fields that change on the way
 * taken as ones. Stored least significant byte first, right behind the pad. Pure; any thread.
 */
#ifndef UROCE_ICRC_H
#define UROCE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bytes.h"
#include "frame.h"

/** The network header in front of the BTH, and with it which fields the ICRC takes as ones. */
enum icrc_l3 {
    ICRC_IPV4, /**< 20 + 8 bytes before the BTH */
    ICRC_IPV6, /**< 40 + 8 */
    ICRC_GRH,  /**< RoCEv1: 40 */
};

/**
 * Compute the ICRC of a packet.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header.
 * @param len  Bytes from there to the last pad byte; at least the headers and a BTH.
 * @return  The ICRC as a number; on the wire its least significant byte comes first.
 */
uint32_t icrc_compute(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/**
 * The same by a bit-at-a-time loop over a masked copy: slow, obvious, for tests.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header.
 * @param len  Bytes from there to the last pad byte.
 * @return  The ICRC.
 */
uint32_t icrc_reference(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/**
 * Compute the ICRC of a packet and store it behind the packet.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header.
 * @param len  Bytes from there to the last pad byte; there is room for four more.
 */
void icrc_seal(enum icrc_l3 kind, uint8_t *l3, size_t len);

/**
 * Copy a payload into its packet, pad it to four bytes, and store the ICRC behind it. Each byte of
 * the payload is read once: an application that writes there at the same time may choose what is
 * sent, and cannot make its ICRC wrong.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header; the headers are complete.
 * @param head_len  Bytes from there to the payload.
 * @param from  The payload, which does not overlap the packet.
 * @param len  The payload's length in bytes.
 */
void icrc_seal_copy(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                    size_t len);

/**
 * Store the ICRC of several whole frames of one length. The frames are the same up to the BTH's
 * PSN.
 *
 * @param kind  The network header's kind.
 * @param l3_off  Where in each frame the network header begins. From there to the ICRC is a
 *     multiple of four bytes.
 * @param f  The frames; the last four bytes of each, by its len, become the ICRC.
 * @param n  How many, at least 1.
 */
void icrc_seal_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n);

/**
 * Check a packet's ICRC.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header.
 * @param len  Bytes from there through the ICRC.
 * @return  True when the last four bytes are the ICRC of those before; false also when len is too
 *     short to have one.
 */
bool icrc_verify(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/**
 * Copy a payload with its pad and ICRC into its packet, and check the ICRC in the same pass.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header; the headers are complete, with a BTH at least.
 * @param head_len  Bytes from there to the payload.
 * @param from  The payload, which does not overlap the packet.
 * @param len  Bytes at from: the payload, its pad and the ICRC; a multiple of four, at least four.
 * @return  As icrc_verify().
 */
bool icrc_verify_copy(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                      size_t len);

/**
 * By what a packet's ICRC differs from the right one.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header.
 * @param len  Bytes from there to the last pad byte; four more follow.
 * @return  0 when it is right; for icrc_seal_wrong().
 */
static inline uint32_t icrc_error(enum icrc_l3 kind, const uint8_t *l3, size_t len)
{
    return get_be32(l3 + len) ^ __builtin_bswap32(icrc_compute(kind, l3, len));
}

/**
 * icrc_seal() for a packet that was changed: a wrong ICRC is as wrong as it was.
 *
 * @param kind  The network header's kind.
 * @param l3  The first byte of the network header.
 * @param len  Bytes from there to the last pad byte; there is room for four more.
 * @param error  What icrc_error() was before the change.
 */
static inline void icrc_seal_wrong(enum icrc_l3 kind, uint8_t *l3, size_t len, uint32_t error)
{
    icrc_seal(kind, l3, len);
    put_be32(l3 + len, get_be32(l3 + len) ^ error);
}

/**
 * Bytes of the network headers before the BTH.
 *
 * @param kind  The network header's kind.
 * @return  Those of IP and UDP, or of the GRH.
 */
static inline unsigned icrc_headers(enum icrc_l3 kind)
{
    return kind == ICRC_IPV4 ? 20 + 8 : kind == ICRC_IPV6 ? 40 + 8 : 40;
}

/** A packet from its network header through its ICRC. */
struct icrc_span {
    const uint8_t *bth; /**< its BTH, behind the headers of its kind */
    uint16_t len; /**< from the network header on: headers, BTH and ICRC at least, and a multiple
                       of four */
    uint16_t payload; /**< bytes; for the caller */
    bool alike;       /**< as long as the one before, and the same up to the BTH's P_Key, except the
                         fields that change on the way */
};

/**
 * All but the address of a packet, for icrc_span_set(): consecutive packets mostly have the same.
 *
 * @param len  As the fields of struct icrc_span: bytes from the network header on,
 * @param payload  bytes of payload,
 * @param alike  and whether it is like the one before.
 * @return  The three in one word, as they lie in memory.
 */
static inline uint64_t icrc_span_sizes(uint16_t len, uint16_t payload, bool alike)
{
    const struct icrc_span s = {.len = len, .payload = payload, .alike = alike};
    uint64_t sizes;

    memcpy(&sizes, &s.len, sizeof(sizes));
    return sizes;
}

/**
 * Set a packet.
 *
 * @param s  Set.
 * @param bth  Its BTH; borrowed.
 * @param sizes  Of icrc_span_sizes().
 */
static inline void icrc_span_set(struct icrc_span *s, const uint8_t *bth, uint64_t sizes)
{
    s->bth = bth;
    memcpy(&s->len, &sizes, sizeof(sizes));
}

/**
 * Check the ICRCs of several packets.
 *
 * @param kind  The network header's kind, of all packets.
 * @param s  The packets.
 * @param n  How many.
 * @return  How many packets from the first one on have the right ICRC: n when all have.
 */
unsigned icrc_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n);

#endif
