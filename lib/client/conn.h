/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection to uroced: requests and their replies (ctl_msg.h), one at a time.
 *
 * The socket is $UROCE_SOCKET if set, and then no other; else /run/uroce.sock, else
 * $XDG_RUNTIME_DIR/uroce.sock.
 *
 * A connection belongs to the process that made it. In a forked child every call fails with
 * -EIO, so that a child cannot get the parent's replies; it opens a connection of its own. Its copy
 * of the parent's socket is closed at the fork: the connection ends when the parent ends or
 * executes another program, whatever children it has.
 */
#ifndef UROCE_CONN_H
#define UROCE_CONN_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "ctl_msg.h"

/* What a call waits for its reply. */
#define CONN_REPLY_SECONDS 30

struct conn {
    pthread_mutex_t lock;
    int sock;              /* -1: closed */
    LIST_ENTRY(conn) link; /* while it is open: conn.c */
    uint32_t seq;
    pid_t pid;
    bool broken; /* a reply was lost: nothing can be trusted to match any more */
};

/* Connects; *c must stay in place until conn_close. Returns 0; -ENOENT or -ECONNREFUSED when no
 * daemon listens; -EACCES; or another negative errno. On failure *c needs no conn_close. */
int conn_open(struct conn *c);

/* Closes: the daemon destroys all objects of the connection. */
void conn_close(struct conn *c);

/*
 * Sends *m as a request of `type` with nfds descriptors, and receives the reply into *m and exactly
 * `want` descriptors into got[] (the caller's to close). Blocks until the reply is there, at most
 * half a minute. Any thread; not a cancellation point. Returns the daemon's status (0 or a negative
 * errno), or -EIO when the daemon is gone, has not answered in time, or answered something else.
 */
int conn_call(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds, unsigned nfds,
              int *got, unsigned want);

/*
 * conn_call without descriptors in the request, for replies that change what later ones mean: after
 * status 0, `then` is called with the reply's descriptors under the connection's lock, so in the
 * replies' order. Returning 0 it has taken the descriptors; otherwise they are closed, and the
 * connection can be used no more.
 */
int conn_call_then(struct conn *c, enum ctl_type type, struct ctl_msg *m,
                   int (*then)(void *arg, const int *fd, unsigned fds), void *arg);

/* conn_call for a request whose argument is a handle and whose reply is only a status. */
int conn_call_handle(struct conn *c, enum ctl_type type, uint32_t handle);

#endif
