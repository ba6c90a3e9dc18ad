/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work queues that raw packets are received into: their states, their entries, and how they fail.
 * An entry that a frame did not fit into is kept for the next one.
 */
#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "count.h"
#include "frame_csum.h"
#include "id_tables.h"
#include "late.h"
#include "raw_private.h"
#include "responder.h"
#include "sg.h"
#include "srq.h"

struct wq_table *wq_table_create(const uint64_t secret[2])
{
    return (struct wq_table *)id_table_create(1, WQ_TABLE_SLOTS, secret);
}

void wq_table_destroy(struct wq_table *t)
{
    free(t);
}

struct wq *wq_table_lookup(const struct wq_table *t, uint32_t number)
{
    return id_table_lookup((const struct id_table *)t, number);
}

static struct wq *wq_alloc(const struct wq_init *init)
{
    struct wq *wq = calloc(1, sizeof(*wq));
    uint32_t max_sge = init->srq ? init->srq->init.wq.max_sge : init->rq.max_sge;

    if (!wq)
        return NULL;
    wq->init = *init;
    wq->entry = calloc(1, sizeof(struct rqe) + max_sge * sizeof(struct sge));
    if (!wq->entry) {
        free(wq);
        return NULL;
    }
    return wq;
}

struct wq *wq_create(struct wq_table *t, const struct wq_init *init, int *err)
{
    struct wq *wq = wq_alloc(init);

    *err = -ENOMEM;
    if (!wq)
        return NULL;
    *err = id_table_insert((struct id_table *)t, wq, &wq->number);
    if (*err) {
        wq_free(wq);
        return NULL;
    }
    wq->table = t;
    return wq;
}

struct wq *wq_of_qp(struct qp *qp, const struct work_queue *rq)
{
    struct wq *wq = wq_alloc(&(struct wq_init){
        .pd = qp->pd, .uidx = qp->uidx, .cq = qp->recv_cq, .rq = *rq, .srq = qp->srq});

    if (!wq)
        return NULL;
    wq->qp = qp;
    wq->number = qp->qpn;
    if (qp->shared && !qp->srq) {
        wq->init.rq_prod = &qp->shared->rq_prod;
        wq->notify = &qp->shared->rq_notify;
    }
    return wq;
}

void wq_free(struct wq *wq)
{
    if (!wq)
        return;
    if (wq->table)
        id_table_remove((struct id_table *)wq->table, wq->number, wq);
    free(wq->entry);
    free(wq);
}

uint32_t wq_number(const struct wq *wq)
{
    return wq->number;
}

void *wq_owner(const struct wq *wq)
{
    return wq->init.owner;
}

enum wq_state wq_current_state(const struct wq *wq)
{
    return (enum wq_state)__atomic_load_n(&wq->state, __ATOMIC_RELAXED);
}

struct engine *wq_engine(const struct wq *wq)
{
    return wq->qp ? qp_owner_engine(wq->qp) : __atomic_load_n(&wq->engine, __ATOMIC_ACQUIRE);
}

/* ---- states ---- */

void wq_forget(struct wq *wq)
{
    wq->busy = wq->failed = false;
    wq->fault = FAULT_NONE;
    wq->init.rq.cons = 0;
    if (wq->init.rq_prod)
        atomic_store(wq->init.rq_prod, 0);
}

void engine_wq_attach(struct engine *e, struct wq *wq)
{
    __atomic_store_n(&wq->engine, e, __ATOMIC_RELEASE);
}

void engine_wq_detach(struct engine *e, struct wq *wq)
{
    if (wq_engine(wq) != e)
        return;
    late_forget(wq->late);
    wq_set_state(wq, WQS_RESET);
    __atomic_store_n(&wq->engine, NULL, __ATOMIC_RELEASE);
}

bool engine_wq_stop(struct engine *e, struct wq *wq)
{
    if (wq_engine(wq) != e || !wq->late)
        return true;
    wq_set_state(wq, WQS_ERR);
    late_stop(wq->late);
    return !wq->late;
}

