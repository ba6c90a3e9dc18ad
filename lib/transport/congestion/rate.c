/* SPDX-License-Identifier: BSD-3-Clause */
/* Controlled queue pairs: see rate.h. */
#include "rate.h"

#include <errno.h>

void rate_on_cnp(struct engine *e, struct qp *qp)
{
    const struct congestion_config *c = &e->cfg.congestion;

    if (!qp->cc.ops)
        cc_start(&qp->cc, c->control, c->line);
    qp->req.paced = true;
    counter_inc(&qp->counters.rp_cnp_handled);
    cc_on_cnp(&qp->cc, e->now);
}

unsigned rate_admit(struct engine *e, struct qp *qp, struct tx_allowance *allow, unsigned n)
{
    uint64_t bytes = cc_allowance(&qp->cc, e->now);

    if (!cc_is_controlled(&qp->cc))
        cc_stop(&qp->cc);
    if (!cc_is_limited(&qp->cc)) {
        rate_forget(e, qp);
        return n;
    }
    if (bytes)
        return (unsigned)min_of((uint64_t)n,
                                1 + (bytes - 1) / max_of(qp->mtu, (uint32_t)PKT_MTU_MIN));
    allow->requests = 0;
    if (qp->resp.res_pending && !qp->fault && qp->state != QPS_ERR)
        allow->responses = qp->cnp_due;
    timer_arm(&e->wheel, &qp->pace, TIMER_PACE, qp->cc.next, e->now);
    return n;
}

void rate_charge(struct engine *e, struct qp *qp, const struct frame *frames, unsigned taken)
{
    uint32_t bytes = 0;

    for (unsigned i = e->jobs; i < e->jobs + taken; i++) {
        const struct tx_job *job = &e->tx_job[i];

        if (i < e->sealed)
            bytes += frames[i - e->jobs].len;
        else /* raw frames have no headers but their own */
            bytes += job->bth_len + (job->encap ? (uint32_t)job->encap->len : 0);
    }
    cc_on_sent(&qp->cc, bytes, e->now);
}

void rate_timer(struct engine *e, struct qp *qp)
{
    engine_tx_ready(e, qp);
}

void rate_forget(struct engine *e, struct qp *qp)
{
    timer_remove(&e->wheel, &qp->pace);
    qp->req.paced = false;
    cc_stop(&qp->cc);
    cc_set_limit(&qp->cc, 0, e->now);
}

int rate_check_limit(const struct qp *qp, const struct qp_attr *attr)
{
    uint64_t rate = attr->rate_limit * UINT64_C(1000);

    if (qp->type == QPT_XRC_RECV)
        return -EINVAL;
    return attr->rate_burst && attr->rate_burst < cc_burst(rate) + qp->mtu ? -EINVAL : 0;
}

void rate_set_limit(struct engine *e, struct qp *qp, uint32_t kbps)
{
    cc_set_limit(&qp->cc, kbps * UINT64_C(1000), e->now);
    if (!cc_is_limited(&qp->cc)) {
        rate_forget(e, qp);
    } else {
        qp->req.paced = true;
        engine_tx_ready(e, qp);
    }
}
