/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: their directory by doorbell slot, their last answers, and their migration to another
 * worker. */
#include <errno.h>
#include <stdlib.h>

#include "worker_internal.h"

/* ---- the directory ---- */

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

struct dp_qp *_Atomic const *dp_slots_place(const struct dp_slots *s, uint32_t slot)
{
    struct dp_qp *_Atomic *chunk;

    if (slot >= DB_SLOTS)
        return NULL;
    chunk = atomic_load_explicit(&s->chunk[slot / DP_SLOT_CHUNK], memory_order_acquire);
    return chunk ? &chunk[slot % DP_SLOT_CHUNK] : NULL;
}

struct dp_qp *dp_slots_get(const struct dp_slots *s, uint32_t slot)
{
    struct dp_qp *_Atomic const *place = dp_slots_place(s, slot);

    return place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
}

/* ---- last answers ---- */

/* An ACK, and the results of a few atomics before it. */
#define LAST_ANSWERS 8

bool worker_send_answers(struct worker_port *port, struct qp *qp)
{
    const struct pktio_ops *ops = port->io->ops;
    struct frame f[LAST_ANSWERS];
    unsigned n;

    if (!engine_qp_owes_answer(port->engine, qp))
        return true;
    n = ops->tx_lend(port->io, port->queue, f, LAST_ANSWERS);
    if (!n)
        return false;
    pktio_send(port->io, port->queue, f, n,
               engine_tx_answers(port->engine, qp, f, n, worker_time()));
    port->worker->sent_lent = true;
    return true;
}

/* ---- migration ---- */

struct migration {
    struct dp_qp *dq;
    struct worker_port *from, *to;
    bool moved;
};

/* On the old worker. First the queue pair moves, then its doorbells: the new worker's engine
 * handles those that find the new owner, and one that is forwarded here in the meantime is
 * forwarded back.
 */
static void release_qp(struct worker *w, void *arg)
{
    struct migration *m = arg;

    m->moved = qp_completions_are_read(m->dq->qp, w->index);
    if (!m->moved)
        return;
    engine_qp_release(m->from->engine, m->dq->qp, m->to->engine);
    atomic_store_explicit(&m->dq->port, m->to, memory_order_release);
    atomic_store_explicit(&m->dq->ctx->shared->slot_worker[m->dq->slot],
                          (uint8_t)m->to->worker->index, memory_order_relaxed);
}

/* On the new worker. */
static void adopt_qp(struct worker *w, void *arg)
{
    struct migration *m = arg;

    engine_qp_adopt(m->to->engine, m->dq->qp, worker_time());
}

bool worker_migrate_qp(struct dp_qp *dq, struct worker_port *to)
{
    struct migration m = {.dq = dq, .from = dq->port, .to = to};

    if (m.from == to)
        return true;
    worker_call(m.from->worker, release_qp, &m);
    if (m.moved)
        worker_call(to->worker, adopt_qp, &m);
    return m.moved;
}
