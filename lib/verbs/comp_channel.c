/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels: the descriptor is a socket on which the daemon sends an 8-byte cookie for
 * each event. Events of a queue that has been destroyed stay in the socket. No queue has their
 * cookie's generation, so they are skipped.
 */
#include <unistd.h>

#include "shim.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct shim_channel *channel = calloc(1, sizeof(*channel));
    struct ctl_msg m = {0};
    int fd, err;

    if (!channel)
        return NULL;
    err = conn_call(&to_context(context)->client.conn, CTL_CREATE_CHANNEL, &m, NULL, 0, &fd, 1);
    if (err) {
        free(channel);
        return refuse(err);
    }
    channel->base.context = context;
    channel->base.fd = fd;
    channel->handle = m.handle;
    return &channel->base;
}

/* Without cancellation, as close() is a cancellation point: the daemon's end is gone by then. */
static void free_channel(struct ibv_comp_channel *channel)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    close(channel->fd);
    free(channel);
    pthread_setcancelstate(cancel, NULL);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct ibv_context *context = channel->context;
    struct ctl_msg m = {.handle = to_channel(channel)->handle};
    bool busy;
    int err;

    pthread_mutex_lock(&context->mutex);
    busy = channel->refcnt > 0;
    pthread_mutex_unlock(&context->mutex);
    if (busy)
        return failed(EBUSY);
    err = shim_call(context, CTL_DESTROY_CHANNEL, &m);
    if (!is_destroyed(err))
        return failed(err);
    free_channel(channel);
    return failed(err);
}

/* Counts an event for the queue that the cookie names; NULL: the queue is gone. */
static struct ibv_cq *deliver_event(struct shim_context *ctx, uint64_t cookie)
{
    struct slot_table *table = &ctx->client.cqs;
    struct client_cq *queue;
    struct shim_cq *cq = NULL;

    pthread_mutex_lock(&table->lock);
    queue = slot_table_get(table, slot_id_from_cookie(cookie));
    if (queue) {
        cq = container_of(queue, struct shim_cq, queue);
        cq->comp_delivered++;
        client_cq_tell(queue);
    }
    pthread_mutex_unlock(&table->lock);
    return cq ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

/*
 * read() is the cancellation point: no lock is held there. What a child could read is an event of
 * its parent's, which would never get it. Another thread may destroy the channel: that ends the
 * wait, and the structure is gone by then.
 */
EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct shim_context *ctx = to_context(channel->context);
    struct ibv_cq *found = NULL;
    int fd = channel->fd;
    uint64_t cookie;

    if (!client_may_use(&ctx->client)) {
        errno = EIO;
        return -1;
    }
    while (!found) {
        ssize_t n = read(fd, &cookie, sizeof(cookie));

        if (n != sizeof(cookie)) {
            if (n >= 0) {
                client_daemon_gone(&ctx->client);
                errno = EIO;
            }
            return -1;
        }
        found = deliver_event(ctx, cookie);
    }
    *cq = found;
    *cq_context = found->cq_context;
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    shim_ack_events(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}

void shim_ack_events(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t n)
{
    pthread_mutex_lock(mutex);
    *completed += n;
    pthread_cond_signal(cond);
    pthread_mutex_unlock(mutex);
}

void shim_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                    uint32_t delivered)
{
    pthread_mutex_lock(mutex);
    while (*completed != delivered)
        pthread_cond_wait(cond, mutex);
    pthread_mutex_unlock(mutex);
}
