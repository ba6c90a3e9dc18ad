/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The MAD by which two ports of the project tell each other what they can do beyond the
 * specification: of a vendor's class (13.4.4), method Get, answered by the peer's own. Pure; any
 * thread.
 *
 * Layout: common header 24 | zeros | OUI at 37, 3 | zeros | "uroce" at 40, zero-terminated, 8 |
 * features 4. The OUI is a locally administered one.
 */
#ifndef UROCE_PEER_MAD_H
#define UROCE_PEER_MAD_H

#include <stdbool.h>

#include "mad.h"

#define PEER_MAD_CLASS     0x35
#define PEER_MAD_ATTRIBUTE 0x0010

/** What a port can do: bits. Unknown ones are ignored. */
enum peer_feature {
    PEER_KEPT_MAPS = 1, /**< it takes and sends maps of kept packets (kept_map.h) */
};

/**
 * Make a request.
 *
 * @param mad  MAD_LEN bytes: set.
 * @param transaction  What the answer will have.
 * @param features  Own ones, enum peer_feature.
 */
void peer_mad_ask(uint8_t *mad, uint64_t transaction, uint32_t features);

/**
 * Put the features into a MAD that answers a request.
 *
 * @param mad  MAD_LEN bytes: a request that peer_mad_read() took, made a response.
 * @param features  Own ones.
 */
void peer_mad_put(uint8_t *mad, uint32_t features);

/**
 * Read a request or a response.
 *
 * @param mad  MAD_LEN bytes from the wire.
 * @param features  Set: those of the sender.
 * @return  False: it is another vendor's, of another version, or a response that refuses.
 */
bool peer_mad_read(const uint8_t *mad, uint32_t *features);

#endif
