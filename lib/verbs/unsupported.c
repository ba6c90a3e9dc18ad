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
