/* SPDX-License-Identifier: BSD-3-Clause */
/* The traffic class of a queue pair: which of its program's shares it is in. */
#include "engine_private.h"
#include "id_tables.h"
#include "wqe.h"

static const struct address_handle *handle_of(const struct engine *e, const struct qp *qp,
                                              uint32_t number)
{
    const struct address_handle *ah = ah_find(e->cfg.ahs, number, qp->pd);

    return ah ? ah : ah_find_limited(e->cfg.ahs, number, qp->pd);
}

/* Where the next datagram of a UD queue pair is to go, as far as is known before its turn; NULL:
 * there is none. */
static const struct address_handle *next_handle(const struct engine *e, const struct qp *qp)
{
    const struct requester *req = &qp->req;

    if (req->send != req->head)
        return handle_of(e, qp, slot_at(req, req->send)->wqe.h.ud.ah);
    if (req->slot_count && work_queue_pending(&req->sq) > 0)
        return handle_of(e, qp, send_wqe_peek_ah(&req->sq, req->sq.cons));
    return NULL;
}

/* The priority of what qp sends next. False: a queue pair for datagrams has none. */
static bool priority_of(const struct engine *e, const struct qp *qp, uint8_t *priority)
{
    const struct address_handle *ah;

    *priority = qp->av.pcp;
    if (qp->service != PKT_UD)
        return true;
    ah = next_handle(e, qp);
    if (ah)
        *priority = address_handle_vector(ah)->pcp;
    return ah;
}

struct share *share_first(struct engine *e, const struct qp *qp)
{
    return qp->shares ? &qp->shares[e->cfg.lane * share_count(&e->cfg.classes)] : e->own;
}

/* A queue pair without a datagram is in the first class, where it does not wait for others. */
struct share *share_of(struct engine *e, const struct qp *qp)
{
    const struct qos_classes *c = &e->cfg.classes;
    struct share *first = share_first(e, qp);
    uint8_t priority;

    if (!c->count || !priority_of(e, qp, &priority))
        return first;
    return &first[c->of_priority[priority % QOS_PRIORITIES]];
}

bool share_set_class(struct engine *e, struct qp *qp)
{
    struct share *to = share_of(e, qp);
    bool ready = qp->in_tx_list;

    if (to == qp->share)
        return false;
    engine_tx_idle(e, qp);
    qp->share = to;
    if (ready)
        engine_tx_ready(e, qp);
    return true;
}
