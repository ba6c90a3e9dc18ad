/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wakes workers when a port's descriptor becomes readable: one thread waits in epoll_wait for the
 * descriptors of all workers and kicks the worker concerned.
 */
#ifndef UROCE_WAKER_H
#define UROCE_WAKER_H

#include <stdatomic.h>
#include <stdbool.h>

struct waker;

/* One watched descriptor, in its owner's memory. */
struct waker_source {
    int fd;
    _Atomic bool armed; /* epoll will report it once */
    void (*kick)(void *arg);
    void *arg;
};

/* NULL, and *err a negative errno: no memory or descriptor is left. Control thread. */
struct waker *waker_create(int *err);

/* Adds s->fd, not armed yet. The waker's thread calls kick(arg). 0 or a negative errno. Control
 * thread. */
int waker_add(struct waker *k, struct waker_source *s);

/* Arms s: one kick, as soon as its descriptor is readable. The source's worker. */
void waker_arm(struct waker *k, struct waker_source *s);

/* The waker's thread: runs until waker_stop. */
void *waker_run(void *waker);
/* Any thread. */
void waker_stop(struct waker *k);
/* After the thread has ended. */
void waker_destroy(struct waker *k);

#endif
