/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What receive-side scaling looks at: the addresses of a packet, and of UDP and TCP its ports, as
 * bytes in the order that NICs hash them. Pure; any thread.
 */
#ifndef UROCE_RSS_INPUT_H
#define UROCE_RSS_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "gid.h"

/** A packet's addresses and ports. IPv4 if both addresses are IPv4-mapped, else IPv6. */
struct rss_tuple {
    union gid src, dst;
    uint16_t sport, dport;
};

/** Which fields take part. */
enum {
    RSS_SRC_ADDRESS = 1 << 0,
    RSS_DST_ADDRESS = 1 << 1,
    RSS_SRC_PORT = 1 << 2,
    RSS_DST_PORT = 1 << 3,
    RSS_ADDRESSES = RSS_SRC_ADDRESS | RSS_DST_ADDRESS,
    RSS_ALL = RSS_ADDRESSES | RSS_SRC_PORT | RSS_DST_PORT,
};

#define RSS_INPUT_MAX 36 /**< IPv6 with ports */

/**
 * Whether a packet is hashed as IPv4.
 *
 * @param t  The packet's addresses.
 * @return  True when both are IPv4-mapped.
 */
static inline bool rss_is_ipv4(const struct rss_tuple *t)
{
    return gid_is_ipv4(&t->src) && gid_is_ipv4(&t->dst);
}

/**
 * Write the fields that are hashed: source address, destination address, source port, destination
 * port. A field that is not chosen is left out, and those behind it move up.
 *
 * @param out  The bytes.
 * @param t  The packet.
 * @param fields  RSS_SRC_ADDRESS and others.
 * @return  The number of bytes, at most RSS_INPUT_MAX.
 */
unsigned rss_input(uint8_t out[RSS_INPUT_MAX], const struct rss_tuple *t, unsigned fields);

/**
 * The hash that the Verbs RSS proposal has beside Toeplitz: the exclusive or of all fields, as
 * 16-bit words. The proposal does not define its width; 16 bits are enough for every table. The
 * hash is the same for both directions of a flow.
 *
 * @param input  What rss_input() wrote.
 * @param len  Its length in bytes.
 * @return  The hash, 16 bits.
 */
uint32_t rss_xor(const uint8_t *input, unsigned len);

#endif
