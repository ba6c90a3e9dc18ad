/* SPDX-License-Identifier: BSD-3-Clause */
/* What applications of different users learn of each other, and can do to each other: nothing. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_app.h"
#include "device_metrics.h"

#define UID 4242u

static struct event_loop *loop;
static struct rnic *rnic;
static struct app root, user, other;
static struct app_cq root_cq, user_cq;
static struct app_qp root_qp, user_qp;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    app_open(&root, rnic);
    app_open_as(&user, rnic, UID);
    app_open_as(&other, rnic, UID + 1);
    app_cq(&root, &root_cq, 64);
    app_cq(&user, &user_cq, 64);
    assert_int_equal(app_qp(&root, &root_qp, QPT_RC, &root_cq, 0, 0), 0);
    assert_int_equal(app_qp(&user, &user_qp, QPT_RC, &user_cq, 0, 0), 0);
    kit_status = 0;
    return 0;
}

static int teardown(void **state)
{
    app_close(&root);
    app_close(&user);
    app_close(&other);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

/* ---- what CTL_SHOW tells ---- */

static json_t *shown_to(struct app *a, uint32_t what)
{
    struct ctl_msg m = {.show.what = what};
    struct ctl_call k = {0};
    char text[65536];
    json_t *value;

    assert_int_equal(kit_call(a->session, CTL_SHOW, &m, &k, true), 0);
    assert_true(k.reply.show.length < sizeof(text));
    assert_int_equal(read(k.out_fd[0], text, sizeof(text)), (ssize_t)k.reply.show.length);
    close(k.out_fd[0]);
    value = json_loadb(text, k.reply.show.length, 0, NULL);
    assert_non_null(value);
    return value;
}

static size_t rows(const json_t *shown, const char *list)
{
    return json_array_size(json_object_get(shown, list));
}

static json_t *member(const json_t *shown, const char *list, size_t row, const char *name)
{
    return json_object_get(json_array_get(json_object_get(shown, list), row), name);
}

static json_int_t number(const json_t *shown, const char *list, size_t row, const char *name)
{
    return json_integer_value(member(shown, list, row, name));
}

static json_int_t others(const json_t *shown, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(shown, "others"), name));
}

/* The PSNs of a user's own connections are not shown to the user: two programs of one user need not
 * trust each other. */
static void test_own_objects(void **state)
{
    json_t *shown;

    app_ready(&user_qp, user_qp.qpn, 5);
    shown = shown_to(&user, CTL_SHOW_ALL);
    assert_int_equal(rows(shown, "clients"), 1);
    assert_int_equal(number(shown, "clients", 0, "uid"), UID);
    assert_int_equal(rows(shown, "qps"), 1);
    assert_int_equal(number(shown, "qps", 0, "qpn"), user_qp.qpn);
    assert_int_equal(number(shown, "qps", 0, "dest_qpn"), user_qp.qpn);
    assert_null(member(shown, "qps", 0, "sq_psn"));
    assert_null(member(shown, "qps", 0, "rq_psn"));
    assert_int_equal(rows(shown, "mrs"), 1);
    assert_int_equal(number(shown, "mrs", 0, "length"), KIT_BYTES);
    assert_null(member(shown, "mrs", 0, "address"));
    assert_null(member(shown, "mrs", 0, "key"));
    assert_int_equal(rows(shown, "pds"), 1);
    assert_int_equal(number(shown, "pds", 0, "pd"), number(shown, "qps", 0, "pd"));
    assert_int_equal(number(shown, "pds", 0, "users"), 2); /* the queue pair, the region */
    assert_int_equal(number(shown, "pds", 0, "context"), number(shown, "clients", 0, "context"));
    assert_int_equal(rows(shown, "cqs"), 1);
    assert_int_equal(number(shown, "cqs", 0, "cq"), number(shown, "qps", 0, "send_cq"));
    assert_int_equal(number(shown, "cqs", 0, "users"), 2); /* its send and its receive queue */
    json_decref(shown);
}

