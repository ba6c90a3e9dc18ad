/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the exported functions have in common: their results, and pthread_cancel.
 *
 * A call changes lists, locks and descriptors, so it forbids that its thread is cancelled. Calls
 * whose namesakes of sockets are cancellation points are ones at two places: at their beginning,
 * where they have nothing, and in a sleep, which releases then all that the call has. rclose is
 * none: it would have to be called again, and a cancelled thread cannot.
 */
#ifndef UROCE_RS_CALL_H
#define UROCE_RS_CALL_H

#include <errno.h>

#include "rs_socket.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- rs_cancel.c ---- */

enum rs_cancel {
    RS_CANCEL_NEVER,
    RS_CANCEL_SLEEP, /* a cancellation point */
};

/* How it was before the call, which may have interrupted another one: in a signal's handler. */
struct rs_call {
    int state, sleep_state;
};

struct rs_call rs_call_begin(enum rs_cancel cancel);
void rs_call_end(const struct rs_call *c);

/* The first line of an exported function that calls no other one. */
#define CALL(cancel) \
    __attribute__((cleanup(rs_call_end), unused)) const struct rs_call call_ = rs_call_begin(cancel)

/* ---- results ---- */

/* The result of an internal function as that of an exported one. */
static inline ssize_t result(ssize_t n)
{
    if (n >= 0)
        return n;
    errno = (int)-n;
    return -1;
}

static inline int result_int(int n)
{
    return (int)result(n);
}

/* Calls an internal function with the socket's lock. */
#define LOCKED(rs, call)                   \
    ({                                     \
        int locked_result_;                \
        pthread_mutex_lock(&(rs)->lock);   \
        locked_result_ = (call);           \
        pthread_mutex_unlock(&(rs)->lock); \
        rs_put(rs);                        \
        result_int(locked_result_);        \
    })

static inline struct rsocket *get(int socket)
{
    struct rsocket *rs = rs_get(socket);

    if (!rs)
        errno = EBADF;
    return rs;
}

static inline bool is_stream(const struct rsocket *rs)
{
    return rs->type == SOCK_STREAM;
}

/* As accept(2): what fits, and how much it would be. */
void rs_give_addr(const struct sockaddr_storage *from, struct sockaddr *addr, socklen_t *length);

#endif
