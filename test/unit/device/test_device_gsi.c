/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of queue pair 1 at a port with other hosts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_msg.h"
#include "cm_types.h"
#include "control/device_state.h"
#include "device_kit.h"
#include "encap.h"
#include "frame_ring.h"
#include "net/gsi.h"
#include "pkt.h"
#include "show/show.h"
#include "sim.h"
#include "unit.h"

#define WAITING_MAX 1024
#define FRAME_MAX   (ENCAP_MAX_LEN + PKT_MAX_HEADER + MAD_LEN + ICRC_LEN)

struct test {
    struct rnic *r;
    struct device *d; /* its second one */
    struct pktio *far;
};

/* A server of programs' requests would retry them. */
static void on_retry(void *ctx)
{
}

static int setup(void **state)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 3}, {2, 0, 0, 0, 0, 4}}};
    struct port_address a = {.prefix = 16, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct test *t = calloc(1, sizeof(*t));
    struct pktio *end[2];

    t->r = kit_rnic(NULL, NULL);
    assert_int_equal(gid_parse(&a.gid, "10.0.1.1"), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    rnic_on_retry(t->r, on_retry, NULL);
    t->d = t->r->device[1];
    t->far = end[1];
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct test *t = *state;

    rnic_destroy(t->r);
    t->far->ops->close(t->far);
    free(t);
    return 0;
}

static unsigned v2_entry(const struct device *d)
{
    unsigned i = 0;

    while (!d->gids.entry[i].valid || d->gids.entry[i].type != GID_TYPE_ROCE_V2)
        i++;
    return i;
}

/* A frame for the control thread. */
static void give(struct test *t, const uint8_t *frame, uint32_t len)
{
    assert_true(frame_ring_put(t->d->net.slow.up, frame, len));
    t->d->net.frames.ready(&t->d->net.frames, 0);
}

/* A REQ without a listener, from that address. Returns its length. */
static uint32_t request(uint8_t frame[FRAME_MAX], const struct test *t, const char *from,
                        uint32_t qkey)
{
    const struct gid_entry *e = &t->d->gids.entry[v2_entry(t->d)];
    uint8_t mad[MAD_LEN];
    struct address_vector av = {.dgid = e->gid, .gid_type = e->type, .vlan = VLAN_NONE};
    struct pkt p = {.opcode = OPCODE(PKT_UD, OP_SEND_ONLY),
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = QPN_GSI,
                    .deth = {.qkey = qkey, .src_qpn = QPN_GSI},
                    .payload_len = MAD_LEN};
    size_t len = pkt_len(p.opcode, MAD_LEN), head;
    struct encap_template et;

    memcpy(av.dmac, e->mac, sizeof(av.dmac));
    assert_int_equal(gid_parse(&av.sgid, from), 0);
    assert_int_equal(encap_template_make(&et, &av), 0);
    cm_msg_init(mad, CM_REQ, 1);
    head = encap_tx(frame, &et, len, 0);
    head += pkt_build_headers(frame + head, &p);
    memcpy(frame + head, mad, MAD_LEN);
    return (uint32_t)encap_seal(frame, &et, len);
}

static void give_request(struct test *t, const char *from, uint32_t qkey)
{
    uint8_t frame[FRAME_MAX];

    give(t, frame, request(frame, t, from, qkey));
}

/* From the network, by the worker. */
static void receive_request(struct test *t, uint32_t qkey)
{
    struct frame f;

    assert_int_equal(t->far->ops->tx_lend(t->far, 0, &f, 1), 1);
    f.len = request(f.data, t, "10.0.1.2", qkey);
    t->far->ops->tx_burst(t->far, 0, &f, 1, 1);
    for (unsigned i = 0; i < 4; i++)
        worker_poll(rnic_worker(t->r, 0), worker_time());
    t->d->net.frames.ready(&t->d->net.frames, 0);
}

/* 10.0.1.n says that it has 02:00:00:00:00:09. */
static void arp_reply(struct test *t, uint8_t n)
{
    uint8_t arp[60] = {2, 0, 0, 0, 0, 3, 2, 0,  0, 0, 0, 9, 8, 6, 0, 1, 8, 0,  6, 4, 0,
                       2, 2, 0, 0, 0, 0, 9, 10, 0, 1, n, 2, 0, 0, 0, 0, 3, 10, 0, 1, 1};

    give(t, arp, sizeof(arp));
}

/* 10.0.NET.n. */
static void send_to_net(struct test *t, uint8_t net, uint8_t n)
{
    const struct gid_entry *e = &t->d->gids.entry[v2_entry(t->d)];
    struct cm_path path = {.sgid = e->gid,
                           .dgid = gid_from_ipv4((const uint8_t[4]){10, 0, net, n}),
                           .port = 1,
                           .vlan = VLAN_NONE,
                           .port_num = 1,
                           .gid_type = e->type,
                           .sgid_index = (uint8_t)v2_entry(t->d)};

    gsi_send(t->d, &path, (const uint8_t[MAD_LEN]){0});
}

static void send_to(struct test *t, uint8_t n)
{
    send_to_net(t, 1, n);
}

/* What waits for a host that does not exist leaves room for those that do. */
static void test_waiting(void **state)
{
    struct test *t = *state;
    struct gsi *g = &t->d->gsi;

    for (unsigned i = 0; i < WAITING_MAX; i++)
        send_to(t, 99);
    assert_int_equal(g->waiting_count, WAITING_MAX);
    send_to(t, 2);
    assert_int_equal(g->waiting_count, WAITING_MAX);
    assert_int_equal(g->tx_unreachable, 1);
    arp_reply(t, 2);
    assert_int_equal(g->tx, 1);
    assert_int_equal(g->waiting_count, WAITING_MAX - 1);
}

/* Answers to forged sources ask for the neighbour once: one that is given up for another is not
 * asked for again, which would take the place of a third. */
static void test_forged_sources(void **state)
{
    struct test *t = *state;
    const struct net_counters *c = net_host_counters(t->d->net.host);
    unsigned sources = NET_NEIGHBOUR_MAX + 200;
    uint64_t before;

    send_to(t, 2); /* a host that exists has one of the places */
    arp_reply(t, 2);
    before = c->arp_tx;
    for (unsigned i = 0; i < sources; i++) {
        send_to_net(t, (uint8_t)(2 + i / 250), (uint8_t)(1 + i % 250));
        net_apply_changes(t->d);
    }
    assert_int_equal(c->arp_tx - before, sources);
    assert_int_equal(t->d->gsi.waiting_count, NET_NEIGHBOUR_MAX - 1);
    assert_int_equal(t->d->gsi.tx_unreachable, 201);
}

/* A packet from a multicast address has no answer, which many hosts would get. */
static void test_sources(void **state)
{
    struct test *t = *state;
    struct gsi *g = &t->d->gsi;

    give_request(t, "224.0.0.1", MAD_QKEY);
    assert_int_equal(g->rx_bad, 1);
    assert_int_equal(g->tx + g->waiting_count, 0);
    give_request(t, "10.0.1.2", 5);
    assert_int_equal(g->rx_bad, 2);
    give_request(t, "10.0.1.2", MAD_QKEY);
    assert_int_equal(g->rx_bad, 2);
    assert_int_equal(g->rx, 3);
    assert_int_equal(g->waiting_count, 1);
}

/* What programs can send to queue pair 1, with a Q_Key that is not controlled, is the worker's to
 * drop. */
static void test_qkeys(void **state)
{
    struct test *t = *state;
    const struct engine_counters *c = engine_counters(t->d->port[0]->engine);

    receive_request(t, 5);
    assert_int_equal(t->d->gsi.rx, 0);
    assert_int_equal(counter_get(&c->drop[DROP_qkey_mismatch]), 1);
    receive_request(t, MAD_QKEY);
    assert_int_equal(t->d->gsi.rx, 1);
    assert_int_equal(t->d->gsi.rx_bad, 0);
}

/* ---- a class with a handler ---- */

#define VENDOR 0x30

struct talk {
    struct device *d;
    unsigned requests, responses;
    uint64_t answered; /* transaction ID */
    uint16_t status;
    union gid from;
};

static enum gsi_verdict on_vendor(void *ctx, const struct cm_path *way, const uint8_t *mad,
                                  uint8_t *answer)
{
    struct talk *k = ctx;

    assert_int_equal(way->port, k->d->index);
    if (answer) {
        k->requests++;
        return GSI_ANSWER;
    }
    k->responses++;
    k->answered = mad_get(mad, MAD_transaction_id);
    k->status = (uint16_t)mad_get(mad, MAD_status);
    k->from = way->dgid;
    return GSI_TAKEN;
}

static void ask(struct device *d, uint64_t transaction)
{
    uint8_t mad[MAD_LEN] = {MAD_BASE_VERSION, VENDOR, 1, MAD_GET};
    const struct gid_entry *e = &d->gids.entry[v2_entry(d)];
    struct address_vector av = {.sgid = e->gid,
                                .dgid = e->gid,
                                .sgid_index = (uint8_t)v2_entry(d),
                                .gid_type = e->type,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64};
    struct cm_path path;

    mad_set(mad, MAD_transaction_id, transaction);
    gsi_path_of(d, &av, &path);
    gsi_send(d, &path, mad);
}

static void exchange(struct test *t, struct device *d)
{
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned n = 0; n < 4; n++)
            worker_poll(rnic_worker(t->r, 0), worker_time());
        d->net.frames.ready(&d->net.frames, 0);
    }
}