static void test_objects_of_others(void **state)
{
    json_t *shown = shown_to(&other, CTL_SHOW_ALL);

    assert_int_equal(rows(shown, "clients"), 1);
    assert_int_equal(rows(shown, "qps"), 0);
    assert_int_equal(rows(shown, "mrs"), 1);
    assert_int_equal(others(shown, "clients"), 2);
    assert_int_equal(others(shown, "qps"), 2);
    assert_int_equal(others(shown, "mrs"), 2);
    assert_int_equal(others(shown, "flows"), 0);
    assert_int_equal(others(shown, "pds"), 2);
    assert_int_equal(others(shown, "cqs"), 2);
    assert_int_equal(others(shown, "srqs"), 0);
    json_decref(shown);
}

static void test_root_sees_all(void **state)
{
    json_t *shown;

    app_ready(&root_qp, root_qp.qpn, 5);
    shown = shown_to(&root, CTL_SHOW_ALL);
    assert_int_equal(rows(shown, "clients"), 3);
    assert_int_equal(rows(shown, "qps"), 2);
    assert_int_equal(rows(shown, "mrs"), 3);
    assert_non_null(member(shown, "qps", 0, "sq_psn"));
    assert_non_null(member(shown, "qps", 0, "rq_psn"));
    assert_non_null(member(shown, "mrs", 1, "address"));
    assert_non_null(member(shown, "mrs", 1, "key"));
    assert_int_not_equal(number(shown, "clients", 0, "context"),
                         number(shown, "clients", 1, "context"));
    assert_null(json_object_get(shown, "others"));
    json_decref(shown);
}

/* As root, though its uid is not 0. */
static void test_own_user_sees_all(void **state)
{
    char *text = rnic_show(rnic, geteuid());
    json_t *shown = json_loads(text, 0, NULL);

    assert_int_equal(rows(shown, "clients"), 3);
    json_decref(shown);
    free(text);
}

/* A program names itself. */
static void test_name_with_controls(void **state)
{
    json_t *shown;

    strcpy(user.session->comm, "a\x1b[2J\x9b \xff");
    shown = shown_to(&user, CTL_SHOW_ALL);
    assert_string_equal(json_string_value(member(shown, "clients", 0, "comm")),
                        "a\\x1b[2J\\x9b \\xff");
    json_decref(shown);
}

static void test_trace(void **state)
{
    struct trace *trace;
    json_t *shown;

    app_ready(&user_qp, user_qp.qpn, 5); /* INIT, RTR, RTS */
    trace = (struct trace *)engine_trace(user.session->device->port[0]->engine);
    trace_put(trace, 0, TRACE_TIMEOUT, user_qp.qpn, 4711, 6);
    trace_put(trace, 0, TRACE_NAK, user_qp.qpn, 0x60, 4711);
    trace_put(trace, 0, TRACE_DROP, 0xABCDEF, DROP_unknown_qpn, 0);
    shown = shown_to(&other, CTL_SHOW_TRACE);
    assert_int_equal(rows(shown, "trace"), 0);
    assert_int_equal(json_integer_value(json_object_get(shown, "hidden")), 6);
    json_decref(shown);
    shown = shown_to(&user, CTL_SHOW_TRACE);
    assert_int_equal(rows(shown, "trace"), 5);
    assert_int_equal(json_integer_value(json_object_get(shown, "hidden")), 1);
    assert_string_equal(json_string_value(member(shown, "trace", 3, "what")), "6 retries left");
    assert_string_equal(json_string_value(member(shown, "trace", 4, "what")),
                        "AETH syndrome 0x60 (PSN sequence error)");
    json_decref(shown);
    shown = shown_to(&root, CTL_SHOW_TRACE);
    assert_int_equal(rows(shown, "trace"), 6);
    assert_null(json_object_get(shown, "hidden"));
    assert_string_equal(json_string_value(member(shown, "trace", 3, "what")),
                        "from PSN 4711, 6 retries left");
    json_decref(shown);
}

