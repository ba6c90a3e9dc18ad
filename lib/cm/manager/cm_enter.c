/* SPDX-License-Identifier: BSD-3-Clause */
/* What being in a state means: limits, tables, the timer. */
#include "cm_state.h"

/* The listener's limits count its requests until these are connections. */
static void count_request(struct cm_id *id, enum cm_state next)
{
    const struct cm_state_row *was = &cm_states[id->state], *is = &cm_states[next];
    struct cm_id *listener = id->listener;

    if (!listener)
        return;
    listener->waiting -= was->waits;
    listener->waiting += is->waits;
    listener->half_open -= was->half_open;
    listener->half_open += is->half_open;
    if (is->half_open)
        return;
    LIST_REMOVE(id, in_requests);
    id->listener = NULL;
}

/* Late packets are told from new connections by the ID; the queue pair's number may be used again.
 */
static void forget_peer(struct cm_id *id, enum cm_state next)
{
    if (next != CM_REQ_SENT && next != CM_MRA_REQ_RCVD)
        cm_remote_remove_peer(id);
    if (next == CM_IDLE || next == CM_TIMEWAIT)
        cm_remote_remove_qpn(id);
    if (next == CM_IDLE)
        cm_remote_remove_id(id);
}

void cm_enter(struct cm_id *id, enum cm_state state, ns_t now)
{
    ns_t time;

    count_request(id, state);
    forget_peer(id, state);
    id->state = (uint8_t)state;
    time = cm_time_in_state(id);
    if (time == NS_NEVER)
        cm_timer_disarm(&id->cm->timers, &id->timer);
    else
        cm_timer_arm(&id->cm->timers, &id->timer, now + time);
}
