/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shared receive queues: those of a protection domain, and of XRC domains (annex A14).
 */
#ifndef UROCE_SHARED_RECEIVE_QUEUE_H
#define UROCE_SHARED_RECEIVE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "comp_queue.h"
#include "work_queue.h"

struct srq;
struct srq_table;

/** What a shared receive queue is created with. */
struct srq_init {
    struct work_queue wq; /**< private end over the application's segment */
    /** There: entries taken, so that the application knows what is free. */
    _Atomic uint32_t *taken;
    uint32_t pd;
    bool xrc; /**< XRC: its own CQ and domain */
    uint32_t xrcd;
    struct comp_queue *cq;
    void *owner;
};

/**
 * Create a shared receive queue. Control thread.
 *
 * @param t  The table that gets it.
 * @param init  Copied; what it points to must outlive the queue.
 * @param err  Set when the result is NULL.
 * @return  The queue; NULL and -ENOMEM or -ENOSPC (no number is free).
 */
struct srq *srq_create(struct srq_table *t, const struct srq_init *init, int *err);

/**
 * Take a queue out of its table. Control thread.
 *
 * @param srq  The queue.
 */
void srq_unpublish(struct srq *srq);
/**
 * Free a queue that was unpublished and that no queue pair uses. Control thread, after the workers'
 * quiet point.
 *
 * @param srq  The queue.
 */
void srq_free(struct srq *srq);

/**
 * The number of a queue. Any thread.
 *
 * @param srq  The queue.
 * @return  Its number.
 */
uint32_t srq_number(const struct srq *srq);

/**
 * The owner that a queue was created with. Any thread.
 *
 * @param srq  The queue.
 * @return  srq_init.owner.
 */
void *srq_owner(const struct srq *srq);
/**
 * How many WQEs wait. Any thread.
 *
 * @param srq  The queue.
 * @return  WQEs that the application posted and no queue pair took.
 */
uint32_t srq_waiting(struct srq *srq);
/**
 * Arm the limit: one event when fewer WQEs wait (10.2.9.3). Any thread.
 *
 * @param srq  The queue.
 * @param limit  WQEs; 0 disarms.
 * @return  True when fewer wait already: the caller raises the event, and the limit is disarmed.
 */
bool srq_set_limit(struct srq *srq, uint32_t limit);

/**
 * The limit that is armed. Any thread.
 *
 * @param srq  The queue.
 * @return  WQEs; 0: none is armed.
 */
uint32_t srq_limit(struct srq *srq);
/**
 * Go over to another ring, which holds the waiting WQEs at the same indices. Any thread; the
 * application posts nothing until it returns.
 *
 * @param srq  The queue.
 * @param wq  The private end over the new ring; copied.
 * @param taken  The new segment's count of WQEs that were taken.
 * @param copy  Moves the WQEs first to end - 1. Workers may take some of them in the meantime.
 * @param ctx  copy's first argument.
 */
void srq_move(struct srq *srq, const struct work_queue *wq, _Atomic uint32_t *taken,
              void (*copy)(void *ctx, uint32_t first, uint32_t end), void *ctx);

#endif
