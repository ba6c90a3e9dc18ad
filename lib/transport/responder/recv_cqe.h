/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of receive WQEs of connected services. */
#ifndef UROCE_RECV_CQE_H
#define UROCE_RECV_CQE_H

#include "completion.h"

/* The fields that the CQEs of all messages received now have in common. */
static inline struct cqe recv_cqe(const struct engine *e, const struct qp *qp)
{
    return (struct cqe){
        .timestamp = e->now,
        .qpn = qp->qpn,
        .src_qpn = qp->dest_qpn,
        .uidx = qp_completion_uidx(qp),
        .status = WC_SUCCESS,
        .opcode = WC_RECV,
        .sl = qp->av.sl,
        .vlan = VLAN_NONE,
    };
}

#endif
