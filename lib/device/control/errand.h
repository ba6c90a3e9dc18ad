/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that may wait for something that an application controls: the close of a descriptor that it
 * passed (FUSE, a lingering socket), a look at its process or at a file of its own. Such a call is
 * an errand. It runs on a thread of its own, so that the control thread serves other applications
 * in the meantime.
 *
 * Each process has few threads at a time, and so has each user. The errands of a process whose
 * threads all wait stay in line; those of others do not.
 *
 * The close of a socket with SO_LINGER may wait for hours. A signal interrupts it, so that a
 * program without privileges cannot keep threads in this way.
 */
#ifndef UROCE_DEVICE_ERRAND_H
#define UROCE_DEVICE_ERRAND_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common.h"

struct event_loop;
struct errands;
struct quota_account;

#define ERRAND_CLIENT_THREADS 4   /* of a process, at a time */
#define ERRAND_USER_THREADS   64  /* of a user */
#define ERRAND_THREADS        512 /* of all users */

#define ERRAND_LATE NS_PER_SEC /* then the application is named */

/* An errand that runs. */
struct late_errand {
    pid_t pid; /* -1: the daemon's own */
    uid_t uid;
    bool is_close;
    ns_t since; /* worker_time() */
};

struct errand {
    STAILQ_ENTRY(errand) link;
    struct errand_client *client;
    bool is_close;                  /* run closes descriptors, which a signal may interrupt */
    void (*run)(struct errand *e);  /* on a thread of the pool */
    void (*done)(struct errand *e); /* later, on the control thread; NULL: run has freed e */
};

/* The pool, whose results arrive by the loop. NULL and *err, a negative errno. Control thread, as
 * are all functions here. */
struct errands *errands_create(struct event_loop *loop, int *err);

/* Calls fn once for each errand that has lasted for ERRAND_LATE: for a log. */
void errands_on_late(struct errands *es, void (*fn)(void *ctx, const struct late_errand *late),
                     void *ctx);

/* The errands that have lasted for ERRAND_LATE, at most `room` of them. es NULL: 0. */
unsigned errands_late(const struct errands *es, struct late_errand *out, unsigned room);

/* Lets all errands end, for at most a second. Those that still wait keep their memory, and that of
 * the pool, until the process ends. */
void errands_destroy(struct errands *es);

/* Runs e, which the caller allocated and filled in (run, done), for the process peer of a user. es
 * NULL: in place. */
void errands_post(struct errands *es, const struct ucred *peer, struct errand *e);

/* Closes a descriptor that an application passed, as an errand of it: the close of a memfd
 * may take long too, as its pages are freed with the last descriptor. es NULL, or out of memory: in
 * place. */
void errands_close(struct errands *es, const struct ucred *peer, int fd);

/* Closes a file of the daemon's own, whose pages may be many, in a line that no application has.
 * After that it closes the account, if there is one. es NULL, or out of memory: in place. */
void errands_close_own(struct errands *es, int fd, struct quota_account *account);

/* The errands of a user that have not ended. es NULL: 0. */
unsigned errands_pending(const struct errands *es, uid_t uid);

#endif
