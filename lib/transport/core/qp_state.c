/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair states (volume 1, 10.3.1; attributes per transition: table 91 of 11.2.5.2), as a
 * table.
 */
#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "late.h"
#include "qp_memory.h"
#include "rate.h"
#include "raw_private.h"
#include "req_recovery.h"
#include "requester.h"
#include "responder.h"
#include "service.h"
#include "sport.h"
#include "static_rate.h"
#include "tx_allowance.h"
#include "wqe.h"

enum { FOR_RC = 1, FOR_UC = 2, FOR_UD = 4, FOR_XRC_SEND = 8, FOR_XRC_RECV = 16, FOR_RAW = 32 };
#define FOR_CONNECTED (FOR_RC | FOR_UC | FOR_XRC_SEND | FOR_XRC_RECV)
#define FOR_ALL       (FOR_CONNECTED | FOR_UD | FOR_RAW)

struct transition {
    uint8_t types, from, to;
    uint32_t required, optional; /* enum qp_attr_mask, without QPA_STATE */
};

#define INIT_ATTRS (QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS)
#define PATH       (QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN)
#define RESPONDER  (QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER)
#define REQUESTER  (QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN | QPA_MAX_RD_ATOMIC)
#define ALT        (QPA_ALT_PATH | QPA_PATH_MIG_STATE)
#define RUNNING    (QPA_CUR_STATE | QPA_ACCESS_FLAGS | QPA_RATE_LIMIT | ALT)
#define RESPONDS   (FOR_RC | FOR_XRC_RECV) /* has a responder that acknowledges */

/* UC has no ACKs and so no timers; UD no path; the XRC send side no responder, its receive
 * side no requester but an ACK timeout (table 91; Annex A14). */
static const struct transition transitions[] = {
    {FOR_CONNECTED, QPS_RESET, QPS_INIT, INIT_ATTRS, 0},
    {FOR_UD, QPS_RESET, QPS_INIT, QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, 0},
    {FOR_CONNECTED, QPS_INIT, QPS_INIT, 0, INIT_ATTRS},
    {FOR_UD, QPS_INIT, QPS_INIT, 0, QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY},
    {RESPONDS, QPS_INIT, QPS_RTR, PATH | RESPONDER,
     QPA_ALT_PATH | QPA_ACCESS_FLAGS | QPA_PKEY_INDEX},
    {FOR_UC | FOR_XRC_SEND, QPS_INIT, QPS_RTR, PATH,
     QPA_ALT_PATH | QPA_ACCESS_FLAGS | QPA_PKEY_INDEX},
    {FOR_UD, QPS_INIT, QPS_RTR, 0, QPA_PKEY_INDEX | QPA_QKEY},
    {FOR_RC | FOR_XRC_SEND, QPS_RTR, QPS_RTS, REQUESTER, RUNNING | QPA_MIN_RNR_TIMER},
    {FOR_XRC_RECV, QPS_RTR, QPS_RTS, QPA_TIMEOUT | QPA_SQ_PSN, RUNNING | QPA_MIN_RNR_TIMER},
    {FOR_UC, QPS_RTR, QPS_RTS, QPA_SQ_PSN, RUNNING},
    {FOR_UD, QPS_RTR, QPS_RTS, QPA_SQ_PSN, QPA_CUR_STATE | QPA_RATE_LIMIT | QPA_QKEY},
    {RESPONDS | FOR_XRC_SEND, QPS_RTS, QPS_RTS, 0, RUNNING | QPA_MIN_RNR_TIMER},
    {FOR_UC, QPS_RTS, QPS_RTS, 0, RUNNING},
    {FOR_UD, QPS_RTS, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT | QPA_QKEY},
    {FOR_ALL & ~FOR_XRC_RECV, QPS_RTS, QPS_SQD, 0, QPA_EN_SQD_ASYNC_NOTIFY},
    {FOR_RC | FOR_XRC_SEND, QPS_SQD, QPS_RTS, 0, RUNNING | QPA_MIN_RNR_TIMER},
    {FOR_UC, QPS_SQD, QPS_RTS, 0, RUNNING},
    {FOR_UD, QPS_SQD, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT | QPA_QKEY},
    {FOR_RC | FOR_XRC_SEND, QPS_SQD, QPS_SQD, 0,
     QPA_PKEY_INDEX | QPA_AV | QPA_MAX_RD_ATOMIC | QPA_MAX_DEST_RD_ATOMIC | QPA_TIMEOUT |
         QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_ACCESS_FLAGS | QPA_MIN_RNR_TIMER | ALT},
    {FOR_UC, QPS_SQD, QPS_SQD, 0, QPA_PKEY_INDEX | QPA_AV | QPA_ACCESS_FLAGS | ALT},
    {FOR_UD, QPS_SQD, QPS_SQD, 0, QPA_PKEY_INDEX | QPA_QKEY},
    {FOR_UC, QPS_SQE, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT | QPA_ACCESS_FLAGS},
    {FOR_UD, QPS_SQE, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT | QPA_QKEY},
    {FOR_RAW, QPS_RESET, QPS_INIT, QPA_PORT, 0},
    {FOR_RAW, QPS_INIT, QPS_INIT, 0, QPA_PORT},
    {FOR_RAW, QPS_INIT, QPS_RTR, 0, 0},
    {FOR_RAW, QPS_RTR, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT},
    {FOR_RAW, QPS_RTS, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT},
    {FOR_RAW, QPS_SQD, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT},
    {FOR_RAW, QPS_SQE, QPS_RTS, 0, QPA_CUR_STATE | QPA_RATE_LIMIT},
};

