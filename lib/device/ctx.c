/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_OPEN: a connection becomes a context of a device; and the way of asynchronous events. */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_space(struct client *c)
{
    int err = 0;

    c->space = c->rnic->config.mem->space_open(&c->peer, &c->copy, &err);
    return c->space ? 0 : err;
}

/* The three descriptors of the reply: context segment, wake segment, the application's end of the
 * events. */
static int open_shared(struct client *c, struct ctl_call *call)
{
    int pair[2], err;

    err = segment_create(&c->segment, "uroce-context", ctx_segment_bytes(c->rnic->workers),
                         &call->out_fd[0]);
    if (err)
        return err;
    call->out_fds = 1;
    call->out_fd[1] = fcntl(c->rnic->wake_fd, F_DUPFD_CLOEXEC, 0);
    if (call->out_fd[1] < 0)
        return -errno;
    call->out_fds = 2;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -errno;
    c->async_fd = pair[0];
    call->out_fd[2] = pair[1];
    call->out_fds = 3;
    return 0;
}

static int attach(struct client *c)
{
    struct ctx_shared *shared = c->segment.base;
    struct device *d = c->device;
    int err = 0;

    for (unsigned i = 0; i < d->parts && !err; i++) {
        unsigned w = worker_index(d->workers[i]);

        c->ctx[i] = (struct worker_ctx){
            .shared = shared, .doorbells = &shared->worker[w], .owner = c, .slots = &c->slots};
        err = worker_ctx_attach(d->workers[i], &c->ctx[i]);
        if (!err)
            c->by_worker[w] = &c->ctx[i];
    }
    return err;
}

static void detach(struct client *c)
{
    struct device *d = c->device;

    for (unsigned i = 0; i < d->parts; i++) {
        unsigned w = worker_index(d->workers[i]);

        if (c->by_worker[w])
            worker_ctx_detach(d->workers[i], &c->ctx[i]);
        c->by_worker[w] = NULL;
    }
    /* What the workers said of this context before: it must not be found later. */
    async_deliver(c->rnic);
}

int ctx_open(struct client *c, struct ctl_call *call)
{
    uint32_t index = call->request->open.device;
    int err;

    if (c->device)
        return -EBUSY;
    if (index >= c->rnic->devices)
        return -ENODEV;
    /* The pid may be another process's by now. */
    if (c->gone)
        return -ESRCH;
    err = open_space(c);
    if (!err)
        err = open_shared(c, call);
    if (!err) {
        mrs_tell_heat(c);
        c->device = c->rnic->device[index];
        err = attach(c);
    }
    if (err) {
        ctx_close(c);
        c->device = NULL;
        return err;
    }
    call->reply.open.workers = c->rnic->workers;
    call->reply.open.pid = (uint32_t)getpid();
    return 0;
}

static void close_space(struct client *c)
{
    if (!c->space)
        return;
    c->rnic->config.mem->space_gone(c->space);
    c->rnic->config.mem->space_close(c->space);
    c->space = NULL;
}

void ctx_close(struct client *c)
{
    if (c->device)
        detach(c);
    dp_slots_fini(&c->slots);
    free(c->free_slot);
    c->free_slot = NULL;
    c->free_slots = c->slots_made = 0;
    slab_pool_fini(&c->slabs);
    segment_destroy(&c->segment);
    if (c->async_fd >= 0)
        close(c->async_fd);
    c->async_fd = -1;
    close_space(c);
}

/* The socket's buffer is the bound: who does not read loses events, which are counted. */
static void async_send(struct rnic *r, const struct dp_async *e)
{
    struct ctl_async_event record = {.element = e->element, .type = e->type};
    struct client *c = e->ctx->owner;
    ssize_t n;

    do
        n = send(c->async_fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        r->async_dropped++;
}

void ctx_async_event(struct client *c, uint64_t element, uint32_t type)
{
    struct dp_async e = {.ctx = &c->ctx[0], .element = element, .type = type};

    async_send(c->rnic, &e);
}

void async_deliver(struct rnic *r)
{
    struct dp_async e;

    for (unsigned i = 0; i < r->workers; i++) {
        while (worker_take_async(r->worker[i], &e)) {
            if (e.type == DP_ASYNC_STRAY)
                steer_stray(e.ctx->owner, (uint32_t)e.element, e.worker);
            else
                async_send(r, &e);
        }
    }
}