/* All users see ports, and sums over queue pairs, in which those that are gone still count. */
static void test_ports(void **state)
{
    struct qp_object *q = qp_object_get(root.session, root_qp.qpn);
    json_t *shown;

    counter_inc((counter_t *)&qp_counters(q->dp.qp)->timeouts);
    q = qp_object_get(user.session, user_qp.qpn);
    counter_add((counter_t *)&qp_counters(q->dp.qp)->timeouts, 2);
    for (int gone = 0; gone < 2; gone++) {
        shown = shown_to(&other, CTL_SHOW_PORTS);
        assert_int_equal(rows(shown, "totals"), 1);
        assert_int_equal(number(shown, "totals", 0, "timeouts"), 3);
        assert_int_equal(number(shown, "totals", 0, "retry_exceeded"), 0);
        assert_int_equal(json_array_size(member(shown, "devices", 0, "ports")), 1);
        assert_null(json_object_get(shown, "clients"));
        assert_null(json_object_get(shown, "qps"));
        json_decref(shown);
        if (!gone)
            assert_int_equal(kit_call_handle(user.session, CTL_DESTROY_QP, user_qp.qpn), 0);
    }
}

/* What has a number and is no client's. Of quotas a user sees the own alone. The daemon itself gets
 * the same, as a tree. */
static void test_metrics(void **state)
{
    static const char *const lists[] = {"devices", "totals", "workers", "quotas", "late"};
    struct rnic_metrics *m;
    json_t *theirs = shown_to(&other, CTL_SHOW_METRICS), *all = shown_to(&root, CTL_SHOW_METRICS);
    json_t *own;

    m = rnic_metrics_begin(rnic);
    assert_non_null(m);
    while (rnic_metrics_some(m)) {
    }
    own = rnic_metrics_end(m);
    assert_non_null(own);
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        assert_int_equal(rows(own, lists[i]), rows(all, lists[i]));
    assert_true(json_equal(json_object_get(own, "cm"), json_object_get(all, "cm")));
    assert_true(json_equal(json_object_get(own, "totals"), json_object_get(all, "totals")));
    assert_true(rows(theirs, "quotas") < rows(all, "quotas"));
    assert_null(json_object_get(all, "clients"));
    assert_null(json_object_get(all, "qps"));
    assert_int_equal(json_array_size(member(all, "devices", 0, "ports")), 1);
    assert_null(json_object_get(json_array_get(member(all, "devices", 0, "ports"), 0), "gids"));
    json_decref(own);
    json_decref(all);
    json_decref(theirs);

    m = rnic_metrics_begin(rnic); /* ends in the middle */
    assert_true(rnic_metrics_some(m));
    assert_true(rnic_metrics_some(m));
    assert_null(rnic_metrics_end(m));
}

/* ---- who may send to a queue pair of the same port ---- */

static uint64_t dropped(enum drop reason)
{
    return counter_get(&engine_counters(root.session->device->port[0]->engine)->drop[reason]);
}

static void send_message(struct app_qp *from, uint64_t wr_id)
{
    app_send(from, (struct sqe){.wr_id = wr_id, .opcode = SQE_SEND, .flags = SQE_SIGNALED}, 0, 8);
    app_run(from->app);
}

/* The next completion is of this work request; 0: there is none. */
static void expect(struct app_cq *cq, uint64_t wr_id)
{
    struct cqe cqe = {0};

    assert_int_equal(app_poll(cq, &cqe), wr_id != 0);
    assert_int_equal(cqe.wr_id, wr_id);
    assert_int_equal(cqe.status, WC_SUCCESS);
}

/* An application knows all that there is to know of a connection, PSNs too, and names one end as
 * the peer of a queue pair of its own. */
static void forge(uint32_t type)
{
    uint64_t before = dropped(DROP_sender_mismatch);
    struct app_qp end, peer, thief;

    assert_int_equal(app_qp(&root, &end, type, &root_cq, 0, 0), 0);
    assert_int_equal(app_qp(&root, &peer, type, &root_cq, 0, 0), 0);
    assert_int_equal(app_qp(&user, &thief, type, &user_cq, 0, 0), 0);
    app_ready(&thief, end.qpn, 5); /* first */
    app_ready(&end, peer.qpn, 5);
    app_ready(&peer, end.qpn, 5);
    app_recv(&end, 1, 64, 64);
    send_message(&thief, 7);
    if (type == QPT_UC)
        expect(&user_cq, 7); /* its sender learns nothing */
    expect(&root_cq, 0);
    assert_true(dropped(DROP_sender_mismatch) > before); /* RC sends again */
    send_message(&peer, 2);
    expect(&root_cq, type == QPT_UC ? 2 : 1);
    expect(&root_cq, type == QPT_UC ? 1 : 2);
}

