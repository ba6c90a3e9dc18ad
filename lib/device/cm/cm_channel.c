/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels, and the events that wait there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/cm_object.h"

/* Events that are sent in a system call. */
#define BATCH 8

struct cm_channel *cm_channel_get(struct session *sn, uint32_t handle)
{
    struct object *o = object_get(sn, OBJ_CM_CHANNEL, handle);

    return o ? container_of(o, struct cm_channel, o) : NULL;
}

static void on_room(struct event_source *source, uint32_t events);

/* The kernel takes all of what half of the buffer has room for, or nothing. So no event is sent in
 * part, and then moved to another channel. */
static unsigned batch_of(int fd)
{
    int bytes = 0;
    socklen_t len = sizeof(bytes);

    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len);
    return max_of(
        min_of((unsigned)bytes / 4 / (unsigned)sizeof(struct ctl_cm_told), (unsigned)BATCH), 1u);
}

int cm_create_channel(struct session *sn, struct ctl_call *call)
{
    struct cm_channel *ch;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return -errno;
    ch = object_create(sn, OBJ_CM_CHANNEL, sizeof(*ch));
    if (!ch) {
        close(pair[0]);
        close(pair[1]);
        return -ENOMEM;
    }
    shutdown(pair[0], SHUT_RD); /* as the socket for asynchronous events: ctx.c */
    TAILQ_INIT(&ch->events);
    ch->fd = pair[0];
    ch->batch = batch_of(pair[0]);
    ch->room = (struct event_source){.fd = pair[0], .ready = on_room};
    call->out_fd[call->out_fds++] = pair[1];
    call->reply.handle = ch->o.handle;
    return 0;
}

/* Whether the loop says when there is room. */
static void watch_room(struct cm_channel *ch, bool watch)
{
    struct event_loop *loop = ch->o.session->rnic->config.loop;

    if (!loop || watch == ch->room.added)
        return;
    if (watch)
        event_loop_add(loop, &ch->room, EPOLLOUT); /* if that fails, the next event tries again */
    else
        event_loop_remove(loop, &ch->room);
}

static void set_due(struct cm_channel *ch, bool due)
{
    struct cm_host *h = &ch->o.session->rnic->cm;

    if (due && !ch->is_due)
        TAILQ_INSERT_TAIL(&h->due, ch, due);
    else if (!due && ch->is_due)
        TAILQ_REMOVE(&h->due, ch, due);
    ch->is_due = due;
}

static void channel_free(struct object *o)
{
    struct cm_channel *ch = container_of(o, struct cm_channel, o);

    watch_room(ch, false);
    set_due(ch, false);
    close(ch->fd);
    object_destroy(o);
}

int cm_destroy_channel(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    int err = object_get_unused(sn, OBJ_CM_CHANNEL, call->request->handle, &o);

    if (!err)
        channel_free(o);
    return err;
}

bool cm_channels_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_CM_CHANNEL, s, channel_free);
}

/* ---- events ---- */

static void record_free(struct cm_record *r)
{
    TAILQ_REMOVE(&r->of->channel->events, r, link);
    TAILQ_REMOVE(&r->of->records, r, own);
    r->of->events--;
    r->of->join_events -= r->join != 0;
    if (r->fresh) {
        r->fresh->told_by = NULL;
        r->of->requests--;
    }
    free(r);
}

