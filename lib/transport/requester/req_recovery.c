/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Losses that no NAK tells of. A responder sends one NAK for a gap (9.7.5.2), so it is silent when
 * that NAK, what is sent again for it, or the last packets of all are lost. The local ACK timeout
 * would end the silence, but it is meant for a peer that is gone, and mostly a thousand round trips
 * long. So the requester measures the round trip, and asks for an answer much earlier: by a probe,
 * which is the oldest packet sent again with a request for an ACK. It fills the gap, or it is a
 * duplicate, which responders acknowledge at once (9.7.5.1.5). Of a long READ it asks for one
 * response.
 *
 * Probes are sent within a local ACK timeout, each after twice the wait of the one before. They
 * take no retry from the application's count, and the timeout comes when it would come without
 * them.
 *
 * A responder may keep what follows a gap: resp_store.c does. Whether the peer does is found out at
 * the first NAK: the missing packet is sent again, and nothing else before the answer. An ACK that
 * covers more shows that the peer keeps. From then on the missing packet is sent again alone, and
 * what is new follows it; the next NAK tells of the next gap. To others, and where an answer is not
 * clear, all is sent again from the missing packet on (9.7.6.1). An engine that keeps nothing
 * itself (engine_config.reorder) does not hold back at the first NAK.
 *
 * Round trips are those of packets that were sent again, and, while nothing is lost, that of one
 * packet now and then (TIME_BETWEEN), so that the first loss does not cost a timeout either. Until
 * then an answer may be late by a millisecond: a peer in software waits for its CPU that long.
 */
#include "req_recovery.h"
#include "rate.h"
#include "req_sack.h"

/* Between the answer to a packet that was timed and the next one that is. */
#define TIME_BETWEEN (32 * NS_PER_US)

/* Where something is known to be missing, and the round trip is not known. */
#define SILENCE NS_PER_MS

/* A map may be lost, and one that is asked for again. */
#define PROBES_FOR_A_MAP 3

/* As many that come twice, or fewer, cost less than another round trip. */
#define RESPONSES_MANY 16

/* How long an answer may take: the round trip, and four times its mean deviation. */
static ns_t answer_wait(const struct qp *qp)
{
    const struct req_recovery *r = &qp->req.recovery;

    if (!r->rtt)
        return qp->req.sack || r->awaits_map ? min_of(SILENCE, qp->ack_timeout) : qp->ack_timeout;
    return min_of(r->rtt + max_of(4 * r->rtt_var, r->slack), qp->ack_timeout);
}

/* The estimator that TCP has, too (RFC 6298): gains of an eighth and a quarter. */
static void measured(struct req_recovery *r, ns_t rtt)
{
    ns_t off = rtt > r->rtt ? rtt - r->rtt : r->rtt - rtt;

    rtt = max_of(rtt, (ns_t)1);
    if (!r->rtt) {
        r->rtt = r->rtt_min = rtt;
        r->rtt_var = rtt / 2;
        return;
    }
    if (rtt < r->rtt_min)
        r->rtt_min = rtt;
    r->rtt_var = r->rtt_var - r->rtt_var / 4 + off / 4;
    r->rtt = r->rtt - r->rtt / 8 + rtt / 8;
}

/* Packets that have arrived are in flight no more, though they are not acknowledged: as far as the
 * responder keeps requests behind the one that it expects, and as far as is kept track of here. */
static uint32_t full_window(const struct qp *qp)
{
    const struct requester *req = &qp->req;
    int32_t executed;
    uint32_t most;

    if (!req->sack)
        return req->window_max;
    executed = max_of(psn_diff(req->sack->expected, req->una), 0);
    most = min_of((uint32_t)(KEPT_MAP_PACKETS + executed), (uint32_t)SACK_PACKETS);
    return max_of(req->window_max, min_of(req->window_max + req_sack_count(qp), most));
}

/*
 * How long to wait from now on. Responses to READs follow each other, and those to the last READ
 * begin a round trip after that was sent. When all before them are here, the rest of that time is
 * left to wait for. Another round trip would be in vain, if that READ was lost.
 */
static ns_t rest_of_wait(const struct engine *e, struct qp *qp)
{
    struct req_recovery *r = &qp->req.recovery;
    ns_t wait = answer_wait(qp), late;

    if (!req_notes_asks(qp))
        return wait;
    r->wait = wait;
    if (!r->rtt || !qp->req.rd_outstanding || !sack_is_agreed(qp))
        return wait;
    late = min_of(max_of(4 * r->rtt_var, r->slack), wait);
    return max_of(r->asked_at + wait, e->now + late) - e->now;
}