static void test_send_in_the_name_of_a_peer(void **state)
{
    forge(QPT_RC);
    forge(QPT_UC);
}

/* The thief connects when the others are connected already. */
static void test_late_thief(void **state)
{
    struct app_qp peer;

    assert_int_equal(app_qp(&root, &peer, QPT_RC, &root_cq, 0, 0), 0);
    app_ready(&root_qp, peer.qpn, 5);
    app_ready(&peer, root_qp.qpn, 5);
    app_ready(&user_qp, root_qp.qpn, 5);
    app_recv(&root_qp, 1, 64, 64);
    send_message(&user_qp, 7);
    expect(&root_cq, 0);
    assert_true(dropped(DROP_sender_mismatch) > 0);
    /* A request that fails changes nothing. */
    assert_int_not_equal(app_modify(&root_qp, QPA_STATE | QPA_AV | QPA_DEST_QPN,
                                    (struct qp_attr){.state = QPS_RTR,
                                                     .dest_qpn = user_qp.qpn,
                                                     .ah = app_address("127.0.0.1")}),
                         0);
    send_message(&peer, 2);
    expect(&root_cq, 1);
    expect(&root_cq, 2);
}

/* A former peer may not send to the next connection of the number, whatever became of the first. */
static void test_former_peer(void **state)
{
    struct app_qp peer;

    assert_int_equal(app_qp(&root, &peer, QPT_RC, &root_cq, 0, 0), 0);
    app_ready(&root_qp, user_qp.qpn, 5);
    app_ready(&user_qp, root_qp.qpn, 5);
    app_recv(&root_qp, 1, 64, 64);
    send_message(&user_qp, 7);
    expect(&root_cq, 1);
    expect(&user_cq, 7);
    assert_int_equal(app_modify(&root_qp, QPA_STATE, (struct qp_attr){.state = QPS_RESET}), 0);
    app_ready(&root_qp, peer.qpn, 5);
    app_ready(&peer, root_qp.qpn, 5);
    app_recv(&root_qp, 1, 64, 64);
    send_message(&peer, 3);
    expect(&root_cq, 1);
    expect(&root_cq, 3);
    app_recv(&root_qp, 2, 64, 64);
    send_message(&user_qp, 8); /* with the PSN that is expected */
    expect(&root_cq, 0);
    assert_true(dropped(DROP_sender_mismatch) > 0);
}

/* One that was connected to a queue pair which is gone waits for the next one of the number. */
static void test_number_is_used_again(void **state)
{
    struct app_qp peer, next;
    struct ctl_msg m;

    app_ready(&root_qp, user_qp.qpn, 5);
    app_ready(&user_qp, root_qp.qpn, 5);
    m = (struct ctl_msg){.destroy.handle = root_qp.qpn};
    assert_int_equal(app_call(&root, CTL_DESTROY_QP, &m), 0);
    qp_table_prefer(root.session->device->qps, root_qp.qpn);
    assert_int_equal(app_qp(&root, &next, QPT_RC, &root_cq, 0, 0), 0);
    assert_int_equal(next.qpn, root_qp.qpn);
    assert_int_equal(app_qp(&root, &peer, QPT_RC, &root_cq, 0, 0), 0);
    app_ready(&next, peer.qpn, 5);
    app_ready(&peer, next.qpn, 5);
    app_recv(&next, 1, 64, 64);
    send_message(&user_qp, 7);
    expect(&root_cq, 0);
    assert_true(dropped(DROP_sender_mismatch) > 0);
    send_message(&peer, 2);
    expect(&root_cq, 1);
    expect(&root_cq, 2);
}

/* ---- Q_Keys ---- */

static int set_qkey(struct app *a, const struct app_cq *cq, uint32_t qkey)
{
    struct qp_attr attr = {.state = QPS_INIT, .port_num = 1, .qkey = qkey};
    struct app_qp qp;

    assert_int_equal(app_qp(a, &qp, QPT_UD, cq, 0, 0), 0);
    return app_modify(&qp, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, attr);
}

