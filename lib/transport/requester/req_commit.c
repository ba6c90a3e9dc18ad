/* SPDX-License-Identifier: BSD-3-Clause */
/* The send window: see req_commit.h. */
#include "req_commit.h"
#include "invariant.h"
#include "req_sack.h"

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

    req_sack_close(qp);
    req->tail = req->send = req->head = 0;
    req->pkt = 0;
    req->next_psn = req->max_psn = req->una = first;
    req->ack_asked_psn = psn_prev(first);
    req->rd_outstanding = 0;
    req->retries = req->rnr_retries = 0;
    req->stalls = 0;
    req->recovering = req->rnr_wait = req->implied_nak = req->nak_taken = req->drained = false;
    req->recovery =
        (struct req_recovery){.slack = ANSWER_SLACK_FIRST, .alone_end = first, .alone_max = first};
    req->time_at = qp_is_reliable(qp) ? 0 : NS_NEVER;
    qp->ack_wait = qp->ack_timeout;
    req->has_credits = req->credited = false;
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
    req->credit_end += req->has_credits; /* it takes no receive */
}

static void sent_of_missing(struct engine *e, struct qp *qp, const struct send_slot *s)
{
    struct requester *req = &qp->req;
    uint32_t left = s->packets - req->pkt, n = 1;

    if (op_is_read_or_atomic(s->wqe.h.opcode))
        n = req_sack_hole(qp, req->next_psn, left);
    req_sack_sent(e, qp, req->next_psn, n);
}

/* The packet that is timed is lost once more: its round trip begins anew. */
static bool is_timed_again(const struct requester *req)
{
    return req->sack && psn_eq(req->recovery.timed_psn, req->next_psn);
}

/*
 * The first packet that is sent again for a loss is timed, unless a probe makes it unclear what an
 * ACK is for. All up to `again` were sent again before: an ACK may be for that copy. (A PSN that is
 * not in flight means none.)
 */
static void sent_again(struct engine *e, struct qp *qp, const struct send_slot *s)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;
    psn_t next = psn_add(req->next_psn, 1);
    bool before = psn_within(r->again, next, req->max_psn);

    counter_inc(&qp->counters.retransmits);
    if (!before)
        r->again = next;
    r->has_response = op_is_read_or_atomic(s->wqe.h.opcode);
    r->sent_for_an_answer |= !r->alone;
    r->asked_at = e->now;
    if (req->sack)
        sent_of_missing(e, qp, s);
    if ((r->timed && !r->timed_first && !is_timed_again(req)) || r->probes)
        return;
    r->timed = req->recovering = true;
    r->timed_first = false;
    r->timed_copy = before;
    r->timed_una = req->una;
    r->timed_psn = req->next_psn;
    r->timed_at = e->now;
}

static inline void begin_timing(const struct engine *e, struct qp *qp, psn_t p)
{
    struct req_recovery *r = &qp->req.recovery;

    r->timed = r->timed_first = qp->req.recovering = true;
    r->timed_copy = false;
    r->timed_psn = p;
    r->timed_una = qp->req.una;
    r->timed_at = e->now;
}

/* What asks now has all of its time, though the timer may have less for what asked before. */
static __attribute__((noinline, cold)) void note_ask(const struct engine *e, struct qp *qp, psn_t p)
{
    struct req_recovery *r = &qp->req.recovery;

    r->asked_at = e->now;
    if (r->wait && !r->probes)
        qp->ack_wait = min_of(r->wait, qp->ack_timeout);
    if (!qp->req.recovering)
        begin_timing(e, qp, p);
}

/*
 * The packet at PSN p, which asks for an answer, was sent for the first time: it is timed, unless
 * another one is, or a loss makes it unclear when its answer would have come.
 */
__attribute__((noinline, cold)) static void time_packet(struct engine *e, struct qp *qp, psn_t p)
{
    if (qp->times_send)
        wr_time_sent(e, qp, p);
    if (req_notes_asks(qp)) {
        note_ask(e, qp, p);
    } else if (!qp->req.recovering) {
        begin_timing(e, qp, p);
        qp->req.time_at = NS_NEVER; /* until its answer is there */
        if (unlikely(qp->times_send && qp->wr_time.state == WR_TIME_TAKEN))
            qp->req.time_at = 0; /* another packet is waited for */
    }
}

/* A packet that asks for an answer, at PSN p, was sent for the first time. */
static inline void asked_at(struct engine *e, struct qp *qp, psn_t p)
{
    if (unlikely(e->now > qp->req.time_at))
        time_packet(e, qp, p);
}

/*
 * The timer starts when an ACK is asked for while none is due, and anew with each progress: later
 * requests do not put off the end of the wait for an earlier one. It runs in any case while packets
 * are out.
 */