/* How many bytes the socket has taken, or a negative errno. */
static int send_bytes(const struct cm_channel *ch, const void *bytes, size_t len)
{
    ssize_t n;

    do {
        n = send(ch->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : (int)n;
}

/* 0; or the error with which the socket takes no more. */
static int send_rest(struct cm_channel *ch)
{
    int n;

    if (!ch->rest)
        return 0;
    n = send_bytes(ch, ch->bytes + sizeof(ch->bytes) - ch->rest, ch->rest);
    if (n < 0)
        return n;
    ch->rest -= (unsigned)n;
    return ch->rest ? -EAGAIN : 0;
}

/* The first events that wait. */
static unsigned tell_batch(const struct cm_channel *ch, struct ctl_cm_told told[BATCH])
{
    struct cm_record *r;
    unsigned n = 0;

    TAILQ_FOREACH (r, &ch->events, link) {
        if (n == ch->batch)
            break;
        memset(&told[n], 0, sizeof(told[n])); /* also what lies between its members */
        ch->o.session->rnic->cm.tell(r, &told[n++]);
    }
    return n;
}

/* The socket has these bytes of the first events. What is left of one is no record's any more. */
static void were_sent(struct cm_channel *ch, const struct ctl_cm_told *told, unsigned bytes)
{
    for (; bytes; bytes -= min_of(bytes, (unsigned)sizeof(*told)), told++) {
        struct cm_record *r = TAILQ_FIRST(&ch->events);

        r->of->sent++;
        record_free(r);
        if (bytes >= sizeof(*told))
            continue;
        ch->rest = (unsigned)sizeof(*told) - bytes;
        memcpy(ch->bytes, told, sizeof(*told));
    }
}

/* 0; or the error with which the socket takes no more. */
static int send_batch(struct cm_channel *ch)
{
    struct ctl_cm_told told[BATCH];
    unsigned len = tell_batch(ch, told) * (unsigned)sizeof(told[0]);
    int n = send_bytes(ch, told, len);

    if (n < 0)
        return n;
    were_sent(ch, told, (unsigned)n);
    return (unsigned)n < len ? -EAGAIN : 0;
}

/* Sends the events that wait, as far as the socket takes them. */
static void send_events(struct cm_channel *ch)
{
    int err = 0;

    set_due(ch, false);
    if (!ch->closed)
        err = send_rest(ch);
    while (!err && !ch->closed && !TAILQ_EMPTY(&ch->events))
        err = send_batch(ch);
    ch->closed |= err == -EPIPE || err == -ECONNRESET;
    watch_room(ch, err && !ch->closed);
}

static bool send_due(struct event_job *j)
{
    struct cm_host *h = container_of(j, struct cm_host, send);
    struct cm_channel *ch;

    while ((ch = TAILQ_FIRST(&h->due)))
        send_events(ch);
    h->sends_later = false;
    return false;
}

/* When the loop has nothing else to do, with those of the turns until then; at once without a loop,
 * or if it is the id's second one, since a program begins nothing with an id that has many. */
static void send_soon(struct cm_channel *ch, const struct cm_object *o)
{
    struct rnic *r = ch->o.session->rnic;

    if (!r->config.loop || o->events > 1) {
        send_events(ch);
        return;
    }
    set_due(ch, true);
    if (r->cm.sends_later)
        return;
    r->cm.sends_later = true;
    event_loop_when_idle(r->config.loop, &r->cm.send);
}

void cm_channels_init(struct cm_host *h)
{
    TAILQ_INIT(&h->due);
    h->send.run = send_due;
}

void cm_channels_stop(struct rnic *r)
{
    if (r->cm.sends_later)
        event_loop_not_when_idle(r->config.loop, &r->cm.send);
    r->cm.sends_later = false;
}

static void on_room(struct event_source *source, uint32_t events)
{
    send_events(container_of(source, struct cm_channel, room));
}

struct cm_record *cm_record_new(struct cm_object *o, uint32_t type, int status)
{
    struct cm_record *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->of = o;
    r->e = (struct ctl_cm_event){
        .type = (uint16_t)type, .status = status, .id = o->o.handle, .cookie = o->cookie};
    return r;
}

void cm_record_queue(struct cm_record *r)
{
    struct cm_channel *ch = r->of->channel;

    r->of->events++;
    r->of->join_events += r->join != 0;
    TAILQ_INSERT_TAIL(&r->of->records, r, own);
    TAILQ_INSERT_TAIL(&ch->events, r, link);
    send_soon(ch, r->of);
}

void cm_record_queue_request(struct cm_record *r, struct cm_object *fresh)
{
    r->fresh = fresh;
    r->e.id = fresh->o.handle;
    fresh->told_by = r;
    r->of->requests++;
    cm_record_queue(r);
}

void cm_object_report(struct cm_object *o, uint32_t type, int status)
{
    struct cm_record *r = cm_object_is_heard(o) ? cm_record_new(o, type, status) : NULL;

    if (r)
        cm_record_queue(r);
}

void cm_records_drop(struct cm_object *o, uint32_t join)
{
    struct cm_record *r, *next;

    for (r = TAILQ_FIRST(&o->records); r; r = next) {
        next = TAILQ_NEXT(r, own);
        if (!join || r->join == join)
            record_free(r);
    }
}

struct cm_object *cm_record_drop_request(struct cm_object *listener)
{
    struct cm_object *fresh;
    struct cm_record *r;

    TAILQ_FOREACH (r, &listener->records, own) {
        if (!r->fresh)
            continue;
        fresh = r->fresh;
        record_free(r);
        return fresh;
    }
    return NULL;
}

/* ---- another channel ---- */

static void move_records(struct cm_object *o, struct cm_channel *to)
{
    struct cm_record *r;

    TAILQ_FOREACH (r, &o->records, own) {
        TAILQ_REMOVE(&o->channel->events, r, link);
        TAILQ_INSERT_TAIL(&to->events, r, link);
        if (r->fresh) {
            r->fresh->channel->o.refs--;
            r->fresh->channel = to;
            to->o.refs++;
        }
    }
}

int cm_migrate_id(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_id *rq = &call->request->cm_id;
    struct cm_channel *to = cm_channel_get(sn, rq->channel), *from;
    struct cm_object *o = cm_object_get(sn, rq->id);

    if (!o || !to)
        return -EINVAL;
    from = o->channel;
    call->reply.cm_id.sent = from == to ? 0 : o->sent;
    if (from == to)
        return 0;
    move_records(o, to);
    from->o.refs--;
    to->o.refs++;
    o->channel = to;
    send_events(to);
    return 0;
}
