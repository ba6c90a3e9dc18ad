/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A frame: the bytes of one Ethernet frame, in memory of the port. Packet I/O lends frames for
 * reading (receive) and for writing (transmit); the layers above do not know how it stores them.
 */
#ifndef UROCE_FRAME_H
#define UROCE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

struct frame {
    uint8_t *data; /* first byte of the Ethernet header */
    uint32_t len;  /* receive: bytes present; transmit: set by the code that fills the frame */
    uint32_t room; /* bytes that may be written at data; 0 on receive */
    void *cookie;  /* the port's handle (an mbuf, a slot) */
    /* Transmit: the port sets it if the frame never leaves this process, so that the ICRC may be
     * omitted; the code that fills the frame clears it if it stores an ICRC. Receive: the frame has
     * no ICRC. */
    bool icrc_omitted;
};

/* The largest burst: the longest array of frames that is passed to packet I/O or the engine. */
#define FRAME_BURST 32

#endif
