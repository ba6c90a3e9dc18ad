/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_daemon.h. */
#include "fuzz_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm/cm_object.h"

#define LINKS 8

/* How an answer or an event is changed: the number of its bytes, and: */
enum change {
    CHANGE_BYTES = 7,
    CHANGE_FD_LESS = 8, /* an event: it is cut off */
    CHANGE_FD_MORE = 16,
    CHANGE_END = 32,   /* the connection ends in its place */
    CHANGE_REPLY = 64, /* to a request that wants none, there is a reply */
};

struct input in;
struct rnic *rnic;
ns_t now;

static bool refuses;

static ns_t clock_now(void)
{
    return now;
}

/* ---- connections ---- */

int kernel_poll(struct pollfd *p, nfds_t n, int ms)
{
    struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    return (int)syscall(SYS_ppoll, p, n, ms < 0 ? NULL : &limit, NULL,
                        0); /* arm64 has no SYS_poll */
}

/* The library's socket, and the session behind it. */
struct link {
    int sock, far;
    struct session *session;
};

static struct link links[LINKS];

static void link_end(struct link *l)
{
    if (l->session)
        session_close(l->session);
    if (l->far > 0)
        close(l->far);
    *l = (struct link){0};
}

/* The library has closed its end of some. */
static void links_reap(void)
{
    for (unsigned i = 0; i < LINKS; i++) {
        struct pollfd p = {.fd = links[i].far};

        if (links[i].session && kernel_poll(&p, 1, 0) == 1 && p.revents & POLLHUP)
            link_end(&links[i]);
    }
}

static struct link *link_of(int sock)
{
    for (unsigned i = 0; i < LINKS; i++)
        if (links[i].session && links[i].sock == sock)
            return &links[i];
    return NULL;
}

PUBLIC int connect(int sock, const struct sockaddr *addr, socklen_t len)
{
    struct link *l = links;
    int pair[2];

    if (addr->sa_family != AF_UNIX)
        return (int)syscall(SYS_connect, sock, addr, len);
    links_reap();
    while (l != links + LINKS && l->session)
        l++;
    if (refuses || l == links + LINKS ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        errno = ECONNREFUSED;
        return -1;
    }
    dup3(pair[0], sock, O_CLOEXEC);
    close(pair[0]);
    *l = (struct link){sock, pair[1], session_create(rnic, &(struct ucred){.pid = getpid()})};
    return 0;
}

/* ---- what it sends ---- */

/* Each changed byte's position and value. */
static uint8_t change_bytes(void *bytes, size_t size)
{
    uint8_t how = take(&in), *to = bytes;

    for (unsigned n = how & CHANGE_BYTES; n; n--) {
        unsigned at = take(&in) | take(&in) << 8;

        to[at % size] = take(&in);
    }
    return how;
}

static void change_fds(struct ctl_call *call, uint8_t how)
{
    int extra;

    if (how & CHANGE_FD_LESS && call->out_fds)
        close(call->out_fd[--call->out_fds]);
    if (how & CHANGE_FD_MORE && call->out_fds < CTL_MAX_FDS) {
        extra = memfd_create("fuzz", MFD_CLOEXEC);
        (void)!ftruncate(extra, take(&in) * 512);
        call->out_fd[call->out_fds++] = extra;
    }
}

static void reply(struct link *l, struct ctl_call *call)
{
    bool posted = !call->request->seq;
    uint8_t how;

    if (posted && call->reply.status)
        session_post_failed(l->session, call->request, call->reply.status);
    how = change_bytes(&call->reply, sizeof(call->reply));
    change_fds(call, how);
    if (how & CHANGE_END)
        link_end(l);
    else if (!posted || how & CHANGE_REPLY)
        ctl_send(l->far, &call->reply, call->out_fd, call->out_fds, MSG_DONTWAIT);
}

static void answer(struct link *l, const struct msghdr *request)
{
    struct ctl_call call = {.request = request->msg_iov->iov_base};
    const struct cmsghdr *c = request->msg_controllen ? CMSG_FIRSTHDR(request) : NULL;

    if (c) {
        call.in_fd = (const int *)CMSG_DATA(c);
        call.in_fds = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    }
    session_dispatch(l->session, &call);
    if (call.reply.status == -EINPROGRESS)
        call.reply.status = -ENETUNREACH;
    reply(l, &call);
    while (call.out_fds)
        close(call.out_fd[--call.out_fds]);
}

PUBLIC ssize_t sendmsg(int sock, const struct msghdr *msg, int flags)
{
    struct link *l = link_of(sock);

    if (!l)
        return syscall(SYS_sendmsg, sock, msg, flags);
    answer(l, msg);
    return (ssize_t)msg->msg_iov->iov_len;
}

/* An event of rdma_cm. */
static ssize_t send_told(int sock, const struct ctl_cm_told *told, int flags)
{
    struct ctl_cm_told changed = *told;
    uint8_t how = change_bytes(&changed, sizeof(changed));
    size_t len = how & CHANGE_FD_LESS ? take(&in) : sizeof(changed);

    if (how & CHANGE_END)
        return sizeof(changed); /* it is lost */
    if (syscall(SYS_sendto, sock, &changed, len, flags, NULL, 0) < 0)
        return -1;
    return sizeof(changed);
}

PUBLIC ssize_t send(int sock, const void *buf, size_t len, int flags)
{
    if (len == sizeof(struct ctl_cm_told))
        return send_told(sock, buf, flags);
    return syscall(SYS_sendto, sock, buf, len, flags, NULL, 0);
}

/* ---- its life ---- */

void daemon_start(void)
{
    setenv(CTL_SOCKET_ENV, "fuzz", 1);
    now = NS_PER_SEC;
    refuses = false;
    rnic = kit_rnic(NULL, clock_now);
}

void daemon_end(void)
{
    for (unsigned i = 0; i < LINKS; i++)
        link_end(&links[i]);
}

void daemon_stop(void)
{
    daemon_end();
    rnic_destroy(rnic);
}

void daemon_refuse(bool refuse)
{
    refuses = refuse;
}

struct session *daemon_session(void)
{
    for (unsigned i = 0; i < LINKS; i++)
        if (links[i].session && links[i].session->device)
            return links[i].session;
    return NULL;
}

void daemon_tell(uint32_t channel, const struct ctl_cm_told *told)
{
    struct cm_channel *ch = NULL;

    for (unsigned i = 0; i < LINKS && !ch; i++)
        if (links[i].session)
            ch = cm_channel_get(links[i].session, channel);
    if (ch)
        send(ch->fd, told, sizeof(*told), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void ready(struct event_source *s)
{
    if (s->ready)
        s->ready(s, 0);
}

void daemon_work(unsigned turns)
{
    for (; turns; turns--) {
        worker_poll(rnic_worker(rnic, 0), now += 100);
        ready(&rnic->device[0]->net.frames);
        ready(&rnic->cm.timer);
    }
}
