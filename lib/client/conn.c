/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to the daemon: its socket, requests and replies. */
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "conn_objects.h"
#include "conn_undo.h"

/* ---- the sockets of this process ---- */

/*
 * A child must not keep its parent's connections open: the daemon would not notice that the parent
 * executes another program. So all sockets are on a list. Its lock is held while a socket is made
 * or closed and while the process forks, so every socket that the child inherits is on the list.
 */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, conn) open_conns = LIST_HEAD_INITIALIZER(open_conns);

static void before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&open_lock);
}

static void after_fork_in_child(void)
{
    for (struct conn *c = LIST_FIRST(&open_conns); c; c = LIST_NEXT(c, link)) {
        close(c->sock);
        c->sock = -1;
        c->inherited = true;
        c->has_waited = false;
        pthread_mutex_init(&c->lock, NULL); /* another thread of the parent may hold it */
    }
    LIST_INIT(&open_conns);
    pthread_mutex_unlock(&open_lock);
}

static void register_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static int sock_open(struct conn *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int err = 0;

    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&open_lock);
    c->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (c->sock >= 0)
        LIST_INSERT_HEAD(&open_conns, c, link);
    else
        err = -errno;
    pthread_mutex_unlock(&open_lock);
    return err;
}

/* Without cancellation: close() is a cancellation point, and the lock is held. */
static void sock_close(struct conn *c)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&open_lock);
    if (c->sock >= 0) {
        LIST_REMOVE(c, link);
        close(c->sock);
        c->sock = -1;
    }
    pthread_mutex_unlock(&open_lock);
    pthread_setcancelstate(cancel, NULL);
}

/* ---- connecting ---- */

static int connect_path(struct conn *c, const char *path)
{
    struct timeval timeout = {.tv_sec = CONN_REPLY_SECONDS};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int err;

    if (strlen(path) >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    strcpy(addr.sun_path, path);
    err = sock_open(c);
    if (err)
        return err;
    setsockopt(c->sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(c->sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)); /* of connect(), too */
    do
        err = connect(c->sock, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
    while (err == -EINTR);
    if (err)
        sock_close(c);
    return err == -EAGAIN ? -ETIMEDOUT : err;
}

/* Once: the program only says that there are no devices. EACCES of root's socket is said, too, but
 * not that it is absent: most hosts with these libraries may have no daemon. */
static int explain(const char *path, const char *from, int err)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (err && !atomic_flag_test_and_set(&said))
        fprintf(stderr, "uroce: no daemon answers at %s%s: %s\n", path, from, strerror(-err));
    return err;
}

/* The socket of the user's own daemon, in a folder of the user's; without such a folder the error
 * is `otherwise`. */
static int connect_user(struct conn *c, int otherwise)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    char folder[CTL_FOLDER_MAX], path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

    if ((!dir || !*dir) && !ctl_run_user_folder(folder))
        dir = folder;
    if (!dir || !*dir)
        return otherwise;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, CTL_SOCKET_USER) >= sizeof(path))
        return -ENAMETOOLONG;
    return connect_path(c, path);
}

static int connect_any(struct conn *c)
{
    const char *path = getenv(CTL_SOCKET_ENV);
    int err, system;

    if (path && *path)
        return explain(path, " (" CTL_SOCKET_ENV ")", connect_path(c, path));
    system = connect_path(c, CTL_SOCKET_SYSTEM);
    if (!system)
        return 0;
    err = connect_user(c, system);
    return err && system == -EACCES ? explain(CTL_SOCKET_SYSTEM, "", system) : err;
}

/* connect() is a cancellation point, and callers hold locks. */
static int connect_default(struct conn *c)
{
    int cancel, err;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    err = connect_any(c);
    pthread_setcancelstate(cancel, NULL);
    return err;
}

int conn_open(struct conn *c)
{
    int err;

    *c = (struct conn){.sock = -1};
    err = connect_default(c);
    if (!err)
        pthread_mutex_init(&c->lock, NULL);
    return err;
}

void conn_close(struct conn *c)
{
    sock_close(c);
    pthread_mutex_destroy(&c->lock);
}

