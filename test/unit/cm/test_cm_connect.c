/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two managers make, refuse and end connections: what each end learns, and what happens when
 * messages are lost, repeated or late.
 */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "cm_internal.h"
#include "cm_kit.h"
#include "unit.h"

#define PORT        7471
#define ACTIVE_QPN  0x111
#define PASSIVE_QPN 0x222

static const struct cm_private none;

static enum cm_state state_of(const struct cm_id *id)
{
    return cm_id_state(id);
}

/* ---- the way it goes ---- */

static void check_request(struct cm_kit *k, const struct cm_event *e, struct cm_id *listener)
{
    union gid own = cm_kit_gid(k, 1), peer = cm_kit_gid(k, 0);

    assert_ptr_equal(e->listener, listener);
    assert_null(cm_id_owner(e->id));
    assert_int_equal(e->conn.qpn, ACTIVE_QPN);
    assert_int_equal(e->conn.qp_type, CM_QP_RC);
    assert_int_equal(e->conn.responder_resources, 4);
    assert_int_equal(e->conn.initiator_depth, 3);
    assert_int_equal(e->conn.flow_control, 1);
    assert_int_equal(e->conn.retry_count, 5);
    assert_int_equal(e->conn.rnr_retry_count, 6);
    assert_int_equal(e->private.len, 56);
    assert_memory_equal(e->private.data, "request", 7);
    assert_int_equal(e->ece.vendor_id, 0x123456);
    assert_int_equal(e->ece.options, 0x789abcde);
    assert_true(gid_eq(&cm_id_src(e->id)->gid, &own) && gid_eq(&cm_id_dst(e->id)->gid, &peer));
    assert_int_equal(cm_id_src(e->id)->number, PORT);
    assert_true(cm_id_dst(e->id)->number >= 32768 && cm_id_dst(e->id)->number <= 60999);
    assert_int_equal(cm_id_path(e->id)->flow_label, cm_kit_path(k, 0, 1).flow_label);
}

static void make_connection(struct cm_kit *k)
{
    struct cm_id *listener = cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0), *active, *passive;
    struct cm_connect_param param = cm_kit_param(k, 1, PORT);
    struct cm_path path = cm_kit_path(k, 0, 1);
    const struct cm_event *e;
    struct cm_conn_param conn = {
        .qpn = PASSIVE_QPN, .responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 7};

    active = cm_kit_bound(k, 0, IP_CM_PS_TCP);
    param.private = (struct cm_private){"request", 7};
    param.ece = (struct cm_ece){0x123456, 0x789abcde};
    assert_int_equal(cm_connect(active, &path, &param, k->now), 0);
    assert_int_equal(state_of(active), CM_REQ_SENT);
    cm_kit_deliver(k);
    e = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST);
    check_request(k, e, listener);
    passive = e->id;
    assert_int_equal(state_of(passive), CM_REQ_RCVD);
    assert_int_equal(cm_accept(passive, &conn, &(struct cm_ece){0xabcdef, 0x01020304},
                               (struct cm_private){"reply", 5}, k->now),
                     0);
    assert_int_equal(state_of(passive), CM_REP_SENT);
    cm_kit_deliver(k);
    e = cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE);
    assert_ptr_equal(e->id, active);
    assert_int_equal(e->conn.qpn, PASSIVE_QPN);
    assert_int_equal(e->conn.responder_resources, 1);
    assert_int_equal(e->conn.initiator_depth, 2);
    assert_int_equal(e->conn.rnr_retry_count, 7);
    assert_int_equal(e->private.len, 196);
    assert_memory_equal(e->private.data, "reply", 5);
    assert_int_equal(e->ece.vendor_id, 0xabcdef);
    assert_int_equal(e->ece.options, 0x01020304);
    assert_int_equal(state_of(active), CM_REP_RCVD);
    assert_int_equal(cm_establish(active, (struct cm_private){"ready", 5}, k->now), 0);
    cm_kit_deliver(k);
    e = cm_kit_last(k, 1, CM_EVENT_ESTABLISHED);
    assert_memory_equal(e->private.data, "ready", 5);
    assert_int_equal(state_of(active), CM_ESTABLISHED);
    assert_int_equal(state_of(passive), CM_ESTABLISHED);
    assert_int_equal(k->sends, 3);
    assert_int_equal(cm_next_timer(k->node[0].cm), NS_NEVER);
    assert_int_equal(cm_next_timer(k->node[1].cm), NS_NEVER);
}

static void test_connection(void **state)
{
    for (unsigned v6 = 0; v6 < 2; v6++) {
        struct cm_kit *k = cm_kit_new(NULL);

        k->v6 = v6;
        make_connection(k);
        cm_kit_free(k);
    }
}

