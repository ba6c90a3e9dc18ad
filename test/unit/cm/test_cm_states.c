/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states' table: rules that every cell obeys, and a walk over all cells of an id that was
 * brought into the state. Each cell must do what it says, and leave timers, limits and tables in
 * order.
 */
#include <errno.h>
#include <string.h>

#include "cm_kit.h"
#include "cm_state.h"
#include "unit.h"

#define PORT        7471
#define PASSIVE_QPN 0x222

static const struct cm_private none;

/* ---- rules of the table ---- */

static const struct cm_outcome_row *cell(enum cm_input input, unsigned state)
{
    return &cm_outcomes[cm_cells[input][state]];
}

static bool fails(enum cm_input input, unsigned state)
{
    return cm_cells[input][state] == CM_DO_no || cm_cells[input][state] == CM_DO_isc;
}

static void test_kinds_of_outcomes(void **state)
{
    for (unsigned i = 0; i < CM_INPUT_COUNT; i++)
        for (unsigned s = 0; s < CM_STATE_COUNT; s++) {
            uint8_t cell = cm_cells[i][s];
            bool timed = cm_states[s].timer != CM_TIMER_NONE;

            if (cm_inputs[i].kind == CM_CALL)
                assert_true(cell != CM_DO_ign && cell != CM_DO_x);
            else
                assert_false(fails((enum cm_input)i, s));
            if (cm_inputs[i].kind == CM_RX) /* only a program's call ends an id */
                assert_true(cell != CM_DO_x && cm_outcomes[cell].next != CM_GONE);
            if (i == CM_IN_EXPIRED)
                assert_int_equal(cell != CM_DO_x, timed);
            if (i == CM_IN_RETRY)
                assert_int_equal(cell != CM_DO_x, timed && cm_states[s].timer != CM_TIMER_TIMEWAIT);
        }
}

/* A program can end an id in every state, and time ends what lingers, without any message. */
static void test_everything_ends(void **state)
{
    for (unsigned s = 0; s < CM_STATE_COUNT; s++) {
        unsigned next = cell(CM_IN_DESTROY, s)->next, steps = 0;

        assert_false(fails(CM_IN_DESTROY, s));
        next = next == CM_SAME ? s : next;
        while (next != CM_GONE && next != CM_IDLE) {
            assert_int_not_equal(cell(CM_IN_EXPIRED, next)->next, CM_SAME);
            next = cell(CM_IN_EXPIRED, next)->next;
            assert_true(++steps <= 3);
        }
    }
}

/* A repetition sends, and leads to a state that times out. */
static void test_repetitions(void **state)
{
    for (unsigned s = 0; s < CM_STATE_COUNT; s++) {
        const struct cm_outcome_row *o = cell(CM_IN_RETRY, s);

        if (cm_cells[CM_IN_RETRY][s] == CM_DO_x)
            continue;
        assert_int_equal(o->sends, CM_SEND_AGAIN);
        assert_int_equal(cm_states[o->next == CM_SAME ? s : o->next].timer, CM_TIMER_RESPONSE);
    }
}

static void test_every_state_is_reached(void **state)
{
    bool reached[CM_STATE_COUNT + 2] = {[CM_IDLE] = true};

    reached[CM_REQ_RCVD] = reached[CM_SIDR_REQ_RCVD] = true; /* of a new request */
    for (unsigned round = 0; round < CM_STATE_COUNT; round++)
        for (unsigned i = 0; i < CM_INPUT_COUNT; i++)
            for (unsigned s = 0; s < CM_STATE_COUNT; s++)
                if (reached[s])
                    reached[cell((enum cm_input)i, s)->next] = true;
    for (unsigned s = 0; s < CM_STATE_COUNT; s++)
        assert_true(reached[s]);
}

/* What is over stays over, whatever arrives. */
static void test_no_way_back(void **state)
{
    static const enum cm_state over[] = {CM_IDLE, CM_TIMEWAIT};

    for (unsigned n = 0; n < ARRAY_SIZE(over); n++)
        for (unsigned i = 0; i < CM_INPUT_COUNT; i++)
            if (cm_inputs[i].kind == CM_RX) {
                assert_int_equal(cell((enum cm_input)i, over[n])->next, CM_SAME);
                assert_int_equal(cell((enum cm_input)i, over[n])->reports, CM_EVENT_NONE);
            }
}

