/* SPDX-License-Identifier: BSD-3-Clause */
/* The send window: see req_commit.h. */
#include "req_commit.h"
#include "invariant.h"

/* tail <= send <= head, and una <= next_psn <= max_psn where packets are acknowledged. */
static void check_window(const struct qp *qp)
{
    const struct requester *req = &qp->req;

    invariant(req->send - req->tail <= req->head - req->tail);
    invariant(req->head - req->tail <= req->slot_count);
    invariant(!psn_before(req->next_psn, req->una));
    invariant(!psn_before(req->max_psn, req->next_psn));
}

void req_reset(struct qp *qp, psn_t first)
{
    struct requester *req = &qp->req;

    req->tail = req->send = req->head = 0;
    req->pkt = 0;
    req->next_psn = req->max_psn = req->una = first;
    req->ack_asked_psn = psn_prev(first);
    req->rd_outstanding = 0;
    req->retry_left = qp->attr.retry_cnt;
    req->rnr_retry_left = qp->attr.rnr_retry;
    req->stalls = 0;
    req->rnr_wait = req->implied_nak = req->nak_taken = req->drained = false;
    req->stranger = false;
    req->peer_moves = 0;
    req->peer_sport = 0;
}

struct send_slot *req_open_slot(struct requester *req)
{
    return slot_at(req, req->head++);
}

void req_commit_local(struct requester *req)
{
    req->send++;
}

void req_commit_packet(struct engine *e, struct qp *qp, struct send_slot *s, bool asked)
{
    struct requester *req = &qp->req;

    if (asked)
        req->ack_asked_psn = req->next_psn;
    if (!psn_eq(req->next_psn, req->max_psn))
        counter_inc(&qp->counters.retransmits);
    if (op_is_read_or_atomic(s->wqe.h.opcode)) {
        req->rd_outstanding++;
        req->pkt = s->packets;
    } else {
        req->pkt++;
    }
    req->next_psn = psn_add(s->first, req->pkt);
    if (req->pkt == s->packets) {
        req->send++;
        req->pkt = 0;
    }
    if (psn_before(req->max_psn, req->next_psn))
        req->max_psn = req->next_psn;
    if (!qp_is_reliable(qp)) { /* complete when it is sent (9.8.2, 9.8.3) */
        req->una = req->max_psn = req->next_psn;
        engine_touch(e, qp);
    } else if (asked ||
               qp->timer.deadline == NS_NEVER) { /* the timer starts when an ACK is requested */
        req_arm_timer(e, qp);
    }
    check_window(qp);
}

void req_commit_segments(struct engine *e, struct qp *qp, unsigned n, psn_t ack_asked_psn,
                         bool asked)
{
    struct requester *req = &qp->req;

    req->pkt += n;
    req->ack_asked_psn = ack_asked_psn;
    req->next_psn = req->max_psn = psn_add(req->next_psn, n);
    if (asked)
        req_arm_timer(e, qp);
    check_window(qp);
}

void req_commit_messages(struct engine *e, struct qp *qp, unsigned n, psn_t last, psn_t next,
                         bool reads)
{
    struct requester *req = &qp->req;

    req->sq.cons += n;
    req->head += n;
    req->send += n;
    if (reads)
        req->rd_outstanding += n;
    req->ack_asked_psn = last;
    req->next_psn = req->max_psn = next;
    req_arm_timer(e, qp);
    check_window(qp);
}

void req_commit_ack(struct requester *req, psn_t una)
{
    req->una = una;
}

void req_rewind(struct qp *qp, psn_t p)
{
    struct requester *req = &qp->req;
    uint32_t i;

    req->rd_outstanding = 0;
    req->pkt = 0;
    for (i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);

        if (!s->started)
            break;
        if (psn_within(p, s->first, slot_last(s))) {
            req->pkt = (uint32_t)psn_diff(p, s->first);
            break;
        }
        if (op_is_read_or_atomic(s->wqe.h.opcode) && s->done < s->packets)
            req->rd_outstanding++;
    }
    req->send = i;
    req->next_psn = p;
    req->ack_asked_psn = psn_prev(req->una);
    check_window(qp);
}

void req_unsend(struct qp *qp, psn_t p)
{
    qp->req.una = p;
    req_rewind(qp, p);
    qp->req.max_psn = p;
}

void req_retire(struct requester *req, uint32_t tail)
{
    req->tail = tail;
    if ((int32_t)(req->send - tail) < 0)
        req->send = tail;
}

void req_drop_all(struct requester *req)
{
    req->tail = req->send = req->head;
    req->pkt = 0;
}

void req_arm_timer(struct engine *e, struct qp *qp)
{
    if (qp->ack_timeout)
        timer_arm(&e->wheel, &qp->timer, TIMER_ACK, e->now + qp->ack_timeout, e->now);
}
