/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs' connections by the daemon's manager, over the loopback port's wire. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/cm_object.h"
#include "device_kit.h"
#include "net/gids.h"
#include "sim.h"
#include "unit.h"

#define PORT 7471

struct side {
    struct session *sn;
    uint32_t channel;
    int fd;
};

struct test {
    struct event_loop *loop;
    struct rnic *r;
    struct side a, b;
};

static void side_open_of(struct test *t, struct side *s, uid_t uid)
{
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    s->sn = session_create(t->r, &(struct ucred){.pid = getpid(), .uid = uid});
    assert_non_null(s->sn);
    assert_int_equal(kit_call(s->sn, CTL_CM_CREATE_CHANNEL, &m, &k, true), 0);
    s->channel = k.reply.handle;
    s->fd = k.out_fd[0];
}

static void side_open(struct test *t, struct side *s)
{
    side_open_of(t, s, 0);
}

static void side_close(struct side *s)
{
    session_close(s->sn);
    close(s->fd);
}

static int setup(void **state)
{
    struct test *t = calloc(1, sizeof(*t));
    int err;

    t->loop = event_loop_create(&err);
    t->r = kit_rnic(t->loop, NULL);
    assert_non_null(t->r);
    side_open(t, &t->a);
    side_open(t, &t->b);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct test *t = *state;

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
static void run(struct test *t)
{
    for (unsigned idle = 0; idle < 3;) {
        bool work = worker_poll(rnic_worker(t->r, 0), worker_time());

        work |= event_loop_step(t->loop, 0);
        idle = work ? 0 : idle + 1;
    }
}

static unsigned bytes_waiting(const struct side *s)
{
    char buffer[64];
    ssize_t n = recv(s->fd, buffer, sizeof(buffer), MSG_DONTWAIT | MSG_PEEK);

    return n > 0 ? (unsigned)n : 0;
}

/* The next event, which must be of this type, and have a byte. */
static struct ctl_cm_event event(const struct side *s, uint32_t type)
{
    struct ctl_msg m = {.cm_event.channel = s->channel};
    struct ctl_call k = {0};
    char byte;

    assert_int_equal(recv(s->fd, &byte, 1, MSG_DONTWAIT), 1);
    assert_int_equal(kit_call(s->sn, CTL_CM_GET_EVENT, &m, &k, false), 0);
    assert_int_equal(k.reply.cm_event.type, type);
    return k.reply.cm_event;
}

static void no_event(const struct side *s)
{
    struct ctl_msg m = {.cm_event.channel = s->channel};
    struct ctl_call k = {0};

    assert_int_equal(bytes_waiting(s), 0);
    assert_int_equal(kit_call(s->sn, CTL_CM_GET_EVENT, &m, &k, false), -EAGAIN);
}

static uint32_t make_id(const struct side *s, uint32_t ps, uint64_t cookie)
{
    struct ctl_msg m = {.cm_id = {.channel = s->channel, .ps = ps, .cookie = cookie}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_CREATE_ID, &m, &k, false), 0);
    return k.reply.cm_id.id;
}

static struct ctl_cm_addr address(const char *text, uint16_t number)
{
    struct ctl_cm_addr a = {.number = number};
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    memcpy(a.gid, gid.raw, sizeof(a.gid));
    a.family = gid_is_ipv4(&gid) ? AF_INET : AF_INET6;
    return a;
}

static int bind_to(const struct side *s, uint32_t id, struct ctl_cm_addr a,
                   struct ctl_cm_info *info)
{
    struct ctl_msg m = {.cm_resolve = {.id = id, .src = a}};
    struct ctl_call k = {0};
    int status = kit_call(s->sn, CTL_CM_BIND, &m, &k, false);

    *info = k.reply.cm_info;
    return status;
}

