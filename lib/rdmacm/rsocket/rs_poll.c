/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpoll and rselect. A socket that is armed has news only when one of its descriptors is readable,
 * so poll(2) finds it; the others are looked at. A call that finds something costs no sleep, one
 * that sleeps arms the sockets that it knows nothing of first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "rs_socket.h"

#define FEW 16 /* descriptors without an allocation */

/* A row of the program's array. */
struct row {
    struct rsocket *rs;    /* NULL: no rsocket */
    unsigned first, count; /* its descriptors in the array for poll(2) */
    struct rs_waiter waiter;
};

struct set {
    struct pollfd *fds; /* the program's */
    struct row *rows;
    struct pollfd *real; /* RS_FDS_MAX for each row, and two more */
    nfds_t n, reals;
    nfds_t own, armed; /* rsockets; of them armed at the last look */
    bool foreign;      /* some are no rsockets */
    bool extra_ready;
    bool listed;             /* the thread, with all rsockets */
    nfds_t extra_at, own_at; /* of the caller's and the thread's descriptor, if there is one */
    int extra_fd;
    sigset_t signals; /* rs_hold_signals */
    struct row few_rows[FEW];
    struct pollfd few_real[FEW * RS_FDS_MAX + 2];
};

#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)

/* ---- the set ---- */

static int set_init(struct set *s, struct pollfd *fds, nfds_t n, int extra_fd)
{
    *s = (struct set){.fds = fds, .n = n, .rows = s->few_rows, .real = s->few_real};
    if (n > FEW) {
        s->rows = calloc(n, sizeof(*s->rows));
        s->real = calloc(n * RS_FDS_MAX + 2, sizeof(*s->real));
        if (!s->rows || !s->real) {
            free(s->rows);
            free(s->real);
            return -ENOMEM;
        }
    }
    s->extra_fd = extra_fd;
    s->foreign = extra_fd >= 0;
    for (nfds_t i = 0; i < n; i++) {
        s->rows[i].rs = fds[i].fd >= 0 ? rs_get(fds[i].fd) : NULL;
        s->own += s->rows[i].rs != NULL;
        s->foreign |= !s->rows[i].rs && fds[i].fd >= 0;
        fds[i].revents = 0;
    }
    return 0;
}

static void set_fini(struct set *s)
{
    for (nfds_t i = 0; i < s->n; i++)
        if (s->rows[i].rs)
            rs_put(s->rows[i].rs);
    if (s->rows != s->few_rows) {
        free(s->rows);
        free(s->real);
    }
}

enum take {
    TAKE_NOTHING,
    TAKE_UNARMED, /* completions, unless the socket is armed */
    TAKE_ALL,
};

/* The events that the program asked for; with lock. */
static short events_of(struct rsocket *rs, short asked)
{
    short events;

    if (rs->closed)
        return POLLNVAL;
    events = rs->ops->events(rs);
    if (events & POLLIN)
        events |= POLLRDNORM;
    if (events & POLLOUT)
        events |= POLLWRNORM;
    return (short)(events & (asked | ALWAYS));
}

/* Takes a socket's news and notes its events. Returns whether there are some. */
static bool look_at(struct set *s, nfds_t i, enum take take)
{
    struct rsocket *rs = s->rows[i].rs;
    bool armed;

    pthread_mutex_lock(&rs->lock);
    armed = rs->ops->armed(rs);
    if (take == TAKE_ALL || (take == TAKE_UNARMED && !armed))
        rs->ops->process(rs, take == TAKE_ALL);
    s->fds[i].revents = events_of(rs, s->fds[i].events);
    pthread_mutex_unlock(&rs->lock);
    s->armed += armed;
    return s->fds[i].revents;
}

/* All rsockets; those that are armed are left to poll(2). Returns how many have events. */
static int look(struct set *s)
{
    int found = 0;

    s->armed = 0;
    for (nfds_t i = 0; i < s->n; i++)
        if (s->rows[i].rs)
            found += look_at(s, i, TAKE_UNARMED);
    return found;
}

/* ---- sleeping ---- */

/* Descriptors that are none are left out: a process may poll no more than it may have open. */
static nfds_t add_real(struct set *s, struct pollfd fd)
{
    if (fd.fd >= 0)
        s->real[s->reals++] = fd;
    return s->reals - 1;
}

static bool is_ready(const struct set *s, int fd, nfds_t at)
{
    return fd >= 0 && s->real[at].revents;
}

/* Lists the thread with all sockets, arms them, and collects descriptors. Returns how many sockets
 * have events already. */
