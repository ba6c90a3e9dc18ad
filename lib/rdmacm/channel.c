/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels: the descriptor that programs poll, local events, the end of the daemon. */
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"

/* ---- the set ---- */

/*
 * By system calls: libraries that replace a program's sockets, as libvma does, have epoll calls of
 * their own, which know no set that was made while they begin.
 */
static int set_create(void)
{
    return (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
}

static int set_control(const struct cma_channel *ch, int op, int fd)
{
    struct epoll_event e = {.events = EPOLLIN};

    return syscall(SYS_epoll_ctl, ch->base.fd, op, fd, &e) ? -errno : 0;
}

/* ---- the daemon's side ---- */

/* Makes the daemon's channel. */
static int attach(struct cma_channel *ch, struct cma_link *link)
{
    struct ctl_msg m = {0};
    int err, sock;

    err = conn_call(&link->conn, CTL_CM_CREATE_CHANNEL, &m, NULL, 0, &sock, 1);
    if (err)
        return err;
    err = set_control(ch, EPOLL_CTL_ADD, sock);
    if (err) {
        close(sock);
        conn_call_handle(&link->conn, CTL_CM_DESTROY_CHANNEL, m.handle);
        return err;
    }
    ch->sock = sock;
    ch->handle = m.handle;
    ch->link = link;
    return 0;
}

/* A forked child has the parent's epoll set, whose descriptors stay there. */
static void unwatch(const struct cma_channel *ch, int fd)
{
    if (link_is_ours(ch->link))
        set_control(ch, EPOLL_CTL_DEL, fd);
}

/* Without cancellation: close() is a cancellation point, and the channel's lock is held. */
static void close_sock(struct cma_channel *ch)
{
    int cancel;

    if (ch->sock < 0)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    unwatch(ch, ch->sock);
    close(ch->sock);
    ch->sock = -1;
    pthread_setcancelstate(cancel, NULL);
}

/* ---- events that wait ---- */

/* Of a request the listener owns what is known: its cookie. */
static uint64_t owner_of(const struct ctl_cm_told *told)
{
    return told->event.type == RDMA_CM_EVENT_CONNECT_REQUEST ? told->event.cookie : told->serial;
}

void channel_add_arrival(struct cma_channel *ch, struct cma_arrival *a)
{
    TAILQ_INSERT_TAIL(&ch->arrived, a, next);
    LIST_INSERT_HEAD(&ch->arrived_of[owner_of(&a->told) % CHANNEL_OWNERS], a, of_owner);
}

void channel_remove_arrival(struct cma_channel *ch, struct cma_arrival *a)
{
    TAILQ_REMOVE(&ch->arrived, a, next);
    LIST_REMOVE(a, of_owner);
}

static void list(struct cma_channel *ch, struct cma_event *ev)
{
    TAILQ_INSERT_TAIL(&ch->local, ev, next);
    LIST_INSERT_HEAD(&ch->local_of[ev->owner->entry.serial % CHANNEL_OWNERS], ev, of_owner);
}

static void unlist(struct cma_channel *ch, struct cma_event *ev)
{
    TAILQ_REMOVE(&ch->local, ev, next);
    LIST_REMOVE(ev, of_owner);
}

/* ---- making and ending ---- */

void channel_free(struct cma_channel *ch)
{
    pthread_mutex_destroy(&ch->lock);
    free(ch);
}

void channel_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void free_arrivals(struct cma_channel *ch)
{
    struct cma_arrival *a;

    while ((a = TAILQ_FIRST(&ch->arrived))) {
        channel_remove_arrival(ch, a);
        free(a);
    }
}

static void free_local(struct cma_channel *ch)
{
    struct cma_event *ev;

    while ((ev = TAILQ_FIRST(&ch->local))) {
        unlist(ch, ev);
        free(ev);
    }
}

static void close_fds(struct cma_channel *ch)
{
    close_sock(ch);
    channel_close_fd(&ch->local_fd);
    channel_close_fd(&ch->base.fd);
}

static int open_fds(struct cma_channel *ch)
{
    ch->base.fd = set_create();
    ch->local_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ch->base.fd < 0 || ch->local_fd < 0)
        return -errno;
    return set_control(ch, EPOLL_CTL_ADD, ch->local_fd);
}

