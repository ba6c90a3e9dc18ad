/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known about single packets while some are missing: see req_sack.h.
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
#include "req_sack.h"
#include "req_commit.h"

#include <stdlib.h>

#define REORDER     64u
#define REORDER_MAX 256u
#define LOSSES      64u

/* Queue pairs of an engine in recovery at a time: the others send all again, as to strangers. */
#define SACKS_MAX 1024

/* ---- bits ---- */

static void set(struct sack_bits *b, psn_t p)
{
    b->word[p.v % SACK_PACKETS / 64] |= UINT64_C(1) << p.v % 64;
}

static void clear(struct sack_bits *b, psn_t p)
{
    b->word[p.v % SACK_PACKETS / 64] &= ~(UINT64_C(1) << p.v % 64);
}

static void forget(struct req_sack *s, psn_t p)
{
    clear(&s->here, p);
    clear(&s->waits, p);
    clear(&s->parked, p);
    clear(&s->again, p);
    clear(&s->lost, p);
    clear(&s->trimmed, p);
}

/* ---- life ---- */

static bool has_response(const struct send_slot *s)
{
    return op_is_read_or_atomic(s->wqe.h.opcode);
}

struct req_sack *req_sack_open(struct engine *e, struct qp *qp)
{
    struct req_sack *s = qp->req.sack;

    if (s)
        return s;
    s = e->sack_free;
    if (s)
        e->sack_free = s->next;
    else if (e->sacks < SACKS_MAX && (s = malloc(sizeof(*s))))
        e->sacks++;
    if (!s)
        return NULL;
    s->e = e;
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
    s->next = s->e->sack_free;
    s->e->sack_free = s;
    qp->req.sack = NULL;
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
        if (!has_response(s) || !psn_before(req->una, s->first))
            continue;
        if (s->done == s->packets && (int32_t)(i - req->send) < 0)
            req_uncommit_response(req);
        s->done = 0;
    }
}

void req_sack_free(struct engine *e)
{
    struct req_sack *s;

    while ((s = e->sack_free)) {
        e->sack_free = s->next;
        free(s);
    }
}

/* ---- how far packets may overtake each other ---- */

static int32_t reorder_of(const struct qp *qp)
{
    const struct req_recovery *r = &qp->req.recovery;

    return r->reorder_known ? r->reorder : (int32_t)REORDER;
}

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

static struct send_slot *message_of(const struct requester *req, psn_t p)
{
    for (uint32_t i = req->tail; i != req->head; i++) {
        struct send_slot *s = slot_at(req, i);

        if (!s->started)
            return NULL;
        if (s->packets && psn_within(p, s->first, slot_last(s)))
            return s;
    }
    return NULL;
}

/* Behind the last packet that anything is known about. */
static psn_t last_known(const struct req_sack *s)
{
    return psn_before(s->high, s->lost_end) ? s->lost_end : s->high;
}

/* What has arrived there of the same kind: responses, or requests. */
static psn_t high_of(const struct req_sack *s, bool response)
{
    return response ? s->executed : s->high;
}

/* A packet that was sent again has arrived: as a request, or as a response. */
static void order_arrived(struct req_sack *s, psn_t p, bool response)
{
    uint32_t order = s->sent[p.v % SACK_PACKETS].order;

    if ((int32_t)(order - s->arrived_order[response]) > 0)
        s->arrived_order[response] = order;
}

static void learn(struct qp *qp, struct req_sack *s, psn_t p)
{
    bool again = sack_has(&s->again, p), response;
    const struct send_slot *m;

    if (!again && !psn_before(p, s->high))
        return;
    m = message_of(&qp->req, p);
    response = m && has_response(m);
    if (again) {
        order_arrived(s, p, response);
        was_lost(qp);
    } else if (psn_before(p, high_of(s, response))) {
        path_reorders(qp, (uint32_t)psn_diff(high_of(s, response), p));
    }
}

