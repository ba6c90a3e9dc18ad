/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs' connections by the daemon's manager, over the loopback port's wire. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sides.h"
#include "unit.h"

/* ---- connections ---- */

static void test_connection(void **state)
{
    struct sides *t = *state;
    uint32_t id, other;
    struct ctl_cm_event e;
    struct ctl_cm_info info;
    struct ctl_cm_qp_attr attr;

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    e = side_requested(t, id);
    assert_int_equal(e.cookie, 77);
    assert_int_equal(e.conn.qpn, 0x111);
    assert_memory_equal(e.conn.private_data, "ping", 5);
    other = e.id;
    info = side_query(&t->b, other);
    assert_int_equal(info.src.number, SIDES_PORT);
    assert_int_equal(info.dst.number, side_query(&t->a, id).src.number);
    assert_true(info.has_device && info.has_path);
    attr = side_qp_attr(&t->b, other, QPS_RTR, 0);
    assert_int_equal(attr.attr.dest_qpn, 0x111);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, other, 0x222, "pong"), 0);
    sides_run(t);
    e = side_event(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(e.conn.qpn, 0x222);
    assert_memory_equal(e.conn.private_data, "pong", 5);
    assert_int_equal(side_qp_attr(&t->a, id, QPS_RTR, 0).attr.ah.flow_label,
                     attr.attr.ah.flow_label);
    assert_int_equal(side_call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    sides_run(t);
    assert_int_equal(side_event(&t->b, CTL_CM_ESTABLISHED).id, other);
    assert_int_equal(side_call(&t->a, CTL_CM_DISCONNECT, id, 0, ""), 0);
    sides_run(t);
    assert_int_equal(side_event(&t->b, CTL_CM_DISCONNECTED).id, other);
    assert_int_equal(side_call(&t->b, CTL_CM_DISCONNECT, other, 0, ""), 0);
    sides_run(t);
    assert_int_equal(side_event(&t->a, CTL_CM_DISCONNECTED).id, id);
    side_no_event(&t->a);
    side_no_event(&t->b);
}

static void check_steps(const struct side *s, uint32_t id, const struct ctl_cm_told *told)
{
    struct ctl_cm_qp_attr attr;

    for (unsigned i = 0; i < QP_STEPS; i++) {
        attr = side_qp_attr(s, id, QPS_INIT + i, 0);
        assert_int_equal(told->steps.mask[i], attr.mask);
    }
    assert_int_equal(told->steps.attr.timeout, attr.attr.timeout);
    attr = side_qp_attr(s, id, QPS_RTR, 0);
    assert_int_equal(told->steps.attr.dest_qpn, attr.attr.dest_qpn);
}

/* An event brings what the library would ask for next. */
static void test_told(void **state)
{
    static const struct ctl_cm_info none;
    struct sides *t = *state;
    struct ctl_msg m = {.cm_option = {.name = 3, .length = 1, .value = {21}}}; /* ACK_TIMEOUT */
    struct ctl_call k = {0};
    struct ctl_cm_told told;
    struct ctl_cm_info info;
    uint32_t id, other;

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    m.cm_option.id = id;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    sides_run(t);
    told = side_told(&t->b, CTL_CM_CONNECT_REQUEST);
    other = told.event.id;
    info = side_query(&t->b, other);
    assert_memory_equal(&told.info, &info, sizeof(info));
    check_steps(&t->b, other, &told);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, other, 0x222, ""), 0);
    sides_run(t);
    told = side_told(&t->a, CTL_CM_CONNECT_RESPONSE);
    check_steps(&t->a, id, &told);
    assert_int_equal(told.steps.attr.timeout, 21);
    assert_memory_equal(&told.info, &none, sizeof(none));
    assert_int_equal(side_call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    sides_run(t);
    told = side_told(&t->b, CTL_CM_ESTABLISHED);
    assert_int_equal(told.steps.mask[0], 0);
    assert_memory_equal(&told.info, &none, sizeof(none));
}