static uint8_t type_bit(const struct qp *qp)
{
    switch (qp->type) {
    case QPT_UC:
        return FOR_UC;
    case QPT_UD:
        return FOR_UD;
    case QPT_XRC_SEND:
        return FOR_XRC_SEND;
    case QPT_XRC_RECV:
        return FOR_XRC_RECV;
    case QPT_RAW_PACKET:
        return FOR_RAW;
    default:
        return FOR_RC;
    }
}

static const struct transition *find_transition(const struct qp *qp, uint8_t to)
{
    for (unsigned i = 0; i < ARRAY_SIZE(transitions); i++) {
        const struct transition *t = &transitions[i];

        if (t->from == qp->state && t->to == to && (t->types & type_bit(qp)))
            return t;
    }
    return NULL;
}

/* To RESET and to ERR from anywhere; else by the table. */
static int check_transition(const struct qp *qp, uint8_t to, uint32_t mask)
{
    const struct transition *t;

    if (qp->spread) /* it has no state */
        return -EINVAL;
    if (to == QPS_RESET || to == QPS_ERR)
        return mask & ~(uint32_t)QPA_CUR_STATE ? -EINVAL : 0;
    t = find_transition(qp, to);
    if (!t || (mask & t->required) != t->required || (mask & ~(t->required | t->optional)))
        return -EINVAL;
    return mask & QPA_ALT_PATH ? -EOPNOTSUPP : 0;
}

struct limit {
    uint32_t mask, value, low, high;
};

/* Whether a value of those in mask is beyond its limits, which are *which then. */
static bool is_beyond(const struct qp_attr *a, uint32_t mask, uint32_t max_mtu, struct limit *which)
{
    const struct limit limits[] = {
        {QPA_PKEY_INDEX, a->pkey_index, 0, 0},
        {QPA_PORT, a->port_num, 1, 1},
        {QPA_PATH_MTU, a->path_mtu, 1, max_mtu},
        {QPA_DEST_QPN, a->dest_qpn, 0, PSN_MASK},
        {QPA_TIMEOUT, a->timeout, 0, 31},
        {QPA_RETRY_CNT, a->retry_cnt, 0, 7},
        {QPA_RNR_RETRY, a->rnr_retry, 0, 7},
        {QPA_MIN_RNR_TIMER, a->min_rnr_timer, 0, 31},
        {QPA_MAX_RD_ATOMIC, a->max_rd_atomic, 0, QP_MAX_RD_ATOMIC},
        {QPA_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic, 0, QP_MAX_RD_ATOMIC},
        {QPA_PATH_MIG_STATE, a->path_mig_state, 0, 0},
        {QPA_ACCESS_FLAGS, a->access_flags & ~MEM_ACCESS_OPTIONAL, 0, 0x3FF},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(limits); i++)
        if ((mask & limits[i].mask) &&
            (limits[i].value < limits[i].low || limits[i].value > limits[i].high)) {
            *which = limits[i];
            return true;
        }
    return false;
}

static int check_values(const struct qp_attr *a, uint32_t mask, uint32_t max_mtu)
{
    struct limit which;

    return is_beyond(a, mask, max_mtu, &which) ? -EINVAL : 0;
}

/* A QP attribute that is stored as it is. */
#define TAKE(bit, field)                  \
    do {                                  \
        if (mask & (bit))                 \
            qp->attr.field = attr->field; \
    } while (0)

