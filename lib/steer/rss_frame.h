/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of a received frame decides its queue, for ports that spread frames themselves. Pure; any
 * thread.
 */
#ifndef UROCE_RSS_FRAME_H
#define UROCE_RSS_FRAME_H

#include "rss_input.h"

struct rss_frame {
    struct rss_tuple tuple;
    uint32_t dest_qpn;
};

/*
 * Takes a whole Ethernet frame, with or without a tag, apart. False: it is not RoCEv2 in one piece
 * (UDP to port 4791 over IPv4, or over IPv6 without extension headers) with a whole BTH; lengths
 * that the headers claim are not looked at further.
 */
bool rss_frame_read(struct rss_frame *out, const uint8_t *frame, uint32_t len);

#endif
