/* SPDX-License-Identifier: BSD-3-Clause */
/* See sides.h. */
#include "sides.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

void side_open_of(struct sides *t, struct side *s, uid_t uid)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    s->sn = session_create(t->r, &(struct ucred){.pid = getpid(), .uid = uid});
    assert_non_null(s->sn);
    assert_int_equal(kit_call(s->sn, CTL_CM_CREATE_CHANNEL, &m, &k, true), 0);
    s->channel = k.reply.handle;
    s->fd = k.out_fd[0];
}

void side_open(struct sides *t, struct side *s)
{
    side_open_of(t, s, 0);
}

void side_close(struct side *s)
{
    session_close(s->sn);
    close(s->fd);
}

int sides_setup(void **state)
{
    struct sides *t = calloc(1, sizeof(*t));
    int err;

    t->loop = event_loop_create(&err);
    t->r = kit_rnic(t->loop, NULL);
    assert_non_null(t->r);
    side_open(t, &t->a);
    side_open(t, &t->b);
    *state = t;
    return 0;
}

int sides_teardown(void **state)
{
    struct sides *t = *state;

    if (t->a.sn)
        side_close(&t->a);
    side_close(&t->b);
    assert_int_equal(t->r->quota.used[quota_count(0, QUOTA_CM_ID)], 0);
    rnic_destroy(t->r);
    event_loop_destroy(t->loop);
    free(t);
    return 0;
}

/* Until nothing moves. */
void sides_run(struct sides *t)
{
    for (unsigned idle = 0; idle < 3;) {
        bool work = worker_poll(rnic_worker(t->r, 0), worker_time());

        work |= event_loop_step(t->loop, 0);
        idle = work ? 0 : idle + 1;
    }
}

/* As if the loop had nothing else to do: events are sent then. */
static void send_waiting(const struct side *s)
{
    struct rnic *r = s->sn->rnic;

    if (!r->cm.sends_later)
        return;
    event_loop_not_when_idle(r->config.loop, &r->cm.send);
    r->cm.send.run(&r->cm.send);
}

bool side_has_event(const struct side *s)
{
    char byte;

    send_waiting(s);
    return recv(s->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* The next event, which must be of this type. */
struct ctl_cm_told side_told(const struct side *s, uint32_t type)
{
    struct ctl_cm_told told;

    send_waiting(s);
    assert_int_equal(recv(s->fd, &told, sizeof(told), MSG_DONTWAIT), sizeof(told));
    assert_int_equal(told.event.type, type);
    return told;
}

struct ctl_cm_event side_event(const struct side *s, uint32_t type)
{
    return side_told(s, type).event;
}

void side_no_event(const struct side *s)
{
    assert_false(side_has_event(s));
    assert_true(TAILQ_EMPTY(&cm_channel_get(s->sn, s->channel)->events));
}

uint32_t side_make_id(const struct side *s, uint32_t ps, uint64_t cookie)
{
    struct ctl_msg m = {.cm_id = {.channel = s->channel, .ps = ps, .cookie = cookie}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_CREATE_ID, &m, &k, false), 0);
    return k.reply.cm_id.id;
}

struct ctl_cm_addr side_address(const char *text, uint16_t number)
{
    struct ctl_cm_addr a = {.number = number};
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    memcpy(a.gid, gid.raw, sizeof(a.gid));
    a.family = gid_is_ipv4(&gid) ? AF_INET : AF_INET6;
    return a;
}

int side_bind(const struct side *s, uint32_t id, struct ctl_cm_addr a, struct ctl_cm_info *info)
{
    struct ctl_msg m = {.cm_resolve = {.id = id, .src = a}};
    struct ctl_call k = {0};
    int status = kit_call(s->sn, CTL_CM_BIND, &m, &k, false);

    *info = k.reply.cm_info;
    return status;
}

uint32_t side_listener(const struct side *s, uint32_t ps, const char *text, uint32_t backlog)
{
    uint32_t id = side_make_id(s, ps, 77);
    struct ctl_msg m = {.cm_id = {.id = id, .backlog = backlog}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(side_bind(s, id, side_address(text, SIDES_PORT), &info), 0);
    assert_int_equal(info.src.number, SIDES_PORT);
    assert_int_equal(kit_call(s->sn, CTL_CM_LISTEN, &m, &k, false), 0);
    return id;
}

/* To its route. */
uint32_t side_resolved(struct sides *t, const struct side *s, uint32_t ps, const char *text)
{
    uint32_t id = side_make_id(s, ps, 1);
    struct ctl_msg m = {
        .cm_resolve = {.id = id, .timeout_ms = 2000, .dst = side_address(text, SIDES_PORT)}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    sides_run(t);
    assert_int_equal(side_event(s, CTL_CM_ADDR_RESOLVED).id, id);
    m = (struct ctl_msg){.cm_resolve = {.id = id}};
    assert_int_equal(kit_call(s->sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), 0);
    assert_int_equal(side_event(s, CTL_CM_ROUTE_RESOLVED).id, id);
    return id;
}

int side_call(const struct side *s, enum ctl_type type, uint32_t id, uint32_t qpn,
              const char *private)
{
    struct ctl_msg m = {.cm_call = {.id = id, .conn = {.qpn = qpn, .qp_type = CM_QP_RC}}};
    struct ctl_call k = {0};

    m.cm_call.conn.responder_resources = m.cm_call.conn.initiator_depth = 2;
    m.cm_call.conn.retry_count = m.cm_call.conn.rnr_retry_count = 7;
    m.cm_call.conn.private_len = (uint16_t)strlen(private);
    memcpy(m.cm_call.conn.private_data, private, strlen(private));
    return kit_call(s->sn, type, &m, &k, false);
}

struct ctl_cm_qp_attr side_qp_attr(const struct side *s, uint32_t id, uint32_t state, int status)
{
    struct ctl_msg m = {.cm_qp_attr = {.id = id, .attr.state = state}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_QP_ATTR, &m, &k, false), status);
    return k.reply.cm_qp_attr;
}

struct ctl_cm_info side_query(const struct side *s, uint32_t id)
{
    struct ctl_msg m = {.cm_id.id = id};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_QUERY, &m, &k, false), 0);
    return k.reply.cm_info;
}

unsigned side_destroy(const struct side *s, uint32_t id)
{
    struct ctl_msg m = {.cm_id.id = id};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_DESTROY_ID, &m, &k, false), 0);
    return k.reply.cm_id.sent;
}

/* b's listener gets a's request. */
struct ctl_cm_event side_requested(struct sides *t, uint32_t id)
{
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, "ping"), 0);
    sides_run(t);
    return side_event(&t->b, CTL_CM_CONNECT_REQUEST);
}