/* A program whose connection is being made, or exists, hears that the other end gives up. */
static void test_rejections_are_reported(void **state)
{
    for (unsigned s = CM_REQ_SENT; s <= CM_DREQ_SENT; s++)
        for (unsigned i = CM_IN_RX_REJ; i <= CM_IN_RX_REJ_STALE; i++)
            assert_int_not_equal(cell((enum cm_input)i, s)->reports, CM_EVENT_NONE);
}

/* ---- the walk ---- */

/* An id of node 1 in a state, with the kit that it lives in. */
struct subject {
    struct cm_kit *k;
    struct cm_id *id;
    uint8_t req[MAD_LEN];
};

/* The active states of node 1 are those of a connection to node 0, which has no manager's answer.
 */
static void reach_active(struct subject *s, enum cm_state state)
{
    uint8_t mad[MAD_LEN];
    struct cm_msg msg = {.message = CM_REP, .data = mad + MAD_HEADER};
    struct cm_kit *k = s->k;

    s->id = cm_kit_connect(k, 1, 0, PORT);
    k->flying = 0;
    if (state == CM_MRA_REQ_RCVD) {
        cm_msg_init(mad, CM_MRA, 1);
        cm_msg_set(mad, CM_MRA_service_timeout, 20);
        msg.message = CM_MRA;
        cm_step(s->id, CM_IN_RX_MRA_REQ, &msg, k->now);
        return;
    }
    if (state == CM_REQ_SENT)
        return;
    cm_msg_init(mad, CM_REP, 1);
    cm_msg_set(mad, CM_REP_local_comm_id, 0x77);
    cm_msg_set(mad, CM_REP_local_ca_guid, 0x99);
    cm_msg_set(mad, CM_REP_local_qpn, PASSIVE_QPN);
    cm_step(s->id, CM_IN_RX_REP, &msg, k->now);
    if (state == CM_MRA_REP_SENT)
        assert_int_equal(cm_delay(s->id, 20, k->now), 0);
    if (state == CM_REP_RCVD || state == CM_MRA_REP_SENT)
        return;
    assert_int_equal(cm_establish(s->id, none, k->now), 0);
    if (state == CM_DREQ_SENT || state == CM_TIMEWAIT)
        assert_int_equal(cm_disconnect(s->id, none, k->now), 0);
    if (state == CM_DREQ_RCVD) {
        cm_msg_init(mad, CM_DREQ, 1);
        msg.message = CM_DREQ;
        cm_step(s->id, CM_IN_RX_DREQ, &msg, k->now);
    } else if (state == CM_TIMEWAIT) {
        cm_msg_init(mad, CM_DREP, 1);
        msg.message = CM_DREP;
        cm_step(s->id, CM_IN_RX_DREP, &msg, k->now);
    }
}

static void reach_passive(struct subject *s, enum cm_state state)
{
    uint8_t mad[MAD_LEN];
    struct cm_msg msg = {.message = CM_MRA, .data = mad + MAD_HEADER};
    struct cm_kit *k = s->k;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_connect(k, 0, 1, PORT);
    memcpy(s->req, k->node[0].sent[0].mad, MAD_LEN);
    cm_kit_deliver(k);
    s->id = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    if (state == CM_MRA_REQ_SENT)
        assert_int_equal(cm_delay(s->id, 20, k->now), 0);
    if (state == CM_REP_SENT || state == CM_MRA_REP_RCVD)
        assert_int_equal(cm_kit_accept(k, s->id, PASSIVE_QPN), 0);
    if (state == CM_MRA_REP_RCVD) {
        cm_msg_init(mad, CM_MRA, 1);
        cm_step(s->id, CM_IN_RX_MRA_REP, &msg, k->now);
    }
}

static void reach_sidr(struct subject *s, enum cm_state state)
{
    unsigned node = state == CM_SIDR_REQ_SENT;
    struct cm_kit *k = s->k;
    struct cm_id *id = cm_kit_bound(k, node, IP_CM_PS_UDP);
    struct cm_path path = cm_kit_path(k, node, 1 - node);
    struct cm_connect_param param = cm_kit_param(k, 1 - node, PORT);

    cm_kit_listen(k, 1, IP_CM_PS_UDP, PORT, 0);
    assert_int_equal(cm_sidr_request(id, &path, &param, k->now), 0);
    s->id = id;
    if (node)
        return;
    cm_kit_deliver(k);
    s->id = cm_kit_last(k, 1, CM_EVENT_SIDR_REQUEST)->id;
}

