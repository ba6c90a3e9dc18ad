/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this folder only. */
#ifndef UROCE_WORKER_INTERNAL_H
#define UROCE_WORKER_INTERNAL_H

#include <stdatomic.h>

#include "doorbell.h"
#include "forward.h"
#include "worker.h"

#define ASYNC_RING    256 /* a power of two */
#define NOTED_CQS_MAX 64
#define BELLS_MAX     64

enum worker_state { WORKER_HOT, WORKER_ASLEEP, WORKER_EAGER };

struct worker_command {
    worker_fn fn;
    void *arg;
    _Atomic uint32_t done; /* futex word */
};

struct worker {
    unsigned index;
    struct worker_group *group;
    _Atomic uint32_t *wake_word;
    _Atomic uint32_t armed; /* as doorbells.worker_armed, for everybody else who wakes */
    _Atomic bool stop;
    _Atomic uint32_t running; /* futex word */
    _Atomic(struct worker_command *) command;

    struct worker_port port[WORKER_PORTS_MAX];
    unsigned ports;
    struct worker_ctx **ctx;
    unsigned contexts, ctx_room;

    /* Workers that left frames for us: a bit each, set after the frames. */
    _Atomic uint32_t handed;
    uint32_t forwarded_to; /* workers that we left frames for in this burst, to be woken after it */
    uint32_t tight;        /* those whose ring from us is half full, see worker_holds_back */
    ns_t tight_since;      /* 0: none was */
    bool nap;              /* about to sleep: frames wait that nobody will wake us for */

    /* Those to be told after the burst. */
    struct worker_ctx *noted_ctx;
    struct dp_cq *noted_cq[NOTED_CQS_MAX];
    unsigned noted_cqs;

    /* Asynchronous events to the control thread: one producer, one consumer. */
    struct dp_async async[ASYNC_RING];
    _Atomic uint32_t async_head, async_tail;

    struct poll_policy policy;
    ns_t next_sample;
    uint32_t place; /* published, see worker_place() */
    bool boosted;   /* raised priority while eager */
    int nice;       /* the one to go back to */
    _Atomic int state;
    pthread_t thread;
    struct worker_stats stats;
};

void futex_wake(_Atomic uint32_t *word, int count);
/* Waits while *word == value, at most `timeout` (NS_NEVER: for good). Returns false if the time was
 * up. */
bool futex_wait(_Atomic uint32_t *word, uint32_t value, ns_t timeout);

/* worker_forward.c */
bool worker_receive_forwarded(struct worker *w, ns_t now);
void worker_wake_forwarded(struct worker *w);
/* A copy of f to the worker of note's port. False: its ring is full. */
bool worker_forward(struct worker *w, const struct frame *f, const struct forward_note *note);
/*
 * Whether no more frames should be received for the moment, as some worker is behind with those it
 * was handed. Then they wait at the port, which can make its sender wait, or drop what it must. A
 * worker goes on taking what it is handed, so nobody waits for himself. Nor for long: what one that
 * is stuck leaves lying must not keep packets from the queue pairs of others.
 */
bool worker_holds_back(struct worker *w, ns_t now);
/* worker_notify.c: after a burst, sends events and wakes pollers. */
void worker_flush_notes(struct worker *w);
void worker_notify_control(struct worker *w);
/* worker_call.c */
bool worker_run_command(struct worker *w);
/* worker_idle.c */
void worker_idle(struct worker *w, ns_t now);
void worker_busy(struct worker *w, ns_t now);

#endif
