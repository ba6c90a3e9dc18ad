/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's queue pair changes its state in the message that makes, or ends, the connection.
 */
#include <errno.h>
#include <string.h>

#include "device_app.h"
#include "ece.h"
#include "objects/qp_object.h"
#include "sides.h"
#include "unit.h"

/* A program has a connection to the daemon for its ids, and one for its queue pairs. */
struct end {
    struct side *side;
    struct app app;
    struct app_cq cq;
    struct app_qp qp;
    uint32_t id;
};

static struct end active, passive;
static struct ctl_cm_steps passive_steps;

static void open_end(struct end *e, struct side *side, struct rnic *r)
{
    *e = (struct end){.side = side};
    app_open(&e->app, r);
    app_cq(&e->app, &e->cq, 16);
    assert_int_equal(app_qp(&e->app, &e->qp, QPT_RC, &e->cq, 0, 0), 0);
}

static struct ctl_msg request(const struct end *e, uint32_t type);
static int call(const struct end *e, struct ctl_msg *m, uint32_t *done);

/* How the active program connects: by a plain call, or with its queue pair. */
static int connect_by(void **state, bool with_qp)
{
    struct sides *t;
    struct ctl_cm_told told;
    struct ctl_msg m;
    uint32_t done;

    if (sides_setup(state))
        return -1;
    t = *state;
    kit_status = 0;
    open_end(&active, &t->a, t->r);
    open_end(&passive, &t->b, t->r);
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    active.id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    m = request(&active, CTL_CM_CONNECT);
    if (with_qp)
        assert_int_equal(call(&active, &m, &done), 0);
    else
        assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, active.id, active.qp.qpn, ""), 0);
    sides_run(t);
    told = side_told(&t->b, CTL_CM_CONNECT_REQUEST);
    passive.id = told.event.id;
    passive_steps = told.steps;
    return 0;
}

/* The passive program has read the request. */
static int setup(void **state)
{
    return connect_by(state, false);
}

static int setup_with_qp(void **state)
{
    return connect_by(state, true);
}

static int teardown(void **state)
{
    app_close(&active.app);
    app_close(&passive.app);
    return sides_teardown(state);
}

static uint32_t state_of(struct end *e)
{
    struct ctl_msg m = {.handle = e->qp.qpn};

    assert_int_equal(app_call(&e->app, CTL_QUERY_QP, &m), 0);
    return m.query_qp.attr.state;
}

static struct ctl_msg request(const struct end *e, uint32_t type)
{
    struct ctl_msg m = {.cm_with_qp = {.type = type, .modify = {.qpn = e->qp.qpn, .done = 7}}};
    struct ctl_cm_conn *c = &m.cm_with_qp.call.conn;

    m.cm_with_qp.call.id = e->id;
    *c = (struct ctl_cm_conn){.qpn = e->qp.qpn,
                              .qp_type = CM_QP_RC,
                              .responder_resources = 2,
                              .initiator_depth = 2,
                              .retry_count = 7,
                              .rnr_retry_count = 7};
    memcpy(m.cm_with_qp.key, e->app.session->join_key, sizeof(m.cm_with_qp.key));
    return m;
}

static struct ctl_msg to_rts(const struct end *e, uint32_t type, const struct ctl_cm_steps *steps)
{
    struct ctl_msg m = request(e, type);
    struct ctl_modify_qp *modify = &m.cm_with_qp.modify;

    modify->attr = steps->attr;
    modify->attr.state = QPS_INIT;
    modify->mask = steps->mask[0];
    for (unsigned i = 1; i < QP_STEPS; i++) {
        modify->next[i - 1].state = QPS_INIT + i;
        modify->next[i - 1].mask = steps->mask[i];
    }
    return m;
}

static struct ctl_msg to_error(const struct end *e, uint32_t type)
{
    struct ctl_msg m = request(e, type);

    m.cm_with_qp.modify.mask = QPA_STATE;
    m.cm_with_qp.modify.attr.state = QPS_ERR;
    return m;
}

/* Returns the status; *done: steps. */
static int call(const struct end *e, struct ctl_msg *m, uint32_t *done)
{
    struct ctl_call k = {0};
    int status = kit_call(e->side->sn, CTL_CM_WITH_QP, m, &k, false);

    *done = k.reply.cm_with_qp.modify.done;
    return status;
}

static void expect(const struct end *e, struct ctl_msg m, int status, uint32_t done)
{
    uint32_t steps;

    assert_int_equal(call(e, &m, &steps), status);
    assert_int_equal(steps, done);
}

