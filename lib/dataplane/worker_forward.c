/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that go from the worker that received them to the worker that owns their queue pair. */
#include <errno.h>

#include "worker_internal.h"

int worker_group_connect(struct worker_group *g)
{
    for (unsigned from = 0; from < g->workers; from++) {
        for (unsigned to = 0; to < g->workers; to++) {
            if (from == to)
                continue;
            g->forward[from][to] = forward_create();
            if (!g->forward[from][to])
                return -ENOMEM;
        }
    }
    return 0;
}

void worker_group_fini(struct worker_group *g)
{
    for (unsigned from = 0; from < g->workers; from++)
        for (unsigned to = 0; to < g->workers; to++)
            forward_destroy(g->forward[from][to]);
}

/* ---- the sending side ---- */

bool worker_forward(struct worker *w, const struct frame *f, const struct forward_target *target)
{
    struct worker *other = ((struct worker_port *)target->to)->worker;
    struct forward_ring *ring = w->group->forward[w->index][other->index];
    uint32_t bit = UINT32_C(1) << w->index;

    /* Copies for sniffers leave the second half of the ring to frames that a peer waits for. */
    if (unlikely(target->for_sniffers && forward_is_half_full(ring)))
        return false;
    if (!forward_put(ring, target, f))
        return false;
    if (unlikely(forward_is_half_full(ring)))
        w->half_full |= UINT32_C(1) << other->index;
    /* First the frame, then the bit: the other worker clears the bit, then reads the ring. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!(atomic_load_explicit(&other->forwarded_from, memory_order_relaxed) & bit))
        atomic_fetch_or(&other->forwarded_from, bit);
    w->forwarded_to |= UINT32_C(1) << other->index;
    counter_inc(&w->stats.forwarded_out);
    return true;
}

bool worker_pauses_rx(struct worker *w, ns_t now)
{
    if (likely(!w->half_full))
        return false;
    for (uint32_t left = w->half_full; left; left &= left - 1) {
        unsigned to = (unsigned)__builtin_ctz(left);

        if (!forward_is_half_full(w->group->forward[w->index][to]))
            w->half_full &= ~(UINT32_C(1) << to);
    }
    if (!w->half_full)
        w->half_full_since = 0;
    else if (!w->half_full_since)
        w->half_full_since = now;
    if (!w->half_full || now - w->half_full_since >= RX_PAUSE_MAX)
        return false;
    w->sleep_short = true;
    return true;
}

void worker_wake_forwarded(struct worker *w)
{
    for (; w->forwarded_to; w->forwarded_to &= w->forwarded_to - 1)
        worker_kick(w->group->worker[__builtin_ctz(w->forwarded_to)]);
}

/* ---- the receiving side ---- */

static void deliver_to_host(struct worker_port *p, const struct frame *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        slow_path_up(p->slow, &f[i]);
    slow_path_notify(p->slow);
}

static void deliver_frames(struct worker *w, const struct forward_target *target, struct frame *f,
                           unsigned n, unsigned from, ns_t now)
{
    struct worker_port *p = target->to;

    counter_add(&w->stats.forwarded_in, n);
    if (target->for_host)
        deliver_to_host(p, f, n);
    else if (target->for_sniffers)
        engine_rx_copies(p->engine, f, n, from, now);
    else
        engine_rx_forwarded(p->engine, f, n, from, now);
}

/* The frames are in the ring of the other worker, which needs its room again. */
static void deliver(struct worker *w, const struct forward_target *target, struct frame *f,
                    unsigned n, unsigned from, ns_t now)
{
    w->frames_leave = true;
    deliver_frames(w, target, f, n, from, now);
    w->frames_leave = false;
    w->late_in_burst = NULL;
}

/* One burst, so that one worker's frames do not delay those of the others. forward_take may return
 * it in parts, one for each target in turn. */
static void receive_from(struct worker *w, unsigned from, ns_t now)
{
    struct forward_ring *ring = w->group->forward[from][w->index];
    struct frame f[FRAME_BURST];
    struct forward_target target;

    for (unsigned n, left = FRAME_BURST; left; left -= n) {
        n = forward_take(ring, &target, f, left);
        if (n)
            deliver(w, &target, f, n, from, now);
        forward_release(ring);
        if (!n)
            break;
    }
    if (!forward_empty(ring))
        atomic_fetch_or(&w->forwarded_from, UINT32_C(1) << from);
}

bool worker_receive_forwarded(struct worker *w, ns_t now)
{
    uint32_t from;

    if (likely(!atomic_load_explicit(&w->forwarded_from, memory_order_relaxed)))
        return false;
    for (from = atomic_exchange(&w->forwarded_from, 0); from; from &= from - 1)
        receive_from(w, (unsigned)__builtin_ctz(from), now);
    return true;
}