/* Both learn the same: each other's ID, GUID, QPN. */
static void test_what_both_know(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    struct cm_id_info a, p;

    cm_kit_establish(k, &active, &passive);
    cm_id_query(active, &a);
    cm_id_query(passive, &p);
    assert_int_equal(a.local_comm_id, p.remote_comm_id);
    assert_int_equal(p.local_comm_id, a.remote_comm_id);
    assert_int_not_equal(a.local_comm_id, 0);
    assert_true(a.remote_ca_guid == cm_kit_path(k, 1, 0).ca_guid);
    assert_true(p.remote_ca_guid == cm_kit_path(k, 0, 1).ca_guid);
    assert_int_equal(a.remote_qpn, PASSIVE_QPN);
    assert_int_equal(p.remote_qpn, ACTIVE_QPN);
    assert_true(p.passive && !a.passive);
    assert_true(a.service_id == 0x01060000 + PORT && p.service_id == a.service_id);
    cm_kit_free(k);
}

/* The passive side's queue pair saw a packet before the RTU came. */
static void test_notified(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *passive;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_notify(passive, k->now), -EINVAL);
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    assert_int_equal(cm_notify(passive, k->now), 0);
    cm_kit_last(k, 1, CM_EVENT_ESTABLISHED);
    assert_int_equal(cm_notify(passive, k->now), -EISCONN);
    assert_int_equal(cm_kit_count(k, 1, CM_EVENT_ESTABLISHED), 1);
    cm_kit_free(k);
}

/* ---- loss and repetition ---- */

/* Accepts and establishes at once. */
static void willing(struct cm_kit_node *n, const struct cm_event *e)
{
    if (e->type == CM_EVENT_CONNECT_REQUEST)
        assert_int_equal(cm_kit_accept(n->kit, e->id, PASSIVE_QPN), 0);
    else if (e->type == CM_EVENT_CONNECT_RESPONSE)
        assert_int_equal(cm_establish(e->id, none, n->kit->now), 0);
    else if (e->type == CM_EVENT_DISCONNECTED && e->by_peer)
        assert_int_equal(cm_disconnect(e->id, none, n->kit->now), 0);
}

static struct cm_kit *willing_pair(void)
{
    struct cm_kit *k = cm_kit_new(NULL);

    k->node[0].on_event = k->node[1].on_event = willing;
    return k;
}

/* Any of the first eight messages are lost: both ends connect once. */
static void test_any_loss(void **state)
{
    for (uint64_t lose = 0; lose < 256; lose++) {
        struct cm_kit *k = willing_pair();
        struct cm_id *active, *passive;

        k->lose = lose;
        cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
        active = cm_kit_connect(k, 0, 1, PORT);
        cm_kit_run(k, 120 * SEC);
        passive = k->node[1].event[0].e.id;
        assert_int_equal(state_of(active), CM_ESTABLISHED);
        assert_int_equal(state_of(passive), CM_ESTABLISHED);
        assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), 1);
        assert_int_equal(k->node[1].events, 2);
        assert_int_equal(k->node[0].events, 1);
        assert_int_equal(k->flying, 0);
        cm_kit_free(k);
    }
}

/* The same of a connection's end, from either end and from both. */
static void test_any_loss_at_the_end(void **state)
{
    for (uint64_t n = 0; n < 3 * 64; n++) {
        struct cm_kit *k = willing_pair();
        struct cm_id *id[2];

        k->node[0].on_event = k->node[1].on_event = NULL;
        cm_kit_establish(k, &id[0], &id[1]);
        k->node[0].on_event = k->node[1].on_event = willing;
        k->sends = 0;
        k->lose = n % 64;
        for (unsigned i = 0; i < 2; i++)
            if (n / 64 != 1 - i)
                assert_int_equal(cm_disconnect(id[i], none, k->now), 0);
        cm_kit_run(k, 120 * SEC);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(state_of(id[i]), CM_IDLE);
            assert_int_equal(cm_kit_count(k, i, CM_EVENT_DISCONNECTED), 1);
            assert_int_equal(cm_kit_count(k, i, CM_EVENT_TIMEWAIT_EXIT), 1);
            assert_int_equal(k->node[i].events, 2);
        }
        cm_kit_free(k);
    }
}

/* A program that takes its time: the first repetition is answered by an MRA, and the peer waits. */
static void test_slow_program(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    struct cm_msg msg;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_run(k, 6144 * MS + 2 * CM_KIT_LATENCY);
    assert_int_equal(k->node[0].sends, 2);
    msg = cm_kit_last_sent(k, 1);
    assert_int_equal(msg.message, CM_MRA);
    assert_int_equal(cm_msg_get(&msg, CM_MRA_message_mraed), 0);
    assert_int_equal(cm_msg_get(&msg, CM_MRA_service_timeout), CM_SERVICE_TIMEOUT);
    assert_int_equal(state_of(active), CM_MRA_REQ_RCVD);
    cm_kit_run(k, 65 * SEC);
    assert_int_equal(k->node[0].sends, 2);
    passive = k->node[1].event[0].e.id;
    assert_int_equal(state_of(passive), CM_MRA_REQ_SENT);
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE);
    /* The same at the active side. */
    cm_kit_run(k, 6144 * MS + 2 * CM_KIT_LATENCY);
    msg = cm_kit_last_sent(k, 0);
    assert_int_equal(msg.message, CM_MRA);
    assert_int_equal(cm_msg_get(&msg, CM_MRA_message_mraed), 1);
    assert_int_equal(state_of(passive), CM_MRA_REP_RCVD);
    cm_kit_run(k, 60 * SEC);
    assert_int_equal(cm_establish(active, none, k->now), 0);
    cm_kit_deliver(k);
    cm_kit_last(k, 1, CM_EVENT_ESTABLISHED);
    cm_kit_free(k);
}

