/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that a manager refuses or drops, datagram service IDs, floods; the attributes of queue
 * pairs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "cm_internal.h"
#include "cm_kit.h"
#include "entropy.h"
#include "unit.h"

#define PORT        7471
#define PASSIVE_QPN 0x222

static const struct cm_private none;

/* ---- requests with faults ---- */

struct fault {
    const char *name;
    void (*make)(uint8_t *mad);
    uint16_t reason; /* 0: taken */
};

static void transport_rd(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_transport_service_type, 2);
}

static void transport_uc(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_transport_service_type, 1);
}

static void transport_xrc(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_transport_service_type, 3);
    cm_msg_set(mad, CM_REQ_extended_transport_type, 1);
}

static void transport_extended(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_transport_service_type, 3);
    cm_msg_set(mad, CM_REQ_extended_transport_type, 2);
}

static void mtu_none(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_path_mtu, 0);
}

static void mtu_larger(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_path_mtu, 6);
}

static void mtu_smaller(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_path_mtu, 1);
}

static void gid_of_another(uint8_t *mad)
{
    mad[MAD_HEADER + 56 + 15] ^= 1;
}

static void gid_to_another(uint8_t *mad)
{
    mad[MAD_HEADER + 72 + 15] ^= 4;
}

static void ip_version(uint8_t *mad)
{
    cm_msg_private_room(mad, CM_REQ)[1] = 0x50;
}

static void ip_major(uint8_t *mad)
{
    cm_msg_private_room(mad, CM_REQ)[0] = 0x10;
}

static void ip_source(uint8_t *mad)
{
    cm_msg_private_room(mad, CM_REQ)[19] ^= 1;
}

static void ip_destination(uint8_t *mad)
{
    cm_msg_private_room(mad, CM_REQ)[35] ^= 4;
}

static void another_port(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_service_id, ip_cm_service_id(IP_CM_PS_TCP, PORT + 1));
}

static void datagram_port(uint8_t *mad)
{
    cm_msg_set(mad, CM_REQ_service_id, ip_cm_service_id(IP_CM_PS_UDP, PORT));
}

static const struct fault faults[] = {
    {"unreliable connection", transport_uc, 0},
    {"XRC", transport_xrc, 0},
    {"smaller MTU", mtu_smaller, 0},
    {"reliable datagrams", transport_rd, CM_REJ_INVALID_TRANSPORT},
    {"unknown extended transport", transport_extended, CM_REJ_INVALID_TRANSPORT},
    {"no MTU", mtu_none, CM_REJ_INVALID_MTU},
    {"larger MTU", mtu_larger, CM_REJ_INVALID_MTU},
    {"GID of another", gid_of_another, CM_REJ_INVALID_GID},
    {"GID to another", gid_to_another, CM_REJ_INVALID_GID},
    {"IP version", ip_version, CM_REJ_CONSUMER},
    {"version of IP CM", ip_major, CM_REJ_CONSUMER},
    {"IP source of another", ip_source, CM_REJ_CONSUMER},
    {"IP destination of another", ip_destination, CM_REJ_CONSUMER},
    {"no listener", another_port, CM_REJ_INVALID_SERVICE_ID},
    {"a datagram's listener", datagram_port, CM_REJ_INVALID_TRANSPORT},
};

/* The GID that a request should have named. */
static void check_info(const struct cm_kit *k, const struct cm_msg *rej, uint16_t reason)
{
    union gid gid = cm_kit_gid(k, 1);

    if (reason != CM_REJ_INVALID_GID) {
        assert_int_equal(cm_msg_get(rej, CM_REJ_info_length), 0);
        return;
    }
    assert_int_equal(cm_msg_get(rej, CM_REJ_info_length), sizeof(gid));
    assert_memory_equal(cm_msg_bytes(rej, CM_REJ_info), &gid, sizeof(gid));
}

static void test_faults(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(faults); i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        uint8_t mad[MAD_LEN];
        struct cm_msg msg;

        cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
        cm_kit_listen(k, 1, IP_CM_PS_UDP, PORT, 0);
        cm_kit_req(k, PORT, mad);
        faults[i].make(mad);
        cm_kit_rx(k, 0, 1, mad);
        if (k->node[1].events != (faults[i].reason ? 0 : 1))
            fail_msg("%s: %u events", faults[i].name, k->node[1].events);
        if (faults[i].reason) {
            msg = cm_kit_last_sent(k, 1);
            assert_int_equal(msg.message, CM_REJ);
            assert_int_equal(cm_msg_get(&msg, CM_REJ_reason), faults[i].reason);
            check_info(k, &msg, faults[i].reason);
            assert_int_equal(cm_msg_get(&msg, CM_REJ_message_rejected), 0);
            assert_int_equal(cm_msg_get(&msg, CM_REJ_local_comm_id), 0);
            assert_true(cm_msg_get(&msg, CM_REJ_remote_comm_id) == get_be32(mad + MAD_HEADER));
            assert_int_equal(k->node[1].sends, 1);
            assert_int_equal(k->node[1].cm->ids, 2);
        } else {
            assert_int_equal(k->node[1].sends, 0);
        }
        cm_kit_free(k);
    }
}

