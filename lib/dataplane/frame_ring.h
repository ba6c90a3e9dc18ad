/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of frames from one thread to another: one producer, one consumer, no lock. A pair of these
 * is the slow path between a worker and the control thread, for frames that are not RoCE.
 */
#ifndef UROCE_FRAME_RING_H
#define UROCE_FRAME_RING_H

#include <stdbool.h>
#include <stdint.h>

/* A power of two: a storm of connections has three messages of each on the way. */
#define FRAME_RING_SLOTS 1024
#define FRAME_RING_ROOM  10000 /* bytes of the longest frame */

struct frame_ring;

/* NULL: out of memory. Slots that were never used take no memory. */
struct frame_ring *frame_ring_create(void);
void frame_ring_destroy(struct frame_ring *r);

/* Copies a frame into the ring. False: the ring is full, or the frame is too long. The producer. */
bool frame_ring_put(struct frame_ring *r, const uint8_t *frame, uint32_t len);

/* The oldest frame, valid until frame_ring_pop; NULL: none. The consumer. */
const uint8_t *frame_ring_peek(struct frame_ring *r, uint32_t *len);
void frame_ring_pop(struct frame_ring *r);

/* Any thread: may be out of date. */
bool frame_ring_empty(const struct frame_ring *r);

#endif
