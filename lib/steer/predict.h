/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On which receive queue a flow's packets will arrive. A NIC decides by a hash of addresses and UDP
 * ports; of a RoCEv2 flow all of these are known beforehand when the sender follows an entropy
 * rule. Tuples are those of the arriving packets: src is the peer. Pure; any thread.
 */
#ifndef UROCE_PREDICT_H
#define UROCE_PREDICT_H

#include <stdint.h>

#include "entropy.h"
#include "indirection.h"
#include "rss_input.h"
#include "toeplitz.h"

enum rss_function {
    RSS_TOEPLITZ,
    RSS_XOR,
};

/* A port's receive-side scaling. */
struct rss {
    enum rss_function function;
    unsigned fields; /* RSS_SRC_ADDRESS and others */
    uint8_t toeplitz_key[TOEPLITZ_KEY_LEN];
    struct toeplitz toeplitz;
    struct indirection table;
};

/* Toeplitz with this key over these fields; the table is for the caller to fill. */
void rss_init_toeplitz(struct rss *rss, const uint8_t key[TOEPLITZ_KEY_LEN], unsigned fields);

/* The XOR hash over these fields; the table is for the caller to fill. */
void rss_init_xor(struct rss *rss, unsigned fields);

/* A packet's hash, as the NIC reports it. */
uint32_t rss_hash(const struct rss *rss, const struct rss_tuple *t);

static inline uint16_t rss_queue(const struct rss *rss, const struct rss_tuple *t)
{
    return indirection_lookup(&rss->table, rss_hash(rss, t));
}

/* The queue for RoCEv2 packets of a flow from peer src to dst; the peer follows the policy. */
uint16_t predict_queue(const struct rss *rss, const union gid *src, const union gid *dst,
                       const struct entropy_policy *policy, const struct entropy_flow *flow);

/*
 * The first source port that brings RoCEv2 packets from src to dst to a wanted queue, of the
 * candidates first, first + 1, ..., 0xFFFF, 0xC000, ..., first - 1. Flows that each begin at a
 * port of their own keep different ports, and so different paths through the network. -EINVAL:
 * first is no candidate; -ENOENT: none leads to that queue (the hash has no source port, or the
 * table no such queue).
 */
int predict_port(const struct rss *rss, const union gid *src, const union gid *dst, uint16_t queue,
                 uint16_t first);

#endif
