/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames from one worker to another: copies, in a ring of bytes with one producer and one consumer,
 * so that short frames take little of the cache. Who passes a frame on gives its own back to the
 * port at once, and no port has to take frames from other threads.
 */
#ifndef UROCE_HANDOVER_H
#define UROCE_HANDOVER_H

#include <stdbool.h>

#include "frame.h"

#define HANDOVER_BYTES (512u * 1024) /* a power of two */
#define HANDOVER_FRAME 16384u        /* the longest frame */

struct handover;

/* What is said of a frame. */
struct handover_note {
    void *to;      /* where at the consumer it goes */
    bool for_host; /* not for an engine but for the port's IP host */
};

/* NULL: out of memory. Memory that was never used takes none. Control thread. */
struct handover *handover_create(void);
void handover_destroy(struct handover *h);

/* Copies a frame in. False: there is no room now, or it is too long. The producer. */
bool handover_put(struct handover *h, const struct handover_note *note, const struct frame *f);

/* Whether it is half full, so that a burst more might not find room. The producer. */
bool handover_is_tight(struct handover *h);

/*
 * The oldest frames, up to n, all with the same note, which stay where they are until
 * handover_release, with which the consumer gives just these back. Returns how many. The consumer.
 */
unsigned handover_take(struct handover *h, struct handover_note *note, struct frame *f, unsigned n);
void handover_release(struct handover *h);

/* Any thread: may be out of date. */
bool handover_empty(const struct handover *h);

#endif
