/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that arrived behind a gap: see resp_store.c. The owner worker. */
#ifndef UROCE_RESP_STORE_H
#define UROCE_RESP_STORE_H

#include "resp_commit.h"

struct kept {
    struct pkt pkt;
    bool used;
};

struct resp_store {
    struct engine *e;
    struct qp *qp;  /* NULL: free */
    psn_t last;     /* the last PSN that is kept */
    ns_t last_time; /* when a request was kept */
    struct kept kept[RESP_STORE_PACKETS];
    uint8_t payload[RESP_STORE_PACKETS][PKT_MTU_MAX];
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
    return resp->nak_sent && resp->syndrome != (AETH_NAK | NAK_PSN_SEQUENCE) &&
           resp->syndrome != AETH_ACK_PLAIN;
}

/* Keeps the request p, which is `ahead` PSNs behind the expected one, if there is room. */
void resp_keep(struct engine *e, struct qp *qp, const struct pkt *p, int32_t ahead);

/* Whether the expected request is kept: it is executed before the call into the engine returns. */
bool resp_has_next(const struct qp *qp);

/* What is kept for qp is dropped. */
void resp_forget_kept(struct qp *qp);

/* Frees the memory of all stores of e. */
void resp_store_free(struct engine *e);

#endif