static void test_controlled_qkey(void **state)
{
    assert_int_equal(set_qkey(&user, &user_cq, 0x7FFFFFFF), 0);
    assert_int_equal(set_qkey(&user, &user_cq, 0x80000000), -EPERM);
    assert_int_equal(set_qkey(&user, &user_cq, 0x80010000), -EPERM);
    assert_int_equal(set_qkey(&root, &root_cq, 0x80010000), 0);
}

/* ---- numbers ---- */

/* How many of the numbers follow on the one before, or have the distance that the two before have.
 */
static unsigned foreseen(const uint32_t *number, unsigned n)
{
    unsigned times = 0;

    for (unsigned i = 2; i < n; i++)
        times += number[i] == number[i - 1] + 1 ||
                 number[i] - number[i - 1] == number[i - 1] - number[i - 2];
    return times;
}

#define NUMBERS 32u

struct numbers {
    uint32_t qp[NUMBERS], srq[NUMBERS], ah[NUMBERS], pd[NUMBERS], wq[NUMBERS], cq[NUMBERS];
};

static void take_numbers(struct app *a, const struct app_cq *cq, struct numbers *n)
{
    for (unsigned i = 0; i < NUMBERS; i++) {
        struct ctl_msg m = {0};
        struct app_srq srq;
        struct app_qp qp;
        struct app_cq more;

        assert_int_equal(app_qp(a, &qp, QPT_RC, cq, 0, 0), 0);
        n->qp[i] = qp.qpn;
        assert_int_equal(app_srq(a, &srq, 8, 0, NULL), 0);
        n->srq[i] = srq.layout.handle;
        app_ah(a, a->pd, "127.0.0.1", &n->ah[i]);
        assert_int_equal(app_call(a, CTL_ALLOC_PD, &m), 0);
        n->pd[i] = m.handle;
        m = (struct ctl_msg){
            .create_wq = {
                .pd = a->pd, .cq = cq->handle, .type = CTL_WQ_RQ, .max_wr = 8, .max_sge = 1}};
        assert_int_equal(app_call(a, CTL_CREATE_WQ, &m), 0);
        n->wq[i] = m.create_wq.handle;
        app_cq(a, &more, 8);
        n->cq[i] = more.handle;
    }
}

static void restart(const uint64_t *secret)
{
    const uint64_t *in_order = kit_secret;

    teardown(NULL);
    kit_secret = secret;
    setup(NULL);
    kit_secret = in_order;
}

/* An application that creates objects does not learn from their numbers which ones others have. */
static void test_numbers_cannot_be_foreseen(void **state)
{
    static const uint64_t secret[2] = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)};
    struct numbers n, again;

    restart(secret);
    take_numbers(&root, &root_cq, &n);
    assert_true(foreseen(n.qp, NUMBERS) < 2);
    assert_true(foreseen(n.srq, NUMBERS) < 2);
    assert_true(foreseen(n.ah, NUMBERS) < 2);
    assert_true(foreseen(n.pd, NUMBERS) < 2);
    assert_true(foreseen(n.wq, NUMBERS) < 2);
    assert_true(foreseen(n.cq, NUMBERS) < 2);
    restart(secret);
    take_numbers(&root, &root_cq, &again);
    assert_memory_equal(&n, &again, sizeof(n));
}

/* The daemon gives no secret: each start has another one. */
static void test_numbers_differ(void **state)
{
    struct numbers n, again;

    restart(NULL);
    take_numbers(&root, &root_cq, &n);
    restart(NULL);
    take_numbers(&root, &root_cq, &again);
    assert_memory_not_equal(n.qp, again.qp, sizeof(n.qp));
    assert_memory_not_equal(n.ah, again.ah, sizeof(n.ah));
    assert_memory_not_equal(n.pd, again.pd, sizeof(n.pd));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_own_objects),
        T(test_objects_of_others),
        T(test_root_sees_all),
        T(test_own_user_sees_all),
        T(test_name_with_controls),
        T(test_trace),
        T(test_ports),
        T(test_metrics),
        T(test_send_in_the_name_of_a_peer),
        T(test_late_thief),
        T(test_former_peer),
        T(test_number_is_used_again),
        T(test_controlled_qkey),
        T(test_numbers_cannot_be_foreseen),
        T(test_numbers_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
