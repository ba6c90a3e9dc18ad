/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications: completion events, blocked pollers, asynchronous events; and the engine's
 * callbacks that cause them. */
#include "raw.h"
#include "worker_internal.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

void worker_notify_control(struct worker *w)
{
    uint64_t one = 1;

    /* A full eventfd is readable too. */
    while (w->group->notify_fd >= 0 && write(w->group->notify_fd, &one, sizeof(one)) < 0 &&
           errno == EINTR)
        ;
}

/* False: the application has to read older events first. If it has closed its end, the event is
 * dropped. */
static bool send_event(struct dp_cq *dq)
{
    ssize_t n;

    do
        n = send(dq->channel->fd, &dq->cq.cookie, sizeof(dq->cq.cookie),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS);
}

/* True if it was `from`. A thread that cannot send an event makes an in-time CQ listed; only
 * the control thread makes it taken, and in time again. So it is on the list once, and not at all
 * while the control thread has it. */
static bool change_late(struct dp_cq *dq, uint32_t from, enum dp_cq_late to)
{
    return atomic_compare_exchange_strong(&dq->late, &from, to);
}

/* Never waits: an event that cannot be sent at once is counted, and the control thread sends it. */
bool dp_cq_send_or_count(struct worker_group *g, struct dp_cq *dq, bool *listed)
{
    *listed = false;
    if (!atomic_load(&dq->unsent) && send_event(dq))
        return true;
    atomic_fetch_add(&dq->unsent, 1);
    if (!change_late(dq, CQ_IN_TIME, CQ_LISTED))
        return false;
    dq->next_late = atomic_load(&g->late);
    while (!atomic_compare_exchange_weak(&g->late, &dq->next_late, dq)) {
    }
    *listed = true;
    return false;
}

static void send_or_count_event(struct worker *w, struct dp_cq *dq)
{
    bool listed;

    counter_inc(&w->stats.cq_events);
    worker_charge(dq->ctx[w->index], COST_SYSCALL);
    if (dp_cq_send_or_count(w->group, dq, &listed))
        return;
    counter_inc(&w->stats.cq_events_late);
    if (listed)
        worker_notify_control(w);
}

struct dp_cq *dp_cq_take_late(struct worker_group *g)
{
    struct dp_cq *first = atomic_exchange(&g->late, NULL);

    for (struct dp_cq *dq = first; dq; dq = dq->next_late)
        atomic_store(&dq->late, CQ_TAKEN);
    return first;
}

/* A worker counts its event before it looks whether the CQ is taken, and this thread looks for
 * events after the CQ is no longer taken: one of them sees the other's. */
bool dp_cq_send_unsent(struct dp_cq *dq)
{
    do {
        while (atomic_load(&dq->unsent)) {
            if (!send_event(dq))
                return false;
            atomic_fetch_sub(&dq->unsent, 1);
        }
    } while (change_late(dq, CQ_TAKEN, CQ_IN_TIME) && atomic_load(&dq->unsent) &&
             change_late(dq, CQ_IN_TIME, CQ_TAKEN));
    return true;
}

void dp_cq_allow_listing(struct dp_cq *dq)
{
    change_late(dq, CQ_TAKEN, CQ_IN_TIME);
}

static void flush_events(struct worker *w)
{
    for (unsigned i = 0; i < w->event_cqs; i++)
        send_or_count_event(w, w->event_cq[i]);
    w->event_cqs = 0;
}

/* For pollers that wait for memory, and are not armed yet. */
static void count_writes(struct worker *w)
{
    for (struct worker_ctx *ctx = w->wake_list; ctx; ctx = ctx->wake_next) {
        if (ctx->written)
            atomic_fetch_add_explicit(&ctx->shared->worker[w->index].writes, 1,
                                      memory_order_relaxed);
        ctx->written = false;
    }
}

/* The completions are stored already. The fence and the exchange pair with the poller's arming. */
static void wake_pollers(struct worker *w)
{
    count_writes(w);
    atomic_thread_fence(memory_order_seq_cst);
    while (w->wake_list) {
        struct worker_ctx *ctx = w->wake_list;

        w->wake_list = ctx->wake_next;
        ctx->wake_listed = false;
        if (atomic_load_explicit(&ctx->shared->app_armed, memory_order_relaxed) &&
            atomic_exchange(&ctx->shared->app_armed, 0)) {
            worker_charge(ctx, COST_SYSCALL);
            futex_wake(&ctx->shared->app_armed, INT_MAX);
        }
    }
}

void worker_flush_notifications(struct worker *w)
{
    if (w->forwarded_to)
        worker_wake_forwarded(w);
    if (w->wake_list)
        wake_pollers(w);
    if (w->event_cqs)
        flush_events(w);
}

