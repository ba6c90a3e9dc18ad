/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events. The end of the daemon is one IBV_EVENT_DEVICE_FATAL. */
#include <unistd.h>

#include "shim.h"

/* Counts an event for the object, which the lock keeps alive; NULL: the object is gone. */
static struct ibv_cq *deliver_cq(struct client *c, uint64_t cookie)
{
    struct client_cq *queue;
    struct shim_cq *cq = NULL;

    pthread_mutex_lock(&c->cqs.lock);
    queue = slot_table_get(&c->cqs, slot_id_from_cookie(cookie));
    if (queue) {
        cq = container_of(queue, struct shim_cq, queue);
        cq->async_delivered++;
    }
    pthread_mutex_unlock(&c->cqs.lock);
    return cq ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

static struct ibv_qp *deliver_qp(struct client *c, uint64_t uidx)
{
    struct client_qp *queue;
    struct shim_qp *qp = NULL;

    pthread_mutex_lock(&c->qps.lock);
    queue = uidx < UIDX_DEAD ? slot_table_get(&c->qps, (uint32_t)uidx) : NULL;
    if (queue && !queue->is_wq) {
        qp = container_of(queue, struct shim_qp, queue);
        qp->async_delivered++;
    }
    pthread_mutex_unlock(&c->qps.lock);
    return qp ? &qp->ex.qp_base : NULL;
}

/* The work queue has gone to its error state by itself, and takes no more WQEs, unless it was reset
 * after the event. */
static struct ibv_wq *deliver_wq(struct client *c, uint64_t element)
{
    uint32_t uidx = (uint32_t)element, resets = (uint32_t)(element >> 32);
    struct client_qp *half;
    struct shim_wq *wq = NULL;

    pthread_mutex_lock(&c->qps.lock);
    half = uidx != UIDX_DEAD ? slot_table_get(&c->qps, uidx) : NULL;
    if (half && half->is_wq) {
        wq = container_of(half, struct shim_wq, queue.half);
        if (atomic_load_explicit(&wq->queue.resets, memory_order_relaxed) == resets)
            wq->base.state = IBV_WQS_ERR;
        wq->async_delivered++;
    }
    pthread_mutex_unlock(&c->qps.lock);
    return wq ? &wq->base : NULL;
}

static struct ibv_srq *deliver_srq(struct client *c, uint64_t uidx)
{
    struct client_srq *queue;
    struct shim_srq *srq = NULL;

    pthread_mutex_lock(&c->srqs.lock);
    queue = uidx < UIDX_DEAD ? slot_table_get(&c->srqs, (uint32_t)uidx) : NULL;
    if (queue) {
        srq = container_of(queue, struct shim_srq, queue);
        srq->async_delivered++;
    }
    pthread_mutex_unlock(&c->srqs.lock);
    return srq ? &srq->base : NULL;
}

/* Translates a record. False: its object is gone. */
static bool translate_event(struct client *c, const struct ctl_async_event *record,
                            struct ibv_async_event *event)
{
    event->event_type = record->type;
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        event->element.cq = deliver_cq(c, record->element);
        return event->element.cq != NULL;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        event->element.qp = deliver_qp(c, record->element);
        return event->element.qp != NULL;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        event->element.srq = deliver_srq(c, record->element);
        return event->element.srq != NULL;
    case IBV_EVENT_WQ_FATAL:
        event->element.wq = deliver_wq(c, record->element);
        return event->element.wq != NULL;
    default:
        event->element.port_num = (int)record->element;
        return true;
    }
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct shim_context *ctx = to_context(context);
    struct ctl_async_event record;
    ssize_t n;

    if (!client_may_use(&ctx->client)) { /* else a child would take its parent's event */
        errno = EIO;
        return -1;
    }
    do {
        n = read(context->async_fd, &record, sizeof(record));
        if (n == sizeof(record))
            continue;
        if (n < 0)
            return -1;
        client_daemon_gone(&ctx->client);
        if (atomic_exchange(&ctx->fatal_reported, true)) {
            errno = EIO;
            return -1;
        }
        record = (struct ctl_async_event){.type = IBV_EVENT_DEVICE_FATAL};
    } while (!translate_event(&ctx->client, &record, event));
    return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;
    struct ibv_wq *wq = event->element.wq;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        shim_ack_events(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
        break;
    case IBV_EVENT_WQ_FATAL:
        shim_ack_events(&wq->mutex, &wq->cond, &wq->events_completed, 1);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        shim_ack_events(&srq->mutex, &srq->cond, &srq->events_completed, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        shim_ack_events(&qp->mutex, &qp->cond, &qp->events_completed, 1);
        break;
    default:
        break;
    }
}
