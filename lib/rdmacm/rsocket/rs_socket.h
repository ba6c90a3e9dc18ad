/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rsockets of both kinds have in common. Internal functions return a negative errno; the
 * exported ones (rsocket.c) turn it into -1 and errno.
 *
 * A lock guards all fields, and is held for short times: bytes are copied without it, and a thread
 * that sends or receives has its turn from the first byte to the last.
 */
#ifndef UROCE_RS_SOCKET_H
#define UROCE_RS_SOCKET_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "rs_config.h"
#include "rs_table.h"

struct rsocket;

/* A thread that sleeps until something happens to a socket. */
struct rs_waiter {
    struct rs_waiter *next;
    int fd; /* the thread's eventfd */
};

/* Of the threads that send with a socket, or receive, one at a time. */
struct rs_turn {
    bool taken;
    pthread_t by;        /* the thread that has it */
    pthread_cond_t left; /* with the socket's lock */
};

struct rs_options {
    uint32_t recv_buffer, send_buffer, send_queue, recv_queue, inline_size, iomap_entries;
    uint32_t recv_timeout_ms, send_timeout_ms; /* 0: none */
    struct linger linger;
    bool reuse_address, keep_alive, oob_inline, no_delay, v6_only;
    int max_segment;
    uint8_t tos;
    void *route; /* of RDMA_ROUTE */
    size_t route_size;
};

#define RS_FDS_MAX 3

/* What the two kinds do differently. Called with lock held, but for those that say otherwise. */
struct rs_ops {
    /* Takes what has arrived; cm: also looks at descriptors that seldom have news. */
    void (*process)(struct rsocket *rs, bool cm);
    /* From now on completions make the descriptors readable. Takes what arrived before. */
    void (*arm)(struct rsocket *rs);
    /* Whether it is armed: all that can arrive makes the descriptors readable. */
    bool (*armed)(const struct rsocket *rs);
    /* Descriptors to sleep on; returns their number. */
    unsigned (*fds)(const struct rsocket *rs, struct pollfd *fds);
    /* POLLIN, POLLOUT, POLLERR, POLLHUP as they are now. */
    short (*events)(struct rsocket *rs);

    int (*bind)(struct rsocket *rs, const struct sockaddr *addr, socklen_t length);
    int (*connect)(struct rsocket *rs, const struct sockaddr *addr, socklen_t length);
    int (*name)(struct rsocket *rs, bool peer, struct sockaddr_storage *addr);
    int (*shutdown)(struct rsocket *rs, int how);
    /* Options of the lower layers: before or while they exist. */
    int (*apply)(struct rsocket *rs, int level, int name, int value);

    /* Without lock. from, to: may be NULL; length in and out. */
    ssize_t (*recv)(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                    struct sockaddr_storage *from);
    ssize_t (*send)(struct rsocket *rs, const struct iovec *iov, int n, int flags,
                    const struct sockaddr *to, socklen_t length);
    /* At the process's exit (rs_exit.c). Both look at completions, and at no connection: nothing
     * there takes a lock that another thread may hold for long, or asks the daemon.
     * Says that no more is sent. */
    void (*finish)(struct rsocket *rs);
    /* Whether the peers have what was sent, or will not get it. */
    bool (*is_sent)(struct rsocket *rs);
    /* Without lock: ends the connection, waiting for what was sent. */
    void (*close)(struct rsocket *rs);
    /* Without lock, by the last user. */
    void (*destroy)(struct rsocket *rs);
    /* A step of what the service thread does for a socket that it watches (rs_service.h). False:
     * there is nothing more to do until the first descriptor is readable again. */
    bool (*serve)(struct rsocket *rs);
};

struct rsocket {
    struct rs_object object; /* first: what the table holds */
    const struct rs_ops *ops;
    int family, type;
    pthread_mutex_t lock;
    struct rs_turn sending, receiving;
    struct rs_waiter *waiters;
    struct rs_options options;
    int flags;   /* O_NONBLOCK */
    int error;   /* of SO_ERROR */
    bool closed; /* rclose was called; calls of other threads end */
    pid_t owner; /* a forked child has no part in the connection */
};

/* ---- rs_object.c ---- */

/* Fields that both kinds have; inherits options when parent is not NULL. */
void rs_init(struct rsocket *rs, const struct rs_ops *ops, int family, int type,
             const struct rsocket *parent);
void rs_fini(struct rsocket *rs);
/* The socket of a descriptor, or NULL; to be returned by rs_put. */
struct rsocket *rs_get(int fd);
void rs_put(struct rsocket *rs);

static inline bool rs_nonblocking(const struct rsocket *rs, int flags)
{
    return flags & MSG_DONTWAIT || rs->flags & O_NONBLOCK;
}

