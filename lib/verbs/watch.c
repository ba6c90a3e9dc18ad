/* SPDX-License-Identifier: BSD-3-Clause */
/* See watch.h. */
#include "watch.h"

#include <time.h>

#include "probe.h"

#define COLD __attribute__((cold, noinline))
/* Tracers find their semaphores there. */
#define WORD __attribute__((section(".probes"), used))

/* A marked work request takes the general path in the daemon, which costs more than the batches of
 * the others: one of this many. */
#define TIMED_EVERY 16

uint32_t watch_post_send WORD;
uint32_t watch_post_recv WORD;
uint32_t watch_process_completion WORD;

#ifdef HAVE_SDT
extern unsigned short PROBE_SEMAPHORE(post_send) __attribute__((alias("watch_post_send")));
extern unsigned short PROBE_SEMAPHORE(post_recv) __attribute__((alias("watch_post_recv")));
extern unsigned short PROBE_SEMAPHORE(process_completion)
    __attribute__((alias("watch_process_completion")));
#endif

/* ---- contexts that the daemon watches ---- */

static void count(uint32_t *word, int by)
{
    __atomic_add_fetch((uint16_t *)word + 1, by, __ATOMIC_RELAXED);
}

static void set_watched(struct client *c, uint32_t watch)
{
    uint32_t before = atomic_exchange(&c->watched, watch);
    int by = (watch != 0) - (before != 0);

    count(&watch_post_send, by);
    count(&watch_post_recv, by);
    count(&watch_process_completion, by);
}

void watch_changed(struct client *c)
{
    set_watched(c, atomic_load_explicit(&c->shared->watch, memory_order_relaxed));
}

void watch_end(struct client *c)
{
    set_watched(c, 0);
}

/* ---- work requests that are timed ---- */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* The first of these that has a completion of its own, unless the last one was just before; or
 * `to`. */
static uint32_t choose(const struct shim_qp *qp, uint32_t from, uint32_t to)
{
    for (; from != to; from++) {
        const struct sqe *s = ring_slot(&qp->queue.sq, from);

        if ((int32_t)(from - qp->queue.timed.next) >= 0 &&
            (qp->sq_sig_all || s->flags & SQE_SIGNALED))
            break;
    }
    return from;
}

static void time_one(struct shim_qp *qp, uint32_t from, uint32_t to)
{
    struct client_timed *t = &qp->queue.timed;
    struct qp_shared *shared = container_of(qp->queue.sq.shared_prod, struct qp_shared, sq_prod);
    uint32_t index;

    if (atomic_load_explicit(&t->out, memory_order_acquire))
        return;
    index = choose(qp, from, to);
    if (index == to)
        return;
    t->index = index;
    t->next = index + TIMED_EVERY;
    t->posted = now_ns();
    atomic_store_explicit(&shared->sample.posted, t->posted, memory_order_relaxed);
    atomic_store_explicit(&shared->sample.polled, t->polled, memory_order_relaxed);
    atomic_store_explicit(&shared->sample.total, t->total, memory_order_relaxed);
    t->total = 0;
    ((struct sqe *)ring_slot(&qp->queue.sq, index))->flags |= SQE_TIMED;
    atomic_store_explicit(&t->out, true, memory_order_release);
}

COLD void watch_sends(struct shim_qp *qp, uint32_t from, uint32_t to)
{
    const struct ctx_shared *shared = qp->queue.client->shared;

    if (PROBE_WANTED(post_send))
        probe_sends(qp, from, to);
    if (atomic_load_explicit(&shared->watch, memory_order_relaxed) & CTX_WATCH_LATENCY)
        time_one(qp, from, to);
}

static void end_timed(struct client *c, const struct cqe *e)
{
    struct client_qp *qp = e->uidx == CQE_UIDX_NONE ? NULL : slot_table_get(&c->qps, e->uidx);
    struct client_timed *t = qp ? &qp->timed : NULL;
    uint64_t now;

    if (!t || e->opcode & WC_RECV || !atomic_load_explicit(&t->out, memory_order_acquire) ||
        t->index != e->wqe)
        return;
    if (e->status == WC_SUCCESS) {
        now = now_ns();
        t->total = now - t->posted;
        t->polled = now - min_of(now, e->timestamp);
    }
    atomic_store_explicit(&t->out, false, memory_order_release);
}

COLD void watch_receives(const struct ibv_context *context, uint32_t number,
                         const struct client_ring *ring, uint32_t from, uint32_t to)
{
    if (PROBE_WANTED(post_recv))
        probe_receives(context, number, ring, from, to);
}

/* ---- calls that are judged ---- */

COLD int watch_judge(struct ibv_context *context, enum ctl_judged call)
{
    struct client *c = &to_context(context)->client;
    struct ctl_msg m = {.judge.call = call};

    if (!(atomic_load_explicit(&c->shared->watch, memory_order_relaxed) & CTX_WATCH_CALLS) ||
        atomic_load_explicit(&c->daemon_gone, memory_order_acquire))
        return 0;
    return failed(-conn_call(&c->conn, CTL_JUDGE, &m, NULL, 0, NULL, 0));
}

/* ---- completions ---- */

COLD void watch_completion(const struct ibv_context *context, const struct cqe *e)
{
    if (PROBE_WANTED(process_completion))
        probe_completion(context, e);
    end_timed(&to_context((struct ibv_context *)context)->client, e);
}
