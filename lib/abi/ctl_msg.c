/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and receiving control messages: see ctl_msg.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl_msg.h"

/* Room for descriptors, and for the credentials that the kernel adds if the socket asks for them.
 * Without credentials more than CTL_MAX_FDS descriptors fit. */
#define CONTROL_BYTES (CMSG_SPACE(CTL_MAX_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)))
#define CONTROL_FDS   (CONTROL_BYTES / sizeof(int))

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

/* Copies all descriptors of a message to fds, which has room for as many as the control buffer. */
static unsigned collect_fds(struct msghdr *msg, int fds[CONTROL_FDS])
{
    unsigned n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t bytes = c->cmsg_len - CMSG_LEN(0);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(fds + n, CMSG_DATA(c), bytes);
        n += (unsigned)(bytes / sizeof(int));
    }
    return n;
}

static int check_message(const struct ctl_msg *m, ssize_t bytes, int msg_flags, unsigned nfds)
{
    if (bytes == 0)
        return -ECONNRESET;
    if (bytes != sizeof(*m) || (msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || nfds > CTL_MAX_FDS)
        return -EPROTO;
    if (m->magic != CTL_MAGIC)
        return -EPROTO;
    return m->version == CTL_VERSION ? 0 : -EPROTONOSUPPORT;
}

int ctl_recv(int sock, struct ctl_msg *m, int fds[CTL_MAX_FDS], unsigned *nfds, int flags)
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
    int received[CONTROL_FDS];
    unsigned n;
    ssize_t bytes;
    int err;

    *nfds = 0;
    do
        bytes = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
    while (bytes < 0 && errno == EINTR);
    if (bytes < 0)
        return -errno;
    n = collect_fds(&msg, received);
    err = check_message(m, bytes, msg.msg_flags, n);
    if (err) {
        close_all(received, n);
        return err;
    }
    memcpy(fds, received, n * sizeof(int));
    *nfds = n;
    return 0;
}
