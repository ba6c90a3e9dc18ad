/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What receive-side scaling looks at: the addresses of a packet, and of UDP and TCP its ports, as
 * bytes in the order that NICs hash them. Pure; any thread.
 */
#ifndef UROCE_RSS_INPUT_H
#define UROCE_RSS_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "gid.h"

/* A packet's addresses and ports. IPv4 if both addresses are IPv4-mapped, else IPv6. */
struct rss_tuple {
    union gid src, dst;
    uint16_t sport, dport;
};

/* Which fields take part. */
enum {
    RSS_SRC_ADDRESS = 1 << 0,
    RSS_DST_ADDRESS = 1 << 1,
    RSS_SRC_PORT = 1 << 2,
    RSS_DST_PORT = 1 << 3,
    RSS_ADDRESSES = RSS_SRC_ADDRESS | RSS_DST_ADDRESS,
    RSS_ALL = RSS_ADDRESSES | RSS_SRC_PORT | RSS_DST_PORT,
};

#define RSS_INPUT_MAX 36 /* IPv6 with ports */

static inline bool rss_is_ipv4(const struct rss_tuple *t)
{
    return gid_is_ipv4(&t->src) && gid_is_ipv4(&t->dst);
}

/*
 * Writes the chosen fields: source address, destination address, source port, destination port.
 * A field that is not chosen is left out, and those behind it move up. Returns the number of
 * bytes.
 */
unsigned rss_input(uint8_t out[RSS_INPUT_MAX], const struct rss_tuple *t, unsigned fields);

/*
 * The hash that the Verbs RSS proposal has beside Toeplitz: the exclusive or of all fields, as
 * 16-bit words. The proposal names it without defining its width; this is wide enough for every
 * table, and like any such sum it is the same for both directions of a flow.
 */
uint32_t rss_xor(const uint8_t *input, unsigned len);

#endif
