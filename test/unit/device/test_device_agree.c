/* SPDX-License-Identifier: BSD-3-Clause */
/* Two daemons agree on maps of kept packets, or do not. */
#include <string.h>

#include "device_app.h"
#include "ece.h"
#include "encap.h"
#include "net/gsi.h"
#include "objects/agree.h"
#include "objects/qp_object.h"
#include "peer_mad.h"
#include "qp.h"
#include "sim.h"
#include "unit.h"

struct end {
    struct rnic *r;
    struct device *d;
    struct app app;
    struct app_cq cq;
    struct app_qp qp;
};

static struct end near, far;
static ns_t now;

static ns_t clock_of_test(void)
{
    return now;
}

static void open_end(struct end *e, struct pktio *io, const char *own, const char *other,
                     uint8_t mac, bool selective)
{
    struct port_address a = {.prefix = 24, .vlan = VLAN_NONE};
    struct port_neighbour n = {.mac = {2, 0, 0, 0, 0, mac}};
    struct port_config pc = {.io = io,
                             .address = &a,
                             .addresses = 1,
                             .neighbour = &n,
                             .neighbours = 1,
                             .selective = selective};

    assert_int_equal(gid_parse(&a.gid, own), 0);
    assert_int_equal(gid_parse(&n.addr, other), 0);
    *e = (struct end){.r = kit_rnic_with(NULL, clock_of_test, pc)};
    e->d = e->r->device[0];
    app_open(&e->app, e->r);
    app_cq(&e->app, &e->cq, 16);
}

static void open_both(bool far_selective)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 3}, {2, 0, 0, 0, 0, 4}}};
    struct pktio *io[2];

    now = NS_PER_SEC;
    kit_status = 0;
    assert_int_equal(pktio_sim_pair(io, &sc), 0);
    open_end(&near, io[0], "10.0.1.1", "10.0.1.2", 4, true);
    open_end(&far, io[1], "10.0.1.2", "10.0.1.1", 3, far_selective);
}

static int teardown(void **state)
{
    app_close(&near.app);
    app_close(&far.app);
    rnic_destroy(near.r);
    rnic_destroy(far.r);
    return 0;
}

static void turn(struct end *e)
{
    for (unsigned n = 0; n < 4; n++)
        worker_poll(rnic_worker(e->r, 0), worker_time());
    e->d->net.frames.ready(&e->d->net.frames, 0);
}

/* A question gets to the other end, and its answer back. */
static void exchange(void)
{
    for (unsigned i = 0; i < 4; i++) {
        turn(&near);
        turn(&far);
    }
}

static void connect_end(struct end *e, uint32_t type, const char *other)
{
    assert_int_equal(app_qp(&e->app, &e->qp, type, &e->cq, 0, 0), 0);
    app_ready_by(&e->qp, 77, 3, app_address(other));
}

static struct qp_object *object_of(const struct end *e)
{
    return qp_object_get(e->app.session, e->qp.qpn);
}

static bool agreed(const struct end *e)
{
    return object_of(e)->dp.qp->selective;
}

static void test_both(void **state)
{
    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_false(agreed(&near));
    assert_int_equal(near.d->gsi.tx, 1);
    exchange();
    assert_true(agreed(&near));
    /* The other end has not asked yet. */
    connect_end(&far, QPT_RC, "10.0.1.1");
    assert_false(agreed(&far));
    exchange();
    assert_true(agreed(&far));
    /* What is known is not asked again. */
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_true(agreed(&near));
    assert_int_equal(near.d->gsi.tx, 2); /* with the answer */
}

static void test_answer_holds(void **state)
{
    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    exchange();
    now += AGREE_HOLDS - 1;
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_true(agreed(&near));
    now++;
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_false(agreed(&near));
    exchange();
    assert_true(agreed(&near));
    assert_int_equal(near.d->gsi.tx, 2);
}