bool req_sack_arrived(struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;

    if (!sack_covers(qp, p) || sack_has(&s->here, p))
        return false;
    learn(qp, s, p);
    forget(s, p);
    set(&s->here, p);
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

/* Visits the messages from una up to `end`, at most as far as something can be known about. */
struct walk {
    const struct requester *req;
    uint32_t i;
    psn_t from, end; /* of the PSNs of the message, those that are in flight and before the end */
    bool may_park;   /* it is a READ, and no atomic without a response is before it */
    bool behind_atomic;
};

static struct walk walk_to(const struct qp *qp, psn_t end)
{
    const struct requester *req = &qp->req;
    psn_t last = psn_add(req->una, SACK_PACKETS);

    if (psn_before(last, end))
        end = last;
    return (struct walk){.req = req, .i = req->tail, .end = end};
}

static struct send_slot *next_message(struct walk *w, psn_t *from, psn_t *to)
{
    while (w->i != w->req->head) {
        struct send_slot *s = slot_at(w->req, w->i++);

        if (!s->started || !psn_before(s->first, w->end))
            return NULL;
        if (!s->packets || slot_is_before(s, w->req->una))
            continue;
        *from = psn_before(s->first, w->req->una) ? w->req->una : s->first;
        *to = psn_add(s->first, s->packets);
        if (psn_before(w->end, *to))
            *to = w->end;
        w->may_park = s->wqe.h.opcode == SQE_READ && !w->behind_atomic;
        w->behind_atomic |= has_response(s) && s->wqe.h.opcode != SQE_READ;
        return s;
    }
    return NULL;
}

/* The responder has the READ or atomic m, which PSN p is one of. If it has maps, it answers a READ
 * again that it does not remember; for XRC it does not (resp_duplicate.c). */
static void will_be_answered(const struct qp *qp, const struct walk *w, const struct send_slot *m,
                             psn_t p)
{
    struct req_sack *s = qp->req.sack;

    set(&s->waits, p);
    if (w->may_park && qp->service == PKT_RC && psn_eq(p, m->first) && qp->req.recovery.has_maps)
        set(&s->parked, p);
}

void req_sack_requests(struct qp *qp, psn_t p)
{
    struct req_sack *s = qp->req.sack;
    struct walk w = walk_to(qp, p);
    psn_t from, to;
    struct send_slot *m;

    while ((m = next_message(&w, &from, &to)))
        for (; psn_before(from, to); from = psn_add(from, 1)) {
            if (!has_response(m)) {
                req_sack_arrived(qp, from);
            } else if (!psn_before(from, s->expected)) {
                clear(&s->again, from); /* from now on a response is due */
                if (!sack_has(&s->here, from))
                    will_be_answered(qp, &w, m, from);
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

static bool map_has(const struct kept_map *m, psn_t p)
{
    uint32_t i = (uint32_t)psn_diff(p, m->first);

    return i < KEPT_MAP_PACKETS && m->bits[i / 64] >> i % 64 & 1;
}

/* Behind the last one that is kept. */
static psn_t map_end(const struct kept_map *m)
{
    for (unsigned i = KEPT_MAP_WORDS; i-- > 0;)
        if (m->bits[i])
            return psn_add(m->first, 64 * i + 64 - (unsigned)__builtin_clzll(m->bits[i]));
    return m->first;
}

/* Requests of slot m in [from, to) that are kept. A READ that is kept will be answered. */
static bool take_kept(struct qp *qp, const struct kept_map *map, psn_t from, psn_t to,
                      const struct walk *w, const struct send_slot *m)
{
    struct req_sack *s = qp->req.sack;
    bool news = false;

    for (; psn_before(from, to); from = psn_add(from, 1)) {
        if (!map_has(map, from) || !sack_covers(qp, from))
            continue;
        if (!m || !has_response(m)) {
            news |= req_sack_arrived(qp, from);
        } else if (!sack_has(&s->here, from) && !sack_has(&s->waits, from) &&
                   !psn_before(from, s->expected)) {
            news = true;
            if (sack_has(&s->again, from))
                order_arrived(s, from, false);
            forget(s, from);
            will_be_answered(qp, w, m, from);
        }
    }
    return news;
}

/*
 * The peer expects what it had kept: it had no receive for that when its turn came, and has
 * forgotten all that it kept (9.7.5.2.8). What it has told of that may have been lost.
 */
static void take_back(struct qp *qp, const struct kept_map *m)
{
    struct req_sack *s = qp->req.sack;
    psn_t p = m->first;

    if (!sack_covers(qp, p) || psn_before(p, s->expected) ||
        !(sack_has(&s->here, p) || sack_has(&s->waits, p)))
        return;
    for (; psn_before(p, s->high) && sack_covers(qp, p); p = psn_add(p, 1))
        if (!map_has(m, p)) {
            clear(&s->here, p);
            clear(&s->waits, p);
            clear(&s->parked, p);
        }
}

bool req_sack_take_map(struct qp *qp, const struct kept_map *m)
{
    struct req_sack *s = qp->req.sack;
    psn_t end = map_end(m), from, to;
    bool news = false;

    if (psn_before(qp->req.max_psn, end)) /* not what was sent */
        return false;
    take_back(qp, m);
    if (!qp->req.rd_outstanding && psn_eq(qp->req.next_psn, qp->req.max_psn)) {
        news = take_kept(qp, m, m->first, end, NULL, NULL);
    } else {
        struct walk w = walk_to(qp, end);
        struct send_slot *slot;

        while ((slot = next_message(&w, &from, &to)))
            news |= take_kept(qp, m, from, to, &w, slot);
    }
    if (psn_before(s->high, end))
        s->high = end;
    return news;
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
        if (!has_response(s) || slot_is_before(s, from) || s->done == s->packets)
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
        forget(s, p);
    }
    for (p = una; sack_is_done(qp, p); p = psn_add(p, 1))
        forget(s, p);
    if (!psn_eq(p, una))
        count_responses(qp, from, p);
    if (!psn_before(p, last_known(s)))
        req_sack_close(qp);
    return p;
}

/* ---- what is lost ---- */

/* Packets of requests from PSN p on, and before the end: of a READ there is one. */
static int32_t requests_between(const struct qp *qp, psn_t p, psn_t end)
{
    struct walk w = walk_to(qp, end);
    const struct send_slot *m;
    psn_t from, to;
    int32_t n = 0;

    while ((m = next_message(&w, &from, &to))) {
        if (psn_before(from, p))
            from = p;
        if (psn_before(from, to))
            n += has_response(m) ? 1 : psn_diff(to, from);
    }
    return n;
}

static bool is_lost_again(const struct engine *e, const struct qp *qp, psn_t p)
{
    const struct req_sack *s = qp->req.sack;
    const struct sack_again *a = &s->sent[p.v % SACK_PACKETS];
    int32_t reorder = reorder_of(qp);
    bool response = psn_before(p, s->expected);

    if (e->now - a->at < qp->req.recovery.rtt_min / 2)
        return false;
    if (psn_diff(high_of(s, response), a->max) > reorder)
        return response || !reorder || requests_between(qp, a->max, s->high) > reorder;
    return !reorder && (int32_t)(s->arrived_order[response] - a->order) > 0;
}

/* requests: that were sent behind it, if it is one. */
static bool is_lost(const struct engine *e, const struct qp *qp, psn_t p, int32_t requests)
{
    const struct req_sack *s = qp->req.sack;
    int32_t behind = psn_before(p, s->expected) ? psn_diff(s->executed, p) - 1 : requests;
    int32_t reorder = reorder_of(qp);

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
        set(&s->lost, p);
    return sack_has(&s->lost, p);
}

bool req_sack_judge(struct engine *e, struct qp *qp, bool in_silence)
{
    const struct req_sack *sack = qp->req.sack;
    psn_t high = in_silence ? last_known(sack) : sack->high, from, to;
    struct walk w = walk_to(qp, high);
    int32_t requests = requests_between(qp, qp->req.una, high);
    const struct send_slot *m;
    bool any = false;

    while ((m = next_message(&w, &from, &to))) {
        requests -= has_response(m);
        for (; psn_before(from, to); from = psn_add(from, 1)) {
            requests -= !has_response(m);
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
    set(&s->lost, p);
    set(&s->trimmed, p);
    if (psn_before(s->lost_end, next))
        s->lost_end = next;
    return true;
}

/* Responders need not know of more than one repetition of a READ at a time, nor go back in one: the
 * oldest hole of all comes first. */
static bool may_ask(const struct qp *qp, const struct send_slot *s, psn_t p)
{
    return !has_response(s) || psn_eq(p, qp->req.una) || qp->req.recovery.has_maps ||
           !psn_before(p, qp->req.sack->executed);
}

bool req_sack_take(struct qp *qp, psn_t *p)
{
    const struct requester *req = &qp->req;
    const struct req_sack *s = req->sack;

    for (*p = req->una; psn_before(*p, last_known(s)) && sack_covers(qp, *p); *p = psn_add(*p, 1)) {
        const struct send_slot *m;

        if (!sack_has(&s->lost, *p))
            continue;
        m = message_of(req, *p);
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
        clear(&s->lost, p);
        clear(&s->trimmed, p);
        set(&s->again, p);
        s->sent[p.v % SACK_PACKETS] =
            (struct sack_again){.at = e->now, .max = qp->req.max_psn, .order = s->order};
    }
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
