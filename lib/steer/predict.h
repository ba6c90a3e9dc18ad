/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
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

/** The hashes that a port may use. */
enum rss_function {
    RSS_TOEPLITZ,
    RSS_XOR,
};

/** A port's receive-side scaling. */
struct rss {
    enum rss_function function;
    unsigned fields; /**< RSS_SRC_ADDRESS and others */
    uint8_t toeplitz_key[TOEPLITZ_KEY_LEN];
    struct toeplitz toeplitz;
    struct indirection table;
};

/**
 * Set the Toeplitz hash; the caller fills the table (indirection_init).
 *
 * @param rss  Set except for its table.
 * @param key  The key, copied.
 * @param fields  What is hashed: RSS_SRC_ADDRESS and others.
 */
void rss_init_toeplitz(struct rss *rss, const uint8_t key[TOEPLITZ_KEY_LEN], unsigned fields);

/**
 * Set the XOR hash; the caller fills the table (indirection_init).
 *
 * @param rss  Set except for its table.
 * @param fields  What is hashed: RSS_SRC_ADDRESS and others.
 */
void rss_init_xor(struct rss *rss, unsigned fields);

/**
 * A packet's hash, as the NIC reports it.
 *
 * @param rss  The port's scaling.
 * @param t  The packet as it arrives: src is the peer.
 * @return  The hash.
 */
uint32_t rss_hash(const struct rss *rss, const struct rss_tuple *t);

/**
 * The queue on which a packet arrives.
 *
 * @param rss  The port's scaling.
 * @param t  The packet as it arrives: src is the peer.
 * @return  The queue.
 */
static inline uint16_t rss_queue(const struct rss *rss, const struct rss_tuple *t)
{
    return indirection_lookup(&rss->table, rss_hash(rss, t));
}

/**
 * The queue on which RoCEv2 packets of a flow arrive. The peer follows the policy.
 *
 * @param rss  The port's scaling.
 * @param src  The peer's address.
 * @param dst  The port's.
 * @param policy  The peer's policy of source ports.
 * @param flow  The flow as the peer sees it: src_qpn is the peer's.
 * @return  The queue.
 */
uint16_t predict_queue(const struct rss *rss, const union gid *src, const union gid *dst,
                       const struct entropy_policy *policy, const struct entropy_flow *flow);

/**
 * The first source port that brings RoCEv2 packets to a wanted queue, among the candidates first,
 * first + 1, ..., 0xFFFF, 0xC000, ..., first - 1. Flows that each begin at a port of their own keep
 * different ports, and with them different paths through the network.
 *
 * @param rss  The port's scaling.
 * @param src  The peer's address.
 * @param dst  The port's.
 * @param queue  The queue that the packets should arrive on.
 * @param first  The first candidate, 0xC000 to 0xFFFF.
 * @return  The port; -EINVAL: first is no candidate; -ENOENT: no port leads to that queue (the hash
 *     does not look at the source port, or the table has no such queue).
 */
int predict_port(const struct rss *rss, const union gid *src, const union gid *dst, uint16_t queue,
                 uint16_t first);

#endif