/* XRC: the receiving end has no requests of its own, and its QPN is where an EE context's was. */
static void test_xrc(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active = cm_kit_bound(k, 0, IP_CM_PS_TCP), *passive;
    struct cm_connect_param param = cm_kit_param(k, 1, PORT);
    struct cm_path path = cm_kit_path(k, 0, 1);
    struct qp_attr attr;
    uint32_t mask;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    param.conn.qp_type = CM_QP_XRC_SEND;
    assert_int_equal(cm_connect(active, &path, &param, k->now), 0);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->conn.qp_type, CM_QP_XRC_RECV);
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE)->conn.qpn, PASSIVE_QPN);
    assert_int_equal(cm_qp_attr(active, QPS_RTR, &attr, &mask), 0);
    assert_int_equal(mask & QPA_MAX_DEST_RD_ATOMIC, 0);
    assert_int_equal(attr.dest_qpn, PASSIVE_QPN);
    assert_int_equal(cm_qp_attr(passive, QPS_RTS, &attr, &mask), 0);
    assert_int_equal(mask, QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT);
    cm_kit_free(k);
}

/* ---- limits ---- */

/* Makes a REQ another one: of another connection, queue pair and port of its sender. */
static void vary(uint8_t *mad, uint32_t n)
{
    cm_msg_set(mad, CM_REQ_local_comm_id, 0x1000 + n);
    cm_msg_set(mad, CM_REQ_local_qpn, 0x1000 + n);
    put_be16(cm_msg_private_room(mad, CM_REQ) + 2, (uint16_t)n);
}

/* From another address, which is its own in every part. */
static struct cm_path spoof(struct cm_kit *k, uint8_t *mad, uint32_t n)
{
    struct cm_path way = cm_kit_path(k, 1, 0);

    put_be32(way.dgid.raw + 12, 0x0B000000 + n);
    cm_msg_set_bytes(mad, CM_REQ_primary_local_gid, way.dgid.raw, 16);
    put_be32(cm_msg_private_room(mad, CM_REQ) + 16, 0x0B000000 + n);
    vary(mad, n);
    return way;
}

/* A flood of requests leaves as many ids as the program said, and no answer to the others. */
static void test_flood_fills_the_backlog(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    struct cm_id *listener = cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 3);
    uint8_t mad[MAD_LEN];

    cm_kit_req(k, PORT, mad);
    for (uint32_t n = 0; n < 20000; n++) {
        struct cm_path way = spoof(k, mad, n);

        cm_rx(k->node[1].cm, &way, mad, MAD_LEN, k->now);
    }
    assert_int_equal(k->node[1].events, 3);
    assert_int_equal(k->node[1].cm->ids, 1 + 3);
    assert_int_equal(c->backlog_full, 20000 - 3);
    assert_int_equal(k->node[1].sends, 0);
    assert_int_equal(listener->waiting, 3);
    /* Each one that the program answers makes room for another. */
    assert_int_equal(cm_kit_accept(k, k->node[1].event[0].e.id, PASSIVE_QPN), 0);
    assert_int_equal(cm_reject(k->node[1].event[1].e.id, 28, none, none, k->now), 0);
    cm_id_destroy(k->node[1].event[2].e.id, k->now);
    assert_int_equal(listener->waiting, 0);
    assert_int_equal(listener->half_open, 1);
    for (uint32_t n = 0; n < 10; n++) {
        struct cm_path way = spoof(k, mad, 30000 + n);

        cm_rx(k->node[1].cm, &way, mad, MAD_LEN, k->now);
    }
    assert_int_equal(k->node[1].events, 6);
    cm_kit_free(k);
}

static void accept_at_once(struct cm_kit_node *n, const struct cm_event *e)
{
    if (e->type == CM_EVENT_CONNECT_REQUEST)
        assert_int_equal(cm_kit_accept(n->kit, e->id, PASSIVE_QPN), 0);
}

/* A program that accepts everything is protected by the limit of half-open connections; when their
 * peers never answer, they make room again. */
static void test_flood_of_a_willing_program(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.half_open = 50});
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    struct cm_id *listener = cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 1);
    uint8_t mad[MAD_LEN];

    cm_kit_req(k, PORT, mad);
    k->node[1].on_event = accept_at_once;
    for (uint32_t n = 0; n < 1000; n++) {
        vary(mad, n);
        cm_kit_rx(k, 0, 1, mad);
    }
    assert_int_equal(listener->half_open, 50);
    assert_int_equal(c->half_open_full, 950);
    assert_int_equal(c->tx[CM_REP], 50);
    k->loss = 256;
    cm_kit_run(k, 200 * SEC);
    assert_int_equal(listener->half_open, 0);
    assert_int_equal(k->node[1].events, 50 + 50 + 50); /* request, unreachable, timewait exit */
    k->flying = 0;
    cm_kit_free(k);
}