static struct subject reach(enum cm_state state)
{
    struct subject s = {.k = cm_kit_new(NULL)};

    switch (state) {
    case CM_IDLE: /* a connection that is over */
        reach_active(&s, CM_TIMEWAIT);
        cm_kit_run(s.k, 10 * SEC);
        break;
    case CM_LISTEN:
        s.id = cm_kit_listen(s.k, 1, IP_CM_PS_TCP, PORT, 0);
        break;
    case CM_REQ_RCVD:
    case CM_MRA_REQ_SENT:
    case CM_REP_SENT:
    case CM_MRA_REP_RCVD:
        reach_passive(&s, state);
        break;
    case CM_SIDR_REQ_SENT:
    case CM_SIDR_REQ_RCVD:
        reach_sidr(&s, state);
        break;
    default:
        reach_active(&s, state);
    }
    assert_int_equal(cm_id_state(s.id), state);
    s.k->flying = 0;
    cm_kit_clear(s.k);
    return s;
}

static int call(struct subject *s, enum cm_input input)
{
    ns_t now = s->k->now;
    struct cm_path path = cm_kit_path(s->k, 1, 0);
    struct cm_connect_param param = cm_kit_param(s->k, 0, PORT);

    switch (input) {
    case CM_IN_LISTEN:
        return cm_listen(s->id, 1);
    case CM_IN_CONNECT:
        return cm_connect(s->id, &path, &param, now);
    case CM_IN_SIDR_REQUEST:
        return cm_sidr_request(s->id, &path, &param, now);
    case CM_IN_ACCEPT:
        return cm_kit_accept(s->k, s->id, PASSIVE_QPN);
    case CM_IN_SIDR_REPLY:
        return cm_sidr_reply(s->id, &(struct cm_sidr_answer){.qpn = 5}, now);
    case CM_IN_MRA:
        return cm_delay(s->id, 20, now);
    case CM_IN_REJECT:
        return cm_reject(s->id, CM_REJ_CONSUMER, none, none, now);
    case CM_IN_RTU:
        return cm_establish(s->id, none, now);
    case CM_IN_NOTIFY:
        return cm_notify(s->id, now);
    case CM_IN_DISCONNECT:
        return cm_disconnect(s->id, none, now);
    default:
        cm_id_destroy(s->id, now);
        return 0;
    }
}

/* What an outcome sends, from a state; CM_MESSAGE_COUNT: nothing. */
static enum cm_message message_of(enum cm_send sends, enum cm_input input, enum cm_message last)
{
    static const enum cm_message of_call[CM_INPUT_COUNT] = {
        [CM_IN_CONNECT] = CM_REQ, [CM_IN_SIDR_REQUEST] = CM_SIDR_REQ,
        [CM_IN_ACCEPT] = CM_REP,  [CM_IN_SIDR_REPLY] = CM_SIDR_REP,
        [CM_IN_MRA] = CM_MRA,     [CM_IN_REJECT] = CM_REJ,
        [CM_IN_RTU] = CM_RTU};

    switch (sends) {
    case CM_SEND_MAD:
        if (input != CM_IN_DISCONNECT)
            return of_call[input];
        return last == CM_RTU ? CM_DREQ : CM_DREP;
    case CM_SEND_AGAIN:
        return last;
    case CM_SEND_MRA_REQ:
    case CM_SEND_MRA_REP:
        return CM_MRA;
    case CM_SEND_REJ_TIMEOUT:
    case CM_SEND_REJ_CONSUMER:
    case CM_SEND_REJ_STALE:
    case CM_SEND_REJ_UNKNOWN:
    case CM_SEND_REJ_AGAIN:
    case CM_SEND_REJ_GONE:
        return CM_REJ;
    case CM_SEND_APR:
        return CM_APR;
    case CM_SEND_DREQ:
        return CM_DREQ;
    case CM_SEND_DREP:
    case CM_SEND_DREP_AGAIN:
        return CM_DREP;
    case CM_SEND_SIDR_REJECT:
        return CM_SIDR_REP;
    default:
        return CM_MESSAGE_COUNT;
    }
}

