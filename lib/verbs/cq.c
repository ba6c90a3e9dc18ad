/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: creation, destruction, ibv_poll_cq and arming. */
#include "private.h"
#include "shim.h"
#include "watch.h"

static void change_channel_refs(struct ibv_comp_channel *channel, int by)
{
    if (!channel)
        return;
    pthread_mutex_lock(&channel->context->mutex);
    channel->refcnt += by;
    pthread_mutex_unlock(&channel->context->mutex);
}

static void private_verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context,
                                  struct ibv_comp_channel *channel, void *cq_context)
{
    cq->context = context;
    cq->channel = channel;
    cq->cq_context = cq_context;
    cq->comp_events_completed = 0;
    cq->async_events_completed = 0;
    pthread_mutex_init(&cq->mutex, NULL);
    pthread_cond_init(&cq->cond, NULL);
}
PRIVATE(verbs_init_cq);

static struct shim_cq *create_cq(struct ibv_context *context, uint32_t cqe, void *cq_context,
                                 struct ibv_comp_channel *channel, uint32_t vector, uint32_t flags)
{
    struct shim_cq *cq = calloc(1, sizeof(*cq));
    struct ibv_cq *base;
    int err;

    if (!cq)
        return NULL;
    base = ibv_cq_ex_to_cq(&cq->ex);
    private_verbs_init_cq(base, context, channel, cq_context);
    err = client_cq_create(&to_context(context)->client, &cq->queue, cqe,
                           channel ? to_channel(channel)->handle : 0, vector, flags);
    if (err) {
        free(cq);
        return refuse(err);
    }
    base->handle = cq->queue.handle;
    base->cqe = (int)cq->queue.reader.size;
    change_channel_refs(channel, 1);
    return cq;
}

static bool is_out_of_range(struct ibv_context *context, int64_t cqe, int64_t vector)
{
    return cqe < 1 || cqe > to_context(context)->info.max_cqe || vector < 0 ||
           vector >= context->num_comp_vectors;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int comp_vector)
{
    struct shim_cq *cq;

    if (is_out_of_range(context, cqe, comp_vector))
        return refuse(-EINVAL);
    cq = create_cq(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector, 0);
    return cq ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    const uint64_t readable = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
                              IBV_WC_EX_WITH_FLOW_TAG;
    const uint32_t known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
    struct shim_cq *cq;

    if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
        flags & ~known || attr->wc_flags & ~readable)
        return refuse(-EOPNOTSUPP);
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
        (!attr->parent_domain || !to_pd(attr->parent_domain)->of))
        return refuse(-EINVAL);
    if (is_out_of_range(context, attr->cqe, attr->comp_vector))
        return refuse(-EINVAL);
    cq = create_cq(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector,
                   flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN ? CTL_CQ_IGNORES_OVERRUN : 0);
    if (!cq)
        return NULL;
    cq->queue.single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    cq_ex_init(cq, attr->wc_flags);
    return &cq->ex;
}

EXPORT int ibv_resize_cq(struct ibv_cq *base, int cqe)
{
    if (is_out_of_range(base->context, cqe, 0))
        return failed(EINVAL);
    return failed(-client_cq_resize(&to_cq(base)->queue, (uint32_t)cqe, &base->cqe));
}

int shim_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    if (!attr->attr_mask)
        return failed(EINVAL);
    if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
        return failed(EOPNOTSUPP);
    return failed(
        -client_cq_moderate(&to_cq(cq)->queue, attr->moderate.cq_count, attr->moderate.cq_period));
}

EXPORT int ibv_destroy_cq(struct ibv_cq *base)
{
    struct shim_cq *cq = to_cq(base);
    int err = client_cq_destroy(&cq->queue);

    if (!is_destroyed(err))
        return failed(-err);
    shim_wait_acks(&base->mutex, &base->cond, &base->comp_events_completed, cq->comp_delivered);
    shim_wait_acks(&base->mutex, &base->cond, &base->async_events_completed, cq->async_delivered);
    change_channel_refs(base->channel, -1);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    free(cq);
    return failed(-err);
}

int shim_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    int err = WATCHED(process_completion) ? watch_judge(cq->context, CTL_JUDGE_REQ_NOTIFY_CQ) : 0;

    if (unlikely(err))
        return err;
    client_inherit(to_cq(cq)->queue.client);
    client_cq_arm(&to_cq(cq)->queue, solicited_only ? CQ_ARM_SOLICITED : CQ_ARM_NEXT);
    return 0;
}

static inline void fill_wc(struct ibv_wc *wc, const struct cqe *e)
{
    wc->wr_id = e->wr_id;
    wc->status = e->status;
    wc->opcode = e->opcode;
    wc->vendor_err = e->vendor_err;
    wc->byte_len = e->byte_len;
    wc->imm_data = e->imm; /* or the invalidated R_Key, in the same place */
    wc->qp_num = e->qpn;
    wc->src_qp = e->src_qpn;
    wc->wc_flags = e->wc_flags;
    wc->pkey_index = (uint16_t)e->pkey_index;
    wc->slid = 0;
    wc->sl = e->sl;
    wc->dlid_path_bits = 0;
}

/* After a poll that found nothing. -1: the daemon is gone, and all work requests are flushed. Not
 * inlined, so that a poll which finds a completion saves no registers for it. */
static __attribute__((noinline)) int poll_empty(struct client_cq *cq)
{
    int err;

    if (likely(!client_poll_empty(cq)))
        return 0;
    err = client_cq_flush(cq); /* the next poll finds the completions */
    if (err >= 0)
        return 0;
    errno = -err;
    return -1;
}

static inline int poll_next(struct ibv_cq *base, int n, struct ibv_wc *wc, bool watched)
{
    struct client_cq *cq = &to_cq(base)->queue;
    const struct cqe *e;
    int got = 0;

    client_cq_lock(cq);
    while (got < n && (e = client_cq_next(cq))) {
        if (watched)
            watch_completion(base->context, e);
        fill_wc(&wc[got++], e);
        client_cq_advance(cq);
    }
    client_cq_unlock(cq);
    if (unlikely(!got))
        return poll_empty(cq);
    client_poll_found();
    return got;
}

/* Apart, so that a poll that is not watched keeps nothing for it. */
static __attribute__((cold, noinline)) int poll_watched(struct ibv_cq *base, int n,
                                                        struct ibv_wc *wc)
{
    int err = watch_judge(base->context, CTL_JUDGE_POLL_CQ);

    return err ? -err : poll_next(base, n, wc, true);
}

int shim_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc)
{
    return WATCHED(process_completion) ? poll_watched(base, n, wc) : poll_next(base, n, wc, false);
}