/* ---- what forged packets make the manager send ---- */

/* REQs that an address did not send bring it a REP each, and few repetitions of all of them. */
static void test_forged_requests(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    uint8_t mad[MAD_LEN];

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    k->node[1].on_event = accept_at_once;
    for (uint32_t n = 0; n < 500; n++) {
        vary(mad, n);
        cm_kit_rx(k, 0, 1, mad);
    }
    assert_int_equal(c->tx[CM_REP], 500);
    k->loss = 256;
    cm_kit_run(k, 200 * SEC);
    assert_int_equal(c->retries + c->repetitions_limited, 15 * 500);
    assert_in_range(c->retries, 64 + 4 * 80, 64 + 4 * 100);
    assert_int_equal(c->tx[CM_REP], 500 + c->retries);
    assert_int_equal(k->node[1].events, 3 * 500); /* request, unreachable, timewait exit */
    k->flying = 0;
    cm_kit_free(k);
}

/* As many from as many addresses: each of them may have asked. */
static void test_requests_of_many_addresses(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    uint8_t mad[MAD_LEN];

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    k->node[1].on_event = accept_at_once;
    for (uint32_t n = 0; n < 500; n++) {
        struct cm_path way = spoof(k, mad, n);

        cm_rx(k->node[1].cm, &way, mad, MAD_LEN, k->now);
    }
    k->loss = 256;
    cm_kit_run(k, 200 * SEC);
    assert_int_equal(c->retries, 15 * 500);
    k->flying = 0;
    cm_kit_free(k);
}

/* An RTU or MRA shows that the address hears: its other connections' REPs are repeated. One that
 * has shown it by an MRA has no limit; a REJ shows nothing, it may be forged like the REQ. */
static void test_proven_peers(void **state)
{
    for (unsigned way = 0; way < 3; way++) {
        struct cm_kit *k = cm_kit_new(NULL);
        const struct cm_counters *c = cm_counters(k->node[1].cm);
        uint8_t mad[MAD_LEN];
        struct cm_msg msg;

        cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
        cm_kit_req(k, PORT, mad);
        k->node[1].on_event = accept_at_once;
        for (uint32_t n = 0; n < 101; n++) {
            vary(mad, n);
            cm_kit_rx(k, 0, 1, mad);
        }
        msg = cm_kit_last_sent(k, 1);
        k->loss = 256;
        cm_kit_run(k, 7 * SEC);
        assert_in_range(c->retries, 64, 64 + 4);
        if (way == 2) {
            uint8_t guid[8];

            put_be64(guid, cm_kit_path(k, 0, 1).ca_guid);
            cm_msg_init(mad, CM_REJ, 1);
            cm_msg_set(mad, CM_REJ_reason, CM_REJ_TIMEOUT);
            cm_msg_set(mad, CM_REJ_local_comm_id, 0x1000 + 100);
            cm_msg_set(mad, CM_REJ_info_length, sizeof(guid));
            cm_msg_set_bytes(mad, CM_REJ_info, guid, sizeof(guid));
        } else if (way == 1) {
            cm_msg_init(mad, CM_MRA, 1);
            cm_msg_set(mad, CM_MRA_local_comm_id, 0x1000 + 100);
            cm_msg_set(mad, CM_MRA_remote_comm_id, cm_msg_get(&msg, CM_REP_local_comm_id));
            cm_msg_set(mad, CM_MRA_message_mraed, 1);
        } else {
            cm_msg_init(mad, CM_RTU, 1);
            cm_msg_set(mad, CM_RTU_local_comm_id, 0x1000 + 100);
            cm_msg_set(mad, CM_RTU_remote_comm_id, cm_msg_get(&msg, CM_REP_local_comm_id));
        }
        cm_kit_rx(k, 0, 1, mad);
        assert_int_equal(c->wrong_source + c->unmatched + c->ignored, 0);
        cm_kit_run(k, 6 * SEC);
        if (way == 2)
            assert_in_range(c->retries, 64 + 4 * 5, 64 + 4 * 8);
        else
            assert_in_range(c->retries, 64 + 64, 64 + 64 + 4 * 7);
        k->flying = 0;
        cm_kit_free(k);
    }
}