/* A program says how long it takes; after that time the peer asks again, and is told no more. */
static void test_delay(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    ns_t start;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_delay(passive, 32, k->now), -EINVAL);
    assert_int_equal(cm_delay(passive, 22, k->now), 0);
    assert_int_equal(cm_delay(passive, 22, k->now), -EINVAL);
    cm_kit_deliver(k);
    start = k->now;
    assert_int_equal(state_of(active), CM_MRA_REQ_RCVD);
    /* 2^14 ms, and 2^11 ms for the way: the acknowledgment timeout of the path. */
    assert_int_equal(cm_next_timer(k->node[0].cm), start + (16384 + 2048) * MS);
    cm_kit_run(k, (16384 + 2048) * MS + CM_KIT_LATENCY);
    assert_int_equal(k->node[0].sends, 2);
    assert_int_equal(state_of(active), CM_REQ_SENT);
    cm_kit_deliver(k);
    assert_int_equal(state_of(active), CM_MRA_REQ_RCVD); /* the MRA was repeated */
    cm_kit_free(k);
}

/* ---- no answer ---- */

/* The time of every repetition, for each number of them. */
static void test_unreachable(void **state)
{
    for (uint8_t retries = 0; retries <= 15; retries += 5) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_id *id = cm_kit_bound(k, 0, IP_CM_PS_TCP);
        struct cm_path path = cm_kit_path(k, 0, 2);
        struct cm_connect_param param = cm_kit_param(k, 2, PORT);
        ns_t start = k->now;
        struct cm_msg msg;

        param.max_cm_retries = retries;
        assert_int_equal(cm_connect(id, &path, &param, k->now), 0);
        cm_kit_run(k, 200 * SEC);
        assert_int_equal(k->node[0].sends, retries + 2);
        for (unsigned n = 0; n <= retries; n++)
            assert_int_equal(k->node[0].sent[n].at, start + n * 6144 * MS);
        assert_int_equal(cm_kit_last(k, 0, CM_EVENT_UNREACHABLE)->status, -ETIMEDOUT);
        assert_int_equal(k->node[0].event[0].at, start + (retries + 1u) * 6144 * MS);
        assert_int_equal(k->node[0].events, 1);
        assert_int_equal(state_of(id), CM_IDLE);
        msg = cm_kit_last_sent(k, 0);
        assert_int_equal(msg.message, CM_REJ);
        assert_int_equal(cm_msg_get(&msg, CM_REJ_reason), CM_REJ_TIMEOUT);
        assert_int_equal(cm_msg_get(&msg, CM_REJ_info_length), 8);
        assert_memory_equal(cm_msg_bytes(&msg, CM_REJ_info), "\x50\x54\x00\xff\xfe\x00\x00\x0a", 8);
        assert_int_equal(cm_counters(k->node[0].cm)->retries, retries);
        cm_kit_free(k);
    }
}

/* The RTUs are lost, and so is the REJ in the end: the passive side gives up, and whatever the
 * active side sends then ends it there, too. */
static void test_ready_never_comes(void **state)
{
    struct cm_kit *k = willing_pair();
    struct cm_id *active, *passive;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_run(k, 2 * CM_KIT_LATENCY); /* the REP has arrived, the RTU is on its way */
    k->flying = 0;
    k->loss = 256;
    cm_kit_run(k, 120 * SEC);
    passive = k->node[1].event[0].e.id;
    assert_int_equal(cm_kit_count(k, 1, CM_EVENT_UNREACHABLE), 1);
    cm_kit_last(k, 1, CM_EVENT_TIMEWAIT_EXIT);
    assert_int_equal(state_of(passive), CM_IDLE);
    assert_int_equal(state_of(active), CM_ESTABLISHED);
    k->loss = 0;
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(cm_kit_count(k, 0, CM_EVENT_DISCONNECTED), 1);
    assert_int_equal(state_of(active), CM_IDLE);
    cm_kit_free(k);
}

/* The passive side has given up when the RTU comes: its state, idle or gone, does not matter. */
static void test_ready_too_late(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        struct cm_kit *k = willing_pair();
        struct cm_id *active, *passive;

        k->node[0].on_event = NULL;
        cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
        active = cm_kit_connect(k, 0, 1, PORT);
        cm_kit_run(k, 2 * CM_KIT_LATENCY);
        k->loss = 256;
        cm_kit_run(k, 16 * 6144 * MS - (i ? 0 : 5 * MS) + (i ? 10 * SEC : 0));
        if (!i)
            while (!cm_kit_count(k, 1, CM_EVENT_UNREACHABLE))
                cm_kit_run(k, MS);
        passive = k->node[1].event[0].e.id;
        assert_int_equal(state_of(passive), i ? CM_IDLE : CM_TIMEWAIT);
        if (i == 2)
            cm_id_destroy(passive, k->now);
        k->loss = 0;
        assert_int_equal(cm_establish(active, none, k->now), 0);
        cm_kit_deliver(k);
        cm_kit_last(k, 0, CM_EVENT_REJECTED);
        assert_int_equal(state_of(active), CM_TIMEWAIT);
        cm_kit_free(k);
    }
}

