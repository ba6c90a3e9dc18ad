/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocols are those of sd_notify(3) and sd_listen_fds(3): see service.h. */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"
#include "worker.h"

/* A worker that sleeps makes a pass every 100 ms, and one that waits for a processor may need some
 * time. */
#define STILL_MAX NS_PER_SEC

/* A manager that does not read loses the datagram. */
static void tell(const struct service *s, const char *what)
{
    if (s->socket >= 0)
        (void)!send(s->socket, what, strlen(what), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void feed(struct service *s, int still, ns_t now)
{
    bool hungry = still >= 0 && now >= s->moved_at + STILL_MAX;

    if (still < 0)
        s->moved_at = now;
    if (!hungry)
        tell(s, "WATCHDOG=1");
    else if (!s->is_hungry)
        fprintf(stderr, "uroced: worker %d stands still: the watchdog is not fed\n", still);
    s->is_hungry = hungry;
}

static void on_watchdog(struct event_source *source, uint32_t events)
{
    struct service *s = container_of(source, struct service, watchdog);
    uint64_t times;

    if (read(source->fd, &times, sizeof(times)) != sizeof(times))
        return;
    feed(s, s->still(s->ctx), worker_time());
}

/* A path, or, after an @, an abstract name. 0 or a negative errno. */
static int connect_manager(struct service *s, const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(addr.sun_path))
        return -EINVAL;
    memcpy(addr.sun_path, name, len);
    if (name[0] == '@')
        addr.sun_path[0] = '\0';
    s->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s->socket < 0)
        return -errno;
    return connect(s->socket, (struct sockaddr *)&addr,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len))
               ? -errno
               : 0;
}

/* Microseconds; 0: no watchdog, or that of another process. */
static uint64_t watchdog_interval(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (!usec || (pid && *pid && strtoul(pid, NULL, 10) != (unsigned long)getpid()))
        return 0;
    return strtoull(usec, NULL, 10);
}

static int start_watchdog(struct service *s, uint64_t usec)
{
    ns_t quarter = max_of(usec, UINT64_C(4)) * NS_PER_US / 4;
    struct timespec interval = {.tv_sec = (time_t)(quarter / NS_PER_SEC),
                                .tv_nsec = (long)(quarter % NS_PER_SEC)};
    struct itimerspec timer = {.it_interval = interval, .it_value = interval};

    s->watchdog = (struct event_source){.ready = on_watchdog};
    s->watchdog.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->watchdog.fd < 0 || timerfd_settime(s->watchdog.fd, 0, &timer, NULL))
        return -errno;
    return event_loop_add(s->loop, &s->watchdog, EPOLLIN);
}

void service_open(struct service *s, struct event_loop *loop)
{
    const char *name = getenv("NOTIFY_SOCKET");
    uint64_t usec = watchdog_interval();
    int err;

    s->socket = s->watchdog.fd = -1;
    s->loop = loop;
    s->moved_at = worker_time();
    if (!name || !*name)
        return;
    err = connect_manager(s, name);
    if (!err && usec)
        err = start_watchdog(s, usec);
    if (err)
        fprintf(stderr, "uroced: NOTIFY_SOCKET=%s: %s\n", name, strerror(-err));
}

/* A listening SOCK_SEQPACKET socket of the file system. */
static bool is_listener(int fd)
{
    int domain = 0, type = 0, listening = 0;
    socklen_t len = sizeof(int);

    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
           !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET &&
           !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) && listening;
}

int service_listener(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    const int fd = 3; /* SD_LISTEN_FDS_START */

    if (!pid || !fds || strtoul(pid, NULL, 10) != (unsigned long)getpid())
        return 0;
    if (strtoul(fds, NULL, 10) != 1 || !is_listener(fd))
        return -EINVAL;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
        return -errno;
    return fd;
}

void service_report_ready(struct service *s)
{
    tell(s, "READY=1");
}

void service_report_end(struct service *s)
{
    tell(s, "STOPPING=1");
}

void service_close(struct service *s)
{
    if (s->watchdog.fd >= 0) {
        event_loop_remove(s->loop, &s->watchdog);
        close(s->watchdog.fd);
    }
    if (s->socket >= 0)
        close(s->socket);
}
