/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of descriptors to wait for (repoll_create). A set is a list of rows, and its descriptor an
 * eventfd that a change makes readable: threads that wait then take the list anew. A wait looks at
 * all rows. Edges are not told apart: EPOLLET is taken for level-triggered.
 *
 * A closed descriptor leaves a set, as with epoll: a row is compared with what its descriptor is,
 * when the row has events and when the program changes it. Rows without events cost nothing.
 */
#include "rs_set.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "rs_socket.h"

#define NOTIFIED  (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLRDNORM | EPOLLWRNORM)
#define ROWS_STEP 32

/* What a descriptor is: an rsocket or a set, or else a file of the kernel. */
struct identity {
    uint64_t serial; /* 0: a file */
    dev_t device;
    ino_t inode;
};

struct row {
    int fd;
    struct identity is;
    unsigned added; /* the version of the rows that it came with */
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

/* ---- rows ---- */

/* Eventfds and the like share an inode: such a row stays when the number is used again for one. */
static struct identity identify(int fd)
{
    struct identity is = {.serial = rs_table_serial(fd)};
    struct stat st;

    if (!is.serial && !fstat(fd, &st)) {
        is.device = st.st_dev;
        is.inode = st.st_ino;
    }
    return is;
}

static bool is_stale(const struct row *row)
{
    struct identity is = identify(row->fd);

    return is.serial != row->is.serial || is.device != row->is.device || is.inode != row->is.inode;
}

static struct row *find(struct rs_set *s, int fd)
{
    for (int i = 0; i < s->n; i++)
        if (s->rows[i].fd == fd)
            return &s->rows[i];
    return NULL;
}

static void drop(struct rs_set *s, struct row *row)
{
    *row = s->rows[--s->n];
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
    s->rows[s->n++] = (struct row){fd, identify(fd), s->version, *event, false};
    return 0;
}

/* ---- changes ---- */

/* A set has no descriptor that shows what its rows have: another set could wait for it for ever. */
static bool is_set(int fd)
{
    struct rs_set *s = get(fd);

    if (s)
        rs_object_put(&s->object);
    return s;
}

static int change(struct rs_set *s, int op, int fd, const struct epoll_event *event)
{
    struct row *row = find(s, fd);

    if (row && is_stale(row)) {
        drop(s, row);
        row = NULL;
    }
    switch (op) {
    case EPOLL_CTL_ADD:
        return row ? -EEXIST : add(s, fd, event);
    case EPOLL_CTL_MOD:
        if (!row)
            return -ENOENT;
        row->event = *event;
        row->spent = false;
        return 0;
    case EPOLL_CTL_DEL:
        if (!row)
            return -ENOENT;
        drop(s, row);
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
    else if (op == EPOLL_CTL_ADD && is_set(fd))
        err = -EPERM;
    else if (fcntl(fd, F_GETFD) < 0)
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

/* Rows as a wait has begun with them. They may change before it ends. */
struct view {
    int n;
    struct pollfd *fds;
    unsigned *added; /* of each row */
};

/* With lock. */
static int view_init(struct view *v, const struct rs_set *s)
{
    v->n = s->n;
    v->fds = calloc((size_t)s->n + 1, sizeof(*v->fds));
    v->added = calloc((size_t)s->n + 1, sizeof(*v->added));
    if (!v->fds || !v->added) {
        free(v->fds);
        free(v->added);
        return -ENOMEM;
    }
    for (int i = 0; i < v->n; i++) {
        const struct row *row = &s->rows[i];

        v->fds[i].fd = row->spent ? -1 : row->fd;
        v->fds[i].events = (short)(row->event.events & NOTIFIED);
        v->added[i] = row->added;
    }
    return 0;
}

static void view_fini(struct view *v)
{
    free(v->fds);
    free(v->added);
}

/* The row that these events are of, or NULL: it has left the set, or leaves it now. It is nearly
 * always where it was when the wait began. */
static struct row *row_of(struct rs_set *s, const struct view *v, int at)
{
    bool stayed = at < s->n && s->rows[at].fd == v->fds[at].fd;
    struct row *row = stayed ? &s->rows[at] : find(s, v->fds[at].fd);

    if (!row || row->added != v->added[at] || row->spent)
        return NULL;
    if (v->fds[at].revents & POLLNVAL || is_stale(row)) {
        drop(s, row);
        return NULL;
    }
    return row;
}

/* The bits of poll(2) are those of epoll. */
static int report(struct rs_set *s, const struct view *v, struct epoll_event *events, int max)
{
    int count = 0, at = 0;

    for (int i = 0; i < v->n && count < max; i++) {
        struct row *row;

        at = (s->first + i) % v->n;
        row = v->fds[at].revents ? row_of(s, v, at) : NULL;
        if (!row)
            continue;
        events[count++] = (struct epoll_event){(uint32_t)v->fds[at].revents, row->event.data};
        row->spent = row->event.events & EPOLLONESHOT;
    }
    s->first = v->n ? (at + 1) % v->n : 0;
    return count;
}

struct wait {
    struct rs_set *set;
    struct view view;
};

static void end_wait(struct wait *w)
{
    struct rs_set *s = w->set;

    pthread_mutex_lock(&s->lock);
    if (!--s->waiting && !s->closed) /* the last one has seen it */
        rs_wake_drain(s->object.fd);
}

static void cancel_wait(void *wait)
{
    struct wait *w = wait;

    end_wait(w);
    pthread_mutex_unlock(&w->set->lock);
    view_fini(&w->view);
    rs_object_put(&w->set->object);
}

/* Waits once for the rows as they are now. With lock, which is released. */
static int wait_once(struct rs_set *s, struct epoll_event *events, int max, int timeout_ms)
{
    struct wait w = {.set = s};
    int found = view_init(&w.view, s);

    if (found)
        return found;
    s->waiting++;
    pthread_mutex_unlock(&s->lock);
    pthread_cleanup_push(cancel_wait, &w);
    found = rs_poll(w.view.fds, (nfds_t)w.view.n, timeout_ms, s->object.fd);
    pthread_cleanup_pop(0);
    end_wait(&w);
    if (found > 0)
        found = report(s, &w.view, events, max);
    view_fini(&w.view);
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
