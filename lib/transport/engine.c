/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's life, its lists and timers. The packet path: engine_rx.c, engine_tx.c. */
#include <stdlib.h>

#include "raw_internal.h"
#include "transport.h"

struct engine *engine_create(const struct engine_config *config)
{
    struct engine *e = aligned_alloc(CACHE_LINE, round_up(sizeof(*e), CACHE_LINE));

    if (!e)
        return NULL;
    memset(e, 0, sizeof(*e));
    e->cfg = *config;
    e->mrs.table = config->mrs;
    e->rx_from = RX_DIRECT;
    e->max_window = config->max_inflight ? config->max_inflight : INFLIGHT_MOST;
    if (!e->cfg.max_inflight)
        e->cfg.max_inflight = INFLIGHT_DEFAULT;
    LIST_INIT(&e->mcast);
    TAILQ_INIT(&e->tx_list);
    STAILQ_INIT(&e->touched);
    STAILQ_INIT(&e->touched_wqs);
    return e;
}

void engine_destroy(struct engine *e)
{
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

const struct engine_host *engine_host_of(const struct engine *e)
{
    return &e->cfg.host;
}

void engine_tx_ready(struct engine *e, struct qp *qp)
{
    if (!qp->in_tx_list) {
        qp->in_tx_list = true;
        qp->tx_burst = 0;
        TAILQ_INSERT_TAIL(&e->tx_list, qp, tx_link);
    }
}

void engine_touch(struct engine *e, struct qp *qp)
{
    if (!qp->in_touched) {
        qp->in_touched = true;
        STAILQ_INSERT_TAIL(&e->touched, qp, touched_link);
    }
}

bool engine_wants_tx(const struct engine *e)
{
    return !TAILQ_EMPTY(&e->tx_list);
}

/* Completion events once per burst: the arming protocol needs one fence for all posts before it. */
static void raise_cq_events(struct engine *e)
{
    for (unsigned i = 0; i < e->cqs; i++) {
        struct comp_queue *cq = e->cq[i];

        if (cq_take_event(cq, e->cfg.lane))
            e->cfg.host.cq_event(e->cfg.host.ctx, cq);
        if (e->cfg.host.cq_posted)
            e->cfg.host.cq_posted(e->cfg.host.ctx, cq);
    }
    e->cqs = 0;
}

void engine_settle(struct engine *e)
{
    struct qp *qp;
    struct wq *wq;

    while ((qp = STAILQ_FIRST(&e->touched))) {
        STAILQ_REMOVE_HEAD(&e->touched, touched_link);
        qp->in_touched = false;
        qp_settle(e, qp);
    }
    while ((wq = STAILQ_FIRST(&e->touched_wqs))) {
        STAILQ_REMOVE_HEAD(&e->touched_wqs, touched_link);
        wq->in_touched = false;
        wq_settle(e, wq);
    }
    raise_cq_events(e);
}

struct engine *qp_engine(const struct qp *qp)
{
    return __atomic_load_n(&qp->engine, __ATOMIC_ACQUIRE);
}

static void set_engine(struct qp *qp, struct engine *e)
{
    __atomic_store_n(&qp->engine, e, __ATOMIC_RELEASE);
}

/* New work, or perhaps some. */
static void qp_kick(struct engine *e, struct qp *qp)
{
    if (qp->state == QPS_ERR)
        qp_flush(e, qp, WC_WR_FLUSH_ERR);
    else if (qp->state == QPS_SQE)
        qp_flush_sq(e, qp);
    else if (qp->state == QPS_RTS || qp->state == QPS_SQD)
        engine_tx_ready(e, qp);
    engine_settle(e);
}

void engine_doorbell(struct engine *e, struct qp *qp, ns_t now)
{
    e->now = now;
    if (qp_engine(qp) != e)
        return;
    qp->rang_early |= qp->state < QPS_RTS;
    qp_kick(e, qp);
}

ns_t engine_next_timer(struct engine *e)
{
    return timer_next(&e->wheel);
}

void engine_timers(struct engine *e, ns_t now)
{
    struct timer *t;

    e->now = now;
    while ((t = timer_expired(&e->wheel, now)))
        req_timer(e, container_of(t, struct qp, timer));
    engine_settle(e);
}

void engine_qp_attach(struct engine *e, struct qp *qp)
{
    set_engine(qp, e);
}

/* What e's lists and wheel know of qp. */
static void take_out(struct engine *e, struct qp *qp)
{
    timer_remove(&e->wheel, &qp->timer);
    if (qp->in_tx_list)
        TAILQ_REMOVE(&e->tx_list, qp, tx_link);
    qp->in_tx_list = false;
}

void engine_qp_detach(struct engine *e, struct qp *qp)
{
    mcast_forget(e, qp);
    if (qp_engine(qp) != e)
        return;
    take_out(e, qp);
    qp->state = QPS_RESET;
    set_engine(qp, NULL);
}

/* The deadline waits outside of every wheel: arming or disarming before it is adopted replaces it
 * there. */
void engine_qp_release(struct engine *from, struct qp *qp, struct engine *to)
{
    ns_t deadline = qp->timer.deadline;

    if (qp_engine(qp) != from || from == to)
        return;
    take_out(from, qp);
    qp->timer.deadline = deadline;
    qp->misplaced_count = 0;
    note(from, qp, TRACE_QP_MIGRATED_OUT, to->cfg.lane, 0);
    set_engine(qp, to);
}

void engine_qp_adopt(struct engine *to, struct qp *qp, ns_t now)
{
    to->now = now;
    if (qp_engine(qp) != to)
        return;
    note(to, qp, TRACE_QP_MIGRATED_IN, 0, 0);
    if (qp->timer.deadline != NS_NEVER)
        timer_arm(&to->wheel, &qp->timer, qp->timer.deadline, now);
    if (resp_has_reply(qp))
        engine_tx_ready(to, qp);
    qp_kick(to, qp);
}
