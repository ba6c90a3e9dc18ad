/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_WORKER_INTERNAL_H
#define UROCE_WORKER_INTERNAL_H

#include <stdatomic.h>

#include "carrier.h"
#include "doorbell.h"
#include "forward.h"
#include "worker.h"

#define EVENT_CQS_MAX 64
#define DOORBELLS_MAX 64
#define WAKES_MAX     32 /* wake-ups that one look takes notice of; others have their turn later */
#define TX_LEND_MIN   4u /* frames borrowed for a burst, at least */

enum worker_state { WORKER_POLLING, WORKER_ASLEEP, WORKER_CONTENDED };

/* Who may touch a worker's state: worker_lend.c. */
enum worker_lease {
    LEASE_NONE,    /* the worker */
    LEASE_FREE,    /* it sleeps or yields: who makes it LEASE_TAKEN */
    LEASE_TAKEN,   /* the borrower */
    LEASE_AWAITED, /* the borrower, and the worker waits for it */
};

struct worker_command {
    worker_fn fn;
    void *arg;
    _Atomic uint32_t done; /* futex word */
};

/* worker_pages.c */
struct worker_pages {
    uint64_t sampled, seen; /* page faults of the thread: at the last sample, when last measured */
    ns_t charge_until, measured;
};

struct worker {
    unsigned index;
    struct worker_group *group;
    int sleep_fd;           /* epoll set of all descriptors that wake it */
    int kick_fd;            /* an eventfd in it, for wakers other than applications and ports */
    int timer_fd;           /* in the set, too */
    ns_t timer_at;          /* when it ends a sleep, unless that time is over */
    _Atomic uint32_t armed; /* as doorbells.worker_armed, for wakers other than applications */
    _Atomic bool stop;
    _Atomic uint32_t running; /* futex word */
    _Atomic(struct worker_command *) command;

    struct worker_port port[WORKER_PORTS_MAX];
    unsigned ports;
    struct worker_ctx **ctx; /* the hot ones first: worker_ctx.c */
    unsigned contexts, ctx_room, hot;
    unsigned next_hot;         /* the next one to look at */
    bool look_at_all;          /* the next pass looks at all hot ones */
    ns_t looked;               /* when it last looked at all cold ones */
    ns_t asked;                /* when it last asked whose eventfds were written */
    int woken_fd[WAKES_MAX];   /* descriptors that have woken it */
    unsigned woken;            /* how many, and not yet looked at */
    struct worker_ctx **by_fd; /* whose they are; NULL: no context's */
    unsigned fd_room;

    /* Forwarded frames. A set of workers is a bit for each. */
    _Atomic uint32_t forwarded_from; /* have frames for this one: set after the frames are stored */
    _Atomic bool bells_forwarded;    /* others have rung doorbells of contexts here */
    uint32_t forwarded_to;           /* got frames from this one in this pass: to be woken */
    uint32_t half_full;              /* their ring from this one is: see worker_pauses_rx */
    ns_t half_full_since;            /* 0: no ring is */
    bool sleep_short;                /* frames wait for which no wakeup will come */

    /* To be notified at the end of this pass. */
    struct worker_ctx *wake_list;
    struct dp_cq *event_cq[EVENT_CQS_MAX];
    unsigned event_cqs;

    /* While it sleeps or yields. */
    _Atomic uint32_t lease;     /* futex word: enum worker_lease */
    _Atomic pthread_t borrower; /* LEASE_TAKEN, LEASE_AWAITED */
    ns_t lent_until;            /* when it looks by itself */
    unsigned contexts_lent;     /* as many as it had when it was borrowed */
    bool sent_lent;             /* packets were sent since: a port may bring them back */

    bool pinned; /* the thread that carries the loop runs on this CPU alone: */
    int own_cpu;
    bool always_poll; /* it is the worker's own */

    /* Who carries the loop, and who was left with calls: carrier.h. */
    struct carrier *_Atomic carrier; /* NULL: no thread does */
    void (*loop)(struct worker *w);
    void (*loop_ended)(struct worker *w);
    void *loop_stack, *loop_memory, *loop_fiber;
    bool joins; /* the loop has ended on the worker's first thread */
    struct mem_caller caller;
    struct worker_mem_call *own_call; /* without a carrier */
    struct carrier *last_carrier;     /* when the loop has ended */
    bool frames_leave; /* the frames of this burst do not stay until late calls have ended */
    struct carrier *copiers;
    struct call_queue late_calls; /* by deadline; without those that were given up */
    struct worker_mem_call *late_in_burst;
    struct worker_mem_call *_Atomic ended_calls;
    struct carrier *_Atomic closed_copiers;
    struct user_account accounts[USER_ACCOUNTS];
    unsigned kept;           /* frames, by calls */
    ns_t call_since;         /* the call that is late now began then, or later: the watch's */
    _Atomic ns_t cpu_before; /* of the threads that carried the loop before */
    ns_t pass_began;

    struct poll_policy policy;
    ns_t next_sample;
    uint32_t cpu;         /* as published: see worker_cpu_pack() */
    uint32_t faults_seen; /* worker_fault.c */
    bool boosted;         /* priority is raised, on a contended CPU */
    int nice;             /* the priority to go back to */
    _Atomic int state;
    _Atomic pthread_t thread;
    _Atomic uint32_t ended; /* futex word: no thread has anything to do with the worker any more */
    struct worker_pages pages;
    struct worker_stats stats;
};