/* Two copies of a REP and a connection that was rejected as stale: neither end answers for ever. */
static void test_no_storm(void **state)
{
    struct cm_kit *k = willing_pair();
    struct cm_id *active, *passive;
    uint8_t rej[MAD_LEN];

    k->node[0].on_event = NULL;
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_run(k, 2 * CM_KIT_LATENCY);
    passive = k->node[1].event[0].e.id;
    assert_int_equal(cm_establish(active, none, k->now), 0);
    k->flying = 0;
    cm_msg_init(rej, CM_REJ, 1);
    cm_msg_set(rej, CM_REJ_local_comm_id, active->local_comm_id);
    cm_msg_set(rej, CM_REJ_remote_comm_id, passive->local_comm_id);
    cm_msg_set(rej, CM_REJ_message_rejected, CM_ANSWERED_REP);
    cm_msg_set(rej, CM_REJ_reason, CM_REJ_STALE_CONNECTION);
    cm_kit_rx(k, 0, 1, rej);
    assert_int_equal(state_of(passive), CM_TIMEWAIT);
    cm_kit_clear(k);
    cm_kit_rx(k, 1, 0, k->node[1].sent[0].mad); /* the REP once more */
    cm_kit_run(k, SEC);
    assert_int_equal(k->node[0].sends, 1);
    assert_int_equal(k->node[1].sends, 1);
    assert_int_equal(state_of(active), CM_TIMEWAIT);
    cm_kit_free(k);
}

/* A repeated REP that the active side answers by an MRA is taken over once. */
static void test_response_is_taken_once(void **state)
{
    struct cm_kit *k = willing_pair();
    struct cm_id *active;

    k->node[0].on_event = NULL;
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(state_of(active), CM_MRA_REP_SENT);
    assert_int_equal(k->node[0].cm->by_remote_id.count, 1);
    assert_int_equal(k->node[0].cm->by_remote_qpn.count, 1);
    cm_id_destroy(active, k->now);
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(k->node[0].cm->by_remote_id.count, 0);
    cm_kit_free(k);
}

/* The same, but the REJ arrives. */
static void test_timeout_is_told(void **state)
{
    struct cm_kit *k = willing_pair();
    struct cm_id *active;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_run(k, 2 * CM_KIT_LATENCY);
    k->flying = 0;
    k->node[0].on_event = NULL;
    k->loss = 256;
    while (!cm_kit_count(k, 1, CM_EVENT_UNREACHABLE)) {
        k->loss =
            cm_kit_sent(k, 1, k->node[1].sends - 1).message == CM_REP && k->node[1].sends == 16
                ? 0
                : 256;
        cm_kit_run(k, 6 * SEC);
    }
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(k->node[0].events, 3);
    assert_int_equal(k->node[0].event[1].e.type, CM_EVENT_REJECTED);
    assert_int_equal(k->node[0].event[1].e.status, CM_REJ_TIMEOUT);
    cm_kit_last(k, 0, CM_EVENT_TIMEWAIT_EXIT);
    assert_int_equal(state_of(active), CM_IDLE);
    cm_kit_free(k);
}

/* ---- refusals ---- */

static void test_no_listener(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active = cm_kit_connect(k, 0, 1, PORT);
    const struct cm_event *e;

    cm_kit_deliver(k);
    e = cm_kit_last(k, 0, CM_EVENT_REJECTED);
    assert_int_equal(e->status, CM_REJ_INVALID_SERVICE_ID);
    assert_int_equal(e->private.len, 148);
    assert_int_equal(state_of(active), CM_IDLE);
    assert_int_equal(k->node[1].events, 0);
    assert_int_equal(cm_counters(k->node[1].cm)->refused, 1);
    assert_int_equal(cm_next_timer(k->node[0].cm), NS_NEVER);
    cm_kit_free(k);
}

static void test_rejected(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    const struct cm_event *e;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_reject(passive, CM_REJ_CONSUMER, (struct cm_private){"why", 3},
                               (struct cm_private){"no", 2}, k->now),
                     0);
    assert_int_equal(state_of(passive), CM_IDLE);
    cm_kit_deliver(k);
    e = cm_kit_last(k, 0, CM_EVENT_REJECTED);
    assert_int_equal(e->status, CM_REJ_CONSUMER);
    assert_int_equal(e->info.len, 3);
    assert_memory_equal(e->info.data, "why", 3);
    assert_memory_equal(e->private.data, "no", 2);
    assert_int_equal(state_of(active), CM_IDLE);
    cm_kit_free(k);
}