static void test_connection(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_told told;

    expect(&passive, to_rts(&passive, CTL_CM_ACCEPT, &passive_steps), 0, 3);
    assert_int_equal(state_of(&passive), QPS_RTS);
    sides_run(t);
    told = side_told(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(told.event.conn.qpn, passive.qp.qpn);
    expect(&active, to_rts(&active, CTL_CM_ESTABLISH, &told.steps), 0, 3);
    assert_int_equal(state_of(&active), QPS_RTS);
    sides_run(t);
    assert_int_equal(side_event(&t->b, CTL_CM_ESTABLISHED).id, passive.id);
    expect(&active, to_error(&active, CTL_CM_DISCONNECT), 0, 1);
    assert_int_equal(state_of(&active), QPS_ERR);
    sides_run(t);
    assert_int_equal(side_event(&t->b, CTL_CM_DISCONNECTED).id, passive.id);
    expect(&passive, to_error(&passive, CTL_CM_DISCONNECT), 0, 1);
}

/* The end of a connection that is posted does not need the queue pair: the program may have
 * destroyed it since. A posted ACCEPT does. */
static void test_posted_without_qp(void **state)
{
    struct sides *t = *state;
    struct ctl_msg m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);
    struct ctl_call k = {.request = &m};
    struct ctl_cm_told told;

    m.type = CTL_CM_WITH_QP;
    m.cm_with_qp.modify.qpn++;
    session_dispatch(passive.side->sn, &k);
    assert_int_equal(k.reply.status, -EACCES);
    m.cm_with_qp.modify.qpn--;
    expect(&passive, m, 0, 3);
    sides_run(t);
    told = side_told(&t->a, CTL_CM_CONNECT_RESPONSE);
    expect(&active, to_rts(&active, CTL_CM_ESTABLISH, &told.steps), 0, 3);
    sides_run(t);
    side_told(&t->b, CTL_CM_ESTABLISHED);
    m = to_error(&passive, CTL_CM_DISCONNECT);
    m.type = CTL_CM_WITH_QP;
    m.cm_with_qp.modify.qpn++;
    expect(&passive, m, -EACCES, 0);
    m.seq = 0;
    session_dispatch(passive.side->sn, &k);
    assert_int_equal(k.reply.status, 0);
    sides_run(t);
    side_told(&t->a, CTL_CM_DISCONNECTED);
}

/* ---- the daemon leads the active queue pair ---- */

static void accept_passive(struct sides *t)
{
    expect(&passive, to_rts(&passive, CTL_CM_ACCEPT, &passive_steps), 0, 3);
    sides_run(t);
}

/* Until the peer has accepted nothing happens to it; then the connection is established. */
static void test_led(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_event e;

    assert_int_equal(state_of(&active), QPS_RESET);
    accept_passive(t);
    assert_int_equal(state_of(&active), QPS_RTS);
    e = side_event(&t->a, CTL_CM_ESTABLISHED);
    assert_int_equal(e.id, active.id);
    assert_int_equal(e.qp_is_led, 1);
    assert_int_equal(e.conn.qpn, passive.qp.qpn);
    e = side_event(&t->b, CTL_CM_ESTABLISHED);
    assert_int_equal(e.qp_is_led, 0);
    side_no_event(&t->a);
}

static uint32_t ece_of(const struct end *e)
{
    return qp_object_get(e->app.session, e->qp.qpn)->ece;
}

/* It gets what the peer's answer says of its own. */
static void test_led_with_ece(void **state)
{
    struct ctl_msg m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);

    m.cm_with_qp.call.conn.ece_vendor = ECE_VENDOR;
    m.cm_with_qp.call.conn.ece_options = ece_options(ECE_KEPT_MAPS);
    m.cm_with_qp.modify.ece = ECE_SAID;
    expect(&passive, m, 0, 3);
    sides_run(*state);
    assert_int_equal(state_of(&active), QPS_RTS);
    assert_int_equal(ece_of(&active), ECE_SAID | ECE_KEPT_MAPS);
    assert_int_equal(ece_of(&passive), ECE_SAID);
}

