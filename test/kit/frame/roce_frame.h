/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCEv2 frames for tests of what stands below the transport: right outside, numbers inside. */
#ifndef UROCE_TEST_ROCE_FRAME_H
#define UROCE_TEST_ROCE_FRAME_H

#include "rss_frame.h"

struct roce_flow {
    uint8_t smac[6], dmac[6];
    union gid src, dst; /* both IPv4-mapped, or both IPv6 */
    bool tagged;
    uint16_t sport;
    uint32_t dest_qpn;
};

#define ROCE_FRAME_MAX 96

/* Flow `n` of many: its own source port and queue pair, between two hosts. */
struct roce_flow roce_flow_number(unsigned n, bool ipv6);
/* Writes a frame with a number as its payload; returns its length. */
uint32_t roce_frame_write(uint8_t out[ROCE_FRAME_MAX], const struct roce_flow *flow,
                          uint32_t number);
/* The number of such a frame. */
uint32_t roce_frame_number(const uint8_t *frame, uint32_t len);
/* What rss_frame_read should find. */
struct rss_frame roce_flow_tuple(const struct roce_flow *flow);

#endif
