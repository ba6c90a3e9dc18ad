/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and routes of ids, and listening. */
#include "cma.h"

EXPORT int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *addr)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {.cm_resolve = {.id = id->entry.handle}};
    int err = addr ? addr_to_ctl(&m.cm_resolve.src, addr) : -EINVAL;

    if (!err)
        err = link_call(id->link, CTL_CM_BIND, &m);
    return cma_result(err ? err : id_take_info(id, &m.cm_info));
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src_addr,
                             struct sockaddr *dst_addr, int timeout_ms)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {.cm_resolve = {.id = id->entry.handle, .timeout_ms = (uint32_t)timeout_ms}};
    int err = dst_addr ? addr_to_ctl(&m.cm_resolve.dst, dst_addr) : -EINVAL;

    if (!err)
        err = addr_to_ctl(&m.cm_resolve.src, src_addr);
    if (!err)
        err = link_call(id->link, CTL_CM_RESOLVE_ADDR, &m);
    if (!err)
        err = id_take_info(id, &m.cm_info);
    return cma_result(err ? err : id_complete(id));
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {.cm_resolve = {.id = id->entry.handle, .timeout_ms = (uint32_t)timeout_ms}};
    int err = link_call(id->link, CTL_CM_RESOLVE_ROUTE, &m);

    return cma_result(err ? err : id_complete(id));
}

EXPORT int rdma_listen(struct rdma_cm_id *base, int backlog)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {
        .cm_id = {.id = id->entry.handle, .backlog = backlog > 0 ? (uint32_t)backlog : 0}};
    int err = link_call(id->link, CTL_CM_LISTEN, &m);

    return cma_result(err ? err : id_take_info(id, &m.cm_info));
}