static void test_rejected(void **state)
{
    struct sides *t = *state;
    uint32_t id;
    struct ctl_cm_event e;

    side_listener(&t->b, IP_CM_PS_TCP, "::1", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "::1");
    e = side_requested(t, id);
    assert_int_equal(side_call(&t->b, CTL_CM_REJECT, e.id, 0, "no"), 0);
    sides_run(t);
    e = side_event(&t->a, CTL_CM_REJECTED);
    assert_int_equal(e.status, CM_REJ_CONSUMER);
    assert_memory_equal(e.conn.private_data, "no", 3);
    /* No listener. */
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 1, ""), 0);
    sides_run(t);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).status, CM_REJ_INVALID_SERVICE_ID);
}

/* A peer that is faster than rdma_listen is heard. */
static void test_before_the_listener(void **state)
{
    struct sides *t = *state;
    uint32_t listener = side_make_id(&t->b, IP_CM_PS_TCP, 77), id;
    struct ctl_msg m = {.cm_id = {.id = listener}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(side_bind(&t->b, listener, side_address("0.0.0.0", SIDES_PORT), &info), 0);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    sides_run(t);
    assert_int_equal(kit_call(t->b.sn, CTL_CM_LISTEN, &m, &k, false), 0);
    sides_run(t);
    assert_int_equal(side_event(&t->b, CTL_CM_CONNECT_REQUEST).cookie, 77);
}

static unsigned filled; /* bytes of no event */

/* The channel has a socket that is full, of something that is no event. */
static void fill_socket(const struct side *s)
{
    int fd = cm_channel_get(s->sn, s->channel)->fd;

    for (filled = 0; send(fd, "", 1, MSG_DONTWAIT) == 1;)
        filled++;
}

/* And then is sent what has waited. */
static void empty_socket(struct sides *t, const struct side *s)
{
    char byte;

    for (; filled; filled--)
        assert_int_equal(recv(s->fd, &byte, 1, MSG_DONTWAIT), 1);
    sides_run(t);
}

/* The next event, of a socket that has no room for a whole one. */
static struct ctl_cm_told told_in_parts(struct sides *t, const struct side *s)
{
    struct ctl_cm_told told;
    uint8_t *at = (uint8_t *)&told;
    size_t have = 0;

    for (unsigned turns = 0; have < sizeof(told) && turns < 100; turns++) {
        ssize_t n = recv(s->fd, at + have, sizeof(told) - have, MSG_DONTWAIT);

        have += n > 0 ? (size_t)n : 0;
        sides_run(t);
    }
    assert_int_equal(have, sizeof(told));
    return told;
}

/* A socket that takes less than what waits, and ends within an event: the rest follows. */
static void test_events_in_parts(void **state)
{
    struct sides *t = *state;
    uint32_t l = side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 20), id[12], last = 0;
    int bytes = 1, fd = cm_channel_get(t->b.sn, t->b.channel)->fd;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(id); i++) {
        id[i] = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
        assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id[i], 0x111 + i, ""), 0);
    }
    sides_run(t);
    assert_false(TAILQ_EMPTY(&cm_channel_get(t->b.sn, t->b.channel)->events));
    for (unsigned i = 0; i < ARRAY_SIZE(id); i++) {
        struct ctl_cm_told told = told_in_parts(t, &t->b);

        assert_int_equal(told.event.type, CTL_CM_CONNECT_REQUEST);
        assert_int_not_equal(told.event.id, last);
        assert_int_equal(told.serial, cm_object_get(t->b.sn, told.event.id)->serial);
        last = told.event.id;
    }
    side_no_event(&t->b);
    assert_int_equal(side_destroy(&t->b, l), ARRAY_SIZE(id));
}

/* A listener that ends refuses the requests that its program has not seen. */
static void test_listener_ends(void **state)
{
    struct sides *t = *state;
    uint32_t l = side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    uint32_t id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    uint32_t late = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");

    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    sides_run(t);
    /* One that is sent is the library's to end, the other is not sent. */
    fill_socket(&t->b);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, late, 0x112, ""), 0);
    sides_run(t);
    assert_int_equal(side_destroy(&t->b, l), 1);
    sides_run(t);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).id, late);
    side_no_event(&t->a);
    assert_int_equal(t->b.sn->count[OBJ_CM_ID], 1);
    side_destroy(&t->b, side_event(&t->b, CTL_CM_CONNECT_REQUEST).id);
    sides_run(t);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).id, id);
}

