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
 * cq_post in two steps, for who can make the entry in its place: the entry that is next, or NULL
 * where cq_post returns -ENOSPC. All of it but seq is to be written, and seq not even in passing:
 * the application may be looking. Then cq_publish. The lane's worker.
 */
static inline struct cqe *cq_next(struct comp_queue *cq, uint32_t lane_index);
/* solicited: also when the completion is unsuccessful. */
static inline void cq_publish(struct comp_queue *cq, uint32_t lane_index, struct cqe *next,
                              bool solicited);

/*
 * After a burst of posts: whether an event is due. Clears `touched`, and disarms the queue if so.
 * The lane's worker.
 */
bool cq_take_event(struct comp_queue *cq, uint32_t lane);

/* Whether the application has read everything that was posted into the lane. The lane's worker. */
bool cq_lane_is_empty(const struct comp_queue *cq, uint32_t lane);

/* cq_next's, when the lane seems full: whether it has room for one more, after asking the
 * application what it consumed. */
bool cq_find_room(struct comp_queue *cq, uint32_t lane_index);

static inline struct cqe *cq_next(struct comp_queue *cq, uint32_t lane_index)
{
    struct comp_lane *lane = &cq->lane[lane_index];

    if (unlikely(lane->prod == lane->end) && !cq_find_room(cq, lane_index))
        return NULL;
    return &lane->ring->entry[lane->prod & (cq->size - 1)];
}

static inline void cq_publish(struct comp_queue *cq, uint32_t lane_index, struct cqe *next,
                              bool solicited)
{
    struct comp_lane *lane = &cq->lane[lane_index];

    atomic_store_explicit(&next->seq, ++lane->prod, memory_order_release);
    lane->touched = true;
    lane->solicited |= solicited;
}

/*
 * The same for successful completions in a row that need raise no event by themselves: begin; for
 * each next, as cq_next but NULL already where only cq_next can tell whether there is room, and
 * give; end. Nothing else is posted into the lane meanwhile.
 */
struct cq_run {
    struct cqe *entry;
    uint32_t mask, prod, end;
};

static inline struct cq_run cq_run_begin(const struct comp_queue *cq, uint32_t lane_index)
{
    const struct comp_lane *lane = &cq->lane[lane_index];

    return (struct cq_run){
        .entry = lane->ring->entry, .mask = cq->size - 1, .prod = lane->prod, .end = lane->end};
}

static inline struct cqe *cq_run_next(const struct cq_run *r)
{
    return likely(r->prod != r->end) ? &r->entry[r->prod & r->mask] : NULL;
}

static inline void cq_run_give(struct cq_run *r, struct cqe *e)
{
    atomic_store_explicit(&e->seq, ++r->prod, memory_order_release);
}

static inline void cq_run_end(struct comp_queue *cq, uint32_t lane_index, const struct cq_run *r)
{
    struct comp_lane *lane = &cq->lane[lane_index];

    lane->touched |= lane->prod != r->prod;
    lane->prod = r->prod;
}

/* ---- the application's end ---- */

/* To begin, set the first three and zero the rest. */
struct cq_reader {
    struct cq_shared *shared;
    uint32_t size, lanes;
    uint32_t next_lane, run; /* the lane being read, and how many entries in a row came from it */
    uint32_t cons[CQ_MAX_LANES];
};

/* The next completion, or NULL when there is none. Valid until cq_reader_advance. One thread at a
 * time. */
const struct cqe *cq_reader_peek(struct cq_reader *r);

/* Gives the entry that cq_reader_peek returned back to the dataplane. */
void cq_reader_advance(struct cq_reader *r);

/* Arms the queue (enum cq_arm): one event for the next (solicited) completion. Arming for any
 * completion is not weakened by a later arming for solicited ones. Any thread. */
void cq_reader_arm(struct cq_reader *r, enum cq_arm arm);

#endif
