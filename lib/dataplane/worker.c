/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One pass of the worker's loop. worker_poll() does in this order:
 *
 *   1. a function of the control thread (worker_call.c)
 *   2. a burst of frames from each port, through its engine
 *   3. the frames that other workers have forwarded (worker_forward.c)
 *   4. the doorbells of applications: their queue pairs have new work requests (worker_ctx.c)
 *   5. for each port: timers, frames of the IP host, a burst of packets that its engine builds
 *   6. notifications to workers and applications (worker_notify.c)
 *
 * The worker's thread repeats it (worker_run.c).
 */
#include "worker_internal.h"

#include <string.h>

static bool receive_burst(struct worker_port *p, ns_t now)
{
    const struct pktio_ops *ops = p->io->ops;
    struct frame f[FRAME_BURST];
    unsigned max = unlikely(worker_pauses_rx(p->worker, now)) ? 0 : FRAME_BURST;
    unsigned n = ops->rx_burst(p->io, p->queue, f, max);

    if (!n)
        return false;
    engine_rx(p->engine, f, n, now);
    if (unlikely(p->worker->late_in_burst))
        copier_keep_frames(p->worker, p, f, n, false);
    else
        ops->rx_release(p->io, p->queue, f, n);
    if (p->slow)
        slow_path_notify(p->slow);
    return true;
}

/* Frames of the port's IP host. Here and below a full port is no work: the worker tries again soon
 * (tx_full limits its sleep) but not at once, as the thread that makes room may need this CPU. */
static bool transmit_slow_path(struct worker_port *p)
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
            p->tx_full = true;
            break;
        }
        used = len <= f.room;
        f.icrc_omitted = false; /* the frame is not the engine's */
        if (used) {
            memcpy(f.data, bytes, len);
            f.len = len;
            counter_inc(&p->slow->down_frames);
        }
        pktio_send(p->io, p->queue, &f, 1, used);
        frame_ring_pop(p->slow->down);
        sent = true;
    }
    return sent;
}

static bool expire_timers(struct worker_port *p, ns_t now)
{
    if (engine_next_timer(p->engine) > now)
        return false;
    engine_timers(p->engine, now);
    return true;
}

/* Borrowing frames that remain unused costs too, so it borrows twice what the last burst used.
 * full: set if all of them are used, and there may be more to send. */
static bool transmit_burst(struct worker_port *p, ns_t now, bool *full)
{
    const struct pktio_ops *ops = p->io->ops;
    struct frame f[FRAME_BURST];
    unsigned n, used, sent;

    *full = false;
    if (!engine_wants_tx(p->engine))
        return false;
    n = ops->tx_lend(p->io, p->queue, f, p->lend);
    if (!n) {
        p->tx_full = true;
        return false;
    }
    used = sent = engine_tx(p->engine, f, n, now);
    if (worker_memory_failed(p->worker)) {
        worker_fail_programs(p->worker, now);
        sent = 0; /* they are lost */
    }
    if (unlikely(p->worker->late_in_burst)) {
        ops->tx_burst(p->io, p->queue, f, used, sent);
        copier_keep_frames(p->worker, p, f + used, n - used, true);
    } else {
        ops->tx_burst(p->io, p->queue, f, n, sent);
    }
    p->lend = (uint8_t)min_of(max_of(2 * used, TX_LEND_MIN), (unsigned)FRAME_BURST);
    *full = used == n;
    /* A packet whose payload cannot be read uses no frame, and others may wait behind it. */
    return used || engine_wants_tx(p->engine);
}

/* Of a port that sends several bursts together: the first ones are short after a pause. */
#define TX_BURSTS 4

/* One burst: what it sent, and the answers to it, are processed while they are in the cache. More
 * of them if the port sends them together. */
static bool transmit(struct worker_port *p, ns_t now)
{
    bool full, work = transmit_burst(p, now, &full);

    if (likely(!p->io->ops->tx_flush))
        return work;
    for (unsigned i = 1; full && i < TX_BURSTS; i++)
        transmit_burst(p, now, &full);
    p->io->ops->tx_flush(p->io, p->queue, full);
    return work;
}

bool worker_poll(struct worker *w, ns_t now)
{
    bool work = worker_run_command(w);

    w->pass_began = now;
    if (unlikely(w->copiers))
        work |= copier_end_calls(w, now);
    for (unsigned i = 0; i < w->ports; i++)
        work |= receive_burst(&w->port[i], now);
    work |= worker_receive_forwarded(w, now);
    work |= worker_serve_contexts(w, !work, now);
    if (worker_memory_failed(w))
        worker_fail_programs(w, now);
    for (unsigned i = 0; i < w->ports; i++) {
        work |= expire_timers(&w->port[i], now);
        w->port[i].tx_full = false;
        work |= transmit_slow_path(&w->port[i]);
        work |= transmit(&w->port[i], now);
    }
    worker_flush_notifications(w);
    counter_inc(&w->stats.loops);
    if (work)
        counter_inc(&w->stats.busy);
    return work;
}
