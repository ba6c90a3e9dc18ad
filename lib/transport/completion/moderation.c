/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ../moderation.h. A lane counts what it posts while the queue is armed, into a sum for all
 * lanes, and runs a timer from the first of these completions on. Each event ends a round
 * (comp_queue_disarm), and a timer of an earlier round raises nothing. A completion that no event
 * has followed so far therefore always has a timer, in its own lane.
 */
#include "moderation.h"

#include <errno.h>
#include <stdlib.h>

#include "completion.h"

struct lane_hold {
    struct timer timer;
    struct comp_queue *cq;
    uint32_t round;            /* the one that the timer belongs to */
    uint32_t counted;          /* CQEs of the lane up to here are in the sum, or need not be */
    bool counts;               /* counted is known */
    uint8_t apart[CACHE_LINE]; /* lanes belong to different workers */
};

struct holds {
    struct cq_moderation moderation;
    struct lane_hold lane[];
};

static struct lane_hold *hold_of(struct cq_moderation *m, uint32_t lane)
{
    return &container_of(m, struct holds, moderation)->lane[lane];
}

static struct holds *holds_create(struct comp_queue *cq)
{
    struct holds *h = calloc(1, sizeof(*h) + cq->lanes * sizeof(h->lane[0]));

    if (!h)
        return NULL;
    for (uint32_t i = 0; i < cq->lanes; i++) {
        h->lane[i].cq = cq;
        h->lane[i].timer.deadline = NS_NEVER;
    }
    return h;
}

int cq_moderate(struct comp_queue *cq, uint32_t count, uint32_t period_us)
{
    struct cq_moderation *m = atomic_load(&cq->moderation);
    struct holds *h;

    if (count > CQ_MODERATION_MAX || period_us > CQ_MODERATION_MAX)
        return -EINVAL;
    if (!m) {
        h = holds_create(cq);
        if (!h)
            return -ENOMEM;
        m = &h->moderation;
    }
    atomic_store(&m->limits, count << 16 | period_us);
    atomic_store_explicit(&cq->moderation, m, memory_order_release);
    return 0;
}

void engine_cq_forget(struct engine *e, struct comp_queue *cq)
{
    struct cq_moderation *m = atomic_load(&cq->moderation);

    if (m)
        timer_remove(&e->wheel, &hold_of(m, e->cfg.lane)->timer);
}

void cq_moderation_free(struct comp_queue *cq)
{
    struct cq_moderation *m = atomic_exchange(&cq->moderation, NULL);

    if (m)
        free(container_of(m, struct holds, moderation));
}

/* CQEs that the lane has posted since the last call. What came before the first is not known. */
static uint32_t count_posted(struct lane_hold *h, const struct comp_lane *lane)
{
    uint32_t n = h->counts ? lane->prod - h->counted : 1;

    h->counts = true;
    h->counted = lane->prod;
    return n;
}

/* Another lane may have ended the round since `round` was read. Then the application looks at the
 * queue after the CQEs were posted, and the timer has nothing to do. */
static void run_timer(struct engine *e, struct lane_hold *h, uint32_t round, uint32_t period_us)
{
    if (h->timer.deadline != NS_NEVER && h->round == round)
        return;
    h->round = round;
    timer_arm(&e->wheel, &h->timer, TIMER_CQ, e->now + period_us * NS_PER_US, e->now);
}

bool cq_take_moderated(struct engine *e, struct comp_queue *cq, struct cq_moderation *m)
{
    struct lane_hold *h = hold_of(m, e->cfg.lane);
    uint32_t limits = atomic_load_explicit(&m->limits, memory_order_relaxed);
    uint32_t count = limits >> 16, period_us = limits & CQ_MODERATION_MAX;
    uint32_t n = count_posted(h, &cq->lane[e->cfg.lane]);
    uint32_t round;

    atomic_thread_fence(memory_order_seq_cst); /* the CQEs are there before the round is read */
    round = atomic_load(&m->round);
    if (!cq_event_is_due(cq, e->cfg.lane))
        return false;
    if (!period_us || atomic_fetch_add(&m->held, n) + n >= count) {
        timer_disarm(&h->timer);
        return comp_queue_disarm(cq);
    }
    run_timer(e, h, round, period_us);
    return false;
}

void cq_timer(struct engine *e, struct timer *t)
{
    struct lane_hold *h = container_of(t, struct lane_hold, timer);
    struct cq_moderation *m = atomic_load(&h->cq->moderation);

    if (atomic_load(&m->round) == h->round && comp_queue_disarm(h->cq))
        e->cfg.host.cq_event(e->cfg.host.ctx, h->cq);
}