static enum cm_message last_message(const struct cm_id *id)
{
    struct cm_msg msg;

    return cm_msg_parse(&msg, id->mad, MAD_LEN) ? msg.message : CM_MESSAGE_COUNT;
}

/* Limits, tables and the timer are those of the state. */
static void check_order(const struct cm_id *id)
{
    enum cm_state state = cm_id_state(id);
    const struct cm_id *listener = id->listener;

    assert_int_equal(id->timer.at != 0, cm_states[state].timer != CM_TIMER_NONE);
    assert_true(!listener || cm_states[state].half_open);
    if (listener) {
        assert_int_equal(listener->waiting, cm_states[state].waits);
        assert_int_equal(listener->half_open, 1);
    }
    if (state == CM_IDLE)
        assert_true(!id->by_remote_id.linked && !id->by_remote_qpn.linked);
    if (state == CM_TIMEWAIT)
        assert_true(id->by_remote_id.linked == !!id->remote_comm_id && !id->by_remote_qpn.linked);
    assert_false(id->by_service.linked);
}

static void check_sent(const struct subject *s, enum cm_message message, bool dreq_in_state)
{
    struct cm_msg msg;

    if (message == CM_MESSAGE_COUNT) {
        assert_int_equal(s->k->node[1].sends, 0);
        return;
    }
    assert_int_equal(s->k->node[1].sends, 1);
    msg = cm_kit_last_sent(s->k, 1);
    assert_int_equal(msg.message, dreq_in_state ? CM_DREP : message);
}

static void check_reported(const struct subject *s, const struct cm_outcome_row *o)
{
    if (o->reports == CM_EVENT_NONE)
        assert_int_equal(s->k->node[1].events, 0);
    else
        assert_ptr_equal(cm_kit_last(s->k, 1, (enum cm_event_type)o->reports)->id, s->id);
}

/* A message as the input has it; of a REP and REQ as much as taking it over needs. */
static struct cm_msg message_for(enum cm_input input, uint8_t *mad)
{
    static const enum cm_message of[CM_INPUT_COUNT] = {
        [CM_IN_RX_REQ] = CM_REQ,           [CM_IN_RX_PEER_REQ] = CM_REQ,
        [CM_IN_RX_STALE] = CM_REQ,         [CM_IN_RX_MRA_REQ] = CM_MRA,
        [CM_IN_RX_MRA_REP] = CM_MRA,       [CM_IN_RX_REJ] = CM_REJ,
        [CM_IN_RX_REJ_STALE] = CM_REJ,     [CM_IN_RX_REP] = CM_REP,
        [CM_IN_RX_RTU] = CM_RTU,           [CM_IN_RX_DREQ] = CM_DREQ,
        [CM_IN_RX_DREP] = CM_DREP,         [CM_IN_RX_LAP] = CM_LAP,
        [CM_IN_RX_APR] = CM_APR,           [CM_IN_RX_SIDR_REQ] = CM_SIDR_REQ,
        [CM_IN_RX_SIDR_REP] = CM_SIDR_REP,
    };
    struct cm_msg msg = {.message = of[input], .data = mad + MAD_HEADER};

    cm_msg_init(mad, of[input], 7);
    return msg;
}

/*
 * No two managers can keep each other busy: what a message is answered by, without a program, comes
 * behind it in one order of all messages.
 */
static void test_answers_end(void **state)
{
    static const unsigned rank[CM_MESSAGE_COUNT] = {
        [CM_REQ] = 0,  [CM_SIDR_REQ] = 0, [CM_LAP] = 0, [CM_REP] = 1,
        [CM_RTU] = 2,  [CM_DREQ] = 2,     [CM_MRA] = 3, [CM_REJ] = 3,
        [CM_DREP] = 3, [CM_SIDR_REP] = 3, [CM_APR] = 3};
    uint8_t mad[MAD_LEN];

    for (unsigned i = 0; i < CM_INPUT_COUNT; i++)
        for (unsigned st = 0; st < CM_STATE_COUNT; st++) {
            struct subject s;
            enum cm_message answer;

            if (cm_inputs[i].kind != CM_RX)
                continue;
            if (st == CM_IDLE || st == CM_TIMEWAIT) /* their last message may be any */
                assert_int_not_equal(cell((enum cm_input)i, st)->sends, CM_SEND_AGAIN);
            s = reach((enum cm_state)st);
            answer = message_of((enum cm_send)cell((enum cm_input)i, st)->sends, (enum cm_input)i,
                                last_message(s.id));
            if (answer != CM_MESSAGE_COUNT)
                assert_true(rank[answer] > rank[message_for((enum cm_input)i, mad).message]);
            cm_kit_free(s.k);
        }
}

