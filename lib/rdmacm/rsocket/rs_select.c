/* SPDX-License-Identifier: BSD-3-Clause */
/* rselect: sets of descriptors as an array for rpoll, and back. */
#include <errno.h>
#include <stdlib.h>

#include "common.h"
#include "rs_select.h"
#include "rs_socket.h"

#define US_PER_MS 1000

static bool in(int fd, const fd_set *set)
{
    return set && FD_ISSET(fd, set);
}

static nfds_t to_array(struct pollfd *fds, int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
    nfds_t count = 0;

    for (int fd = 0; fd < n; fd++) {
        short events = (short)((in(fd, r) ? POLLIN : 0) | (in(fd, w) ? POLLOUT : 0) |
                               (in(fd, e) ? POLLPRI : 0));

        if (events)
            fds[count++] = (struct pollfd){.fd = fd, .events = events};
    }
    return count;
}

static bool is_readable(const struct pollfd *p)
{
    return p->events & POLLIN && p->revents & (POLLIN | POLLHUP | POLLERR);
}

static bool is_writable(const struct pollfd *p)
{
    return p->events & POLLOUT && p->revents & (POLLOUT | POLLERR);
}

static bool is_exceptional(const struct pollfd *p)
{
    return p->events & POLLPRI && p->revents & POLLPRI;
}

static bool is_in_a_set(const struct pollfd *p)
{
    return is_readable(p) || is_writable(p) || is_exceptional(p);
}

/* As select(2) counts: each set's descriptors. */
static int from_array(const struct pollfd *fds, nfds_t n, fd_set *r, fd_set *w, fd_set *e)
{
    int count = 0;

    for (nfds_t i = 0; i < n; i++) {
        const struct pollfd *p = &fds[i];

        if (is_readable(p)) {
            FD_SET(p->fd, r);
            count++;
        }
        if (is_writable(p)) {
            FD_SET(p->fd, w);
            count++;
        }
        if (is_exceptional(p)) {
            FD_SET(p->fd, e);
            count++;
        }
    }
    return count;
}

static void clear(fd_set *set)
{
    if (set)
        FD_ZERO(set);
}

/* The longest time is that of rpoll. */
static int milliseconds(const struct timeval *t)
{
    int64_t ms;

    if (!t)
        return -1;
    if (t->tv_sec > INT32_MAX / MS_PER_SEC || t->tv_usec / US_PER_MS > INT32_MAX)
        return INT32_MAX;
    ms = (int64_t)t->tv_sec * MS_PER_SEC + (t->tv_usec + US_PER_MS - 1) / US_PER_MS;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Leaves out descriptors whose events are in none of the sets, such as the end of a connection for
 * one that is asked for exceptional conditions alone: rpoll always tells of these. */
static void leave_out(struct pollfd *fds, nfds_t n)
{
    for (nfds_t i = 0; i < n; i++)
        if (fds[i].revents && !is_in_a_set(&fds[i]))
            fds[i].fd = -1;
}

static int poll_for(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int64_t deadline = timeout_ms < 0 ? RS_FOREVER : rs_now_ns() + timeout_ms * (int64_t)NS_PER_MS;

    for (;;) {
        int found = rs_poll(fds, n, timeout_ms < 0 ? -1 : rs_ms_until(deadline), -1);
        bool any = false;

        for (nfds_t i = 0; i < n && found > 0; i++) {
            if (fds[i].revents & POLLNVAL)
                return -EBADF;
            any |= is_in_a_set(&fds[i]);
        }
        if (found <= 0 || any)
            return found;
        leave_out(fds, n);
    }
}

int rs_select(int n, fd_set *r, fd_set *w, fd_set *e, const struct timeval *timeout)
{
    struct pollfd *fds;
    nfds_t count;
    int found;

    if (n < 0 || n > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
        return -EINVAL;
    fds = calloc((size_t)n + 1, sizeof(*fds));
    if (!fds)
        return -ENOMEM;
    count = to_array(fds, n, r, w, e);
    pthread_cleanup_push(free, fds);
    found = poll_for(fds, count, milliseconds(timeout));
    pthread_cleanup_pop(0);
    if (found >= 0) {
        clear(r);
        clear(w);
        clear(e);
        found = from_array(fds, count, r, w, e);
    }
    free(fds);
    return found;
}
