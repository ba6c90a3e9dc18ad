/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and routes of ids, and listening. */
#include "cma.h"

/* The kernel tells an address that no interface has from one that no device has; the daemon knows
 * the devices' alone. */
static int source_error(int err, const struct sockaddr *src)
{
    return err == -ENODEV && src && addr_is_foreign(src) ? -EADDRNOTAVAIL : err;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *addr)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {.cm_resolve = {.id = id->entry.handle}};
    int err = addr ? addr_to_ctl(&m.cm_resolve.src, addr) : -EINVAL;

    if (!err)
        err = source_error(link_call(id->link, CTL_CM_BIND, &m), addr);
    return cma_result(err ? err : id_take_info(id, &m.cm_info));
}

/* What is found at once comes with the reply, and the program's event is local. */
static int ask(struct cma_id *id, enum ctl_type type, struct ctl_msg *m,
               enum rdma_cm_event_type found)
{
    struct cma_event *ev = event_local(id, found);
    int err;

    if (!ev)
        return -ENOMEM;
    id->routed = id->path_known = false;
    m->cm_resolve.id = id->entry.handle;
    m->cm_resolve.at_once = 1;
    m->cm_resolve.got = event_got(id);
    err = link_call(id->link, type, m);
    if (!err && (type == CTL_CM_RESOLVE_ADDR || m->cm_info.at_once))
        err = id_take_info(id, &m->cm_info);
    id->routed = !err && m->cm_info.at_once && type == CTL_CM_RESOLVE_ROUTE;
    if (id->routed)
        id_show_route(id);
    if (!err && m->cm_info.at_once)
        channel_post(to_channel(id->base.channel), ev);
    else
        free(ev);
    return err;
}

/* Another thread may destroy the id after an event of it, which may come before the reply. */
static int resolve(struct cma_id *id, enum ctl_type type, struct ctl_msg *m,
                   enum rdma_cm_event_type found)
{
    bool sync = id->sync;
    int err;

    if (id->route_told) /* as the daemon says where it knows */
        return -EINVAL;
    id_begin_call(id);
    err = ask(id, type, m, found);
    id_end_call(id);
    return err || !sync ? err : id_complete(id);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src_addr,
                             struct sockaddr *dst_addr, int timeout_ms)
{
    struct ctl_msg m = {.cm_resolve = {.timeout_ms = (uint32_t)timeout_ms}};
    int err = dst_addr ? addr_to_ctl(&m.cm_resolve.dst, dst_addr) : -EINVAL;

    if (!err)
        err = addr_to_ctl(&m.cm_resolve.src, src_addr);
    if (!err)
        err = resolve(to_id(base), CTL_CM_RESOLVE_ADDR, &m, RDMA_CM_EVENT_ADDR_RESOLVED);
    return cma_result(source_error(err, src_addr));
}

/* The route that came with the address. */
static int route_at_hand(struct cma_id *id)
{
    struct cma_event *ev = event_local(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    bool sync = id->sync;

    if (!ev)
        return -ENOMEM;
    id_show_route(id);
    id->routed = id->route_told = true;
    channel_post(to_channel(id->base.channel), ev);
    return sync ? id_complete(id) : 0;
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
    struct ctl_msg m = {.cm_resolve = {.timeout_ms = (uint32_t)timeout_ms}};
    struct cma_id *id = to_id(base);

    if (id->path_known && link_is_ours(id->link))
        return cma_result(route_at_hand(id));
    return cma_result(resolve(id, CTL_CM_RESOLVE_ROUTE, &m, RDMA_CM_EVENT_ROUTE_RESOLVED));
}

EXPORT int rdma_listen(struct rdma_cm_id *base, int backlog)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {
        .cm_id = {.id = id->entry.handle, .backlog = backlog > 0 ? (uint32_t)backlog : 0}};
    int err;

    id_begin_call(id); /* a request may come before the reply */
    err = link_call(id->link, CTL_CM_LISTEN, &m);
    if (!err)
        err = id_take_info(id, &m.cm_info);
    id_end_call(id);
    return cma_result(err);
}
