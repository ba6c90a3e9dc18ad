/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entropy.h"
#include "unit.h"

#define ACTIVE_QPN  0x111
#define PASSIVE_QPN 0x222
#define PORT        7471

/* ---- the network ---- */

/* What a received packet tells of the way back: nothing that the REQ says. */
static struct cm_path way_back(const struct cm_kit *k, unsigned to, unsigned from)
{
    struct cm_path way = cm_kit_path(k, to, from);

    way.flow_label = way.traffic_class = way.sl = 0;
    return way;
}

static struct cm_path back(const struct cm_kit *k, const struct cm_kit_mad *m)
{
    struct cm_path way = way_back(k, m->to, m->from);

    way.sgid = m->path.dgid;
    way.dgid = m->path.sgid;
    return way;
}

static void arrive(struct cm_kit *k, const struct cm_kit_mad *m)
{
    struct cm_path way = back(k, m);

    if (k->node[m->to].cm)
        cm_rx(k->node[m->to].cm, &way, m->mad, sizeof(m->mad), k->now);
}

/* The last node stands for every other host. */
static unsigned node_of(const struct cm_kit *k, const union gid *gid)
{
    for (unsigned i = 0; i + 1 < CM_KIT_NODES; i++) {
        union gid own = cm_kit_gid(k, i);

        if (gid_eq(gid, &own))
            return i;
    }
    return CM_KIT_NODES - 1;
}

static void fly(struct cm_kit *k, const struct cm_kit_mad *m)
{
    struct cm_kit_mad *copy = &k->flight[k->flying];

    if (k->flying == CM_KIT_FLIGHT || k->node[m->to].cm == NULL)
        return;
    k->flying++;
    *copy = *m;
    copy->at = k->now + CM_KIT_LATENCY + (k->jitter ? random_next(&k->rng) % k->jitter : 0);
}

static void on_send(void *ctx, const struct cm_path *path, const uint8_t *mad)
{
    struct cm_kit_node *n = ctx;
    struct cm_kit *k = n->kit;
    struct cm_kit_mad *m = &n->sent[n->sends % CM_KIT_LOG];
    unsigned number = k->sends++;

    n->sends++;
    *m = (struct cm_kit_mad){.path = *path, .at = k->now, .from = (unsigned)(n - k->node)};
    memcpy(m->mad, mad, MAD_LEN);
    m->to = node_of(k, &path->dgid);
    if ((number < 64 && k->lose >> number & 1) || random_below(&k->rng, 256) < k->loss)
        return;
    fly(k, m);
    if (random_below(&k->rng, 256) < k->duplicates)
        fly(k, m);
}

static void on_event(void *ctx, const struct cm_event *e)
{
    struct cm_kit_node *n = ctx;
    struct cm_kit_event *log = &n->event[n->events++ % CM_KIT_LOG];

    log->e = *e;
    log->at = n->kit->now;
    if (e->private.len)
        memcpy(log->private, e->private.data, e->private.len);
    if (e->info.len)
        memcpy(log->info, e->info.data, e->info.len);
    log->e.private.data = log->private;
    log->e.info.data = log->info;
    if (n->on_event)
        n->on_event(n, e);
}

static const struct cm_host_ops ops = {.send = on_send, .event = on_event};

/* ---- time ---- */

static int first_arrival(const struct cm_kit *k)
{
    int first = -1;

    for (unsigned i = 0; i < k->flying; i++)
        if (first < 0 || k->flight[i].at < k->flight[first].at)
            first = (int)i;
    return first;
}

ns_t cm_kit_next(const struct cm_kit *k)
{
    int first = first_arrival(k);
    ns_t next = first < 0 ? NS_NEVER : k->flight[first].at;

    for (unsigned i = 0; i < CM_KIT_NODES; i++)
        if (k->node[i].cm)
            next = min_of(next, cm_next_timer(k->node[i].cm));
    return next;
}

static void happen(struct cm_kit *k)
{
    int first;

    while ((first = first_arrival(k)) >= 0 && k->flight[first].at <= k->now) {
        struct cm_kit_mad m = k->flight[first];

        memmove(&k->flight[first], &k->flight[first + 1],
                (k->flying - (unsigned)first - 1) * sizeof(m));
        k->flying--;
        arrive(k, &m);
    }
    for (unsigned i = 0; i < CM_KIT_NODES; i++)
        if (k->node[i].cm) {
            for (unsigned n = 0; cm_next_timer(k->node[i].cm) <= k->now; n++) {
                assert_true(n < 1000);
                cm_timers(k->node[i].cm, k->now);
            }
        }
}

