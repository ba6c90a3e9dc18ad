/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the queue pairs of a burst need is fetched into the cache ahead of their frames. With
 * thousands of busy queue pairs it has left the cache since their last turn, and each wait for
 * memory takes as long as a message.
 */
#include "rx_ahead.h"

#include "lines.h"
#include "rx_batch.h"

/* Consecutive frames of one queue pair are one arrival. Their entries in the table are fetched. */
static unsigned find_arrivals(const struct engine *e, const struct frame *f, unsigned n,
                              struct rx_arrival *a)
{
    uint32_t last = UINT32_MAX;
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++) {
        enum hdr_form form;
        const uint8_t *bth = rx_find_bth(&f[i], &form);
        uint32_t qpn = bth ? bth_dest_qpn(bth) : UINT32_MAX;

        if (qpn != last && bth) {
            qp_table_fetch(e->cfg.qps, qpn);
            a[found++] = (struct rx_arrival){.qpn = qpn,
                                             .frame = &f[i],
                                             .first = i,
                                             .bth_at = (uint8_t)(bth - f[i].data),
                                             .op = bth_opcode(bth) & PKT_OP_MASK};
        }
        last = qpn;
        if (bth)
            a[found - 1].n++;
    }
    return found;
}

/* Leaves out numbers that no queue pair has. */
static unsigned look_up(const struct engine *e, struct rx_arrival *a, unsigned n)
{
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++) {
        a[found] = a[i];
        a[found].qp = qp_table_lookup(e->cfg.qps, a[i].qpn);
        found += a[found].qp != NULL;
    }
    return found;
}

static bool is_answer(uint8_t op)
{
    return op >= OP_READ_RESP_FIRST && op <= OP_ATOMIC_ACK;
}

static bool takes_receive(uint8_t op)
{
    return op <= OP_SEND_ONLY_IMM || op == OP_WRITE_LAST_IMM || op == OP_WRITE_ONLY_IMM;
}

static bool takes_resource(uint8_t op)
{
    return op == OP_READ_REQUEST || op == OP_CMP_SWP || op == OP_FETCH_ADD || op == OP_FLUSH ||
           op == OP_ATOMIC_WRITE;
}

/* The address and the R_Key behind the BTH are of memory that is read. */
static bool reads_memory(uint8_t op)
{
    return op == OP_READ_REQUEST || op == OP_CMP_SWP || op == OP_FETCH_ADD;
}

static void fetch_state(const struct rx_arrival *a)
{
    const struct qp *qp = a->qp;

    line_fetch(qp);
    line_fetch(&qp->send_cq);
    line_fetch(&qp->rx_template);
    line_fetch(&qp->rx_template.form);
    line_fetch(&qp->counters);
    line_fetch(&qp->req.send);
    if (is_answer(a->op)) {
        line_fetch(&qp->timer);
        line_fetch(&qp->req.sack);
        line_fetch(&qp->req.recovery.rtt);
        line_fetch(&qp->req.recovery.rtt_min);
        return;
    }
    line_fetch(&qp->req);
    line_fetch(&qp->encap);
    line_fetch(&qp->resp);
    line_fetch(&qp->resp.recv_hint);
    if (takes_receive(a->op))
        line_fetch(&qp->resp.recv_cq);
    if (takes_resource(a->op)) {
        line_fetch(&qp->resp.res);
        line_fetch(&qp->resp.read_hint);
    }
}

static void fetch_slots(const struct requester *req)
{
    unsigned n = min_of(req->head - req->tail, FETCH_MESSAGES);

    for (unsigned i = 0; i < n; i++)
        line_fetch(slot_at(req, req->tail + i));
}

static void fetch_receives(const struct work_queue *rq)
{
    line_fetch(rq->prod);
    for (unsigned i = 0; i < FETCH_MESSAGES; i++)
        line_fetch(work_queue_entry(rq, rq->cons + i));
}

static void fetch_resources(const struct responder *resp)
{
    uint32_t at = resp->res_head % resp->res_max;

    for (unsigned i = 0; i < FETCH_MESSAGES; i++) {
        line_fetch_to_write(&resp->res[at]);
        at = at + 1 < resp->res_max ? at + 1 : 0;
    }
}

/* Whatever the key grants: this reads nothing. */
static void fetch_memory(const struct engine *e, const struct rx_arrival *a)
{
    for (unsigned i = 0; i < a->n; i++) {
        const uint8_t *reth = a->frame[i].data + a->bth_at + BTH_LEN;

        if (a->frame[i].len >= a->bth_at + (uint32_t)(BTH_LEN + RETH_LEN))
            mr_fetch(&e->mrs, reth_rkey(reth), reth_va(reth));
    }
}

static void fetch_behind(const struct engine *e, const struct rx_arrival *a)
{
    const struct qp *qp = a->qp;

    if (qp_owner_engine(qp) != e)
        return;
    line_fetch(qp->owner);
    if (is_answer(a->op))
        fetch_slots(&qp->req);
    if (takes_receive(a->op) && qp->resp.rq.size)
        fetch_receives(&qp->resp.rq);
    if (takes_resource(a->op) && qp->resp.res_max)
        fetch_resources(&qp->resp);
    if (reads_memory(a->op) && qp->service != PKT_XRC)
        fetch_memory(e, a);
}

/* The state of an arrival is fetched as many arrivals before it, and then what that points to. */
#define STATE_AHEAD  6
#define BEHIND_AHEAD 3

static void fetch_next(struct rx_ahead *a)
{
    unsigned next = a->next++;

    if (next < a->n)
        fetch_state(&a->arrival[next]);
    next -= STATE_AHEAD - BEHIND_AHEAD; /* at first below 0: too large to be an arrival */
    if (next < a->n)
        fetch_behind(a->engine, &a->arrival[next]);
}

void rx_ahead_begin(struct rx_ahead *a, const struct engine *e, const struct frame *f, unsigned n)
{
    a->engine = e;
    a->n = look_up(e, a->arrival, find_arrivals(e, f, n, a->arrival));
    for (a->next = 0; a->next < STATE_AHEAD;)
        fetch_next(a);
}

void rx_ahead_go_on(struct rx_ahead *a, unsigned i)
{
    while (a->next - STATE_AHEAD < a->n && a->arrival[a->next - STATE_AHEAD].first <= i)
        fetch_next(a);
}