/* What the daemon cannot do is the library's, which gets the error. */
static void expect_response(struct sides *t)
{
    struct ctl_cm_told told;

    accept_passive(t);
    told = side_told(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(told.event.qp_is_led, 0);
    assert_int_not_equal(told.steps.mask[0], 0);
    side_no_event(&t->a);
    side_no_event(&t->b);
}

static void test_not_led_wrong_state(void **state)
{
    struct ctl_msg m = {
        .modify_qp = {.qpn = active.qp.qpn, .mask = QPA_STATE, .attr.state = QPS_ERR}};

    assert_int_equal(app_call(&active.app, CTL_MODIFY_QP, &m), 0);
    expect_response(*state);
    assert_int_equal(state_of(&active), QPS_ERR);
}

static void test_not_led_destroyed(void **state)
{
    struct ctl_msg m = {.handle = active.qp.qpn};

    assert_int_equal(app_call(&active.app, CTL_DESTROY_QP, &m), 0);
    expect_response(*state);
}

/* Nor is another one that has its number. */
static void test_not_led_number_again(void **state)
{
    struct ctl_msg m = {.handle = active.qp.qpn};
    uint32_t qpn = active.qp.qpn;

    assert_int_equal(app_call(&active.app, CTL_DESTROY_QP, &m), 0);
    qp_table_prefer(active.app.session->device->qps, qpn);
    assert_int_equal(app_qp(&active.app, &active.qp, QPT_RC, &active.cq, 0, 0), 0);
    assert_int_equal(active.qp.qpn, qpn);
    expect_response(*state);
    assert_int_equal(state_of(&active), QPS_RESET);
}

/* A CONNECT that fails, as the id connects already, names no other one to lead. */
static void test_led_in_spite_of_another(void **state)
{
    struct sides *t = *state;
    struct end other = active;

    assert_int_equal(app_qp(&active.app, &other.qp, QPT_RC, &active.cq, 0, 0), 0);
    expect(&other, request(&other, CTL_CM_CONNECT), -EINVAL, 0);
    accept_passive(t);
    assert_int_equal(side_event(&t->a, CTL_CM_ESTABLISHED).qp_is_led, 1);
    assert_int_equal(state_of(&active), QPS_RTS);
    assert_int_equal(state_of(&other), QPS_RESET);
}

/* After a rejection the program connects without it, or with another one. */
static void test_not_led_next_time(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_told told;

    assert_int_equal(side_call(&t->b, CTL_CM_REJECT, passive.id, 0, ""), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_REJECTED);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, active.id, 0x555, ""), 0);
    sides_run(t);
    told = side_told(&t->b, CTL_CM_CONNECT_REQUEST);
    assert_int_equal(told.event.conn.qpn, 0x555);
    passive.id = told.event.id;
    passive_steps = told.steps;
    expect_response(t);
    assert_int_equal(state_of(&active), QPS_RESET);
}

/* A program that names another one's queue pair makes no connection. */
static void test_not_led_wrong_key(void **state)
{
    struct sides *t = *state;
    struct ctl_msg m;

    active.id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    m = request(&active, CTL_CM_CONNECT);
    m.cm_with_qp.key[0] ^= 1;
    expect(&active, m, -EACCES, 0);
    m = request(&active, CTL_CM_CONNECT);
    m.cm_with_qp.modify.qpn = passive.qp.qpn;
    expect(&active, m, -EACCES, 0);
    sides_run(t);
    side_no_event(&t->b);
}

/* ---- addresses that go while the connection is being made ---- */

static union gid own_gid(void)
{
    return gid_from_ipv4((const uint8_t[4]){127, 0, 0, 1});
}

/* The ends' address goes, another one takes its place in the GID table, and (back) it returns. */
static void replace_address(const struct sides *t, bool back)
{
    struct port_address own = {.gid = own_gid(), .prefix = 8, .vlan = VLAN_NONE}, other = own;

    other.gid = gid_from_ipv4((const uint8_t[4]){127, 0, 0, 10});
    assert_int_equal(rnic_remove_address(t->r, 0, &own.gid, VLAN_NONE), 0);
    assert_int_equal(rnic_add_address(t->r, 0, &other), 0);
    if (back)
        assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
}

static union gid source_of(struct end *e)
{
    const struct device *d = e->app.session->device;
    struct ctl_msg m = {.handle = e->qp.qpn};

    assert_int_equal(app_call(&e->app, CTL_QUERY_QP, &m), 0);
    return d->gids.entry[m.query_qp.attr.ah.sgid_index].gid;
}

/* What the library has read of the request names the place that the address had. */
static void test_accept_from_the_address(void **state)
{
    struct sides *t = *state;
    union gid own = own_gid(), source;

    replace_address(t, true);
    expect(&passive, to_rts(&passive, CTL_CM_ACCEPT, &passive_steps), 0, 3);
    source = source_of(&passive);
    assert_true(gid_eq(&source, &own));
}