static void on_cq_event(void *arg, struct comp_queue *cq)
{
    struct worker *w = ((struct worker_port *)arg)->worker;
    struct dp_cq *dq = cq->owner;

    if (!dq->channel)
        return;
    if (w->event_cqs == EVENT_CQS_MAX)
        flush_events(w);
    w->event_cq[w->event_cqs++] = dq;
}

static void list_to_wake(struct worker *w, struct worker_ctx *ctx)
{
    if (ctx->wake_listed)
        return;
    ctx->wake_listed = true;
    ctx->wake_next = w->wake_list;
    w->wake_list = ctx;
}

static void on_cq_posted(void *arg, struct comp_queue *cq)
{
    struct worker *w = ((struct worker_port *)arg)->worker;

    list_to_wake(w, ((struct dp_cq *)cq->owner)->ctx[w->index]);
}

static void on_mem_written(void *arg, struct qp *qp)
{
    struct worker *w = ((struct worker_port *)arg)->worker;
    struct worker_ctx *ctx = ((struct dp_qp *)qp_owner(qp))->by_worker[w->index];

    ctx->written = true;
    list_to_wake(w, ctx);
}

static void raise_event(struct worker_port *p, struct dp_events *e, unsigned event)
{
    if (dp_events_raise(p->worker->group, e, event))
        worker_notify_control(p->worker);
}

static void on_misplaced(void *arg, struct qp *qp, uint32_t lane)
{
    struct dp_qp *dq = qp_owner(qp);

    atomic_store(&dq->events.detail, lane);
    raise_event(arg, &dq->events, DP_MISPLACED);
}

static void on_async_event(void *arg, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    raise_event(arg,
                event == QP_EVENT_CQ_ERR ? &((struct dp_cq *)cq->owner)->events
                                         : &((struct dp_qp *)qp_owner(qp))->events,
                event);
}

static void on_srq_event(void *arg, struct srq *srq, enum qp_event event)
{
    raise_event(arg, &((struct dp_srq *)srq_owner(srq))->events, event);
}

static void on_wq_event(void *arg, struct wq *wq, enum qp_event event)
{
    struct dp_wq *dw = wq_owner(wq);

    atomic_store(&dw->events.detail, dw->resets);
    raise_event(arg, &dw->events, event);
}

static void on_wq_charge(void *arg, struct wq *wq, uint64_t cost)
{
    worker_charge(((const struct dp_wq *)wq_owner(wq))->ctx, cost);
}

void worker_fail_qp(struct worker_port *p, struct dp_qp *dq, ns_t now)
{
    struct qp_attr attr;

    engine_qp_query(dq->qp, &attr);
    if (attr.state == QPS_RESET || attr.state == QPS_ERR)
        return;
    engine_qp_error(p->engine, dq->qp, CAUSE_program_memory, now);
    raise_event(p, &dq->events, QP_EVENT_QP_FATAL);
}

/* False: the other worker has no room. */
static bool give_host(struct worker_port *p, const struct frame *f)
{
    struct forward_target target = {.to = p->first, .for_host = true};

    if (p->first != p)
        return worker_forward(p->worker, f, &target);
    slow_path_up(p->slow, f);
    return true;
}

static bool on_punt(void *arg, const struct frame *f)
{
    struct worker_port *p = arg;

    return p->first->slow && slow_path_wants(p->first->slow, f) && give_host(p, f);
}

static bool on_gsi(void *arg, const struct frame *f)
{
    struct worker_port *p = arg;

    return p->first->slow && give_host(p, f);
}

static bool on_forward(void *arg, const struct frame *f, struct engine *to)
{
    struct forward_target target = {.to = engine_host_of(to)->ctx};

    return worker_forward(((struct worker_port *)arg)->worker, f, &target);
}

static bool on_forward_copy(void *arg, const struct frame *f, struct engine *to)
{
    struct forward_target target = {.to = engine_host_of(to)->ctx, .for_sniffers = true};

    return worker_forward(((struct worker_port *)arg)->worker, f, &target);
}

struct engine_host worker_host(struct worker_port *port)
{
    struct engine_host host = {.ctx = port,
                               .cq_event = on_cq_event,
                               .cq_posted = on_cq_posted,
                               .mem_written = on_mem_written,
                               .async_event = on_async_event,
                               .srq_event = on_srq_event,
                               .wq_event = on_wq_event,
                               .wq_charge = on_wq_charge,
                               .punt = on_punt,
                               .gsi = on_gsi,
                               .forward = on_forward,
                               .forward_copy = on_forward_copy,
                               .misplaced = on_misplaced,
                               .fault_time = worker_fault_time,
                               .mem_caller = &port->worker->caller};

    return host;
}