/* A program that ends disconnects its peers. */
static void test_program_ends(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_event e;
    uint32_t id;

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    e = side_requested(t, id);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, ""), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(side_call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    sides_run(t);
    side_event(&t->b, CTL_CM_ESTABLISHED);
    side_close(&t->a);
    t->a.sn = NULL;
    sides_run(t);
    assert_int_equal(side_event(&t->b, CTL_CM_DISCONNECTED).id, e.id);
}

/* Each request counts against the program's quota and the listener's backlog. */
static void test_backlog(void **state)
{
    struct sides *t = *state;
    uint32_t id[3];

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 2);
    for (unsigned i = 0; i < 3; i++) {
        id[i] = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
        assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id[i], i + 1, ""), 0);
        sides_run(t);
    }
    assert_int_equal(cm_counters(t->r->cm.manager)->backlog_full, 1);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
}

/* Until its event is sent the program has no part in a request's id: nothing can be done with its
 * handle, which can be guessed. */
static void test_unread_request(void **state)
{
    struct sides *t = *state;
    uint32_t l = side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5), fresh = l;
    uint32_t id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    const struct object *o;
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    fill_socket(&t->b);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    sides_run(t);
    TAILQ_FOREACH (o, &t->b.sn->objects[OBJ_CM_ID], link)
        fresh = o->handle;
    assert_int_not_equal(fresh, l);
    m.cm_id.id = fresh;
    assert_int_equal(kit_call(t->b.sn, CTL_CM_DESTROY_ID, &m, &k, false), -EINVAL);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, fresh, 1, ""), -EINVAL);
    empty_socket(t, &t->b);
    assert_int_equal(side_event(&t->b, CTL_CM_CONNECT_REQUEST).id, fresh);
    assert_int_equal(side_destroy(&t->b, fresh), 0);
    assert_int_equal(side_destroy(&t->b, l), 1);
}

/* Requests that the peer withdraws wait for the program, too: no more than the backlog. */
static void test_withdrawn_requests(void **state)
{
    struct sides *t = *state;
    unsigned requests = 0;

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 2);
    fill_socket(&t->b);
    for (unsigned i = 0; i < 5; i++) {
        uint32_t id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");

        assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, i + 1, ""), 0);
        sides_run(t);
        if (side_has_event(&t->a))
            side_event(&t->a, CTL_CM_REJECTED);
        side_destroy(&t->a, id);
        sides_run(t);
    }
    assert_int_equal(t->b.sn->count[OBJ_CM_ID], 1 + 2);
    empty_socket(t, &t->b);
    for (; side_has_event(&t->b); requests++)
        side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    assert_int_equal(requests, 2);
    side_requested(t, side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1")); /* there is room again */
}

/* The peer is gone before the program accepts its request: that fails, and is all that the program
 * hears. */
static void test_accept_too_late(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_event e;
    uint32_t id;

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    e = side_requested(t, id);
    side_destroy(&t->a, id);
    sides_run(t);
    side_no_event(&t->b);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, ""), -EINVAL);
    sides_run(t);
    side_no_event(&t->b);
    assert_int_equal(side_destroy(&t->b, e.id), 0);
}

/* A listener's user has no room for another id: the peer is told. */
static void test_request_without_room(void **state)
{
    struct sides *t = *state;
    struct side user;
    uint32_t id;

    t->r->quota.limit[QUOTA_CM_ID].user = 1;
    side_open_of(t, &user, 5000);
    side_listener(&user, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    sides_run(t);
    assert_int_equal(side_event(&t->a, CTL_CM_REJECTED).status, CM_REJ_NO_RESOURCES);
    side_no_event(&user);
    side_close(&user);
}

/* ---- datagrams and groups ---- */

static void test_datagrams(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_event e;
    uint32_t id;

    side_listener(&t->b, IP_CM_PS_UDP, "127.0.0.1", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_UDP, "127.0.0.1");
    assert_int_equal(side_qp_attr(&t->a, id, QPS_INIT, 0).attr.qkey, 0x01234567);
    e = side_requested(t, id);
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, "pong"), 0);
    sides_run(t);
    e = side_event(&t->a, CTL_CM_ESTABLISHED);
    assert_int_equal(e.conn.qpn, 0x222);
    assert_int_equal(e.conn.qkey, 0x01234567);
    assert_int_equal(e.ah.is_global, 1);
    assert_memory_equal(e.conn.private_data, "pong", 5);
}

