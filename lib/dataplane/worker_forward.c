/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames, and queue pairs, that go from one worker to another. */
#include <errno.h>
#include <stdlib.h>

#include "forward.h"
#include "worker_internal.h"

#define HOLD_MAX (100 * NS_PER_MS)

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

/* ---- frames ---- */

bool worker_forward(struct worker *w, const struct frame *f, const struct forward_note *note)
{
    struct worker *other = ((struct worker_port *)note->to)->worker;
    struct forward_rings *h = w->group->forward[w->index][other->index];
    uint32_t bit = UINT32_C(1) << w->index;

    /* Copies do not take the last room of what somebody waits for. */
    if (unlikely(note->for_sniffers && forward_is_tight(h)))
        return false;
    if (!forward_put(h, note, f))
        return false;
    if (unlikely(forward_is_tight(h)))
        w->tight |= UINT32_C(1) << other->index;
    /* The frame is in the ring before the bit is looked at: the other clears the bit, then looks
     * into the ring. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!(atomic_load_explicit(&other->handed, memory_order_relaxed) & bit))
        atomic_fetch_or(&other->handed, bit);
    w->forwarded_to |= UINT32_C(1) << other->index;
    counter_inc(&w->stats.forwarded_out);
    return true;
}

bool worker_holds_back(struct worker *w, ns_t now)
{
    if (likely(!w->tight))
        return false;
    for (uint32_t tight = w->tight; tight; tight &= tight - 1) {
        unsigned to = (unsigned)__builtin_ctz(tight);

        if (!forward_is_tight(w->group->forward[w->index][to]))
            w->tight &= ~(UINT32_C(1) << to);
    }
    if (!w->tight)
        w->tight_since = 0;
    else if (!w->tight_since)
        w->tight_since = now;
    if (!w->tight || now - w->tight_since >= HOLD_MAX)
        return false;
    w->nap = true;
    return true;
}

void worker_wake_forwarded(struct worker *w)
{
    for (; w->forwarded_to; w->forwarded_to &= w->forwarded_to - 1)
        worker_kick(w->group->worker[__builtin_ctz(w->forwarded_to)]);
}

static void take_for_host(struct worker_port *p, const struct frame *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        slow_path_up(p->slow, &f[i]);
    slow_path_notify(p->slow);
}

static void act_on(struct worker *w, const struct forward_note *note, struct frame *f, unsigned n,
                   unsigned from, ns_t now)
{
    struct worker_port *p = note->to;

    counter_add(&w->stats.forwarded_in, n);
    if (note->for_host)
        take_for_host(p, f, n);
    else if (note->for_sniffers)
        engine_rx_copies(p->engine, f, n, from, now);
    else
        engine_rx_forwarded(p->engine, f, n, from, now);
}

/* As many as a burst, so that one worker's frames do not hold up all others; and not fewer, though
 * frames for the host, or of other ports, come in between. */
static void receive_from(struct worker *w, unsigned from, ns_t now)
{
    struct forward_rings *h = w->group->forward[from][w->index];
    struct frame f[FRAME_BURST];
    struct forward_note note;

    for (unsigned n, left = FRAME_BURST; left; left -= n) {
        n = forward_take(h, &note, f, left);
        if (n)
            act_on(w, &note, f, n, from, now);
        forward_release(h);
        if (!n)
            break;
    }
    if (!forward_empty(h))
        atomic_fetch_or(&w->handed, UINT32_C(1) << from);
}

bool worker_receive_forwarded(struct worker *w, ns_t now)
{
    uint32_t from;

    if (likely(!atomic_load_explicit(&w->handed, memory_order_relaxed)))
        return false;
    for (from = atomic_exchange(&w->handed, 0); from; from &= from - 1)
        receive_from(w, (unsigned)__builtin_ctz(from), now);
    return true;
}

/* ---- queue pairs ---- */

int dp_slots_set(struct dp_slots *s, uint32_t slot, struct dp_qp *dq)
{
    struct dp_qp *_Atomic *chunk = s->chunk[slot / DP_SLOT_CHUNK];

    if (!chunk) {
        chunk = calloc(DP_SLOT_CHUNK, sizeof(*chunk));
        if (!chunk)
            return -ENOMEM;
        atomic_store_explicit(&s->chunk[slot / DP_SLOT_CHUNK], chunk, memory_order_release);
    }
    atomic_store_explicit(&chunk[slot % DP_SLOT_CHUNK], dq, memory_order_release);
    return 0;
}

void dp_slots_fini(struct dp_slots *s)
{
    for (unsigned i = 0; i < ARRAY_SIZE(s->chunk); i++) {
        free(s->chunk[i]);
        s->chunk[i] = NULL;
    }
}

struct dp_qp *dp_slots_get(const struct dp_slots *s, uint32_t slot)
{
    struct dp_qp *_Atomic *chunk;

    if (slot >= DB_SLOTS)
        return NULL;
    chunk = atomic_load_explicit(&s->chunk[slot / DP_SLOT_CHUNK], memory_order_acquire);
    return chunk ? atomic_load_explicit(&chunk[slot % DP_SLOT_CHUNK], memory_order_acquire) : NULL;
}

struct move_call {
    struct dp_qp *dq;
    struct worker_port *from, *to;
    bool moved;
};

/* The queue pair before its bells: one that the new worker finds is heard by its engine, and one
 * that goes on meanwhile comes here, and back. */
static void release(struct worker *w, void *arg)
{
    struct move_call *m = arg;

    m->moved = qp_completions_are_read(m->dq->qp, w->index);
    if (!m->moved)
        return;
    engine_qp_release(m->from->engine, m->dq->qp, m->to->engine);
    atomic_store_explicit(&m->dq->port, m->to, memory_order_release);
    atomic_store_explicit(&m->dq->ctx->shared->slot_worker[m->dq->slot],
                          (uint8_t)m->to->worker->index, memory_order_relaxed);
}

static void adopt(struct worker *w, void *arg)
{
    struct move_call *m = arg;

    engine_qp_adopt(m->to->engine, m->dq->qp, worker_time());
}

bool worker_move_qp(struct dp_qp *dq, struct worker_port *to)
{
    struct move_call m = {.dq = dq, .from = dq->port, .to = to};

    if (m.from == to)
        return true;
    worker_call(m.from->worker, release, &m);
    if (m.moved)
        worker_call(to->worker, adopt, &m);
    return m.moved;
}
