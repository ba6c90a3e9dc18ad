/* SPDX-License-Identifier: BSD-3-Clause */
/* One look for work: packets, doorbells, timers, then transmission. */
#include "worker_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define LEND_MIN 4u

ns_t worker_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

struct worker *worker_create(const struct worker_config *config)
{
    struct worker *w = aligned_alloc(CACHE_LINE, round_up(sizeof(*w), CACHE_LINE));

    if (!w)
        return NULL;
    *w = (struct worker){
        .index = config->index, .group = config->group, .wake_word = config->wake_word};
    poll_policy_init(&w->policy, worker_time());
    w->group->worker[w->index] = w;
    w->group->workers = max_of(w->group->workers, w->index + 1);
    return w;
}

void worker_destroy(struct worker *w)
{
    free(w->ctx);
    free(w);
}

static void kick_port(void *arg)
{
    worker_kick(arg);
}

struct worker_port *worker_add_port(struct worker *w, struct pktio *io, unsigned queue,
                                    struct worker_port *first)
{
    struct worker_port *p = &w->port[w->ports];
    int fd = io->ops->wake_fd(io, queue);

    if (w->ports == WORKER_PORTS_MAX)
        return NULL;
    *p = (struct worker_port){.worker = w,
                              .io = io,
                              .queue = queue,
                              .first = first ? first : p,
                              .lend = LEND_MIN,
                              .source = {.fd = -1, .kick = kick_port, .arg = w},
                              .must_poll = fd == PKTIO_WAKE_POLL};
    if (io->ops->must_poll)
        p->must_poll |= io->ops->must_poll(io, queue);
    if (fd >= 0) {
        p->source.fd = fd;
        if (!w->group->waker || waker_add(w->group->waker, &p->source))
            return NULL;
    }
    w->ports++;
    return p;
}

static bool receive(struct worker_port *p, ns_t now)
{
    const struct pktio_ops *ops = p->io->ops;
    struct frame f[FRAME_BURST];
    unsigned max = unlikely(worker_holds_back(p->worker, now)) ? 0 : FRAME_BURST;
    unsigned n = ops->rx_burst(p->io, p->queue, f, max);

    if (!n)
        return false;
    engine_rx(p->engine, f, n, now);
    ops->rx_release(p->io, p->queue, f, n);
    if (p->slow)
        slow_path_notify(p->slow);
    return true;
}

/* Frames of the control thread's. Here and below: a full port is to be looked at again soon, but
 * not at once, as whoever makes room may need this CPU. */
static bool send_down(struct worker_port *p)
{
    const struct pktio_ops *ops = p->io->ops;
    struct frame f;
    const uint8_t *bytes;
    bool sent = false;
    uint32_t len;

    if (!p->slow || frame_ring_empty(p->slow->down))
        return false;
    while ((bytes = frame_ring_peek(p->slow->down, &len))) {
        unsigned used;

        if (!ops->tx_lend(p->io, p->queue, &f, 1)) {
            p->full = true;
            break;
        }
        used = len <= f.room;
        f.icrc_omitted = false; /* the bytes are another's */
        if (used) {
            memcpy(f.data, bytes, len);
            f.len = len;
            counter_inc(&p->slow->down_frames);
        }
        ops->tx_burst(p->io, p->queue, &f, 1, used);
        frame_ring_pop(p->slow->down);
        sent = true;
    }
    return sent;
}

/* Its queue pair may have moved since the application looked where it is. */
static void pass_bell(struct worker *w, const struct worker_ctx *ctx, uint32_t slot,
                      struct worker *to)
{
    counter_inc(&w->stats.bells_passed);
    doorbell_ring(&ctx->shared->worker[to->index], slot);
    worker_kick(to);
}