static bool wq_receives(const struct wq *wq)
{
    if (wq->late)
        return false;
    if (wq->qp)
        return qp_can_receive(wq->qp) && !wq->qp->fault;
    return wq->state == WQS_RDY && !wq->fault;
}

static void wq_fault(struct engine *e, struct wq *wq, enum fault fault)
{
    if (wq->qp) {
        if (wq->qp->late) /* what it sends is late, too */
            late_note_failed(wq->qp, UINT32_MAX, psn(0));
        else if (wq->qp->state != QPS_ERR)
            resp_fault(e, wq->qp, fault, psn(0));
    } else if (wq->state == WQS_RDY && !wq->fault) {
        wq->fault = fault;
        note(e, NULL, TRACE_FAULT, fault, 0);
        if (!wq->in_touched)
            STAILQ_INSERT_TAIL(&e->touched_wqs, wq, touched_link);
        wq->in_touched = true;
    }
}

void wq_complete(struct engine *e, struct wq *wq)
{
    const struct engine_host *host = &e->cfg.host;
    uint8_t status = fault_rules[wq->fault].recv_status;

    wq->fault = FAULT_NONE;
    wq_set_state(wq, WQS_ERR);
    if (host->wq_event)
        host->wq_event(host->ctx, wq, QP_EVENT_WQ_FATAL);
    wq_flush(e, wq, status);
}

/* ---- completions ---- */

static void post(struct engine *e, struct wq *wq, const struct cqe *c)
{
    if (wq->qp && counts(wq->qp, QP_COUNT_RECV))
        count_recv(e, wq->qp, c);
    if (!engine_post(e, wq->init.cq, c, false))
        wq_fault(e, wq, FAULT_CQ_OVERRUN);
}

static struct cqe completion(const struct engine *e, const struct wq *wq, uint64_t wr_id)
{
    return (struct cqe){
        .wr_id = wr_id,
        .timestamp = e->now,
        .qpn = wq->number,
        .uidx = wq->init.uidx,
        .opcode = WC_RECV,
        .vlan = VLAN_NONE,
    };
}

static void post_error(struct engine *e, struct wq *wq, uint64_t wr_id, uint32_t index,
                       uint8_t status)
{
    struct cqe c = completion(e, wq, wr_id);

    c.wqe = index;
    c.status = status;
    c.vendor_err = wq->qp ? wq->qp->why.is.cause : CAUSE_none;
    post(e, wq, &c);
}

/* WQEs that are posted concurrently are not among them. A queue pair has turns for what is left; a
 * work queue without one has no turns, and its program is charged for all. */
static int to_flush(struct engine *e, struct wq *wq)
{
    const struct engine_host *host = &e->cfg.host;
    int pending;

    if (wq->qp)
        return qp_flush_turn(e, wq->qp, &wq->init.rq);
    pending = work_queue_pending(&wq->init.rq);
    if (pending > 0 && host->wq_charge)
        host->wq_charge(host->ctx, wq, (uint64_t)pending * COST_FLUSH);
    return pending;
}

void wq_flush(struct engine *e, struct wq *wq, uint8_t status)
{
    struct work_queue *rq = &wq->init.rq;

    if (unlikely(wq->late)) { /* buffers are still written */
        late_flush(wq->late, status);
        return;
    }
    if (wq->busy) {
        wq->busy = false;
        post_error(e, wq, wq->entry->h.wr_id, wq->index, wq->failed ? WC_WR_FLUSH_ERR : status);
    }
    if (wq->init.srq || !rq->prod)
        return;
    if (wq->notify) {
        atomic_store(wq->notify, 1);
        atomic_thread_fence(memory_order_seq_cst);
    }
    for (int n = to_flush(e, wq); n > 0; n--) {
        uint32_t index = rq->cons;

        post_error(e, wq, work_queue_take_id(rq), index, WC_WR_FLUSH_ERR);
    }
}

void wq_complete_recv(struct engine *e, struct rx_completion *c)
{
    struct wq *wq = c->wq;

    if (unlikely(wq->late)) {
        late_complete_recv(e, wq->late, c);
        return;
    }
    if (c->failed)
        wq_fault(e, wq, FAULT_MEMORY);
    if (c->failed || wq->failed) {
        c->cqe.status = wq->failed ? WC_WR_FLUSH_ERR : WC_LOC_PROT_ERR;
        wq->failed = true;
    }
    post(e, wq, &c->cqe);
}