struct cma_channel *channel_create(int *err)
{
    struct cma_channel *ch = calloc(1, sizeof(*ch));
    struct cma_link *link;

    *err = -ENOMEM;
    if (!ch)
        return NULL;
    ch->base.fd = ch->sock = ch->local_fd = -1;
    TAILQ_INIT(&ch->local);
    TAILQ_INIT(&ch->arrived);
    pthread_mutex_init(&ch->lock, NULL);
    link = link_get(err);
    if (link) {
        *err = open_fds(ch);
        if (!*err)
            *err = attach(ch, link);
        if (*err)
            link_put(link);
    }
    if (!*err)
        return ch;
    close_fds(ch);
    if (ch->link)
        link_put(ch->link);
    channel_free(ch);
    return NULL;
}

/*
 * Programs destroy a channel while another thread still gets its events, and exit. That thread must
 * not come back: it sleeps until the process ends, and its error would be the program's. It may be
 * in the wait, or on its way there. So the structures of the last KEPT channels stay, and one with
 * threads in the wait stays until they were cancelled.
 */
#define KEPT 16

static void keep(struct cma_channel *ch)
{
    static _Atomic(struct cma_channel *) kept[KEPT];
    static _Atomic unsigned next;
    struct cma_channel *old = atomic_exchange(&kept[atomic_fetch_add(&next, 1) % KEPT], ch);
    bool waits;

    if (!old)
        return;
    pthread_mutex_lock(&old->lock);
    old->kept = false;
    waits = old->waiting;
    pthread_mutex_unlock(&old->lock);
    if (!waits)
        channel_free(old);
}

void channel_destroy(struct cma_channel *ch)
{
    struct cma_link *link = ch->link;
    uint32_t handle = ch->handle;
    bool attached;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&ch->lock);
    attached = ch->sock >= 0;
    unwatch(ch, ch->local_fd);
    close_sock(ch);
    channel_close_fd(&ch->local_fd);
    if (!ch->waiting)
        channel_close_fd(&ch->base.fd);
    free_local(ch);
    free_arrivals(ch);
    ch->link = NULL;
    ch->closed = ch->kept = true;
    pthread_mutex_unlock(&ch->lock);
    keep(ch);
    if (attached)
        conn_call_handle(&link->conn, CTL_CM_DESTROY_CHANNEL, handle);
    link_put(link);
    pthread_setcancelstate(cancel, NULL);
}

/* ---- local events ---- */

bool channel_is_read(const struct cma_channel *ch)
{
    return ch->have - ch->taken >= sizeof(struct ctl_cm_told);
}

/* Threads that wait when the daemon goes are to find out: the first one that does closes the
 * socket, and poll() of the others, though woken, sees nothing any more. */
static bool has_forsaken(const struct cma_channel *ch)
{
    return ch->sock < 0 && ch->waiting;
}

bool channel_has_local(const struct cma_channel *ch)
{
    return !TAILQ_EMPTY(&ch->local) || !TAILQ_EMPTY(&ch->arrived) || channel_is_read(ch) ||
           has_forsaken(ch);
}

/* Without cancellation: read() and write() are cancellation points. */
void channel_show_local(struct cma_channel *ch, bool had)
{
    eventfd_t n;
    int cancel;

    if (had == channel_has_local(ch))
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (had)
        eventfd_read(ch->local_fd, &n);
    else
        eventfd_write(ch->local_fd, 1);
    pthread_setcancelstate(cancel, NULL);
}

static void post_locked(struct cma_channel *ch, struct cma_event *ev)
{
    bool had = channel_has_local(ch);

    list(ch, ev);
    channel_show_local(ch, had);
}