static uint32_t listener(const struct side *s, uint32_t ps, const char *text, uint32_t backlog)
{
    uint32_t id = make_id(s, ps, 77);
    struct ctl_msg m = {.cm_id = {.id = id, .backlog = backlog}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(bind_to(s, id, address(text, PORT), &info), 0);
    assert_int_equal(info.src.number, PORT);
    assert_int_equal(kit_call(s->sn, CTL_CM_LISTEN, &m, &k, false), 0);
    return id;
}

/* To its route. */
static uint32_t resolved(struct test *t, const struct side *s, uint32_t ps, const char *text)
{
    uint32_t id = make_id(s, ps, 1);
    struct ctl_msg m = {.cm_resolve = {.id = id, .timeout_ms = 2000, .dst = address(text, PORT)}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    run(t);
    assert_int_equal(event(s, CTL_CM_ADDR_RESOLVED).id, id);
    m = (struct ctl_msg){.cm_resolve = {.id = id}};
    assert_int_equal(kit_call(s->sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), 0);
    assert_int_equal(event(s, CTL_CM_ROUTE_RESOLVED).id, id);
    return id;
}

static int call(const struct side *s, enum ctl_type type, uint32_t id, uint32_t qpn,
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

static struct ctl_cm_qp_attr qp_attr(const struct side *s, uint32_t id, uint32_t state, int status)
{
    struct ctl_msg m = {.cm_qp_attr = {.id = id, .attr.state = state}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_QP_ATTR, &m, &k, false), status);
    return k.reply.cm_qp_attr;
}

static struct ctl_cm_info query(const struct side *s, uint32_t id)
{
    struct ctl_msg m = {.cm_id.id = id};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_QUERY, &m, &k, false), 0);
    return k.reply.cm_info;
}

static unsigned destroy(const struct side *s, uint32_t id)
{
    struct ctl_msg m = {.cm_id.id = id};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(s->sn, CTL_CM_DESTROY_ID, &m, &k, false), 0);
    return k.reply.cm_id.dropped;
}

/* b's listener gets a's request. */
static struct ctl_cm_event requested(struct test *t, uint32_t id)
{
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 0x111, "ping"), 0);
    run(t);
    return event(&t->b, CTL_CM_CONNECT_REQUEST);
}

/* ---- connections ---- */

static void test_connection(void **state)
{
    struct test *t = *state;
    uint32_t id, other;
    struct ctl_cm_event e;
    struct ctl_cm_info info;
    struct ctl_cm_qp_attr attr;

    listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    e = requested(t, id);
    assert_int_equal(e.cookie, 77);
    assert_int_equal(e.conn.qpn, 0x111);
    assert_memory_equal(e.conn.private_data, "ping", 5);
    other = e.id;
    info = query(&t->b, other);
    assert_int_equal(info.src.number, PORT);
    assert_int_equal(info.dst.number, query(&t->a, id).src.number);
    assert_true(info.has_device && info.has_path);
    attr = qp_attr(&t->b, other, QPS_RTR, 0);
    assert_int_equal(attr.attr.dest_qpn, 0x111);
    assert_int_equal(call(&t->b, CTL_CM_ACCEPT, other, 0x222, "pong"), 0);
    run(t);
    e = event(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(e.conn.qpn, 0x222);
    assert_memory_equal(e.conn.private_data, "pong", 5);
    assert_int_equal(qp_attr(&t->a, id, QPS_RTR, 0).attr.ah.flow_label, attr.attr.ah.flow_label);
    assert_int_equal(call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    run(t);
    assert_int_equal(event(&t->b, CTL_CM_ESTABLISHED).id, other);
    assert_int_equal(call(&t->a, CTL_CM_DISCONNECT, id, 0, ""), 0);
    run(t);
    assert_int_equal(event(&t->b, CTL_CM_DISCONNECTED).id, other);
    assert_int_equal(call(&t->b, CTL_CM_DISCONNECT, other, 0, ""), 0);
    run(t);
    assert_int_equal(event(&t->a, CTL_CM_DISCONNECTED).id, id);
    no_event(&t->a);
    no_event(&t->b);
}

static void test_rejected(void **state)
{
    struct test *t = *state;
    uint32_t id;
    struct ctl_cm_event e;

    listener(&t->b, IP_CM_PS_TCP, "::1", 5);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "::1");
    e = requested(t, id);
    assert_int_equal(call(&t->b, CTL_CM_REJECT, e.id, 0, "no"), 0);
    run(t);
    e = event(&t->a, CTL_CM_REJECTED);
    assert_int_equal(e.status, CM_REJ_CONSUMER);
    assert_memory_equal(e.conn.private_data, "no", 3);
    /* No listener. */
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 1, ""), 0);
    run(t);
    assert_int_equal(event(&t->a, CTL_CM_REJECTED).status, CM_REJ_INVALID_SERVICE_ID);
}

/* A listener that ends refuses the requests that its program has not seen. */
static void test_listener_ends(void **state)
{
    struct test *t = *state;
    uint32_t l = listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    uint32_t id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");

    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    run(t);
    assert_int_equal(bytes_waiting(&t->b), 1);
    assert_int_equal(destroy(&t->b, l), 1);
    run(t);
    event(&t->a, CTL_CM_REJECTED);
    assert_int_equal(t->b.sn->count[OBJ_CM_ID], 0);
}

