/* SPDX-License-Identifier: BSD-3-Clause */
/* What a queue pair uses: objects of its session, and memory of its quota. */
#include "objects/qp_object.h"

#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/pd_mr.h"
#include "objects/srq_object.h"
#include "objects/wq_object.h"
#include "objects/xrcd.h"

void qp_object_count_parts(struct qp_object *q, int n)
{
    if (q->pd)
        q->pd->o.refs += (uint32_t)n;
    if (q->send_cq)
        q->send_cq->o.refs += (uint32_t)n;
    if (q->recv_cq)
        q->recv_cq->o.refs += (uint32_t)n;
    if (q->srq)
        q->srq->o.refs += (uint32_t)n;
    if (q->xrcd)
        q->xrcd->o.refs += (uint32_t)n;
    if (q->ind)
        q->ind->o.refs += (uint32_t)n;
}

int qp_object_charge(struct session *sn, struct qp_object *q, size_t bytes)
{
    int err = quota_charge(&sn->account, &(struct quota_cost){{[QUOTA_MEMORY] = bytes}});

    if (!err)
        q->memory += bytes;
    return err;
}

void qp_object_uncharge(struct session *sn, struct qp_object *q, size_t bytes)
{
    quota_uncharge(&sn->account, &(struct quota_cost){{[QUOTA_MEMORY] = bytes}});
    q->memory -= bytes;
}