/* And so are the repetitions of one REQ, in each state that answers them. */
static void test_repetitions_are_limited(void **state)
{
    static const enum cm_message answers[] = {CM_MRA, CM_REP};

    for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
        struct cm_kit *k = cm_kit_new(&(struct cm_config){.answers = 100});
        const struct cm_counters *c = cm_counters(k->node[1].cm);
        uint8_t mad[MAD_LEN];

        cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
        cm_kit_req(k, PORT, mad);
        if (answers[i] == CM_REP)
            k->node[1].on_event = accept_at_once;
        for (unsigned n = 0; n < 1 + 150; n++)
            cm_kit_rx(k, 0, 1, mad);
        assert_int_equal(c->tx[answers[i]], 100 + (answers[i] == CM_REP));
        assert_int_equal(c->answers_limited, 50);
        assert_int_equal(cm_kit_count(k, 1, CM_EVENT_CONNECT_REQUEST), 1);
        k->flying = 0;
        cm_kit_free(k);
    }
}

/* Messages of no connection are answered at a limited rate, of each port by itself. */
static void test_answers_are_limited(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.answers = 100});
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    struct cm_path way = cm_kit_path(k, 1, 0);
    uint8_t mad[6][MAD_LEN];

    cm_kit_req(k, PORT, mad[0]);
    cm_msg_init(mad[1], CM_DREQ, 1);
    cm_msg_init(mad[2], CM_SIDR_REQ, 1);
    cm_msg_init(mad[3], CM_LAP, 1);
    cm_msg_init(mad[4], CM_RTU, 1);
    cm_msg_init(mad[5], CM_REQ, 1);
    mad_set(mad[5], MAD_method, MAD_GET);
    mad_set(mad[5], MAD_attribute_id, MAD_CLASS_PORT_INFO);
    for (unsigned i = 0; i < ARRAY_SIZE(mad); i++) {
        k->node[1].sends = 0;
        for (unsigned n = 0; n < 150; n++)
            cm_rx(k->node[1].cm, &way, mad[i], MAD_LEN, k->now);
        assert_int_equal(k->node[1].sends, 100);
        assert_int_equal(c->answers_limited, 50 * (2 * i + 1));
        way.port++;
        cm_rx(k->node[1].cm, &way, mad[i], MAD_LEN, k->now);
        assert_int_equal(k->node[1].sends, 101);
        way.port--;
        k->now += SEC / 2; /* half of them have come back */
        for (unsigned n = 0; n < 100; n++)
            cm_rx(k->node[1].cm, &way, mad[i], MAD_LEN, k->now);
        assert_int_equal(k->node[1].sends, 101 + 50);
        k->now += 10 * SEC;
        k->flying = 0;
    }
    assert_int_equal(c->refused, 2 * (101 + 50)); /* REQs and SIDR_REQs that were answered */
    assert_int_equal(c->gsi_answered, 101 + 50);
    cm_kit_free(k);
}

/* A REQ with the longest times keeps its connection half open for minutes, not hours; its queue
 * pair gets the timeout that the peer named. */
static void test_longest_times(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    ns_t start = k->now;
    struct cm_id *passive;
    struct qp_attr attr;
    uint8_t mad[MAD_LEN];
    uint32_t mask;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    cm_msg_set(mad, CM_REQ_local_cm_response_timeout, 31);
    cm_msg_set(mad, CM_REQ_primary_local_ack_timeout, 31);
    cm_msg_set(mad, CM_REQ_primary_hop_limit, 0);
    cm_kit_rx(k, 0, 1, mad);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_accept(k, passive, PASSIVE_QPN), 0);
    assert_int_equal(cm_qp_attr(passive, QPS_RTS, &attr, &mask), 0);
    assert_int_equal(attr.timeout, 31);
    assert_int_equal(cm_qp_attr(passive, QPS_RTR, &attr, &mask), 0);
    assert_int_equal(attr.ah.hop_limit, 64); /* the port's, for none */
    k->loss = 256;
    while (!cm_kit_count(k, 1, CM_EVENT_UNREACHABLE))
        cm_kit_run(k, SEC);
    assert_int_equal(cm_counters(k->node[1].cm)->retries, 15);
    assert_true(k->now - start < 300 * SEC);
    cm_kit_free(k);
}

/* A peer that names no local ACK timeout gets the one that this end would name: without one, what
 * is sent to a peer that has gone would never fail. */
static void test_no_ack_timeout(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_path way = cm_kit_path(k, 1, 0);
    struct cm_id *passive;
    struct qp_attr attr;
    uint8_t mad[MAD_LEN];
    uint32_t mask;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    cm_msg_set(mad, CM_REQ_primary_local_ack_timeout, 0);
    cm_kit_rx(k, 0, 1, mad);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_qp_attr(passive, QPS_RTS, &attr, &mask), 0);
    assert_true(mask & QPA_TIMEOUT);
    assert_int_equal(attr.timeout, cm_ack_timeout(way.ack_delay, way.packet_life_time));
    cm_kit_free(k);
}

