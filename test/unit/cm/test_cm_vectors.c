/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Linux kernel's messages in captures: the manager plays each side of every exchange. It gets
 * what the other side sent, its host does what the recorded program did, and what it sends must be
 * the recorded bytes, except for the numbers that each side makes up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "capture.h"
#include "cm_internal.h"
#include "encap.h"
#include "pkt.h"
#include "unit.h"

#define FRAMES_MAX 32

struct recorded {
    union gid src, dst;
    uint8_t mad[MAD_LEN];
};

/* One capture's MADs, in their order. */
struct exchange {
    char file[64];
    struct recorded frame[FRAMES_MAX];
    unsigned frames;
};

/* The manager on one side, and what it was asked to do next. */
struct player {
    const struct exchange *x;
    struct cm *cm;
    union gid own;
    struct cm_id *id[FRAMES_MAX]; /* by the frame that made them */
    struct cm_id *last;           /* of an event */
    enum cm_event_type event;
    unsigned events;
    uint8_t sent[MAD_LEN];
    bool has_sent;
    unsigned compared;
    /* Communication and transaction IDs: the recorded number, and the one that stands for it now.
     * Those of the other side are as recorded. */
    struct {
        uint64_t recorded, now;
    } number[2 * FRAMES_MAX];
    unsigned numbers;
};

/* ---- reading ---- */

static struct exchange exchanges[32];
static unsigned exchange_count;

static void note_frame(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    static const struct encap_port any = {.promiscuous = true};
    struct exchange *x = exchange_count ? &exchanges[exchange_count - 1] : NULL;
    struct encap_view v;
    struct recorded *f;
    struct pkt p;

    if (strncmp(file, "cm-", 3) || encap_rx(&v, bytes, len, &any) != DROP_NONE ||
        pkt_parse(&p, v.bth, v.bth_len) != DROP_NONE || p.dest_qpn != 1)
        return;
    if (!x || strcmp(x->file, file)) {
        x = &exchanges[exchange_count++];
        snprintf(x->file, sizeof(x->file), "%s", file);
    }
    assert_int_equal(p.payload_len, MAD_LEN);
    assert_true(x->frames < FRAMES_MAX);
    f = &x->frame[x->frames++];
    f->src = v.sgid;
    f->dst = v.dgid;
    memcpy(f->mad, p.payload, MAD_LEN);
}

static void read_captures(void)
{
    if (!exchange_count)
        assert_true(capture_walk(TEST_VECTORS "/rxe-6.1", note_frame, NULL) > 0);
    assert_int_equal(exchange_count, 11); /* each of the captures cm-*.pcap */
}

/* ---- the host ---- */

static void on_send(void *ctx, const struct cm_path *path, const uint8_t *mad)
{
    struct player *p = ctx;

    assert_false(p->has_sent);
    memcpy(p->sent, mad, MAD_LEN);
    p->has_sent = true;
}

static void on_event(void *ctx, const struct cm_event *e)
{
    struct player *p = ctx;

    p->last = e->id;
    p->event = e->type;
    p->events++;
}

/* The path of the recorded side: its GUID from its own REQ or REP, the rest of rdma_rxe's. */
static struct cm_path path_of(const struct player *p, const struct recorded *f)
{
    struct cm_path path = {.sgid = f->src,
                           .dgid = f->dst,
                           .vlan = VLAN_NONE,
                           .pkey = 0xFFFF,
                           .port_num = 1,
                           .gid_type = GID_TYPE_ROCE_V2,
                           .sgid_index = 1,
                           .hop_limit = 64,
                           .mtu = 5,
                           .packet_life_time = 18,
                           .ack_delay = 15};

    for (unsigned i = 0; i < p->x->frames; i++) {
        const struct recorded *g = &p->x->frame[i];
        struct cm_msg m;

        if (!gid_eq(&g->src, &p->own) || !cm_msg_parse(&m, g->mad, MAD_LEN))
            continue;
        if (m.message == CM_REQ) {
            path.ca_guid = cm_msg_get(&m, CM_REQ_local_ca_guid);
            path.flow_label = (uint32_t)cm_msg_get(&m, CM_REQ_primary_flow_label);
        } else if (m.message == CM_REP) {
            path.ca_guid = cm_msg_get(&m, CM_REP_local_ca_guid);
        }
    }
    return path;
}