void req_end_probes(const struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    req->recovery.probes = 0;
    req->recovery.give_up = 0;
    req->window = full_window(qp);
    qp->ack_wait = rest_of_wait(e, qp);
}

/* ---- the missing packet alone ---- */

static bool peer_keeps(const struct req_recovery *r)
{
    return r->peer_keeps >= KEEPS_IN_DOUBT;
}

/*
 * Each NAK names one gap, so gaps that are filled one by one cost a round trip each. That costs
 * nothing as long as the window has room for what is new in that time. Otherwise the requester
 * would have to wait: then all is sent again, which fills all gaps.
 */
static bool may_send_alone(const struct requester *req)
{
    const struct req_recovery *r = &req->recovery;

    return peer_keeps(r) &&
           (uint32_t)psn_diff(req->max_psn, req->una) + r->flight <= req->window_max;
}

void req_send_missing(struct engine *e, struct qp *qp, psn_t p)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;

    if (psn_eq(p, r->alone_end) && peer_keeps(r))
        r->peer_keeps--;
    if (!psn_before(p, r->alone_max)) /* else more than a round trip ago */
        r->flight = (uint32_t)psn_diff(req->max_psn, p);
    r->missing = p;
    r->slack = ANSWER_SLACK;
    req_rewind(qp, p);
    r->alone = may_send_alone(req);
    if (r->peer_keeps == KEEPS_UNKNOWN && e->cfg.reorder)
        req->window = 1;
    req_arm_timer(e, qp);
    engine_tx_ready(e, qp);
}

/*
 * The packet that was sent alone has arrived. True: the ACK covers nothing else, though more was
 * sent, so the peer lacks the next one, too. READs hide that: no ACK covers them.
 */
static bool was_alone_in_vain(struct requester *req)
{
    struct req_recovery *r = &req->recovery;

    r->alone_out = false;
    if (req->rd_outstanding || psn_eq(r->alone_end, r->alone_max))
        return false;
    if (psn_before(r->alone_end, req->una)) {
        r->peer_keeps = KEEPS;
        return false;
    }
    return !r->nak_follows;
}

/* The first progress after a NAK, without a probe. An ACK of what was about to be sent again shows
 * that the peer keeps; one of the missing packet alone, though more was sent, that it does not. */
static void learn_keeping(struct requester *req)
{
    struct req_recovery *r = &req->recovery;

    if (r->probes || r->has_response || !psn_before(r->missing, r->again) || req->rd_outstanding)
        return;
    if (psn_before(r->again, req->una) && psn_before(req->next_psn, req->una)) {
        r->peer_keeps = KEEPS;
    } else if (r->peer_keeps == KEEPS_UNKNOWN && !r->nak_follows &&
               !psn_eq(req->una, req->max_psn)) {
        r->peer_keeps = KEEPS_NOT;
    }
}

/* A peer that keeps would say what it lacks of the packets that follow. */
void req_skip(struct qp *qp)
{
    if (peer_keeps(&qp->req.recovery) || qp->req.recovery.alone)
        req_go_on(qp);
    else
        req_rewind(qp, qp->req.una);
}

/* ---- progress ---- */

static bool nothing_was_lost(const struct req_recovery *r)
{
    return r->slack == ANSWER_SLACK_FIRST;
}

/*
 * The answer to the last probe cannot be here yet: it is one to what was sent before, which was
 * only late. So is an answer that covers more than the probe, as long as nothing was lost: the
 * queues of the path have grown within a round trip. Where switches trim, round trips become short
 * again as soon as a queue has drained, and little is out: the answer is believed.
 */
static bool was_early(const struct engine *e, const struct requester *req)
{
    const struct req_recovery *r = &req->recovery;

    return r->probes && !r->ramps && !r->has_one &&
           (e->now - r->probed_at < r->rtt / 2 ||
            (nothing_was_lost(r) && psn_before(psn_add(r->probed, 1), req->una)));
}

/* The packet that was timed has its answer. */
static void end_timing(struct engine *e, struct qp *qp)
{
    struct req_recovery *r = &qp->req.recovery;

    if (!r->timed_copy || e->now - r->timed_at >= r->rtt / 2) /* else the ACK is for the other */
        measured(r, e->now - r->timed_at);
    r->timed = false;
    if (unlikely(rate_wants_acks(qp) && !r->timed_copy))
        rate_on_ack(e, qp, e->now - r->timed_at);
}

