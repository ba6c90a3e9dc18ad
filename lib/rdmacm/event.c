/* SPDX-License-Identifier: BSD-3-Clause */
/* Getting and acknowledging events. */
#include "cma.h"

static struct cma_id *id_of(struct cma_entry *e)
{
    return e ? (struct cma_id *)((char *)e - offsetof(struct cma_id, entry)) : NULL;
}

void event_count(struct cma_event *ev)
{
    ev->owner->reported++;
    if (ev->mcast)
        ev->mcast->reported++;
}

/* Nothing of the owner may be touched after the unlock: the program may be destroying it. */
void event_done(struct cma_event *ev)
{
    struct cma_id *id = ev->owner;

    pthread_mutex_lock(&id->lock);
    id->acked++;
    if (ev->mcast)
        ev->mcast->acked++;
    pthread_cond_broadcast(&id->acks);
    pthread_mutex_unlock(&id->lock);
    free(ev);
}

/* ---- asking the daemon ---- */

struct fetch {
    struct cma_link *link;
    struct cma_event *ev;
    struct ctl_msg m;
    bool orphan; /* a request for which there is no id */
};

static bool is_mcast(uint32_t type)
{
    return type == RDMA_CM_EVENT_MULTICAST_JOIN || type == RDMA_CM_EVENT_MULTICAST_ERROR;
}

/* A new id, of the listener's channel; its events may be the next ones that are asked for. */
static void find_listener(struct fetch *f, const struct ctl_cm_event *m)
{
    struct cma_id *listener = id_of(cma_table_of_cookie(&f->link->ids, m->cookie));
    struct cma_id *id = NULL;

    if (listener)
        id = id_alloc(f->link, to_channel(listener->base.channel), listener->base.context,
                      listener->base.ps, listener->base.qp_type);
    f->orphan = !id;
    if (!id)
        return;
    id->entry.handle = m->id;
    cma_table_add(&f->link->ids, &id->entry);
    f->ev->event.id = &id->base;
    f->ev->event.listen_id = &listener->base;
    f->ev->owner = listener;
}

/*
 * The event's id. It is looked up under the connection's lock, under which a thread that destroys
 * the id gets the reply to that: until then the id is there, and afterwards the daemon has no event
 * of it.
 */
static int find_owner(void *arg, const int *fd, unsigned fds)
{
    struct fetch *f = arg;
    const struct ctl_cm_event *m = &f->m.cm_event;
    struct cma_event *ev = f->ev;

    if (fds)
        return -EPROTO;
    pthread_mutex_lock(&f->link->lock);
    if (m->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        find_listener(f, m);
    } else {
        ev->owner = id_of(cma_table_of_handle(&f->link->ids, m->id));
        ev->event.id = ev->owner ? &ev->owner->base : NULL;
    }
    if (ev->owner) {
        pthread_mutex_lock(&ev->owner->lock);
        if (is_mcast(m->type))
            ev->mcast = mcast_find(ev->owner, m->cookie);
        event_count(ev);
        pthread_mutex_unlock(&ev->owner->lock);
    }
    pthread_mutex_unlock(&f->link->lock);
    return 0;
}

static void refuse_orphan(const struct fetch *f)
{
    struct ctl_msg m = {.cm_id = {.id = f->m.cm_event.id}};

    if (f->orphan)
        link_call(f->link, CTL_CM_DESTROY_ID, &m);
}

/* 0: *out is an event for the program; or NULL, and there may be another one. */
static int fetch(struct cma_link *link, uint32_t handle, struct cma_event **out)
{
    struct fetch f = {.link = link, .m = {.cm_event = {.channel = handle}}};
    int err;

    *out = NULL;
    f.ev = calloc(1, sizeof(*f.ev));
    if (!f.ev)
        return -ENOMEM;
    err = conn_call_then(&link->conn, CTL_CM_GET_EVENT, &f.m, find_owner, &f);
    if (err || !f.ev->owner) {
        free(f.ev);
        if (!err)
            refuse_orphan(&f);
        /* The end of the daemon shows at the channel's socket. */
        return err == -EAGAIN || (err == -EIO && conn_hung_up(&link->conn)) ? 0 : err;
    }
    if (is_mcast(f.m.cm_event.type) && !f.ev->mcast)
        event_done(f.ev); /* the program has left the group */
    else if (event_take(f.ev, &f.m.cm_told))
        *out = f.ev;
    return 0;
}

static int next_event(struct cma_channel *ch, int cancel, struct cma_event **ev)
{
    struct cma_link *link;
    uint32_t handle;
    int got, err = 0;

    *ev = NULL;
    while (!*ev && !err) {
        got = channel_wait(ch, cancel, &link, &handle);
        if (got < 0)
            return got;
        if (got) {
            err = fetch(link, handle, ev);
            link_put(link);
            if (err == -EINVAL && channel_is_closed(ch)) /* it waits on, as in channel_wait() */
                err = 0;
        } else {
            *ev = channel_pop(ch); /* NULL: another thread was faster */
        }
    }
    return err;
}

int event_get(struct cma_channel *ch, struct cma_event **ev)
{
    int cancel, err;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    err = next_event(ch, cancel, ev);
    pthread_setcancelstate(cancel, NULL);
    return err;
}

/* ---- the API ---- */

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct cma_event *ev;
    int err;

    if (!channel || !event)
        return cma_result(-EINVAL);
    err = event_get(to_channel(channel), &ev);
    if (!err)
        *event = &ev->event;
    return cma_result(err);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    if (!event)
        return cma_result(-EINVAL);
    event_done((struct cma_event *)event);
    return 0;
}

/* ---- synchronous ids ---- */

void id_drop_event(struct cma_id *id)
{
    struct rdma_cm_event *event = id->base.event;

    id->base.event = NULL;
    if (event)
        event_done((struct cma_event *)event);
}

static int error_of(const struct rdma_cm_event *event)
{
    if (!event->status)
        return event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? -ENODEV : 0;
    if (event->event == RDMA_CM_EVENT_REJECTED)
        return -ECONNREFUSED;
    return event->status < 0 ? event->status : -event->status;
}

int id_complete(struct cma_id *id)
{
    struct cma_event *ev;
    int err;

    if (!id->sync)
        return 0;
    id_drop_event(id);
    err = event_get(to_channel(id->base.channel), &ev);
    if (err)
        return err;
    id->base.event = &ev->event;
    return error_of(&ev->event);
}
