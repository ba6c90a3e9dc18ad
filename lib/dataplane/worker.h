/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataplane's worker: one thread that drives the engines of its ports from packets, doorbells
 * and timers, run to completion, and sleeps when there is no work.
 *
 * A port has a queue, and an engine, for each worker. A queue pair belongs to one engine, and
 * workers share nothing on the packet's path. A worker that receives a frame of another worker's
 * queue pair forwards it (forward.h). The control thread changes what a worker uses by running a
 * function on it (worker_call).
 */
#ifndef UROCE_WORKER_H
#define UROCE_WORKER_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "engine.h"
#include "pktio.h"
#include "poll_policy.h"
#include "slow_path.h"
#include "waker.h"

#define WORKERS_MAX      CQ_MAX_LANES
#define WORKER_PORTS_MAX 16

struct worker;

/* ---- what a worker serves ---- */

/* A worker's part of a port: one queue, and the engine behind it. */
struct worker_port {
    struct worker *worker;
    struct pktio *io;
    unsigned queue;
    struct worker_port *first; /* the part whose worker serves the port's IP host */
    struct engine *engine;
    struct waker_source source; /* fd -1: nothing to watch */
    bool must_poll;             /* frames arrive without a wakeup */
    bool tx_full;               /* packets wait, and the port lends no frames */
    uint8_t lend;               /* frames to borrow for the next burst */
    struct slow_path *slow; /* of `first`, for frames that are not RoCE; NULL: they are dropped */
};

/*
 * An application's queue pairs by doorbell slot, the same for all workers: a directory of chunks,
 * so that no entry moves when it grows. The control thread writes; it frees a removed queue pair
 * after the workers' next quiet point.
 */
#define DP_SLOT_CHUNK 4096
struct dp_slots {
    struct dp_qp *_Atomic *_Atomic chunk[DB_SLOTS / DP_SLOT_CHUNK];
};

/*
 * An application's context on one worker. The control thread fills it in. From worker_ctx_attach to
 * worker_ctx_detach only the worker touches the fields marked W.
 */
struct worker_ctx {
    struct ctx_shared *shared;
    struct doorbells *doorbells; /* this worker's, in shared */
    void *owner;                 /* the control thread's */
    const struct dp_slots *slots;
    uint32_t polls_seen;          /* W: shared->polls at the last sample */
    bool wake_listed;             /* W: in the worker's list of contexts to wake */
    struct worker_ctx *wake_next; /* W */
    uint8_t pad[CACHE_LINE];      /* no line in common with the context on another worker */
};

/* A queue pair as the dataplane knows it; qp_init.owner points to it. */
struct dp_qp {
    struct qp *qp;
    struct worker_ctx *ctx;           /* any worker's: it stands for the application */
    struct worker_port *_Atomic port; /* the part that owns it: see worker_migrate_qp */
    uint32_t slot;                    /* doorbell slot */
};

/*
 * A completion channel: the dataplane's end of its socket. The worker sends events at once. When
 * the socket is full it counts them at their CQ, and the control thread sends them later.
 */
struct dp_channel {
    int fd;
    _Atomic bool
        has_unsent; /* a worker has left events unsent since the control thread last looked */
};

/* A completion queue as the dataplane knows it; comp_queue.owner points to it. */
struct dp_cq {
    struct comp_queue cq;
    struct worker_ctx **ctx;    /* by worker: the context to wake */
    struct dp_channel *channel; /* or NULL */
    _Atomic uint32_t unsent;    /* events for the control thread to send */
};

/* A shared receive queue as the dataplane knows it; srq_init.owner points to it. */
struct dp_srq {
    struct worker_ctx *ctx;
    uint32_t uidx;
};

/* A work queue for raw packets as the dataplane knows it; wq_init.owner points to it. */
struct dp_wq {
    struct worker_ctx *ctx;
    uint32_t uidx;
    uint32_t resets; /* times it was moved to RESET */
};

/* An asynchronous event on its way to the control thread. */
struct dp_async {
    struct worker_ctx *ctx;
    uint64_t element; /* the queue pair's uidx or the completion queue's cookie */
    uint32_t type;    /* enum qp_event, or DP_ASYNC_MISPLACED */
    uint32_t worker;  /* DP_ASYNC_MISPLACED: the one that receives the packets of QPN `element` */
};
#define DP_ASYNC_MISPLACED 0x10000u

/* ---- setting up ---- */

/* What all workers of a process share; written by the control thread. */
struct worker_group {
    _Atomic unsigned cpus;      /* CPUs for workers and applications, see cpus.h */
    _Atomic unsigned polling;   /* workers that are not asleep */
    _Atomic ns_t crowded_until; /* more threads poll than there are CPUs; 0: never so far */
    int notify_fd;              /* eventfd that wakes the control thread; -1: none */
    struct waker *waker;        /* NULL: no port can wake a worker */
    struct worker *worker[WORKERS_MAX];
    unsigned workers;
    struct forward_ring *forward[WORKERS_MAX][WORKERS_MAX]; /* [from][to] */
};

struct worker_config {
    unsigned index;
    struct worker_group *group;
    _Atomic uint32_t *wake_word; /* in the wake segment */
};