static void test_groups(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_UDP, 1);
    struct ctl_msg m = {.cm_mcast = {.id = id, .cookie = 5, .addr = side_address("239.1.1.1", 0)}};
    struct ctl_call k = {0};
    struct ctl_cm_event e;
    struct ctl_cm_info info;

    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL); /* not bound */
    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.1", 0), &info), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    assert_memory_equal(k.reply.cm_mcast.mgid, m.cm_mcast.addr.gid, 16);
    e = side_event(&t->a, CTL_CM_MULTICAST_JOIN);
    assert_int_equal(e.cookie, 5);
    assert_int_equal(e.conn.qpn, 0xFFFFFF);
    assert_int_equal(e.ah.hop_limit, 64); /* routers take the group's packets on */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    m.cm_mcast.handle = k.reply.cm_mcast.handle;
    assert_true(side_has_event(&t->a)); /* that is sent */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_LEAVE, &m, &k, false), 0);
    assert_int_equal(k.reply.cm_mcast.sent, 2);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_LEAVE, &m, &k, false), -EINVAL);
    m.cm_mcast.addr = side_address("10.0.0.1", 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL);

    id = side_make_id(&t->a, IP_CM_PS_TCP, 2);
    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.1", 0), &info), 0);
    m.cm_mcast = (struct ctl_cm_mcast){.id = id, .addr = side_address("239.1.1.1", 0)};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL);
}

/* A join and its event are charged until the program leaves the group. */
static void test_joins_are_charged(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_UDP, 1);
    struct ctl_msg m = {.cm_mcast = {.id = id, .addr = side_address("239.1.1.1", 0)}};
    const uint64_t *used = &t->a.sn->account.used[QUOTA_MEMORY];
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint64_t before;
    unsigned joins = 0;

    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.1", 0), &info), 0);
    before = *used;
    while (!kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false))
        joins++;
    assert_int_equal(joins, 64);
    assert_true(*used - before >= joins * sizeof(struct cm_record));
    m.cm_mcast.handle = 1;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_LEAVE, &m, &k, false), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    side_destroy(&t->a, id);
    assert_true(*used < before);
}

/* A group can be resolved, to be joined. No host could be connected to. */
static void test_groups_do_not_connect(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_UDP, 1);
    struct ctl_msg m = {.cm_resolve = {.id = id, .dst = side_address("239.1.1.1", SIDES_PORT)}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(side_bind(&t->a, id, side_address("127.0.0.1", 0), &info), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), 0);
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EINVAL);
}

static void test_options(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_msg m = {.cm_option = {.id = id, .name = 0, .length = 1, .value = {0x68}}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    m.cm_option.length = 4;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), -EINVAL);
    m.cm_option.name = 9;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), -ENOSYS);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    m.cm_option = (struct ctl_cm_option){.id = id, .name = 0, .length = 1, .value = {0x68}};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    m.cm_option = (struct ctl_cm_option){.id = id, .name = 3, .length = 1, .value = {17}};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    assert_int_equal(side_query(&t->a, id).traffic_class, 0x68);
    assert_int_equal(side_query(&t->a, id).packet_life_time, 16);
}

/* REUSEADDR or AFONLY; returns the call's status. */
static int set_flag(struct sides *t, uint32_t id, uint32_t name, int32_t value)
{
    struct ctl_msg m = {.cm_option = {.id = id, .name = name, .length = sizeof(value)}};
    struct ctl_call k = {0};

    memcpy(m.cm_option.value, &value, sizeof(value));
    return kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false);
}

static int listen_at(struct sides *t, uint32_t id)
{
    struct ctl_msg m = {.cm_id = {.id = id, .backlog = 1}};
    struct ctl_call k = {0};

    return kit_call(t->a.sn, CTL_CM_LISTEN, &m, &k, false);
}

enum { REUSEADDR = 1, AFONLY = 2 };

