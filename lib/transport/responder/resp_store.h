/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that arrived behind a gap: see resp_store.c. The owner worker. */
#ifndef UROCE_RESP_STORE_H
#define UROCE_RESP_STORE_H

#include "loan.h"
#include "resp_commit.h"

struct kept_room;

struct kept {
    struct pkt pkt;
    struct kept_room *room; /* of its payload; or NULL */
    uint64_t srq_serial;    /* XRC: of the SRQ that it names */
    bool used;
    bool lost; /* of the request with pkt.psn the headers alone have come: not `used` */
};

struct resp_store {
    struct engine *e;
    struct qp *qp; /* NULL: free */
    struct share *borrower;
    psn_t last;     /* the last PSN that is kept */
    psn_t told;     /* the last gap that a plain NAK told of */
    bool waits;     /* the expected request is kept, and waits for a resource */
    ns_t last_time; /* when a request was kept, or lost */
    bool losses;    /* some are marked `lost`, up to last_loss */
    psn_t last_loss;
    struct kept kept[RESP_STORE_PACKETS];
};

static inline struct kept *kept_at(struct resp_store *s, psn_t p)
{
    return &s->kept[p.v % RESP_STORE_PACKETS];
}

static inline bool kept_has(struct resp_store *s, psn_t p)
{
    const struct kept *k = kept_at(s, p);

    return k->used && psn_eq(k->pkt.psn, p);
}

/* Behind a refused request nothing is kept: it will all be sent again. */
static inline bool kept_is_refused(const struct responder *resp)
{
    return resp->nak_sent && resp->refused;
}

/* Keeps a request, which is `ahead` PSNs behind the expected one, if there is room. True: others
 * before it are missing that were not known to be. */
bool resp_keep(struct engine *e, struct qp *qp, const struct rx_job *job, int32_t ahead);

/* Remembers that a request, `ahead` PSNs behind the expected one, is lost: its payload is. False:
 * there is no room to do so, or a copy of it is kept. */
bool resp_note_loss(struct engine *e, struct qp *qp, psn_t p, int32_t ahead);

/* Whether the request at p is such a one: each copy is told of once. */
bool resp_take_loss(struct resp_store *s, psn_t p);

/* Whether one that is still to be expected is. */
static inline bool store_has_losses(const struct resp_store *s)
{
    return unlikely(s->losses) && !psn_before(s->last_loss, s->qp->resp.epsn);
}

/*
 * resp_watch.c: the first request of a queue pair without a store that is known to be lost, of a
 * few queue pairs. One that has a watch is in resp.watcher's list, and told of at the end of a
 * burst (resp_tell_losses).
 */
void resp_watch(struct engine *e, struct qp *qp, psn_t p);
void resp_watch_no_more(struct qp *qp);

/* It is executed, or dropped. */
void resp_kept_done(struct resp_store *s, struct kept *k);

/* Whether the expected request is kept: it is executed before the call into the engine returns, or
 * when a resource is free for it. */
bool resp_has_next(const struct qp *qp);

/* What is kept for qp is dropped. */
void resp_forget_kept(struct qp *qp);

/* Frees the memory of all stores of e. */
void resp_store_free(struct engine *e);

#endif
