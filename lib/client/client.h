/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application's side of uroced: devices, an opened context, and what a thread does after an
 * empty poll. Queue pairs, completion queues and memory regions have headers of their own. No verbs
 * types: lib/verbs puts the verbs API on top. libc only.
 *
 * After fork() a context is the parent's, and a child opens the device again; but when the parent
 * has ended, a child may go on with its context (client_inherit.h).
 */
#ifndef UROCE_CLIENT_H
#define UROCE_CLIENT_H

#include "client_slab.h"
#include "conn.h"
#include "queue_abi.h"
#include "slot_table.h"
#include "spin.h"
#include "yield.h"

struct client {
    struct conn conn;
    LIST_ENTRY(client) link; /* of this process: client_mr.c */
    struct ctx_shared *shared;
    _Atomic bool daemon_gone; /* client_end.h */
    _Atomic ns_t next_look;   /* when to look again whether it is */
    size_t shared_bytes;
    int shared_fd; /* its segment: who has it can join (client_join) */
    uint32_t workers;
    pid_t daemon;
    int wake_fd[CTX_WORKERS_MAX]; /* eventfds, by worker; -1: not one of the device's */
    int async_fd; /* struct ctl_async_event records; the caller may make it non-blocking */
    _Atomic bool tracer_set;
    /* What was seen of shared->watch; watch_changed is called when it differs, after an empty poll:
     * it sets `watched`. May be NULL. */
    _Atomic uint32_t watched;
    void (*watch_changed)(struct client *c);
    struct client_slabs slabs;
    struct slot_table qps;  /* id = uidx; objects are struct client_qp, also a work queue's */
    struct slot_table cqs;  /* id <-> cookie; objects are struct client_cq */
    struct slot_table srqs; /* id = uidx; objects are struct client_srq */
    struct slot_table mrs;  /* id = uidx; objects are struct client_mr */
    struct {                /* mr_hot.c */
        pthread_t thread;
        bool runs;
        _Atomic bool stop; /* it ends, and never starts again */
    } hot;
    struct spin blocking; /* held by the thread that sleeps on app_armed */
};

/*
 * Asks the daemon for device `index` over a connection of its own. Returns 0; -ENODEV past the last
 * device; or conn_open's and conn_call's errors. Any thread.
 */
int client_query_device(struct conn *c, uint32_t index, struct ctl_device *d);

/* Opens device `index`. Returns 0 or a negative errno. */
int client_open(struct client *c, uint32_t index);

/* Opens the device of another context, also another process's, whose shared_fd is `fd`, and may
 * then import its objects. 0 and *index; -EINVAL: it is no such descriptor; -EACCES: that context
 * is closed; or another negative errno. */
int client_join(struct client *c, int fd, uint32_t *index);

/* Closes the context and deregisters its memory; the daemon destroys the objects that are left. No
 * thread uses them any more. */
void client_close(struct client *c);

/* Maps `bytes` of the segment fd, read-write, and closes fd. NULL (errno) on failure. */
void *client_map(int fd, size_t bytes);

/* ---- after an empty poll (poll_idle.c, poll_cpu.c) ---- */

struct client_cq;

/* What a thread has learnt from its empty polls. It is small enough for the static block of
 * thread-local storage, whose access needs no call. */
#define CLIENT_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
struct client_idle {
    uint32_t empty_polls;          /* since the last yield or completion; or sleeps since then */
    uint32_t blocking_polls;       /* empty polls to come that sleep */
    uint32_t round_others;         /* empty polls of other queues since a yield was due */
    const struct client_cq *round; /* empty at the last yield; never dereferenced */
    const struct client *written;  /* where they were read; never dereferenced */
    uint32_t writes;               /* of all workers, when the program looked at its memory last */
    struct yield_looks yields;
};
extern CLIENT_THREAD_LOCAL struct client_idle client_idle;

/*
 * To be called after a poll of cq that found no completion, without locks: counts it, then pauses.
 * After the number of empty polls that the thread has learnt, at most the dataplane's spin_limit,
 * it yields; with several completion queues polled in turn, once a round. When a yield has shown
 * that another thread keeps the CPU, it sleeps up to 0.4 ms or until a completion, WRITE or atomic
 * arrives. Every 100 ms it looks whether the daemon is gone; true: it is, and client_cq_flush is to
 * be called. Any thread.
 */
bool client_poll_empty(const struct client_cq *cq);

/* To be called after a poll that found a completion. */
static inline void client_poll_found(void)
{
    client_idle.empty_polls = 0;
}

/* The environment variable for the CPU on which threads poll: auto, stay. */
#define CLIENT_CPU_ENV "UROCE_PLACE"

/* Reads it. -EINVAL, with a line on standard error: it is neither. */
int client_cpu_policy_read(void);

/* After a yield of the polling thread that ended at `now` and took `took`: moves the thread to
 * another CPU if that helps. */
void client_choose_cpu(struct client *c, ns_t now, ns_t took);

#endif
