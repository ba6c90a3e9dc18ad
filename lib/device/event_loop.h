/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's event loop: epoll with a function per descriptor. One thread. */
#ifndef UROCE_EVENT_LOOP_H
#define UROCE_EVENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_loop;

/* A watched descriptor, in its owner's memory until event_loop_remove. */
struct event_source {
    int fd;
    void (*ready)(struct event_source *s, uint32_t events); /* EPOLLIN and so on */
    bool added;
};

/* NULL and *err, a negative errno. */
struct event_loop *event_loop_create(int *err);
void event_loop_destroy(struct event_loop *l);
/* Readable while a descriptor of the loop is ready: another loop may watch it. */
int event_loop_fd(const struct event_loop *l);

/* Watches s->fd for events (level-triggered). Adding again changes the events. 0 or a
 * negative errno. */
int event_loop_add(struct event_loop *l, struct event_source *s, uint32_t events);
void event_loop_remove(struct event_loop *l, struct event_source *s);

/* Work that is done in slices while no descriptor waits long, in its owner's memory. */
struct event_job {
    TAILQ_ENTRY(event_job) link;
    bool (*run)(struct event_job *j); /* a slice; true: there is more. It may free the job. */
};

/* Runs a slice of the job in each turn of the loop; several jobs take turns. Until run returns
 * false. */
void event_loop_start(struct event_loop *l, struct event_job *j);

/* Ends a job that has more to do. Not from its run. */
void event_loop_stop(struct event_loop *l, struct event_job *j);

/* Runs j once, as soon as no descriptor waits, and at the latest after EVENT_LOOP_BUSY turns in
 * which one did: for work that grows cheaper when there is more of it. What run returns does not
 * count. */
#define EVENT_LOOP_BUSY 16
void event_loop_when_idle(struct event_loop *l, struct event_job *j);
/* Then it does not. */
void event_loop_not_when_idle(struct event_loop *l, struct event_job *j);

/* Waits at most timeout_ms (-1: no limit) and serves one descriptor; then runs what waits for an
 * idle loop, if it is its time, and a slice of a job, for which nothing waits. One descriptor only,
 * so that a function can remove others without their being served from a list fetched before.
 * Returns whether one was served, or a slice was run. */
bool event_loop_step(struct event_loop *l, int timeout_ms);

#endif
