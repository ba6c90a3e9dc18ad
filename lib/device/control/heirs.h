/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts whose process has ended, or has closed its connection, while a child of it may go on
 * with them (inherit.h): a process that becomes a daemon leaves its context to its child. While any
 * process has the application's end of the event socket open, the context waits, for at most
 * HEIR_SECONDS. Control thread.
 */
#ifndef UROCE_DEVICE_HEIRS_H
#define UROCE_DEVICE_HEIRS_H

#include <stdbool.h>
#include <sys/queue.h>
#include <time.h>

#include "event_loop.h"

#define HEIR_SECONDS 5

/* A context that waits, in its owner's memory until heirs_forget or `end`. */
struct heir_wait {
    TAILQ_ENTRY(heir_wait) link;
    struct heirs *all; /* NULL: it does not wait */
    struct event_source async;
    time_t until;
    void (*end)(struct heir_wait *w); /* nothing waits for it any more: no child can come */
};

struct heirs {
    struct event_loop *loop;
    struct event_source timer;
    TAILQ_HEAD(, heir_wait) waits; /* the first ends first */
};

time_t monotonic_seconds(void);

void heirs_init(struct heirs *h, struct event_loop *loop);
/* None waits. */
void heirs_fini(struct heirs *h);
/* Whether a process has the other end of the event socket open. */
bool heirs_possible(int async_fd);
/* w, zeroed except for `end`, waits. 0 or a negative errno. */
int heirs_await(struct heirs *h, struct heir_wait *w, int async_fd);
/* It waits no more, if it did. */
void heirs_forget(struct heir_wait *w);

#endif
