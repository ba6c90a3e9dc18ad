/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See metrics_http.h. libmicrohttpd reads and writes in its own epoll set, which the event loop
 * watches; it has no thread. A request waits, suspended, until the maker has its text.
 */
#include "metrics_http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common.h"
#include "metrics_maker.h"
#include "metrics_mhd.h"
#include "worker.h"

/* More wait in the socket's backlog. */
#define CONNECTIONS 16
/* Of a request that is on its way, and of one that a peer draws out. */
#define IDLE_SECONDS 5
#define LIFE         (10 * NS_PER_SEC)
/* Of a connection, for the request's head. */
#define HEAD_MAX 8192
/* A text is used again so long: a peer that asks all the time costs little. */
#define FRESH (100 * NS_PER_MS)

struct slot {
    struct MHD_Connection *connection; /* NULL: free */
    int fd;
    ns_t end; /* when the connection is cut */
    enum metrics_format format;
    bool is_waiting;  /* for a text */
    bool is_answered; /* it has been made, or cannot be */
};

struct metrics_http {
    struct event_loop *loop;
    const struct metrics_mhd *mhd;
    struct MHD_Daemon *daemon;
    struct event_source epoll, timer;
    struct metrics_maker maker;
    struct slot slot[CONNECTIONS];
    struct {
        struct MHD_Response *response; /* NULL: none */
        ns_t made;
    } text[METRICS_PROMETHEUS + 1];
    /* What the library's epoll set does not tell: a connection goes on, or has ended, so that there
     * is room for one that waits. */
    bool has_changed;
    bool is_ending;
};

static struct slot *find_slot(struct metrics_http *h, const struct MHD_Connection *c)
{
    for (unsigned i = 0; i < CONNECTIONS; i++)
        if (h->slot[i].connection == c)
            return &h->slot[i];
    return NULL;
}

/* ---- time ---- */

static void cut_overdue(struct metrics_http *h, ns_t now)
{
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        struct slot *s = &h->slot[i];

        if (!s->connection || now < s->end)
            continue;
        shutdown(s->fd, SHUT_RDWR);
        s->end = UINT64_MAX; /* once; the library then finds the end */
    }
}

/* When the library or a connection wants attention; 0: never. */
static ns_t next_time(struct metrics_http *h, ns_t now)
{
    unsigned long long ms;
    ns_t at = UINT64_MAX;

    if (h->has_changed)
        return now;
    if (h->mhd->get_timeout(h->daemon, &ms) == MHD_YES)
        at = now + ms * NS_PER_MS;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        if (h->slot[i].connection)
            at = min_of(at, h->slot[i].end);
    return at == UINT64_MAX ? 0 : at;
}

static void set_timer(struct metrics_http *h)
{
    ns_t now = worker_time(), at = next_time(h, now), wait = at > now ? at - now : 1;
    struct itimerspec timer = {{0}};

    if (at) {
        timer.it_value.tv_sec = (time_t)(wait / NS_PER_SEC);
        timer.it_value.tv_nsec = (long)(wait % NS_PER_SEC);
    }
    timerfd_settime(h->timer.fd, 0, &timer, NULL);
}

static void drive(struct metrics_http *h)
{
    h->has_changed = false;
    h->mhd->run(h->daemon);
    cut_overdue(h, worker_time());
    set_timer(h);
}

static void on_epoll(struct event_source *s, uint32_t events)
{
    drive(container_of(s, struct metrics_http, epoll));
}

static void on_timer(struct event_source *s, uint32_t events)
{
    uint64_t times;

    (void)!read(s->fd, &times, sizeof(times));
    drive(container_of(s, struct metrics_http, timer));
}

/* ---- answers ---- */

static enum MHD_Result answer_text(struct metrics_http *h, struct MHD_Connection *c,
                                   unsigned status, const char *text)
{
    struct MHD_Response *r =
        h->mhd->create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result;

    if (!r)
        return MHD_NO;
    h->mhd->add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
    h->mhd->add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        h->mhd->add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    result = h->mhd->queue_response(c, status, r);
    h->mhd->destroy_response(r);
    return result;
}

static struct MHD_Response *make_response(struct metrics_http *h, enum metrics_format format,
                                          char *text, size_t length)
{
    struct MHD_Response *r =
        text ? h->mhd->create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE) : NULL;

    if (!r) {
        free(text);
        return NULL;
    }
    h->mhd->add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, metrics_media_type(format));
    h->mhd->add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    return r;
}

