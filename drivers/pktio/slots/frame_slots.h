/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frames of a queue whose memory is the port's own: slots of one size. A frame's cookie is its
 * slot. The queue's worker.
 */
#ifndef UROCE_PKTIO_FRAME_SLOTS_H
#define UROCE_PKTIO_FRAME_SLOTS_H

#include "common.h"
#include "frame.h"
#include "icrc.h"

#define FRAME_SLOTS 2048 /* a power of two */

struct frame_slots {
    uint8_t *memory;
    uint32_t room; /* bytes of a slot */
    uint32_t len[FRAME_SLOTS];
    bool omitted[FRAME_SLOTS]; /* the frame has no ICRC */
    uint16_t free[FRAME_SLOTS];
    unsigned free_count;
    uint16_t local[FRAME_SLOTS]; /* frames to the port itself, which wait */
    unsigned local_head, local_tail;
};

/* Allocates slots of `room` bytes each. 0 or -ENOMEM. */
int frame_slots_init(struct frame_slots *s, uint32_t room);
void frame_slots_fini(struct frame_slots *s);

static inline uint8_t *frame_slot(const struct frame_slots *s, uint16_t slot)
{
    return s->memory + (size_t)slot * s->room;
}

static inline uint16_t frame_slot_of(const struct frame *f)
{
    return (uint16_t)(uintptr_t)f->cookie;
}

/* A free slot; there is one (free_count). */
static inline uint16_t frame_slots_take(struct frame_slots *s)
{
    return s->free[--s->free_count];
}

static inline void frame_slots_free(struct frame_slots *s, uint16_t slot)
{
    s->free[s->free_count++] = slot;
}

/* A frame of the port to itself: frame_slots_take_local finds it. */
static inline void frame_slots_put_local(struct frame_slots *s, uint16_t slot)
{
    s->local[s->local_tail++ & (FRAME_SLOTS - 1)] = slot;
}

static inline bool frame_slots_have_local(const struct frame_slots *s)
{
    return s->local_head != s->local_tail;
}

/* A received frame that begins with its slot. */
struct frame frame_slots_frame(const struct frame_slots *s, uint16_t slot);
unsigned frame_slots_take_local(struct frame_slots *s, struct frame *f, unsigned n);

/* Lends up to n empty frames, whose icrc_omitted is `omitted`. Half of the slots are left for what
 * arrives. */
unsigned frame_slots_lend(struct frame_slots *s, struct frame *f, unsigned n, bool omitted);

/* Notes what was written to a lent frame. Returns its slot. */
static inline uint16_t frame_slots_note(struct frame_slots *s, const struct frame *f)
{
    uint16_t slot = frame_slot_of(f);

    s->len[slot] = f->len;
    s->omitted[slot] = f->icrc_omitted;
    return slot;
}

/* Frees the slots of frames, received or lent. */
void frame_slots_release(struct frame_slots *s, const struct frame *f, unsigned n);

/* Copies a received packet from its BTH on, `len` bytes with its ICRC, behind its headers of IP and
 * UDP at l3. Returns whether the ICRC, which is computed in the same pass, is right. */
bool frame_copy_verified(uint8_t *l3, enum icrc_l3 kind, const uint8_t *bth, uint32_t len);

#endif
