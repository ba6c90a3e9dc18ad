/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataplane's end of a completion queue. Each worker posts into its own lane. Pure.
 */
#ifndef UROCE_COMP_QUEUE_H
#define UROCE_COMP_QUEUE_H

#include <stdbool.h>

#include "queue_abi.h"

#define CQ_MAX_LANES 16

struct comp_queue {
    struct cq_shared *shared;
    uint32_t size, lanes;
    uint32_t handle;
    uint64_t cookie;           /* the application's, in events */
    void *owner;               /* the device's object */
    uint8_t apart[CACHE_LINE]; /* every worker reads what is above, and writes its lane */
    struct comp_lane {
        uint32_t prod;
        uint32_t end; /* where the ring is full, as far as is known of what was consumed */
        struct cq_lane *ring;
        bool overrun;                   /* set by an overflow; nothing is posted any more */
        bool touched;                   /* posted to since the last cq_take_event */
        bool solicited;                 /* one of those was solicited or unsuccessful */
        uint8_t apart[CACHE_LINE - 19]; /* lanes belong to different workers: no line in common */
    } lane[CQ_MAX_LANES];
};

/* Sets up the private end over a zeroed segment of cq_segment_bytes(size, lanes). size: a power of
 * two. */
void comp_queue_init(struct comp_queue *cq, struct cq_shared *shared, uint32_t size,
                     uint32_t lanes);

/*
 * Posts *e (all fields but seq) into `lane`. solicited: the completion was asked to raise an event.
 * Returns 0, or -ENOSPC when the ring is full or the application's index makes no sense: the queue
 * is overrun from then on (C11-39: CQ error). The lane's worker.
 */
int cq_post(struct comp_queue *cq, uint32_t lane, const struct cqe *e, bool solicited);

/*
 * cq_post for who has many successful completions in a row, into one lane: begin, then for each
 * next and give, then end; nothing else is posted there meanwhile.
 */
struct cq_batch {
    struct cqe *entry;
    uint32_t mask, prod, end;
};

static inline struct cq_batch cq_batch_begin(struct comp_queue *cq, uint32_t lane_index)
{
    const struct comp_lane *lane = &cq->lane[lane_index];

    return (struct cq_batch){
        .entry = lane->ring->entry, .mask = cq->size - 1, .prod = lane->prod, .end = lane->end};
}

/* Where the next one is to be written, all fields but seq, and that not even in passing: the
 * application may be looking. There is room, as cq_room said. */
static inline struct cqe *cq_batch_entry(const struct cq_batch *r)
{
    return &r->entry[r->prod & r->mask];
}

/* The same for who does not know. NULL: perhaps there is no room, which cq_post finds out. */
static inline struct cqe *cq_batch_next(const struct cq_batch *r)
{
    return likely(r->prod != r->end) ? cq_batch_entry(r) : NULL;
}

static inline void cq_batch_give(struct cq_batch *r, struct cqe *e)
{
    atomic_store_explicit(&e->seq, ++r->prod, memory_order_release);
}

/* solicited: one of them was asked to raise an event. */
static inline void cq_batch_end(struct comp_queue *cq, uint32_t lane_index,
                                const struct cq_batch *r, bool solicited)
{
    struct comp_lane *lane = &cq->lane[lane_index];

    lane->touched |= lane->prod != r->prod;
    lane->solicited |= solicited;
    lane->prod = r->prod;
}

/* How many of `want` completions there is room for. Unlike posting it does not overrun the queue
 * when there is none. The lane's worker. */
uint32_t cq_room(struct comp_queue *cq, uint32_t lane_index, uint32_t want);

/*
 * After a burst of posts: whether an event is due. Clears `touched`, and disarms the queue if so.
 * The lane's worker.
 */
bool cq_take_event(struct comp_queue *cq, uint32_t lane);

/* Whether the application has read everything that was posted into the lane. The lane's worker. */
bool cq_lane_is_empty(const struct comp_queue *cq, uint32_t lane);

/* ---- the application's end ---- */

/* To begin, set the first three and zero the rest. */
struct cq_reader {
    struct cq_shared *shared;
    uint32_t size, lanes;
    uint32_t next_lane, run; /* the lane being read, and how many entries in a row came from it */
    uint32_t cons[CQ_MAX_LANES];
};

/* Entries that a reader takes from one lane before it looks at the others: staying is cheaper than
 * going round, but a lane that never runs dry must not hide the others. */
#define LANE_RUN 32

static inline void cq_reader_next_lane(struct cq_reader *r)
{
    r->next_lane = r->next_lane + 1 < r->lanes ? r->next_lane + 1 : 0;
    r->run = 0;
}

/* The next completion, or NULL when there is none. Valid until cq_reader_advance. One thread at a
 * time. */
static inline const struct cqe *cq_reader_peek(struct cq_reader *r)
{
    for (uint32_t tried = 0; tried < r->lanes; tried++) {
        uint32_t cons = r->cons[r->next_lane];
        struct cq_lane *ring = cq_lane_at(r->shared, r->size, r->next_lane);
        const struct cqe *e = &ring->entry[cons & (r->size - 1)];

        if (atomic_load_explicit(&e->seq, memory_order_acquire) == cons + 1)
            return e;
        cq_reader_next_lane(r);
    }
    return NULL;
}

/* Gives the entry that cq_reader_peek returned back to the dataplane. */
static inline void cq_reader_advance(struct cq_reader *r)
{
    struct cq_lane *ring = cq_lane_at(r->shared, r->size, r->next_lane);

    atomic_store_explicit(&ring->cons, ++r->cons[r->next_lane], memory_order_release);
    if (++r->run == LANE_RUN)
        cq_reader_next_lane(r);
}

/* Arms the queue (enum cq_arm): one event for the next (solicited) completion. Arming for any
 * completion is not weakened by a later arming for solicited ones. Any thread. */
void cq_reader_arm(struct cq_reader *r, enum cq_arm arm);

#endif