static void walk_cell(enum cm_input input, enum cm_state state)
{
    const struct cm_outcome_row *o = cell(input, state);
    struct subject s = reach(state);
    enum cm_message last = last_message(s.id);
    uint8_t mad[MAD_LEN];
    uint32_t ids = s.k->node[1].cm->ids;
    int err = 0;

    if (cm_inputs[input].kind == CM_CALL) {
        err = call(&s, input);
    } else if (cm_inputs[input].kind == CM_RX) {
        struct cm_msg msg = message_for(input, mad);

        err = cm_step(s.id, input, &msg, s.k->now);
    } else if (s.id->timer.at) {
        s.id->retries_left = input == CM_IN_RETRY ? 1 : 0;
        s.k->now = s.id->timer.deadline;
        if (state != CM_TIMEWAIT || input == CM_IN_EXPIRED)
            cm_timers(s.k->node[1].cm, s.k->now);
    }
    assert_int_equal(
        err, fails(input, state) ? (cm_cells[input][state] == CM_DO_isc ? -EISCONN : -EINVAL) : 0);
    check_sent(&s, message_of((enum cm_send)o->sends, input, last),
               input == CM_IN_DISCONNECT && state == CM_DREQ_RCVD);
    if (o->next == CM_GONE) {
        assert_int_equal(s.k->node[1].cm->ids, ids - 1);
        assert_int_equal(s.k->node[1].events, 0);
    } else {
        assert_int_equal(cm_id_state(s.id), o->next == CM_SAME ? state : o->next);
        assert_int_equal(s.k->node[1].cm->ids, ids);
        check_reported(&s, o);
        check_order(s.id);
    }
    cm_kit_free(s.k);
}

static void test_every_cell(void **state)
{
    for (unsigned i = 0; i < CM_INPUT_COUNT; i++)
        for (unsigned s = 0; s < CM_STATE_COUNT; s++)
            walk_cell((enum cm_input)i, (enum cm_state)s);
}

/* After any input, the program's end of the id leaves nothing once enough time has passed. */
static void test_every_cell_can_be_left(void **state)
{
    for (unsigned i = 0; i < CM_INPUT_COUNT; i++)
        for (unsigned st = 0; st < CM_STATE_COUNT; st++) {
            struct subject s = reach((enum cm_state)st);
            uint32_t ids = s.k->node[1].cm->ids;
            uint8_t mad[MAD_LEN];

            if (cm_inputs[i].kind == CM_CALL && i != CM_IN_DESTROY) {
                call(&s, (enum cm_input)i);
            } else if (cm_inputs[i].kind == CM_RX) {
                struct cm_msg msg = message_for((enum cm_input)i, mad);

                cm_step(s.id, (enum cm_input)i, &msg, s.k->now);
            }
            cm_id_destroy(s.id, s.k->now);
            cm_kit_clear(s.k);
            s.k->loss = 256;
            cm_kit_run(s.k, 1000 * SEC);
            assert_int_equal(s.k->node[1].cm->ids, ids - 1);
            assert_int_equal(cm_next_timer(s.k->node[1].cm), NS_NEVER);
            assert_int_equal(s.k->node[1].events, 0);
            cm_kit_free(s.k);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_outcomes),
        cmocka_unit_test(test_everything_ends),
        cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_every_state_is_reached),
        cmocka_unit_test(test_no_way_back),
        cmocka_unit_test(test_rejections_are_reported),
        cmocka_unit_test(test_answers_end),
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_every_cell_can_be_left),
    };

    return cmocka_run_group_tests_name("cm_states", tests, NULL, NULL);
}