/* A program that ends disconnects its peers. */
static void test_program_ends(void **state)
{
    struct test *t = *state;
    struct ctl_cm_event e;
    uint32_t id;

    listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    e = requested(t, id);
    assert_int_equal(call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, ""), 0);
    run(t);
    event(&t->a, CTL_CM_CONNECT_RESPONSE);
    assert_int_equal(call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    run(t);
    event(&t->b, CTL_CM_ESTABLISHED);
    side_close(&t->a);
    t->a.sn = NULL;
    run(t);
    assert_int_equal(event(&t->b, CTL_CM_DISCONNECTED).id, e.id);
}

/* Each request counts against the program's quota and the listener's backlog. */
static void test_backlog(void **state)
{
    struct test *t = *state;
    uint32_t id[3];

    listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 2);
    for (unsigned i = 0; i < 3; i++) {
        id[i] = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
        assert_int_equal(call(&t->a, CTL_CM_CONNECT, id[i], i + 1, ""), 0);
        run(t);
    }
    assert_int_equal(bytes_waiting(&t->b), 2);
    assert_int_equal(cm_counters(t->r->cm.manager)->backlog_full, 1);
    event(&t->b, CTL_CM_CONNECT_REQUEST);
    event(&t->b, CTL_CM_CONNECT_REQUEST);
}

/* Until its event is read the program has no part in a request's id: nothing can be done with its
 * handle, which can be guessed. */
static void test_unread_request(void **state)
{
    struct test *t = *state;
    uint32_t l = listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5), fresh = l;
    uint32_t id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    const struct object *o;
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    run(t);
    TAILQ_FOREACH (o, &t->b.sn->objects[OBJ_CM_ID], link)
        fresh = o->handle;
    assert_int_not_equal(fresh, l);
    m.cm_id.id = fresh;
    assert_int_equal(kit_call(t->b.sn, CTL_CM_DESTROY_ID, &m, &k, false), -EINVAL);
    assert_int_equal(call(&t->b, CTL_CM_ACCEPT, fresh, 1, ""), -EINVAL);
    assert_int_equal(event(&t->b, CTL_CM_CONNECT_REQUEST).id, fresh);
    assert_int_equal(destroy(&t->b, fresh), 0);
    assert_int_equal(destroy(&t->b, l), 0);
}

/* Requests that the peer withdraws wait for the program, too: no more than the backlog. */
static void test_withdrawn_requests(void **state)
{
    struct test *t = *state;
    struct ctl_msg m = {.cm_event.channel = t->b.channel};
    unsigned requests = 0;
    struct ctl_call k = {0};
    char bytes[64];

    listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 2);
    for (unsigned i = 0; i < 5; i++) {
        uint32_t id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");

        assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, i + 1, ""), 0);
        run(t);
        destroy(&t->a, id);
        run(t);
    }
    assert_int_equal(t->b.sn->count[OBJ_CM_ID], 1 + 2);
    while (!kit_call(t->b.sn, CTL_CM_GET_EVENT, &m, &k, false))
        requests += k.reply.cm_event.type == CTL_CM_CONNECT_REQUEST;
    assert_int_equal(requests, 2);
    assert_true(recv(t->b.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
    requested(t, resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1")); /* there is room again */
}

/* ---- datagrams and groups ---- */

static void test_datagrams(void **state)
{
    struct test *t = *state;
    struct ctl_cm_event e;
    uint32_t id;

    listener(&t->b, IP_CM_PS_UDP, "127.0.0.1", 5);
    id = resolved(t, &t->a, IP_CM_PS_UDP, "127.0.0.1");
    assert_int_equal(qp_attr(&t->a, id, QPS_INIT, 0).attr.qkey, 0x01234567);
    e = requested(t, id);
    assert_int_equal(call(&t->b, CTL_CM_ACCEPT, e.id, 0x222, "pong"), 0);
    run(t);
    e = event(&t->a, CTL_CM_ESTABLISHED);
    assert_int_equal(e.conn.qpn, 0x222);
    assert_int_equal(e.conn.qkey, 0x01234567);
    assert_int_equal(e.ah.is_global, 1);
    assert_memory_equal(e.conn.private_data, "pong", 5);
}

static void test_groups(void **state)
{
    struct test *t = *state;
    uint32_t id = make_id(&t->a, IP_CM_PS_UDP, 1);
    struct ctl_msg m = {.cm_mcast = {.id = id, .cookie = 5, .addr = address("239.1.1.1", 0)}};
    struct ctl_call k = {0};
    struct ctl_cm_event e;
    struct ctl_cm_info info;

    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL); /* not bound */
    assert_int_equal(bind_to(&t->a, id, address("127.0.0.1", 0), &info), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    assert_memory_equal(k.reply.cm_mcast.mgid, m.cm_mcast.addr.gid, 16);
    e = event(&t->a, CTL_CM_MULTICAST_JOIN);
    assert_int_equal(e.cookie, 5);
    assert_int_equal(e.conn.qpn, 0xFFFFFF);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    m.cm_mcast.handle = k.reply.cm_mcast.handle;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_LEAVE, &m, &k, false), 0);
    assert_int_equal(k.reply.cm_mcast.dropped, 1);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_LEAVE, &m, &k, false), -EINVAL);
    m.cm_mcast.addr = address("10.0.0.1", 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL);
}

