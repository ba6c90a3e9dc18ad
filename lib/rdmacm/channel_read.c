/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that a channel's socket brings: reading them, waiting for one, taking some out of turn. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "channel.h"
#include "restart.h"

/* ---- reading ---- */

/* What the socket has. -EAGAIN: nothing; -EIO: the end. */
static int read_sock(struct cma_channel *ch)
{
    ssize_t n;

    if (ch->sock < 0)
        return -EIO;
    ch->have -= ch->taken; /* less than an event */
    memmove(ch->bytes, ch->bytes + ch->taken, ch->have);
    ch->taken = 0;
    do {
        n = recv(ch->sock, ch->bytes + ch->have, sizeof(ch->bytes) - ch->have, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        ch->have += (unsigned)n;
        return 0;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return -EAGAIN;
    channel_lose(ch);
    return -EIO;
}

/* An event of the socket, without waiting. 1: there was one. 0: none. -EIO: the end. The caller
 * shows what is local. */
static int read_told(struct cma_channel *ch, struct ctl_cm_told *told)
{
    int err = 0;

    while (!err && !channel_is_read(ch))
        err = read_sock(ch);
    if (err)
        return err == -EAGAIN ? 0 : err;
    memcpy(told, ch->bytes + ch->taken, sizeof(*told));
    ch->taken += (unsigned)sizeof(*told);
    return 1;
}

static int take_told(struct cma_channel *ch, struct ctl_cm_told *told)
{
    struct cma_arrival *a = TAILQ_FIRST(&ch->arrived);

    if (!a)
        return read_told(ch, told);
    *told = a->told;
    channel_remove_arrival(ch, a);
    free(a);
    return 1;
}

static int next_told(struct cma_channel *ch, struct ctl_cm_told *told)
{
    bool had = channel_has_local(ch);
    int got = take_told(ch, told);

    if (got >= 0) /* otherwise the loss of the daemon has shown it */
        channel_show_local(ch, had);
    return got;
}

static int look_locked(struct cma_channel *ch, struct ctl_cm_told *told)
{
    int got;

    if (ch->closed)
        return -EAGAIN;
    if (!link_is_ours(ch->link))
        return -EIO;
    got = TAILQ_EMPTY(&ch->local) ? next_told(ch, told) : 0;
    if (!TAILQ_EMPTY(&ch->local)) /* the end of the daemon may have added some */
        return 0;
    return got ? got : -EAGAIN;
}

/* ---- waiting ---- */

/* 0: local; 1: one of the daemon; -EAGAIN: neither, and the thread waits; -EIO. */
static int look(struct cma_channel *ch, struct cma_link **link, struct ctl_cm_told *told)
{
    int got;

    pthread_mutex_lock(&ch->lock);
    got = look_locked(ch, told);
    if (got == 1) {
        *link = ch->link;
        link_ref(*link);
    } else if (got == -EAGAIN) {
        ch->waiting++;
    }
    pthread_mutex_unlock(&ch->lock);
    return got;
}

static void end_wait(struct cma_channel *ch)
{
    bool had, last, kept;

    pthread_mutex_lock(&ch->lock);
    had = channel_has_local(ch);
    last = !--ch->waiting && ch->closed;
    if (!ch->closed)
        channel_show_local(ch, had);
    kept = ch->kept;
    if (last)
        channel_close_fd(&ch->base.fd);
    pthread_mutex_unlock(&ch->lock);
    if (last && !kept)
        channel_free(ch);
}

static void cancel_wait(void *ch)
{
    end_wait(ch);
}

/* A cancellation point if `cancel` says so. The descriptor of a channel that was destroyed is never
 * readable, or is -1, which poll() passes over. */
static int wait_readable(struct cma_channel *ch, int cancel)
{
    struct pollfd p = {.fd = ch->base.fd, .events = POLLIN};
    int flags = fcntl(p.fd, F_GETFL), err;

    if (flags >= 0 && flags & O_NONBLOCK)
        return -EAGAIN;
    do {
        pthread_cleanup_push(cancel_wait, ch);
        pthread_setcancelstate(cancel, NULL);
        err = poll(&p, 1, -1) < 0 ? -errno : 0;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        pthread_cleanup_pop(0);
    } while (err == -EINTR && !wants_eintr());
    return err;
}

int channel_wait(struct cma_channel *ch, int cancel, struct cma_link **link,
                 struct ctl_cm_told *told)
{
    int err;

    while ((err = look(ch, link, told)) == -EAGAIN) {
        err = wait_readable(ch, cancel);
        end_wait(ch);
        if (err)
            return err;
    }
    return err;
}

/* ---- events that are not to be read here ---- */

/* All that is in the socket. Without memory for it the rest stays there: it belongs to no id, or to
 * one that is here, and is found out when it is read. */
static void read_all(struct cma_channel *ch)
{
    struct cma_arrival *a;

    while ((a = malloc(sizeof(*a))) && read_told(ch, &a->told) == 1)
        channel_add_arrival(ch, a);
    free(a);
}

/* Those of one list, whose newest is the first. */
static void extract_of(struct cma_channel *ch, uint64_t owner,
                       bool (*match)(const void *arg, const struct ctl_cm_told *told),
                       const void *arg, struct cma_arrivals *out)
{
    struct cma_arrival *a, *next;

    for (a = LIST_FIRST(&ch->arrived_of[owner % CHANNEL_OWNERS]); a; a = next) {
        next = LIST_NEXT(a, of_owner);
        if (!match(arg, &a->told))
            continue;
        channel_remove_arrival(ch, a);
        TAILQ_INSERT_HEAD(out, a, next);
    }
}

static void extract_locked(struct cma_channel *ch, const struct cma_entry *owner,
                           bool (*match)(const void *arg, const struct ctl_cm_told *told),
                           const void *arg, struct cma_arrivals *out)
{
    bool had = channel_has_local(ch);

    read_all(ch);
    extract_of(ch, owner->serial, match, arg, out);
    if (owner->cookie)
        extract_of(ch, owner->cookie, match, arg, out); /* requests */
    channel_show_local(ch, had);
}

void channel_extract(struct cma_channel *ch, const struct cma_link *link,
                     const struct cma_entry *owner,
                     bool (*match)(const void *arg, const struct ctl_cm_told *told),
                     const void *arg, struct cma_arrivals *out)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&ch->lock);
    if (ch->link == link && !ch->closed)
        extract_locked(ch, owner, match, arg, out);
    pthread_mutex_unlock(&ch->lock);
    pthread_setcancelstate(cancel, NULL);
}

void channel_give(struct cma_channel *ch, struct cma_arrivals *from)
{
    struct cma_arrival *a;
    bool had;

    pthread_mutex_lock(&ch->lock);
    had = channel_has_local(ch);
    while ((a = TAILQ_FIRST(from))) {
        TAILQ_REMOVE(from, a, next);
        channel_add_arrival(ch, a);
    }
    channel_show_local(ch, had);
    pthread_mutex_unlock(&ch->lock);
}