void cm_kit_run(struct cm_kit *k, ns_t time)
{
    ns_t end = k->now + time;

    happen(k);
    while (cm_kit_next(k) <= end) {
        k->now = max_of(k->now, cm_kit_next(k));
        happen(k);
    }
    k->now = end;
}

void cm_kit_deliver(struct cm_kit *k)
{
    while (k->flying)
        cm_kit_run(k, CM_KIT_LATENCY);
}

/* ---- nodes ---- */

struct cm_kit *cm_kit_new(const struct cm_config *config)
{
    return cm_kit_new_of(config, 2);
}

struct cm_kit *cm_kit_new_of(const struct cm_config *config, unsigned managers)
{
    struct cm_kit *k = calloc(1, sizeof(*k));

    assert_non_null(k);
    k->now = SEC;
    k->rng.state = 1;
    k->flight = calloc(CM_KIT_FLIGHT, sizeof(*k->flight));
    assert_non_null(k->flight);
    for (unsigned i = 0; i < CM_KIT_NODES; i++) {
        struct cm_config c = config ? *config : (struct cm_config){0};

        c.ops = &ops;
        c.ctx = &k->node[i];
        for (unsigned w = 0; w < 4; w++)
            c.secret[w] += 1000 * i + w + 1;
        k->node[i].kit = k;
        k->node[i].cm = i < managers ? cm_create(&c) : NULL;
    }
    return k;
}

void cm_kit_free(struct cm_kit *k)
{
    for (unsigned i = 0; i < CM_KIT_NODES; i++)
        cm_destroy(k->node[i].cm);
    free(k->flight);
    free(k);
}

void cm_kit_clear(struct cm_kit *k)
{
    for (unsigned i = 0; i < CM_KIT_NODES; i++)
        k->node[i].events = k->node[i].sends = 0;
}

union gid cm_kit_gid(const struct cm_kit *k, unsigned node)
{
    union gid g = {.raw = {0xFD, [15] = (uint8_t)(node + 1)}};

    return k->v6 ? g : gid_from_ipv4((const uint8_t[4]){10, 9, 0, (uint8_t)(node + 1)});
}

struct cm_path cm_kit_path(const struct cm_kit *k, unsigned from, unsigned to)
{
    return (struct cm_path){
        .sgid = cm_kit_gid(k, from),
        .dgid = cm_kit_gid(k, to),
        .ca_guid = UINT64_C(0x505400fffe00000a) + from,
        .flow_label = entropy_flow_label_cm(0x1234, PORT),
        .vlan = VLAN_NONE,
        .pkey = 0xFFFF,
        .port_num = 1,
        .gid_type = GID_TYPE_ROCE_V2,
        .sgid_index = (uint8_t)(from + 1),
        .sl = 3,
        .traffic_class = 0x68,
        .hop_limit = 64,
        .mtu = 5,
        .packet_life_time = 18,
        .ack_delay = 15,
    };
}

struct cm_addr cm_kit_addr(const struct cm_kit *k, unsigned node, uint16_t number)
{
    return (struct cm_addr){
        .gid = cm_kit_gid(k, node), .number = number, .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};
}

struct cm_id *cm_kit_bound(struct cm_kit *k, unsigned node, enum ip_cm_port_space ps)
{
    struct cm_addr addr = cm_kit_addr(k, node, 0);
    int err;
    struct cm_id *id = cm_id_create(k->node[node].cm, ps, k, &err);

    assert_non_null(id);
    if (ps != IP_CM_PS_NONE)
        assert_int_equal(cm_bind(id, &addr, NULL, 0), 0);
    return id;
}

struct cm_id *cm_kit_listen(struct cm_kit *k, unsigned node, enum ip_cm_port_space ps,
                            uint16_t number, uint32_t backlog)
{
    struct cm_addr addr = cm_kit_addr(k, node, number);
    int err;
    struct cm_id *id = cm_id_create(k->node[node].cm, ps, k, &err);

    assert_non_null(id);
    if (ps == IP_CM_PS_NONE)
        assert_int_equal(cm_bind_service(id, number), 0);
    else
        assert_int_equal(cm_bind(id, &addr, NULL, 0), 0);
    assert_int_equal(cm_listen(id, backlog), 0);
    return id;
}