/* Charges work to the program of a context. */
static inline void worker_charge(struct worker_ctx *ctx, uint64_t cost)
{
    if (ctx->share)
        share_charge(ctx->share, cost);
}

/* ---- worker_pages.c ---- */
/* Every millisecond of a worker that does not sleep: decides whether page faults are charged. */
void worker_sample_faults(struct worker *w, ns_t now);
/* engine_host.fault_time */
ns_t worker_fault_time(void *port);

/* ---- worker_wake.c ---- */
void futex_wake(_Atomic uint32_t *word, int count);
/* Waits while *word == value, at most `timeout` (NS_NEVER: without a limit). False: the time is
 * over. */
bool futex_wait(_Atomic uint32_t *word, uint32_t value, ns_t timeout);

/* What the worker sleeps on. 0 or a negative errno, and then nothing is open. */
int worker_wake_open(struct worker *w);
void worker_wake_close(struct worker *w);
/* Makes an eventfd in *fd that wakes the worker when it is written; and removes and closes it. 0 or
 * a negative errno. Control thread. */
int worker_wake_add(struct worker *w, int *fd);
void worker_wake_remove(struct worker *w, int fd);
/* While the descriptor is readable, which is a port's, the worker does not sleep. 0 or a negative
 * errno. Control thread. */
int worker_wake_add_port(struct worker *w, int fd);
/* Sleeps until an eventfd is written that was not since the last sleep, or a port has frames, at
 * most `limit` from now. False: the time is over, or a timer from an earlier sleep has ended this
 * one. */
bool worker_sleep(struct worker *w, ns_t now, ns_t limit);
/* The same without a sleep. */
bool worker_was_woken(struct worker *w);

/* A worker begins a call to a program's memory: wakes the watch if it sleeps. */
void watch_wake(struct worker_group *g);

/* ---- worker_admin.c ---- */
/* The CPU time of a thread; 0: not known. */
ns_t worker_thread_cpu(pthread_t thread);

/* ---- worker_qp.c ---- */
/* Where the queue pair of a slot is noted; NULL: nowhere. */
struct dp_qp *_Atomic const *dp_slots_place(const struct dp_slots *s, uint32_t slot);

/* ---- worker_ctx.c ---- */
/* Serves the doorbells of contexts. idle: the pass has found no work before. Returns whether there
 * were some. */
bool worker_serve_contexts(struct worker *w, bool idle, ns_t now);
/* Every millisecond of a worker that does not sleep: which contexts have been silent. */
void worker_cool_contexts(struct worker *w, ns_t now);
/* Sets doorbells.worker_armed of the hot ones, which the next pass looks at; the others have it set
 * all the time. */
void worker_arm_contexts(struct worker *w, uint32_t armed);

/* ---- worker_call.c ---- */
/* Runs the function that the control thread has left, if any: then true. */
bool worker_run_command(struct worker *w);

/* ---- worker_lend.c ---- */
/* The worker: it touches none of its state before worker_take_back(). until: when it looks at its
 * timers by itself; NS_NEVER: it polls again, whatever there is. */
void worker_lend(struct worker *w, ns_t until);
void worker_take_back(struct worker *w);
/* The control thread: true, and the state is the caller's until worker_give_back(), which wakes the
 * worker if there is work. False: the worker is awake, or does not run. */
bool worker_borrow(struct worker *w);
void worker_give_back(struct worker *w);
/* Whether the calling thread has borrowed the worker. Also in a signal's handler. */
bool worker_is_borrowed_here(const struct worker *w);

/* ---- worker_forward.c ---- */
bool worker_receive_forwarded(struct worker *w, ns_t now);
void worker_wake_forwarded(struct worker *w);
/* Copies f to the worker of target's port. False: its ring is full. */
bool worker_forward(struct worker *w, const struct frame *f, const struct forward_target *target);
/*
 * Whether to receive no frames for now, because another worker is behind with those that this one
 * forwards. Frames then wait at the port, which can slow their sender down, or drop them. The
 * worker still takes the frames that others forward to it, so two workers never wait for each
 * other. The pause is limited: a worker that is stuck must not keep packets from the queue pairs of
 * the others.
 */
bool worker_pauses_rx(struct worker *w, ns_t now);

/* ---- worker_fault.c ---- */
/* Whether mapped memory has failed since this worker last called worker_fail_programs. What it
 * built or took in since then may not be what the application's memory holds. */
static inline bool worker_memory_failed(const struct worker *w)
{
    return unlikely(atomic_load_explicit(&w->group->faults, memory_order_acquire) !=
                    w->faults_seen);
}
/* Ends the queue pairs, on this worker, of programs whose memory has failed. */
void worker_fail_programs(struct worker *w, ns_t now);

/* ---- worker_notify.c ---- */
/* Puts a queue pair of this worker into the error state, and reports that. */
void worker_fail_qp(struct worker_port *p, struct dp_qp *dq, ns_t now);
/* At the end of a pass: wakes workers and pollers, sends completion events. */
void worker_flush_notifications(struct worker *w);
void worker_notify_control(struct worker *w);

#endif
