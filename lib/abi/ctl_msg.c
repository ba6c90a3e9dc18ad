/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and receiving control messages: see ctl_msg.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl_msg.h"

/* Room for all descriptors of a message, so that the kernel never closes those that have none, and
 * for the credentials that it adds if the socket asks for them. */
#define CONTROL_BYTES (CMSG_SPACE(CTL_ANY_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)))

int ctl_send(int sock, const struct ctl_msg *m, const int *fds, unsigned nfds, int flags)
{
    union {
        char bytes[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {(void *)m, sizeof(*m)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (nfds > CTL_MAX_FDS)
        return -EINVAL;
    if (nfds) {
        struct cmsghdr *c = &control.align;

        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
    }
    do
        n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return n == sizeof(*m) ? 0 : -EMSGSIZE;
}

static void close_all(const int *fds, unsigned n)
{
    while (n)
        close(fds[--n]);
}

/* Copies all descriptors of a message to fds. */
static unsigned collect_fds(struct msghdr *msg, int fds[CTL_ANY_FDS])
{
    unsigned n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        unsigned more = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || n + more > CTL_ANY_FDS)
            continue;
        memcpy(fds + n, CMSG_DATA(c), more * sizeof(int));
        n += more;
    }
    return n;
}

static int check_message(const struct ctl_msg *m, ssize_t bytes, int msg_flags, unsigned nfds)
{
    if (bytes == 0)
        return -ECONNRESET;
    if (bytes != sizeof(*m) || (msg_flags & MSG_TRUNC) || nfds > CTL_MAX_FDS)
        return -EPROTO;
    if (m->magic != CTL_MAGIC)
        return -EPROTO;
    if (m->version != CTL_VERSION)
        return -EPROTONOSUPPORT;
    return msg_flags & MSG_CTRUNC ? -EMFILE : 0; /* the process may have no more: there was room */
}

static ssize_t receive(int sock, struct msghdr *msg, int flags)
{
    ssize_t bytes;

    do
        bytes = recvmsg(sock, msg, flags | MSG_CMSG_CLOEXEC);
    while (bytes < 0 && errno == EINTR);
    return bytes < 0 ? -errno : bytes;
}

int ctl_peek(int sock, struct ctl_msg *m, bool *has_fds, int flags)
{
    struct iovec iov = {m, sizeof(*m)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t bytes = receive(sock, &msg, flags | MSG_PEEK);

    *has_fds = bytes >= 0 && (msg.msg_flags & MSG_CTRUNC);
    return bytes < 0 ? (int)bytes : check_message(m, bytes, msg.msg_flags & ~MSG_CTRUNC, 0);
}

int ctl_recv_any(int sock, struct ctl_msg *m, int fds[CTL_ANY_FDS], unsigned *nfds, int flags)
{
    union {
        char bytes[CONTROL_BYTES];
        struct cmsghdr align;
    } control;
    struct iovec iov = {m, sizeof(*m)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t bytes = receive(sock, &msg, flags);

    *nfds = 0;
    if (bytes < 0)
        return (int)bytes;
    *nfds = collect_fds(&msg, fds);
    return check_message(m, bytes, msg.msg_flags, *nfds);
}

int ctl_recv(int sock, struct ctl_msg *m, int fds[CTL_MAX_FDS], unsigned *nfds, int flags)
{
    int received[CTL_ANY_FDS];
    int err = ctl_recv_any(sock, m, received, nfds, flags);

    if (err) {
        close_all(received, *nfds);
        *nfds = 0;
        return err;
    }
    memcpy(fds, received, *nfds * sizeof(int));
    return 0;
}

/* If the daemon has closed the connection with the request unread, the kernel reports that first,
 * and once; then come the messages that the daemon has sent. */
static int recv_reply(int sock, struct ctl_msg *m, int got[CTL_MAX_FDS], unsigned *ngot)
{
    bool was_reset = false;
    int err;

    for (;;) {
        err = ctl_recv(sock, m, got, ngot, 0);
        if (err != -EINTR && (err != -ECONNRESET || was_reset))
            return err;
        was_reset |= err == -ECONNRESET;
    }
}

/* Its status goes into errno, negated: a number that no errno has could not be. */
static bool is_reply(const struct ctl_msg *m, const struct ctl_msg *request)
{
    return m->seq == request->seq && m->type == request->type && m->status <= 0 &&
           m->status >= -CTL_ERRNO_MAX;
}

/* The daemon refuses a connection before it reads a request, and closes it. */
static bool is_refusal(const struct ctl_msg *m)
{
    return !m->seq && !m->type && m->status == -ENOMEM;
}

int ctl_request(int sock, struct ctl_msg *m, const int *fds, unsigned nfds, int got[CTL_MAX_FDS],
                unsigned *ngot)
{
    const struct ctl_msg request = *m;
    int err = ctl_send(sock, m, fds, nfds, 0);

    *ngot = 0;
    if (err && err != -EPIPE && err != -ECONNRESET)
        return err;
    err = recv_reply(sock, m, got, ngot);
    if (err && err != -EMFILE)
        return err;
    if (is_reply(m, &request))
        return err;
    close_all(got, *ngot);
    *ngot = 0;
    return is_refusal(m) ? -ENOMEM : -EPROTO;
}

int ctl_run_user_folder(char folder[CTL_FOLDER_MAX])
{
    struct stat st;

    snprintf(folder, CTL_FOLDER_MAX, "/run/user/%u", (unsigned)geteuid());
    if (lstat(folder, &st))
        return -errno;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) ? 0 : -EPERM;
}

void ctl_device_name(const char *names, uint32_t index, const char *own, char name[CTL_NAME_MAX])
{
    size_t length;

    while (names && index--) {
        names = strchr(names, ',');
        names = names ? names + 1 : NULL;
    }
    length = names ? strcspn(names, ",") : 0;
    if (length && length < CTL_NAME_MAX)
        snprintf(name, CTL_NAME_MAX, "%.*s", (int)length, names);
    else
        snprintf(name, CTL_NAME_MAX, "%s", own);
}