/* A peer without the setting is one as any other, and who has not the setting asks nothing. */
static void test_one_alone(void **state)
{
    open_both(false);
    connect_end(&near, QPT_RC, "10.0.1.2");
    connect_end(&far, QPT_RC, "10.0.1.1");
    exchange();
    assert_false(agreed(&near));
    assert_false(agreed(&far));
    assert_int_equal(near.d->gsi.tx, 1);
    assert_int_equal(far.d->gsi.tx, 1); /* the answer */
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_false(agreed(&near));
    assert_false(object_of(&near)->waits_for_agreement);
    assert_int_equal(near.d->gsi.tx, 1);
}

/* Loss, and a peer that does not know the class. */
static void test_silence(void **state)
{
    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_int_equal(near.d->gsi.tx, 1);
    for (unsigned i = 2; i <= AGREE_TRIES; i++) {
        now += AGREE_WAIT - 1;
        agree_ask_again(near.r);
        assert_int_equal(near.d->gsi.tx, i - 1);
        now++;
        agree_ask_again(near.r);
        assert_int_equal(near.d->gsi.tx, i);
    }
    assert_true(object_of(&near)->waits_for_agreement);
    now += AGREE_WAIT;
    agree_ask_again(near.r);
    assert_false(object_of(&near)->waits_for_agreement);
    assert_int_equal(near.d->gsi.tx, AGREE_TRIES);
    exchange(); /* too late */
    assert_false(agreed(&near));
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_int_equal(near.d->gsi.tx, AGREE_TRIES);
}

/* An answer to the second question. */
static void test_asked_again(void **state)
{
    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    now += AGREE_WAIT;
    agree_ask_again(near.r);
    exchange();
    assert_true(agreed(&near));
}

static void answer(uint64_t transaction)
{
    const struct agree_peer *p = &near.d->agree[0];
    struct address_vector av = {.sgid_index = p->path.sgid_index,
                                .sgid = p->path.dgid,
                                .dgid = p->path.sgid,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64};
    uint8_t mad[MAD_LEN];
    struct cm_path path;

    peer_mad_ask(mad, transaction, PEER_KEPT_MAPS);
    mad_set(mad, MAD_response, 1);
    gsi_path_of(far.d, &av, &path);
    gsi_send(far.d, &path, mad);
    exchange();
}

static void test_forged(void **state)
{
    open_both(false);
    connect_end(&near, QPT_RC, "10.0.1.2");
    answer(near.d->agree[0].transaction + 1);
    assert_false(agreed(&near));
}

/* The program, or the CM, has said what the peer can do: nothing is asked. */
static void said(uint32_t ece, bool selective)
{
    uint32_t sent = (uint32_t)near.d->gsi.tx;
    struct ctl_msg m;

    assert_int_equal(app_qp(&near.app, &near.qp, QPT_RC, &near.cq, 0, 0), 0);
    m = (struct ctl_msg){
        .modify_qp = {.qpn = near.qp.qpn,
                      .mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                      .attr = {.state = QPS_INIT, .port_num = 1},
                      .ece = ece}};
    assert_int_equal(app_call(&near.app, CTL_MODIFY_QP, &m), 0);
    app_ready_by(&near.qp, 77, 3, app_address("10.0.1.2"));
    assert_int_equal(agreed(&near), selective);
    assert_false(object_of(&near)->waits_for_agreement);
    assert_int_equal(near.d->gsi.tx, sent);
}

static void test_said(void **state)
{
    open_both(true);
    said(ECE_SAID | ECE_KEPT_MAPS, true);
    said(ECE_SAID, false);
    /* Until it is reset. */
    assert_int_equal(app_modify(&near.qp, QPA_STATE, (struct qp_attr){.state = QPS_RESET}), 0);
    app_ready_by(&near.qp, 77, 3, app_address("10.0.1.2"));
    assert_int_equal(near.d->gsi.tx, 1);
    assert_true(object_of(&near)->waits_for_agreement);
}

