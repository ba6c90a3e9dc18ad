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
        lane->overrun = true;
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

bool comp_queue_disarm(struct comp_queue *cq)
{
    return atomic_exchange(&cq->shared->arm, CQ_ARM_NONE) != CQ_ARM_NONE;
}

bool cq_take_event(struct comp_queue *cq, uint32_t lane_index)
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
    if (arm == CQ_ARM_NONE || (arm == CQ_ARM_SOLICITED && !solicited))
        return false;
    return comp_queue_disarm(cq);
}

bool cq_lane_is_empty(const struct comp_queue *cq, uint32_t lane)
{
    const struct cq_lane *ring = cq_lane_at(cq->shared, cq->size, lane);

    return atomic_load_explicit(&ring->cons, memory_order_acquire) == cq->lane[lane].prod;
}

/* ---- the application's end ---- */

void cq_reader_arm(struct cq_reader *r, enum cq_arm arm)
{
    uint32_t none = CQ_ARM_NONE;

    if (arm == CQ_ARM_SOLICITED)
        atomic_compare_exchange_strong(&r->shared->arm, &none, arm);
    else if (arm == CQ_ARM_NEXT)
        atomic_store(&r->shared->arm, arm);
    atomic_thread_fence(memory_order_seq_cst);
}
