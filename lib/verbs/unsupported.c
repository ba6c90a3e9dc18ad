/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device does not support. Every call fails with EOPNOTSUPP: test suites then skip, and
 * libraries fall back. Operations that the header checks before it calls them stay NULL.
 */
#include "shim.h"

/* ---- memory ---- */

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                        uint64_t iova, int fd, int access)
{
    return refuse(-EOPNOTSUPP);
}

/* ---- queue pairs ---- */

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return failed(EOPNOTSUPP);
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    memset(ece, 0, sizeof(*ece));
    return failed(EOPNOTSUPP);
}
