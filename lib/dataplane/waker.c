/* SPDX-License-Identifier: BSD-3-Clause */
/* One epoll set of one-shot descriptors; see waker.h. */
#include "waker.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct waker {
    int epoll_fd, stop_fd;
};

struct waker *waker_create(int *err)
{
    struct waker *k = calloc(1, sizeof(*k));
    struct epoll_event ev = {.events = EPOLLIN};

    if (!k) {
        *err = -ENOMEM;
        return NULL;
    }
    k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    k->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->epoll_fd < 0 || k->stop_fd < 0 ||
        epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, k->stop_fd, &ev)) {
        *err = -errno;
        waker_destroy(k);
        return NULL;
    }
    return k;
}

int waker_add(struct waker *k, struct waker_source *s)
{
    struct epoll_event ev = {.events = EPOLLONESHOT, .data.ptr = s};

    atomic_store(&s->armed, false);
    return epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) ? -errno : 0;
}

void waker_arm(struct waker *k, struct waker_source *s)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = s};

    /* No system call if it is still armed, because something else ended the last sleep. */
    if (!atomic_exchange(&s->armed, true))
        epoll_ctl(k->epoll_fd, EPOLL_CTL_MOD, s->fd, &ev);
}

void *waker_run(void *waker)
{
    struct waker *k = waker;
    struct epoll_event ev[16];

    for (;;) {
        int n = epoll_wait(k->epoll_fd, ev, 16, -1);

        for (int i = 0; i < n; i++) {
            struct waker_source *s = ev[i].data.ptr;

            if (!s)
                return NULL;
            atomic_store(&s->armed, false);
            s->kick(s->arg);
        }
    }
}

void waker_stop(struct waker *k)
{
    uint64_t one = 1;

    while (write(k->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void waker_destroy(struct waker *k)
{
    if (k->epoll_fd >= 0)
        close(k->epoll_fd);
    if (k->stop_fd >= 0)
        close(k->stop_fd);
    free(k);
}
