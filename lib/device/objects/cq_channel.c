/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels and completion queues. */
#include "objects/cq_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/raised.h"
#include "control/session_state.h"
#include "moderation.h"
#include "objects/freeze_credit.h"
#include "objects/qp_object.h"

/* ---- channels ---- */

/* Sends the unsent events of ch's queues. False: the application must read first. */
static bool channel_send_unsent(struct channel *ch)
{
    struct cq *cq;

    while ((cq = TAILQ_FIRST(&ch->unsent))) {
        if (!dp_cq_send_unsent(&cq->dp))
            return false;
        TAILQ_REMOVE(&ch->unsent, cq, unsent);
        cq->is_unsent = false;
    }
    return true;
}

static void channel_deliver(struct channel *ch)
{
    struct event_loop *loop = ch->o.session->rnic->config.loop;

    if (channel_send_unsent(ch))
        event_loop_remove(loop, &ch->writable);
    else if (event_loop_add(loop, &ch->writable, EPOLLOUT))
        /* No memory to watch the socket: the worker's next event tries again. */
        dp_cq_allow_listing(&TAILQ_FIRST(&ch->unsent)->dp);
}

static void on_writable(struct event_source *s, uint32_t events)
{
    channel_deliver(container_of(s, struct channel, writable));
}

void channels_deliver(struct rnic *r)
{
    struct dp_cq *dq = dp_cq_take_late(&r->group), *next;

    for (; dq; dq = next) {
        struct cq *cq = container_of(dq, struct cq, dp);

        next = dq->next_late;
        if (!cq->is_unsent)
            TAILQ_INSERT_TAIL(&cq->channel->unsent, cq, unsent);
        cq->is_unsent = true;
        if (r->config.loop)
            channel_deliver(cq->channel);
    }
}

int cq_channel_create(struct session *sn, struct ctl_call *call)
{
    struct channel *ch;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -errno;
    ch = object_create(sn, OBJ_CHANNEL, sizeof(*ch));
    if (!ch) {
        close(pair[0]);
        close(pair[1]);
        return -ENOMEM;
    }
    shutdown(pair[0], SHUT_RD); /* as the socket for asynchronous events: ctx.c */
    TAILQ_INIT(&ch->unsent);
    ch->dp.fd = pair[0];
    ch->writable = (struct event_source){.fd = pair[0], .ready = on_writable};
    call->out_fd[call->out_fds++] = pair[1];
    call->reply.handle = ch->o.handle;
    return 0;
}

static void channel_free(struct object *o)
{
    struct channel *ch = container_of(o, struct channel, o);
    struct event_loop *loop = o->session->rnic->config.loop;

    if (loop)
        event_loop_remove(loop, &ch->writable);
    close(ch->dp.fd);
    object_destroy(o);
}

int cq_channel_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_CHANNEL, call->request->handle, &o);

    if (!err)
        channel_free(o);
    return err;
}

bool channel_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_CHANNEL, s, channel_free);
}

/* ---- completion queues ---- */

static int check_cq(struct session *sn, const struct ctl_create_cq *rq, struct channel **channel)
{
    struct object *o;

    *channel = NULL;
    if (!rq->cqe || rq->cqe > QUEUE_MAX_CQE || rq->vector >= sn->rnic->workers ||
        rq->flags & ~(uint32_t)CTL_CQ_IGNORES_OVERRUN)
        return -EINVAL;
    if (!rq->channel)
        return 0;
    o = object_get(sn, OBJ_CHANNEL, rq->channel);
    if (!o)
        return -EINVAL;
    *channel = container_of(o, struct channel, o);
    return 0;
}

static void cq_init(struct session *sn, struct cq *cq, uint32_t size,
                    const struct ctl_create_cq *rq)
{
    comp_queue_init(&cq->dp.cq, cq->segment.base, size, sn->rnic->workers);
    cq->dp.cq.handle = cq->o.handle;
    cq->dp.cq.cookie = rq->cookie;
    cq->dp.cq.ignores_overrun = rq->flags & CTL_CQ_IGNORES_OVERRUN;
    cq->dp.cq.owner = &cq->dp;
    cq->dp.ctx = sn->by_worker;
    cq->dp.events.owner = &cq->o;
    if (cq->channel) {
        cq->dp.channel = &cq->channel->dp;
        cq->channel->o.refs++;
    }
}