/* Programs set them before they bind the id, or afterwards. */
static void test_flags_of_bound_ids(void **state)
{
    struct sides *t = *state;
    uint32_t first = side_make_id(&t->a, IP_CM_PS_TCP, 1),
             second = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_cm_info info;

    assert_int_equal(side_bind(&t->a, first, side_address("::", 7000), &info), 0);
    assert_int_equal(set_flag(t, first, AFONLY, 1), 0);
    assert_int_equal(side_bind(&t->a, second, side_address("0.0.0.0", 7000), &info), 0);
    assert_int_equal(listen_at(t, first), 0);
    assert_int_equal(listen_at(t, second), 0);
    assert_int_equal(set_flag(t, first, AFONLY, 0), -EINVAL);
    assert_int_equal(set_flag(t, first, REUSEADDR, 1), -EINVAL);

    first = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    second = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(side_bind(&t->a, first, side_address("127.0.0.1", 7001), &info), 0);
    assert_int_equal(set_flag(t, first, REUSEADDR, 1), 0);
    assert_int_equal(set_flag(t, first, REUSEADDR, 0), -EINVAL);
    assert_int_equal(set_flag(t, second, REUSEADDR, 1), 0);
    assert_int_equal(side_bind(&t->a, second, side_address("127.0.0.1", 7001), &info), 0);
}

/* ---- channels ---- */

static void test_channels(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    struct side second = {.sn = t->a.sn};
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    assert_int_equal(kit_call_handle(t->a.sn, CTL_CM_DESTROY_CHANNEL, t->a.channel), -EBUSY);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_CREATE_CHANNEL, &m, &k, true), 0);
    second.channel = k.reply.handle;
    second.fd = k.out_fd[0];
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 1, ""), 0);
    sides_run(t);
    side_event(&t->a, CTL_CM_REJECTED);
    m.cm_id = (struct ctl_cm_id){.id = id, .channel = second.channel};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_MIGRATE, &m, &k, false), 0);
    assert_int_equal(k.reply.cm_id.sent, 3);
    assert_int_equal(side_call(&second, CTL_CM_CONNECT, id, 2, ""), 0);
    sides_run(t);
    side_no_event(&t->a);
    side_event(&second, CTL_CM_REJECTED);
    /* Of another program nothing is to be had. */
    assert_int_equal(kit_call(t->b.sn, CTL_CM_MIGRATE, &m, &k, false), -EINVAL);
    assert_int_equal(kit_call_handle(t->b.sn, CTL_CM_DESTROY_CHANNEL, t->a.channel), -ENOENT);
    side_destroy(&second, id);
    assert_int_equal(kit_call_handle(t->a.sn, CTL_CM_DESTROY_CHANNEL, second.channel), 0);
    close(second.fd);
}

/* An id is charged with its events, and nothing is begun that could bring more of them. */
static void test_charge_of_an_id(void **state)
{
    struct sides *t = *state;
    const uint64_t *used = &t->a.sn->account.used[QUOTA_MEMORY], before = *used;
    struct ctl_msg m = {.cm_resolve.dst = side_address("192.0.2.1", SIDES_PORT)};
    struct ctl_call k = {0};

    m.cm_resolve.id = side_make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(*used - before, 4096);
    fill_socket(&t->a);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    empty_socket(t, &t->a);
    for (unsigned i = 0; i < 4; i++)
        side_event(&t->a, CTL_CM_ADDR_ERROR);
    m.cm_resolve.dst = side_address("127.0.0.1", SIDES_PORT);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    side_event(&t->a, CTL_CM_ADDR_RESOLVED);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), 0);
}

/* ---- users ---- */

/* One user has half of the port numbers at most; others get some. */
static void test_numbers_of_a_user(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_info info;
    struct side user[2];

    for (unsigned i = 0; i < 2; i++)
        side_open_of(t, &user[i], 5000 + i);
    for (unsigned n = 0; n < 14116; n++)
        assert_int_equal(side_bind(&user[0], side_make_id(&user[0], IP_CM_PS_TCP, 1),
                                   side_address("0.0.0.0", 0), &info),
                         0);
    assert_int_equal(side_bind(&user[0], side_make_id(&user[0], IP_CM_PS_TCP, 1),
                               side_address("0.0.0.0", 0), &info),
                     -EADDRNOTAVAIL);
    assert_int_equal(cm_counters(t->r->cm.manager)->numbers_refused, 1);
    assert_int_equal(side_bind(&user[1], side_make_id(&user[1], IP_CM_PS_TCP, 1),
                               side_address("0.0.0.0", 0), &info),
                     0);
    for (unsigned i = 0; i < 2; i++)
        side_close(&user[i]);
}