static void on_made(struct metrics_maker *m, enum metrics_format format, char *text, size_t length)
{
    struct metrics_http *h = container_of(m, struct metrics_http, maker);

    if (h->text[format].response)
        h->mhd->destroy_response(h->text[format].response);
    h->text[format].response = make_response(h, format, text, length);
    h->text[format].made = worker_time();
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        struct slot *s = &h->slot[i];

        if (!s->connection || !s->is_waiting || s->format != format)
            continue;
        s->is_waiting = false;
        s->is_answered = true;
        h->mhd->resume_connection(s->connection);
        h->has_changed = true;
    }
    if (h->has_changed)
        set_timer(h);
}

static enum metrics_format accepted_format(struct metrics_http *h, struct MHD_Connection *c)
{
    return metrics_accepted(
        h->mhd->lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
}

static enum MHD_Result answer_metrics(struct metrics_http *h, struct slot *s)
{
    enum metrics_format format = accepted_format(h, s->connection);
    struct MHD_Response *r = h->text[format].response;

    if (s->is_answered || (r && worker_time() < h->text[format].made + FRESH))
        return r ? h->mhd->queue_response(s->connection, MHD_HTTP_OK, r)
                 : answer_text(h, s->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
    s->format = format;
    s->is_waiting = true;
    h->mhd->suspend_connection(s->connection);
    metrics_maker_ask(&h->maker, format);
    return MHD_YES;
}

/* ---- requests ---- */

static bool is_read(const char *method)
{
    return !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);
}

/* Called with the head first; then with parts of a body, if there is one; then until it answers. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *length, void **seen)
{
    struct metrics_http *h = ctx;
    struct slot *s = find_slot(h, c);

    if (!s || h->is_ending)
        return MHD_NO;
    if (!is_read(method))
        return answer_text(h, c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD alone\n");
    if (!*seen || *length) {
        *seen = s;
        *length = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/metrics"))
        return answer_text(h, c, MHD_HTTP_NOT_FOUND, "uroced's metrics are at /metrics\n");
    return answer_metrics(h, s);
}

/* The library accepts no more connections than there are slots. */
static void on_connection(void *ctx, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct metrics_http *h = ctx;
    struct slot *s = find_slot(h, what == MHD_CONNECTION_NOTIFY_STARTED ? NULL : c);

    if (!s)
        return;
    *s = (struct slot){0};
    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        h->has_changed = true;
        return;
    }
    s->connection = c;
    s->fd = h->mhd->get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    s->end = worker_time() + LIFE;
}

/* ---- opening and closing ---- */

static int start(struct metrics_http *h, int listener)
{
    const union MHD_DaemonInfo *info;

    h->daemon = h->mhd->start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEAD_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    info = h->daemon ? h->mhd->get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info)
        return -ENOMEM;
    h->epoll = (struct event_source){.fd = info->epoll_fd, .ready = on_epoll};
    h->timer = (struct event_source){
        .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = on_timer};
    if (h->timer.fd < 0)
        return -errno;
    if (event_loop_add(h->loop, &h->timer, EPOLLIN))
        return -ENOMEM;
    return event_loop_add(h->loop, &h->epoll, EPOLLIN);
}

struct metrics_http *metrics_http_open(struct event_loop *loop, struct rnic *r, int listener,
                                       const char **error)
{
    const struct metrics_mhd *mhd = metrics_mhd_load(error);
    struct metrics_http *h = mhd ? calloc(1, sizeof(*h)) : NULL;
    int err;

    if (!h) {
        if (mhd)
            *error = strerror(ENOMEM);
        close(listener);
        return NULL;
    }
    h->loop = loop;
    h->mhd = mhd;
    h->timer.fd = -1;
    h->maker = (struct metrics_maker){.loop = loop, .rnic = r, .done = on_made};
    err = start(h, listener);
    if (!err)
        return h;
    *error = strerror(-err);
    metrics_http_close(h);
    return NULL;
}

/* No connection may be suspended when the library's daemon ends. */
static void resume_all(struct metrics_http *h)
{
    for (unsigned i = 0; i < CONNECTIONS; i++)
        if (h->slot[i].connection && h->slot[i].is_waiting)
            h->mhd->resume_connection(h->slot[i].connection);
}

void metrics_http_close(struct metrics_http *h)
{
    if (!h)
        return;
    h->is_ending = true;
    metrics_maker_stop(&h->maker);
    resume_all(h);
    event_loop_remove(h->loop, &h->epoll);
    event_loop_remove(h->loop, &h->timer);
    if (h->daemon)
        h->mhd->stop_daemon(h->daemon);
    for (unsigned i = 0; i < ARRAY_SIZE(h->text); i++)
        if (h->text[i].response)
            h->mhd->destroy_response(h->text[i].response);
    if (h->timer.fd >= 0)
        close(h->timer.fd);
    free(h);
}
