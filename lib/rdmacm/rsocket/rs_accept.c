/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening streams. As with the kernel's TCP, a connection is made before the program accepts it:
 * requests are answered at once, by the service thread or by a call that finds them, and their
 * streams wait in the listener's backlog. The table does not have these yet, so no other call finds
 * them. What is beyond the backlog waits as a request.
 */
#include "rs_accept.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rs_service.h"
#include "rs_stream.h"

#define STREAM_FDS    5
#define BACKLOG_SHARE 4 /* what waits has a quarter of the process's descriptors at most */

/* Requests that wait in the daemon beside the backlog: a peer whose request is dropped repeats it
 * after seconds. */
#define REQUESTS_MIN 128

/* ---- listening ---- */

/* A listener of all addresses has no device, and a request whose device cannot be opened is lost.
 * So all are opened now, while there are descriptors. */
static void open_devices(const struct rs_stream *s)
{
    struct ibv_context **list = s->id->verbs ? NULL : rdma_get_devices(NULL);

    if (list)
        rdma_free_devices(list);
}

int rs_stream_listen(struct rsocket *rs, int backlog)
{
    struct rs_stream *s = rs_stream_of(rs);
    struct sockaddr_storage any = {.ss_family = (sa_family_t)rs->family};
    unsigned most = backlog < 0 || backlog > SOMAXCONN ? SOMAXCONN
                    : backlog                          ? (unsigned)backlog
                                                       : 1;
    int err = 0;

    if (s->state == RS_LISTENING) {
        s->backlog = most;
        return 0;
    }
    if (s->state == RS_INIT)
        err = rs_stream_bind(rs, (struct sockaddr *)&any, sizeof(any));
    if (err)
        return err;
    if (s->state != RS_BOUND)
        return -EINVAL;
    if (rdma_listen(s->id, most < REQUESTS_MIN ? REQUESTS_MIN : (int)most))
        return -errno;
    s->state = RS_LISTENING;
    s->backlog = most;
    open_devices(s);
    rs_service_watch(rs);
    return 0;
}

/* ---- answering ---- */

static int answer(struct rs_stream *s)
{
    uint8_t bytes[RS_HELLO_SIZE];
    struct rdma_conn_param param = {
        .private_data = bytes,
        .private_data_len = sizeof(bytes),
        .flow_control = 1,
        .rnr_retry_count = 7,
    };
    struct rs_hello hello;

    rs_stream_hello(s, &hello);
    rs_hello_write(bytes, &hello);
    s->state = RS_ACCEPTING;
    return rdma_accept(s->id, &param) ? -errno : 0;
}

/* What may succeed later: the request stays in the queue, as with accept(2). */
static bool is_shortage(int err)
{
    return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

static int make_for(struct rsocket *listener, struct rdma_cm_id *id, struct rs_stream **made)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    int err;

    if (!channel)
        return -errno;
    err = rs_stream_make(listener->family, listener, channel, id, made);
    if (err)
        rdma_destroy_event_channel(channel);
    return err;
}

/* The stream of a request, with all that can be wanting. The request's id is still the listener's:
 * after an error it is as before. */
static int prepare(struct rsocket *listener, const struct rs_request *r, struct rs_stream **made)
{
    struct rs_stream *s;
    int err = make_for(listener, r->id, &s);

    if (err)
        return err;
    err = rs_stream_open(s);
    if (!err)
        err = rs_stream_greet(s, &r->hello);
    if (err) {
        rs_stream_release(s);
        rdma_destroy_event_channel(s->channel);
        rs_fini(&s->rs);
        free(s);
        return err;
    }
    *made = s;
    return 0;
}

/* Takes over the request's id, and the stream after an error. */
static int confirm(struct rs_stream *s)
{
    int err = rdma_migrate_id(s->id, s->channel) ? -errno : 0;

    if (err)
        rdma_reject(s->id, NULL, 0);
    else
        err = answer(s);
    if (err)
        s->rs.ops->destroy(&s->rs);
    return err;
}

static int refuse(struct rdma_cm_id *id, int err)
{
    rdma_reject(id, NULL, 0);
    rdma_destroy_id(id);
    return err;
}

static void remove_first(struct rs_stream *listener)
{
    struct rs_request *r = listener->requests;

    listener->requests = r->next;
    listener->requests_count--;
    if (!listener->requests)
        listener->requests_end = &listener->requests;
    free(r);
}

static void add_child(struct rs_stream *listener, struct rs_stream *child)
{
    *listener->children_end = child;
    listener->children_end = &child->next_child;
    listener->children_count++;
}

