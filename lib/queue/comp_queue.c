/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "comp_queue.h"

/* Entries that a reader takes from one lane before it looks at the others: staying is cheaper than
 * going round, but a lane that never runs dry must not hide the others. */
#define LANE_RUN 32

void comp_queue_init(struct comp_queue *cq, struct cq_shared *shared, uint32_t size, uint32_t lanes)
{
    *cq = (struct comp_queue){.shared = shared, .size = size, .lanes = lanes};
    for (uint32_t i = 0; i < lanes; i++) {
        cq->lane[i].ring = cq_lane_at(shared, size, i);
        cq->lane[i].end = size;
    }
}

bool cq_find_room(struct comp_queue *cq, uint32_t lane_index)
{
    struct comp_lane *lane = &cq->lane[lane_index];
    uint32_t cons = atomic_load_explicit(&lane->ring->cons, memory_order_acquire);

    if (lane->overrun)
        return false;
    /* An index that lies ahead of prod, or behind by more than there is, shows as used > size. */
    if (lane->prod - cons >= cq->size) {
        lane->overrun = true;
        return false;
    }
    lane->end = cons + cq->size;
    return true;
}

int cq_post(struct comp_queue *cq, uint32_t lane, const struct cqe *e, bool solicited)
{
    struct cqe *next = cq_next(cq, lane);

    if (unlikely(!next))
        return -ENOSPC;
    memcpy(next, e, offsetof(struct cqe, seq));
    cq_publish(cq, lane, next, solicited || e->status != WC_SUCCESS);
    return 0;
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
    return atomic_exchange(&cq->shared->arm, CQ_ARM_NONE) != CQ_ARM_NONE;
}

bool cq_lane_is_empty(const struct comp_queue *cq, uint32_t lane)
{
    const struct cq_lane *ring = cq_lane_at(cq->shared, cq->size, lane);

    return atomic_load_explicit(&ring->cons, memory_order_acquire) == cq->lane[lane].prod;
}

/* ---- the application's end ---- */

static void next_lane(struct cq_reader *r)
{
    r->next_lane = r->next_lane + 1 < r->lanes ? r->next_lane + 1 : 0;
    r->run = 0;
}

const struct cqe *cq_reader_peek(struct cq_reader *r)
{
    for (uint32_t tried = 0; tried < r->lanes; tried++) {
        uint32_t cons = r->cons[r->next_lane];
        struct cq_lane *ring = cq_lane_at(r->shared, r->size, r->next_lane);
        const struct cqe *e = &ring->entry[cons & (r->size - 1)];

        if (atomic_load_explicit(&e->seq, memory_order_acquire) == cons + 1)
            return e;
        next_lane(r);
    }
    return NULL;
}

void cq_reader_advance(struct cq_reader *r)
{
    struct cq_lane *ring = cq_lane_at(r->shared, r->size, r->next_lane);

    atomic_store_explicit(&ring->cons, ++r->cons[r->next_lane], memory_order_release);
    if (++r->run == LANE_RUN)
        next_lane(r);
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