struct cm_connect_param cm_kit_param(const struct cm_kit *k, unsigned to, uint16_t number)
{
    return (struct cm_connect_param){
        .conn = {.qpn = ACTIVE_QPN,
                 .qp_type = CM_QP_RC,
                 .responder_resources = 3,
                 .initiator_depth = 4,
                 .flow_control = 1,
                 .retry_count = 5,
                 .rnr_retry_count = 6},
        .dst = cm_kit_addr(k, to, number),
        .service_id = number,
        .max_cm_retries = CM_MAX_RETRIES,
    };
}

struct cm_id *cm_kit_connect(struct cm_kit *k, unsigned from, unsigned to, uint16_t number)
{
    struct cm_id *id = cm_kit_bound(k, from, IP_CM_PS_TCP);
    struct cm_path path = cm_kit_path(k, from, to);
    struct cm_connect_param param = cm_kit_param(k, to, number);

    assert_int_equal(cm_connect(id, &path, &param, k->now), 0);
    return id;
}

void cm_kit_req(struct cm_kit *k, uint16_t number, uint8_t mad[MAD_LEN])
{
    cm_kit_connect(k, 0, 1, number);
    memcpy(mad, k->node[0].sent[(k->node[0].sends - 1) % CM_KIT_LOG].mad, MAD_LEN);
    k->flying = 0;
    cm_kit_clear(k);
}

int cm_kit_accept(struct cm_kit *k, struct cm_id *id, uint32_t qpn)
{
    struct cm_conn_param conn = {
        .qpn = qpn, .responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 7};

    return cm_accept(id, &conn, NULL, (struct cm_private){"hello", 5}, k->now);
}

void cm_kit_make_connection(struct cm_kit *k, struct cm_id **active, struct cm_id **passive)
{
    cm_kit_listen(k, 1, IP_CM_PS_TCP, PORT, 0);
    *active = cm_kit_connect(k, 0, 1, PORT);
    cm_kit_deliver(k);
    *passive = cm_kit_last(k, 1, CM_EVENT_CONNECT_REQUEST)->id;
    assert_int_equal(cm_kit_accept(k, *passive, PASSIVE_QPN), 0);
    cm_kit_deliver(k);
    cm_kit_last(k, 0, CM_EVENT_CONNECT_RESPONSE);
    assert_int_equal(cm_establish(*active, (struct cm_private){0}, k->now), 0);
    cm_kit_deliver(k);
    cm_kit_last(k, 1, CM_EVENT_ESTABLISHED);
}

void cm_kit_establish(struct cm_kit *k, struct cm_id **active, struct cm_id **passive)
{
    cm_kit_make_connection(k, active, passive);
    cm_kit_clear(k);
}

/* ---- the logs ---- */

const struct cm_event *cm_kit_last(const struct cm_kit *k, unsigned node, enum cm_event_type type)
{
    const struct cm_kit_node *n = &k->node[node];
    const struct cm_event *e = &n->event[(n->events - 1) % CM_KIT_LOG].e;

    assert_true(n->events > 0);
    assert_int_equal(e->type, type);
    return e;
}

unsigned cm_kit_count(const struct cm_kit *k, unsigned node, enum cm_event_type type)
{
    unsigned n = 0;

    for (unsigned i = 0; i < min_of(k->node[node].events, (unsigned)CM_KIT_LOG); i++)
        n += k->node[node].event[i].e.type == type;
    return n;
}

struct cm_msg cm_kit_sent(const struct cm_kit *k, unsigned node, unsigned n)
{
    struct cm_msg msg;

    assert_true(n < k->node[node].sends);
    assert_true(cm_msg_parse(&msg, k->node[node].sent[n % CM_KIT_LOG].mad, MAD_LEN));
    return msg;
}

struct cm_msg cm_kit_last_sent(const struct cm_kit *k, unsigned node)
{
    return cm_kit_sent(k, node, k->node[node].sends - 1);
}

void cm_kit_rx(struct cm_kit *k, unsigned from, unsigned to, const uint8_t *mad)
{
    struct cm_path way = way_back(k, to, from);

    cm_rx(k->node[to].cm, &way, mad, MAD_LEN, k->now);
}
