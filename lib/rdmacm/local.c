/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that do not come from the daemon: the program's own, those of names, and those that tell
 * what a reply has brought. */
#include "cma.h"

/* Of later headers than ours, in which the parameters of an event have a member for it. */
EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                               uint64_t arg);
EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                                 const struct rdma_addrinfo *hints);
EXPORT int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

struct cma_event *event_local(struct cma_id *id, uint32_t type)
{
    struct cma_event *ev = calloc(1, sizeof(*ev));

    if (!ev)
        return NULL;
    ev->owner = id;
    ev->event.id = &id->base;
    ev->event.event = type;
    return ev;
}

static int post(struct cma_id *id, uint32_t type, int status, uint64_t arg)
{
    struct cma_event *ev = event_local(id, type);

    if (!ev)
        return -ENOMEM;
    ev->event.status = status;
    memcpy(&ev->event.param, &arg, sizeof(arg));
    channel_post(to_channel(id->base.channel), ev);
    return 0;
}

EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                               uint64_t arg)
{
    if ((uint32_t)event != CMA_EVENT_USER)
        return cma_result(-EINVAL);
    return cma_result(post(to_id(id), event, status, arg));
}

/* getaddrinfo() in the caller's thread; its result is an event all the same. */
static int resolve(struct cma_id *id, const char *node, const char *service,
                   const struct rdma_addrinfo *hints)
{
    struct rdma_addrinfo *info = NULL;
    int err;

    /* No subnet administration has names here. */
    if (hints && hints->ai_flags & CMA_RAI_SA)
        return -EOPNOTSUPP;
    err = rdma_getaddrinfo(node, service, hints, &info);
    if (err)
        return post(id, CMA_EVENT_ADDRINFO_ERROR, err == -1 ? cma_errno() : -ENXIO, 0);
    rdma_freeaddrinfo(id->info);
    id->info = info;
    return post(id, CMA_EVENT_ADDRINFO_RESOLVED, 0, 0);
}

EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *base, const char *node, const char *service,
                                 const struct rdma_addrinfo *hints)
{
    struct cma_id *id = to_id(base);
    int err = resolve(id, node, service, hints);

    return cma_result(err ? err : id_complete(id));
}

/* The result is the caller's, who frees it; there is none for a second call. */
EXPORT int rdma_query_addrinfo(struct rdma_cm_id *base, struct rdma_addrinfo **info)
{
    struct cma_id *id = to_id(base);

    if (!info)
        return cma_result(-EINVAL);
    if (!id->info)
        return cma_result(-ENOENT);
    *info = id->info;
    id->info = NULL;
    return 0;
}
