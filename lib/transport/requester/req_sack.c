/* SPDX-License-Identifier: BSD-3-Clause */
/* What has arrived while some packets are missing, and what that says of the path: req_sack.h. */
#include "req_commit.h"
#include "req_sack_state.h"

#define REORDER_MAX 256u
#define LOSSES      64u

/* ---- life ---- */

/* A queue pair that gets none sends all again, as to a stranger. */
struct req_sack *req_sack_open(struct engine *e, struct qp *qp)
{
    struct req_sack *s = qp->req.sack;

    if (s)
        return s;
    s = loan_memory(e, qp, LOAN_SACK, sizeof(*s));
    if (!s)
        return NULL;
    s->high = s->expected = s->executed = s->lost_end = qp->req.una;
    s->order = s->arrived_order[0] = s->arrived_order[1] = 0;
    memset(&s->here, 0, offsetof(struct req_sack, sent) - offsetof(struct req_sack, here));
    qp->req.sack = s;
    qp->req.recovering = true;
    return s;
}

void req_sack_close(struct qp *qp)
{
    struct req_sack *s = qp->req.sack;

    if (!s)
        return;
    qp->req.sack = NULL;
    loan_memory_end(&s->loan, LOAN_SACK);
}

void req_sack_abandon(struct qp *qp)
{
    struct requester *req = &qp->req;

    if (!req->sack)
        return;
    req_sack_close(qp);
    for (uint32_t i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);

        if (!s->started)
            return;
        if (!slot_has_response(s) || !psn_before(req->una, s->first))
            continue;
        if (s->done == s->packets && (int32_t)(i - req->send) < 0)
            req_uncommit_response(req);
        s->done = 0;
    }
}

/* ---- how far packets may overtake each other ---- */

static void path_reorders(struct qp *qp, uint32_t by)
{
    struct req_recovery *r = &qp->req.recovery;
    uint32_t reorder = min_of(max_of(2 * by, REORDER), REORDER_MAX);

    r->reorder = (uint16_t)max_of(r->reorder, reorder);
    r->reorder_known = true;
    r->reorder_left = LOSSES;
}

/* What was sent again has arrived, and nothing says that it was not lost. */
static void was_lost(struct qp *qp)
{
    struct req_recovery *r = &qp->req.recovery;

    if (r->reorder_known && r->reorder_left && --r->reorder_left)
        return;
    r->reorder_known = true;
    r->reorder = 0;
    r->slack = ANSWER_SLACK;
}

/* ---- what has arrived ---- */

static void learn(struct qp *qp, struct req_sack *s, psn_t p)
{
    bool again = sack_has(&s->again, p), response;
    const struct send_slot *m;

    if (!again && !psn_before(p, s->high))
        return;
    m = sack_message(&qp->req, p);
    response = m && slot_has_response(m);
    if (again) {
        sack_order_arrived(s, p, response);
        was_lost(qp);
    } else if (psn_before(p, sack_high(s, response))) {
        path_reorders(qp, (uint32_t)psn_diff(sack_high(s, response), p));
    }
}

bool req_sack_arrived(struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;

    if (!sack_covers(qp, p) || sack_has(&s->here, p))
        return false;
    learn(qp, s, p);
    sack_forget(s, p);
    sack_set(&s->here, p);
    if (!psn_before(p, s->high))
        s->high = psn_add(p, 1);
    return true;
}

bool req_sack_response(struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;
    bool news = req_sack_arrived(qp, p);

    if (!psn_before(p, s->executed))
        s->executed = psn_add(p, 1);
    if (psn_before(s->expected, s->executed))
        s->expected = s->executed;
    return news;
}

bool req_sack_is_complete(const struct qp *qp, const struct send_slot *m)
{
    psn_t p = psn_before(m->first, qp->req.una) ? qp->req.una : m->first;

    while (!psn_before(slot_last(m), p) && sack_is_here(qp, p))
        p = psn_add(p, 1);
    return psn_before(slot_last(m), p);
}

void sack_will_be_answered(const struct qp *qp, const struct sack_walk *w,
                           const struct send_slot *m, psn_t p)
{
    struct req_sack *s = qp->req.sack;

    sack_set(&s->waits, p);
    if (w->may_park && qp->service == PKT_RC && psn_eq(p, m->first) && qp->req.recovery.has_maps)
        sack_set(&s->parked, p);
}

void req_sack_requests(struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;
    struct sack_walk w = sack_walk_to(qp, p);
    psn_t from, to;
    struct send_slot *m;

    while ((m = sack_walk_next(&w, &from, &to)))
        for (; psn_before(from, to); from = psn_add(from, 1)) {
            if (!slot_has_response(m)) {
                req_sack_arrived(qp, from);
            } else if (!psn_before(from, s->expected)) {
                sack_clear(&s->again, from); /* from now on a response is due */
                if (!sack_has(&s->here, from))
                    sack_will_be_answered(qp, &w, m, from);
            }
        }
    if (psn_before(s->expected, p))
        s->expected = p;
    if (psn_before(s->high, p))
        s->high = p;
}

void req_sack_executed(struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;

    req_sack_requests(qp, p);
    if (psn_before(s->executed, p))
        s->executed = p;
}

/* ---- progress ---- */

/* READs and atomics before una have their responses up to there. */
static void count_responses(struct qp *qp, psn_t from, psn_t una)
{
    struct requester *req = &qp->req;

    for (uint32_t i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);
        uint32_t done;

        if (!s->started || !psn_before(s->first, una))
            return;
        if (!slot_has_response(s) || slot_is_before(s, from) || s->done == s->packets)
            continue;
        done = min_of((uint32_t)psn_diff(una, s->first), s->packets);
        if (s->done < done)
            s->done = done;
        if (s->done == s->packets)
            req_commit_response_at(req, i);
    }
}

psn_t req_sack_advance(struct qp *qp, psn_t from, psn_t una)
{
    struct req_sack *s = qp->req.sack;
    psn_t p;

    for (p = from; psn_before(p, una) && psn_diff(p, from) < (int32_t)SACK_PACKETS;
         p = psn_add(p, 1)) {
        if (!sack_has(&s->here, p))
            learn(qp, s, p);
        sack_forget(s, p);
    }
    for (p = una; sack_is_done(qp, p); p = psn_add(p, 1))
        sack_forget(s, p);
    if (!psn_eq(p, una))
        count_responses(qp, from, p);
    if (!psn_before(p, sack_last_known(s)))
        req_sack_close(qp);
    return p;
}

uint32_t req_sack_count(const struct qp *qp)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < SACK_WORDS; i++)
        n += (uint32_t)__builtin_popcountll(qp->req.sack->here.word[i] |
                                            qp->req.sack->waits.word[i]);
    return n;
}

uint32_t req_sack_parked(const struct qp *qp)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < SACK_WORDS; i++)
        n += (uint32_t)__builtin_popcountll(qp->req.sack->parked.word[i]);
    return n;
}

/* Where switches trim, a packet also comes twice because one of its copies was trimmed. */
void req_sack_duplicates(const struct engine *e, struct qp *qp, uint8_t n)
{
    struct req_recovery *r = &qp->req.recovery;

    if (r->duplicates_known && r->duplicates != n && !r->sent_for_an_answer && !e->cfg.trim_dscp)
        path_reorders(qp, 0);
    r->duplicates = n;
    r->duplicates_known = true;
    r->sent_for_an_answer = false;
}