/* A join and its event are charged until the program leaves the group. */
static void test_joins_are_charged(void **state)
{
    struct test *t = *state;
    uint32_t id = make_id(&t->a, IP_CM_PS_UDP, 1);
    struct ctl_msg m = {.cm_mcast = {.id = id, .addr = address("239.1.1.1", 0)}};
    const uint64_t *used = &t->a.sn->account.used[QUOTA_MEMORY];
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint64_t before;
    unsigned joins = 0;

    assert_int_equal(bind_to(&t->a, id, address("127.0.0.1", 0), &info), 0);
    before = *used;
    while (!kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false))
        joins++;
    assert_int_equal(joins, 64);
    assert_true(*used - before >= joins * sizeof(struct cm_record));
    m.cm_mcast.handle = 1;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_LEAVE, &m, &k, false), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_JOIN, &m, &k, false), 0);
    destroy(&t->a, id);
    assert_true(*used < before);
}

/* A group can be resolved, to be joined. No host could be connected to. */
static void test_groups_do_not_connect(void **state)
{
    struct test *t = *state;
    uint32_t id = make_id(&t->a, IP_CM_PS_UDP, 1);
    struct ctl_msg m = {.cm_resolve = {.id = id, .dst = address("239.1.1.1", PORT)}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(bind_to(&t->a, id, address("127.0.0.1", 0), &info), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    event(&t->a, CTL_CM_ADDR_RESOLVED);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), 0);
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EINVAL);
}

/* ---- addresses ---- */

static void on_retry(void *ctx)
{
}

