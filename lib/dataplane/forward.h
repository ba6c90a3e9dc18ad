/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that one worker received and another worker owns: copies in a ring of bytes with one
 * producer and one consumer. The ring holds frames at their own length, so short frames touch
 * little of the cache. The producer gives its own frame back to the port at once, and no port has
 * to take frames from other threads.
 */
#ifndef UROCE_FORWARD_H
#define UROCE_FORWARD_H

#include <stdbool.h>

#include "frame.h"

#define FORWARD_RING_BYTES (512u * 1024) /* a power of two */
#define FORWARD_FRAME_MAX  16384u        /* the longest frame */

/* For a worker that is behind, whose ring is half full, the others receive nothing for that long;
 * then what it has no room for is dropped. */
#define RX_PAUSE_MAX (100 * NS_PER_MS)

struct forward_ring;

/* Where the consumer delivers a frame. */
struct forward_target {
    void *to;          /* the consumer's part of the port */
    bool for_host;     /* to the port's IP host instead of the engine */
    bool for_sniffers; /* to the engine's sniffers alone */
};

/* NULL: out of memory. Pages that were never used take no memory. Control thread. */
struct forward_ring *forward_create(void);
void forward_destroy(struct forward_ring *ring);

/* Copies a frame into the ring. False: there is no room now, or the frame is too long. The
 * producer. */
bool forward_put(struct forward_ring *ring, const struct forward_target *target,
                 const struct frame *f);

/* Whether the ring is half full, so that one more burst might not fit. The producer. */
bool forward_is_half_full(struct forward_ring *ring);

/*
 * The oldest frames, up to n, all for the same target; returns how many. They stay valid until
 * forward_release, which frees their room in the ring; until then a call returns the same frames
 * again. The consumer.
 */
unsigned forward_take(struct forward_ring *ring, struct forward_target *target, struct frame *f,
                      unsigned n);
void forward_release(struct forward_ring *ring);

/* Any thread: may be out of date. */
bool forward_empty(const struct forward_ring *ring);

#endif