/* The active side rejects the REP: the passive side hears of it; its packets may be under way. */
static void test_response_rejected(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    k->sends = 0;
    k->lose = 1; /* the REJ: the next REP is answered by it again */
    assert_int_equal(cm_reject(active, CM_REJ_NO_RESOURCES, none, none, k->now), 0);
    assert_int_equal(state_of(active), CM_TIMEWAIT);
    cm_kit_run(k, 20 * SEC);
    assert_int_equal(k->node[1].event[1].e.type, CM_EVENT_REJECTED);
    assert_int_equal(k->node[1].event[1].e.status, CM_REJ_INVALID_COMM_ID);
    assert_int_equal(state_of(passive), CM_IDLE);
    cm_kit_free(k);
}

/* A program that ends while its REQ is being looked at: the peer knows no ID of that end, but a
 * GUID.
 */
static void test_withdrawn(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    cm_id_destroy(active, k->now);
    cm_kit_deliver(k);
    assert_int_equal(cm_kit_last(k, 1, CM_EVENT_REJECTED)->status, CM_REJ_TIMEOUT);
    assert_ptr_equal(cm_kit_last(k, 1, CM_EVENT_REJECTED)->id, passive);
    assert_int_equal(state_of(passive), CM_IDLE);
    cm_kit_free(k);
}

/* Sizes of private data at their limits and beyond. */
static void test_sizes(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active = cm_kit_bound(k, 0, IP_CM_PS_TCP), *passive;
    struct cm_path path = cm_kit_path(k, 0, 1);
    struct cm_connect_param param = cm_kit_param(k, 1, PORT);
    struct cm_conn_param conn = {.qpn = PASSIVE_QPN};
    uint8_t bytes[256];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)~i;
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    param.private = (struct cm_private){bytes, 57};
    assert_int_equal(cm_connect(active, &path, &param, k->now), -EINVAL);
    param.private.len = 56;
    assert_int_equal(cm_connect(active, &path, &param, k->now), 0);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_memory_equal(cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->private.data, bytes, 56);
    assert_int_equal(cm_accept(passive, &conn, NULL, (struct cm_private){bytes, 197}, k->now),
                     -EINVAL);
    assert_int_equal(cm_reject(passive, 28, none, (struct cm_private){bytes, 149}, k->now),
                     -EINVAL);
    assert_int_equal(cm_reject(passive, 28, (struct cm_private){bytes, 73}, none, k->now), -EINVAL);
    assert_int_equal(cm_accept(passive, &conn, NULL, (struct cm_private){bytes, 196}, k->now), 0);
    cm_kit_deliver(k);
    assert_memory_equal(cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE)->private.data, bytes, 196);
    assert_int_equal(cm_establish(active, (struct cm_private){bytes, 225}, k->now), -EINVAL);
    assert_int_equal(cm_establish(active, (struct cm_private){bytes, 224}, k->now), 0);
    cm_kit_deliver(k);
    assert_memory_equal(cm_kit_last(k, 1, CM_EVENT_ESTABLISHED)->private.data, bytes, 224);
    assert_int_equal(cm_disconnect(active, (struct cm_private){bytes, 221}, k->now), -EINVAL);
    assert_int_equal(cm_disconnect(active, (struct cm_private){bytes, 220}, k->now), 0);
    cm_kit_deliver(k);
    assert_memory_equal(cm_kit_last(k, 1, CM_EVENT_DISCONNECTED)->private.data, bytes, 220);
    assert_int_equal(cm_disconnect(passive, (struct cm_private){bytes, 224}, k->now), 0);
    cm_kit_deliver(k);
    assert_memory_equal(cm_kit_last(k, 0, CM_EVENT_DISCONNECTED)->private.data, bytes, 224);
    cm_kit_free(k);
}

/* ---- the end ---- */

static void test_disconnect(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    ns_t end;

    cm_kit_establish(k, &active, &passive);
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    assert_int_equal(cm_disconnect(active, none, k->now), -EINVAL);
    cm_kit_deliver(k);
    assert_true(cm_kit_last(k, 1, CM_EVENT_DISCONNECTED)->by_peer);
    assert_int_equal(state_of(passive), CM_DREQ_RCVD);
    assert_int_equal(cm_disconnect(passive, none, k->now), 0);
    assert_int_equal(state_of(passive), CM_TIMEWAIT);
    assert_true(mad_get(k->node[1].sent[0].mad, MAD_transaction_id) ==
                mad_get(k->node[0].sent[0].mad, MAD_transaction_id));
    cm_kit_deliver(k);
    assert_false(cm_kit_last(k, 0, CM_EVENT_DISCONNECTED)->by_peer);
    end = k->now;
    assert_int_equal(state_of(active), CM_TIMEWAIT);
    cm_kit_run(k, SEC);
    assert_int_equal(state_of(active), CM_TIMEWAIT);
    cm_kit_run(k, 10 * SEC);
    cm_kit_last(k, 0, CM_EVENT_TIMEWAIT_EXIT);
    cm_kit_last(k, 1, CM_EVENT_TIMEWAIT_EXIT);
    /* 2^19 * 4.096 us: life time 18 twice, and the peer's delay of 15 is less than half of that. */
    assert_int_equal(k->node[0].event[1].at, end + 2048 * MS);
    assert_int_equal(state_of(active), CM_IDLE);
    cm_kit_free(k);
}