/* A second port, at a network with other hosts. */
static struct pktio *add_port(struct test *t)
{
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct port_address a = {.prefix = 24, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct pktio *end[2];

    assert_int_equal(gid_parse(&a.gid, "10.0.1.1"), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    rnic_on_retry(t->r, on_retry, NULL); /* as a server does */
    return end[1];
}

/* Ids that wait for ARP are looked at in slices. */
static void test_many_wait(void **state)
{
    struct test *t = *state;
    struct pktio *far = add_port(t);

    for (unsigned i = 0; i < 20000; i++) {
        struct ctl_msg m = {.cm_resolve = {.timeout_ms = 60000, .dst = address("10.0.1.2", PORT)}};
        struct ctl_call k = {0};

        m.cm_resolve.id = make_id(&t->a, IP_CM_PS_TCP, 1);
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    }
    assert_false(TAILQ_EMPTY(&t->r->cm.resolving));
    cm_host_resolved(t->r);
    assert_true(t->r->cm.looking);
    assert_ptr_not_equal(t->r->cm.next, TAILQ_FIRST(&t->r->cm.resolving));
    destroy(&t->a, t->r->cm.next->o.handle); /* while the rest waits for its turn */
    while (t->r->cm.looking)
        event_loop_step(t->loop, 0);
    assert_true(t->r->cm.first > t->r->config.clock() && t->r->cm.first < NS_NEVER);
    cm_host_resolved(t->r); /* and the end during it */
    side_close(&t->a);
    t->a.sn = NULL;
    assert_true(TAILQ_EMPTY(&t->r->cm.resolving));
    far->ops->close(far);
}

static void test_addresses(void **state)
{
    struct test *t = *state;
    uint32_t id = make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_msg m = {.cm_resolve = {.id = id, .dst = address("192.0.2.1", PORT)}};
    struct ctl_call k = {0};
    struct ctl_cm_info info;

    assert_int_equal(bind_to(&t->a, id, address("192.0.2.1", 0), &info), -ENODEV);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_int_equal(event(&t->a, CTL_CM_ADDR_ERROR).status, -ENETUNREACH);
    assert_int_equal(bind_to(&t->a, id, address("127.0.0.1", 0), &info), 0);
    assert_true(info.has_device && info.src.number >= 1024);
    assert_int_equal(bind_to(&t->a, id, address("127.0.0.1", 0), &info), -EINVAL);
    m.cm_resolve.dst = address("::1", PORT); /* another family */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    m.cm_resolve.dst = address("0.0.0.0", PORT); /* this host */
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_memory_equal(k.reply.cm_info.dst.gid, k.reply.cm_info.src.gid, 16);
    event(&t->a, CTL_CM_ADDR_RESOLVED);
}

/* An id whose address is of no device has none, whatever it tries. */
static void test_no_device(void **state)
{
    struct port_address own = {.prefix = 8, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &own, .addresses = 1};
    struct ctl_msg m = {.cm_resolve.dst = address("::", PORT)};
    struct test t = {0};
    struct ctl_call k = {0};
    struct ctl_cm_info info;
    uint32_t id;

    assert_int_equal(gid_parse(&own.gid, "127.0.0.1"), 0);
    t.r = kit_rnic_with(NULL, NULL, pc);
    side_open(&t, &t.a);
    id = make_id(&t.a, IP_CM_PS_UDP, 1);
    assert_int_equal(bind_to(&t.a, id, address("::", 0), &info), 0);
    m.cm_resolve.id = id;
    assert_int_equal(kit_call(t.a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -ENODEV);
    assert_false(query(&t.a, id).has_device);
    m.cm_mcast = (struct ctl_cm_mcast){.id = id, .addr = address("ff0e::1", 0)};
    assert_int_equal(kit_call(t.a.sn, CTL_CM_JOIN, &m, &k, false), -EINVAL);
    side_close(&t.a);
    rnic_destroy(t.r);
}

/* An address leaves the port, and another one gets its place in the GID table. */
static void test_address_goes(void **state)
{
    struct test *t = *state;
    struct port_address own = {.prefix = 8, .vlan = VLAN_NONE}, next = own;
    struct device *d = t->r->device[0];
    struct ctl_cm_info info;
    uint32_t id;

    assert_int_equal(gid_parse(&own.gid, "127.0.0.9"), 0);
    assert_int_equal(gid_parse(&next.gid, "127.0.0.10"), 0);
    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    info = query(&t->a, id);
    assert_true(info.has_path);
    assert_int_equal(device_gids_remove(d, &own.gid, VLAN_NONE), 0);
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EADDRNOTAVAIL);
    assert_int_equal(rnic_add_address(t->r, 0, &next), 0);
    assert_true(gid_eq(&d->gids.entry[info.sgid_index].gid, &next.gid));
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EADDRNOTAVAIL);
    info = query(&t->a, id);
    assert_false(info.has_path);
}

static union gid gid_of(const char *text)
{
    union gid gid;

