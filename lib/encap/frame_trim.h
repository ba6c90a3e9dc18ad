/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Trimmed frames: a switch without room for a RoCEv2 frame forwards its headers alone, with a code
 * point that says so, and its receiver need not wait to find out that the packet is lost. Pure; any
 * thread.
 *
 * What is left has no ICRC, so no receiver takes it for the packet that it was. The lengths of IP
 * and UDP are those of what is left: the frame stays well-formed for every router on its way, and
 * its receiver can check each of its lengths against the others. Switches that leave the lengths,
 * or a part of the payload, are understood as well: frame_trim() gives all of these one form.
 */
#ifndef UROCE_FRAME_TRIM_H
#define UROCE_FRAME_TRIM_H

#include <stdbool.h>
#include <stdint.h>

#include "encap.h"
#include "pkt.h"

/** Bytes that hold all headers of any frame. */
#define FRAME_TRIM_MAX (ENCAP_MAX_LEN + PKT_MAX_HEADER)

/**
 * Whether a frame is one to trim: of RoCEv2, with a payload behind its headers. ACKs and what has
 * a short payload of a fixed size (CNPs, ATOMIC WRITEs) are not.
 *
 * @param v  The frame, as encap_rx() accepted it.
 * @return  True if there is something to cut.
 */
bool frame_may_be_trimmed(const struct encap_view *v);

/**
 * The code point of a frame.
 *
 * @param frame  The first byte of the Ethernet header.
 * @param len  Bytes at frame; no byte behind them is read.
 * @return  0 to 63; -1: not a frame of IPv4 or IPv6, with or without an 802.1Q tag, or too short.
 */
int frame_dscp(const uint8_t *frame, uint32_t len);

/**
 * Cut a frame behind the last header of its packet, and say so: the lengths of IP and UDP, the code
 * point and the header checksum are written; the checksum of UDP becomes 0. The ECN bits stay. A
 * frame that is trimmed already stays what it is, but for the code point.
 *
 * @param frame  The first byte of the Ethernet header.
 * @param len  Bytes at frame; none behind them is read or written. They need not hold what the IP
 *     header announces.
 * @param dscp  The code point.
 * @return  The new length, at most len and FRAME_TRIM_MAX. 0, and nothing is written: not RoCEv2, a
 *     fragment, with options or a wrong checksum in the IPv4 header, an undefined opcode, a header
 *     that is not there as a whole, or lengths that contradict each other or the headers.
 */
uint32_t frame_trim(uint8_t *frame, uint32_t len, uint8_t dscp);

/** What a trimmed frame says. */
struct frame_trimmed {
    uint8_t headers[FRAME_TRIM_MAX + ICRC_LEN]; /**< a copy, and zeros */
    struct encap_view view;                     /**< leads into the copy */
    struct pkt pkt;                             /**< with a payload of 0 bytes, and no pad */
};

/**
 * Read a trimmed frame.
 *
 * @param t  Set on success.
 * @param frame  The first byte of the Ethernet header.
 * @param len  Bytes at frame; no byte behind them is read.
 * @param dscp  The code point of trimmed frames.
 * @param port  The port that received it.
 * @return  True if it has the code point, encap_rx() accepts what frame_trim() leaves of it, and its
 *     packet is of an opcode that has a payload.
 */
bool frame_trim_read(struct frame_trimmed *t, const uint8_t *frame, uint32_t len, uint8_t dscp,
                     const struct encap_port *port);

#endif
