/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of descriptors to wait for (repoll_create). A set is a list of rows, and its descriptor an
 * eventfd that a change makes readable: threads that wait then take the list anew. A wait looks at
 * all rows. Edges are not told apart: EPOLLET is taken for level-triggered.
 */
#include "rs_set.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common.h"
#include "rs_socket.h"

#define NOTIFIED  (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLRDNORM | EPOLLWRNORM)
#define ROWS_STEP 32

struct row {
    int fd;
    struct epoll_event event;
    bool spent; /* EPOLLONESHOT, and it was reported */
};

struct rs_set {
    struct rs_object object;
    pthread_mutex_t lock;
    struct row *rows;
    int n, room;
    unsigned version; /* of the rows */
    unsigned waiting; /* threads; who changes the rows wakes them */
    int first;        /* row that is reported first: all have their turn */
    bool closed;
};

static void destroy(struct rs_object *object)
{
    struct rs_set *s = container_of(object, struct rs_set, object);

    close(object->fd);
    pthread_mutex_destroy(&s->lock);
    free(s->rows);
    free(s);
}

int rs_set_create(int flags)
{
    struct rs_set *s;
    int err;

    if (flags & ~EPOLL_CLOEXEC)
        return -EINVAL;
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->object.kind = RS_SET;
    s->object.destroy = destroy;
    s->object.fd = eventfd(0, EFD_NONBLOCK | (flags & EPOLL_CLOEXEC ? EFD_CLOEXEC : 0));
    if (s->object.fd < 0) {
        err = -errno;
        free(s);
        return err;
    }
    pthread_mutex_init(&s->lock, NULL);
    err = rs_table_add(&s->object);
    if (err)
        destroy(&s->object);
    return err ? err : s->object.fd;
}

static struct rs_set *get(int fd)
{
    struct rs_object *object = rs_table_get(fd, RS_SET);

    return object ? container_of(object, struct rs_set, object) : NULL;
}

/* ---- changes ---- */

static struct row *find(struct rs_set *s, int fd)
{
    for (int i = 0; i < s->n; i++)
        if (s->rows[i].fd == fd)
            return &s->rows[i];
    return NULL;
}

static int add(struct rs_set *s, int fd, const struct epoll_event *event)
{
    if (s->n == s->room) {
        struct row *rows = realloc(s->rows, (size_t)(s->room + ROWS_STEP) * sizeof(*rows));

        if (!rows)
            return -ENOMEM;
        s->rows = rows;
        s->room += ROWS_STEP;
    }
    s->rows[s->n++] = (struct row){fd, *event, false};
    return 0;
}

static int change(struct rs_set *s, int op, int fd, const struct epoll_event *event)
{
    struct row *row = find(s, fd);

    switch (op) {
    case EPOLL_CTL_ADD:
        return row ? -EEXIST : add(s, fd, event);
    case EPOLL_CTL_MOD:
        if (!row)
            return -ENOENT;
        *row = (struct row){fd, *event, false};
        return 0;
    case EPOLL_CTL_DEL:
        if (!row)
            return -ENOENT;
        *row = s->rows[--s->n];
        return 0;
    default:
        return -EINVAL;
    }
}

int rs_set_ctl(int set, int op, int fd, const struct epoll_event *event)
{
    struct rs_set *s = get(set);
    int err;

    if (!s)
        return fcntl(set, F_GETFD) < 0 ? -EBADF : -EINVAL;
    if (set == fd)
        err = -EINVAL;
    else if (fcntl(fd, F_GETFD) < 0 && op != EPOLL_CTL_DEL)
        err = -EBADF;
    else if (!event && op != EPOLL_CTL_DEL)
        err = -EFAULT;
    else
        err = 0;
    pthread_mutex_lock(&s->lock);
    if (!err)
        err = change(s, op, fd, event);
    if (!err) {
        s->version++;
        if (s->waiting)
            (void)!eventfd_write(set, 1);
    }
    pthread_mutex_unlock(&s->lock);
    rs_object_put(&s->object);
    return err;
}

bool rs_set_close(int fd)
{
    struct rs_set *s = get(fd);

    if (!s)
        return false;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    (void)!eventfd_write(fd, 1);
    pthread_mutex_unlock(&s->lock);
    if (rs_table_remove(&s->object))
        rs_object_put(&s->object);
    rs_object_put(&s->object);
    return true;
}

/* ---- waiting ---- */

/* The bits of poll(2) are those of epoll. */
static int report(struct rs_set *s, const struct pollfd *fds, int n, struct epoll_event *events,
                  int max)
{
    int count = 0, at = 0;

    for (int i = 0; i < n && count < max; i++) {
        struct row *row;

        at = (s->first + i) % n;
        row = fds[at].revents ? find(s, fds[at].fd) : NULL; /* the rows may have changed */
        if (!row || row->spent)
            continue;
        events[count++] = (struct epoll_event){(uint32_t)fds[at].revents, row->event.data};
        row->spent = row->event.events & EPOLLONESHOT;
    }
    s->first = n ? (at + 1) % n : 0;
    return count;
}

/* Waits once for the rows as they are now. With lock, which is released. */
static int wait_once(struct rs_set *s, struct epoll_event *events, int max, int timeout_ms)
{
    struct pollfd *fds = calloc((size_t)s->n + 1, sizeof(*fds));
    int n = s->n, found;

    if (!fds)
        return -ENOMEM;
    for (int i = 0; i < n; i++) {
        const struct row *row = &s->rows[i];

        fds[i].fd = row->spent ? -1 : row->fd;
        fds[i].events = (short)(row->event.events & NOTIFIED);
    }
    s->waiting++;
    pthread_mutex_unlock(&s->lock);
    found = rs_poll(fds, (nfds_t)n, timeout_ms, s->object.fd);
    pthread_mutex_lock(&s->lock);
    if (!--s->waiting && !s->closed) /* the last one has seen it */
        rs_wake_drain(s->object.fd);
    if (found > 0)
        found = report(s, fds, n, events, max);
    free(fds);
    return found;
}

int rs_set_wait(int set, struct epoll_event *events, int max, int timeout_ms)
{
    int64_t deadline = timeout_ms < 0 ? RS_FOREVER : rs_now_ns() + timeout_ms * (int64_t)NS_PER_MS;
    struct rs_set *s = get(set);
    int found, left = timeout_ms;

    if (!s)
        return fcntl(set, F_GETFD) < 0 ? -EBADF : -EINVAL;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        found = max <= 0 ? -EINVAL : wait_once(s, events, max, left);
        if (s->closed && !found)
            found = -EBADF;
        if (found || timeout_ms == 0)
            break;
        if (deadline != RS_FOREVER) {
            int64_t ns = deadline - rs_now_ns();

            if (ns <= 0)
                break;
            left = (int)((ns + (int64_t)NS_PER_MS - 1) / (int64_t)NS_PER_MS);
        }
    }
    pthread_mutex_unlock(&s->lock);
    rs_object_put(&s->object);
    return found;
}