    assert_int_equal(gid_parse(&gid, text), 0);
    return gid;
}

static void change_address(struct test *t, const char *text, bool add)
{
    struct port_address own = {.gid = gid_of(text), .prefix = 8, .vlan = VLAN_NONE};

    assert_int_equal(add ? rnic_add_address(t->r, 0, &own)
                         : rnic_remove_address(t->r, 0, &own.gid, VLAN_NONE),
                     0);
    run(t);
}

/* Ids whose address goes are told once: a listener, the ends of a connection, one that is bound. */
static void test_address_change(void **state)
{
    struct test *t = *state;
    struct ctl_cm_info info;
    struct ctl_cm_event e;
    uint32_t id, l, bound;

    change_address(t, "127.0.0.9", true);
    l = listener(&t->b, IP_CM_PS_TCP, "127.0.0.9", 5);
    bind_to(&t->b, make_id(&t->b, IP_CM_PS_TCP, 1), address("127.0.0.1", 0), &info);
    bind_to(&t->b, make_id(&t->b, IP_CM_PS_TCP, 1), address("0.0.0.0", 0), &info);
    make_id(&t->b, IP_CM_PS_TCP, 1);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    bound = make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(bind_to(&t->a, bound, address("127.0.0.9", 0), &info), 0);
    e = requested(t, id);
    change_address(t, "127.0.0.10", true);
    no_event(&t->a);
    no_event(&t->b);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.10", false);
    assert_int_equal(event(&t->b, CTL_CM_ADDR_CHANGE).id, l);
    assert_int_equal(event(&t->b, CTL_CM_ADDR_CHANGE).id, e.id);
    no_event(&t->b);
    assert_int_equal(event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
    assert_int_equal(event(&t->a, CTL_CM_ADDR_CHANGE).id, bound);
    no_event(&t->a);
}

/* An address that comes back, at another place of the GID table, serves as before; as long as the
 * program has not read that it had gone, it is told no more. */
static void test_address_returns(void **state)
{
    struct test *t = *state;
    uint32_t id;

    change_address(t, "127.0.0.9", true);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.9");
    listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    change_address(t, "127.0.0.9", false);
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 1, ""), -EADDRNOTAVAIL);
    change_address(t, "127.0.0.10", true); /* takes its place */
    change_address(t, "127.0.0.9", true);
    change_address(t, "127.0.0.9", false);
    change_address(t, "127.0.0.9", true);
    assert_int_equal(event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
    no_event(&t->a);
    requested(t, id);
    change_address(t, "127.0.0.9", false);
    assert_int_equal(event(&t->a, CTL_CM_ADDR_CHANGE).id, id);
}

/* Many ids are looked at in slices; their program's end and another change come during it. */
static void test_many_follow(void **state)
{
    struct test *t = *state;
    struct cm_follow *f = &t->r->cm.follow;
    union gid gid = gid_of("127.0.0.9");
    struct ctl_cm_info info;
    unsigned told = 0;

    change_address(t, "127.0.0.9", true);
    for (unsigned i = 0; i < 20000; i++)
        assert_int_equal(
            bind_to(&t->a, make_id(&t->a, IP_CM_PS_TCP, 1), address("127.0.0.9", 0), &info), 0);
    assert_int_equal(rnic_remove_address(t->r, 0, &gid, VLAN_NONE), 0);
    assert_true(f->active);
    destroy(&t->a, f->walk.next->handle);
    cm_host_addresses_changed(t->r);
    while (f->active)
        event_loop_step(t->loop, 0);
    for (;;) {
        struct ctl_msg m = {.cm_event.channel = t->a.channel};
        struct ctl_call k = {0};

        if (kit_call(t->a.sn, CTL_CM_GET_EVENT, &m, &k, false))
            break;
        assert_int_equal(k.reply.cm_event.type, CTL_CM_ADDR_CHANGE);
        told++;
    }
    assert_int_equal(told, 20000 - 1);
}

/* Of a port and the loopback device with the same address, the port is meant: others can be
 * reached from there. */
static void test_ports_before_loopback(void **state)
{
    struct test *t = *state;
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct port_address a = {.prefix = 8, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct pktio *end[2];
    struct ctl_cm_info info;

    assert_int_equal(gid_parse(&a.gid, "127.0.0.1"), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    assert_int_equal(
        bind_to(&t->a, make_id(&t->a, IP_CM_PS_TCP, 1), address("127.0.0.1", 0), &info), 0);
    assert_int_equal(info.device, 1);
    assert_int_equal(bind_to(&t->a, make_id(&t->a, IP_CM_PS_TCP, 2), address("::1", 0), &info), 0);
    assert_int_equal(info.device, 0);
    end[1]->ops->close(end[1]);
}

static void no_retry(void *ctx)
{
}

/* The next hop is forgotten between rdma_resolve_addr and rdma_connect: the request waits for it.
 */
static void test_stale_route(void **state)
{
    struct test *t = *state;
    struct pktio_sim_config sc = {.seed = 1, .mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct port_address a = {.prefix = 24, .vlan = VLAN_NONE};
    struct port_config pc = {.address = &a, .addresses = 1};
    struct ctl_msg m = {.cm_resolve = {.timeout_ms = 2000, .dst = address("10.9.9.2", PORT)}};
    struct ctl_call k = {0};
    struct cm_object *o;
    struct pktio *end[2];

    rnic_on_retry(t->r, no_retry, NULL);
    assert_int_equal(gid_parse(&a.gid, "10.9.9.1"), 0);
    assert_int_equal(pktio_sim_pair(end, &sc), 0);
    pc.io = end[0];
    assert_int_equal(rnic_add_port(t->r, &pc), 0);
    m.cm_resolve.id = make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    o = cm_object_get(t->a.sn, m.cm_resolve.id);
    assert_int_equal(o->progress, CM_AT_QUERY);
    TAILQ_REMOVE(&t->r->cm.resolving, o, resolving);
    o->progress = CM_AT_ROUTE;
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, o->o.handle, 1, ""), -EINPROGRESS);
    end[1]->ops->close(end[1]);
}

static void test_options(void **state)
{
    struct test *t = *state;
    uint32_t id = make_id(&t->a, IP_CM_PS_TCP, 1);
    struct ctl_msg m = {.cm_option = {.id = id, .name = 0, .length = 1, .value = {0x68}}};
    struct ctl_call k = {0};

    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    m.cm_option.length = 4;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), -EINVAL);
    m.cm_option.name = 9;
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), -ENOSYS);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    m.cm_option = (struct ctl_cm_option){.id = id, .name = 0, .length = 1, .value = {0x68}};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    m.cm_option = (struct ctl_cm_option){.id = id, .name = 3, .length = 1, .value = {17}};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_SET_OPTION, &m, &k, false), 0);
    assert_int_equal(query(&t->a, id).traffic_class, 0x68);
    assert_int_equal(query(&t->a, id).packet_life_time, 16);
}

