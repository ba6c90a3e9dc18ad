/* SPDX-License-Identifier: BSD-3-Clause */
/* rselect: sets of descriptors as an array for rpoll, and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common.h"
#include "rs_select.h"
#include "rs_socket.h"

#define US_PER_MS 1000

/* ---- sets: as select(2) programs may have longer ones than an fd_set ---- */

static fd_mask *word_of(int fd, const fd_set *set)
{
    return (fd_mask *)(uintptr_t)set + fd / NFDBITS;
}

static fd_mask bit_of(int fd)
{
    return (fd_mask)(1UL << fd % NFDBITS);
}

static bool in(int fd, const fd_set *set)
{
    return set && *word_of(fd, set) & bit_of(fd);
}

static void put(int fd, fd_set *set)
{
    *word_of(fd, set) |= bit_of(fd);
}

static void clear(int n, fd_set *set)
{
    if (set)
        memset(set, 0, (size_t)(n + NFDBITS - 1) / NFDBITS * sizeof(fd_mask));
}

/* No process has descriptors beyond; as the kernel does, they are not looked at. */
static int bound(int n)
{
    struct rlimit limit;
    rlim_t most = FD_SETSIZE;

    if (!getrlimit(RLIMIT_NOFILE, &limit))
        most = max_of(most, limit.rlim_cur);
    return (int)min_of((rlim_t)n, most);
}

/* ---- and arrays for rpoll ---- */

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
            put(p->fd, r);
            count++;
        }
        if (is_writable(p)) {
            put(p->fd, w);
            count++;
        }
        if (is_exceptional(p)) {
            put(p->fd, e);
            count++;
        }
    }
    return count;
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

/* A thread that is cancelled leaves nothing behind. */
static int poll_with(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int found;

    pthread_cleanup_push(free, fds);
    found = poll_for(fds, n, timeout_ms);
    pthread_cleanup_pop(0);
    return found;
}

int rs_select(int n, fd_set *r, fd_set *w, fd_set *e, const struct timeval *timeout)
{
    struct pollfd *fds;
    nfds_t count;
    int found;

    if (n < 0 || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
        return -EINVAL;
    n = bound(n);
    fds = calloc((size_t)n + 1, sizeof(*fds));
    if (!fds)
        return -ENOMEM;
    count = to_array(fds, n, r, w, e);
    found = poll_with(fds, count, milliseconds(timeout));
    if (found >= 0) {
        clear(n, r);
        clear(n, w);
        clear(n, e);
        found = from_array(fds, count, r, w, e);
    }
    free(fds);
    return found;
}