/* When a packet is timed again. A controller has to know of each round trip, and rest_of_wait of
 * each READ. */
static ns_t time_again(const struct engine *e, const struct qp *qp)
{
    return unlikely(rate_wants_acks(qp) || req_notes_asks(qp) || qp->times_send)
               ? e->now - 1
               : e->now + TIME_BETWEEN;
}

/* The packet that is timed may have arrived. */
static void take_time(struct engine *e, struct qp *qp)
{
    const struct req_recovery *r = &qp->req.recovery;

    if (r->timed && (psn_before(r->timed_psn, qp->req.una) || sack_is_here(qp, r->timed_psn)))
        end_timing(e, qp);
}

static void set_ramp(struct requester *req, uint32_t packets)
{
    req->window_max = min_of(packets, req->window_full);
    req->ask_every = req->window_max / ASKS;
    req->recovery.ramps = req->window_max < req->window_full;
}

void req_start_slowly(struct qp *qp)
{
    set_ramp(&qp->req, 1);
}

psn_t req_recovered(struct engine *e, struct qp *qp, psn_t from)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;
    bool early = was_early(e, req);
    ns_t wait = qp->ack_wait;

    if (req->sack)
        req_commit_ack(req, req_sack_advance(qp, from, req->una));
    take_time(e, qp);
    /* It was lost; or the peer waited, which costs a probe the next time. */
    if (r->probes && !early)
        r->slack = max_of(r->slack / 4, ANSWER_SLACK);
    if (req->nak_taken)
        learn_keeping(req);
    req->implied_nak = req->nak_taken = false;
    req->rnr_wait = false; /* the refused request got through after all: a duplicate was accepted */
    r->awaits_map = false;
    r->asks -= r->asks > 0;
    if (r->ramps)
        set_ramp(req, req->window_max + (uint32_t)psn_diff(req->una, from));
    req->recovering = r->timed || req->sack || r->ramps;
    if (!r->timed && req->time_at == NS_NEVER)
        req->time_at = time_again(e, qp);
    req_end_probes(e, qp);
    r->early = 0;
    if (r->one_asked && !r->has_one && !psn_before(psn_add(r->one, 1), req->next_psn))
        req_go_on(qp); /* the peer was slow: the others follow */
    r->one_asked = r->has_one = false;
    if (req->sack)
        return req->una;
    if (r->alone_out && !psn_before(req->una, r->alone_end) && was_alone_in_vain(req)) {
        req->nak_taken = req->recovering = true; /* a NAK that says the same may follow */
        req_send_missing(e, qp, req->una);
        return req->una;
    }
    if (!early)
        return req->una;
    qp->ack_wait = wait; /* until the round trip is measured again */
    if (!psn_before(req->una, req->max_psn))
        return req->una;
    r->early = max_of(e->now - r->probed_at, (ns_t)1);
    req->recovering = true;
    req_go_on(qp);
    return req->una;
}

/* ---- single packets are known to be missing ---- */

bool req_lose(struct engine *e, struct qp *qp, bool news)
{
    struct requester *req = &qp->req;
    bool lost;

    req->recovering = true;
    if (news) {
        take_time(e, qp);
        req_end_probes(e, qp);
        req_arm_timer(e, qp);
    }
    lost = req_sack_judge(e, qp, false);
    if (lost && !req->recovery.alone)
        req_send_lost(qp);
    engine_tx_ready(e, qp);
    return lost;
}

void req_resend_lost(struct engine *e, struct qp *qp)
{
    qp->req.recovering = true;
    qp->req.recovery.slack = ANSWER_SLACK;
    req_end_probes(e, qp);
    req_arm_timer(e, qp);
    if (!qp->req.recovery.alone)
        req_send_lost(qp);
    engine_tx_ready(e, qp);
}

void req_await_map(struct engine *e, struct qp *qp)
{
    struct req_recovery *r = &qp->req.recovery;

    if (qp->req.sack || r->awaits_map) /* the map came first, or the NAK did before */
        return;
    r->awaits_map = qp->req.recovering = true;
    req_end_probes(e, qp);
    req_arm_timer(e, qp);
}

