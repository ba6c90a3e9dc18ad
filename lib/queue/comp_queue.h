/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The dataplane's end of a completion queue. Each worker posts into its own lane. Pure.
 */
#ifndef UROCE_COMP_QUEUE_H
#define UROCE_COMP_QUEUE_H

#include <stdbool.h>

#include "queue_abi.h"

#define CQ_MAX_LANES 16

/** Of a queue whose events wait for more completions: transport/moderation.h. */
struct cq_moderation {
    _Atomic uint32_t limits; /**< completions << 16 | microseconds; one of them 0: nothing waits */
    _Atomic uint32_t held;   /**< completions since the last event, posted while armed */
    _Atomic uint32_t round;  /**< counts the events */
};

/** The dataplane's end of a completion queue. */
struct comp_queue {
    struct cq_shared *shared;
    uint32_t size, lanes;
    uint32_t handle;
    bool ignores_overrun; /**< the application's wish: what does not fit is lost, and no error */
    uint64_t cookie;      /**< the application's, in events */
    void *owner;          /**< the device's object */
    struct cq_moderation *_Atomic moderation; /**< or NULL */
    /** Every worker reads what is above, and writes its lane. */
    uint8_t apart[CACHE_LINE - sizeof(void *)];
    struct comp_lane {
        uint32_t prod;
        uint32_t end; /**< where the ring is full, as far as is known of what was consumed */
        struct cq_lane *ring;
        bool overrun;                   /**< set by an overflow; nothing is posted any more */
        bool touched;                   /**< posted to since the last cq_take_event */
        bool solicited;                 /**< one of those was solicited or unsuccessful */
        uint8_t apart[CACHE_LINE - 19]; /**< lanes belong to different workers: no line in common */
    } lane[CQ_MAX_LANES];
};

/**
 * Set up the private end of a completion queue over a zeroed segment.
 *
 * @param cq  Set.
 * @param shared  The segment, of cq_segment_bytes(size, lanes); borrowed as long as the queue is
 *     used.
 * @param size  CQEs in each lane, a power of two.
 * @param lanes  Lanes, one for each worker, at most CQ_MAX_LANES.
 */
void comp_queue_init(struct comp_queue *cq, struct cq_shared *shared, uint32_t size,
                     uint32_t lanes);

/**
 * Continue in another segment, where the application copies the CQEs that it has not read
 * (cq_reader_move()). No worker uses the queue during the call.
 *
 * @param cq  The queue.
 * @param fresh  The segment, zeroed, of cq_segment_bytes(size, lanes); borrowed as the first one.
 * @param size  CQEs in each lane, a power of two.
 * @return  0; -EINVAL: more than `size` CQEs have not been read, and nothing has changed.
 */
int comp_queue_move(struct comp_queue *cq, struct cq_shared *fresh, uint32_t size);

/**
 * Post a CQE. The lane's worker.
 *
 * @param cq  The queue.
 * @param lane  The worker's lane.
 * @param e  The CQE, all fields but seq; copied.
 * @param solicited  Whether it is to raise a solicited event.
 * @return  0; -ENOSPC: the ring is full, or the application's index is out of range. The queue is
 *     overrun from then on, and nothing is posted any more (C11-39: CQ error); unless it ignores
 *     overruns, which then goes on as soon as there is room.
 */
int cq_post(struct comp_queue *cq, uint32_t lane, const struct cqe *e, bool solicited);

/**
 * cq_post for a caller that has many successful completions in a row for one lane: begin, then for
 * each one next (or entry) and give (or keep), then end. Nothing else is posted into the lane
 * between begin and end.
 */
struct cq_batch {
    struct cqe *entry;
    uint32_t mask, prod, end;
};

/**
 * Begin a batch. The lane's worker.
 *
 * @param cq  The queue.
 * @param lane_index  The worker's lane.
 * @return  The batch.
 */
static inline struct cq_batch cq_batch_begin(struct comp_queue *cq, uint32_t lane_index)
{
    const struct comp_lane *lane = &cq->lane[lane_index];

    return (struct cq_batch){
        .entry = lane->ring->entry, .mask = cq->size - 1, .prod = lane->prod, .end = lane->end};
}

/**
 * Where the next CQE is to be written, when cq_room() said that there is room: all fields but seq,
 * which must not change even for a moment, because the application may be reading it. The lane's
 * worker.
 *
 * @param r  The batch.
 * @return  The CQE.
 */
static inline struct cqe *cq_batch_entry(const struct cq_batch *r)
{
    return &r->entry[r->prod & r->mask];
}

/**
 * cq_batch_entry() without a promise of room. The lane's worker.
 *
 * @param r  The batch.
 * @return  The CQE; NULL: there may be no room, which cq_post() finds out.
 */
static inline struct cqe *cq_batch_next(const struct cq_batch *r)
{
    return likely(r->prod != r->end) ? cq_batch_entry(r) : NULL;
}

/**
 * Give a CQE to the application. The lane's worker.
 *
 * @param r  The batch.
 * @param e  What cq_batch_entry() or cq_batch_next() returned.
 */