/* The port has not the setting, whatever a program says. */
static void test_said_in_vain(void **state)
{
    struct end swap;

    open_both(false);
    swap = near;
    near = far;
    far = swap;
    assert_int_equal(app_qp(&near.app, &near.qp, QPT_RC, &near.cq, 0, 0), 0);
    object_of(&near)->ece = ECE_SAID | ECE_KEPT_MAPS;
    app_ready_by(&near.qp, 77, 3, app_address("10.0.1.1"));
    assert_false(agreed(&near));
    assert_int_equal(near.d->gsi.tx, 0);
}

/* Who waits may end, or begin anew. */
static void test_gone_while_waiting(void **state)
{
    struct ctl_msg m;

    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    m = (struct ctl_msg){.destroy.handle = near.qp.qpn};
    assert_int_equal(app_call(&near.app, CTL_DESTROY_QP, &m), 0);
    connect_end(&near, QPT_RC, "10.0.1.2");
    assert_int_equal(app_modify(&near.qp, QPA_STATE, (struct qp_attr){.state = QPS_RESET}), 0);
    assert_false(object_of(&near)->waits_for_agreement);
    exchange();
    assert_false(agreed(&near));
}

static void test_reset(void **state)
{
    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    exchange();
    assert_true(agreed(&near));
    assert_int_equal(app_modify(&near.qp, QPA_STATE, (struct qp_attr){.state = QPS_RESET}), 0);
    assert_false(agreed(&near));
}

/* The same address in another VLAN is another peer, which is asked by itself. */
static void test_another_vlan(void **state)
{
    struct port_address a = {.prefix = 24, .vlan = 5};
    struct ah_attr to = app_address("10.0.1.2");
    int index;

    open_both(true);
    connect_end(&near, QPT_RC, "10.0.1.2");
    exchange();
    assert_true(agreed(&near));
    assert_int_equal(gid_parse(&a.gid, "10.0.1.1"), 0);
    assert_int_equal(rnic_add_address(near.r, 0, &a), 0);
    index = gid_table_find(&near.d->gids, &a.gid, GID_TYPE_ROCE_V2, a.vlan);
    to.sgid_index = (uint8_t)index;
    assert_int_equal(app_qp(&near.app, &near.qp, QPT_RC, &near.cq, 0, 0), 0);
    app_ready_by(&near.qp, 77, 3, to);
    assert_false(agreed(&near));
    assert_true(object_of(&near)->waits_for_agreement);
    exchange(); /* the other end has no address there */
    assert_false(agreed(&near));
    assert_int_equal(gid_parse(&a.gid, "10.0.1.2"), 0);
    assert_int_equal(rnic_add_address(far.r, 0, &a), 0);
    now += AGREE_WAIT;
    agree_ask_again(near.r);
    exchange();
    assert_true(agreed(&near));
}

/* Connections alone have something to agree on. */
static void test_other_types(void **state)
{
    open_both(true);
    connect_end(&near, QPT_UC, "10.0.1.2");
    connect_end(&near, QPT_UD, "10.0.1.2");
    assert_int_equal(near.d->gsi.tx, 0);
    connect_end(&near, QPT_XRC_SEND, "10.0.1.2");
    assert_int_equal(near.d->gsi.tx, 1);
    exchange();
    assert_true(agreed(&near));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_both, teardown),
        cmocka_unit_test_teardown(test_answer_holds, teardown),
        cmocka_unit_test_teardown(test_one_alone, teardown),
        cmocka_unit_test_teardown(test_silence, teardown),
        cmocka_unit_test_teardown(test_asked_again, teardown),
        cmocka_unit_test_teardown(test_forged, teardown),
        cmocka_unit_test_teardown(test_said, teardown),
        cmocka_unit_test_teardown(test_said_in_vain, teardown),
        cmocka_unit_test_teardown(test_gone_while_waiting, teardown),
        cmocka_unit_test_teardown(test_reset, teardown),
        cmocka_unit_test_teardown(test_another_vlan, teardown),
        cmocka_unit_test_teardown(test_other_types, teardown),
    };

    return cmocka_run_group_tests_name("device_agree", tests, NULL, NULL);
}