/* The pending error, which is reported once. */
static inline int rs_take_error(struct rsocket *rs)
{
    int error = rs->error;

    rs->error = 0;
    return error;
}

static inline socklen_t rs_addr_size(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* The bytes of all pieces. */
size_t rs_iov_size(const struct iovec *iov, int n);
/* Copies n bytes from offset skip of the pieces, or to it. */
void rs_iov_gather(void *to, const struct iovec *iov, size_t skip, size_t n);
void rs_iov_scatter(const struct iovec *iov, size_t skip, const void *from, size_t n);

int rs_set_nonblocking(int fd);

/* ---- rs_addr.c ---- */

/* Makes a mapped IPv4 address AF_INET. */
void rs_addr_plain(struct sockaddr_storage *addr);
/* An address of the program's: -EINVAL, or -EAFNOSUPPORT when the socket cannot have such ones. One
 * of AF_INET6 takes those of IPv4, too. */
int rs_addr_of(const struct rsocket *rs, const struct sockaddr *addr, socklen_t length,
               struct sockaddr_storage *plain);
/* In the family of the socket. */
struct sockaddr_storage rs_addr_given(const struct rsocket *rs, const struct sockaddr *plain);

/* ---- rs_wait.c ---- */

#define RS_FOREVER INT64_MAX

int64_t rs_now_ns(void);
/* Of a timeout in milliseconds; 0: RS_FOREVER. */
int64_t rs_deadline(uint32_t timeout_ms);
/* Until the deadline, for poll(2): rounded up, at most the configured wake-up interval. */
int rs_poll_ms(int64_t deadline);
/* The same without that limit: INT_MAX at most. */
int rs_ms_until(int64_t deadline);

/* How long a thread sleeps at a time that cannot be woken by others, in ms. */
#define RS_SLICE_MS 10
#define MS_PER_SEC  1000

/*
 * Sleeps until done, with lock held outside the sleep. Returns 0, -EAGAIN after the deadline, or
 * -EINTR. A thread that is cancelled there leaves its turns, and returns the call's reference to
 * the socket (rs_put).
 */
int rs_wait(struct rsocket *rs, bool (*done)(struct rsocket *rs), int64_t deadline);

/* Something happened that may concern other threads. With lock. */
void rs_wake(struct rsocket *rs);

/* The calling thread's eventfd, or a negative errno; and to make it unreadable. */
int rs_wake_fd(void);
void rs_wake_drain(int fd);
void rs_add_waiter(struct rsocket *rs, struct rs_waiter *w, int fd);
void rs_remove_waiter(struct rsocket *rs, struct rs_waiter *w);

/* ---- rs_cancel.c: what a call that may be cancelled does without working (rs_call.h) ---- */

/*
 * Around a call's sleeps: signals, but those of faults, are handled in rs_sleep alone. So one that
 * arrives between two sleeps ends the second one. *before: for both of the functions behind.
 */
void rs_hold_signals(sigset_t *before);
void rs_release_signals(const sigset_t *before);
/* ppoll(2) of the calling thread with these signals; when that is cancelled there, they are as they
 * were, and `undo` is called. Returns as ppoll, or a negative errno. */
int rs_sleep(struct pollfd *fds, nfds_t n, int ms, const sigset_t *before, void (*undo)(void *arg),
             void *arg);

/* With lock. Returns 0, or -EAGAIN: not at once, or not in time. timeout_ms 0: none. A thread that
 * is cancelled here returns the call's reference. */
int rs_turn_take(struct rsocket *rs, struct rs_turn *t, bool nonblocking, uint32_t timeout_ms);
void rs_turn_leave(struct rs_turn *t);

/* The calling thread is cancelled: leaves its turns, the lock, which it has, and the reference. */
void rs_leave_cancelled(struct rsocket *rs);

/* ---- rs_poll.c ---- */

/* rpoll, with one more descriptor (or -1) that ends it when it is readable. When the thread is
 * cancelled, nothing is left but what the caller has. */
int rs_poll(struct pollfd *fds, nfds_t n, int timeout_ms, int extra_fd);

/* ---- rs_options.c ---- */

int rs_set_option(struct rsocket *rs, int level, int name, const void *value, socklen_t length);
int rs_get_option(struct rsocket *rs, int level, int name, void *value, socklen_t *length);
/* Applies what was set before the lower layers existed. */
void rs_apply_options(struct rsocket *rs);

/* ---- the two kinds ---- */

/* The new socket's descriptor. */
int rs_stream_create(int family, int flags);
int rs_dgram_create(int family, int flags);

#endif
