/* SPDX-License-Identifier: BSD-3-Clause */
/* The Internet checksums of any Ethernet frame (RFC 1071): of its IPv4 header, and of TCP and UDP.
 * Behind at most two tags; IPv6 without extension headers; not of tunnels. Pure; any thread. */
#ifndef UROCE_FRAME_CSUM_H
#define UROCE_FRAME_CSUM_H

#include <stdbool.h>
#include <stdint.h>

/* Writes them. A fragment gets its IPv4 header's alone; what is cut short, or contradicts itself,
 * stays as it is. */
void frame_csum_write(uint8_t *frame, uint32_t len);

/* Whether the frame is a whole packet of IPv4, with TCP or UDP in it, and both checksums are right.
 * UDP may do without: 0 is right there, too (RFC 768). */
bool frame_csum_is_right(const uint8_t *frame, uint32_t len);

#endif
