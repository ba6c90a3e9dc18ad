/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"

#define REPLY_TIMEOUT_SEC 30

static int connect_path(const char *path)
{
    struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_SEC};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int sock, err;

    if (strlen(path) >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    strcpy(addr.sun_path, path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        err = -errno;
        close(sock);
        return err;
    }
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    return sock;
}

static int connect_default(void)
{
    const char *path = getenv(CTL_SOCKET_ENV), *dir = getenv("XDG_RUNTIME_DIR");
    char user[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    int sock;

    if (path && *path)
        return connect_path(path);
    sock = connect_path(CTL_SOCKET_SYSTEM);
    if (sock >= 0 || !dir || !*dir)
        return sock;
    if ((size_t)snprintf(user, sizeof(user), "%s/%s", dir, CTL_SOCKET_USER) >= sizeof(user))
        return -ENAMETOOLONG;
    return connect_path(user);
}

int conn_open(struct conn *c)
{
    int sock = connect_default();

    if (sock < 0)
        return sock;
    *c = (struct conn){.sock = sock, .pid = getpid()};
    pthread_mutex_init(&c->lock, NULL);
    return 0;
}

void conn_close(struct conn *c)
{
    if (c->sock >= 0)
        close(c->sock);
    c->sock = -1;
    pthread_mutex_destroy(&c->lock);
}

static void close_all(const int *fds, unsigned n)
{
    while (n--)
        close(fds[n]);
}

/* One request and one reply, under the lock. */
static int exchange(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds,
                    unsigned nfds, int *got, unsigned *ngot)
{
    uint32_t seq = ++c->seq;
    int err;

    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->type = (uint16_t)type;
    m->seq = seq;
    m->status = 0;
    do {
        err = ctl_send(c->sock, m, fds, nfds, 0);
    } while (err == -EINTR);
    if (err)
        return err;
    do {
        err = ctl_recv(c->sock, m, got, ngot, 0);
    } while (err == -EINTR);
    if (err)
        return err;
    if (m->seq != seq || m->type != type) {
        close_all(got, *ngot);
        return -EPROTO;
    }
    return 0;
}

int conn_call(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds, unsigned nfds,
              int *got, unsigned want)
{
    int received[CTL_MAX_FDS], cancel, err;
    unsigned n = 0;

    if (c->pid != getpid())
        return -EIO;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&c->lock);
    if (c->broken) {
        err = -EIO;
    } else if (exchange(c, type, m, fds, nfds, received, &n)) {
        c->broken = true;
        err = -EIO;
    } else {
        err = m->status;
        if (!err && n != want) {
            close_all(received, n);
            err = -EIO;
        } else if (err) {
            close_all(received, n);
        } else if (want) {
            memcpy(got, received, want * sizeof(*got));
        }
    }
    pthread_mutex_unlock(&c->lock);
    pthread_setcancelstate(cancel, NULL);
    return err > 0 ? -EIO : err;
}

int conn_call_handle(struct conn *c, enum ctl_type type, uint32_t handle)
{
    struct ctl_msg m = {.handle = handle};

    return conn_call(c, type, &m, NULL, 0, NULL, 0);
}
