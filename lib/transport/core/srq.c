/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues (volume 1, 10.2.9). The queue pairs that share one may belong to several
 * workers, so taking entries is the one place of the packet path with a lock: held while they are
 * copied and judged, and copies to their memory are queued.
 */
#include "srq.h"

#include <stdlib.h>

#include "id_tables.h"

static void lock(struct srq *srq)
{
    while (atomic_flag_test_and_set_explicit(&srq->lock, memory_order_acquire))
        ;
}

static void unlock(struct srq *srq)
{
    atomic_flag_clear_explicit(&srq->lock, memory_order_release);
}

struct srq *srq_create(struct srq_table *t, const struct srq_init *init, int *err)
{
    struct srq *srq = calloc(1, sizeof(*srq));

    *err = -ENOMEM;
    if (!srq)
        return NULL;
    srq->init = *init;
    srq->serial = ((struct id_table *)t)->inserted + 1; /* 0: none (resp_store.c) */
    *err = id_table_insert((struct id_table *)t, srq, &srq->number);
    if (*err) {
        free(srq);
        return NULL;
    }
    srq->table = t;
    return srq;
}

void srq_unpublish(struct srq *srq)
{
    if (srq->table)
        id_table_remove((struct id_table *)srq->table, srq->number, srq);
    srq->table = NULL;
}

void srq_free(struct srq *srq)
{
    srq_unpublish(srq);
    free(srq);
}

uint32_t srq_number(const struct srq *srq)
{
    return srq->number;
}

void *srq_owner(const struct srq *srq)
{
    return srq->init.owner;
}

uint32_t srq_waiting(struct srq *srq)
{
    int n;

    lock(srq);
    n = work_queue_pending(&srq->init.wq);
    unlock(srq);
    return n > 0 ? (uint32_t)n : 0;
}

bool srq_set_limit(struct srq *srq, uint32_t limit)
{
    int waiting;
    bool below;

    lock(srq);
    waiting = work_queue_pending(&srq->init.wq);
    below = limit && waiting >= 0 && (uint32_t)waiting < limit;
    srq->limit = below ? 0 : limit;
    unlock(srq);
    return below;
}

uint32_t srq_limit(struct srq *srq)
{
    uint32_t limit;

    lock(srq);
    limit = srq->limit;
    unlock(srq);
    return limit;
}

void srq_move(struct srq *srq, const struct work_queue *wq, _Atomic uint32_t *taken,
              void (*copy)(void *ctx, uint32_t first, uint32_t end), void *ctx)
{
    uint32_t first, end, cons;

    lock(srq);
    first = srq->init.wq.cons;
    end = first + (uint32_t)max_of(work_queue_pending(&srq->init.wq), 0);
    unlock(srq);
    copy(ctx, first, end); /* workers would have to wait for that */
    lock(srq);
    cons = srq->init.wq.cons;
    srq->init.wq = *wq;
    srq->init.wq.cons = cons;
    srq->init.taken = taken;
    atomic_store(taken, cons);
    unlock(srq);
}

/* n entries of `waiting` were taken: whether fewer than the limit are left. It then is no more. */
static bool note_taken(struct srq *srq, uint32_t waiting, uint32_t n)
{
    bool reached = srq->limit && waiting - n < srq->limit;

    atomic_store_explicit(srq->init.taken, srq->init.wq.cons, memory_order_release);
    if (reached)
        srq->limit = 0;
    return reached;
}

int srq_take(struct srq *srq, struct recv_wqe *wqe, bool *limit_reached)
{
    struct work_queue *q = &srq->init.wq;
    int waiting, rc = 1;

    lock(srq);
    waiting = work_queue_pending(q);
    if (waiting > 0) {
        rc = recv_queue_take(q, wqe);
        *limit_reached = note_taken(srq, (uint32_t)waiting, 1);
    }
    unlock(srq);
    return waiting < 0 ? waiting : rc;
}

const struct work_queue *srq_begin(struct srq *srq, unsigned *pending)
{
    int waiting;

    lock(srq);
    waiting = work_queue_pending(&srq->init.wq);
    *pending = waiting > 0 ? (unsigned)waiting : 0;
    return &srq->init.wq;
}

bool srq_end(struct srq *srq, unsigned pending, unsigned n)
{
    bool reached = false;

    if (n) {
        srq->init.wq.cons += n;
        reached = note_taken(srq, pending, n);
    }
    unlock(srq);
    return reached;
}
