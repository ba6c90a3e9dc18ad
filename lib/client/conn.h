/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection to uroced: requests and their replies (ctl_msg.h), one at a time.
 *
 * The socket is $UROCE_SOCKET if that is set; else /run/uroce.sock, or, if no daemon listens there,
 * $XDG_RUNTIME_DIR/uroce.sock (/run/user/UID if that is not set).
 *
 * A connection belongs to the process that made it. In a forked child every call fails with -EIO,
 * so that the child cannot receive the parent's replies; it opens a connection of its own. The fork
 * closes the child's copy of the socket: the connection ends when the parent ends or executes
 * another program, whether or not it has children. A child that goes on alone can take over what
 * the connection was for (conn_inherit). The child is a fork() that runs the handlers of
 * pthread_atfork(); after _Fork() or a bare clone() a program calls nothing of this library.
 */
#ifndef UROCE_CONN_H
#define UROCE_CONN_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "ctl_msg.h"

/* How long a call waits for its reply, and how long it asks again. */
#define CONN_REPLY_SECONDS 30
#define CONN_HEIR_MS       200

struct conn {
    pthread_mutex_t lock;
    int sock;              /* -1: closed */
    LIST_ENTRY(conn) link; /* while it is open: conn.c */
    uint32_t seq;
    _Atomic int objects;    /* that requests have created, and none has destroyed */
    _Atomic bool inherited; /* by a forked child: conn.c */
    bool has_waited;        /* for the parent's end */
    /* Called for a request while it is inherited: 0: it is not any more. NULL: requests fail. */
    int (*inherit)(struct conn *c);
    bool broken; /* a reply was lost: later ones cannot be matched any more */
};

/* Connects; *c must stay in place until conn_close. Returns 0; -ENOENT or -ECONNREFUSED when no
 * daemon listens; -EACCES; -ETIMEDOUT: it has not taken others' connections for CONN_REPLY_SECONDS;
 * or another negative errno. On failure *c needs no conn_close. Not a cancellation point. */
int conn_open(struct conn *c);

/* Whether this process made it. Any thread. */
bool conn_is_ours(const struct conn *c);

/*
 * An inherited connection becomes this process's: the daemon gives it the context with this key, if
 * the process that had it has ended. While that process has not ended the first call waits for it,
 * for at most CONN_HEIR_MS: a parent may be about to. One thread at a time. 0; -EAGAIN: it has not
 * ended; or another negative errno.
 */
int conn_inherit(struct conn *c, const uint64_t key[2]);

/* What conn_inherit took over is ready: from now on conn_is_ours says so, and calls are made. */
void conn_inherited(struct conn *c);

/* Closes the connection: the daemon destroys all of its objects. */
void conn_close(struct conn *c);

/*
 * Sends *m as a request of `type` with nfds descriptors, and receives the reply into *m and exactly
 * `want` descriptors into got[] (the caller's to close). Blocks until the reply arrives, at most
 * CONN_REPLY_SECONDS. Any thread; not a cancellation point. Returns the daemon's status (0 or a
 * negative errno), or -EIO: the daemon is gone, did not answer in time, or sent another reply.
 * -EMFILE: the reply's descriptors found no room; what the daemon has made is ended again.
 *
 * A request to destroy something, to freeze or to remap memory is sent again, for at most
 * CONN_REPLY_SECONDS more, while the daemon answers -EAGAIN: it still waits for memory of this
 * program, or the program has no credit to stop workers. In that time other calls get through.
 *
 * When the daemon has ended the connection, it has destroyed all objects. A request to destroy one
 * then succeeds, with a reply of zeros.
 */
int conn_call(struct conn *c, enum ctl_type type, struct ctl_msg *m, const int *fds, unsigned nfds,
              int *got, unsigned want);

/*
 * Sends *m as a request without descriptors and without a reply. Blocks while the daemon has too
 * many of them to serve, at most CONN_REPLY_SECONDS. Any thread; not a cancellation point. 0; -EIO:
 * the daemon is gone, or does not serve.
 */
int conn_post(struct conn *c, enum ctl_type type, struct ctl_msg *m);

/* When to send a request again that was answered with -EAGAIN. At first all zeros. */
struct conn_retry {
    time_t until;
    long pause; /* ns */
};

/* Waits for 1 to 20 ms. Not a cancellation point. False: the time is over. */
bool conn_wait(struct conn_retry *p);

/* conn_call_handle that is not sent again: for callers that release locks before conn_wait. */
int conn_try_handle(struct conn *c, enum ctl_type type, uint32_t handle);

/*
 * conn_call without descriptors in the request, for replies that change what later ones mean. After
 * status 0 it calls `then` with the reply's descriptors under the connection's lock, so in the
 * order of the replies. When `then` returns 0 the descriptors are its own; otherwise they are
 * closed, and the connection is broken.
 */
int conn_call_then(struct conn *c, enum ctl_type type, struct ctl_msg *m,
                   int (*then)(void *arg, const int *fd, unsigned fds), void *arg);

/*
 * Whether the connection has ended: the daemon ended it, or is gone, or the process has closed the
 * descriptor. A daemon that is only slow or stopped keeps it. False in a forked child, to which the
 * connection does not belong. One system call; any thread; not a cancellation point.
 */
bool conn_hung_up(const struct conn *c);

/* conn_call for a request that is a handle, and a reply that is a status. */
int conn_call_handle(struct conn *c, enum ctl_type type, uint32_t handle);

#endif