static int prepare(struct set *s, int own)
{
    int found = 0;

    s->reals = 0;
    for (nfds_t i = 0; i < s->n; i++) {
        struct row *row = &s->rows[i];
        struct rsocket *rs = row->rs;

        row->first = (unsigned)s->reals;
        if (!rs) {
            add_real(s, (struct pollfd){.fd = s->fds[i].fd, .events = s->fds[i].events});
            continue;
        }
        pthread_mutex_lock(&rs->lock);
        if (own >= 0) {
            rs->ops->arm(rs);
            rs_add_waiter(rs, &row->waiter, own);
            s->fds[i].revents = events_of(rs, s->fds[i].events);
            found += s->fds[i].revents != 0;
        }
        row->count = rs->ops->fds(rs, &s->real[s->reals]);
        pthread_mutex_unlock(&rs->lock);
        s->reals += row->count;
    }
    s->extra_at = add_real(s, (struct pollfd){.fd = s->extra_fd, .events = POLLIN});
    s->own_at = add_real(s, (struct pollfd){.fd = own, .events = POLLIN});
    s->listed = own >= 0;
    return found;
}

static void remove_waiters(struct set *s)
{
    for (nfds_t i = 0; i < s->n && s->listed; i++) {
        struct rsocket *rs = s->rows[i].rs;

        if (rs) {
            pthread_mutex_lock(&rs->lock);
            rs_remove_waiter(rs, &s->rows[i].waiter);
            pthread_mutex_unlock(&rs->lock);
        }
    }
    s->listed = false;
}

static void cancel_sleep(void *set)
{
    remove_waiters(set);
    set_fini(set);
}

/* After poll(2): the events of all rows. woken: sockets may have news without a descriptor. */
static int collect(struct set *s, bool woken)
{
    int found = 0;

    s->extra_ready = is_ready(s, s->extra_fd, s->extra_at);
    for (nfds_t i = 0; i < s->n; i++) {
        struct row *row = &s->rows[i];
        bool news = woken;

        if (!row->rs) {
            s->fds[i].revents = s->fds[i].fd >= 0 ? s->real[row->first].revents : 0;
            found += s->fds[i].revents != 0;
            continue;
        }
        for (unsigned k = 0; k < row->count; k++)
            news |= s->real[row->first + k].revents != 0;
        found += look_at(s, i, news ? TAKE_ALL : TAKE_NOTHING);
    }
    return found;
}

/* Looks at descriptors without sleeping. */
static int peek(struct set *s)
{
    prepare(s, -1);
    if (poll(s->real, s->reals, 0) < 0)
        return -errno;
    return collect(s, false);
}

/* Sleeps once. Returns how many rows have events, or a negative errno. */
static int sleep_once(struct set *s, int own, int64_t deadline)
{
    int found = prepare(s, own), got;

    got =
        rs_sleep(s->real, s->reals, found ? 0 : rs_poll_ms(deadline), &s->signals, cancel_sleep, s);
    remove_waiters(s);
    rs_wake_drain(own);
    if (got < 0)
        return found ? found : got;
    return collect(s, is_ready(s, own, s->own_at));
}

/* The same for a thread that has no descriptor to be woken by, since the process has too many. */
static int sleep_in_slices(struct set *s, int64_t deadline)
{
    int ms = rs_ms_until(deadline), found, got;

    got = rs_sleep(NULL, 0, ms < RS_SLICE_MS ? ms : RS_SLICE_MS, &s->signals, cancel_sleep, s);
    found = look(s);
    found = found ? found : peek(s);
    return !found && got < 0 ? got : found;
}

/* ---- polling ---- */

/*
 * What there is now, and within the time that is spent before a sleep. Those that poll(2) has to
 * look at are not starved by others that always have events.
 */
static int poll_awake(struct set *s, int timeout_ms)
{
    int64_t until = rs_now_ns() + rs_config()->polling_us * (int64_t)NS_PER_US;

    for (;;) {
        int found = look(s);

        if (found || timeout_ms == 0)
            return s->foreign || s->armed ? peek(s) : found;
        if (s->armed == s->own || rs_now_ns() >= until)
            return 0;
    }
}

static int poll_set(struct set *s, int timeout_ms)
{
    int64_t deadline = timeout_ms < 0 ? RS_FOREVER : rs_now_ns() + timeout_ms * (int64_t)NS_PER_MS;
    int found = poll_awake(s, timeout_ms), own;

    if (found || timeout_ms == 0 || s->extra_ready)
        return found;
    own = rs_wake_fd();
    rs_hold_signals(&s->signals);
    do
        found = own >= 0 ? sleep_once(s, own, deadline) : sleep_in_slices(s, deadline);
    while (!found && !s->extra_ready && (deadline == RS_FOREVER || rs_now_ns() < deadline));
    rs_release_signals(&s->signals);
    return found;
}

int rs_poll(struct pollfd *fds, nfds_t n, int timeout_ms, int extra_fd)
{
    struct set s;
    int found = set_init(&s, fds, n, extra_fd);

    if (found)
        return found;
    found = poll_set(&s, timeout_ms);
    set_fini(&s);
    return found;
}