int cq_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_cq *rq = &call->request->create_cq;
    struct ctl_create_cq *reply = &call->reply.create_cq;
    uint32_t size, lanes = sn->rnic->workers;
    struct channel *channel;
    struct cq *cq;
    int err = check_cq(sn, rq, &channel);

    if (err)
        return err;
    size = pow2_at_least(rq->cqe);
    cq = aligned_alloc(CACHE_LINE, round_up(sizeof(*cq), CACHE_LINE));
    if (!cq)
        return -ENOMEM;
    *cq = (struct cq){.channel = channel, .vector = rq->vector};
    err = object_segment(sn, call, cq_segment_bytes(size, lanes), &cq->segment, &reply->place);
    if (!err)
        err = object_add(sn, &cq->o, OBJ_CQ);
    if (err) {
        slab_cancel(&sn->slabs, &cq->segment);
        free(cq);
        return err;
    }
    cq_init(sn, cq, size, rq);
    reply->cqe = size;
    reply->handle = cq->o.handle;
    reply->lanes = lanes;
    reply->segment_bytes = cq->segment.bytes;
    return 0;
}

/* ---- resizing ---- */

/* Queue pairs, and calls, of a look for work that has no completion yet. */
#define LOOK_QPS   64
#define LOOK_CALLS 8u

struct move_call {
    struct cq *cq;
    struct cq_shared *fresh;
    uint32_t size;
    int err; /* out */
};

/* A queue becomes smaller for the completions that the application knows of. It may resize right
 * after it has posted work: this is given some time, so that its completions are counted. */
static bool work_is_under_way(const struct cq *cq)
{
    struct object *o;
    unsigned n = 0;

    TAILQ_FOREACH (o, &cq->o.session->objects[OBJ_QP], link) {
        const struct qp_object *q = container_of(o, struct qp_object, o);

        if (n++ == LOOK_QPS)
            break;
        if (q->send_cq == cq && qp_sends_wait(q->dp.qp))
            return true;
    }
    return false;
}

/* Runs while no worker does. It copies nothing: the application does, so that what waits in its
 * queue costs other applications no time. */
static void move_now(struct worker *w, void *arg)
{
    struct move_call *m = arg;
    struct cq *cq = m->cq;

    if (m->size < cq->dp.cq.size && cq->looks < LOOK_CALLS && work_is_under_way(cq))
        m->err = -EAGAIN;
    else
        m->err = comp_queue_move(&cq->dp.cq, m->fresh, m->size);
    cq->looks = m->err == -EAGAIN ? cq->looks + 1 : 0;
}

/* Moves the queue to a new segment, and keeps the old one for the application. */
static int move_cq(struct cq *cq, struct segment *fresh, uint32_t size)
{
    struct move_call m = {.cq = cq, .fresh = fresh->base, .size = size};

    device_call_all(cq->o.session->device, move_now, &m);
    if (m.err)
        return m.err;
    cq->old = cq->segment;
    cq->segment = *fresh;
    return 0;
}

int cq_resize(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_cq *rq = &call->request->create_cq;
    struct ctl_create_cq *reply = &call->reply.create_cq;
    struct object *o = object_get(sn, OBJ_CQ, rq->handle);
    struct cq *cq = o ? container_of(o, struct cq, o) : NULL;
    uint32_t size, lanes = sn->rnic->workers;
    struct segment fresh;
    int err;

    if (!cq)
        return -ENOENT;
    if (!rq->cqe || rq->cqe > QUEUE_MAX_CQE)
        return -EINVAL;
    size = pow2_at_least(rq->cqe);
    if (cq->old.base)
        return -EBUSY;
    if (!freeze_credit_stop(sn->rnic, sn->peer.uid))
        return -EAGAIN;
    err = object_segment(sn, call, cq_segment_bytes(size, lanes), &fresh, &reply->place);
    if (err)
        return err;
    err = move_cq(cq, &fresh, size);
    if (err) {
        slab_cancel(&sn->slabs, &fresh);
        return err;
    }
    reply->cqe = size;
    reply->lanes = lanes;
    reply->segment_bytes = cq->segment.bytes;
    return 0;
}

