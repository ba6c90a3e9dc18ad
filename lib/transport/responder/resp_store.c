/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests behind a gap. A responder executes requests in the order of their PSNs, and says by a
 * NAK which one it lacks (9.7.5.2). What arrives behind that is kept here and executed when the gap
 * is filled, as if the network had delivered it then: the ACK says so, and the requester need not
 * send again what it has not sent again yet. One that does finds its packets acknowledged as
 * duplicates.
 *
 * An engine has some stores, a queue pair with a gap one of them, if its program may have one more
 * (loan.c): the others drop what is behind a gap. Memory is taken when gaps need it, for payloads a
 * few packets at a time, and then stays.
 */
#include "resp_store.h"
#include "srq.h"

#include <stdlib.h>

/* A store that kept nothing for that long is given to another queue pair that needs one: its peer
 * is gone. */
#define STORE_IDLE (10 * NS_PER_MS)

/* Room for payloads is taken as many packets at a time. */
#define ROOM_BLOCK 16

struct kept_room {
    union {
        struct kept_room *next; /* it is free */
        uint8_t bytes[PKT_MTU_MAX];
    };
};

struct room_block {
    struct room_block *next;
    struct kept_room room[ROOM_BLOCK];
};

static void more_room(struct engine *e)
{
    struct room_block *b = malloc(sizeof(*b));

    if (!b)
        return;
    b->next = e->room_block;
    e->room_block = b;
    for (unsigned i = 0; i < ROOM_BLOCK; i++) {
        b->room[i].next = e->room_free;
        e->room_free = &b->room[i];
    }
}

static struct kept_room *take_room(struct resp_store *s)
{
    struct engine *e = s->e;
    struct kept_room *r;

    if (!loan_take_more(e, s->borrower, LOAN_ROOM))
        return NULL;
    if (!e->room_free)
        more_room(e);
    r = e->room_free;
    if (r)
        e->room_free = r->next;
    else
        loan_end(e, s->borrower, LOAN_ROOM);
    return r;
}

void resp_kept_done(struct resp_store *s, struct kept *k)
{
    k->used = k->lost = false;
    if (!k->room)
        return;
    k->room->next = s->e->room_free;
    s->e->room_free = k->room;
    k->room = NULL;
    loan_end(s->e, s->borrower, LOAN_ROOM);
}

void resp_forget_kept(struct qp *qp)
{
    struct resp_store *s = qp->resp.store;

    if (unlikely(qp->resp.watcher))
        resp_watch_no_more(qp);
    if (!s)
        return;
    for (unsigned i = 0; i < RESP_STORE_PACKETS; i++)
        resp_kept_done(s, &s->kept[i]);
    s->qp = NULL;
    loan_end(s->e, s->borrower, LOAN_STORE);
    s->e->stores_used--;
    qp->resp.store = NULL;
}

void resp_store_free(struct engine *e)
{
    struct room_block *b;

    for (unsigned i = 0; i < ARRAY_SIZE(e->store); i++)
        free(e->store[i]);
    while ((b = e->room_block)) {
        e->room_block = b->next;
        free(b);
    }
}

/* Those that are of no use any more are free for others. */
static void forget_idle(struct engine *e)
{
    for (unsigned i = 0; i < ARRAY_SIZE(e->store) && e->store[i]; i++)
        if (e->store[i]->qp && e->now - e->store[i]->last_time > STORE_IDLE)
            resp_forget_kept(e->store[i]->qp);
}

/* A free store, or a new one. There is one: no more are lent than there are. */
static struct resp_store *find_store(struct engine *e)
{
    struct resp_store **s = e->store;

    while (*s && (*s)->qp)
        s++;
    if (!*s && (*s = calloc(1, sizeof(**s))))
        (*s)->e = e;
    return *s;
}

static struct resp_store *borrow_store(struct engine *e, const struct qp *qp)
{
    struct share *borrower = loan_take(e, qp, LOAN_STORE);
    struct resp_store *s;

    if (!borrower) {
        forget_idle(e);
        borrower = loan_take(e, qp, LOAN_STORE);
    }
    if (!borrower)
        return NULL;
    s = find_store(e);
    if (s)
        s->borrower = borrower;
    else
        loan_end(e, borrower, LOAN_STORE);
    return s;
}

static struct resp_store *store_of(struct engine *e, struct qp *qp)
{
    struct resp_store *s = qp->resp.store;

    if (s) { /* one that was taken for losses has kept nothing so far */
        if (psn_before(s->last, qp->resp.epsn))
            s->last = qp->resp.epsn;
        return s;
    }
    s = borrow_store(e, qp);
    if (!s)
        return NULL;
    s->qp = qp;
    s->waits = s->losses = false;
    s->last = qp->resp.epsn;
    s->told = psn_prev(qp->resp.epsn);
    e->stores_used++;
    qp->resp.store = s;
    return s;
}

/* How far behind a gap: what an agreed requester is told of, else what it takes to fill a window.
 */
static int32_t kept_span(const struct qp *qp)
{
    return qp->selective ? RESP_STORE_PACKETS : RESP_STORE_STRANGERS;
}

static bool keep(struct resp_store *s, struct kept *k, const struct pkt *p, const struct srq *srq)
{
    resp_kept_done(s, k);
    if (p->payload_len) {
        k->room = take_room(s);
        if (!k->room)
            return false;
        memcpy(k->room->bytes, p->payload, p->payload_len);
    }
    k->used = true;
    k->pkt = *p;
    k->pkt.payload = k->room ? k->room->bytes : NULL;
    k->srq_serial = srq ? srq->serial : 0;
    return true;
}

bool resp_keep(struct engine *e, struct qp *qp, const struct rx_job *job, int32_t ahead)
{
    const struct pkt *p = &job->pkt;
    struct resp_store *s;
    bool new_gap;

    if (!e->cfg.reorder || ahead >= kept_span(qp) || p->payload_len > PKT_MTU_MAX ||
        kept_is_refused(&qp->resp))
        return false;
    s = store_of(e, qp);
    if (s && kept_has(s, p->psn)) {
        qp->resp.in_vain++;
        return false;
    }
    if (!s || !keep(s, kept_at(s, p->psn), p, job->srq))
        return false;
    new_gap = psn_before(psn_add(s->last, 1), p->psn);
    if (psn_before(s->last, p->psn))
        s->last = p->psn;
    s->last_time = e->now;
    counter_inc(&qp->counters.requests_kept);
    return new_gap;
}

bool resp_note_loss(struct engine *e, struct qp *qp, psn_t p, int32_t ahead)
{
    struct resp_store *s;
    struct kept *k;

    if (!e->cfg.reorder || ahead >= kept_span(qp))
        return false;
    s = store_of(e, qp);
    if (!s || kept_has(s, p))
        return false;
    k = kept_at(s, p);
    resp_kept_done(s, k);
    k->lost = true;
    k->pkt.psn = p;
    if (!s->losses || psn_before(s->last_loss, p))
        s->last_loss = p;
    s->losses = true;
    s->last_time = e->now;
    return true;
}

bool resp_take_loss(struct resp_store *s, psn_t p)
{
    struct kept *k = kept_at(s, p);

    if (!s->losses || !k->lost || !psn_eq(k->pkt.psn, p))
        return false;
    k->lost = false;
    return true;
}

bool resp_has_next(const struct qp *qp)
{
    return qp->resp.store && kept_has(qp->resp.store, qp->resp.epsn);
}
