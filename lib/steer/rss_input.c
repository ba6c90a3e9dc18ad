/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes that receive-side scaling hashes: see rss_input.h. */
#include "rss_input.h"

#include <string.h>

#include "bytes.h"

#define IPV4_OFFSET 12 /* in an IPv4-mapped address */

static uint8_t *put_address(uint8_t *out, const union gid *g, bool ipv4)
{
    unsigned skip = ipv4 ? IPV4_OFFSET : 0, len = (unsigned)sizeof(g->raw) - skip;

    memcpy(out, g->raw + skip, len);
    return out + len;
}

static uint8_t *put_port(uint8_t *out, uint16_t port)
{
    put_be16(out, port);
    return out + sizeof(port);
}

unsigned rss_input(uint8_t out[RSS_INPUT_MAX], const struct rss_tuple *t, unsigned fields)
{
    bool ipv4 = rss_is_ipv4(t);
    uint8_t *end = out;

    if (fields & RSS_SRC_ADDRESS)
        end = put_address(end, &t->src, ipv4);
    if (fields & RSS_DST_ADDRESS)
        end = put_address(end, &t->dst, ipv4);
    if (fields & RSS_SRC_PORT)
        end = put_port(end, t->sport);
    if (fields & RSS_DST_PORT)
        end = put_port(end, t->dport);
    return (unsigned)(end - out);
}

uint32_t rss_xor(const uint8_t *input, unsigned len)
{
    uint16_t sum = 0;

    for (unsigned i = 0; i + 1 < len; i += 2)
        sum ^= get_be16(input + i);
    return sum;
}