int cq_resize_done(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_CQ, call->request->destroy.handle);
    struct cq *cq = o ? container_of(o, struct cq, o) : NULL;

    if (!cq)
        return -ENOENT;
    if (!cq->old.base)
        return -EINVAL;
    call->reply.destroy.slab_gone = slab_free(&sn->slabs, &cq->old);
    return 0;
}

/* ---- events ---- */

int cq_modify(struct session *sn, struct ctl_call *call)
{
    const struct ctl_modify_cq *rq = &call->request->modify_cq;
    struct object *o = object_get(sn, OBJ_CQ, rq->handle);

    if (!o)
        return -ENOENT;
    return cq_moderate(&container_of(o, struct cq, o)->dp.cq, rq->count, rq->period_us);
}

struct forget_call {
    struct device *device;
    struct cq *cq;
};

static void forget_timer(struct worker *w, void *arg)
{
    struct forget_call *f = arg;

    for (unsigned i = 0; i < f->device->parts; i++)
        if (f->device->workers[i] == w)
            engine_cq_forget(f->device->port[i]->engine, &f->cq->dp.cq);
}

/* Its timers leave the engines. */
static void end_moderation(struct cq *cq)
{
    struct device *d = cq->o.session->device;
    struct forget_call f = {.device = d, .cq = cq};

    if (!atomic_load(&cq->dp.cq.moderation))
        return;
    for (unsigned i = 0; i < d->parts; i++)
        worker_call(d->workers[i], forget_timer, &f);
    cq_moderation_free(&cq->dp.cq);
}

/*
 * The application found an entry when it armed the CQ. 11.4.2.2 promises an event for the next
 * entry only; NICs raise one here, too, and programs that sleep without another look rely on it.
 */
int cq_raise(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_CQ, call->request->handle);
    struct cq *cq = o ? container_of(o, struct cq, o) : NULL;
    bool listed;

    if (!cq)
        return -ENOENT;
    if (!cq->channel || !comp_queue_disarm(&cq->dp.cq))
        return 0;
    dp_cq_send_or_count(&sn->rnic->group, &cq->dp, &listed);
    if (listed)
        channels_deliver(sn->rnic);
    return 0;
}

/* ---- destruction ---- */

static void forget_events(struct cq *cq)
{
    if (atomic_load(&cq->dp.late) == CQ_LISTED)
        channels_deliver(cq->o.session->rnic);
    if (cq->is_unsent)
        TAILQ_REMOVE(&cq->channel->unsent, cq, unsent);
    cq->channel->o.refs--;
}

/* Returns the slab that was freed with it, or 0. */
static uint64_t cq_destroy_object(struct object *o)
{
    struct cq *cq = container_of(o, struct cq, o);
    uint64_t slab_gone;

    end_moderation(cq);
    raised_forget(o->session->rnic, &cq->dp.events);
    async_forget(o->session, &cq->wait);
    if (cq->old.base)
        slab_free(&o->session->slabs, &cq->old);
    slab_gone = slab_free(&o->session->slabs, &cq->segment);
    if (cq->channel)
        forget_events(cq);
    object_destroy(o);
    return slab_gone;
}

int cq_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_CQ, call->request->destroy.handle, &o);

    /* No queue pair uses it, and none did at the last quiet point, for which their destruction
     * waited. */
    if (!err)
        call->reply.destroy.slab_gone = cq_destroy_object(o);
    return err;
}

static void cq_free(struct object *o)
{
    cq_destroy_object(o);
}

bool cq_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_CQ, s, cq_free);
}