/* The peer is gone: the end says that it was not answered. */
static void test_disconnect_unanswered(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;

    cm_kit_establish(k, &active, &passive);
    k->sends = 0;
    k->lose = UINT64_MAX;
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    cm_kit_run(k, 100 * SEC);
    assert_int_equal(cm_kit_last(k, 0, CM_EVENT_DISCONNECTED)->status, -ETIMEDOUT);
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(cm_kit_last(k, 0, CM_EVENT_TIMEWAIT_EXIT)->status, 0);
    cm_kit_free(k);
}

/* A DREQ that is late: of a connection in TIMEWAIT, idle, and of none. */
static void test_late_disconnect(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    uint8_t dreq[MAD_LEN];
    struct cm_msg msg;

    cm_kit_establish(k, &active, &passive);
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    memcpy(dreq, k->node[0].sent[0].mad, sizeof(dreq));
    cm_kit_deliver(k);
    assert_int_equal(cm_disconnect(passive, (struct cm_private){"bye", 3}, k->now), 0);
    for (unsigned i = 0; i < 3; i++) {
        cm_kit_run(k, i == 1 ? 10 * SEC : MS);
        if (i == 2)
            cm_id_destroy(passive, k->now);
        cm_kit_clear(k);
        cm_kit_rx(k, 0, 1, dreq);
        assert_int_equal(k->node[1].sends, 1);
        assert_int_equal(k->node[1].events, 0);
        msg = cm_kit_last_sent(k, 1);
        assert_int_equal(msg.message, CM_DREP);
        assert_true(cm_msg_get(&msg, CM_DREP_remote_comm_id) == get_be32(dreq + MAD_HEADER));
        assert_true(cm_msg_get(&msg, CM_DREP_local_comm_id) == get_be32(dreq + MAD_HEADER + 4));
        if (i < 2)
            assert_memory_equal(cm_msg_private_room(k->node[1].sent[0].mad, CM_DREP), "bye", 3);
    }
    cm_kit_free(k);
}

/* A program that ends a connection by its end: the manager ends it, and frees the id. */
static void test_destroyed_connection(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;

    cm_kit_establish(k, &active, &passive);
    k->sends = 0;
    k->lose = 3; /* two DREQs */
    cm_id_destroy(active, k->now);
    assert_int_equal(k->node[0].cm->ids, 1);
    cm_kit_run(k, 15 * SEC);
    assert_int_equal(k->node[0].sends, 3);
    cm_kit_last(k, 1, CM_EVENT_DISCONNECTED);
    assert_int_equal(cm_disconnect(passive, none, k->now), 0);
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(k->node[0].cm->ids, 0);
    assert_int_equal(k->node[0].events, 0);
    cm_kit_free(k);
}

/* ---- peers that forget, or are others ---- */

/* The peer restarts: its new REQ has the old queue pair. It is refused, and the old connection
 * ends. */
static void test_stale_connection(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    const struct cm_event *e;

    cm_kit_establish(k, &active, &passive);
    cm_destroy(k->node[0].cm);
    k->node[0].cm = cm_create(
        &(struct cm_config){.ops = k->node[1].cm->config.ops, .ctx = &k->node[0], .secret = {9}});
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_run(k, CM_KIT_LATENCY);
    assert_int_equal(cm_kit_sent(k, 1, 0).message, CM_REJ);
    assert_int_equal(cm_kit_sent(k, 1, 1).message, CM_DREQ);
    cm_kit_deliver(k);
    assert_int_equal(k->node[0].events, 1);
    e = cm_kit_last(k, 0, CM_EVENT_REJECTED);
    assert_int_equal(e->status, CM_REJ_STALE_CONNECTION);
    assert_int_equal(state_of(active), CM_TIMEWAIT);
    cm_kit_last(k, 1, CM_EVENT_DISCONNECTED); /* the DREQ was answered without an id */
    assert_int_equal(cm_counters(k->node[1].cm)->stale, 1);
    /* Then there is room for it. */
    cm_kit_run(k, 10 * SEC);
    cm_kit_clear(k);
    cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST);
    cm_kit_free(k);
}

/* The passive side forgets, and accepts again with the same queue pair. */
static void test_stale_by_response(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive, *next;

    cm_kit_establish(k, &active, &passive);
    cm_destroy(k->node[1].cm);
    k->node[1].cm = cm_create(
        &(struct cm_config){.ops = k->node[0].cm->config.ops, .ctx = &k->node[1], .secret = {9}});
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    next = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_kit_last(k, 1, CM_EVENT_REJECTED)->status, CM_REJ_STALE_CONNECTION);
    assert_int_equal(state_of(passive), CM_TIMEWAIT);
    assert_ptr_equal(cm_kit_last(k, 0, CM_EVENT_DISCONNECTED)->id, active);
    assert_int_equal(state_of(next), CM_REQ_SENT); /* its next REQ finds the peer ready */
    cm_kit_run(k, 7 * SEC);
    assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), 2);
    cm_kit_free(k);
}