static void take_values(struct qp *qp, const struct qp_attr *attr, uint32_t mask)
{
    TAKE(QPA_PKEY_INDEX, pkey_index);
    TAKE(QPA_PORT, port_num);
    TAKE(QPA_ACCESS_FLAGS, access_flags);
    TAKE(QPA_PATH_MTU, path_mtu);
    TAKE(QPA_DEST_QPN, dest_qpn);
    TAKE(QPA_RQ_PSN, rq_psn);
    TAKE(QPA_SQ_PSN, sq_psn);
    TAKE(QPA_TIMEOUT, timeout);
    TAKE(QPA_RETRY_CNT, retry_cnt);
    TAKE(QPA_RNR_RETRY, rnr_retry);
    TAKE(QPA_MIN_RNR_TIMER, min_rnr_timer);
    TAKE(QPA_MAX_RD_ATOMIC, max_rd_atomic);
    TAKE(QPA_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    TAKE(QPA_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
    TAKE(QPA_AV, ah);
    TAKE(QPA_QKEY, qkey);
    TAKE(QPA_RATE_LIMIT, rate_limit);
    TAKE(QPA_RATE_LIMIT, rate_burst);
    qp->access = (uint16_t)qp->attr.access_flags;
    qp->qkey = qp->attr.qkey;
    if (mask & QPA_PATH_MTU)
        qp->mtu = 128u << attr->path_mtu;
    if (mask & QPA_DEST_QPN)
        qp->dest_qpn = attr->dest_qpn;
    if (mask & QPA_TIMEOUT) /* C9-140: 4.096 us * 2^timeout; 0: never */
        qp->ack_wait = qp->ack_timeout = attr->timeout ? UINT64_C(4096) << attr->timeout : 0;
    if (mask & QPA_RETRY_CNT)
        qp->req.retries = 0;
    if (mask & QPA_RNR_RETRY)
        qp->req.rnr_retries = 0;
}

/* The lower of its own limit and the rate of its path, where the port is faster than that: bits per
 * second, or 0. */
static uint64_t limit_of(const struct engine *e, const struct qp *qp)
{
    uint64_t own = qp->attr.rate_limit * UINT64_C(1000), line = e->cfg.congestion.line;
    uint64_t path = static_rate_mbps(qp->attr.ah.static_rate) * UINT64_C(1000000);

    if (!path || (line && path >= line))
        return own;
    return own ? min_of(own, path) : path;
}

void engine_qp_hold(struct engine *e, struct qp *qp, bool held)
{
    if (qp_owner_engine(qp) == e)
        qp->dest_qpn = held ? QPN_NONE : qp->attr.dest_qpn;
}

void engine_qp_agree(struct engine *e, struct qp *qp, bool agreed)
{
    if (qp_owner_engine(qp) != e)
        return;
    __atomic_store_n(&qp->selective, agreed && qp_is_reliable(qp), __ATOMIC_RELAXED);
    if (!agreed && qp->req.sack)
        req_send_again(e, qp);
}

void engine_qp_redirect(struct engine *e, struct qp *qp, const uint8_t mac[6])
{
    if (qp_owner_engine(qp) != e)
        return;
    memcpy(qp->av.dmac, mac, sizeof(qp->av.dmac));
    encap_template_redirect(&qp->encap, mac);
}

/* RESET forgets all work and attributes; the rings start again at index 0 on both sides. */
static void reset(struct engine *e, struct qp *qp)
{
    timer_remove(&e->wheel, &qp->timer);
    rate_forget(e, qp);
    memset(&qp->attr, 0, sizeof(qp->attr));
    memset(&qp->av, 0, sizeof(qp->av));
    qp->comm_est_raised = qp->early_doorbell = qp->cnp_due = false;
    __atomic_store_n(&qp->selective, false, __ATOMIC_RELAXED);
    qp->cnp_after = 0;
    qp->misplaced_count = qp->misplaced_limit =
        0; /* the next peer's packets take a way of their own */
    qp->fault = FAULT_NONE;
    why_reset(qp);
    wr_time_forget(qp);
    req_reset(qp, psn(0));
    resp_reset(qp, psn(0));
    qp_memory_reset(qp);
    qp->req.sq.cons = qp->resp.rq.cons = 0;
    if (qp->ops->reset)
        qp->ops->reset(qp);
    if (!qp->shared) /* XRC receive side */
        return;
    atomic_store(&qp->shared->sq_prod, 0);
    atomic_store(&qp->shared->rq_prod, 0);
    atomic_store(&qp->shared->rq_notify, 0);
}

/* What keeps a path busy is bytes: packets of a small path MTU may be more. */
static uint32_t window(const struct engine *e, const struct qp *qp)
{
    uint32_t packets = qp->mtu ? WINDOW_BYTES / qp->mtu : 0;

    return max_of(e->cfg.max_inflight, min_of(packets, e->max_window));
}

static void enter_state(struct engine *e, struct qp *qp, uint8_t to, uint32_t max_mtu)
{
    uint8_t from = qp->state;

    if (to == QPS_ERR) {
        why_set_cause(qp, CAUSE_program_ended_it);
        qp_enter_error(e, qp, WC_WR_FLUSH_ERR);
        return;
    }
    if (from == QPS_SQE && to == QPS_RTS) {
        qp_flush_sq_all(e, qp);
        why_reset(qp);
    }
    if (to != from)
        note(e, qp, TRACE_STATE, from, to);
    __atomic_store_n(&qp->state, to, __ATOMIC_RELAXED);
    if (to == QPS_RESET)
        reset(e, qp);
    else if (to == QPS_RTR && from == QPS_INIT)
        resp_reset(qp, psn(qp->attr.rq_psn));
    else if (to == QPS_RTS && from == QPS_RTR)
        req_reset(qp, psn(qp->attr.sq_psn));
    if (to == QPS_RTR && qp->service == PKT_UD)
        qp->mtu = 128u << max_mtu; /* the path's is the port's */
    if (to != from && (to == QPS_RTS || to == QPS_SQD)) {
        qp->req.window = qp->req.window_max = qp->req.window_full = window(e, qp);
        qp->req.ask_every = qp->req.window / ASKS;
        rate_begin(e, qp);
        qp->req.drained = false;
        /* Without a doorbell there is no work: looking would touch the memory of idle queue pairs.
         */
        if (from != QPS_RTR || qp->early_doorbell)
            engine_tx_ready(e, qp);
        engine_touch(e, qp);
    }
}

/* What is out is waited for as long as the new timeout says, from now on. Without one nothing is
 * known about single packets (sack_is_agreed). */
static void timeout_changed(struct engine *e, struct qp *qp)
{
    const struct requester *req = &qp->req;

    rate_timeout_changed(qp);
    if (!qp_can_request(qp) || req->rnr_wait || psn_eq(req->una, req->max_psn))
        return;
    timer_disarm(&qp->timer);
    if (req->sack && !qp->ack_timeout) {
        req_send_again(e, qp);
        return;
    }
    req_end_probes(e, qp);
    req_arm_timer(e, qp);
    engine_tx_ready(e, qp);
}

bool engine_qp_stop(struct engine *e, struct qp *qp)
{
    if (qp_owner_engine(qp) != e || !qp_has_late(qp))
        return true;
    note(e, qp, TRACE_STATE, qp->state, QPS_ERR);
    __atomic_store_n(&qp->state, (uint8_t)QPS_ERR, __ATOMIC_RELAXED);
    timer_disarm(&qp->timer);
    if (qp->late)
        late_stop(qp->late);
    if (qp->raw_rq && qp->raw_rq->late)
        late_stop(qp->raw_rq->late);
    return !qp_has_late(qp);
}

int engine_qp_modify(struct engine *e, struct qp *qp, const struct qp_attr *attr, uint32_t mask,
                     const struct address_vector *av, uint32_t max_mtu, ns_t now)
{
    uint8_t to = mask & QPA_STATE ? (uint8_t)attr->state : qp->state;
    struct resp_resource *res = NULL;
    uint32_t reads = 0;
    int rc;

    e->now = now;
    if ((mask & QPA_STATE) && attr->state >= QPS_COUNT)
        return -EINVAL;
    if ((mask & QPA_CUR_STATE) && attr->cur_state != qp->state)
        return -EINVAL;
    rc = check_transition(qp, to, mask & ~(uint32_t)QPA_STATE);
    if (!rc && to == QPS_RESET && !engine_qp_stop(e, qp))
        rc = -EAGAIN;
    if (!rc)
        rc = check_values(attr, mask, max_mtu);
    if (!rc && (mask & QPA_RATE_LIMIT))
        rc = rate_check_limit(qp, attr);
    if (!rc && (mask & QPA_MAX_DEST_RD_ATOMIC)) {
        /* What the peer has sent by the old number is answered. */
        reads = max_of((uint32_t)attr->max_dest_rd_atomic, resp_pending_span(&qp->resp));
        rc = resp_resources_alloc(&res, reads);
    }
    if (!rc && (mask & QPA_AV))
        rc =
            av ? sport_set_path(e, qp, av, mask & QPA_DEST_QPN ? attr->dest_qpn : qp->attr.dest_qpn)
               : -EINVAL;
    if (rc) {
        free(res);
        return rc;
    }
    if (mask & QPA_MAX_DEST_RD_ATOMIC)
        resp_resources_set(qp, res, reads);
    if (to == QPS_SQD && qp->state != QPS_SQD) /* the event is a wish of this transition alone */
        qp->attr.en_sqd_async_notify = 0;
    take_values(qp, attr, mask);
    if (mask & QPA_TIMEOUT)
        timeout_changed(e, qp);
    if (mask & QPA_STATE)
        enter_state(e, qp, to, max_mtu);
    share_set_class(e, qp);
    if (mask & (QPA_RATE_LIMIT | QPA_AV))
        rate_set_limit(e, qp, limit_of(e, qp));
    engine_complete(e);
    return 0;
}

static void set_why(struct incident *out, enum cause cause, uint64_t a, uint64_t b, uint64_t c,
                    uint64_t d)
{
    *out =
        (struct incident){.kind = INCIDENT_CALL, .cause = (uint8_t)cause, .detail = {a, b, c, d}};
}

void engine_qp_modify_why(const struct qp *qp, const struct qp_attr *attr, uint32_t mask,
                          uint32_t max_mtu, struct incident *out)
{
    uint8_t from = qp->state, to = mask & QPA_STATE ? (uint8_t)attr->state : from;
    const struct transition *t = find_transition(qp, to);
    bool anywhere = to == QPS_RESET || to == QPS_ERR;
    struct limit which;
    uint32_t missing, more;

    if (((mask & QPA_STATE) && attr->state >= QPS_COUNT) || (!t && !anywhere) ||
        ((mask & QPA_CUR_STATE) && attr->cur_state != from)) {
        set_why(out, CAUSE_modify_transition, from, to, 0, 0);
        return;
    }
    missing = t ? t->required & ~mask : 0;
    more = mask & ~(uint32_t)QPA_STATE & ~(t ? t->required | t->optional : (uint32_t)QPA_CUR_STATE);
    if (missing)
        set_why(out, CAUSE_modify_missing, from, to, missing, 0);
    else if (more)
        set_why(out, CAUSE_modify_unexpected, from, to, more, 0);
    else if (is_beyond(attr, mask, max_mtu, &which))
        set_why(out, CAUSE_modify_value, which.mask, which.value, which.low, which.high);
}

bool qp_sends_wait(const struct qp *qp)
{
    const struct requester *req = &qp->req;

    return qp->state == QPS_RTS && req->slots &&
           (req->tail != req->head || work_queue_pending(&req->sq) > 0);
}

bool qp_datagrams_wait(const struct qp *qp)
{
    return !qp_is_reliable(qp) && qp_sends_wait(qp);
}

bool qp_datagrams_name(const struct qp *qp, uint32_t ah, unsigned *looks)
{
    const struct requester *req = &qp->req;
    uint32_t i;
    int n;

    if (qp->service != PKT_UD || !qp_datagrams_wait(qp))
        return false;
    for (i = req->send; i != req->head && *looks; i++, --*looks)
        if (slot_at(req, i)->wqe.h.ud.ah == ah)
            return true;
    n = work_queue_pending(&req->sq);
    for (i = req->sq.cons; n > 0 && *looks; i++, n--, --*looks)
        if (send_wqe_peek_ah(&req->sq, i) == ah)
            return true;
    return !*looks;
}

void engine_qp_query(const struct qp *qp, struct qp_attr *attr)
{
    *attr = qp->attr;
    attr->state = attr->cur_state = qp->state;
    attr->sq_draining = qp->state == QPS_SQD && !qp->req.drained;
    if (qp->state >= QPS_RTR && qp->state != QPS_ERR) {
        attr->rq_psn = qp->resp.epsn.v;
        attr->sq_psn = qp->req.next_psn.v;
    }
}

void engine_qp_error(struct engine *e, struct qp *qp, enum cause cause, ns_t now)
{
    e->now = now;
    if (qp->state != QPS_RESET && qp->state != QPS_ERR) {
        struct incident i = {.kind = INCIDENT_CALL};

        why_set_cause(qp, cause);
        why_put(e, qp, &qp->why.is, &i);
        qp_enter_error(e, qp, WC_WR_FLUSH_ERR);
    }
    engine_complete(e);
}
