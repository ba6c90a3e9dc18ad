/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the connection manager, and what they do to a stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rs_stream.h"

#define RESOLVE_MS    2000
#define RESOLVE_TRIES 4
#define REQUESTS_MAX  1024
#define RETRIES       7 /* of requests; of RNR NAKs without end */

/* What is kept of an event, which is acknowledged before anything is done. */
struct news {
    enum rdma_cm_event_type event;
    int status;
    struct rdma_cm_id *id;
    int hello_err;
    struct rs_hello hello;
};

void rs_stream_down(struct rs_stream *s, int err)
{
    s->gone |= err != 0;
    if (s->state == RS_DOWN || s->state == RS_FAILED)
        return;
    s->state = s->state < RS_ACCEPTING ? RS_FAILED : RS_DOWN;
    s->failed = err != 0;
    s->rs.error = err;
    rs_wake(&s->rs);
}

void rs_id_destroy(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

/* ---- connecting ---- */

static int resolve_addr(struct rs_stream *s)
{
    s->tries++;
    if (rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&s->peer, RESOLVE_MS))
        return -errno;
    s->state = RS_RESOLVING;
    return 0;
}

/* The program may know the route. */
static int resolve_route(struct rs_stream *s)
{
    const struct rs_options *o = &s->rs.options;

    s->tries++;
    if (o->route &&
        !rdma_set_option(s->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, o->route, o->route_size))
        return 0;
    return rdma_resolve_route(s->id, RESOLVE_MS) ? -errno : 0;
}

static int request_connection(struct rs_stream *s)
{
    uint8_t bytes[RS_HELLO_SIZE];
    struct rdma_conn_param param = {
        .private_data = bytes,
        .private_data_len = sizeof(bytes),
        .flow_control = 1,
        .retry_count = RETRIES,
        .rnr_retry_count = RETRIES,
    };
    struct rs_hello hello;
    int err = rs_stream_open(s);

    if (err)
        return err;
    rs_stream_hello(s, &hello);
    rs_hello_write(bytes, &hello);
    if (rdma_connect(s->id, &param))
        return -errno;
    s->state = RS_CONNECTING;
    return 0;
}

static int established(struct rs_stream *s, const struct news *n)
{
    int err = 0;

    if (s->state == RS_CONNECTING)
        err = n->hello_err ? n->hello_err : rs_stream_greet(s, &n->hello);
    else if (s->state != RS_ACCEPTING) /* the first message was faster */
        return 0;
    if (err) {
        rdma_disconnect(s->id);
        return err;
    }
    s->state = RS_CONNECTED;
    s->armed = false; /* completions may have come before */
    rs_stream_control(s);
    return 0;
}

/* The errno of an event whose status is a negative one, or another number. */
static int errno_of(int status, int otherwise)
{
    return status < 0 && status > -4096 && status != -ENODEV ? -status : otherwise;
}

static int resolve_failed(struct rs_stream *s, const struct news *n,
                          int (*again)(struct rs_stream *))
{
    int err = errno_of(n->status, EHOSTUNREACH);

    return err == ETIMEDOUT && s->tries < RESOLVE_TRIES ? again(s) : -err;
}

/* What came before the end is taken, and then the peer is answered. One that had finished, and has
 * all that was sent to it, has ended in order. */
static int disconnected(struct rs_stream *s)
{
    bool early = s->state < RS_CONNECTED;

    s->gone = true;
    if (s->cq)
        rs_stream_poll_cq(s);
    rdma_disconnect(s->id);
    if (s->peer_finished && (s->write_shut || s->flow.slots == s->send_slots)) {
        rs_stream_down(s, 0);
        return 0;
    }
    return early && s->state == RS_CONNECTING ? -ECONNREFUSED : -ECONNRESET;
}

/* The peer of an accepted connection had gone. */
static int not_connected(const struct rs_stream *s, int err)
{
    return s->state == RS_ACCEPTING ? -ECONNRESET : -err;
}

/* The status is the reason that the peer gave. A peer that has ended a connection before our
 * confirmation came, which was lost, rejects it in place of disconnecting. */
static int rejected(struct rs_stream *s)
{
    return s->state == RS_CONNECTED ? disconnected(s) : not_connected(s, ECONNREFUSED);
}

static int act(struct rs_stream *s, const struct news *n)
{
    switch (n->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        s->tries = 0;
        return resolve_route(s);
    case RDMA_CM_EVENT_ADDR_ERROR:
        return resolve_failed(s, n, resolve_addr);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return request_connection(s);
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return resolve_failed(s, n, resolve_route);
    case RDMA_CM_EVENT_ESTABLISHED:
        return established(s, n);
    case RDMA_CM_EVENT_UNREACHABLE:
        return not_connected(s, errno_of(n->status, ETIMEDOUT));
    case RDMA_CM_EVENT_REJECTED:
        return rejected(s);
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return not_connected(s, errno_of(n->status, ECONNABORTED));
    case RDMA_CM_EVENT_DISCONNECTED:
        return disconnected(s);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return -ENETDOWN;
    default:
        return 0;
    }
}

/* ---- listening ---- */

