/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests that send nothing: binding and invalidating memory windows (volume
 * 1, 10.6.7, 11.4.1). */
#include "requester.h"

struct window_bind local_bind(const struct qp *qp, const struct sqe *w)
{
    return (struct window_bind){
        .window_key = w->rkey,
        .new_key = w->imm,
        .region_key = w->bind.region_key,
        .pd = qp->pd,
        .qpn = qp->qpn,
        .va = w->remote_addr,
        .len = w->bind.length,
        .access = w->bind.access,
    };
}

static uint8_t bind_window(struct engine *e, struct qp *qp, const struct sqe *w)
{
    struct window_bind b = local_bind(qp, w);

    return window_bind(e->cfg.mrs, &b) == MR_OK ? WC_SUCCESS : WC_MW_BIND_ERR;
}

uint8_t local_op(struct engine *e, struct qp *qp, const struct sqe *w)
{
    if (w->opcode == SQE_BIND_MW)
        return bind_window(e, qp, w);
    return window_invalidate(e->cfg.mrs, w->imm, qp->pd, qp->qpn) == MR_OK ? WC_SUCCESS
                                                                           : WC_MW_BIND_ERR;
}
