/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_OPEN: a connection becomes a context of a device; and the way of asynchronous events. */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_space(struct session *sn)
{
    int err = 0;

    sn->space = sn->rnic->config.mem->space_open(&sn->peer, &sn->copy, &err);
    return sn->space ? 0 : err;
}

/* The three descriptors of the reply: context segment, wake segment, the application's end of the
 * events. */
static int open_shared(struct session *sn, struct ctl_call *call)
{
    int pair[2], err;

    err = segment_create(&sn->segment, "uroce-context", ctx_segment_bytes(sn->rnic->workers),
                         &call->out_fd[0]);
    if (err)
        return err;
    call->out_fds = 1;
    call->out_fd[1] = fcntl(sn->rnic->wake_fd, F_DUPFD_CLOEXEC, 0);
    if (call->out_fd[1] < 0)
        return -errno;
    call->out_fds = 2;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -errno;
    sn->async_fd = pair[0];
    call->out_fd[2] = pair[1];
    call->out_fds = 3;
    return 0;
}

static int attach(struct session *sn)
{
    struct ctx_shared *shared = sn->segment.base;
    struct device *d = sn->device;
    int err = 0;

    for (unsigned i = 0; i < d->parts && !err; i++) {
        unsigned w = worker_index(d->workers[i]);

        sn->ctx[i] = (struct worker_ctx){
            .shared = shared, .doorbells = &shared->worker[w], .owner = sn, .slots = &sn->slots};
        err = worker_ctx_attach(d->workers[i], &sn->ctx[i]);
        if (!err)
            sn->by_worker[w] = &sn->ctx[i];
    }
    return err;
}

static void detach(struct session *sn)
{
    struct device *d = sn->device;

    for (unsigned i = 0; i < d->parts; i++) {
        unsigned w = worker_index(d->workers[i]);

        if (sn->by_worker[w])
            worker_ctx_detach(d->workers[i], &sn->ctx[i]);
        sn->by_worker[w] = NULL;
    }
    /* What the workers said of this context before: it must not be found later. */
    async_deliver(sn->rnic);
}

int ctx_open(struct session *sn, struct ctl_call *call)
{
    uint32_t index = call->request->open.device;
    int err;

    if (sn->device)
        return -EBUSY;
    if (index >= sn->rnic->devices)
        return -ENODEV;
    /* The pid may be another process's by now. */
    if (sn->gone)
        return -ESRCH;
    err = open_space(sn);
    if (!err)
        err = open_shared(sn, call);
    if (!err) {
        mrs_tell_heat(sn);
        sn->device = sn->rnic->device[index];
        err = attach(sn);
    }
    if (err) {
        ctx_close(sn);
        sn->device = NULL;
        return err;
    }
    call->reply.open.workers = sn->rnic->workers;
    call->reply.open.pid = (uint32_t)getpid();
    return 0;
}

static void close_space(struct session *sn)
{
    if (!sn->space)
        return;
    sn->rnic->config.mem->space_gone(sn->space);
    sn->rnic->config.mem->space_close(sn->space);
    sn->space = NULL;
}

void ctx_close(struct session *sn)
{
    if (sn->device)
        detach(sn);
    dp_slots_fini(&sn->slots);
    free(sn->free_slot);
    sn->free_slot = NULL;
    sn->free_slots = sn->slots_made = 0;
    slab_pool_fini(&sn->slabs);
    segment_destroy(&sn->segment);
    if (sn->async_fd >= 0)
        close(sn->async_fd);
    sn->async_fd = -1;
    close_space(sn);
}

/* The socket's buffer is the bound: who does not read loses events, which are counted. */
static void async_send(struct rnic *r, const struct dp_async *e)
{
    struct ctl_async_event record = {.element = e->element, .type = e->type};
    struct session *sn = e->ctx->owner;
    ssize_t n;

    do
        n = send(sn->async_fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        r->async_dropped++;
}

void ctx_async_event(struct session *sn, uint64_t element, uint32_t type)
{
    struct dp_async e = {.ctx = &sn->ctx[0], .element = element, .type = type};

    async_send(sn->rnic, &e);
}

void async_deliver(struct rnic *r)
{
    struct dp_async e;

    for (unsigned i = 0; i < r->workers; i++) {
        while (worker_take_async(r->worker[i], &e)) {
            if (e.type == DP_ASYNC_MISPLACED)
                steer_stray(e.ctx->owner, (uint32_t)e.element, e.worker);
            else
                async_send(r, &e);
        }
    }
}
