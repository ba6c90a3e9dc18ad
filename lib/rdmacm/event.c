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

/* ---- events of the daemon ---- */

struct fetch {
    struct cma_link *link;
    struct cma_event *ev;
    struct ctl_cm_told told;
    bool orphan;    /* a request for which there is no id */
    bool misplaced; /* a request whose listener has another channel by now */
};

static bool is_mcast(uint32_t type)
{
    return type == RDMA_CM_EVENT_MULTICAST_JOIN || type == RDMA_CM_EVENT_MULTICAST_ERROR;
}

/* A new id, of the listener's channel. */
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
    f->misplaced = to_channel(listener->base.channel)->handle != m->channel;
    id->entry.handle = m->id;
    id->entry.serial = f->told.serial;
    cma_table_add(&f->link->ids, &id->entry);
    f->ev->event.id = &id->base;
    f->ev->event.listen_id = &listener->base;
    f->ev->owner = listener;
}

static void find_id(struct fetch *f, const struct ctl_cm_event *m)
{
    struct cma_id *id = id_of(cma_table_of_handle(&f->link->ids, m->id));

    if (!id ||
        id->entry.serial != f->told.serial) /* it is destroyed, and its handle may be another's */
        return;
    f->ev->owner = id;
    f->ev->event.id = &id->base;
}

/* The event's id. Under the link's lock it is there, and then waits for the acknowledgment of what
 * is counted here, or is destroyed. */
static void find_owner(struct fetch *f)
{
    const struct ctl_cm_event *m = &f->told.event;
    struct cma_event *ev = f->ev;

    pthread_mutex_lock(&f->link->lock);
    if (m->type == RDMA_CM_EVENT_CONNECT_REQUEST)
        find_listener(f, m);
    else
        find_id(f, m);
    if (ev->owner) {
        pthread_mutex_lock(&ev->owner->lock);
        if (is_mcast(m->type))
            ev->mcast = mcast_find(ev->owner, m->cookie);
        ev->owner->got++;
        event_count(ev);
        pthread_mutex_unlock(&ev->owner->lock);
    }
    pthread_mutex_unlock(&f->link->lock);
}

static void refuse(struct cma_link *link, const struct ctl_cm_told *told)
{
    struct ctl_msg m = {.cm_id = {.id = told->event.id}};

    link_call(link, CTL_CM_DESTROY_ID, &m);
}

static void follow_listener(const struct fetch *f)
{
    struct cma_id *id = to_id(f->ev->event.id);
    struct ctl_msg m = {
        .cm_id = {.id = id->entry.handle, .channel = to_channel(id->base.channel)->handle}};

    link_call(f->link, CTL_CM_MIGRATE, &m);
}

/* *out: an event for the program; or NULL, and there may be another one. */
static void fetch(struct fetch *f, struct cma_event **out)
{
    find_owner(f);
    if (f->orphan)
        refuse(f->link, &f->told);
    if (f->misplaced)
        follow_listener(f);
    if (!f->ev->owner)
        free(f->ev);
    else if (is_mcast(f->told.event.type) && !f->ev->mcast)
        event_done(f->ev); /* the program has left the group */
    else if (event_take(f->ev, &f->told))
        *out = f->ev;
}

static int next_event(struct cma_channel *ch, int cancel, struct cma_event **ev)
{
    struct fetch f;
    int got;

    *ev = NULL;
    while (!*ev) {
        f = (struct fetch){0};
        got = channel_wait(ch, cancel, &f.link, &f.told);
        if (got < 0)
            return got;
        if (!got) {
            *ev = channel_pop(ch); /* NULL: another thread was faster */
            continue;
        }
        f.ev = calloc(1, sizeof(*f.ev));
        if (f.ev)
            fetch(&f, ev);
        link_put(f.link);
        if (!f.ev)
            return -ENOMEM;
    }
    return 0;
}

int event_get(struct cma_channel *ch, struct cma_event **ev)
{
    int cancel, err;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    err = next_event(ch, cancel, ev);
    pthread_setcancelstate(cancel, NULL);
    return err;
}

/* ---- events of an id that are not to be read where they are ---- */

uint32_t event_got(struct cma_id *id)
{
    uint32_t got;

    pthread_mutex_lock(&id->lock);
    got = id->got;
    pthread_mutex_unlock(&id->lock);
    return got;
}

static bool is_owned(const void *arg, const struct ctl_cm_told *told)
{
    const struct cma_id *id = arg;

    if (told->event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
        return told->event.cookie == id->entry.cookie;
    return told->serial == id->entry.serial;
}

static bool is_of_join(const void *arg, const struct ctl_cm_told *told)
{
    const uint64_t *cookie = arg;

    return is_mcast(told->event.type) && told->event.cookie == *cookie;
}

/* Another thread may have read the last of them, and not found its id yet: it will not be there. */
void event_drop_all(struct cma_id *id)
{
    struct cma_arrivals out = TAILQ_HEAD_INITIALIZER(out);
    struct cma_arrival *a;

    channel_extract(to_channel(id->base.channel), id->link, &id->entry, is_owned, id, &out);
    while ((a = TAILQ_FIRST(&out))) {
        TAILQ_REMOVE(&out, a, next);
        if (a->told.event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
            refuse(id->link, &a->told);
        free(a);
    }
}

void event_drop(struct cma_id *id, uint32_t sent)
{
    if (sent != event_got(id))
        event_drop_all(id);
}

void event_drop_join(struct cma_id *id, uint64_t cookie, uint32_t sent)
{
    struct cma_arrivals out = TAILQ_HEAD_INITIALIZER(out);
    struct cma_arrival *a;

    if (sent == event_got(id))
        return;
    channel_extract(to_channel(id->base.channel), id->link, &id->entry, is_of_join, &cookie, &out);
    while ((a = TAILQ_FIRST(&out))) {
        TAILQ_REMOVE(&out, a, next);
        free(a);
    }
}

/* A request among them follows when it is read: see `misplaced`. */
void event_move(struct cma_id *id, struct cma_channel *from, struct cma_channel *to, uint32_t sent)
{
    struct cma_arrivals out = TAILQ_HEAD_INITIALIZER(out);

    if (sent == event_got(id))
        return;
    channel_extract(from, id->link, &id->entry, is_owned, id, &out);
    channel_give(to, &out);
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

/* The status of a rejection is the peer's, which may say 0. */
static int error_of(const struct rdma_cm_event *event)
{
    if (event->event == RDMA_CM_EVENT_REJECTED)
        return -ECONNREFUSED;
    if (!event->status)
        return event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? -ENODEV : 0;
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
