/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames from one worker to another: copies, in a ring of bytes with one producer and one consumer,
 * so that short frames take little of the cache. Who passes a frame on gives its own back to the
 * port at once, and no port has to take frames from other threads.
 */
#ifndef UROCE_FORWARD_H
#define UROCE_FORWARD_H

#include <stdbool.h>

#include "frame.h"

#define HANDOVER_BYTES (512u * 1024) /* a power of two */
#define HANDOVER_FRAME 16384u        /* the longest frame */

struct forward_rings;

/* What is said of a frame. */
struct forward_note {
    void *to;          /* where at the consumer it goes */
    bool for_host;     /* not for an engine but for the port's IP host */
    bool for_sniffers; /* of the engine, and for nobody else */
};

/* NULL: out of memory. Memory that was never used takes none. Control thread. */
struct forward_rings *forward_create(void);
void forward_destroy(struct forward_rings *h);

/* Copies a frame in. False: there is no room now, or it is too long. The producer. */
bool forward_put(struct forward_rings *h, const struct forward_note *note, const struct frame *f);

/* Whether it is half full, so that a burst more might not find room. The producer. */
bool forward_is_tight(struct forward_rings *h);

/*
 * The oldest frames, up to n, all with the same note, which stay where they are until
 * forward_release, with which the consumer gives just these back. Returns how many. The consumer.
 */
unsigned forward_take(struct forward_rings *h, struct forward_note *note, struct frame *f,
                      unsigned n);
void forward_release(struct forward_rings *h);

/* Any thread: may be out of date. */
bool forward_empty(const struct forward_rings *h);

#endif
