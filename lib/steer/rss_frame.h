/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What of a received frame decides its queue, for ports that spread frames themselves. Pure; any
 * thread.
 */
#ifndef UROCE_RSS_FRAME_H
#define UROCE_RSS_FRAME_H

#include "rss_input.h"

/** What decides a frame's queue. */
struct rss_frame {
    struct rss_tuple tuple;
    uint32_t dest_qpn;
};

/**
 * Read a whole Ethernet frame, with or without a tag.
 *
 * @param out  Set when the result is true.
 * @param frame  The first byte of the Ethernet header.
 * @param len  Bytes at frame; no byte behind them is read.
 * @return  True when the frame is RoCEv2 in one piece (UDP to port 4791 over IPv4, or over IPv6
 *     without extension headers) with a whole BTH. Lengths that the headers claim are not checked
 *     further.
 */
bool rss_frame_read(struct rss_frame *out, const uint8_t *frame, uint32_t len);

#endif
