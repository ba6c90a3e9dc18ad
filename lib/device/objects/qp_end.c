/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs end: at a request, which waits for what must still be sent, or with their program. */
#include "objects/qp_object.h"

#include <errno.h>

#include "control/raised.h"
#include "control/session_state.h"
#include "objects/agree.h"
#include "objects/counter_object.h"
#include "objects/db_slot.h"
#include "objects/mcast.h"
#include "objects/pd_mr.h"
#include "objects/qp_open.h"
#include "objects/steer.h"

/*
 * A request to reset or destroy a queue pair comes again while something keeps the queue pair from
 * its end; but what waits for room in a port is lost after END_TRIES. wait: something does.
 */
static bool may_end(struct qp_object *q, bool wait)
{
    if (wait && ++q->end_tries <= END_TRIES)
        return false;
    q->end_tries = 0;
    return true;
}

bool qp_object_send_answers(struct qp_object *q)
{
    return may_end(q, !worker_send_answers(q->dp.port, q->dp.qp));
}

/* Queue pairs that are detached in one call; few, so that the worker is not delayed. */
#define DETACH_MAX 64

struct detach_call {
    struct worker_port *port;
    struct qp_object *q[DETACH_MAX];
    unsigned n;
};

/* Runs on each worker: each engine knows the groups, and the owner all the rest. */
static void detach_batch(struct worker *w, void *arg)
{
    struct detach_call *d = arg;

    for (unsigned i = 0; i < d->n; i++) {
        worker_send_answers(d->port, d->q[i]->dp.qp); /* those of a program that has ended, too */
        engine_qp_detach(d->port->engine, d->q[i]->dp.qp);
    }
}

/* Returns the slab that was freed with it, or 0. */
static uint64_t qp_object_free(struct session *sn, struct qp_object *q)
{
    uint64_t slab_gone;

    raised_forget(sn->rnic, &q->dp.events);
    async_forget(sn, &q->wait);
    db_slot_free(sn, q->dp.slot);
    mcast_leave_all(q);
    if (qp_type(q->dp.qp) == QPT_UD)
        LIST_REMOVE(q, of_pd);
    qp_totals_add(&sn->device->past_qps, q->dp.qp);
    qp_free(q->dp.qp);
    counters_released(q);
    qp_object_uncharge(sn, q, q->memory);
    qp_object_count_parts(q, -1);
    slab_gone = q->left ? 0 : slab_free(&sn->slabs, &q->segment);
    object_destroy(&q->o);
    return slab_gone;
}

/* Packets and doorbells no longer find the queue pairs; then every worker detaches them, and so
 * passes a quiet point. Returns the slab that was freed with the last one, or 0. */
static uint64_t free_queue_pairs(struct session *sn, struct detach_call *d)
{
    uint64_t slab_gone = 0;

    for (unsigned i = 0; i < d->n; i++) {
        agree_forget(d->q[i]);
        qp_unpublish(d->q[i]->dp.qp);
        dp_slots_set(&sn->slots, d->q[i]->dp.slot, NULL);
        steer_end(sn, d->q[i]);
    }
    for (unsigned i = 0; i < sn->device->parts; i++) {
        d->port = sn->device->port[i];
        worker_call(sn->device->workers[i], detach_batch, d);
    }
    for (unsigned i = 0; i < d->n; i++)
        slab_gone = qp_object_free(sn, d->q[i]);
    return slab_gone;
}

struct stop_call {
    struct qp_object *q;
    bool stopped;
};

/* Programs that send datagrams destroy their queue pairs after they have posted: NICs have sent by
 * then what was posted. */
static void stop_qp(struct worker *w, void *arg)
{
    struct stop_call *s = arg;
    struct qp *qp = s->q->dp.qp;
    bool waits = !worker_send_answers(s->q->dp.port, qp) || qp_datagrams_wait(qp);

    s->stopped = may_end(s->q, waits) && engine_qp_stop(qp_object_engine(s->q), qp);
}

int qp_object_destroy(struct session *sn, struct ctl_call *call)
{
    uint32_t number = call->request->destroy.handle;
    struct detach_call d = {.n = 1};
    struct stop_call s;

    d.q[0] = s.q = qp_object_reach(sn, number);
    if (!d.q[0])
        return -ENOENT;
    if (!qp_handle_is_last(sn, number)) {
        call->reply.destroy.slab_gone = qp_handle_close(sn, number);
        return 0;
    }
    if (d.q[0]->group_count || d.q[0]->o.refs) /* groups; flow rules */
        return -EBUSY;
    qp_object_call(s.q, stop_qp, &s);
    if (!s.stopped) /* packets wait for room, or copies still move the application's buffers */
        return -EAGAIN;
    if (number & CTL_QP_OPENED)
        qp_handle_close(sn, number);
    call->reply.destroy.slab_gone = free_queue_pairs(sn, &d);
    return 0;
}

bool qp_free_some(struct session *sn, const struct slice *s)
{
    while (!TAILQ_EMPTY(&sn->objects[OBJ_QP])) {
        struct object *o = TAILQ_FIRST(&sn->objects[OBJ_QP]), *next;
        struct detach_call d = {0};

        for (unsigned i = 0; o && i < DETACH_MAX; i++, o = next) {
            struct qp_object *q = container_of(o, struct qp_object, o);

            next = TAILQ_NEXT(o, link);
            if (LIST_EMPTY(&q->handles))
                d.q[d.n++] = q;
            else
                qp_handle_close(sn, o->handle);
        }
        free_queue_pairs(sn, &d);
        if (slice_over(s))
            break;
    }
    return !TAILQ_EMPTY(&sn->objects[OBJ_QP]);
}
