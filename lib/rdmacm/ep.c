/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous endpoints: an id and its queue pair in one call. */
#include "cma.h"

#define RESOLVE_MS 2000

static int prepare_passive(struct cma_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                           const struct ibv_qp_init_attr *attr)
{
    if (rdma_bind_addr(&id->base, res->ai_src_addr))
        return cma_errno();
    if (pd)
        id->base.pd = pd;
    if (!attr)
        return 0;
    id->ep_attr = malloc(sizeof(*id->ep_attr));
    if (!id->ep_attr)
        return -ENOMEM;
    *id->ep_attr = *attr;
    id->ep_attr->qp_type = res->ai_qp_type;
    return 0;
}

static int find_route(struct cma_id *id, const struct rdma_addrinfo *res)
{
    if (!res->ai_route_len)
        return rdma_resolve_route(&id->base, RESOLVE_MS) ? cma_errno() : 0;
    if (rdma_set_option(&id->base, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
                        res->ai_route_len))
        return cma_errno();
    return id_complete(id);
}

/* For rdma_connect: the program may free the address information before. */
static int keep_private(struct cma_id *id, const struct rdma_addrinfo *res)
{
    if (!res->ai_connect_len)
        return 0;
    if (res->ai_connect_len > CTL_CM_PRIVATE_MAX)
        return -EINVAL;
    id->connect = malloc(res->ai_connect_len);
    if (!id->connect)
        return -ENOMEM;
    memcpy(id->connect, res->ai_connect, res->ai_connect_len);
    id->connect_len = res->ai_connect_len;
    return 0;
}

static int prepare_active(struct cma_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                          struct ibv_qp_init_attr *attr)
{
    int err;

    if (rdma_resolve_addr(&id->base, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS))
        return cma_errno();
    err = find_route(id, res);
    if (!err)
        err = keep_private(id, res);
    if (err || !attr)
        return err;
    attr->qp_type = res->ai_qp_type;
    return rdma_create_qp(&id->base, pd, attr) ? cma_errno() : 0;
}

static int create_ep(struct rdma_cm_id **out, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *id;
    int err = id_create(NULL, &id, NULL, res->ai_port_space, res->ai_qp_type);

    if (err)
        return err;
    err = res->ai_flags & RAI_PASSIVE ? prepare_passive(to_id(id), res, pd, attr)
                                      : prepare_active(to_id(id), res, pd, attr);
    if (err)
        rdma_destroy_ep(id);
    else
        *out = id;
    return err;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                          struct ibv_qp_init_attr *attr)
{
    return cma_result(id && res ? create_ep(id, res, pd, attr) : -EINVAL);
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    if (id->srq)
        rdma_destroy_srq(id);
    rdma_destroy_id(id);
}

/* ---- requests ---- */

static int make_ready(struct cma_id *listener, struct cma_event *ev)
{
    struct ibv_qp_init_attr attr;

    if (ev->event.event != RDMA_CM_EVENT_CONNECT_REQUEST)
        return ev->event.status < 0 ? ev->event.status : -EINVAL;
    if (!listener->ep_attr)
        return 0;
    attr = *listener->ep_attr;
    return rdma_create_qp(ev->event.id, listener->base.pd, &attr) ? cma_errno() : 0;
}

static int get_request(struct cma_id *listener, struct rdma_cm_id **out)
{
    struct cma_event *ev;
    int err;

    if (!listener->sync)
        return -EINVAL;
    id_drop_event(listener);
    err = event_get(to_channel(listener->base.channel), &ev);
    if (err)
        return err;
    err = make_ready(listener, ev);
    if (!err) {
        *out = ev->event.id;
        (*out)->event = &ev->event;
        return 0;
    }
    if (ev->event.event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        listener->base.event = &ev->event; /* the program may look why */
        return err;
    }
    rdma_destroy_id(ev->event.id);
    event_done(ev);
    return err;
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
    return cma_result(get_request(to_id(listen), id));
}
