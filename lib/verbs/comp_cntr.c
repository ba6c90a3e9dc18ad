/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion counters, since rdma-core 65: counts of completed requests or bytes of a queue pair,
 * by operation. The device has none, as a worker counts nothing for applications: all calls fail
 * with EOPNOTSUPP, and programs use a completion queue.
 */
#include "later.h"

/* A program without a counter has no arguments for most of them, so that they do not matter. */
#define REFUSED(name)              \
    EXPORT int later_##name(void); \
    LATER(name, "1.18");           \
    EXPORT int later_##name(void)  \
    {                              \
        return failed(EOPNOTSUPP); \
    }                              \
    _Static_assert(1, "takes the semicolon")

REFUSED(_ibv_query_comp_cntr_caps);
REFUSED(ibv_destroy_comp_cntr);
REFUSED(ibv_inc_comp_cntr);
REFUSED(ibv_inc_err_comp_cntr);
REFUSED(ibv_qp_attach_comp_cntr);
REFUSED(ibv_read_comp_cntr);
REFUSED(ibv_read_err_comp_cntr);
REFUSED(ibv_set_comp_cntr);
REFUSED(ibv_set_err_comp_cntr);

EXPORT void *later_ibv_create_comp_cntr(void);
LATER(ibv_create_comp_cntr, "1.18");
EXPORT void *later_ibv_create_comp_cntr(void)
{
    return refuse(-EOPNOTSUPP);
}
