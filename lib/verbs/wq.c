/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues for raw packets, and the indirection tables that name them. */
#include "shim.h"
#include "watch.h"

#define ATTR_KNOWN (IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS)

_Static_assert(CTL_RWQ_IND_MAX == 1 << 7, "the largest table");
#define LOG_TABLE_MAX 7

/* ---- posting ---- */

static int post_wq_recv(struct ibv_wq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct client_ring *rq = &to_wq(base)->queue.half.rq;
    int err = WATCHED(post_recv) ? watch_judge(base->context, CTL_JUDGE_POST_RECV) : 0;
    uint32_t prod_before;

    if (unlikely(base->state != IBV_WQS_RDY))
        err = EINVAL;
    if (unlikely(failed(err))) {
        *bad = wr;
        return err;
    }
    spin_lock(&rq->lock);
    prod_before = rq->prod;
    err = post_receives(rq, wr, bad);
    if (WATCHED(post_recv))
        watch_receives(base->context, base->wq_num, rq, prod_before, rq->prod);
    spin_unlock(&rq->lock);
    if (unlikely(err == EIO) && client_inherit(to_wq(base)->queue.half.client))
        return post_wq_recv(base, *bad, bad);
    return err;
}

/* Its WQEs are posted to the shared receive queue. */
static int refuse_wq_recv(struct ibv_wq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    *bad = wr;
    return failed(EINVAL);
}

/* ---- work queues ---- */

static struct shim_wq *create_wq(struct ibv_context *context, const struct client_qp_uses *uses,
                                 struct ctl_create_wq *r)
{
    struct shim_wq *wq = aligned_alloc(CACHE_LINE, round_up(sizeof(*wq), CACHE_LINE));
    int err;

    if (!wq)
        return NULL;
    memset(wq, 0, sizeof(*wq));
    err = client_wq_create(&to_context(context)->client, &wq->queue, uses, r);
    if (err) {
        free(wq);
        return refuse(err);
    }
    wq->base = (struct ibv_wq){.context = context,
                               .wq_num = r->handle,
                               .handle = r->handle,
                               .state = IBV_WQS_RESET,
                               .wq_type = r->type,
                               .post_recv = r->type == CTL_WQ_SRQ ? refuse_wq_recv : post_wq_recv};
    return wq;
}

/* The header's inline function initialises the mutex and the other fields. */
struct ibv_wq *shim_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
    struct ctl_create_wq r = {.type = CTL_WQ_RQ, .max_wr = attr->max_wr, .max_sge = attr->max_sge};
    struct client_qp_uses uses = {0};
    struct shim_wq *wq;

    if (attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS || attr->wq_type != IBV_WQT_RQ ||
        !attr->pd || !attr->cq)
        return refuse(-EINVAL);
    if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS && attr->create_flags)
        return refuse(-EOPNOTSUPP);
    r.pd = attr->pd->handle;
    r.cq = attr->cq->handle;
    uses.recv_cq = &to_cq(attr->cq)->queue;
    wq = create_wq(context, &uses, &r);
    if (!wq)
        return NULL;
    wq->base.pd = attr->pd;
    wq->base.cq = attr->cq;
    attr->max_wr = r.max_wr;
    attr->max_sge = r.max_sge;
    return &wq->base;
}

EXPORT struct ibv_wq *uroce_create_wq_srq(struct ibv_context *context,
                                          const struct uroce_wq_srq_init_attr *attr)
{
    struct ctl_create_wq r = {.type = CTL_WQ_SRQ};
    struct client_qp_uses uses = {.has_srq = true};
    struct shim_wq *wq;

    if (attr->comp_mask || !attr->pd || !attr->cq || !attr->srq)
        return refuse(-EINVAL);
    r.pd = attr->pd->handle;
    r.cq = attr->cq->handle;
    r.srq = attr->srq->handle;
    uses.recv_cq = &to_cq(attr->cq)->queue;
    uses.srq = to_srq(attr->srq)->queue.uidx;
    wq = create_wq(context, &uses, &r);
    if (!wq)
        return NULL;
    wq->base.wq_context = attr->wq_context;
    wq->base.pd = attr->pd;
    wq->base.cq = attr->cq;
    pthread_mutex_init(&wq->base.mutex, NULL);
    pthread_cond_init(&wq->base.cond, NULL);
    return &wq->base;
}

int shim_modify_wq(struct ibv_wq *base, struct ibv_wq_attr *attr)
{
    uint32_t state = attr->wq_state;
    int err;

    if (attr->attr_mask & ~(uint32_t)ATTR_KNOWN || !(attr->attr_mask & IBV_WQ_ATTR_STATE) ||
        attr->wq_state > IBV_WQS_ERR)
        return failed(EINVAL);
    if (attr->attr_mask & IBV_WQ_ATTR_FLAGS && attr->flags_mask)
        return failed(EOPNOTSUPP);
    if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != base->state)
        return failed(EINVAL);
    err = client_wq_modify(&to_wq(base)->queue, &state);
    if (err != -EIO)
        base->state = state;
    return failed(-err);
}

int shim_destroy_wq(struct ibv_wq *base)
{
    struct shim_wq *wq = to_wq(base);
    int err = client_wq_destroy(&wq->queue);

    if (!is_destroyed(err))
        return failed(-err);
    shim_wait_acks(&base->mutex, &base->cond, &base->events_completed, wq->async_delivered);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    free(wq);
    return failed(-err);
}

/* ---- indirection tables ---- */

static int fill_table(struct ctl_rwq_ind *r, const struct ibv_rwq_ind_table_init_attr *attr)
{
    if (attr->comp_mask || attr->log_ind_tbl_size > LOG_TABLE_MAX || !attr->ind_tbl)
        return EINVAL;
    r->size = 1u << attr->log_ind_tbl_size;
    for (uint32_t i = 0; i < r->size; i++) {
        if (!attr->ind_tbl[i] || attr->ind_tbl[i]->handle > UINT16_MAX)
            return EINVAL;
        r->wq[i] = (uint16_t)attr->ind_tbl[i]->handle;
    }
    return 0;
}

struct ibv_rwq_ind_table *shim_create_rwq_ind_table(struct ibv_context *context,
                                                    struct ibv_rwq_ind_table_init_attr *attr)
{
    struct ibv_rwq_ind_table *table;
    struct ctl_msg m = {0};
    int err = fill_table(&m.rwq_ind, attr);

    if (err)
        return refuse(-err);
    table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    err = shim_call(context, CTL_CREATE_RWQ_IND, &m);
    if (err) {
        free(table);
        return refuse(-err);
    }
    table->context = context;
    table->ind_tbl_handle = table->ind_tbl_num = (int)m.rwq_ind.handle;
    return table;
}

EXPORT int uroce_modify_rwq_ind_table(struct ibv_rwq_ind_table *table,
                                      const struct ibv_rwq_ind_table_init_attr *attr)
{
    struct ctl_msg m = {.rwq_ind.handle = (uint32_t)table->ind_tbl_handle};
    int err = fill_table(&m.rwq_ind, attr);

    return err ? err : shim_call(table->context, CTL_MODIFY_RWQ_IND, &m);
}

int shim_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
    struct ctl_msg m = {.handle = (uint32_t)table->ind_tbl_handle};
    int err = shim_call(table->context, CTL_DESTROY_RWQ_IND, &m);

    if (is_destroyed(err))
        free(table);
    return failed(err);
}
