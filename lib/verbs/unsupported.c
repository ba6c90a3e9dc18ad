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

/* ---- completion queues ---- */

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    return failed(EOPNOTSUPP);
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

/* ---- objects of other processes ---- */

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    return refuse(-EOPNOTSUPP);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    return refuse(-EOPNOTSUPP);
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    return refuse(-EOPNOTSUPP);
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    return refuse(-EOPNOTSUPP);
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
}