/* Another host says the same CA GUID and queue pair: it is another peer. */
static void test_others_claims(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    struct cm_path way;
    uint8_t mad[MAD_LEN];
    union gid other;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    memcpy(mad, k->node[0].sent[0].mad, sizeof(mad));
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_establish(active, none, k->now), 0);
    cm_kit_deliver(k);
    other = cm_kit_gid(k, 2);
    cm_msg_set_bytes(mad, CM_REQ_primary_local_gid, other.raw, 16);
    memcpy(cm_msg_private_room(mad, CM_REQ) + 16, other.raw + 12, 4);
    cm_kit_rx(k, 2, 1, mad);
    cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(state_of(passive), CM_ESTABLISHED);

    /* A DREQ with the right numbers from the wrong address. */
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    memcpy(mad, k->node[0].sent[k->node[0].sends - 1].mad, sizeof(mad));
    k->flying = 0;
    cm_kit_rx(k, 2, 1, mad);
    assert_int_equal(cm_counters(k->node[1].cm)->wrong_source, 1);
    assert_int_equal(state_of(passive), CM_ESTABLISHED);
    /* And to the wrong one of this end's. */
    way = cm_kit_path(k, 1, 0);
    way.vlan = 7;
    cm_rx(k->node[1].cm, &way, mad, sizeof(mad), k->now);
    assert_int_equal(cm_counters(k->node[1].cm)->wrong_source, 2);
    /* A wrong queue pair. */
    cm_msg_set(mad, CM_DREQ_remote_qpn, PASSIVE_QPN + 1);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(state_of(passive), CM_ESTABLISHED);
    cm_msg_set(mad, CM_DREQ_remote_qpn, PASSIVE_QPN);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(state_of(passive), CM_DREQ_RCVD);
    cm_kit_free(k);
}

/* The peer's address, CA GUID and queue pair, in another VLAN or at another port: another host. */
static void test_another_network(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_path way = cm_kit_path(k, 1, 0);
        struct cm_id *active, *passive;
        uint8_t mad[MAD_LEN];

        cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
        active = cm_kit_connect(k, 0, 1, PORT);
        memcpy(mad, k->node[0].sent[0].mad, sizeof(mad));
        cm_kit_deliver(k);
        passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
        assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
        cm_kit_deliver(k);
        assert_int_equal(cm_establish(active, none, k->now), 0);
        cm_kit_deliver(k);
        if (i)
            way.port++;
        else
            way.vlan = 7;
        cm_msg_set(mad, CM_REQ_local_comm_id, 0x77);
        cm_rx(k->node[1].cm, &way, mad, sizeof(mad), k->now);
        assert_int_equal(state_of(passive), CM_ESTABLISHED);
        assert_int_equal(cm_counters(k->node[1].cm)->stale, 0);
        assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), 2);
        cm_kit_free(k);
    }
}

/* A connection that only lingers, for its DREQ was lost, does not keep the peer's queue pair from
 * the next one. */
static void test_lingering_is_not_stale(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_id *active, *passive;

        cm_kit_establish(k, &active, &passive);
        k->loss = 256;
        cm_id_destroy(i ? active : passive, k->now);
        k->loss = 0;
        if (i) { /* the next active id's REP comes from the same queue pair */
            active = cm_kit_connect(k, 0, 1, PORT);
            cm_id_destroy(passive, k->now);
            k->flying = 0;
            cm_kit_run(k, 7 * SEC);
            passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
            assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
            cm_kit_deliver(k);
            cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE);
        } else {
            cm_id_destroy(active, k->now);
            k->flying = 0;
            cm_kit_connect(k, 0, 1, PORT);
            cm_kit_deliver(k);
            cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST);
            assert_int_equal(cm_counters(k->node[1].cm)->reclaimed, 1);
        }
        assert_int_equal(cm_counters(k->node[0].cm)->stale, 0);
        assert_int_equal(cm_counters(k->node[1].cm)->stale, 0);
        cm_kit_free(k);
    }
}

/* Both ends are one manager's, at one address. */
static void test_own_listener(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;

    cm_kit_listen(k, 0, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 0, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 0, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    assert_ptr_equal(cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE)->id, active);
    assert_int_equal(cm_establish(active, none, k->now), 0);
    cm_kit_deliver(k);
    assert_ptr_equal(cm_kit_last(k, 0, CM_EVENT_ESTABLISHED)->id, passive);
    assert_int_equal(cm_disconnect(passive, none, k->now), 0);
    cm_kit_deliver(k);
    assert_ptr_equal(cm_kit_last(k, 0, CM_EVENT_DISCONNECTED)->id, active);
    assert_int_equal(cm_disconnect(active, none, k->now), 0);
    cm_kit_run(k, 10 * SEC);
    assert_int_equal(cm_kit_count(k, 0, CM_EVENT_TIMEWAIT_EXIT), 2);
    cm_kit_free(k);
}