/* ---- channels ---- */

static void test_channels(void **state)
{
    struct test *t = *state;
    uint32_t id = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    struct side second = {.sn = t->a.sn};
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    assert_int_equal(kit_call_handle(t->a.sn, CTL_CM_DESTROY_CHANNEL, t->a.channel), -EBUSY);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_CREATE_CHANNEL, &m, &k, true), 0);
    second.channel = k.reply.handle;
    second.fd = k.out_fd[0];
    assert_int_equal(call(&t->a, CTL_CM_CONNECT, id, 1, ""), 0);
    run(t);
    assert_int_equal(bytes_waiting(&t->a), 1);
    m.cm_id = (struct ctl_cm_id){.id = id, .channel = second.channel};
    assert_int_equal(kit_call(t->a.sn, CTL_CM_MIGRATE, &m, &k, false), 0);
    assert_int_equal(k.reply.cm_id.dropped, 1);
    event(&second, CTL_CM_REJECTED);
    /* Of another program nothing is to be had. */
    assert_int_equal(kit_call(t->b.sn, CTL_CM_MIGRATE, &m, &k, false), -EINVAL);
    assert_int_equal(kit_call_handle(t->b.sn, CTL_CM_DESTROY_CHANNEL, t->a.channel), -ENOENT);
    destroy(&second, id);
    assert_int_equal(kit_call_handle(t->a.sn, CTL_CM_DESTROY_CHANNEL, second.channel), 0);
    close(second.fd);
}

/* An id is charged with its events, and nothing is begun that could bring more of them. */
static void test_charge_of_an_id(void **state)
{
    struct test *t = *state;
    const uint64_t *used = &t->a.sn->account.used[QUOTA_MEMORY], before = *used;
    struct ctl_msg m = {.cm_resolve.dst = address("127.0.0.1", PORT)};
    struct ctl_call k = {0};

    m.cm_resolve.id = make_id(&t->a, IP_CM_PS_TCP, 1);
    assert_int_equal(*used - before, 4096);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), -EINVAL);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), -EINVAL);
    event(&t->a, CTL_CM_ADDR_RESOLVED);
    assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ROUTE, &m, &k, false), 0);
}

/* ---- users ---- */

/* One user has half of the port numbers at most; others get some. */
static void test_numbers_of_a_user(void **state)
{
    struct test *t = *state;
    struct ctl_cm_info info;
    struct side user[2];

    for (unsigned i = 0; i < 2; i++)
        side_open_of(t, &user[i], 5000 + i);
    for (unsigned n = 0; n < 14116; n++)
        assert_int_equal(
            bind_to(&user[0], make_id(&user[0], IP_CM_PS_TCP, 1), address("0.0.0.0", 0), &info), 0);
    assert_int_equal(
        bind_to(&user[0], make_id(&user[0], IP_CM_PS_TCP, 1), address("0.0.0.0", 0), &info),
        -EADDRNOTAVAIL);
    assert_int_equal(cm_counters(t->r->cm.manager)->numbers_refused, 1);
    assert_int_equal(
        bind_to(&user[1], make_id(&user[1], IP_CM_PS_TCP, 1), address("0.0.0.0", 0), &info), 0);
    for (unsigned i = 0; i < 2; i++)
        side_close(&user[i]);
}

/* Ids that the manager keeps after a user has destroyed them are bounded. */
static void test_lingering_of_a_user(void **state)
{
    struct test *t = *state;
    struct ctl_cm_event e;
    struct side user;
    unsigned n = 0;

    t->r->quota.limit[QUOTA_CM_ID].user = 20;
    side_open_of(t, &user, 5000);
    listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 50);
    for (unsigned i = 0; i < 12; i++) {
        uint32_t id = resolved(t, &user, IP_CM_PS_TCP, "127.0.0.1");

        assert_int_equal(call(&user, CTL_CM_CONNECT, id, 0x111 + i, ""), 0);
        run(t);
        e = event(&t->b, CTL_CM_CONNECT_REQUEST);
        assert_int_equal(call(&t->b, CTL_CM_ACCEPT, e.id, 0x222 + i, ""), 0);
        run(t);
        event(&user, CTL_CM_CONNECT_RESPONSE);
        assert_int_equal(call(&user, CTL_CM_ESTABLISH, id, 0, ""), 0);
        run(t);
        event(&t->b, CTL_CM_ESTABLISHED);
    }
    side_close(&user); /* its DREQs await answers */
    assert_int_equal(cm_counters(t->r->cm.manager)->reclaimed, 12 - 20 / 4);
    while (n < 12) { /* each of them was sent */
        run(t);
        while (bytes_waiting(&t->b)) {
            struct ctl_msg m = {.cm_event.channel = t->b.channel};
            struct ctl_call k = {0};
            char byte;

            assert_int_equal(recv(t->b.fd, &byte, 1, MSG_DONTWAIT), 1);
            assert_int_equal(kit_call(t->b.sn, CTL_CM_GET_EVENT, &m, &k, false), 0);
            n += k.reply.cm_event.type == CTL_CM_DISCONNECTED;
        }
    }
}