bool conn_is_ours(const struct conn *c)
{
    return !c->inherited;
}

/* poll() itself is a cancellation point. */
bool conn_hung_up(const struct conn *c)
{
    struct pollfd p = {.fd = c->sock};
    struct timespec now = {0};

    return conn_is_ours(c) && syscall(SYS_ppoll, &p, 1, &now, NULL, 0) == 1 &&
           p.revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* ---- requests ---- */

static void close_all(const int *fds, unsigned n)
{
    while (n--)
        close(fds[n]);
}

/* What to do with the descriptors of a successful reply. */
struct fd_receiver {
    int (*accept)(void *arg, const int *fd, unsigned fds); /* 0: they are the receiver's now */
    void *arg;
    bool vital; /* if it fails, later replies cannot be understood */
};

/* Numbers the request, and makes it. Returns as ctl_request. */
static int request(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds,
                   unsigned nfds, int received[CTL_MAX_FDS], unsigned *n)
{
    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->type = (uint16_t)type;
    m->seq = c->seq = max_of(c->seq + 1, 1u);
    m->status = 0;
    return ctl_request(c->sock, m, fds, nfds, received, n);
}

/* The descriptors of this reply found no room. Under the lock, so that the daemon names nothing in
 * other replies that came with them. Returns -EMFILE, or -EIO: the connection cannot go on. */
static int undo(struct conn *c, const struct ctl_msg *reply)
{
    int received[CTL_MAX_FDS];
    enum ctl_type type;
    struct ctl_msg m;
    unsigned n = 0;

    switch (conn_undo_request(reply, &type, &m)) {
    case CONN_UNDO_NOTHING:
        return -EMFILE;
    case CONN_UNDO_ASK:
        if (!request(c, type, &m, NULL, 0, received, &n) && !m.status && !n)
            return -EMFILE;
        close_all(received, n);
        break;
    case CONN_UNDO_NEVER:
        break;
    }
    c->broken = true;
    return -EIO;
}

/* Returns the daemon's status; -ENOMEM, if it refuses the connection; -EMFILE; or -EIO. Under the
 * lock. */
static int call_locked(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds,
                       unsigned nfds, const struct fd_receiver *r)
{
    int received[CTL_MAX_FDS];
    unsigned n = 0;
    int err;

    if (c->broken)
        return -EIO;
    err = request(c, type, m, fds, nfds, received, &n);
    if (err == -EMFILE)
        return undo(c, m);
    if (err) {
        c->broken = true;
        return err == -ENOMEM ? err : -EIO;
    }
    if (m->status) {
        close_all(received, n);
        return m->status;
    }
    if (!r->accept(r->arg, received, n))
        return 0;
    close_all(received, n);
    c->broken = r->vital;
    return -EIO;
}

static int call_daemon(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds,
                       unsigned nfds, const struct fd_receiver *r)
{
    int cancel, err;

    if (!conn_is_ours(c) && (!c->inherit || c->inherit(c)))
        return -EIO;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&c->lock);
    err = call_locked(c, type, m, fds, nfds, r);
    if (err == -EIO && conn_destroys(type) && conn_hung_up(c)) {
        *m = (struct ctl_msg){0};
        err = 0;
    }
    if (!err)
        c->objects += conn_object_change(type);
    pthread_mutex_unlock(&c->lock);
    pthread_setcancelstate(cancel, NULL);
    return err;
}

int conn_post(struct conn *c, enum ctl_type type, struct ctl_msg *m)
{
    int cancel, err = -EIO;

    if (!conn_is_ours(c))
        return -EIO;
    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->type = (uint16_t)type;
    m->seq = 0;
    m->status = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&c->lock);
    if (!c->broken && ctl_send(c->sock, m, NULL, 0, 0))
        c->broken = true;
    else if (!c->broken)
        err = 0;
    pthread_mutex_unlock(&c->lock);
    pthread_setcancelstate(cancel, NULL);
    return err;
}

static time_t seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