static inline void cq_batch_give(struct cq_batch *r, struct cqe *e)
{
    atomic_store_explicit(&e->seq, ++r->prod, memory_order_release);
}

/**
 * Keep a CQE, which cq_batch_give_kept() gives to the application. The lane's worker.
 *
 * @param r  The batch.
 */
static inline void cq_batch_keep(struct cq_batch *r)
{
    r->prod++;
}

/**
 * Give the last CQEs, which were kept, to the application. The lane's worker.
 *
 * @param r  The batch.
 * @param n  How many.
 */
static inline void cq_batch_give_kept(const struct cq_batch *r, uint32_t n)
{
    for (uint32_t i = r->prod - n; i != r->prod; i++)
        atomic_store_explicit(&r->entry[i & r->mask].seq, i + 1, memory_order_release);
}

/**
 * End a batch. The lane's worker.
 *
 * @param cq  The queue.
 * @param lane_index  The worker's lane.
 * @param r  The batch.
 * @param solicited  Whether one of the CQEs is to raise a solicited event.
 */
static inline void cq_batch_end(struct comp_queue *cq, uint32_t lane_index,
                                const struct cq_batch *r, bool solicited)
{
    struct comp_lane *lane = &cq->lane[lane_index];

    lane->touched |= lane->prod != r->prod;
    lane->solicited |= solicited;
    lane->prod = r->prod;
}

/**
 * How many completions there is room for. Unlike cq_post() it does not overrun the queue when there
 * is none. The lane's worker.
 *
 * @param cq  The queue.
 * @param lane_index  The worker's lane.
 * @param want  How many the caller has.
 * @return  At most want.
 */
uint32_t cq_room(struct comp_queue *cq, uint32_t lane_index, uint32_t want);

/**
 * Whether an event is due after a burst of posts. It clears `touched`, and disarms the queue when
 * one is due. The lane's worker.
 *
 * @param cq  The queue.
 * @param lane  The worker's lane.
 * @return  True when the caller must raise an event.
 */
bool cq_take_event(struct comp_queue *cq, uint32_t lane);

/**
 * Whether the queue is armed for what was posted since the last call. It clears `touched`. The
 * lane's worker.
 *
 * @param cq  The queue.
 * @param lane  The worker's lane.
 * @return  True when it is: comp_queue_disarm() follows, now or later.
 */
bool cq_event_is_due(struct comp_queue *cq, uint32_t lane);

/**
 * Disarm the queue. Any thread.
 *
 * @param cq  The queue.
 * @return  True when it was armed, and the caller must raise the event.
 */
bool comp_queue_disarm(struct comp_queue *cq);

/**
 * Whether the application has read everything that was posted into a lane. The lane's worker.
 *
 * @param cq  The queue.
 * @param lane  The worker's lane.
 * @return  True when it has.
 */
bool cq_lane_is_empty(const struct comp_queue *cq, uint32_t lane);

/* ---- the application's end ---- */

/** The application's end. To begin, set the first three fields and zero the rest. */
struct cq_reader {
    struct cq_shared *shared;
    uint32_t size, lanes;
    uint32_t next_lane;  /**< the lane being read */
    uint32_t lane_count; /**< how many entries in a row came from it */
    uint32_t cons[CQ_MAX_LANES];
};

/** Entries that a reader takes from one lane before it looks at the others: staying is cheaper than
 * going round, but a lane that never runs dry must not hide the others. */
#define CQ_READER_LANE_MAX 32

/**
 * Go on to the next lane. One thread at a time.
 *
 * @param r  The reader.
 */
static inline void cq_reader_next_lane(struct cq_reader *r)
{
    r->next_lane = r->next_lane + 1 < r->lanes ? r->next_lane + 1 : 0;
    r->lane_count = 0;
}

/**
 * The next completion. One thread at a time.
 *
 * @param r  The reader.
 * @return  The CQE, valid until cq_reader_advance(); NULL: there is none.
 */
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

/**
 * Return the CQE of cq_reader_peek() to the dataplane. One thread at a time.
 *
 * @param r  The reader.
 */
static inline void cq_reader_advance(struct cq_reader *r)
{
    struct cq_lane *ring = cq_lane_at(r->shared, r->size, r->next_lane);

    atomic_store_explicit(&ring->cons, ++r->cons[r->next_lane], memory_order_release);
    if (++r->lane_count == CQ_READER_LANE_MAX)
        cq_reader_next_lane(r);
}

/**
 * Follow comp_queue_move() into its segment, and take there what has not been read. No other thread
 * uses the reader.
 *
 * @param r  The reader, still in the old segment.
 * @param fresh  The new segment; the dataplane may be posting into it.
 * @param size  CQEs in each of its lanes.
 */
void cq_reader_move(struct cq_reader *r, struct cq_shared *fresh, uint32_t size);

/**
 * Arm the queue: one event for the next (solicited) completion. Arming for any completion is not
 * weakened by a later arming for solicited ones. Any thread.
 *
 * @param r  The reader.
 * @param arm  For which completions.
 */
void cq_reader_arm(struct cq_reader *r, enum cq_arm arm);

#endif