/* The id that a message of its own belongs to: its local_comm_id was recorded there, too. */
static struct cm_id *id_of(struct player *p, const struct cm_msg *m)
{
    uint32_t recorded = get_be32(m->data); /* local_comm_id of all these messages */

    for (unsigned i = 0; i < p->x->frames; i++) {
        struct cm_msg first;

        if (!p->id[i] || !gid_eq(&p->x->frame[i].src, &p->own) ||
            !cm_msg_parse(&first, p->x->frame[i].mad, MAD_LEN))
            continue;
        if (get_be32(first.data) == recorded)
            return p->id[i];
    }
    return NULL;
}

static struct cm_private private_of(const struct cm_msg *m, size_t front)
{
    struct cm_private private;

    private.data = cm_msg_private_data(m, &private.len);
    private.data = (const uint8_t *)private.data + front;
    private.len -= front;
    return private;
}

/* rdma_connect, with the recorded parameters. */
static struct cm_id *replay_connect(struct player *p, const struct recorded *f,
                                    const struct cm_msg *m)
{
    bool req = m->message == CM_REQ;
    uint64_t service = cm_msg_get(m, req ? CM_REQ_service_id : CM_SIDR_REQ_service_id);
    struct cm_path path = path_of(p, f);
    struct cm_connect_param param = {.max_cm_retries = 15, .private = private_of(m, IP_CM_HEADER)};
    struct cm_addr src = {.gid = f->src, .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};
    struct ip_cm_header h;
    const uint8_t *data;
    struct cm_id *id;
    size_t len;
    int err;

    data = cm_msg_private_data(m, &len);
    assert_true(ip_cm_parse(&h, data, len));
    src.number = h.src_port;
    id = cm_id_create(p->cm, ip_cm_port_space_of(service), p, &err);
    assert_non_null(id);
    assert_int_equal(cm_bind(id, &src, NULL, 0), 0);
    param.dst = (struct cm_addr){.gid = f->dst, .number = (uint16_t)service};
    if (!req) {
        assert_int_equal(cm_sidr_request(id, &path, &param, 1), 0);
        return id;
    }
    param.conn = (struct cm_conn_param){
        .qpn = (uint32_t)cm_msg_get(m, CM_REQ_local_qpn),
        .qp_type = CM_QP_RC,
        .responder_resources = (uint8_t)cm_msg_get(m, CM_REQ_responder_resources),
        .initiator_depth = (uint8_t)cm_msg_get(m, CM_REQ_initiator_depth),
        .flow_control = (uint8_t)cm_msg_get(m, CM_REQ_end_to_end_flow_control),
        .retry_count = (uint8_t)cm_msg_get(m, CM_REQ_retry_count),
        .rnr_retry_count = (uint8_t)cm_msg_get(m, CM_REQ_rnr_retry_count),
        .srq = (uint8_t)cm_msg_get(m, CM_REQ_srq)};
    path.mtu = (uint8_t)cm_msg_get(m, CM_REQ_path_mtu);
    path.flow_label = (uint32_t)cm_msg_get(m, CM_REQ_primary_flow_label);
    assert_int_equal(cm_connect(id, &path, &param, 1), 0);
    return id;
}

