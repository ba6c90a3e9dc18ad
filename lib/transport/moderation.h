/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Moderation of completion events: an armed completion queue raises its event when a number of
 * completions have come, or when the first of them has waited for a time.
 */
#ifndef UROCE_MODERATION_H
#define UROCE_MODERATION_H

#include "engine.h"

#define CQ_MODERATION_MAX 0xFFFFu /**< completions, and microseconds */

/**
 * Set how long the events of a queue wait. Control thread.
 *
 * @param cq  The queue; cq_moderation_free() before its memory is freed.
 * @param count  Completions that raise an event, at most CQ_MODERATION_MAX.
 * @param period_us  Microseconds after which fewer do, at most CQ_MODERATION_MAX; a tick of the
 *     engine's timers (33 us) may be added. No event waits if one of the two is 0.
 * @return  0; -EINVAL; -ENOMEM.
 */
int cq_moderate(struct comp_queue *cq, uint32_t count, uint32_t period_us);

/**
 * Take a queue's timer out of an engine, before the queue is freed. The engine's worker.
 *
 * @param e  The engine.
 * @param cq  The queue; nothing posts to it any more.
 */
void engine_cq_forget(struct engine *e, struct comp_queue *cq);

/**
 * Free what cq_moderate() allocated. Control thread, after engine_cq_forget() on each engine.
 *
 * @param cq  The queue.
 */
void cq_moderation_free(struct comp_queue *cq);

#endif
