/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A frame: bytes of one Ethernet frame that somebody else owns. Packet I/O lends frames for
 * reading (receive) and for writing (transmit); nothing above it knows how they are stored.
 */
#ifndef UROCE_FRAME_H
#define UROCE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

struct frame {
    uint8_t *data; /* first byte of the Ethernet header */
    uint32_t len;  /* receive: bytes present; transmit: set by whoever fills the frame */
    uint32_t room; /* bytes that may be written at data; 0 on receive */
    void *cookie;  /* the owner's own handle (an mbuf, a slot) */
    /* It never leaves this process, and nobody else looks at it: its ICRC may be left out. Set by
     * the port that lends it; what fills it clears it unless it left the ICRC out. A received frame
     * with it has none. */
    bool icrc_omitted;
};

/* Frames taken or given in one call; arrays passed to packet I/O and the engine are at most this.
 */
#define FRAME_BURST 32

#endif