/* A call runs a number of timers at most. */
static void test_many_timers(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm *cm = k->node[0].cm;

    for (unsigned i = 0; i < CM_TIMERS_MAX + 10; i++) {
        cm_kit_connect(k, 0, 1, PORT);
        k->flying = 0;
    }
    k->now = cm_next_timer(cm);
    cm_timers(cm, k->now);
    k->flying = 0;
    assert_int_equal(cm_counters(cm)->retries, CM_TIMERS_MAX);
    assert_true(cm_next_timer(cm) <= k->now);
    cm_timers(cm, k->now);
    k->flying = 0;
    assert_int_equal(cm_counters(cm)->retries, CM_TIMERS_MAX + 10);
    assert_true(cm_next_timer(cm) > k->now);
    cm_kit_free(k);
}

/* No id is free: a request is dropped, and taken when one is. */
static void test_flood_fills_the_ids(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.max_ids = 8});
    uint8_t mad[MAD_LEN];

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    for (uint32_t n = 0; n < 20; n++) {
        vary(mad, n);
        cm_kit_rx(k, 0, 1, mad);
    }
    assert_int_equal(k->node[1].events, 7);
    assert_int_equal(cm_counters(k->node[1].cm)->ids_full, 13);
    cm_id_destroy(k->node[1].event[0].e.id, k->now);
    vary(mad, 20);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(k->node[1].events, 8);
    cm_kit_free(k);
}

/* A listener that ends leaves its requests to the program. */
static void test_listener_ends(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *listener = cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0), *request;

    cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    request = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_ptr_equal(request->listener, listener);
    cm_id_destroy(listener, k->now);
    assert_null(request->listener);
    assert_int_equal(cm_kit_accept(k, request, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE);
    cm_id_destroy(request, k->now);
    cm_kit_free(k);
}

/* ---- a hundred thousand ---- */

static void test_many_connections(void **state)
{
    struct cm_kit *k = cm_kit_new(&(struct cm_config){.half_open = 1u << 17, .backlog = 1});
    const struct cm_counters *c = cm_counters(k->node[1].cm);
    uint8_t mad[MAD_LEN], rtu[MAD_LEN];
    struct cm_msg msg;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    k->node[1].on_event = accept_at_once;
    for (uint32_t n = 0; n < 100000; n++) {
        vary(mad, n);
        cm_kit_rx(k, 0, 1, mad);
        k->flying = 0;
        if (n % 2)
            continue;
        msg = cm_kit_last_sent(k, 1);
        cm_msg_init(rtu, CM_RTU, 1);
        cm_msg_set(rtu, CM_RTU_local_comm_id, 0x1000 + n);
        cm_msg_set(rtu, CM_RTU_remote_comm_id, cm_msg_get(&msg, CM_REP_local_comm_id));
        cm_kit_rx(k, 0, 1, rtu);
    }
    assert_int_equal(k->node[1].cm->ids, 100001);
    assert_int_equal(k->node[1].events, 150000);
    k->loss = 256;
    cm_kit_run(k, 20 * SEC); /* three repetitions of those without an RTU, at a limited rate */
    assert_int_equal(c->retries + c->repetitions_limited, 3 * 50000);
    assert_in_range(c->retries, 64 + 4 * 12, 64 + 4 * 14);
    cm_kit_free(k);
}

/* ---- datagrams ---- */

static void test_sidr(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *listener = cm_kit_listen(k, 1, IP_CM_PS_UDP, PORT, 5);
    struct cm_id *active = cm_kit_bound(k, 0, IP_CM_PS_UDP), *request;
    struct cm_path path = cm_kit_path(k, 0, 1);
    struct cm_connect_param param = cm_kit_param(k, 1, PORT);
    struct cm_sidr_answer answer = {
        .qpn = 0x345, .qkey = 0x01234567, .ece = {0xabcdef, 7}, .private = {"answer", 6}};
    const struct cm_event *e;
    uint8_t bytes[256] = "request";

    param.private = (struct cm_private){bytes, 181};
    assert_int_equal(cm_sidr_request(active, &path, &param, k->now), -EINVAL);
    param.private.len = 180;
    assert_int_equal(cm_sidr_request(active, &path, &param, k->now), 0);
    k->flying = 0; /* it is lost once */
    cm_kit_run(k, 4096 * MS + CM_KIT_LATENCY);
    e = cm_kit_last(k, 1, CM_EVENT_SIDR_REQUEST);
    request = e->id;
    assert_ptr_equal(e->listener, listener);
    assert_int_equal(e->private.len, 180);
    assert_memory_equal(e->private.data, bytes, 180);
    assert_int_equal(cm_id_dst(request)->number, cm_id_src(active)->number);
    /* Its repetition is not another one. */
    cm_kit_rx(k, 0, 1, k->node[0].sent[0].mad);
    assert_int_equal(k->node[1].events, 1);
    answer.private.len = 137;
    assert_int_equal(cm_sidr_reply(request, &answer, k->now), -EINVAL);
    answer.private.len = 6;
    assert_int_equal(cm_sidr_reply(request, &answer, k->now), 0);
    assert_int_equal(cm_id_state(request), CM_IDLE);
    assert_int_equal(listener->waiting, 0);
    cm_kit_deliver(k);
    e = cm_kit_last(k, 0, CM_EVENT_SIDR_REPLY);
    assert_int_equal(e->status, CM_SIDR_OK);
    assert_int_equal(e->conn.qpn, 0x345);
    assert_int_equal(e->conn.qp_type, CM_QP_UD);
    assert_int_equal(e->qkey, 0x01234567);
    assert_int_equal(e->ece.vendor_id, 0xabcdef);
    assert_int_equal(e->ece.options, 7);
    assert_int_equal(e->private.len, 136);
    assert_memory_equal(e->private.data, "answer", 6);
    assert_int_equal(cm_id_state(active), CM_IDLE);
    cm_id_destroy(request, k->now);
    cm_kit_free(k);
}

