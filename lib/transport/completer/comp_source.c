/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where answers come from. A host that forges them with the peer's address, and guesses a PSN of
 * the window, does not know the peer's UDP source port: 14 bits, commonly a hash of both queue pair
 * numbers.
 *
 * The peer may change its port. It does so when requests come again, since its path seems to be
 * broken (sport.c): whatever is sent again may be answered from any port. A port may also change at
 * any time, even for every packet. Then the first answer from another port is ignored, which is a
 * loss as any other; the second one is believed, unless answers from the known port made progress
 * in between. After some such changes all ports are believed. So they are if there is no timer that
 * would notice a loss, or no retry. The response that is expected next, or a batch of them
 * (comp_read.c), says where the peer is now.
 */
#include "completer.h"

/* Nothing was sent again since the last progress, and it could be. */
static bool may_be_lost(const struct qp *qp)
{
    return qp->ack_timeout && qp->attr.retry_cnt && !qp->req.retries && !qp->req.recovery.probes;
}

static bool is_second(const struct requester *req)
{
    return req->stranger && psn_eq(req->stranger_una, req->una);
}

/* The one response that is expected: its PSN is hard to guess. */
static bool is_expected(const struct requester *req, const struct pkt *p)
{
    return pkt_info(p)->kind != KIND_ACK && psn_eq(p->psn, req->una);
}

bool comp_source_moved(struct qp *qp, const struct pkt *p, uint16_t sport)
{
    struct requester *req = &qp->req;

    if (req->peer_moves == PEER_MOVES_MAX)
        return true;
    if (req->peer_sport && may_be_lost(qp) && !is_expected(req, p)) {
        if (!is_second(req)) {
            req->stranger = true;
            req->stranger_una = req->una;
            counter_inc(&qp->counters.stranger_answers);
            return false;
        }
        req->peer_moves++;
    }
    req->stranger = false;
    req->peer_sport = sport;
    return true;
}