/* Nothing can be accepted from an address that is gone. */
static void test_accept_without_the_address(void **state)
{
    struct sides *t = *state;

    replace_address(t, false);
    side_qp_attr(&t->b, passive.id, QPS_RTR, -EADDRNOTAVAIL);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, passive.id, passive.qp.qpn, ""),
                     -EADDRNOTAVAIL);
    expect(&passive, to_rts(&passive, CTL_CM_ACCEPT, &passive_steps), -EADDRNOTAVAIL, 0);
    assert_int_equal(state_of(&passive), QPS_RESET);
}

/* ---- the queue pair of another user ---- */

#define UID 4242u

/* The connection of a user whose peer is another one. */
static void connect_user(struct sides *t, struct side *user, uint32_t qpn)
{
    uint32_t id = side_resolved(t, user, IP_CM_PS_TCP, "127.0.0.1");
    struct ctl_cm_event e;

    assert_int_equal(side_call(user, CTL_CM_CONNECT, id, qpn, ""), 0);
    sides_run(t);
    e = side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, passive.qp.qpn, ""), 0);
    sides_run(t);
    side_event(user, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(side_call(user, CTL_CM_ESTABLISH, id, 0, ""), 0);
    sides_run(t);
    side_event(&t->b, CTL_CM_ESTABLISHED);
}

/* Who names it would end its connection: the peer takes that for stale. Its own user may, and so
 * may the process that made it. */
static void test_qp_of_another(void **state)
{
    struct sides *t = *state;
    struct side user, other;
    struct app app;
    struct app_cq cq;
    struct app_qp qp;
    uint32_t id;

    app_open_as(&app, t->r, UID);
    app_cq(&app, &cq, 16);
    assert_int_equal(app_qp(&app, &qp, QPT_RC, &cq, 0, 0), 0);
    side_open_of(t, &user, UID);
    side_open_of(t, &other, UID + 1);
    connect_user(t, &user, qp.qpn);
    id = side_resolved(t, &other, IP_CM_PS_TCP, "127.0.0.1");
    other.sn->peer.pid++; /* of another process than this one */
    assert_int_equal(side_call(&other, CTL_CM_CONNECT, id, qp.qpn, ""), -EACCES);
    assert_int_equal(side_call(&other, CTL_CM_CONNECT, id, 0x111, ""), 0);
    sides_run(t);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    side_no_event(&t->b);
    side_no_event(&user);
    other.sn->peer.pid--;
    id = side_resolved(t, &other, IP_CM_PS_TCP, "127.0.0.1");
    assert_int_equal(side_call(&other, CTL_CM_CONNECT, id, qp.qpn, ""), 0);
    sides_run(t);
    side_event(&user, CTL_CM_DISCONNECTED);
    side_close(&user);
    side_close(&other);
    app_close(&app);
}

/* Nor does a listener name it when it accepts. */
static void test_accept_by_another(void **state)
{
    struct sides *t = *state;

    active.app.session->peer.uid = UID;
    passive.side->sn->peer.pid++;
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, passive.id, active.qp.qpn, ""), -EACCES);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, passive.id, passive.qp.qpn, ""), 0);
    active.app.session->peer.uid = 0;
    sides_run(t);
    side_event(&t->a, CTL_CM_CONNECT_RESPONSE);
}

/* The key is enough. */
static void test_qp_of_another_by_key(void **state)
{
    passive.app.session->peer.uid = UID;
    passive.side->sn->peer.pid++;
    expect(&passive, to_rts(&passive, CTL_CM_ACCEPT, &passive_steps), 0, 3);
    passive.app.session->peer.uid = 0;
}

/* ---- failures of what is posted ---- */

static void post(const struct end *e, struct ctl_msg m)
{
    struct ctl_call k = {.request = &m};

    m.type = CTL_CM_WITH_QP;
    session_dispatch(e->side->sn, &k);
    assert_true(k.reply.status < 0);
    session_post_failed(e->side->sn, &m, k.reply.status);
}

static void test_posted_accept_fails(void **state)
{
    struct sides *t = *state;
    struct ctl_msg m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);
    struct ctl_cm_event e;

    m.cm_with_qp.modify.qpn++;
    post(&passive, m);
    e = side_event(&t->b, CTL_CM_CONNECT_ERROR);
    assert_int_equal(e.id, passive.id);
    assert_int_equal(e.status, -EACCES);
    side_destroy(&t->a, active.id); /* withdraws the request */
    sides_run(t);
    post(&passive, to_rts(&passive, CTL_CM_ACCEPT, &passive_steps));
    assert_int_equal(side_event(&t->b, CTL_CM_CONNECT_ERROR).status, -EINVAL);
    post(&passive, to_rts(&passive, CTL_CM_ESTABLISH, &passive_steps));
    side_no_event(&t->b);
}

