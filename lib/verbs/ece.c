/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enhanced connection establishment: a program asks a queue pair what it can do, carries that to
 * the peer beside the queue pair's number, and tells the queue pair what the peer can do. The
 * connection then has the features that both have, and the daemons ask each other nothing.
 */
#include "ece.h"
#include "shim.h"

/* The features that the port lets a queue pair of this type have. */
static uint32_t features_of(const struct ibv_qp *qp)
{
    switch (qp->qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
        return to_context(qp->context)->info.features;
    default:
        return 0;
    }
}

/* Options of another vendor's device, or of none, leave nothing that both have. */
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    if (ece->comp_mask || ece->vendor_id > ECE_VENDOR_MAX)
        return failed(EINVAL);
    if (qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT)
        return failed(EINVAL); /* it has its path, and what was agreed on, already */
    to_qp(qp)->ece = ECE_SAID | (ece_features(ece->vendor_id, ece->options) & features_of(qp));
    return 0;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    uint32_t said = to_qp(qp)->ece;
    uint32_t features = said & ECE_SAID ? said & ~ECE_SAID : features_of(qp);

    *ece = (struct ibv_ece){0};
    if (features) {
        ece->vendor_id = ECE_VENDOR;
        ece->options = ece_options(features);
    }
    return 0;
}
