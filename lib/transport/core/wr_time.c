/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests whose stages are timed: see wr_time.h. */
#include "wr_time.h"

#include "engine_private.h"

#define TIME_LIMIT (UINT64_C(1) << LATENCY_MAX)

void engine_time_sends(struct engine *e, bool on)
{
    atomic_store_explicit(&e->times_sends, on, memory_order_relaxed);
}

const struct latency_histogram *engine_latency(const struct engine *e)
{
    return e->latency;
}

/* What the application says is its own, and may be nonsense: such a sample is none. */
static void record(struct engine *e, const struct wr_time *t, uint64_t polled, uint64_t total)
{
    const uint64_t ns[LATENCY_STAGES] = {[LATENCY_QUEUED] = t->queued,
                                         [LATENCY_SENDING] = t->sending,
                                         [LATENCY_ANSWER] = t->answer,
                                         [LATENCY_POLLED] = polled,
                                         [LATENCY_TOTAL] = total};

    for (unsigned i = 0; i < LATENCY_STAGES; i++)
        if (ns[i] >= TIME_LIMIT)
            return;
    for (unsigned i = 0; i < LATENCY_STAGES; i++)
        latency_add(&e->latency[i], ns[i]);
}

static void watch(struct qp *qp, enum wr_time_state state)
{
    qp->wr_time.state = (uint8_t)state;
    qp->times_send = state == WR_TIME_TAKEN || state == WR_TIME_SENT;
}

/* Ends a stage at this time, and returns its length. The time of a pass is that of its beginning,
 * so that a work request may have been posted after it. */
static uint64_t end_stage(struct wr_time *t, ns_t now)
{
    ns_t since = t->since;

    t->since = max_of(now, since);
    return t->since - since;
}

void wr_time_taken(struct engine *e, struct qp *qp, uint32_t slot)
{
    const struct sample_shared *s = &qp->shared->sample;
    uint64_t posted = atomic_load_explicit(&s->posted, memory_order_relaxed);
    uint64_t total = atomic_load_explicit(&s->total, memory_order_relaxed);
    struct wr_time *t = &qp->wr_time;

    if (t->state == WR_TIME_DONE && total)
        record(e, t, atomic_load_explicit(&s->polled, memory_order_relaxed), total);
    watch(qp, WR_TIME_NONE);
    if (!atomic_load_explicit(&e->times_sends, memory_order_relaxed) ||
        (e->now > posted ? e->now - posted : posted - e->now) >= TIME_LIMIT)
        return;
    *t = (struct wr_time){.slot = slot, .since = posted};
    t->queued = end_stage(t, e->now);
    watch(qp, WR_TIME_TAKEN);
    if (qp_is_reliable(qp))
        qp->req.time_at = 0; /* its last packet is looked at when it is sent */
}

void wr_time_sent(struct engine *e, struct qp *qp, psn_t p)
{
    const struct requester *req = &qp->req;
    struct wr_time *t = &qp->wr_time;
    const struct send_slot *s = slot_at(req, t->slot);

    if (t->state != WR_TIME_TAKEN || req->send != t->slot)
        return;
    /* A batch of segments has moved `pkt` by now; a READ has one packet. */
    if (!psn_eq(p, slot_last(s)) && req->pkt != s->packets &&
        !op_is_read_or_atomic(s->wqe.h.opcode))
        return;
    t->sending = end_stage(t, e->now);
    watch(qp, WR_TIME_SENT);
}

void wr_time_done(struct engine *e, struct qp *qp, uint32_t tail, uint32_t end)
{
    struct wr_time *t = &qp->wr_time;

    if (t->slot - tail >= end - tail)
        return;
    if (t->state == WR_TIME_TAKEN) /* what waits for no answer is done when it is sent */
        t->sending = end_stage(t, e->now);
    else
        t->answer = end_stage(t, e->now);
    watch(qp, WR_TIME_DONE);
}

void wr_time_forget(struct qp *qp)
{
    watch(qp, WR_TIME_NONE);
}