/* A request to a port's queue pair 1 over the wire, and the answer back: here both ends are the
 * loopback device. Without the handler the asker still gets an answer, of another status. */
static void test_classes(void **state)
{
    struct test *t = *state;
    struct talk k = {.d = t->r->device[0]};
    struct gsi_handler h = {on_vendor, &k};

    assert_int_equal(gsi_register(t->r, MAD_CLASS_CM, &h), -EINVAL);
    assert_int_equal(gsi_register(t->r, VENDOR, &h), 0);
    ask(k.d, 0x1234567890ABCDEF);
    exchange(t, k.d);
    assert_int_equal(k.requests, 1);
    assert_int_equal(k.responses, 1);
    assert_int_equal(k.status, MAD_STATUS_OK);
    assert_true(k.answered == 0x1234567890ABCDEF);
    assert_true(gid_eq(&k.from, &k.d->gids.entry[v2_entry(k.d)].gid));
    gsi_unregister(t->r, VENDOR);
    ask(k.d, 2);
    exchange(t, k.d);
    assert_int_equal(k.requests, 1);
    assert_int_equal(cm_counters(t->r->cm.manager)->gsi_answered, 1);
    assert_int_equal(cm_counters(t->r->cm.manager)->gsi_taken, 2);
}

static void test_show(void **state)
{
    struct test *t = *state;
    json_t *o;
    const json_t *row;

    give_request(t, "10.0.1.2", 5);
    give_request(t, "10.0.1.2", MAD_QKEY);
    o = show_cm(t->r);
    row = json_array_get(json_object_get(o, "gsi"), 1);
    assert_string_equal(json_string_value(json_object_get(row, "device")), t->d->name);
    assert_int_equal(json_integer_value(json_object_get(row, "rx")), 2);
    assert_int_equal(json_integer_value(json_object_get(row, "rx_bad")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "waiting")), 1);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_qkeys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_show, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_gsi", tests, NULL, NULL);
}
