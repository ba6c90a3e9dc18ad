/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which packets are lost: see req_sack.h.
 *
 * A packet that never was sent again is lost when more packets sent behind it have arrived than
 * could have overtaken it. How many that are is learned. Before the first loss a packet may be late
 * by REORDER packets; if it arrives, the path reorders, and it may be so from then on. If it was
 * lost indeed, the path does not, and what is missing behind the next one that arrives is lost. A
 * peer that reports a packet twice, though each of the copies was sent for a reason, shows that one
 * was only late: the path reorders after all. It has to lose LOSSES packets that were not late
 * before it is trusted again.
 *
 * A packet that was sent again is lost again when something that was sent after it has arrived: a
 * packet that was new then, or another that was sent again later. It cannot be earlier than half
 * the shortest round trip after it was sent: the others include queues.
 */
#include "req_sack_state.h"

/* Packets of requests from PSN p on, and before the end: of a READ there is one. What is more than
 * `most` is not counted. */
static int32_t requests_between(const struct qp *qp, psn_t p, psn_t end, int32_t most)
{
    struct sack_walk w = sack_walk_to(qp, end);
    const struct send_slot *m;
    psn_t from, to;
    int32_t n = 0;

    w.i = sack_slot_from(&qp->req, p);
    while (n <= most && (m = sack_walk_next(&w, &from, &to))) {
        if (psn_before(from, p))
            from = p;
        if (psn_before(from, to))
            n += slot_has_response(m) ? 1 : psn_diff(to, from);
    }
    return n;
}

static bool is_lost_again(const struct engine *e, const struct qp *qp, psn_t p)
{
    const struct req_sack *s = qp->req.sack;
    const struct sack_again *a = &s->sent[p.v % SACK_PACKETS];
    int32_t reorder = sack_reorder(qp);
    bool response = psn_before(p, s->expected);

    if (e->now - a->at < qp->req.recovery.rtt_min / 2)
        return false;
    if (psn_diff(sack_high(s, response), a->max) > reorder)
        return response || !reorder || requests_between(qp, a->max, s->high, reorder) > reorder;
    return !reorder && (int32_t)(s->arrived_order[response] - a->order) > 0;
}

/* requests: that were sent behind it, if it is one. */
static bool is_lost(const struct engine *e, const struct qp *qp, psn_t p, int32_t requests)
{
    const struct req_sack *s = qp->req.sack;
    int32_t behind = psn_before(p, s->expected) ? psn_diff(s->executed, p) - 1 : requests;
    int32_t reorder = sack_reorder(qp);

    if (sack_has(&s->again, p))
        return is_lost_again(e, qp, p);
    return behind > reorder || (!reorder && psn_before(p, s->executed));
}

/* Whether what is missing at PSN p is to be sent again. */
static bool judge(const struct engine *e, struct qp *qp, psn_t p, int32_t requests, bool in_silence)
{
    struct req_sack *s = qp->req.sack;

    if (sack_has(&s->here, p))
        return false;
    if (sack_has(&s->waits, p) && !psn_before(p, s->expected) && !in_silence)
        return false;
    if (!sack_has(&s->lost, p) && (in_silence || is_lost(e, qp, p, requests)))
        sack_set(&s->lost, p);
    return sack_has(&s->lost, p);
}

bool req_sack_judge(struct engine *e, struct qp *qp, bool in_silence)
{
    const struct req_sack *sack = qp->req.sack;
    psn_t high = in_silence ? sack_last_known(sack) : sack->high, from, to;
    struct sack_walk w = sack_walk_to(qp, high);
    int32_t requests = requests_between(qp, qp->req.una, high, INT32_MAX);
    const struct send_slot *m;
    bool any = false;

    while ((m = sack_walk_next(&w, &from, &to))) {
        requests -= slot_has_response(m);
        for (; psn_before(from, to); from = psn_add(from, 1)) {
            requests -= !slot_has_response(m);
            any |= judge(e, qp, from, requests, in_silence);
        }
    }
    return any;
}

bool req_sack_lose(struct engine *e, struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;
    psn_t next = psn_add(p, 1);

    if (!sack_covers(qp, p) || sack_has(&s->here, p) ||
        (sack_has(&s->again, p) &&
         e->now - s->sent[p.v % SACK_PACKETS].at < qp->req.recovery.rtt_min / 2))
        return false;
    sack_set(&s->lost, p);
    sack_set(&s->trimmed, p);
    if (psn_before(s->lost_end, next))
        s->lost_end = next;
    return true;
}

/* Responders need not know of more than one repetition of a READ at a time, nor go back in one: the
 * oldest hole of all comes first. */
static bool may_ask(const struct qp *qp, const struct send_slot *s, psn_t p)
{
    return !slot_has_response(s) || psn_eq(p, qp->req.una) || qp->req.recovery.has_maps ||
           !psn_before(p, qp->req.sack->executed);
}

bool req_sack_take(struct qp *qp, psn_t *p)
{
    const struct requester *req = &qp->req;
    const struct req_sack *s = req->sack;

    for (*p = req->una; psn_before(*p, sack_last_known(s)) && sack_covers(qp, *p);
         *p = psn_add(*p, 1)) {
        const struct send_slot *m;

        if (!sack_has(&s->lost, *p))
            continue;
        m = sack_message(req, *p);
        if (m && may_ask(qp, m, *p))
            return true;
    }
    return false;
}

/*
 * Response p was trimmed, and `next` is not known to be lost: it has been asked for again, or the
 * headers of p have overtaken it. A responder that remembers no more than one repetition of a READ
 * would forget that one; only where nothing behind p is here it goes on by itself.
 */
static bool is_on_its_way(const struct qp *qp, psn_t p, psn_t next)
{
    const struct req_sack *s = qp->req.sack;
    bool remembers = qp->service == PKT_RC && qp->req.recovery.has_maps;

    return sack_has(&s->trimmed, p) && !sack_has(&s->lost, next) &&
           (remembers || !psn_before(p, s->high));
}

uint32_t req_sack_hole(const struct qp *qp, psn_t p, uint32_t psns)
{
    const struct req_sack *s = qp->req.sack;
    uint32_t n = 1;

    while (n < psns && sack_covers(qp, psn_add(p, n)) && !sack_has(&s->here, psn_add(p, n)) &&
           !is_on_its_way(qp, p, psn_add(p, n)))
        n++;
    return sack_covers(qp, psn_add(p, n)) ? n : psns;
}

void req_sack_sent(struct engine *e, struct qp *qp, psn_t p, uint32_t psns)
{
    struct req_sack *s = qp->req.sack;

    s->order++;
    for (; psns && sack_covers(qp, p); psns--, p = psn_add(p, 1)) {
        sack_clear(&s->lost, p);
        sack_clear(&s->trimmed, p);
        sack_set(&s->again, p);
        s->sent[p.v % SACK_PACKETS] =
            (struct sack_again){.at = e->now, .max = qp->req.max_psn, .order = s->order};
    }
}