/* No listener, a program that does not want to, and nothing at all. */
static void test_sidr_refused(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        struct cm_kit *k = cm_kit_new(NULL);
        struct cm_id *active = cm_kit_bound(k, 0, IP_CM_PS_UDP);
        struct cm_path path = cm_kit_path(k, 0, i == 2 ? 2 : 1);
        struct cm_connect_param param = cm_kit_param(k, i == 2 ? 2 : 1, PORT);

        if (i == 1)
            cm_kit_listen(k, 1, IP_CM_PS_UDP, PORT, 1);
        assert_int_equal(cm_sidr_request(active, &path, &param, k->now), 0);
        cm_kit_deliver(k);
        if (i == 1) {
            cm_id_destroy(cm_kit_last(k, 1, CM_EVENT_SIDR_REQUEST)->id, k->now);
            cm_kit_deliver(k);
        }
        if (i < 2) {
            assert_int_equal(cm_kit_last(k, 0, CM_EVENT_SIDR_REPLY)->status,
                             i ? CM_SIDR_REJECTED : CM_SIDR_UNSUPPORTED);
        } else {
            cm_kit_run(k, 16 * 4096 * MS);
            cm_kit_last(k, 0, CM_EVENT_UNREACHABLE);
            assert_int_equal(k->node[0].sends, 16);
        }
        cm_kit_free(k);
    }
}

/* ---- service IDs that are no port numbers ---- */

static void test_native_service_id(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active = cm_kit_bound(k, 0, IP_CM_PS_NONE);
    struct cm_path path = cm_kit_path(k, 0, 1);
    struct cm_connect_param param = cm_kit_param(k, 1, 0x55);
    uint8_t bytes[93];

    memset(bytes, 0xA5, sizeof(bytes));
    cm_kit_listen(k, 1, IP_CM_PS_NONE, 0x55, 1);
    param.private = (struct cm_private){bytes, 93};
    assert_int_equal(cm_connect(active, &path, &param, k->now), -EINVAL);
    param.private.len = 92;
    assert_int_equal(cm_connect(active, &path, &param, k->now), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->private.len, 92);
    assert_memory_equal(cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->private.data, bytes, 92);
    cm_kit_free(k);
}

/* ---- alternate paths ---- */

static void test_alternate_paths_are_declined(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    uint8_t mad[MAD_LEN];
    struct cm_msg msg;

    cm_kit_establish(k, &active, &passive);
    cm_msg_init(mad, CM_LAP, 5);
    cm_msg_set(mad, CM_LAP_local_comm_id, active->local_comm_id);
    cm_msg_set(mad, CM_LAP_remote_comm_id, passive->local_comm_id);
    for (unsigned i = 0; i < 2; i++) {
        cm_kit_rx(k, 0, 1, mad);
        msg = cm_kit_last_sent(k, 1);
        assert_int_equal(msg.message, CM_APR);
        assert_int_equal(cm_msg_get(&msg, CM_APR_status), i ? 1 : 2);
        assert_true(mad_get(msg.data - MAD_HEADER, MAD_transaction_id) == 5);
        assert_true(cm_msg_get(&msg, CM_APR_remote_comm_id) == active->local_comm_id);
        cm_msg_set(mad, CM_LAP_remote_comm_id, passive->local_comm_id + 1);
    }
    assert_int_equal(cm_id_state(passive), CM_ESTABLISHED);
    cm_kit_free(k);

    /* In a REQ: the REP says that there is none. */
    k = cm_kit_new(NULL);
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    cm_msg_set(mad, CM_REQ_alternate_local_lid, 1);
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(cm_kit_accept(k, cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id, 5), 0);
    msg = cm_kit_last_sent(k, 1);
    assert_int_equal(cm_msg_get(&msg, CM_REP_failover_accepted), 1);
    cm_kit_free(k);
}