static inline void run_timer(struct engine *e, struct qp *qp, bool first_ask)
{
    if (first_ask || qp->timer.deadline == NS_NEVER)
        req_arm_timer(e, qp);
}

/* Then what is lost, too, and then what is new. */
static void sent_alone(struct qp *qp)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;

    if (req->sack) {
        req_send_lost(qp);
        return;
    }
    r->alone_end = req->next_psn;
    r->alone_max = req->max_psn;
    req_go_on(qp);
    r->alone_out = !r->has_response;
}

void req_commit_packet(struct engine *e, struct qp *qp, struct send_slot *s, bool asked)
{
    struct requester *req = &qp->req;
    bool first_ask = asked && !req_answer_is_due(req), again = !psn_eq(req->next_psn, req->max_psn);

    if (asked)
        req->ack_asked_psn = req->next_psn;
    if (again)
        sent_again(e, qp, s);
    else if (asked)
        asked_at(e, qp, req->next_psn);
    if (op_is_read_or_atomic(s->wqe.h.opcode) && !req_asks_one(req, req->next_psn)) {
        req->rd_outstanding += s->done < s->packets; /* else they came while all is sent again */
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
    } else {
        run_timer(e, qp, first_ask);
    }
    if (unlikely(again && req->recovery.alone))
        sent_alone(qp);
    check_window(qp);
}

/* Of the packets from next_psn on the first that asks for an ACK: req_asks_for_ack. */
static psn_t next_to_ask(const struct requester *req)
{
    psn_t p = psn_add(req->ack_asked_psn, req->ask_every);

    return psn_before(p, req->next_psn) ? req->next_psn : p;
}

/* UC: what was sent is complete (9.8.2). */
__attribute__((noinline)) static void commit_unacknowledged(struct engine *e, struct qp *qp,
                                                            psn_t next)
{
    struct requester *req = &qp->req;

    req->una = req->next_psn = req->max_psn = next;
    engine_touch(e, qp);
    check_window(qp);
}

void req_commit_segments(struct engine *e, struct qp *qp, unsigned n, psn_t ack_asked_psn,
                         bool asked)
{
    struct requester *req = &qp->req;
    bool first_ask = asked && !req_answer_is_due(req);

    req->pkt += n;
    if (unlikely(!qp_is_reliable(qp))) {
        commit_unacknowledged(e, qp, psn_add(req->next_psn, n));
        return;
    }
    if (asked)
        asked_at(e, qp, next_to_ask(req));
    req->ack_asked_psn = ack_asked_psn;
    req->next_psn = req->max_psn = psn_add(req->next_psn, n);
    run_timer(e, qp, first_ask);
    check_window(qp);
}

void req_commit_messages(struct engine *e, struct qp *qp, unsigned n, psn_t last, psn_t next,
                         bool reads)
{
    struct requester *req = &qp->req;
    bool first_ask = !req_answer_is_due(req);

    req->sq.cons += n;
    req->head += n;
    req->send += n;
    if (unlikely(!qp_is_reliable(qp))) {
        commit_unacknowledged(e, qp, next);
        return;
    }
    if (reads)
        req->rd_outstanding += n;
    asked_at(e, qp, req->next_psn);
    req->ack_asked_psn = last;
    req->next_psn = req->max_psn = next;
    run_timer(e, qp, first_ask);
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
    req->recovery.alone = req->recovery.alone_out = false;
    if (req_asks_one(req, p))
        req->window = 1; /* a peer that allows one READ would refuse the rest beside it */
    /* The first packet sent again asks for an ACK: it may be the only one that the peer lacks. */
    req->ack_asked_psn = psn_add(p, PSN_MASK + 1 - max_of(req->ask_every, 1u));
    check_window(qp);
}

void req_go_on(struct qp *qp)
{
    req_rewind(qp, qp->req.max_psn);
    qp->req.ack_asked_psn = psn_prev(qp->req.max_psn); /* it may have, and its answer is due */
}

void req_send_lost(struct qp *qp)
{
    psn_t p;

    if (!qp->req.sack || !req_sack_take(qp, &p)) {
        req_go_on(qp);
        return;
    }
    req_rewind(qp, p);
    qp->req.recovery.alone = true;
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

void req_drop_all(struct qp *qp)
{
    struct requester *req = &qp->req;

    req_sack_close(qp);
    req->tail = req->send = req->head;
    req->pkt = 0;
}

void req_arm_timer(struct engine *e, struct qp *qp)
{
    if (qp->ack_wait)
        timer_arm(&e->wheel, &qp->timer, TIMER_ACK, e->now + qp->ack_wait, e->now);
}
