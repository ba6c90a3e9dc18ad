/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting completions and raising their events: see comp_queue.h. */
#include <errno.h>
#include <string.h>

#include "comp_queue.h"

void comp_queue_init(struct comp_queue *cq, struct cq_shared *shared, uint32_t size, uint32_t lanes)
{
    *cq = (struct comp_queue){.shared = shared, .size = size, .lanes = lanes};
    for (uint32_t i = 0; i < lanes; i++) {
        cq->lane[i].ring = cq_lane_at(shared, size, i);
        cq->lane[i].end = size;
    }
}

/* -EINVAL also for consumer indices that cannot be: ahead of what was posted. */
static int check_unread(const struct comp_queue *cq, const uint32_t *cons, uint32_t size)
{
    uint64_t unread = 0;

    for (uint32_t i = 0; i < cq->lanes; i++)
        unread += cq->lane[i].prod - cons[i];
    return unread > size ? -EINVAL : 0;
}

static void move_lane(struct comp_lane *lane, struct cq_lane *ring, uint32_t size, uint32_t cons)
{
    atomic_store_explicit(&ring->cons, cons, memory_order_relaxed);
    /* Zeros are the sequence number of the last CQE before the index wraps around. */
    if (UINT32_MAX - lane->prod < size)
        atomic_store_explicit(&ring->entry[size - 1].seq, 2, memory_order_relaxed);
    lane->ring = ring;
    lane->end = lane->overrun ? lane->prod : cons + size;
}

int comp_queue_move(struct comp_queue *cq, struct cq_shared *fresh, uint32_t size)
{
    uint32_t cons[CQ_MAX_LANES];
    int err;

    for (uint32_t i = 0; i < cq->lanes; i++)
        cons[i] = atomic_load_explicit(&cq->lane[i].ring->cons, memory_order_acquire);
    err = check_unread(cq, cons, size);
    if (err)
        return err;
    for (uint32_t i = 0; i < cq->lanes; i++)
        move_lane(&cq->lane[i], cq_lane_at(fresh, size, i), size, cons[i]);
    atomic_store(&fresh->arm, atomic_exchange(&cq->shared->arm, CQ_ARM_NONE));
    cq->shared = fresh;
    cq->size = size;
    return 0;
}

/* Whether a lane that seems full has room for one more CQE, after a look at what the application
 * has consumed. */
static bool find_room_for_one(struct comp_queue *cq, uint32_t lane_index)
{
    struct comp_lane *lane = &cq->lane[lane_index];
    uint32_t cons = atomic_load_explicit(&lane->ring->cons, memory_order_acquire);

    if (lane->overrun)
        return false;
    /* An index ahead of prod, or more than `size` behind it, shows as used > size. */
    if (lane->prod - cons >= cq->size) {
        lane->overrun = !cq->ignores_overrun;
        return false;
    }
    lane->end = cons + cq->size;
    return true;
}

uint32_t cq_room(struct comp_queue *cq, uint32_t lane_index, uint32_t want)
{
    struct comp_lane *lane = &cq->lane[lane_index];

    if (unlikely(lane->end - lane->prod < want && !lane->overrun)) {
        uint32_t cons = atomic_load_explicit(&lane->ring->cons, memory_order_acquire);

        if (lane->prod - cons <= cq->size)
            lane->end = cons + cq->size;
    }
    return min_of(want, lane->end - lane->prod);
}

int cq_post(struct comp_queue *cq, uint32_t lane_index, const struct cqe *e, bool solicited)
{
    struct comp_lane *lane = &cq->lane[lane_index];
    struct cqe *next = &lane->ring->entry[lane->prod & (cq->size - 1)];

    if (unlikely(lane->prod == lane->end) && !find_room_for_one(cq, lane_index))
        return -ENOSPC;
    memcpy(next, e, offsetof(struct cqe, seq));
    atomic_store_explicit(&next->seq, ++lane->prod, memory_order_release);
    lane->touched = true;
    lane->solicited |= solicited || e->status != WC_SUCCESS;
    return 0;
}

/* The next round begins before the application can arm the queue for it: a completion of that round
 * must not be forgotten with those of this one. */
static void end_round(struct cq_moderation *m)
{
    atomic_store(&m->held, 0);
    atomic_fetch_add(&m->round, 1);
}

bool comp_queue_disarm(struct comp_queue *cq)
{
    struct cq_moderation *m = atomic_load_explicit(&cq->moderation, memory_order_acquire);

    if (unlikely(m != NULL))
        end_round(m);
    return atomic_exchange(&cq->shared->arm, CQ_ARM_NONE) != CQ_ARM_NONE;
}

bool cq_event_is_due(struct comp_queue *cq, uint32_t lane_index)
{
    struct comp_lane *lane = &cq->lane[lane_index];
    bool solicited = lane->solicited;
    uint32_t arm;

    if (!lane->touched)
        return false;
    lane->touched = false;
    lane->solicited = false;
    atomic_thread_fence(memory_order_seq_cst);
    arm = atomic_load_explicit(&cq->shared->arm, memory_order_relaxed);
    return arm != CQ_ARM_NONE && (arm != CQ_ARM_SOLICITED || solicited);
}

bool cq_take_event(struct comp_queue *cq, uint32_t lane)
{
    return cq_event_is_due(cq, lane) && comp_queue_disarm(cq);
}

bool cq_lane_is_empty(const struct comp_queue *cq, uint32_t lane)
{
    const struct cq_lane *ring = cq_lane_at(cq->shared, cq->size, lane);

    return atomic_load_explicit(&ring->cons, memory_order_acquire) == cq->lane[lane].prod;
}

/* ---- the application's end ---- */

/* What was posted before the move ends at the first CQE whose sequence number is not its own. */
static void take_lane(const struct cq_lane *from, uint32_t from_size, struct cq_lane *to,
                      uint32_t size, uint32_t cons)
{
    for (uint32_t i = cons; i - cons < min_of(from_size, size); i++) {
        const struct cqe *e = &from->entry[i & (from_size - 1)];
        struct cqe *copy = &to->entry[i & (size - 1)];

        if (atomic_load_explicit(&e->seq, memory_order_acquire) != i + 1)
            return;
        memcpy(copy, e, offsetof(struct cqe, seq));
        atomic_store_explicit(&copy->seq, i + 1, memory_order_relaxed);
    }
}

void cq_reader_move(struct cq_reader *r, struct cq_shared *fresh, uint32_t size)
{
    for (uint32_t i = 0; i < r->lanes; i++)
        take_lane(cq_lane_at(r->shared, r->size, i), r->size, cq_lane_at(fresh, size, i), size,
                  r->cons[i]);
    r->shared = fresh;
    r->size = size;
}

void cq_reader_arm(struct cq_reader *r, enum cq_arm arm)
{
    uint32_t none = CQ_ARM_NONE;

    if (arm == CQ_ARM_SOLICITED)
        atomic_compare_exchange_strong(&r->shared->arm, &none, arm);
    else if (arm == CQ_ARM_NEXT)
        atomic_store(&r->shared->arm, arm);
    atomic_thread_fence(memory_order_seq_cst);
}