static void remove_locked(struct cma_channel *ch, struct cma_event *ev)
{
    unlist(ch, ev);
    channel_show_local(ch, true);
}

void channel_post(struct cma_channel *ch, struct cma_event *ev)
{
    pthread_mutex_lock(&ch->lock);
    post_locked(ch, ev);
    pthread_mutex_unlock(&ch->lock);
}

struct cma_event *channel_pop(struct cma_channel *ch)
{
    struct cma_event *ev;

    pthread_mutex_lock(&ch->lock);
    ev = TAILQ_FIRST(&ch->local);
    if (ev) {
        remove_locked(ch, ev);
        pthread_mutex_lock(&ev->owner->lock);
        event_count(ev);
        pthread_mutex_unlock(&ev->owner->lock);
    }
    pthread_mutex_unlock(&ch->lock);
    return ev;
}

void channel_move(struct cma_channel *from, struct cma_id *id, struct cma_channel *to)
{
    struct cma_events moved = TAILQ_HEAD_INITIALIZER(moved);
    struct cma_event *ev, *next;

    pthread_mutex_lock(&from->lock);
    for (ev = LIST_FIRST(&from->local_of[id->entry.serial % CHANNEL_OWNERS]); ev; ev = next) {
        next = LIST_NEXT(ev, of_owner);
        if (ev->owner != id)
            continue;
        remove_locked(from, ev);
        TAILQ_INSERT_HEAD(&moved, ev, next); /* the newest is the first in its list */
    }
    pthread_mutex_unlock(&from->lock);
    while ((ev = TAILQ_FIRST(&moved))) {
        TAILQ_REMOVE(&moved, ev, next);
        if (to)
            channel_post(to, ev);
        else
            free(ev);
    }
}

/* ---- the end of the daemon ---- */

static void post_removal(void *arg, struct cma_entry *e)
{
    struct cma_channel *ch = arg;
    struct cma_id *id = (struct cma_id *)((char *)e - offsetof(struct cma_id, entry));
    struct cma_event *ev;

    if (id->base.channel != &ch->base)
        return;
    ev = calloc(1, sizeof(*ev));
    if (!ev)
        return;
    ev->event = (struct rdma_cm_event){.id = &id->base, .event = RDMA_CM_EVENT_DEVICE_REMOVAL};
    ev->owner = id;
    post_locked(ch, ev);
}

void channel_lose(struct cma_channel *ch)
{
    bool had = channel_has_local(ch);

    if (ch->sock < 0)
        return;
    close_sock(ch);
    ch->have = ch->taken = 0; /* what it has said is not for the next daemon */
    free_arrivals(ch);
    channel_show_local(ch, had);
    pthread_mutex_lock(&ch->link->lock);
    cma_table_each(&ch->link->ids, post_removal, ch);
    pthread_mutex_unlock(&ch->link->lock);
}

static int revive_locked(struct cma_channel *ch)
{
    struct cma_link *link, *old = ch->link;
    bool had;
    int err;

    if (ch->sock >= 0 && !conn_hung_up(&old->conn))
        return 0;
    channel_lose(ch);
    link = link_get(&err);
    if (!link)
        return err;
    had = channel_has_local(ch);
    err = attach(ch, link);
    channel_show_local(ch, had);
    link_put(err ? link : old);
    return err;
}

int channel_revive(struct cma_channel *ch, struct cma_link **link)
{
    int err;

    if (!link_is_ours(ch->link))
        return -EIO;
    pthread_mutex_lock(&ch->lock);
    err = revive_locked(ch);
    if (!err) {
        *link = ch->link;
        link_ref(*link);
    }
    pthread_mutex_unlock(&ch->lock);
    return err;
}

/* ---- the API ---- */

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct cma_channel *ch;
    int err;

    ch = channel_create(&err);
    if (ch)
        return &ch->base;
    /* No daemon is as no device. */
    errno = err == -ENOENT || err == -ECONNREFUSED ? ENODEV : -err;
    return NULL;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    if (channel)
        channel_destroy(to_channel(channel));
}
