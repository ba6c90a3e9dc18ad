/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the responder sends: READ responses and ATOMIC ACKs in PSN order, then one
 * (coalesced) ACK, RNR NAK or NAK behind them (9.7.5.1).
 */
#include "count.h"
#include "resp_map.h"
#include "resp_repeat.h"
#include "responder.h"
#include "sg.h"

/* In the error state, or on the way to it, only what was executed before the request that the NAK
 * refuses is answered. */
static bool may_answer(const struct qp *qp, const struct resp_resource *r)
{
    return (qp->state != QPS_ERR && !qp->fault) ||
           (qp->resp.syndrome != AETH_ACK_PLAIN &&
            psn_before(psn_add(r->first, r->next), qp->resp.ack_psn));
}

static struct resp_resource *oldest_pending(struct responder *resp)
{
    uint32_t max = resp->res_max;

    for (uint32_t i = resp_pending_span(resp); i > 0; i--) {
        struct resp_resource *r = &resp->res[(resp->res_head - i) % max];

        if (r->pending)
            return r;
    }
    return NULL;
}

/* Whose reply is next: the oldest resource that waits, unless a part of a READ has to be sent
 * again. Such a part goes before other READs, whose requester keeps what comes early, but not
 * before an older atomic: its requester would take the result for lost, and ask for it again and
 * again. */
static struct resp_resource *next_resource(struct qp *qp)
{
    struct responder *resp = &qp->resp;
    struct resp_repeat *again = resp->repeats;
    struct resp_resource *r = oldest_pending(resp);

    if (unlikely(again) &&
        (!r || r->kind == KIND_READ_REQUEST || !psn_before(r->first, again->r.first)))
        r = &again->r;
    return r && may_answer(qp, r) ? r : NULL;
}

/* Headers into the frame; returns where the payload goes. */
static uint8_t *build(struct engine *e, struct qp *qp, struct tx_job *job, struct pkt *p)
{
    uint8_t *bth = job->frame->data + qp->encap.len;

    p->pkey = PKEY_DEFAULT;
    p->dest_qpn = qp->dest_qpn;
    job->is_reply = true;
    job->slot = 0;
    job->psn = p->psn;
    job->bth_len = (uint16_t)pkt_len(p->opcode, p->payload_len);
    encap_tx(job->frame->data, &qp->encap, job->bth_len, e->ip_id++);
    return bth + pkt_build_headers(bth, p);
}

static void build_ack(struct engine *e, struct qp *qp, struct tx_job *job, struct pkt *p)
{
    p->opcode = OPCODE(qp->service, OP_ACK);
    build(e, qp, job, p);
}

static __attribute__((noinline, cold)) void build_map(struct engine *e, struct qp *qp,
                                                      struct tx_job *job, struct pkt *p,
                                                      const struct kept_map *map)
{
    p->opcode = OPCODE(qp->service, OP_ACK);
    p->aeth.msn = qp->resp.msn & PSN_MASK;
    p->payload_len = kept_map_len(map);
    kept_map_build(build(e, qp, job, p), map);
}

/* The same ACK with an empty map. */
static __attribute__((noinline, cold)) void show_map(struct engine *e, struct qp *qp,
                                                     struct tx_job *job, struct pkt *p)
{
    struct kept_map empty = {.first = qp->resp.epsn, .words = 1};

    qp->resp.shows_map = false;
    if (p->aeth.syndrome == AETH_ACK_PLAIN)
        build_map(e, qp, job, p, &empty);
    else
        build_ack(e, qp, job, p);
}

/* In the error state an ACK may be owed behind READs that are not answered any more. It would
 * acknowledge them, too (9.7.5.1.2): it ends before the first of them. */
static __attribute__((noinline, cold)) void ack_before_unanswered(const struct responder *resp,
                                                                  struct pkt *p)
{
    for (uint32_t i = resp_pending_span(resp); i > 0; i--) {
        const struct resp_resource *r = &resp->res[(resp->res_head - i) % resp->res_max];

        if (!r->pending || r->answered)
            continue;
        p->psn = psn_prev(r->first);
        p->aeth.msn = r->msn - 1;
        return;
    }
}

static bool reply_ack(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct pkt p = {0};

    if (!resp_take_ack(qp, &p.aeth.syndrome, &p.psn))
        return false;
    p.aeth.msn = qp->resp.msn;
    if (unlikely(qp->resp.res_pending) && p.aeth.syndrome == AETH_ACK_PLAIN)
        ack_before_unanswered(&qp->resp, &p);
    if (unlikely(p.aeth.syndrome == (AETH_NAK | NAK_PSN_SEQUENCE)))
        resp_gap_is_told(qp);
    if (unlikely(qp->resp.shows_map))
        show_map(e, qp, job, &p);
    else
        build_ack(e, qp, job, &p);
    return true;
}

/* An ACK of what was answered: requesters that know of no reports drop it. It waits for parts of
 * READs that are sent again: they are pending without a resource, so the oldest one is not known.
 */
static bool take_report(struct qp *qp, struct pkt *p, struct kept_map *map)
{
    const struct resp_resource *r;
    psn_t unsent;

    if (qp->resp.repeats)
        return false;
    r = oldest_pending(&qp->resp);
    unsent = r ? psn_add(r->first, r->next) : qp->resp.epsn;
    p->psn = psn_prev(unsent);
    p->aeth.syndrome = AETH_ACK_PLAIN;
    return resp_take_report(qp, unsent, map);
}