/* ---- both ends ask ---- */

/* And both are active. */
static void test_own_peer(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id[2];

    for (unsigned i = 0; i < 2; i++) {
        struct cm_connect_param param = cm_kit_param(k, 0, PORT);
        struct cm_path path = cm_kit_path(k, 0, 0);

        id[i] = cm_kit_bound(k, 0, IP_CM_PS_NONE);
        param.peer_to_peer = true;
        param.conn.qpn += i;
        assert_int_equal(cm_connect(id[i], &path, &param, k->now), 0);
    }
    cm_kit_deliver(k);
    assert_ptr_equal(cm_kit_last(k, 0, CM_EVENT_CONNECT_REQUEST)->id, id[0]);
    assert_int_equal(state_of(id[1]), CM_REQ_SENT);
    cm_kit_free(k);
}

static void test_peer_to_peer(void **state)
{
    for (unsigned larger = 0; larger < 2; larger++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_id *id[2];

        for (unsigned i = 0; i < 2; i++) {
            struct cm_connect_param param = cm_kit_param(k, 1 - i, PORT);
            struct cm_path path = cm_kit_path(k, i, 1 - i);

            id[i] = cm_kit_bound(k, i, IP_CM_PS_NONE);
            param.peer_to_peer = true;
            param.conn.qpn = 0x100 + (i == larger);
            path.ca_guid = 5; /* of one device: the queue pairs decide */
            assert_int_equal(cm_connect(id[i], &path, &param, k->now), 0);
        }
        cm_kit_deliver(k);
        assert_int_equal(state_of(id[larger]), CM_REQ_SENT);
        assert_int_equal(state_of(id[1 - larger]), CM_REQ_RCVD);
        assert_null(cm_kit_last(k, 1 - larger, CM_EVENT_CONNECT_REQUEST)->listener);
        assert_ptr_equal(cm_kit_last(k, 1 - larger, CM_EVENT_CONNECT_REQUEST)->id, id[1 - larger]);
        assert_int_equal(cm_kit_accept(k, id[1 - larger], PASSIVE_QPN), 0);
        cm_kit_deliver(k);
        cm_kit_last(k, larger, CM_EVENT_CONNECT_RESPONSE);
        assert_int_equal(cm_establish(id[larger], none, k->now), 0);
        cm_kit_deliver(k);
        cm_kit_last(k, 1 - larger, CM_EVENT_ESTABLISHED);
        assert_int_equal(k->node[0].events + k->node[1].events, 3);
        cm_kit_free(k);
    }
}

/* The first to ask is told that there is nothing, and asks again until the other one does, too. */
static void test_peer_comes_later(void **state)
{
    struct cm_kit *k = willing_pair();
    struct cm_id *id[2];

    for (unsigned i = 0; i < 2; i++) {
        struct cm_connect_param param = cm_kit_param(k, 1 - i, PORT);
        struct cm_path path = cm_kit_path(k, i, 1 - i);

        id[i] = cm_kit_bound(k, i, IP_CM_PS_NONE);
        param.peer_to_peer = true;
        assert_int_equal(cm_connect(id[i], &path, &param, k->now), 0);
        cm_kit_run(k, 20 * SEC);
    }
    assert_int_equal(state_of(id[0]), CM_ESTABLISHED);
    assert_int_equal(state_of(id[1]), CM_ESTABLISHED);
    cm_kit_free(k);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection),
        cmocka_unit_test(test_what_both_know),
        cmocka_unit_test(test_notified),
        cmocka_unit_test(test_any_loss),
        cmocka_unit_test(test_any_loss_at_the_end),
        cmocka_unit_test(test_slow_program),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_ready_never_comes),
        cmocka_unit_test(test_ready_too_late),
        cmocka_unit_test(test_no_storm),
        cmocka_unit_test(test_response_is_taken_once),
        cmocka_unit_test(test_timeout_is_told),
        cmocka_unit_test(test_no_listener),
        cmocka_unit_test(test_rejected),
        cmocka_unit_test(test_response_rejected),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_disconnect),
        cmocka_unit_test(test_disconnect_unanswered),
        cmocka_unit_test(test_late_disconnect),
        cmocka_unit_test(test_destroyed_connection),
        cmocka_unit_test(test_stale_connection),
        cmocka_unit_test(test_stale_by_response),
        cmocka_unit_test(test_others_claims),
        cmocka_unit_test(test_another_network),
        cmocka_unit_test(test_lingering_is_not_stale),
        cmocka_unit_test(test_own_listener),
        cmocka_unit_test(test_own_peer),
        cmocka_unit_test(test_peer_to_peer),
        cmocka_unit_test(test_peer_comes_later),
    };

    return cmocka_run_group_tests_name("cm_connect", tests, NULL, NULL);
}