/* nanosleep() itself is a cancellation point. */
static void sleep_ns(long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    nanosleep(&pause, NULL);
    pthread_setcancelstate(cancel, NULL);
}

bool conn_wait(struct conn_retry *p)
{
    if (!p->until)
        p->until = seconds_now() + CONN_REPLY_SECONDS;
    else if (seconds_now() >= p->until)
        return false;
    p->pause = min_of(max_of(2 * p->pause, 1000000L), 20000000L);
    sleep_ns(p->pause);
    return true;
}

/* A region, a window or a queue stays, a queue is not reset, and copies are not suspended, while
 * the daemon still waits for memory of this program, whose bytes may be theirs. It does not say
 * when that is over. */
static bool may_ask_again(enum ctl_type type)
{
    return conn_destroys(type) || type == CTL_FREEZE_MRS || type == CTL_REMAP_MR ||
           type == CTL_MODIFY_QP || type == CTL_MODIFY_WQ;
}

static int call_until_idle(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds,
                           unsigned nfds, const struct fd_receiver *r)
{
    const struct ctl_msg request = *m;
    struct conn_retry retry = {0};
    int err;

    while ((err = call_daemon(c, type, m, fds, nfds, r)) == -EAGAIN && may_ask_again(type) &&
           conn_wait(&retry))
        *m = request;
    return err;
}

struct wanted {
    int *got;
    unsigned want;
};

static int accept_wanted(void *arg, const int *fd, unsigned fds)
{
    const struct wanted *w = arg;

    if (fds != w->want)
        return -EPROTO;
    if (fds)
        memcpy(w->got, fd, fds * sizeof(*fd));
    return 0;
}

int conn_call(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds, unsigned nfds,
              int *got, unsigned want)
{
    struct wanted w = {got, want};

    return call_until_idle(c, type, m, fds, nfds,
                           &(struct fd_receiver){.accept = accept_wanted, .arg = &w});
}

int conn_call_then(struct conn *c, enum ctl_type type, struct ctl_msg *m,
                   int (*then)(void *arg, const int *fd, unsigned fds), void *arg)
{
    return call_until_idle(c, type, m, NULL, 0,
                           &(struct fd_receiver){.accept = then, .arg = arg, .vital = true});
}

/* ---- a child that goes on alone ---- */

static int accept_nothing(void *arg, const int *fd, unsigned fds)
{
    return fds ? -EPROTO : 0;
}

static int ask_for_context(struct conn *c, const uint64_t key[2])
{
    struct ctl_msg m = {0};
    int cancel, err;

    memcpy(m.open.join_key, key, sizeof(m.open.join_key));
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&c->lock);
    err = call_locked(c, CTL_INHERIT, &m, NULL, 0, &(struct fd_receiver){.accept = accept_nothing});
    pthread_mutex_unlock(&c->lock);
    pthread_setcancelstate(cancel, NULL);
    return err;
}

/* The daemon does not say when the parent has ended; and a parent that does not end is no error. */
int conn_inherit(struct conn *c, const uint64_t key[2])
{
    long left = c->has_waited ? 0 : CONN_HEIR_MS, pause = 1;
    int err;

    c->has_waited = true;
    c->broken = false;
    err = connect_default(c);
    if (err)
        return err;
    while ((err = ask_for_context(c, key)) == -EAGAIN && left > 0) {
        sleep_ns(pause * 1000000L);
        left -= pause;
        pause = min_of(2 * pause, 20L);
    }
    if (err)
        sock_close(c);
    return err;
}

void conn_inherited(struct conn *c)
{
    c->inherited = false;
}

int conn_call_handle(struct conn *c, enum ctl_type type, uint32_t handle)
{
    struct ctl_msg m = {.handle = handle};

    return conn_call(c, type, &m, NULL, 0, NULL, 0);
}

int conn_try_handle(struct conn *c, enum ctl_type type, uint32_t handle)
{
    struct ctl_msg m = {.handle = handle};
    struct wanted none = {0};

    return call_daemon(c, type, &m, NULL, 0,
                       &(struct fd_receiver){.accept = accept_wanted, .arg = &none});
}
