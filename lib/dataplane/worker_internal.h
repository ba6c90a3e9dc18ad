/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_WORKER_INTERNAL_H
#define UROCE_WORKER_INTERNAL_H

#include <stdatomic.h>

#include "carrier.h"
#include "doorbell.h"
#include "forward.h"
#include "worker.h"

#define ASYNC_RING    256 /* a power of two */
#define EVENT_CQS_MAX 64
#define DOORBELLS_MAX 64
#define TX_LEND_MIN   4u /* frames borrowed for a burst, at least */

enum worker_state { WORKER_POLLING, WORKER_ASLEEP, WORKER_CONTENDED };

struct worker_command {
    worker_fn fn;
    void *arg;
    _Atomic uint32_t done; /* futex word */
};

/* How long the loop has waited for the memory of a user's programs, see copier.c. */
struct wait_account {
    int user;
    ns_t since;        /* the last wait */
    ns_t credit, debt; /* for waiting; one of them is 0, or nearly */
};

struct worker {
    unsigned index;
    struct worker_group *group;
    _Atomic uint32_t *wake_word;
    _Atomic uint32_t armed; /* as doorbells.worker_armed, for wakers other than applications */
    _Atomic bool stop;
    _Atomic uint32_t running; /* futex word */
    _Atomic(struct worker_command *) command;

    struct worker_port port[WORKER_PORTS_MAX];
    unsigned ports;
    struct worker_ctx **ctx;
    unsigned contexts, ctx_room;

    /* Forwarded frames. A set of workers is a bit for each. */
    _Atomic uint32_t forwarded_from; /* have frames for this one: set after the frames are stored */
    uint32_t forwarded_to;           /* got frames from this one in this pass: to be woken */
    uint32_t half_full;              /* their ring from this one is: see worker_pauses_rx */
    ns_t half_full_since;            /* 0: no ring is */
    bool sleep_short;                /* frames wait for which no wakeup will come */

    /* To be notified at the end of this pass. */
    struct worker_ctx *wake_list;
    struct dp_cq *event_cq[EVENT_CQS_MAX];
    unsigned event_cqs;

    /* Asynchronous events to the control thread: one producer, one consumer. */
    struct dp_async async[ASYNC_RING];
    _Atomic uint32_t async_head, async_tail;

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
    struct late_call_list late_calls;
    struct worker_mem_call *late_in_burst;
    struct worker_mem_call *_Atomic ended_calls;
    struct carrier *_Atomic closed_copiers;
    struct wait_account waits[64]; /* by user */
    ns_t pass_began;

    struct poll_policy policy;
    ns_t next_sample;
    uint32_t cpu; /* as published: see worker_cpu_pack() */
    bool boosted; /* priority is raised, on a contended CPU */
    int nice;     /* the priority to go back to */
    _Atomic int state;
    _Atomic pthread_t thread;
    _Atomic uint32_t ended; /* futex word: no thread has anything to do with the worker any more */
    struct worker_stats stats;
};

/* ---- worker_wake.c ---- */
void futex_wake(_Atomic uint32_t *word, int count);
/* Waits while *word == value, at most `timeout` (NS_NEVER: without a limit). False: the time is
 * over. */
bool futex_wait(_Atomic uint32_t *word, uint32_t value, ns_t timeout);

/* A worker begins a call to a program's memory: wakes the watch if it sleeps. */
void watch_wake(struct worker_group *g);

/* ---- worker_call.c ---- */
/* Runs the function that the control thread has left, if any: then true. */
bool worker_run_command(struct worker *w);

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

/* ---- worker_notify.c ---- */
/* At the end of a pass: wakes workers and pollers, sends completion events. */
void worker_flush_notifications(struct worker *w);
void worker_notify_control(struct worker *w);

#endif
