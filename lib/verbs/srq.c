/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "shim.h"
#include "watch.h"

static int fill_request(struct ctl_create_srq *r, const struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                           IBV_SRQ_INIT_ATTR_CQ;
    bool xrc = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC;

    if (attr->comp_mask & ~known ||
        ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_TM))
        return -EOPNOTSUPP;
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
        return -EINVAL;
    *r = (struct ctl_create_srq){.pd = attr->pd->handle,
                                 .type = xrc ? CTL_SRQ_XRC : CTL_SRQ_BASIC,
                                 .max_wr = attr->attr.max_wr,
                                 .max_sge = attr->attr.max_sge};
    if (!xrc)
        return 0;
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd ||
        !(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)
        return -EINVAL;
    r->xrcd = ((struct shim_xrcd *)attr->xrcd)->handle;
    r->cq = attr->cq->handle;
    return 0;
}

struct ibv_srq *shim_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    struct ctl_create_srq r;
    struct shim_srq *srq;
    int err = fill_request(&r, attr);

    if (err)
        return refuse(err);
    srq = aligned_alloc(CACHE_LINE, round_up(sizeof(*srq), CACHE_LINE));
    if (!srq)
        return NULL;
    memset(srq, 0, sizeof(*srq));
    pthread_mutex_init(&srq->base.mutex, NULL);
    pthread_cond_init(&srq->base.cond, NULL);
    err = client_srq_create(&to_context(context)->client, &srq->queue,
                            r.cq ? &to_cq(attr->cq)->queue : NULL, &r);
    if (err) {
        free(srq);
        return refuse(err);
    }
    srq->base.context = context;
    srq->base.srq_context = attr->srq_context;
    srq->base.pd = attr->pd;
    srq->base.handle = srq->queue.handle;
    attr->attr.max_wr = r.max_wr;
    attr->attr.max_sge = r.max_sge;
    return &srq->base;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex ex = {.srq_context = attr->srq_context,
                                      .attr = attr->attr,
                                      .comp_mask = IBV_SRQ_INIT_ATTR_PD,
                                      .pd = pd};
    struct ibv_srq *srq = shim_create_srq_ex(pd->context, &ex);

    if (srq)
        attr->attr = ex.attr;
    return srq;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    struct ctl_modify_srq m = {
        .mask = (uint32_t)mask, .max_wr = attr->max_wr, .limit = attr->srq_limit};

    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return failed(EINVAL);
    return failed(-client_srq_modify(&to_srq(srq)->queue, &m));
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    struct ctl_msg m = {.handle = srq->handle};
    int err = shim_call(srq->context, CTL_QUERY_SRQ, &m);

    if (!err)
        *attr = (struct ibv_srq_attr){.max_wr = m.create_srq.max_wr,
                                      .max_sge = m.create_srq.max_sge,
                                      .srq_limit = m.create_srq.limit};
    return failed(err);
}

EXPORT int ibv_destroy_srq(struct ibv_srq *base)
{
    struct shim_srq *srq = to_srq(base);
    int err = client_srq_destroy(&srq->queue);

    if (!is_destroyed(err))
        return failed(-err);
    shim_wait_acks(&base->mutex, &base->cond, &base->events_completed, srq->async_delivered);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    free(srq);
    return failed(-err);
}

int shim_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    *number = srq->handle;
    return 0;
}

ALWAYS_INLINE int receive(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
                          bool watched)
{
    struct client_srq *srq = &to_srq(base)->queue;
    uint32_t prod;
    int err = 0;

    spin_lock(&srq->ring.lock);
    prod = atomic_load_explicit(srq->ring.shared_prod, memory_order_relaxed);
    srq->ring.prod = prod;
    for (; wr; wr = wr->next) {
        err = client_srq_has_room(srq, prod)
                  ? build_recv(&srq->ring, ring_slot(&srq->ring, prod), wr)
                  : -ring_full_error(&srq->ring);
        if (unlikely(failed(err))) {
            *bad = wr;
            break;
        }
        prod++;
    }
    if (watched)
        watch_receives(base->context, 0, &srq->ring, srq->ring.prod, prod);
    if (likely(prod != srq->ring.prod))
        ring_publish(&srq->ring, prod);
    spin_unlock(&srq->ring.lock);
    if (unlikely(err == EIO) && client_inherit(srq->client))
        return shim_post_srq_recv(base, *bad, bad);
    return err;
}

static __attribute__((cold, noinline)) int
receive_watched(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int err = watch_judge(base->context, CTL_JUDGE_POST_SRQ_RECV);

    if (!err)
        return receive(base, wr, bad, true);
    *bad = wr;
    return err;
}

int shim_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return WATCHED(post_recv) ? receive_watched(base, wr, bad) : receive(base, wr, bad, false);
}