/* Slots are the application's word: those without a queue pair are passed over. */
static bool take_doorbells(struct worker *w, struct worker_ctx *ctx, ns_t now)
{
    uint32_t slot[BELLS_MAX];
    unsigned n;

    if (!doorbell_pending(ctx->doorbells))
        return false;
    n = doorbell_take(ctx->doorbells, slot, BELLS_MAX);
    for (unsigned i = 0; i < n; i++) {
        struct dp_qp *dq = dp_slots_get(ctx->slots, slot[i]);
        struct worker_port *p;

        if (!dq)
            continue;
        p = atomic_load_explicit(&dq->port, memory_order_acquire);
        if (p->worker == w)
            engine_doorbell(p->engine, dq->qp, now);
        else
            pass_bell(w, ctx, slot[i], p->worker);
    }
    return true;
}

static bool run_timers(struct worker_port *p, ns_t now)
{
    if (engine_next_timer(p->engine) > now)
        return false;
    engine_timers(p->engine, now);
    return true;
}

/* One burst: what it sent, and what comes back for it, is looked at while it is in the cache.
 * Frames that are borrowed and not used cost too: it asks for twice what the last burst took. */
static bool transmit(struct worker_port *p, ns_t now)
{
    const struct pktio_ops *ops = p->io->ops;
    struct frame f[FRAME_BURST];
    unsigned n, used;

    if (!engine_wants_tx(p->engine))
        return false;
    n = ops->tx_lend(p->io, p->queue, f, p->lend);
    if (!n) {
        p->full = true;
        return false;
    }
    used = engine_tx(p->engine, f, n, now);
    ops->tx_burst(p->io, p->queue, f, n, used);
    p->lend = (uint8_t)min_of(max_of(2 * used, LEND_MIN), (unsigned)FRAME_BURST);
    /* Packets whose payload cannot be read use none, and others may wait behind them. */
    return used || engine_wants_tx(p->engine);
}

bool worker_poll(struct worker *w, ns_t now)
{
    bool work = worker_run_command(w);

    for (unsigned i = 0; i < w->ports; i++)
        work |= receive(&w->port[i], now);
    work |= worker_receive_forwarded(w, now);
    for (unsigned i = 0; i < w->contexts; i++)
        work |= take_doorbells(w, w->ctx[i], now);
    for (unsigned i = 0; i < w->ports; i++) {
        work |= run_timers(&w->port[i], now);
        w->port[i].full = false;
        work |= send_down(&w->port[i]);
        work |= transmit(&w->port[i], now);
    }
    worker_flush_notes(w);
    counter_inc(&w->stats.loops);
    if (work)
        counter_inc(&w->stats.busy);
    return work;
}

void *worker_run(void *worker)
{
    struct worker *w = worker;

    w->thread = pthread_self();
    /* A nap of 50 us would take twice as long. */
    prctl(PR_SET_TIMERSLACK, 1);
    poll_policy_init(&w->policy, worker_time());
    atomic_fetch_add(&w->group->hot, 1);
    atomic_store(&w->running, 1);
    futex_wake(&w->running, 1);
    while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
        ns_t now = worker_time();

        if (worker_poll(w, now))
            worker_busy(w, now);
        else
            worker_idle(w, now);
    }
    atomic_fetch_sub(&w->group->hot, 1);
    atomic_store(&w->running, 0);
    /* A caller that saw `running` may have left a command. */
    worker_run_command(w);
    return NULL;
}

void worker_wait_running(struct worker *w)
{
    while (!atomic_load(&w->running))
        futex_wait(&w->running, 0, NS_NEVER);
}

void worker_stop(struct worker *w)
{
    atomic_store(&w->stop, true);
    worker_kick(w);
}

unsigned worker_index(const struct worker *w)
{
    return w->index;
}

const struct worker_stats *worker_stats(const struct worker *w)
{
    return &w->stats;
}

const char *worker_mode(const struct worker *w)
{
    static const char *const name[] = {
        [WORKER_HOT] = "hot", [WORKER_ASLEEP] = "asleep", [WORKER_EAGER] = "eager"};

    return name[atomic_load(&w->state)];
}

ns_t worker_cpu_time(const struct worker *w)
{
    struct timespec ts;
    clockid_t clock;

    if (!atomic_load(&w->running) || pthread_getcpuclockid(w->thread, &clock) ||
        clock_gettime(clock, &ts))
        return 0;
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}
