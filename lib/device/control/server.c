/* SPDX-License-Identifier: BSD-3-Clause */
/* See server.h. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "control/connection.h"
#include "control/device_state.h"
#include "socket_path.h"

/* For requests that run on other threads; those that do not end keep their memory. */
#define END_SECONDS 1

/* Refused connections with descriptors that are not yet closed; no quota is charged for them. */
#define CLOSING_MAX 32
/* Without an application, after which the heap's free pages are the system's again: its next one
 * waits for that, some tens of milliseconds where there were 20,000 queue pairs. */
#define TRIM_SECONDS 2
/* For which no connection is accepted when there are as many, or no descriptor is left. */
#define PAUSE_NS 1000000L

struct server {
    struct server_config config;
    struct event_source listener, stop, pause;
    struct socket_path path;
    struct connections connections;
    int spare_fd; /* closed to refuse a connection when descriptors run out */
    /* idle_since when the heap was trimmed last */
    time_t trimmed_since;
    bool stopping;
};

static void listen_later(struct server *s)
{
    const struct itimerspec when = {.it_value.tv_nsec = PAUSE_NS};

    event_loop_remove(s->config.loop, &s->listener);
    timerfd_settime(s->pause.fd, 0, &when, NULL);
}

static void on_pause(struct event_source *source, uint32_t events)
{
    struct server *s = container_of(source, struct server, pause);
    uint64_t count;

    if (read(source->fd, &count, sizeof(count)) < 0)
        return;
    if (s->connections.closing >= CLOSING_MAX ||
        event_loop_add(s->config.loop, &s->listener, EPOLLIN))
        listen_later(s);
}

/* When descriptors run out, the connection would wait, and the listener stay readable, forever. */
static void refuse_connection(struct server *s)
{
    int fd;

    if (s->spare_fd >= 0)
        close(s->spare_fd);
    fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        connection_refuse(&s->connections, fd);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || s->spare_fd < 0)
        listen_later(s);
}

static void on_listener(struct event_source *source, uint32_t events)
{
    struct server *s = container_of(source, struct server, listener);
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        connection_open(&s->connections, fd);
    else if (errno == EMFILE || errno == ENFILE)
        refuse_connection(s);
    if (s->connections.closing >= CLOSING_MAX)
        listen_later(s);
}

static void on_stop(struct event_source *source, uint32_t events)
{
    container_of(source, struct server, stop)->stopping = true;
}

static int open_listener(struct server *s)
{
    const struct server_config *config = &s->config;
    int err;

    s->listener.fd = config->listen_fd ? config->listen_fd
                                       : socket_path_listen(&s->path, config->path, SOCK_SEQPACKET,
                                                            config->mode, config->group);
    if (s->listener.fd < 0)
        return s->listener.fd;
    /* A refused connection then has none, and is closed at once: no program sends one before the
     * reply to its first message. */
    connection_allow_fds(s->listener.fd, false);
    err = s->pause.fd < 0 ? -EMFILE : event_loop_add(config->loop, &s->pause, EPOLLIN);
    if (!err)
        err = event_loop_add(config->loop, &s->listener, EPOLLIN);
    if (!err && config->stop_fd >= 0)
        err = event_loop_add(config->loop, &s->stop, EPOLLIN);
    return err;
}

struct server *server_open(const struct server_config *config, int *err)
{
    struct server *s = calloc(1, sizeof(*s));

    if (!s) {
        *err = -ENOMEM;
        return NULL;
    }
    s->config = *config;
    s->listener = (struct event_source){.fd = -1, .ready = on_listener};
    s->stop = (struct event_source){.fd = config->stop_fd, .ready = on_stop};
    s->pause = (struct event_source){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = on_pause};
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    connections_init(&s->connections, config->rnic, config->loop);
    *err = open_listener(s);
    if (*err) {
        server_close(s);
        return NULL;
    }
    return s;
}

/* Milliseconds until there has been no application for that time. A wait may end early: it begins
 * again. */
static int idle_left(const struct server *s, time_t seconds)
{
    time_t left = s->connections.idle_since + seconds - monotonic_seconds();

    return left > 0 ? (int)min_of(left, (time_t)(INT_MAX / 1000)) * 1000 : 0;
}

/* Milliseconds until the server ends because there is no application; -1: never. */
static int idle_timeout(const struct server *s)
{
    if (!s->config.idle_exit || s->connections.count)
        return -1;
    return idle_left(s, (time_t)s->config.idle_exit);
}

/* The same until the heap is trimmed. */
static int trim_timeout(const struct server *s)
{
    if (s->connections.count || s->trimmed_since == s->connections.idle_since)
        return -1;
    return idle_left(s, TRIM_SECONDS);
}

/* What ended applications had lies between what stays, and free() alone gives little of it back. */
static void trim_heap(struct server *s)
{
    s->trimmed_since = s->connections.idle_since;
    malloc_trim(0);
}

void server_run(struct server *s)
{
    while (!s->stopping) {
        int timeout = idle_timeout(s), trim = trim_timeout(s);

        /* as unsigned numbers, never is the last */
        if (!event_loop_step(s->config.loop, (int)min_of((unsigned)timeout, (unsigned)trim)) &&
            timeout >= 0 && !idle_timeout(s))
            return;
        if (!trim_timeout(s))
            trim_heap(s);
    }
}

void server_close(struct server *s)
{
    bool ended;

    s->stopping = true;
    rnic_end(s->config.rnic);
    event_loop_remove(s->config.loop, &s->listener);
    event_loop_remove(s->config.loop, &s->stop);
    event_loop_remove(s->config.loop, &s->pause);
    ended = connections_close(&s->connections, END_SECONDS);
    socket_path_remove(&s->path);
    if (s->listener.fd >= 0)
        close(s->listener.fd);
    if (s->pause.fd >= 0)
        close(s->pause.fd);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    if (ended)
        free(s);
}
