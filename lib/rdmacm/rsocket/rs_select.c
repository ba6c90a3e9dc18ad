/* SPDX-License-Identifier: BSD-3-Clause */
/* rselect: sets of descriptors as an array for rpoll, and back. */
#include <errno.h>
#include <stdlib.h>

#include "rs_select.h"
#include "rs_socket.h"

#define MS_PER_SEC 1000
#define US_PER_MS  1000

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

/* As select(2) counts: each set's descriptors. */
static int from_array(const struct pollfd *fds, nfds_t n, fd_set *r, fd_set *w, fd_set *e)
{
    int count = 0;

    for (nfds_t i = 0; i < n; i++) {
        const struct pollfd *p = &fds[i];

        if (p->events & POLLIN && p->revents & (POLLIN | POLLHUP | POLLERR)) {
            FD_SET(p->fd, r);
            count++;
        }
        if (p->events & POLLOUT && p->revents & (POLLOUT | POLLERR)) {
            FD_SET(p->fd, w);
            count++;
        }
        if (p->events & POLLPRI && p->revents & POLLPRI) {
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

static int milliseconds(const struct timeval *t)
{
    int64_t ms;

    if (!t)
        return -1;
    ms = (int64_t)t->tv_sec * MS_PER_SEC + (t->tv_usec + US_PER_MS - 1) / US_PER_MS;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
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
    found = rs_poll(fds, count, milliseconds(timeout), -1);
    for (nfds_t i = 0; i < count && found > 0; i++)
        if (fds[i].revents & POLLNVAL)
            found = -EBADF;
    if (found >= 0) {
        clear(r);
        clear(w);
        clear(e);
        found = from_array(fds, count, r, w, e);
    }
    free(fds);
    return found;
}