static void add_request(struct rs_stream *s, const struct news *n)
{
    struct rs_request *r = n->hello_err ? NULL : calloc(1, sizeof(*r));

    if (!r) {
        rdma_reject(n->id, NULL, 0);
        rdma_destroy_id(n->id);
        return;
    }
    r->id = n->id;
    r->hello = n->hello;
    s->requests_count++;
    *s->requests_end = r;
    s->requests_end = &r->next;
}

/* Its peer has given up. */
static void drop_request(struct rs_stream *s, struct rdma_cm_id *id)
{
    for (struct rs_request **p = &s->requests, *r; (r = *p); p = &r->next)
        if (r->id == id) {
            *p = r->next;
            if (s->requests_end == &r->next)
                s->requests_end = p;
            s->requests_count--;
            rdma_destroy_id(id);
            free(r);
            return;
        }
}

static void act_listening(struct rs_stream *s, const struct news *n)
{
    if (n->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        add_request(s, n);
    else if (n->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        rs_stream_down(s, ENETDOWN);
    else if (n->id != s->id && n->event != RDMA_CM_EVENT_ADDR_CHANGE)
        drop_request(s, n->id);
}

/* ---- events ---- */

static void take(struct rdma_cm_event *e, struct news *n)
{
    *n = (struct news){.event = e->event, .status = e->status, .id = e->id};
    if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST || e->event == RDMA_CM_EVENT_ESTABLISHED)
        n->hello_err =
            rs_hello_read(&n->hello, e->param.conn.private_data, e->param.conn.private_data_len);
    rdma_ack_cm_event(e);
}

void rs_stream_cm(struct rs_stream *s)
{
    struct rdma_cm_event *e;
    struct news n;
    bool any = false;
    int err;

    s->idle = 0;
    for (;;) {
        if (s->requests_count == REQUESTS_MAX)
            return; /* the rest waits in the daemon, which has a limit of its own */
        if (rdma_get_cm_event(s->channel, &e))
            break;
        any = true;
        take(e, &n);
        if (s->state == RS_LISTENING) {
            act_listening(s, &n);
            continue;
        }
        err = act(s, &n);
        if (err)
            rs_stream_down(s, -err);
    }
    err = errno;
    if (err != EAGAIN && err != EINTR) {
        rs_stream_down(s, err);
        any = true;
    }
    if (any)
        rs_wake(&s->rs);
}

/* ---- rconnect ---- */

int rs_stream_renew_id(struct rs_stream *s)
{
    struct sockaddr_storage local = {0};
    struct rdma_cm_id *id;

    if (s->bound)
        memcpy(&local, rdma_get_local_addr(s->id),
               rs_addr_size(rdma_get_local_addr(s->id)->sa_family));
    if (rdma_create_id(s->channel, &id, NULL, RDMA_PS_TCP))
        return -errno;
    rs_stream_release(s);
    rs_id_destroy(s->id);
    s->id = id;
    s->state = RS_INIT;
    rs_apply_options(&s->rs);
    return s->bound && rdma_bind_addr(id, (struct sockaddr *)&local) ? -errno : 0;
}

static bool connect_done(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return s->state == RS_CONNECTED || s->state == RS_FAILED || s->state == RS_DOWN || rs->closed;
}

/* Waits until there is a connection or none. Another call may have reported already why there is
 * none; a connection that has ended in order by now is a success. */
static int await_connection(struct rs_stream *s)
{
    struct rsocket *rs = &s->rs;
    int err = rs_wait(rs, connect_done, rs_deadline(rs->options.send_timeout_ms));

    if (err)
        return err == -EAGAIN ? -EINPROGRESS : err;
    if (rs->closed)
        return -EBADF;
    if (s->state == RS_CONNECTED)
        return 0;
    err = rs_take_error(rs);
    return !err && s->state == RS_FAILED ? -ECONNABORTED : -err;
}

/* rconnect while an attempt goes on. */
static int connect_again(struct rs_stream *s)
{
    rs_stream_process(&s->rs, true);
    return rs_nonblocking(&s->rs, 0) && !connect_done(&s->rs) ? -EALREADY : await_connection(s);
}

int rs_stream_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t length)
{
    struct rs_stream *s = rs_stream_of(rs);
    struct sockaddr_storage to;
    int err;

    if (s->state == RS_LISTENING || s->state == RS_CONNECTED || s->state == RS_DOWN)
        return -EISCONN;
    if (s->state != RS_INIT && s->state != RS_BOUND && s->state != RS_FAILED)
        return connect_again(s);
    if (s->state == RS_FAILED && rs->error) /* what the program was not told yet */
        return -rs_take_error(rs);
    err = rs_addr_of(rs, addr, length, &to);
    if (!err && s->state == RS_FAILED)
        err = rs_stream_renew_id(s);
    if (err)
        return err;
    rs->error = 0;
    s->gone = false;
    s->peer = to;
    s->tries = 0;
    err = resolve_addr(s);
    if (err) {
        s->state = RS_FAILED;
        return err;
    }
    if (!rs_nonblocking(rs, 0))
        return await_connection(s);
    rs_stream_process(rs, true); /* where address and route are known, the request goes now */
    return -EINPROGRESS;
}
