/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's life, its lists and timers. The packet path: rx/rx_burst.c, tx/tx_burst.c. */
#include <stdlib.h>

#include "completion.h"
#include "late.h"
#include "loan.h"
#include "rate.h"
#include "raw_private.h"
#include "req_sack.h"
#include "requester.h"
#include "resp_repeat.h"
#include "resp_store.h"
#include "rx.h"
#include "tx_allowance.h"

/* A burst of packets takes about as long. The others of a hundred thousand that are due at once
 * wait: their queue pairs must not hold up those of other programs. */
#define TIMERS_AT_ONCE 128

struct engine *engine_create(const struct engine_config *config)
{
    struct engine *e = aligned_alloc(CACHE_LINE, round_up(sizeof(*e), CACHE_LINE));

    if (!e)
        return NULL;
    memset(e, 0, sizeof(*e));
    e->cfg = *config;
    e->mrs.table = config->mrs;
    e->rx_from = RX_DIRECT;
    e->max_window = config->max_inflight ? config->max_inflight : WINDOW_MAX;
    if (!e->cfg.max_inflight)
        e->cfg.max_inflight = WINDOW_DEFAULT;
    e->turn = e->round = 1; /* not the 0 of a queue pair that has had none */
    share_init_root(&e->shares);
    share_init_classes(e);
    share_init(e->own, e, NULL, 1);
    share_join(e->own);
    STAILQ_INIT(&e->touched);
    STAILQ_INIT(&e->touched_wqs);
    LIST_INIT(&e->late);
    LIST_INIT(&e->waiting);
    e->batch.caller = config->host.mem_caller;
    e->batch.owner = e;
    e->batch.late = late_begin;
    return e;
}

void engine_destroy(struct engine *e)
{
    late_free_all(e);
    resp_store_free(e);
    loan_free_all(e);
    free(e);
}

const struct engine_counters *engine_counters(const struct engine *e)
{
    return &e->counters;
}

const struct trace *engine_trace(const struct engine *e)
{
    return &e->trace;
}

const struct incidents *engine_incidents(const struct engine *e)
{
    return &e->incidents;
}

const struct engine_host *engine_host_of(const struct engine *e)
{
    return &e->cfg.host;
}

void engine_charge_faults(struct engine *e, bool charge)
{
    e->charge_faults = charge;
    if (charge)
        share_keep_credit(e);
}

bool engine_wants_tx(const struct engine *e)
{
    return e->ready_qps;
}

/* A queue without scatter/gather elements is not worth it; work requests that are judged are taken
 * one by one. */
static void set_batches(const struct engine *e, struct qp *qp)
{
    qp->req.sq.in_batches = qp->req.sq.max_sge && !e->judge.status;
}

void engine_judge_sends(struct engine *e, send_judge *judge, void *ctx)
{
    e->judge.status = judge;
    e->judge.ctx = ctx;
    for (uint32_t qpn = QPN_FIRST; qpn < QP_TABLE_SLOTS; qpn++) {
        struct qp *qp = qp_table_lookup(e->cfg.qps, qpn);

        if (qp && qp_owner_engine(qp) == e)
            set_batches(e, qp);
    }
}

const char *engine_program_of(const struct engine *e, uint32_t qpn)
{
    const struct qp *qp = qp_table_lookup(e->cfg.qps, qpn);

    return qp ? qp->why.program.comm : NULL;
}

static void set_engine(struct qp *qp, struct engine *e)
{
    if (e) {
        qp->share = share_of(e, qp);
        set_batches(e, qp);
    }
    __atomic_store_n(&qp->engine, e, __ATOMIC_RELEASE);
}

/* Re-evaluates what qp can do in its state: there may be new work. */
static void qp_kick(struct engine *e, struct qp *qp)
{
    if (unlikely(e->cfg.classes.count))
        share_set_class(e, qp);
    if (qp_can_request(qp))
        engine_tx_ready(e, qp);
    else
        qp_flush_more(e, qp);
    engine_complete(e);
}

