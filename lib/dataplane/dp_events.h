/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Asynchronous events on their way from workers to the control thread. They wait as bits at the
 * object that they are of, so that none is ever lost, however many objects have some: an event that
 * happens again before the control thread has taken it is one event.
 */
#ifndef UROCE_DP_EVENTS_H
#define UROCE_DP_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker_group;

/** The events of an object. All zero, but for the owner: none is raised. */
struct dp_events {
    void *owner;             /**< the control thread's */
    _Atomic uint32_t raised; /**< bits by enum qp_event, and DP_MISPLACED; not 0: it is listed */
    _Atomic uint32_t detail; /**< of the last event that has one, see the structure around */
    struct dp_events *next;  /**< on the list */
};

/** A queue pair: its packets arrive at the worker with the index `detail`. */
#define DP_MISPLACED 31u

/**
 * Raise an event. Any thread.
 *
 * @param g  The workers.
 * @param e  The object's events; the object stays until the control thread has taken them.
 * @param event  An enum qp_event, or DP_MISPLACED.
 * @return  True: the list was empty, and the control thread has to be told.
 */
bool dp_events_raise(struct worker_group *g, struct dp_events *e, unsigned event);

/**
 * Take the list of objects that have events. Control thread.
 *
 * @param g  The workers.
 * @return  The object that was listed first, whose next is the next; NULL: there is none. They
 * count as listed until dp_events_take().
 */
struct dp_events *dp_events_take_list(struct worker_group *g);

/**
 * Take the events of an object from such a list; its `next` must have been read. Control thread.
 *
 * @param e  The object's events.
 * @return  Bits by enum qp_event, and DP_MISPLACED. Others that are raised list it again.
 */
uint32_t dp_events_take(struct dp_events *e);

#endif