/* A program that does not read gets the bytes later: one for each event that it has read. */
static void test_unread(void **state)
{
    struct test *t = *state;
    unsigned sent = 0, got = 0;
    uint32_t id[600];
    char byte;

    for (unsigned i = 0; i < ARRAY_SIZE(id); i++) {
        struct ctl_msg m = {.cm_resolve.dst = address("127.0.0.1", PORT)};
        struct ctl_call k = {0};

        m.cm_resolve.id = id[i] = make_id(&t->a, IP_CM_PS_TCP, i);
        assert_int_equal(kit_call(t->a.sn, CTL_CM_RESOLVE_ADDR, &m, &k, false), 0);
        sent++;
    }
    assert_true(cm_channel_get(t->a.sn, t->a.channel)->owed > 0);
    while (recv(t->a.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
        assert_int_equal(event(&t->a, CTL_CM_ADDR_RESOLVED).cookie, got);
        got++;
    }
    assert_int_equal(got, sent);
}

/* Link-local addresses of interfaces of the host, on its loopback device. */
static void test_scopes_on_the_loopback_device(void **state)
{
    struct test *t = *state;
    struct port_address own = {.prefix = 64, .vlan = VLAN_NONE, .ifindex = 7};
    struct ctl_cm_addr a = address("fe80::77", PORT + 1);
    struct ctl_cm_info info;
    uint32_t id;

    t->r->device[0]->info.ifindex = 1;
    assert_int_equal(gid_parse(&own.gid, "fe80::77"), 0);
    assert_int_equal(rnic_add_address(t->r, 0, &own), 0);
    a.scope = 7;
    assert_int_equal(bind_to(&t->a, make_id(&t->a, IP_CM_PS_TCP, 1), a, &info), 0);
    assert_int_equal(info.src.scope, 7);
    a.scope = 8; /* an interface with the same address */
    a.number++;
    assert_int_equal(bind_to(&t->a, make_id(&t->a, IP_CM_PS_TCP, 1), a, &info), 0);
    a = address("fe80::78", PORT);
    assert_int_equal(bind_to(&t->a, make_id(&t->a, IP_CM_PS_TCP, 1), a, &info), -ENODEV);
    listener(&t->b, IP_CM_PS_TCP, "::", 5);
    id = resolved(t, &t->a, IP_CM_PS_TCP, "fe80::77");
    assert_int_equal(query(&t->a, id).dst.scope, 0); /* as the program named it */
    info = query(&t->b, requested(t, id).id);
    assert_int_equal(info.src.scope, 7);
    assert_int_equal(info.dst.scope, 7);
}

/* More messages at once than the worker's ring has room for: the others wait. */
static void test_no_room(void **state)
{
    struct test *t = *state;
    uint32_t id[1400];

    for (unsigned i = 0; i < ARRAY_SIZE(id); i++)
        id[i] = resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    for (unsigned i = 0; i < ARRAY_SIZE(id); i++)
        assert_int_equal(call(&t->a, CTL_CM_CONNECT, id[i], 1, ""), 0);
    assert_true(t->r->device[0]->gsi.is_full);
    for (unsigned got = 0; got < ARRAY_SIZE(id);) {
        run(t);
        while (bytes_waiting(&t->a)) {
            event(&t->a, CTL_CM_REJECTED);
            got++;
        }
        assert_int_equal(cm_counters(t->r->cm.manager)->retries, 0);
    }
    assert_false(t->r->device[0]->gsi.is_full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rejected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_listener_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_program_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_backlog, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unread_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_withdrawn_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_datagrams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joins_are_charged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups_do_not_connect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scopes_on_the_loopback_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ports_before_loopback, setup, teardown),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test_setup_teardown(test_address_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_address_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_address_returns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_route, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_channels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_charge_of_an_id, setup, teardown),
        cmocka_unit_test_setup_teardown(test_numbers_of_a_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lingering_of_a_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unread, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
