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
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common.h"
#include "frame.h"
#include "mem_call.h"

struct worker;
struct worker_port;

enum carrier_state {
    CARRIER_IN_LOOP, /* runs the loop */
    CARRIER_IN_CALL, /* makes a call for it: the watch may take the loop away */
    CARRIER_COPIER,  /* the loop is elsewhere */
};
#define CARRIER_STATE_BITS 2 /* of struct carrier.state; the others count calls */

/* Frames whose bytes calls still move: given back to their port when the last of them has ended. */
struct kept_frames {
    struct worker_port *port;
    unsigned calls;
    bool lent; /* for sending; else received */
    unsigned n;
    struct frame f[FRAME_BURST];
};

/* What becomes of a late call, under its copier's lock. */
enum call_progress { CALL_BEGUN, CALL_QUEUED, CALL_ENDED };

/* A call, of a worker's loop or of a copier. */
struct worker_mem_call {
    struct mem_call call;
    /* when it is late: */
    struct carrier *copier; /* makes it */
    enum call_progress progress;
    ns_t deadline;
    bool given_up;                      /* the deadline is over: the engine knows it no more */
    size_t bytes;                       /* of call.own */
    struct kept_frames *kept;           /* or NULL */
    struct worker_mem_call *burst_next; /* became late in the same burst */
    struct worker_mem_call *ended_next; /* of the worker's ended ones */
    TAILQ_ENTRY(worker_mem_call) queue; /* of the copier's queue, or of those that it holds back */
    TAILQ_ENTRY(worker_mem_call) late;  /* of the worker's, by deadline; until it is given up */
};
TAILQ_HEAD(call_queue, worker_mem_call);

/* How long the loop has waited for the memory of a user's programs, and what is late for them.
 * Users may share one. */
struct user_account {
    ns_t since;        /* the last wait */
    ns_t credit, debt; /* for waiting; one of them is 0, or nearly */
    unsigned calls;    /* late */
    size_t bytes;      /* that they keep */
};
#define USER_ACCOUNTS 256

struct carrier {
    struct worker *worker;  /* NULL, for a copier: it has ended */
    _Atomic uint32_t go;    /* a thread in reserve waits for it: enum carrier_go */
    _Atomic uint32_t state; /* enum carrier_state, and the number of the call */
    uint32_t calls;         /* begun; its own */
    pid_t tid;
    pthread_t thread;
    bool pinned;                  /* to the worker's CPU */
    cpu_set_t cpus;               /* where it could run before */
    bool detach;                  /* the thread is joined if the loop ends there, else not */
    void *stack;                  /* the thread's own, while the loop runs on it */
    void *fiber;                  /* ThreadSanitizer's name for that */
    struct worker_mem_call *call; /* the one that is made, or prepared */

    /* a copier, for the loop alone: */
    void *space; /* whose memory it copies; held */
    const struct mem_backend *backend;
    struct user_account *account;
    struct worker_mem_call *serving; /* the call that cost it the loop, until that has ended */
    struct worker_mem_call *stuck;   /* a call of its that was given up, until that has ended */
    struct call_queue held_back;     /* calls that have ended, and are to be told later */
    struct carrier *next;            /* of the worker's copiers */

    struct carrier *closed_next; /* of those whose thread has left them */
    pthread_mutex_t lock;        /* of `worker`, of progress, and of what follows */
    pthread_cond_t wake;         /* there are more calls, or the worker has ended */
    ns_t until;                  /* then the thread leaves, unless a call is queued; 0: not known */
    struct call_queue queue;
    bool left; /* the thread makes no more calls */
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

/* ---- copier_loop.c: for the loop ---- */

enum copier_choice {
    CHOICE_LOOP,    /* no copier is to make the call */
    CHOICE_COPIER,  /* it is late now */
    CHOICE_REFUSED, /* it is not made: *status */
};
/* Who makes the prepared call, which a copier gets at once. */
enum copier_choice copier_choose(struct worker *w, int *status);
/* This thread carries the loop on: the call that `old` makes is late. */
void copier_begin(struct worker *w, struct carrier *old);
/* Calls that have ended, and those that have lasted too long. */
bool copier_end_calls(struct worker *w, ns_t now);
/* The worker ends. */
void copier_leave_all(struct worker *w);
/* mem_caller.refuses: the user's late calls are as many as may be. */
bool copier_refuses(struct mem_caller *caller, const struct mem_region *mr);

/* ---- copier_frames.c ---- */

/* No more frames of a worker are kept: calls get their own bytes before. */
#define KEPT_MAX (2 * FRAME_BURST)

/* A burst during which calls became late: its frames go back to the port, those that the calls name
 * when these have ended. lent: for sending, and not used. */
void copier_keep_frames(struct worker *w, struct worker_port *p, const struct frame *f, unsigned n,
                        bool lent);
/* A call has ended that may have kept frames. */
void copier_release_frames(struct worker *w, struct worker_mem_call *call);

#endif