/* Ids that the manager keeps after a user has destroyed them are bounded. */
static void test_lingering_of_a_user(void **state)
{
    struct sides *t = *state;
    struct ctl_cm_event e;
    struct side user;
    unsigned n = 0;

    t->r->quota.limit[QUOTA_CM_ID].user = 20;
    side_open_of(t, &user, 5000);
    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 50);
    for (unsigned i = 0; i < 12; i++) {
        uint32_t id = side_resolved(t, &user, IP_CM_PS_TCP, "127.0.0.1");

        assert_int_equal(side_call(&user, CTL_CM_CONNECT, id, 0x111 + i, ""), 0);
        sides_run(t);
        e = side_event(&t->b, CTL_CM_CONNECT_REQUEST);
        assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, e.id, 0x222 + i, ""), 0);
        sides_run(t);
        side_event(&user, CTL_CM_CONNECT_RESPONSE);
        assert_int_equal(side_call(&user, CTL_CM_ESTABLISH, id, 0, ""), 0);
        sides_run(t);
        side_event(&t->b, CTL_CM_ESTABLISHED);
    }
    side_close(&user); /* its DREQs await answers */
    assert_int_equal(cm_counters(t->r->cm.manager)->reclaimed, 12 - 20 / 4);
    while (n < 12) { /* each of them was sent */
        sides_run(t);
        for (; side_has_event(&t->b); n++)
            side_event(&t->b, CTL_CM_DISCONNECTED);
    }
}

/* A program that does not read gets the others when there is room. */
static void test_unread(void **state)
{
    struct sides *t = *state;
    unsigned sent = 0, got = 0;
    uint32_t id[1200];

    for (unsigned i = 0; i < ARRAY_SIZE(id); i++) {
        struct ctl_msg m = {.cm_resolve.dst = side_address("127.0.0.1", SIDES_PORT)};
        struct ctl_call k = {0};

        m.cm_resolve.id = id[i] = side_make_id(&t->a, IP_CM_PS_TCP, i);
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
        sent++;
    }
    assert_false(TAILQ_EMPTY(&cm_channel_get(t->a.sn, t->a.channel)->events));
    for (; side_has_event(&t->a); sides_run(t)) {
        assert_int_equal(side_event(&t->a, CTL_CM_ADDR_RESOLVED).cookie, got);
        got++;
    }
    assert_int_equal(got, sent);
    side_no_event(&t->a);
}

/* More messages at once than the worker's ring has room for: the others wait. */
static void test_no_room(void **state)
{
    struct sides *t = *state;
    uint32_t id[1400];

    for (unsigned i = 0; i < ARRAY_SIZE(id); i++)
        id[i] = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    for (unsigned i = 0; i < ARRAY_SIZE(id); i++)
        assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id[i], 1, ""), 0);
    assert_true(t->r->device[0]->gsi.is_full);
    for (unsigned got = 0; got < ARRAY_SIZE(id);) {
        sides_run(t);
        for (; side_has_event(&t->a); got++)
            side_event(&t->a, CTL_CM_REJECTED);
        assert_int_equal(cm_counters(t->r->cm.manager)->retries, 0);
    }
    assert_false(t->r->device[0]->gsi.is_full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_connection, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_rejected, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_before_the_listener, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_told, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_events_in_parts, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_listener_ends, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_program_ends, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_backlog, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_unread_request, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_withdrawn_requests, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_accept_too_late, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_request_without_room, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_datagrams, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_groups, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_joins_are_charged, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_groups_do_not_connect, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_options, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_flags_of_bound_ids, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_channels, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_no_room, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_charge_of_an_id, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_numbers_of_a_user, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_lingering_of_a_user, sides_setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_unread, sides_setup, sides_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