void engine_doorbell(struct engine *e, struct qp *qp, ns_t now)
{
    e->now = now;
    if (qp_owner_engine(qp) != e)
        return;
    qp->early_doorbell |= qp->state < QPS_RTS;
    qp_kick(e, qp);
}

ns_t engine_next_timer(struct engine *e)
{
    ns_t next = timer_next(&e->wheel);

    return unlikely(e->ceiling_until) && e->ready_qps ? min_of(next, e->ceiling_until) : next;
}

/* What follows when a timer of a kind fires. */
static void (*const timer_fired[TIMER_KINDS])(struct engine *e, struct qp *qp) = {
    [TIMER_ACK] = req_ack_timeout,
    [TIMER_RNR] = req_rnr_timeout,
    [TIMER_PACE] = rate_timer,
};

static void qp_timer(struct engine *e, struct timer *t)
{
    struct qp *qp = t->kind == TIMER_PACE ? container_of(t, struct qp, pace)
                                          : container_of(t, struct qp, timer);

    counter_add(&qp->share->spent, COST_TIMER);
    timer_fired[t->kind](e, qp);
}

void engine_timers(struct engine *e, ns_t now)
{
    unsigned looks = TIMERS_AT_ONCE;
    struct timer *t;

    e->now = now;
    if (e->ceiling_until <= now) /* the next call of engine_tx decides again */
        e->ceiling_until = 0;
    while ((t = timer_expired(&e->wheel, now, &looks))) {
        if (t->kind == TIMER_CQ)
            cq_timer(e, t);
        else
            qp_timer(e, t);
    }
    engine_complete(e);
}

void engine_qp_attach(struct engine *e, struct qp *qp)
{
    set_engine(qp, e);
}

/* What its packets have lost is sent again, and asked for, as between strangers. */
static void give_back_loans(struct qp *qp)
{
    resp_forget_kept(qp);
    req_sack_abandon(qp);
    resp_repeat_forget(qp);
}

/* Takes qp out of e's lists and wheel. */
static void take_out(struct engine *e, struct qp *qp)
{
    timer_remove(&e->wheel, &qp->timer);
    timer_remove(&e->wheel, &qp->pace);
    engine_tx_idle(e, qp);
    give_back_loans(qp);
}

void engine_qp_detach(struct engine *e, struct qp *qp)
{
    rx_mcast_forget(e, qp);
    if (qp_owner_engine(qp) != e)
        return;
    late_forget(qp->late);
    if (qp->raw_rq)
        late_forget(qp->raw_rq->late);
    take_out(e, qp);
    qp->state = QPS_RESET;
    set_engine(qp, NULL);
}

/* The deadline waits outside of every wheel: arming or disarming before it is adopted replaces it
 * there. */
void engine_qp_release(struct engine *from, struct qp *qp, struct engine *to)
{
    ns_t deadline = qp->timer.deadline;

    if (qp_owner_engine(qp) != from || from == to)
        return;
    take_out(from, qp);
    qp->timer.deadline = deadline;
    qp->misplaced_count = 0;
    note(from, qp, TRACE_QP_MIGRATED_OUT, to->cfg.lane, 0);
    set_engine(qp, to);
}

void engine_qp_set_shares(struct engine *e, struct qp *qp, struct share *shares)
{
    bool listed = qp->in_tx_list;

    if (qp_owner_engine(qp) != e)
        return;
    engine_tx_idle(e, qp);
    give_back_loans(qp);
    qp->shares = shares;
    set_engine(qp, e);
    if (listed)
        engine_tx_ready(e, qp);
}

void engine_qp_adopt(struct engine *to, struct qp *qp, ns_t now)
{
    to->now = now;
    if (qp_owner_engine(qp) != to)
        return;
    note(to, qp, TRACE_QP_MIGRATED_IN, 0, 0);
    if (qp->timer.deadline != NS_NEVER)
        timer_arm(&to->wheel, &qp->timer, qp->timer.kind, qp->timer.deadline, now);
    if (tx_allowed_responses(qp))
        engine_tx_ready(to, qp);
    qp_kick(to, qp);
}
