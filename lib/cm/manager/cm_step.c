/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of an id: what the tables of cm_states.def say, done. */
#include <errno.h>

#include "cm_state.h"

int cm_check_call(const struct cm_id *id, enum cm_input input)
{
    switch (cm_cell(id, input)) {
    case CM_DO_no:
        return -EINVAL;
    case CM_DO_isc:
        return -EISCONN;
    default:
        return 0;
    }
}

/* ---- a step ---- */

/* A REP is taken over once, whatever its repetitions say. */
static void take(struct cm_id *id, enum cm_input input, enum cm_state next,
                 const struct cm_msg *msg)
{
    switch (input) {
    case CM_IN_RX_REP:
        if (next == CM_REP_RCVD)
            cm_take_rep(id, msg);
        break;
    case CM_IN_RX_MRA_REQ:
    case CM_IN_RX_MRA_REP:
        id->service_timeout = (uint8_t)cm_msg_get(msg, CM_MRA_service_timeout);
        break;
    case CM_IN_RX_DREQ: /* the DREP has its transaction ID */
        id->transaction_id = mad_get(msg->data - MAD_HEADER, MAD_transaction_id);
        break;
    default:
        break;
    }
}

/* An answer belongs to the transaction of its message. That of a REP of a connection that is over
 * names the peer's end, which this one may not have heard of before. */
static void take_for_answer(struct cm_id *id, enum cm_input input, const struct cm_msg *msg)
{
    id->transaction_id = mad_get(msg->data - MAD_HEADER, MAD_transaction_id);
    if (input == CM_IN_RX_REP && !id->remote_comm_id)
        id->remote_comm_id = (uint32_t)cm_msg_get(msg, CM_REP_local_comm_id);
}

static void count(struct cm_id *id, enum cm_input input, const struct cm_outcome_row *o)
{
    struct cm_counters *c = &id->cm->counters;

    if (input == CM_IN_RETRY) /* send_again() */
        return;
    if (o->sends == CM_SEND_AGAIN || o->sends == CM_SEND_DREP_AGAIN ||
        o->sends == CM_SEND_REJ_AGAIN)
        c->repeated++;
    else if (cm_inputs[input].kind == CM_RX && o->next == CM_SAME && o->sends == CM_SEND_NONE)
        c->ignored++;
    if (input == CM_IN_RX_STALE)
        c->stale++;
}

static void send_again(struct cm_id *id, enum cm_send sends, ns_t now)
{
    if (!cm_limit_repetition(id, now))
        return;
    id->cm->counters.retries++;
    cm_send(id, sends);
}

/* A message with an answer has all of its repetitions before it; a timer uses up one. */
static void count_repetitions(struct cm_id *id, enum cm_input input, enum cm_state next)
{
    if (input == CM_IN_RETRY)
        id->retries_left--;
    else if (next != id->state && cm_states[next].timer == CM_TIMER_RESPONSE)
        id->retries_left = id->max_cm_retries;
}

int cm_step(struct cm_id *id, enum cm_input input, const struct cm_msg *msg, ns_t now)
{
    const struct cm_outcome_row *o = &cm_outcomes[cm_cell(id, input)];
    enum cm_state next = o->next < CM_STATE_COUNT ? (enum cm_state)o->next : id->state;
    int err = cm_check_call(id, input);

    if (err)
        return err;
    count(id, input, o);
    if (msg && o->next != CM_SAME)
        take(id, input, next, msg);
    else if (msg && o->sends != CM_SEND_NONE)
        take_for_answer(id, input, msg);
    if (input == CM_IN_RETRY)
        send_again(id, (enum cm_send)o->sends, now);
    else
        cm_send(id, (enum cm_send)o->sends);
    if (o->next == CM_GONE) {
        cm_ids_free(id);
        return 0;
    }
    if (o->next != CM_SAME || input == CM_IN_RETRY) {
        count_repetitions(id, input, next);
        cm_enter(id, next, now);
    }
    if (id->lingers && id->state == CM_IDLE)
        cm_ids_free(id);
    else if (o->reports == CM_EVENT_CONNECT_REQUEST)
        cm_report_request(id, msg);
    else if (o->reports != CM_EVENT_NONE)
        cm_report(id, (enum cm_event_type)o->reports, input, msg);
    return 0;
}