static __attribute__((noinline, cold)) bool reply_map(struct engine *e, struct qp *qp,
                                                      struct tx_job *job)
{
    struct pkt p = {.psn = qp->resp.epsn, .aeth.syndrome = AETH_NAK | NAK_PSN_SEQUENCE};
    struct kept_map map;

    if (qp->resp.owes_losses && resp_take_losses(qp, &map)) {
        p.aeth.syndrome = AETH_NAK | NAK_LOSSES;
        build_map(e, qp, job, &p, &map);
        return true;
    }
    if (!resp_take_map(qp, &map) && !take_report(qp, &p, &map))
        return false;
    build_map(e, qp, job, &p, &map);
    return true;
}

static bool reply_atomic(struct engine *e, struct qp *qp, struct tx_job *job,
                         struct resp_resource *r)
{
    struct pkt p = {.opcode = OPCODE(qp->service, OP_ATOMIC_ACK), .psn = r->first};

    p.aeth.syndrome = AETH_ACK_PLAIN;
    p.aeth.msn = r->msn & PSN_MASK;
    p.atomic_ack = r->original;
    build(e, qp, job, &p);
    resp_finish_reply(&qp->resp, r);
    return true;
}

static bool is_repeat(const struct qp *qp, const struct resp_resource *r)
{
    return unlikely(qp->resp.repeats) && r == &qp->resp.repeats->r;
}

static uint32_t end_of(const struct qp *qp, const struct resp_resource *r)
{
    return is_repeat(qp, r) ? qp->resp.repeats->end : r->packets;
}

static void finish_read(struct qp *qp, struct resp_resource *r)
{
    if (is_repeat(qp, r))
        resp_repeat_done(qp);
    else
        resp_finish_reply(&qp->resp, r);
}

/* The last response of a READ is built. It is counted when its bytes are there. */
static void finish_good_read(struct engine *e, struct qp *qp, struct tx_job *job,
                             struct resp_resource *r)
{
    bool waits = e->batch.n || e->sealed != e->jobs;

    if (counts(qp, QP_COUNT_PEER_READ) && !is_repeat(qp, r)) {
        if (waits)
            job->slot = (uint32_t)(r - qp->resp.res) + 1;
        else
            count_read(e, qp, r);
    }
    finish_read(qp, r);
}

void resp_reply_sealed(struct engine *e, const struct tx_job *job)
{
    if (job->slot)
        count_read(e, job->qp, &job->qp->resp.res[job->slot - 1]);
}

static bool reply_read(struct engine *e, struct qp *qp, struct tx_job *job, struct resp_resource *r)
{
    uint32_t off = r->next * qp->mtu;
    struct pkt p = {.opcode = OPCODE(qp->service, resp_read_op(r)),
                    .psn = psn_add(r->first, r->next),
                    .payload_len = min_of(r->len - off, qp->mtu)};
    struct mr_span span = {0};
    enum mr_fault f = MR_OK;
    uint8_t *payload;

    if (mem_batch_full(&e->batch))
        sg_flush_in(e);
    if (p.payload_len)
        f = mr_check_remote(&e->mrs, r->rkey, r->pd, qp->qpn, r->va + off, p.payload_len,
                            MEM_REMOTE_READ, &span);
    if (f != MR_OK) { /* the key was revoked in mid-message */
        if (!r->answered)
            count_failed(e, qp, QP_COUNT_PEER_READ);
        why_access_fault(e, qp, FAULT_REMOTE_ACCESS, f, r->rkey, r->va + off, p.payload_len,
                         MEM_REMOTE_READ);
        finish_read(qp, r);
        resp_fault(e, qp, FAULT_REMOTE_ACCESS, p.psn);
        return reply_ack(e, qp, job);
    }
    p.aeth.syndrome = AETH_ACK_PLAIN;
    p.aeth.msn = r->msn & PSN_MASK;
    payload = build(e, qp, job, &p);
    if (p.payload_len) {
        mem_batch_in_span(&e->batch, &span, payload, p.payload_len, e->jobs);
        pkt_build_pad(payload, p.payload_len);
    }
    if (++r->next == end_of(qp, r))
        finish_good_read(e, qp, job, r);
    return true;
}

/* FLUSH and ATOMIC WRITE are answered by an empty READ response (A19.4). */
static bool reply_done(struct engine *e, struct qp *qp, struct tx_job *job, struct resp_resource *r)
{
    struct pkt p = {.opcode = OPCODE(qp->service, OP_READ_RESP_ONLY), .psn = r->first};

    p.aeth.syndrome = AETH_ACK_PLAIN;
    p.aeth.msn = r->msn & PSN_MASK;
    build(e, qp, job, &p);
    resp_finish_reply(&qp->resp, r);
    return true;
}

bool resp_reply_short(struct engine *e, struct qp *qp, struct tx_job *job)
{
    const struct resp_resource *r = qp->resp.res_pending ? next_resource(qp) : NULL;

    return !(r && r->kind == KIND_READ_REQUEST) && resp_reply(e, qp, job);
}

bool resp_reply(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct resp_resource *r;

    if (unlikely(qp->resp.urgent) && reply_map(e, qp, job))
        return true;
    r = qp->resp.res_pending ? next_resource(qp) : NULL;
    if (!r)
        return reply_ack(e, qp, job);
    switch (r->kind) {
    case KIND_READ_REQUEST:
        return reply_read(e, qp, job, r);
    case KIND_FLUSH:
    case KIND_ATOMIC_WRITE:
        return reply_done(e, qp, job, r);
    default:
        return reply_atomic(e, qp, job, r);
    }
}