/* ---- another version ---- */

static void test_req_of_another_version(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    uint8_t mad[MAD_LEN];
    struct cm_msg msg;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    cm_kit_req(k, PORT, mad);
    mad_set(mad, MAD_class_version, 3);
    cm_kit_rx(k, 0, 1, mad);
    msg = cm_kit_last_sent(k, 1);
    assert_int_equal(cm_msg_get(&msg, CM_REJ_reason), CM_REJ_INVALID_CLASS_VERSION);
    assert_true(cm_msg_get(&msg, CM_REJ_remote_comm_id) == get_be32(mad + MAD_HEADER));
    mad_set(mad, MAD_attribute_id, 0x0014); /* an RTU has no answer */
    cm_kit_rx(k, 0, 1, mad);
    assert_int_equal(k->node[1].sends, 1);
    assert_int_equal(cm_counters(k->node[1].cm)->malformed, 2);
    cm_kit_free(k);
}

/* ---- queue pairs ---- */

static void test_attributes_at_each_state(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *active, *passive;
    struct qp_attr attr;
    uint32_t mask;

    active = cm_kit_bound(k, 0, IP_CM_PS_TCP);
    assert_int_equal(cm_qp_attr(active, QPS_INIT, &attr, &mask), -EINVAL);
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    assert_int_equal(cm_qp_attr(active, QPS_INIT, &attr, &mask), 0);
    assert_int_equal(cm_qp_attr(active, QPS_RTR, &attr, &mask), -EINVAL);
    assert_int_equal(cm_qp_attr(active, QPS_ERR, &attr, &mask), -EINVAL);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_qp_attr(passive, QPS_RTS, &attr, &mask), 0); /* before the REP */
    assert_int_equal(cm_reject(passive, 28, none, none, k->now), 0);
    assert_int_equal(cm_qp_attr(passive, QPS_INIT, &attr, &mask), -EINVAL);
    cm_kit_free(k);
}

/* All at once they are what they are one by one, and none belongs to two states. */
static void test_steps(void **state)
{
    static const enum qp_state to[QP_STEPS] = {QPS_INIT, QPS_RTR, QPS_RTS};
    struct cm_kit *k = cm_kit_new(NULL);
    struct qp_attr all, one[QP_STEPS];
    uint32_t mask[QP_STEPS], single, seen = QPA_STATE;
    struct cm_id *active, *passive;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    assert_int_equal(cm_qp_steps(active, &all, mask), -EINVAL); /* nothing is known of the peer */
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_qp_steps(passive, &all, mask), 0);
    for (unsigned i = 0; i < QP_STEPS; i++) {
        assert_int_equal(cm_qp_attr(passive, to[i], &one[i], &single), 0);
        assert_int_equal(mask[i], single);
        assert_int_equal(mask[i] & seen, QPA_STATE);
        seen |= mask[i];
    }
    assert_int_equal(all.access_flags, one[0].access_flags);
    assert_int_equal(all.port_num, one[0].port_num);
    assert_memory_equal(&all.ah, &one[1].ah, sizeof(all.ah));
    assert_int_equal(all.path_mtu, one[1].path_mtu);
    assert_int_equal(all.dest_qpn, one[1].dest_qpn);
    assert_int_equal(all.rq_psn, one[1].rq_psn);
    assert_int_equal(all.max_dest_rd_atomic, one[1].max_dest_rd_atomic);
    assert_int_equal(all.sq_psn, one[2].sq_psn);
    assert_int_equal(all.retry_cnt, one[2].retry_cnt);
    assert_int_equal(all.rnr_retry, one[2].rnr_retry);
    assert_int_equal(all.max_rd_atomic, one[2].max_rd_atomic);
    assert_int_equal(all.timeout, one[2].timeout);
    assert_int_equal(cm_reject(passive, 28, none, none, k->now), 0);
    assert_int_equal(cm_qp_steps(passive, &all, mask), -EINVAL);
    cm_kit_free(k);
}

/* The passive queue pair is at RTR before the REP, which says from which PSN the peer sends. */
static void test_psn_before_accept(void **state)
{
    struct cm_conn_param param = {.qpn = PASSIVE_QPN};
    struct cm_kit *k = cm_kit_new(NULL);
    struct qp_attr before, rts;
    struct cm_id *active, *passive;
    uint32_t mask;

    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_qp_attr(passive, QPS_RTR, &before, &mask), 0);
    assert_int_equal(cm_accept(passive, &param, NULL, none, k->now), 0);
    cm_kit_deliver(k);
    assert_int_equal(cm_qp_attr(active, QPS_RTS, &rts, &mask), 0);
    assert_int_equal(rts.sq_psn, before.rq_psn);
    cm_kit_free(k);
}

