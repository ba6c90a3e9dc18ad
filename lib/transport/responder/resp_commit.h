/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the responder expects and owes: the expected PSN, MSN, the pending ACK or NAK and the
 * resources of READs and atomics. These functions are the only ones that change them, for the
 * batch path and the general path. The owner worker.
 */
#ifndef UROCE_RESP_COMMIT_H
#define UROCE_RESP_COMMIT_H

#include "engine_private.h"

#define AETH_ACK_PLAIN (AETH_ACK | AETH_CREDIT_NONE)

/* What executed requests mean for the responder. */
struct resp_progress {
    psn_t next;        /* of the request expected next */
    uint32_t messages; /* SENDs and WRITEs that are complete now: MSN counts them */
    bool wants_ack;
    psn_t ack_psn; /* of the last request that asks for an ACK */
};

/* The next expected PSN is `first`; nothing is owed. */
void resp_reset(struct qp *qp, psn_t first);

/* An ACK, RNR NAK or NAK has to be sent. An ACK is owed before its request's queued copies are
 * done: a later engine_tx sends it, and by then rx_flush has done them, or has replaced it by a
 * NAK. For this file and resp_commit.c alone. */
static inline void resp_owe_ack(struct responder *resp, uint8_t syndrome, psn_t p)
{
    resp->ack_pending = true;
    resp->syndrome = syndrome;
    resp->ack_psn = p;
}

/* Messages that change memory are complete. */
static inline void resp_note_written(struct engine *e, struct qp *qp)
{
    if (e->cfg.host.mem_written)
        e->cfg.host.mem_written(e->cfg.host.ctx, qp);
}

/* The expected requests were executed. Cancels a NAK that has not been sent yet. */
static inline void resp_commit(struct engine *e, struct qp *qp, const struct resp_progress *p)
{
    struct responder *resp = &qp->resp;

    resp->epsn = p->next;
    resp->msn += p->messages;
    if (p->messages)
        resp_note_written(e, qp);
    resp->nak_sent = false;
    if (resp->syndrome != AETH_ACK_PLAIN)
        resp->ack_pending = false;
    if (p->wants_ack) {
        resp_owe_ack(resp, AETH_ACK_PLAIN, p->ack_psn);
        if (!qp->in_tx_list)
            engine_tx_answer(e, qp, 1);
    }
}

/* The NAK that is owed was sent, with a map. */
static inline void resp_drop_nak(struct responder *resp)
{
    if (resp->syndrome == (AETH_NAK | NAK_PSN_SEQUENCE))
        resp->ack_pending = false;
}

/* UC: the request after p is expected next, whatever was lost before p (9.8.2.2.1). */
void resp_commit_uc(struct qp *qp, psn_t p);

/* A NAK or RNR NAK for PSN `at` has to be sent; later PSNs are dropped silently until then. */
void resp_commit_nak(struct engine *e, struct qp *qp, uint8_t syndrome, psn_t at);

/* A duplicate asks for an ACK: one of p has to be sent, unless a NAK or an ACK of a later request
 * is pending. */
void resp_commit_duplicate_ack(struct qp *qp, psn_t p);

/* The pending ACK or NAK is built: *syndrome and *p say what. False: none is pending. */
static inline bool resp_take_ack(struct qp *qp, uint8_t *syndrome, psn_t *p)
{
    struct responder *resp = &qp->resp;

    if (!resp->ack_pending)
        return false;
    resp->ack_pending = false;
    *syndrome = resp->syndrome;
    *p = resp->ack_psn;
    return true;
}

/* ---- resources ---- */

/* Allocates resources for max READs and atomics at a time, 0 or -ENOMEM; and replaces the present
 * ones by them: the newest resources are copied, and all that are pending are among these
 * (resp_pending_span). */
int resp_resources_alloc(struct resp_resource **res, uint32_t max);
void resp_resources_set(struct qp *qp, struct resp_resource *res, uint32_t max);

/*
 * Opens the resource of an executed READ or atomic: it counts as a message, and its reply, which is
 * pending now, acknowledges what came before. The caller fills in what is to be replied.
 */
struct resp_resource *resp_open_resource(struct qp *qp, uint8_t kind, psn_t first,
                                         uint32_t packets);

/* The result of the atomic with this PSN, whose memory answered late. */
void resp_store_original(struct responder *resp, psn_t p, uint64_t original);

/* n READs or atomics were executed, whose resources the caller has filled from resp_next_resource
 * on; none of them was pending. The request with PSN `next` is expected next. */
void resp_commit_reads(struct engine *e, struct qp *qp, unsigned n, psn_t next);

/* Index of the resource that is opened next. res_max is not 0. */
static inline uint32_t resp_next_resource(const struct responder *resp)
{
    return resp->res_head % resp->res_max;
}

/* The last packet of a reply was built. */
static inline void resp_finish_reply(struct responder *resp, struct resp_resource *r)
{
    r->pending = false;
    r->answered = true;
    resp->res_pending--;
}

/* n more parts of READs have to be sent again (resp_repeat.c alone). */
static inline void resp_repeats_owed(struct responder *resp, int n)
{
    resp->res_pending = (uint16_t)(resp->res_pending + n);
}

/* What was built from PSN p on was not sent after all: it is owed again. */
void resp_repeat_from(struct qp *qp, psn_t p);

/* The reply has to be sent again from this packet on. */
static inline void resp_repeat_reply(struct responder *resp, struct resp_resource *r,
                                     uint32_t packet)
{
    if (!r->pending)
        resp->res_pending++;
    r->pending = true;
    r->start = r->next = packet;
}

#endif
