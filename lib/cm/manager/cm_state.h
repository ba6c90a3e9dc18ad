/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_states.def as tables, and the step from a state to the next. */
#ifndef UROCE_CM_STATE_H
#define UROCE_CM_STATE_H

#include "cm_internal.h"

enum cm_timer_kind {
    CM_TIMER_NONE,
    CM_TIMER_RESPONSE,
    CM_TIMER_SERVICE,
    CM_TIMER_TIMEWAIT,
};

struct cm_state_row {
    const char *name;
    uint8_t timer; /* enum cm_timer_kind */
    bool waits, half_open;
};
extern const struct cm_state_row cm_states[CM_STATE_COUNT];

enum cm_input_kind {
    CM_CALL,
    CM_RX,
    CM_TIME,
};

enum cm_input {
#define CM_INPUT(name, kind, about, ...) CM_IN_##name,
#include "cm_states.def"
#undef CM_INPUT
    CM_INPUT_COUNT
};

struct cm_input_row {
    const char *name;
    uint8_t kind; /* enum cm_input_kind */
};
extern const struct cm_input_row cm_inputs[CM_INPUT_COUNT];

/* What a step sends. */
#define CM_SENDS(X)                                                                \
    X(NONE)                                                                        \
    X(MAD)   /* what the call has written */                                       \
    X(AGAIN) /* the last message */                                                \
    X(MRA_REQ)                                                                     \
    X(MRA_REP)                                                                     \
    X(REJ_TIMEOUT)                                                                 \
    X(REJ_CONSUMER)                                                                \
    X(REJ_STALE) /* the last message stays the one before, as for the next ones */ \
    X(REJ_UNKNOWN)                                                                 \
    X(REJ_AGAIN)                                                                   \
    X(REJ_GONE)                                                                    \
    X(APR)                                                                         \
    X(DREP_AGAIN)                                                                  \
    X(DREQ)                                                                        \
    X(DREP)                                                                        \
    X(SIDR_REJECT)

enum cm_send {
#define X(name) CM_SEND_##name,
    CM_SENDS(X)
#undef X
        CM_SEND_COUNT
};

#define CM_SAME       (CM_STATE_COUNT)     /* the next state is the one before */
#define CM_GONE       (CM_STATE_COUNT + 1) /* the id is freed */
#define CM_EVENT_NONE CM_EVENT_COUNT

enum cm_outcome {
#define CM_OUTCOME(name, next, sends, reports, about) CM_DO_##name,
#include "cm_states.def"
#undef CM_OUTCOME
    CM_OUTCOME_COUNT
};

struct cm_outcome_row {
    const char *name;
    uint8_t next;    /* enum cm_state, CM_SAME, CM_GONE */
    uint8_t sends;   /* enum cm_send */
    uint8_t reports; /* enum cm_event_type, CM_EVENT_NONE */
};
extern const struct cm_outcome_row cm_outcomes[CM_OUTCOME_COUNT];
extern const uint8_t cm_cells[CM_INPUT_COUNT][CM_STATE_COUNT]; /* enum cm_outcome */

static inline enum cm_outcome cm_cell(const struct cm_id *id, enum cm_input input)
{
    return (enum cm_outcome)cm_cells[input][id->state];
}

/* Whether the state takes a call: 0 or its error. A call checks this before it writes its message.
 */
int cm_check_call(const struct cm_id *id, enum cm_input input);

/*
 * One step: takes over what the message says (msg: of CM_RX, else NULL), sends, goes to the next
 * state and reports. The id may be gone when it returns. Of a call that the state does not take,
 * the error.
 */
int cm_step(struct cm_id *id, enum cm_input input, const struct cm_msg *msg, ns_t now);

/* ---- cm_enter.c ---- */

/* Puts an id into a state: limits, tables, timer. */
void cm_enter(struct cm_id *id, enum cm_state state, ns_t now);

/* ---- cm_build.c: messages ---- */

/* Whether private data fit into a message behind `front` bytes of the manager's. */
bool cm_private_fits(struct cm_private private, enum cm_message message, size_t front);

void cm_build_req(struct cm_id *id, const struct cm_connect_param *param);
void cm_build_sidr_req(struct cm_id *id, const struct cm_connect_param *param);
void cm_build_rep(struct cm_id *id, const struct cm_conn_param *param, const struct cm_ece *ece,
                  struct cm_private private);
void cm_build_sidr_rep(struct cm_id *id, const struct cm_sidr_answer *answer);
/* An RTU, DREQ or DREP: comm IDs and private data. */
void cm_build_plain(struct cm_id *id, uint8_t *mad, enum cm_message message,
                    struct cm_private private);
void cm_build_mra(struct cm_id *id, enum cm_message of, uint8_t service_timeout);
void cm_build_rej(struct cm_id *id, uint8_t *mad, uint16_t reason, struct cm_private info,
                  struct cm_private private);
/* What a step sends: CM_SEND_MAD and later. */
void cm_send(struct cm_id *id, enum cm_send what);
/* An answer without an id, to a message from the other end of the way. */
void cm_send_rej(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                 const struct cm_msg *msg, uint16_t reason, struct cm_private info);
void cm_send_drep(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                  const struct cm_msg *msg);
void cm_send_apr(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                 const struct cm_msg *msg, uint8_t status);
void cm_send_sidr_rep(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                      const struct cm_msg *msg, uint8_t status);
void cm_transmit(struct cm *cm, const struct cm_path *path, const uint8_t *mad,
                 enum cm_message message);
void cm_new_transaction(struct cm_id *id);

/* ---- cm_take.c: what messages say ---- */

/* A REQ that was checked: fills an id with what it offers. */
void cm_take_req(struct cm_id *id, const struct cm_msg *msg, const struct cm_path *way,
                 uint64_t transaction_id);
void cm_take_rep(struct cm_id *id, const struct cm_msg *msg);
enum cm_qp_type cm_req_qp_type(const struct cm_msg *msg); /* 0: none that exists */
uint32_t cm_rep_qpn(const struct cm_id *id, const struct cm_msg *msg);

/* ---- cm_report.c ---- */

void cm_report(struct cm_id *id, enum cm_event_type type, enum cm_input input,
               const struct cm_msg *msg);
/* A request for a new id. */
void cm_report_request(struct cm_id *id, const struct cm_msg *msg);

/* ---- cm_early.c ---- */

/* Keeps a REQ or SIDR_REQ that has no listener, if an id is there that may listen. False: it is to
 * be refused. */
bool cm_early_keep(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                   uint64_t service_id, ns_t now);
/* An id listens: what is kept for it is due. */
void cm_early_listen(struct cm *cm, uint64_t service_id);
/* When the first one is due, or NS_NEVER. */
ns_t cm_early_next(const struct cm *cm);
/* The first one that is due, which is no longer kept. False: there is none. */
bool cm_early_take(struct cm *cm, struct cm_early *out, ns_t now);

/* ---- cm_request.c ---- */

/* Receives what was kept and is due. */
void cm_rx_early(struct cm *cm, ns_t now);

void cm_rx_req(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
               const struct cm_msg *msg, ns_t now);
void cm_rx_sidr_req(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                    const struct cm_msg *msg, ns_t now);

#endif