/* Answers the first request. After a shortage it is still there. */
static int answer_first(struct rs_stream *s)
{
    struct rs_stream *child;
    int err = prepare(&s->rs, s->requests, &child);

    if (is_shortage(err))
        return err;
    err = err ? refuse(s->requests->id, err) : confirm(child);
    remove_first(s);
    if (!err)
        add_child(s, child);
    return err;
}

/* A program that does not accept for a while can still open its files. */
static bool has_room(const struct rs_stream *s)
{
    struct rlimit limit;

    if (!s->children_count)
        return true;
    return s->children_count < s->backlog && !getrlimit(RLIMIT_NOFILE, &limit) &&
           s->children_count < limit.rlim_cur / (STREAM_FDS * BACKLOG_SHARE);
}

bool rs_stream_serve(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);
    int err;

    if (s->state != RS_LISTENING || rs->closed)
        return false;
    rs_stream_cm(s);
    if (s->state != RS_LISTENING || !s->requests || !has_room(s))
        return false;
    err = answer_first(s);
    if (is_shortage(err))
        return false;
    rs_wake(rs);
    return true;
}

/* ---- accepting ---- */

static bool accept_decided(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    return s->children || s->requests || s->state != RS_LISTENING || rs->closed;
}

/* Until there is a stream in the backlog. */
static int await_child(struct rs_stream *s, int flags)
{
    struct rsocket *rs = &s->rs;
    int64_t deadline = rs_deadline(rs->options.recv_timeout_ms);
    int err;

    while (!s->children) {
        if (s->state != RS_LISTENING || rs->closed) {
            err = rs_take_error(rs);
            return err ? -err : -EINVAL;
        }
        if (s->requests)
            err = answer_first(s);
        else
            err = rs_nonblocking(rs, flags) ? -EAGAIN : rs_wait(rs, accept_decided, deadline);
        if (err)
            return err;
    }
    return 0;
}

/* As accept(2), a descriptor that is free now: librspreload's select finds no rsocket whose
 * descriptor is older than the one that it has for it itself. */
static int renew_fd(struct rs_stream *s)
{
    int fd = fcntl(s->channel->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    close(s->channel->fd);
    s->channel->fd = s->rs.object.fd = fd;
    return 0;
}

/* Takes the oldest stream out of the backlog; it is a socket of the program's from now on. */
static int take_child(struct rs_stream *s)
{
    struct rs_stream *child = s->children;
    int err = renew_fd(child);

    if (!err)
        err = rs_table_add(&child->rs.object);
    if (err)
        return err;
    s->children = child->next_child;
    s->children_count--;
    if (!s->children)
        s->children_end = &s->children;
    return child->rs.object.fd;
}

/* The peer's address is of the new socket. */
int rs_stream_accept(struct rsocket *rs, int flags, struct sockaddr_storage *peer)
{
    struct rs_stream *s = rs_stream_of(rs);
    int err, fd;

    if (!s->backlog) /* what is pending, such as a failed connection, is told by other calls */
        return -EINVAL;
    rs_stream_process(rs, true);
    err = await_child(s, flags);
    if (err)
        return err;
    *peer = rs_addr_given(rs, rdma_get_peer_addr(s->children->id));
    fd = take_child(s);
    rs_stream_process(rs, true); /* what waited for room in the backlog */
    return fd;
}

/* ---- ending ---- */

void rs_stream_refuse_all(struct rs_stream *s)
{
    while (s->requests) {
        refuse(s->requests->id, 0);
        remove_first(s);
    }
}

int rs_stream_unlisten(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);
    int err;

    rs_stream_refuse_all(s);
    rs_stream_abandon(rs_stream_take_children(s));
    err = rs_stream_renew_id(s); /* requests that were not taken end with the id that listened */
    if (err && s->state == RS_LISTENING)
        return err;
    rs_service_unwatch(rs);
    s->backlog = 0;
    if (!err)
        s->state = RS_BOUND;
    rs_wake(rs);
    return 0;
}

struct rs_stream *rs_stream_take_children(struct rs_stream *s)
{
    struct rs_stream *children = s->children;

    s->children = NULL;
    s->children_end = &s->children;
    s->children_count = 0;
    return children;
}

void rs_stream_abandon(struct rs_stream *children)
{
    for (struct rs_stream *child = children, *next; child; child = next) {
        next = child->next_child;
        child->rs.options.linger = (struct linger){.l_onoff = 1};
        child->rs.ops->close(&child->rs);
        child->rs.ops->destroy(&child->rs);
    }
}
