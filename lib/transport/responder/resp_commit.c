/* SPDX-License-Identifier: BSD-3-Clause */
/* What the responder expects and owes: see resp_commit.h. */
#include "resp_commit.h"
#include "invariant.h"
#include "resp_repeat.h"
#include "resp_store.h"

#include <errno.h>
#include <stdlib.h>

void resp_reset(struct qp *qp, psn_t first)
{
    struct responder *resp = &qp->resp;

    resp_forget_kept(qp);
    resp_repeat_forget(qp);
    resp->epsn = first;
    resp->msn = 0;
    resp->op = RESP_IDLE;
    resp->shows_map = resp->map_due = resp->urgent = resp->reports = resp->owes_losses = false;
    resp->nak_sent = resp->ack_pending = resp->recv_busy = resp->recv_failed = false;
    resp->msg_len = resp->write_left = 0;
    resp->res_head = resp->res_pending = 0;
    resp->rounds = 0;
    resp->round_first = resp->repeated = resp->repeated_epsn = first;
}

void resp_commit_uc(struct qp *qp, psn_t p)
{
    qp->resp.epsn = psn_add(p, 1);
}

void resp_commit_nak(struct engine *e, struct qp *qp, uint8_t syndrome, psn_t at)
{
    qp->resp.nak_sent = true;
    qp->resp.refused = syndrome != (AETH_NAK | NAK_PSN_SEQUENCE);
    resp_owe_ack(&qp->resp, syndrome, at);
    engine_tx_answer(e, qp, 1);
}

void resp_commit_duplicate_ack(struct qp *qp, psn_t p)
{
    struct responder *resp = &qp->resp;

    if (resp->ack_pending && (resp->syndrome != AETH_ACK_PLAIN || psn_before(p, resp->ack_psn)))
        return;
    resp_owe_ack(resp, AETH_ACK_PLAIN, p);
}

/* ---- resources ---- */

int resp_resources_alloc(struct resp_resource **res, uint32_t max)
{
    *res = max ? calloc(max, sizeof(**res)) : NULL;
    return *res || !max ? 0 : -ENOMEM;
}

void resp_resources_set(struct qp *qp, struct resp_resource *res, uint32_t max)
{
    struct responder *resp = &qp->resp;
    uint32_t kept = min_of(min_of(max, resp->res_max), resp->res_head);

    if (!max)
        resp_repeat_forget(qp);
    for (uint32_t i = 0; i < kept; i++)
        res[i] = resp->res[(resp->res_head - kept + i) % resp->res_max];
    free(resp->res);
    resp->res = res;
    resp->res_max = max;
    resp->res_head = kept; /* those before are not there any more */
}

/* n more, at most all. The count stays small: where it wrapped around, the resources behind it
 * would be lost, and a connection may execute 2^32 READs within minutes. */
static void resources_opened(struct responder *resp, uint32_t n)
{
    resp->res_head += n;
    if (resp->res_head >= 2 * resp->res_max)
        resp->res_head -= resp->res_max;
    invariant(n <= resp->res_max && resp->res_head < 2 * resp->res_max);
}

struct resp_resource *resp_open_resource(struct qp *qp, uint8_t kind, psn_t first, uint32_t packets)
{
    struct responder *resp = &qp->resp;
    struct resp_resource *r = &resp->res[resp_next_resource(resp)];

    resources_opened(resp, 1);
    if (!r->pending)
        resp->res_pending++;
    resp->msn++;
    *r = (struct resp_resource){.kind = kind,
                                .pending = true,
                                .first = first,
                                .packets = packets,
                                .all = packets,
                                .msn = resp->msn};
    resp->ack_pending = false;
    return r;
}

void resp_store_original(struct responder *resp, psn_t p, uint64_t original)
{
    for (uint32_t i = 0; i < resp->res_max; i++)
        if (psn_eq(resp->res[i].first, p) && resp->res[i].kind != KIND_READ_REQUEST)
            resp->res[i].original = original;
}

/* The last NAK ended the connection. */
static bool is_refused(const struct responder *resp)
{
    return resp->nak_sent && (resp->syndrome & AETH_CLASS_MASK) == AETH_NAK &&
           (resp->syndrome & AETH_VALUE_MASK) != NAK_PSN_SEQUENCE;
}

void resp_repeat_from(struct qp *qp, psn_t p)
{
    struct responder *resp = &qp->resp;
    uint32_t n = min_of(resp->res_max, resp->res_head);

    for (uint32_t i = 1; i <= n; i++) {
        struct resp_resource *r = &resp->res[(resp->res_head - i) % resp->res_max];
        int32_t before = psn_diff(p, r->first);

        if (before < (int32_t)r->packets)
            resp_repeat_reply(resp, r, before > 0 ? (uint32_t)before : 0);
        if (before >= 0) /* the older ones were sent; some may be 2^23 PSNs ago, or more */
            break;
    }
    /* The ACK or NAK may have been behind it. */
    if (resp->ack_pending)
        return;
    if (is_refused(resp) || (resp->nak_sent && qp->state != QPS_ERR))
        resp_owe_ack(resp, resp->syndrome, resp->ack_psn);
    else if (qp->state != QPS_ERR)
        resp_owe_ack(resp, AETH_ACK_PLAIN, psn_prev(resp->epsn));
}

void resp_commit_reads(struct engine *e, struct qp *qp, unsigned n, psn_t next)
{
    struct responder *resp = &qp->resp;
    int32_t packets = psn_diff(next, resp->epsn);

    resources_opened(resp, n);
    resp->res_pending += n;
    resp->msn += n;
    resp->epsn = next;
    /* Parts that are repeated count, too. */
    invariant(resp->repeats || resp->res_pending <= resp->res_max);
    resp->nak_sent = resp->ack_pending = false; /* the responses acknowledge what came before */
    engine_tx_answer(e, qp, (uint32_t)packets);
}
