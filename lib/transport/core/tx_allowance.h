/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much a queue pair may send now: the one place that says so, for requests and for responses,
 * on the general path and on the batch path. Each call of tx_take_turn asks once and sends no more
 * than that, except that the responses to its last READ may be more PSNs than the window has left.
 * How many packets a queue pair sends in a row is decided elsewhere (tx_burst.c). A
 * congestion controller limits both numbers here.
 */
#ifndef UROCE_TX_ALLOWANCE_H
#define UROCE_TX_ALLOWANCE_H

#include "qp.h"

#define WINDOW_DEFAULT 128u                           /* PSNs in flight, of packets of any size */
#define WINDOW_BYTES   (WINDOW_DEFAULT * PKT_MTU_MAX) /* in flight, of smaller packets */
#define WINDOW_MAX \
    384u /* PSNs: the rings of ports, and those between workers, hold slightly more */

struct tx_allowance {
    unsigned requests;  /* PSNs of requests: a READ takes those of its responses */
    unsigned responses; /* packets of responses, ACKs, NAKs and CNPs included */
};

/* A requester is silent while the peer is not ready (9.7.5.2.8) or the rate is controlled
 * (tx_turn.c asks rate.h then), before RTS and after a fault; the window bounds what a loss costs.
 */
static inline unsigned tx_allowed_requests(const struct qp *qp)
{
    const struct requester *req = &qp->req;
    uint32_t inflight = (uint32_t)psn_diff(req->next_psn, req->una);

    if (!qp_can_request(qp) || req->waits || qp->fault || inflight >= req->window)
        return 0;
    return req->window - inflight;
}

/* On the way to the error state, and in it, responses go one by one: only those that precede the
 * refused request are sent, and the NAK (resp_reply.c chooses them). None while it is suspended. */
static inline unsigned tx_allowed_responses(const struct qp *qp)
{
    const struct responder *resp = &qp->resp;

    if (qp->state == QPS_ERR)
        return resp->ack_pending && qp->fault != FAULT_SUSPENDED;
    if (!qp_can_receive(qp) || !(resp->res_pending || resp->ack_pending || qp->cnp_due))
        return 0;
    if (unlikely(qp->fault))
        return qp->fault != FAULT_SUSPENDED;
    return FRAME_BURST;
}

static inline struct tx_allowance qp_tx_allowance(const struct qp *qp)
{
    return (struct tx_allowance){.requests = tx_allowed_requests(qp),
                                 .responses = tx_allowed_responses(qp)};
}

#endif