/* ---- frames ---- */

static int take_shared(struct engine *e, struct wq *wq)
{
    struct srq *srq = wq->init.srq;
    bool limit_reached = false;
    int rc = srq_take(srq, wq->entry, &limit_reached);

    wq->index = 0; /* what is free again, the SRQ itself says */
    if (limit_reached && e->cfg.host.srq_event)
        e->cfg.host.srq_event(e->cfg.host.ctx, srq, QP_EVENT_SRQ_LIMIT_REACHED);
    return rc;
}

static int take_own(struct wq *wq)
{
    struct work_queue *rq = &wq->init.rq;
    int pending = work_queue_pending(rq);

    if (pending <= 0)
        return pending ? pending : 1;
    wq->index = rq->cons;
    return recv_queue_take(rq, wq->entry);
}

/* Takes the next entry, unless there is one that was kept. FAULT_RNR: there is none. */
static enum fault take_entry(struct engine *e, struct wq *wq)
{
    int rc;

    if (wq->busy)
        return FAULT_NONE;
    rc = wq->init.srq ? take_shared(e, wq) : take_own(wq);
    if (rc > 0)
        return FAULT_RNR;
    if (rc == -EOVERFLOW)
        return FAULT_QUEUE_INDEX;
    wq->busy = true;
    if (rc)
        return FAULT_RECV_MALFORMED;
    wq->room = recv_wqe_room(wq->entry);
    return FAULT_NONE;
}

/* L_Keys are looked up in the domain of the queue that the WQE was posted to. */
static uint32_t entry_pd(const struct wq *wq)
{
    return wq->init.srq ? wq->init.srq->init.pd : wq->init.pd;
}

/* The frame's bytes go into the entry, which completes when they are written. */
static void write_frame(struct engine *e, struct wq *wq, const struct frame *f, uint32_t tag)
{
    unsigned i = e->completions;
    struct rx_completion *c = rx_completion_take(e);

    *c = (struct rx_completion){.wq = wq, .job = i, .cqe = completion(e, wq, wq->entry->h.wr_id)};
    c->cqe.wqe = wq->index;
    c->cqe.byte_len = f->len;
    c->cqe.imm = tag;
    c->cqe.wc_flags = frame_csum_is_right(f->data, f->len) ? WC_IP_CSUM_OK : 0;
    wq->busy = false;
    if (wq->qp) {
        counter_inc(&wq->qp->counters.rx_packets);
        counter_add(&wq->qp->counters.rx_bytes, f->len);
    }
    /* A key may be revoked since it was checked. */
    if (sg_scatter(e, entry_pd(wq), wq->entry->sge, wq->entry->h.num_sge, 0, f->data, f->len,
                   RX_TAG_RAW + i) != MR_OK)
        c->failed = true;
}

enum drop wq_deliver(struct engine *e, struct wq *wq, const struct frame *f, uint32_t tag)
{
    enum fault fault;

    if (!wq_receives(wq))
        return DROP_raw_no_recv;
    fault = take_entry(e, wq);
    if (fault == FAULT_RNR)
        return DROP_raw_no_recv;
    if (fault == FAULT_NONE && wq->room < f->len)
        return DROP_raw_too_long;
    if (fault == FAULT_NONE &&
        sg_check(e, entry_pd(wq), wq->entry->sge, wq->entry->h.num_sge, MEM_LOCAL_WRITE) != MR_OK)
        fault = FAULT_RECV_PROTECTION;
    if (fault != FAULT_NONE) {
        wq_fault(e, wq, fault);
        return DROP_raw_no_recv;
    }
    if (sg_is_refused(e, entry_pd(wq), wq->entry->sge, wq->entry->h.num_sge))
        return DROP_raw_no_recv; /* the entry serves another frame */
    write_frame(e, wq, f, tag);
    return DROP_NONE;
}
