/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carriers: the threads that run a worker's loop. The loop has a stack of its own. A call that
 * copies to or from a program may wait for that program's memory for ever, so the carrier makes it
 * on its own stack. While it lasts, the watch (watch.h) may let another thread carry the loop on:
 * there the call has not ended (mem_caller.run returns false). The thread that is left with the
 * call becomes the copier of that program's memory: it makes this call and those that follow for
 * the same memory, one after another, until there have been none for a while. A program whose
 * memory answers at once never notices: a call costs two changes of the stack pointer and one
 * atomic operation.
 */
#ifndef UROCE_CARRIER_H
#define UROCE_CARRIER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common.h"
#include "frame.h"
#include "mem.h"

struct worker;
struct worker_port;

enum carrier_state {
    CARRIER_IN_LOOP, /* runs the loop */
    CARRIER_IN_CALL, /* makes a call for it: the watch may take the loop away */
    CARRIER_COPIER,  /* the loop is elsewhere */
};

/* Frames whose bytes calls still move: given back to their port when the last of them has ended. */
struct kept_frames {
    struct worker_port *port;
    unsigned calls;
    bool lent; /* for sending; else received */
    unsigned n;
    struct frame f[FRAME_BURST];
};

/* A call, of a worker's loop or of a copier. */
struct worker_mem_call {
    struct mem_call call;
    struct carrier *copier;            /* NULL: the loop makes it */
    struct kept_frames *kept;          /* or NULL */
    size_t bytes;                      /* of call.own, while it is queued */
    bool given_up;                     /* its deadline is over: the engine knows it no more */
    struct worker_mem_call *kept_next; /* became late in the same burst */
    struct worker_mem_call *next;      /* in the list in which it is */
    LIST_ENTRY(worker_mem_call) late;  /* of the worker */
};
LIST_HEAD(late_call_list, worker_mem_call);

struct carrier {
    struct worker *worker;  /* NULL, for a copier: it has ended */
    _Atomic uint32_t go;    /* a thread in reserve waits for it: enum carrier_go */
    _Atomic uint32_t state; /* enum carrier_state */
    _Atomic uint32_t calls; /* begun: whether one lasts */
    pid_t tid;
    pthread_t thread;
    bool detach;                  /* the thread is joined if the loop ends there, else not */
    void *stack;                  /* the thread's own, while the loop runs on it */
    void *fiber;                  /* ThreadSanitizer's name for that */
    struct worker_mem_call *call; /* the one that is made, or prepared */

    /* a copier: */
    void *space; /* whose memory it copies; held */
    const struct mem_backend *backend;
    int user;
    ns_t until;                  /* then it closes, unless a call lasts */
    struct carrier *next;        /* of the worker's copiers; the loop's */
    struct carrier *closed_next; /* of its closed ones */
    pthread_mutex_t lock;        /* of `worker` and of what follows */
    pthread_cond_t wake;         /* there are more calls, or the worker has ended */
    struct worker_mem_call *first, **last;
    size_t bytes; /* of queued calls */
    bool closed;  /* it takes no more calls */
};

enum carrier_go { GO_WAIT, GO_CARRY, GO_AWAY };

/* ---- carrier_state.c ---- */

/* A carrier for a thread, or NULL. */
struct carrier *carrier_create(void);
void carrier_destroy(struct carrier *c);

/* A prepared call for the loop's next use, or NULL. */
struct worker_mem_call *worker_mem_call_create(void);
void worker_mem_call_free(struct worker_mem_call *call);

/* ---- carrier.c ---- */

/* What the worker's first thread runs: `loop` on a stack of its own. The thread that carries the
 * loop to its end then calls `ended`. Returns then, or when another thread has the loop, and there
 * is nothing more to copy here. */
void carrier_run(struct worker *w, void (*loop)(struct worker *), void (*ended)(struct worker *));
void carrier_free_loop(struct worker *w);

/* What a thread in reserve runs, for the environment: waits for `go`, then carries a worker's loop
 * on, in the middle of the call that another carrier makes. Owns the carrier. */
void *carrier_reserve_run(void *carrier);

/* mem_caller.run of a worker's loop. */
bool carrier_call(struct mem_caller *caller);

/* ---- copier.c ---- */

/* The carrier's thread: the call that cost it the loop has ended. Makes those that follow. */
void copier_serve(struct carrier *c);

/* The rest is the loop's. */

/* The copier for the memory of the prepared call, or NULL: there is none. */
struct carrier *copier_of(struct worker *w, const struct mem_call *call);
/* Gives it the prepared call. False: it has closed, or too much is queued (*status: -ENOMEM). */
bool copier_queue(struct worker *w, struct carrier *copier, int *status);
/* This thread carries the loop on: the call that `old` makes is late. */
void copier_begin(struct worker *w, struct carrier *old);
/* Calls that have ended, and those that have lasted too long. */
bool copier_end_calls(struct worker *w, ns_t now);
/* The worker ends. */
void copier_leave_all(struct worker *w);
/* Frames of a burst during which calls became late stay until these have ended. */
void copier_keep_frames(struct worker *w, struct worker_port *p, const struct frame *f, unsigned n,
                        bool lent);

#endif