static void test_attributes(void **state)
{
    struct cm_kit *k = cm_kit_new(NULL);
    struct cm_id *id[2];
    struct qp_attr init[2], rtr[2], rts[2];
    uint32_t mask;

    cm_kit_establish(k, &id[0], &id[1]);
    for (unsigned i = 0; i < 2; i++) {
        union gid peer = cm_kit_gid(k, 1 - i);

        assert_int_equal(cm_qp_attr(id[i], QPS_INIT, &init[i], &mask), 0);
        assert_int_equal(mask, QPA_STATE | QPA_ACCESS_FLAGS | QPA_PKEY_INDEX | QPA_PORT);
        assert_int_equal(init[i].state, QPS_INIT);
        assert_int_equal(init[i].access_flags, 2 | 4 | 8);
        assert_int_equal(init[i].port_num, 1);
        assert_int_equal(cm_qp_attr(id[i], QPS_RTR, &rtr[i], &mask), 0);
        assert_int_equal(mask, QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                                   QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER);
        assert_memory_equal(rtr[i].ah.dgid, peer.raw, 16);
        assert_int_equal(rtr[i].ah.sgid_index, i + 1);
        assert_int_equal(rtr[i].ah.is_global, 1);
        assert_int_equal(rtr[i].ah.hop_limit, 64);
        assert_int_equal(rtr[i].ah.traffic_class, 0x68);
        assert_int_equal(rtr[i].ah.sl, 3);
        assert_int_equal(rtr[i].path_mtu, 5);
        assert_int_equal(cm_qp_attr(id[i], QPS_RTS, &rts[i], &mask), 0);
        assert_int_equal(mask, QPA_STATE | QPA_SQ_PSN | QPA_RETRY_CNT | QPA_RNR_RETRY |
                                   QPA_MAX_RD_ATOMIC | QPA_TIMEOUT);
        assert_int_equal(rts[i].retry_cnt, 5);
        assert_int_equal(rts[i].timeout, 19);
    }
    assert_int_equal(rtr[0].dest_qpn, PASSIVE_QPN);
    assert_int_equal(rtr[1].dest_qpn, 0x111);
    /* Each side's packets have the PSNs that the other one expects. */
    assert_int_equal(rtr[0].rq_psn, rts[1].sq_psn);
    assert_int_equal(rtr[1].rq_psn, rts[0].sq_psn);
    assert_int_not_equal(rtr[0].rq_psn, rtr[1].rq_psn);
    assert_int_equal(rtr[0].rq_psn >> 24 | rtr[1].rq_psn >> 24, 0);
    /* And as many READs as it answers: the REP's word counts. */
    assert_int_equal(rtr[0].max_dest_rd_atomic, 1);
    assert_int_equal(rts[1].max_rd_atomic, 1);
    assert_int_equal(rts[0].max_rd_atomic, 2);
    assert_int_equal(rtr[1].max_dest_rd_atomic, 2);
    assert_int_equal(rts[0].rnr_retry, 7); /* of the REP */
    assert_int_equal(rts[1].rnr_retry, 6); /* of the REQ */
    /* Both ends' packets have one source port. */
    assert_int_equal(rtr[0].ah.flow_label, entropy_flow_label_cm(0x1234, PORT));
    assert_int_equal(rtr[1].ah.flow_label, rtr[0].ah.flow_label);
    assert_int_equal(entropy_port_kernel(rtr[0].ah.flow_label, 0x111, PASSIVE_QPN),
                     entropy_port_kernel(rtr[1].ah.flow_label, PASSIVE_QPN, 0x111));
    cm_kit_free(k);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_xrc),
        cmocka_unit_test(test_flood_fills_the_backlog),
        cmocka_unit_test(test_flood_of_a_willing_program),
        cmocka_unit_test(test_forged_requests),
        cmocka_unit_test(test_requests_of_many_addresses),
        cmocka_unit_test(test_proven_peers),
        cmocka_unit_test(test_answers_are_limited),
        cmocka_unit_test(test_repetitions_are_limited),
        cmocka_unit_test(test_longest_times),
        cmocka_unit_test(test_no_ack_timeout),
        cmocka_unit_test(test_many_timers),
        cmocka_unit_test(test_flood_fills_the_ids),
        cmocka_unit_test(test_listener_ends),
        cmocka_unit_test(test_many_connections),
        cmocka_unit_test(test_sidr),
        cmocka_unit_test(test_sidr_refused),
        cmocka_unit_test(test_native_service_id),
        cmocka_unit_test(test_alternate_paths_are_declined),
        cmocka_unit_test(test_req_of_another_version),
        cmocka_unit_test(test_attributes_at_each_state),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_psn_before_accept),
        cmocka_unit_test(test_attributes),
    };

    return cmocka_run_group_tests_name("cm_request", tests, NULL, NULL);
}
