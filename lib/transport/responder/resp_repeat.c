/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of READs that are answered again: see resp_repeat.h. */
#include "resp_repeat.h"
#include "resp_rules.h"

/* How many packets of the answer have been sent before, from PSN p on. r: the READ's resource. */
static uint32_t sent_before(const struct resp_resource *r, psn_t p, uint32_t packets)
{
    int32_t sent;

    if (!r || !r->pending || r->answered)
        return packets;
    sent = psn_diff(psn_add(r->first, r->next), p);
    return sent > 0 ? min_of((uint32_t)sent, packets) : 0;
}

static void give_back(struct qp *qp, struct resp_repeat **link)
{
    struct resp_repeat *a = *link;

    *link = a->next;
    loan_memory_end(&a->loan, LOAN_REPEAT);
    resp_repeats_owed(&qp->resp, -1);
}

/*
 * What is asked for again while it is still to be sent again is sent from there on: the requester
 * has waited for long enough. Returns the end of the list, or NULL: it is full.
 */
static struct resp_repeat **replace(struct qp *qp, psn_t p, uint32_t packets)
{
    struct resp_repeat *a, **link = &qp->resp.repeats;
    unsigned n = 0;

    while ((a = *link)) {
        int32_t at = psn_diff(p, a->r.first);

        if (at + (int32_t)packets >= (int32_t)a->end && at < (int32_t)a->end) {
            if (at <= (int32_t)a->r.next) {
                give_back(qp, link);
                continue;
            }
            a->end = (uint32_t)at;
        }
        link = &a->next;
        n++;
    }
    return n < RESP_REPEATS ? link : NULL;
}

bool resp_repeat_add(struct engine *e, struct qp *qp, const struct pkt *p,
                     const struct resp_resource *of)
{
    struct responder *resp = &qp->resp;
    uint32_t all = packets_for(p->reth.len, qp->mtu), packets = sent_before(of, p->psn, all);
    struct resp_repeat *a, **end;

    if (!resp->res_max || !resp_right_ok(qp, MEM_REMOTE_READ) || !resp_read_len_ok(p->reth.len) ||
        psn_before(resp->epsn, psn_add(p->psn, all)))
        return false;
    if (!packets) /* they are still to come */
        return true;
    end = replace(qp, p->psn, packets);
    a = end ? loan_memory(e, qp, LOAN_REPEAT, sizeof(*a)) : NULL;
    if (!a)
        return false;
    a->r = (struct resp_resource){.kind = KIND_READ_REQUEST,
                                  .pending = true,
                                  .answered = true,
                                  .first = p->psn,
                                  .packets = all,
                                  .all = all,
                                  .va = p->reth.va,
                                  .rkey = p->reth.rkey,
                                  .pd = qp->pd,
                                  .msn = resp->msn,
                                  .len = p->reth.len,
                                  .all_len = p->reth.len};
    a->next = NULL;
    a->end = packets; /* the first answer goes on from there */
    *end = a;
    resp->urgent = true;
    resp_repeats_owed(resp, 1);
    return true;
}

void resp_repeat_done(struct qp *qp)
{
    give_back(qp, &qp->resp.repeats);
}

void resp_repeat_forget(struct qp *qp)
{
    while (qp->resp.repeats)
        resp_repeat_done(qp);
}
