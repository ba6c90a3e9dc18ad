/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests behind a gap. A responder executes requests in the order of their PSNs, and says by a
 * NAK which one it lacks (9.7.5.2). What arrives behind that is kept here and executed when the gap
 * is filled, as if the network had delivered it then: the ACK says so, and the requester need not
 * send again what it has not sent again yet. One that does finds its packets acknowledged as
 * duplicates.
 *
 * An engine has a few stores, a queue pair with a gap one of them, if one is free: the others drop
 * what is behind a gap. Memory is taken at the first gaps of an engine, and then stays.
 */
#include "resp_store.h"

#include <stdlib.h>

/* A store that kept nothing for that long may be taken by another queue pair: its peer is gone. */
#define STORE_IDLE (10 * NS_PER_MS)

void resp_forget_kept(struct qp *qp)
{
    struct resp_store *s = qp->resp.store;

    if (!s)
        return;
    s->qp = NULL;
    s->e->stores_used--;
    qp->resp.store = NULL;
}

void resp_store_free(struct engine *e)
{
    for (unsigned i = 0; i < ARRAY_SIZE(e->store); i++)
        free(e->store[i]);
}

/* A free store, a new one, or one that is not of use any more. */
static struct resp_store *find_store(struct engine *e)
{
    for (unsigned i = 0; i < min_of((unsigned)ARRAY_SIZE(e->store), e->cfg.reorder); i++) {
        struct resp_store *s = e->store[i];

        if (!s) {
            s = e->store[i] = malloc(sizeof(*s));
            if (!s)
                return NULL;
            s->e = e;
            s->qp = NULL;
        }
        if (s->qp && e->now - s->last_time > STORE_IDLE)
            resp_forget_kept(s->qp);
        if (!s->qp)
            return s;
    }
    return NULL;
}

static struct resp_store *store_of(struct engine *e, struct qp *qp)
{
    struct resp_store *s = qp->resp.store;

    if (s)
        return s;
    s = find_store(e);
    if (!s)
        return NULL;
    for (unsigned i = 0; i < RESP_STORE_PACKETS; i++)
        s->kept[i].used = false;
    s->qp = qp;
    s->last = qp->resp.epsn;
    e->stores_used++;
    qp->resp.store = s;
    return s;
}

void resp_keep(struct engine *e, struct qp *qp, const struct pkt *p, int32_t ahead)
{
    struct resp_store *s;
    struct kept *k;

    if (!e->cfg.reorder || ahead >= RESP_STORE_PACKETS || qp->service != PKT_RC ||
        p->payload_len > PKT_MTU_MAX || kept_is_refused(&qp->resp))
        return;
    s = store_of(e, qp);
    if (!s || kept_has(s, p->psn))
        return;
    k = kept_at(s, p->psn);
    k->used = true;
    k->pkt = *p;
    k->pkt.payload = s->payload[k - s->kept];
    memcpy(s->payload[k - s->kept], p->payload, p->payload_len);
    if (psn_before(s->last, p->psn))
        s->last = p->psn;
    s->last_time = e->now;
    counter_inc(&qp->counters.requests_kept);
}

bool resp_has_next(const struct qp *qp)
{
    return qp->resp.store && kept_has(qp->resp.store, qp->resp.epsn);
}