/* Though it was asked for by probes, no map has come: the peer has not agreed after all. True: it
 * is sent again what it has asked for, as any other. */
static bool has_no_map(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;

    if (!req->recovery.awaits_map || req->recovery.probes < PROBES_FOR_A_MAP)
        return false;
    req->recovery.awaits_map = false;
    req->recovery.no_maps = req->nak_taken = true;
    req_end_probes(e, qp);
    req_send_missing(e, qp, req->una);
    return true;
}

/* ---- silence ---- */

/*
 * Whether the local ACK timeout is not over that the probes are sent in. It began when the timer
 * was armed that fired first. Requests that are sent between probes would have armed it anew: as a
 * whole they get a timeout of their own.
 */
static bool may_wait_on(const struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;

    if (!r->give_up) {
        r->give_up = e->now + qp->ack_timeout - qp->ack_wait;
        r->probe_max = req->max_psn;
        req->recovering = true;
    } else if (e->now >= r->give_up && !psn_eq(r->probe_max, req->max_psn)) {
        r->give_up = e->now + qp->ack_timeout;
        r->probe_max = req->max_psn;
    }
    return e->now < r->give_up;
}

/* The last packet that was sent, which tells of all that is missing: the peer answers with a map. A
 * READ that is asked for again would not: then the oldest. (If there is no answer, the peer may
 * have refused the oldest, and waits for that.) */
static psn_t last_packet(const struct requester *req)
{
    uint32_t last = req->send - (req->pkt == 0);
    const struct send_slot *s = slot_at(req, last);

    if (!psn_eq(req->next_psn, req->max_psn) || last - req->tail >= req->head - req->tail ||
        op_is_read_or_atomic(s->wqe.h.opcode))
        return req->una;
    return psn_prev(req->max_psn);
}

bool req_take_probe_answer(struct qp *qp, psn_t p)
{
    struct req_recovery *r = &qp->req.recovery;

    r->has_one = r->one_asked && psn_eq(p, r->one);
    return r->has_one;
}

/* The probe is a READ that lacks many responses. A peer that is only slow has them to send, and
 * would send all of them once more: one is asked for, whose answer ends in mid-message. */
static bool is_of_long_read(const struct requester *req)
{
    const struct send_slot *s = slot_at(req, req->send);

    return s->wqe.h.opcode == SQE_READ && s->packets - req->pkt > RESPONSES_MANY;
}

static void send_probe(struct engine *e, struct qp *qp)
{
    struct requester *req = &qp->req;
    struct req_recovery *r = &req->recovery;
    bool lost = (req->nak_taken || req->implied_nak) && !r->probes;

    /* Nothing else came: that was the probe's answer, and the path is shorter. */
    if (r->early && !nothing_was_lost(r)) {
        r->rtt = 0;
        measured(r, r->early);
    }
    counter_inc(&qp->counters.probes);
    /* Of the responses to a READ each covers one packet, whether they come late or again. */
    if (!r->probes)
        r->probed = req->rd_outstanding ? req->max_psn : req->una;
    if (r->probes < UINT8_MAX)
        r->probes++;
    /* The first copy of another packet still says how much the queues have grown. */
    r->timed &= r->timed_first && nothing_was_lost(r) && !psn_eq(r->timed_psn, req->una);
    r->probed_at = e->now;
    req->implied_nak = false;
    if (req->sack && req_sack_judge(e, qp, true)) {
        req->window = full_window(qp);
        req_send_lost(qp);
    } else if (sack_is_agreed(qp)) {
        req->window = full_window(qp);
        req_rewind(qp, r->probes > 1 ? req->una : last_packet(req));
        r->alone = true;
        r->sent_for_an_answer = true;
    } else {
        req_rewind(qp, req->una);
        r->one_asked |= !lost && is_of_long_read(req);
        r->one = req->una;
        r->alone = lost && !r->one_asked && may_send_alone(req);
        req->window = lost && !r->one_asked ? req->window_max : 1;
    }
    qp->ack_wait = min_of(max_of(2 * qp->ack_wait, answer_wait(qp)), r->give_up - e->now);
    engine_tx_ready(e, qp);
}

bool req_probe(struct engine *e, struct qp *qp)
{
    if (has_no_map(e, qp))
        return true;
    if (qp->ack_wait >= qp->ack_timeout || !may_wait_on(e, qp))
        return false;
    send_probe(e, qp);
    req_arm_timer(e, qp);
    return true;
}