static void test_posted_connect_fails(void **state)
{
    struct sides *t = *state;

    post(&active, request(&active, CTL_CM_CONNECT)); /* it has begun already */
    assert_int_equal(side_event(&t->a, CTL_CM_CONNECT_ERROR).status, -EINVAL);
}

/* The key is what makes the queue pair the program's. */
static void test_key(void **state)
{
    struct sides *t = *state;
    struct ctl_msg m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);

    memcpy(m.cm_with_qp.key, active.app.session->join_key, sizeof(m.cm_with_qp.key));
    expect(&passive, m, -EACCES, 0);
    memset(m.cm_with_qp.key, 0, sizeof(m.cm_with_qp.key));
    expect(&passive, m, -EACCES, 0);
    for (unsigned i = 0; i < 2; i++) {
        m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);
        m.cm_with_qp.key[i] ^= 1;
        expect(&passive, m, -EACCES, 0);
    }
    m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);
    m.cm_with_qp.modify.qpn = active.qp.qpn;
    expect(&passive, m, -EACCES, 0);
    m.cm_with_qp.modify.qpn = 0xFFFFFF;
    expect(&passive, m, -EACCES, 0);
    assert_int_equal(state_of(&passive), QPS_RESET);
    assert_int_equal(state_of(&active), QPS_RESET);
    sides_run(t);
    side_no_event(&t->a);
}

/* Of a session that is ending, too: its queue pairs are being freed. */
static void test_session_ends(void **state)
{
    struct ctl_msg m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);

    passive.app.session->ending = true;
    expect(&passive, m, -EACCES, 0);
    passive.app.session->ending = false;
    expect(&passive, m, 0, 3);
}

static void test_wrong_call(void **state)
{
    struct ctl_msg m;

    for (uint32_t type = 0; type < 200; type++) {
        if (type != CTL_CM_CONNECT && type != CTL_CM_ACCEPT && type != CTL_CM_ESTABLISH &&
            type != CTL_CM_DISCONNECT)
            expect(&passive, to_rts(&passive, type, &passive_steps), -EINVAL, 0);
    }
    expect(&passive, to_rts(&passive, UINT32_MAX, &passive_steps), -EINVAL, 0);
    m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);
    m.cm_with_qp.call.id = active.id; /* another program's */
    expect(&passive, m, -EINVAL, 0);
    m.cm_with_qp.call.id = side_make_id(passive.side, IP_CM_PS_TCP, 5); /* without a device */
    expect(&passive, m, -EINVAL, 0);
    assert_int_equal(state_of(&passive), QPS_RESET);
}

/* Then the call is not made. */
static void test_step_fails(void **state)
{
    struct sides *t = *state;
    struct ctl_msg m = to_rts(&passive, CTL_CM_ACCEPT, &passive_steps);

    m.cm_with_qp.modify.next[1].mask = QPA_STATE;
    expect(&passive, m, -EINVAL, 2);
    assert_int_equal(state_of(&passive), QPS_RTR);
    sides_run(t);
    side_no_event(&t->a);
}

/* The steps stay. */
static void test_call_fails(void **state)
{
    expect(&passive, to_rts(&passive, CTL_CM_ESTABLISH, &passive_steps), -EINVAL, 3);
    assert_int_equal(state_of(&passive), QPS_RTS);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define L(name) cmocka_unit_test_setup_teardown(name, setup_with_qp, teardown)
    const struct CMUnitTest tests[] = {T(test_connection),
                                       T(test_key),
                                       T(test_posted_without_qp),
                                       T(test_session_ends),
                                       T(test_wrong_call),
                                       T(test_step_fails),
                                       T(test_call_fails),
                                       T(test_not_led_wrong_key),
                                       T(test_qp_of_another),
                                       T(test_accept_by_another),
                                       T(test_qp_of_another_by_key),
                                       T(test_accept_from_the_address),
                                       T(test_accept_without_the_address),
                                       T(test_posted_accept_fails),
                                       T(test_posted_connect_fails),
                                       L(test_led),
                                       L(test_led_with_ece),
                                       L(test_not_led_wrong_state),
                                       L(test_not_led_destroyed),
                                       L(test_not_led_number_again),
                                       L(test_led_in_spite_of_another),
                                       L(test_not_led_next_time)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
