/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive queue of a flow, before its packets arrive: see predict.h. */
#include "predict.h"

#include <errno.h>
#include <string.h>

#include "encap.h"

void rss_init_toeplitz(struct rss *rss, const uint8_t key[TOEPLITZ_KEY_LEN], unsigned fields)
{
    rss->function = RSS_TOEPLITZ;
    rss->fields = fields;
    memcpy(rss->toeplitz_key, key, TOEPLITZ_KEY_LEN);
    toeplitz_init(&rss->toeplitz, key);
}

void rss_init_xor(struct rss *rss, unsigned fields)
{
    rss->function = RSS_XOR;
    rss->fields = fields;
}

uint32_t rss_hash(const struct rss *rss, const struct rss_tuple *t)
{
    uint8_t input[RSS_INPUT_MAX];
    unsigned len = rss_input(input, t, rss->fields);

    if (rss->function == RSS_XOR)
        return rss_xor(input, len);
    return toeplitz_hash(&rss->toeplitz, input, len);
}

uint16_t predict_queue(const struct rss *rss, const union gid *src, const union gid *dst,
                       const struct entropy_policy *policy, const struct entropy_flow *flow)
{
    struct rss_tuple t = {*src, *dst, entropy_port(policy, flow), ROCE_UDP_PORT};

    return rss_queue(rss, &t);
}

int predict_port(const struct rss *rss, const union gid *src, const union gid *dst, uint16_t queue,
                 uint16_t first)
{
    struct rss_tuple t = {*src, *dst, 0, ROCE_UDP_PORT};

    if (first < ENTROPY_PORT_MIN)
        return -EINVAL;
    for (unsigned i = 0; i < ENTROPY_PORTS; i++) {
        t.sport = (uint16_t)(first + i) | ENTROPY_PORT_MIN;
        if (rss_queue(rss, &t) == queue)
            return t.sport;
    }
    return -ENOENT;
}