struct worker_stats {
    counter_t loops;               /* passes of its loop, see worker_poll */
    counter_t busy;                /* of these, passes that found work */
    counter_t yields;              /* times it yielded the CPU while polling */
    counter_t sleeps;              /* times it slept */
    counter_t wakes;               /* sleeps ended by a wakeup */
    counter_t ticks;               /* sleeps ended by time */
    counter_t contended;           /* times it found its CPU contended (poll_policy.h) */
    counter_t calls;               /* functions run for the control thread */
    counter_t cq_events;           /* completion events */
    counter_t cq_events_late;      /* of these, left to the control thread */
    counter_t async_lost;          /* asynchronous events dropped */
    counter_t doorbells_forwarded; /* doorbells of queue pairs that another worker owns */
    counter_t forwarded_out;       /* frames given to other workers */
    counter_t forwarded_in;        /* frames received from them */
};

/* NULL: out of memory. The worker joins its group, which must outlive it. Control thread. */
struct worker *worker_create(const struct worker_config *config);
/* The worker must not run. Its engines remain their owner's to destroy. */
void worker_destroy(struct worker *w);
/* Makes the rings between all workers of the group: after the last worker_create, before any worker
 * runs. 0 or -ENOMEM. worker_group_fini also cleans up after a failure. */
int worker_group_connect(struct worker_group *g);
void worker_group_fini(struct worker_group *g);

/* Adds a part of a port before the worker runs. first: the part of the port that was added before
 * all others; NULL: this one is. NULL: too many ports, or the waker cannot watch its descriptor.
 * Control thread. */
struct worker_port *worker_add_port(struct worker *w, struct pktio *io, unsigned queue,
                                    struct worker_port *first);

/* The callbacks that the engine of port must be created with. */
struct engine_host worker_host(struct worker_port *port);

/*
 * The worker's thread: void *fn(void *) for the env. Returns after worker_stop. The thread that
 * starts it calls worker_wait_running before anything else with this worker, and joins it after
 * worker_stop.
 */
void *worker_run(void *worker);
void worker_wait_running(struct worker *w);
void worker_stop(struct worker *w);

/* One pass over commands, ports, doorbells and timers, at time now: true if it found work. For
 * hosts with a loop of their own; worker_run is that loop for a thread. */
bool worker_poll(struct worker *w, ns_t now);

/* ---- calls from the control thread ---- */

typedef void (*worker_fn)(struct worker *w, void *arg);

/*
 * Runs fn(w, arg) on the worker, between two passes of its loop, and waits until fn has returned.
 * The worker has then passed a quiet point: it holds no pointer that it looked up before. If the
 * worker does not run, fn runs on the caller's thread. One control thread at a time.
 */
void worker_call(struct worker *w, worker_fn fn, void *arg);

/* Waits until the worker has passed a quiet point. Control thread. */
void worker_quiesce(struct worker *w);

/* Runs fn once, on the last of n workers, while the others stand still. Control thread. */
void worker_call_all(struct worker *const *w, unsigned n, worker_fn fn, void *arg);

/*
 * Moves a queue pair, with its pending work, to another worker's part of its port. The old worker
 * forwards doorbells that arrive there later. False, and nothing has changed, if the application
 * has not read all completions of the queue pair in the old worker's lane: later ones in the new
 * lane would overtake them. Control thread.
 */
bool worker_migrate_qp(struct dp_qp *dq, struct worker_port *to);

/* Puts a queue pair into a slot below DB_SLOTS; NULL empties the slot. 0 or -ENOMEM. Control
 * thread. */
int dp_slots_set(struct dp_slots *s, uint32_t slot, struct dp_qp *dq);
void dp_slots_fini(struct dp_slots *s);
/* The queue pair, or NULL, also for a slot that is out of range. Workers. */
struct dp_qp *dp_slots_get(const struct dp_slots *s, uint32_t slot);

/* Makes the worker serve ctx, or stop serving it (its queue pairs must be gone). 0 or -ENOMEM.
 * Control thread. */
int worker_ctx_attach(struct worker *w, struct worker_ctx *ctx);
void worker_ctx_detach(struct worker *w, struct worker_ctx *ctx);

/* Takes the next asynchronous event. False: there is none. Control thread. */
bool worker_take_async(struct worker *w, struct dp_async *event);

/* Sends the unsent events of a CQ until its channel is full: true if all are sent. Control
 * thread. */
bool dp_cq_send_unsent(struct dp_cq *dq);

/* The workers' clock: the time to pass to their functions. Any thread. */
static inline ns_t worker_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

/* Wakes the worker if it sleeps. Any thread. */
void worker_kick(struct worker *w);

/* ---- queries (any thread) ---- */

unsigned worker_index(const struct worker *w);
const struct worker_stats *worker_stats(const struct worker *w);
/* "polling", "asleep" or "contended" (it polls on a contended CPU, see poll_policy.h). */
const char *worker_mode(const struct worker *w);
/* CPU time its thread has used; 0 if it does not run. */
ns_t worker_cpu_time(const struct worker *w);

#endif