static void replay_accept(struct player *p, const struct cm_msg *m)
{
    struct cm_conn_param conn = {
        .qpn = (uint32_t)cm_msg_get(m, CM_REP_local_qpn),
        .responder_resources = (uint8_t)cm_msg_get(m, CM_REP_responder_resources),
        .initiator_depth = (uint8_t)cm_msg_get(m, CM_REP_initiator_depth),
        .flow_control = (uint8_t)cm_msg_get(m, CM_REP_end_to_end_flow_control),
        .rnr_retry_count = (uint8_t)cm_msg_get(m, CM_REP_rnr_retry_count),
        .srq = (uint8_t)cm_msg_get(m, CM_REP_srq)};

    assert_int_equal(p->event, CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(cm_accept(p->last, &conn, NULL, private_of(m, 0), 1), 0);
}

static void replay_sidr_reply(struct player *p, const struct cm_msg *m)
{
    struct cm_sidr_answer answer = {.status = (uint8_t)cm_msg_get(m, CM_SIDR_REP_status),
                                    .qpn = (uint32_t)cm_msg_get(m, CM_SIDR_REP_qpn),
                                    .qkey = (uint32_t)cm_msg_get(m, CM_SIDR_REP_qkey),
                                    .private = private_of(m, 0)};

    assert_int_equal(p->event, CM_EVENT_SIDR_REQUEST);
    assert_int_equal(cm_sidr_reply(p->last, &answer, 1), 0);
}

/* ---- numbers that each side makes up ---- */

/* The number that stands for a recorded one; the first time, it is `now`. */
static uint64_t number_now(struct player *p, uint64_t recorded, uint64_t now)
{
    for (unsigned i = 0; i < p->numbers; i++)
        if (p->number[i].recorded == recorded)
            return p->number[i].now;
    assert_true(p->numbers < ARRAY_SIZE(p->number));
    p->number[p->numbers].recorded = recorded;
    p->number[p->numbers++].now = now;
    return now;
}

/* The sender's communication ID or request ID, and the receiver's; CM_FIELD_COUNT: it has none. */
static const enum cm_field ids_of[CM_MESSAGE_COUNT][2] = {
    [CM_REQ] = {CM_REQ_local_comm_id, CM_FIELD_COUNT},
    [CM_REP] = {CM_REP_local_comm_id, CM_REP_remote_comm_id},
    [CM_RTU] = {CM_RTU_local_comm_id, CM_RTU_remote_comm_id},
    [CM_DREQ] = {CM_DREQ_local_comm_id, CM_DREQ_remote_comm_id},
    [CM_DREP] = {CM_DREP_local_comm_id, CM_DREP_remote_comm_id},
    [CM_REJ] = {CM_REJ_local_comm_id, CM_REJ_remote_comm_id},
    [CM_SIDR_REQ] = {CM_SIDR_REQ_request_id, CM_FIELD_COUNT},
    [CM_SIDR_REP] = {CM_FIELD_COUNT, CM_SIDR_REP_request_id},
};

/*
 * Replaces the recorded numbers of a MAD by those that stand for them; numbers that occur for the
 * first time are those of `from`. The kernel has one transaction ID for all of a connection; that
 * its end is another transaction than its beginning is as good.
 */
static void renumber(struct player *p, uint8_t *mad, const uint8_t *from)
{
    struct cm_msg m, f;
    uint64_t transaction;

    assert_true(cm_msg_parse(&m, mad, MAD_LEN) && cm_msg_parse(&f, from, MAD_LEN));
    assert_int_equal(m.message, f.message);
    for (unsigned i = 0; i < 2; i++) {
        enum cm_field field = ids_of[m.message][i];

        if (field != CM_FIELD_COUNT && cm_msg_get(&m, field))
            cm_msg_set(mad, field, number_now(p, cm_msg_get(&m, field), cm_msg_get(&f, field)));
    }
    transaction = mad_get(mad, MAD_transaction_id);
    if (m.message == CM_DREQ || m.message == CM_DREP)
        transaction = ~transaction;
    mad_set(mad, MAD_transaction_id, number_now(p, transaction, mad_get(from, MAD_transaction_id)));
}

static void blank_psn(uint8_t *mad)
{
    struct cm_msg m;

    assert_true(cm_msg_parse(&m, mad, MAD_LEN));
    if (m.message == CM_REQ)
        cm_msg_set(mad, CM_REQ_starting_psn, 0);
    else if (m.message == CM_REP)
        cm_msg_set(mad, CM_REP_starting_psn, 0);
}

/* ---- comparing ---- */

static void compare(struct player *p, unsigned n)
{
    uint8_t recorded[MAD_LEN];

    assert_true(p->has_sent);
    p->has_sent = false;
    memcpy(recorded, p->x->frame[n].mad, MAD_LEN);
    renumber(p, recorded, p->sent);
    blank_psn(recorded);
    blank_psn(p->sent);
    for (unsigned i = 0; i < MAD_LEN; i++)
        if (recorded[i] != p->sent[i])
            fail_msg("%s, MAD %u: byte %u is %02x, recorded %02x", p->x->file, n, i, p->sent[i],
                     recorded[i]);
    p->compared++;
}

/* ---- a side ---- */

/* What this side recorded as sent: its program did it. */
static void act(struct player *p, unsigned n, const struct cm_msg *m)
{
    const struct recorded *f = &p->x->frame[n];

    switch (m->message) {
    case CM_REQ:
    case CM_SIDR_REQ:
        p->id[n] = replay_connect(p, f, m);
        break;
    case CM_REP:
        p->id[n] = p->last;
        replay_accept(p, m);
        break;
    case CM_RTU:
        assert_int_equal(p->event, CM_EVENT_CONNECT_RESPONSE);
        assert_int_equal(cm_establish(id_of(p, m), private_of(m, 0), 1), 0);
        break;
    case CM_DREQ:
    case CM_DREP: /* the manager answers by itself when both ends disconnect at once */
        if (!p->has_sent)
            assert_int_equal(cm_disconnect(id_of(p, m), private_of(m, 0), 1), 0);
        break;
    case CM_SIDR_REP:
        replay_sidr_reply(p, m);
        break;
    default: /* a REJ comes by itself: there is no listener */
        break;
    }
    compare(p, n);
}

/* Both ends disconnect at once: the second DREQ was sent before the first one arrived. */
static bool crosses(const struct exchange *x, unsigned n)
{
    struct cm_msg a, b;

    return n + 1 < x->frames && cm_msg_parse(&a, x->frame[n].mad, MAD_LEN) &&
           cm_msg_parse(&b, x->frame[n + 1].mad, MAD_LEN) && a.message == CM_DREQ &&
           b.message == CM_DREQ;
}

/* One message, by this side or to it. */
static void play_message(struct player *p, unsigned n)
{
    const struct recorded *f = &p->x->frame[n];
    const struct cm_counters *c = cm_counters(p->cm);
    uint8_t mad[MAD_LEN];
    struct cm_path way;
    struct cm_msg m;

    assert_true(cm_msg_parse(&m, f->mad, MAD_LEN));
    if (gid_eq(&f->src, &p->own)) {
        act(p, n, &m);
        return;
    }
    memcpy(mad, f->mad, MAD_LEN);
    renumber(p, mad, f->mad);
    way = path_of(p, f);
    way.sgid = f->dst;
    way.dgid = f->src;
    cm_rx(p->cm, &way, mad, MAD_LEN, 1);
    assert_int_equal(c->unmatched + c->malformed + c->wrong_source, 0);
    assert_true(!c->ignored || m.message == CM_DREP); /* of the second of two DREQs */
}

static void play(const struct exchange *x, const union gid *own, unsigned *compared)
{
    static const struct cm_host_ops ops = {.send = on_send, .event = on_event};
    struct player p = {.x = x, .own = *own};
    bool refused = strstr(x->file, "reject") != NULL;
    int err;

    p.cm = cm_create(&(struct cm_config){.ops = &ops, .ctx = &p, .secret = {1, 2, 3, 4}});
    for (unsigned i = 0; i < 2 && !refused; i++) {
        struct cm_addr any = {.number = 7174, .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};
        struct cm_id *id = cm_id_create(p.cm, i ? IP_CM_PS_UDP : IP_CM_PS_TCP, &p, &err);
        struct cm_msg m;

        assert_true(cm_msg_parse(&m, x->frame[0].mad, MAD_LEN));
        any.number = (uint16_t)cm_msg_get(&m, m.message == CM_REQ ? CM_REQ_service_id
                                                                  : CM_SIDR_REQ_service_id);
        assert_int_equal(cm_bind(id, &any, NULL, CM_BIND_PRIVILEGED), 0);
        assert_int_equal(cm_listen(id, 0), 0);
    }
    for (unsigned n = 0; n < x->frames; n++) {
        bool swap = crosses(x, n) && gid_eq(&x->frame[n + 1].src, own);

        play_message(&p, n + swap);
        if (swap)
            play_message(&p, n++);
    }
    assert_false(p.has_sent);
    *compared += p.compared;
    cm_destroy(p.cm);
}

static void test_each_side_of_every_exchange(void **state)
{
    unsigned compared = 0, frames = 0;

    read_captures();
    for (unsigned i = 0; i < exchange_count; i++) {
        play(&exchanges[i], &exchanges[i].frame[0].src, &compared);
        play(&exchanges[i], &exchanges[i].frame[0].dst, &compared);
        frames += exchanges[i].frames;
    }
    assert_int_equal(compared, frames); /* each frame by the side that sent it */
    assert_true(frames >= 50);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_side_of_every_exchange),
    };

    return cmocka_run_group_tests_name("cm_vectors", tests, NULL, NULL);
}
