/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataplane's worker: one thread that drives the engines of its ports from packets, doorbells
 * and timers, run to completion, and sleeps when there is nothing to do.
 *
 * A port has a queue, and an engine, for each of its workers; a queue pair belongs to one of them,
 * and workers share nothing on the packet's path. A frame that arrives at another worker than its
 * queue pair's is handed over (forward.h). The control thread changes what a worker uses by
 * running a function on it (worker_call).
 */
#ifndef UROCE_WORKER_H
#define UROCE_WORKER_H

#include <pthread.h>
#include <sys/types.h>

#include "engine.h"
#include "pktio.h"
#include "poll_policy.h"
#include "slow_path.h"
#include "waker.h"

#define WORKERS_MAX      CQ_MAX_LANES
#define WORKER_PORTS_MAX 16

struct worker;

/* ---- what a worker serves ---- */

/* A worker's part of a port: a queue of it, and the engine behind that. */
struct worker_port {
    struct worker *worker;
    struct pktio *io;
    unsigned queue;
    struct worker_port *first; /* the part that serves the port's IP host */
    struct engine *engine;
    struct waker_source source; /* fd -1: nothing to watch */
    bool must_poll;             /* frames come unannounced */
    bool full;                  /* there is something to send, the port lends nothing */
    uint8_t lend;               /* frames to borrow for the next burst */
    struct slow_path *slow; /* of `first`, for frames that are not RoCE; NULL: they are dropped */
};

/*
 * An application's queue pairs by doorbell slot, the same for all workers: a directory of chunks,
 * so that nothing moves when it grows. The control thread writes; a queue pair that was taken out
 * is freed after the workers' next quiet point.
 */
#define DP_SLOT_CHUNK 4096
struct dp_slots {
    struct dp_qp *_Atomic *_Atomic chunk[DB_SLOTS / DP_SLOT_CHUNK];
};

/*
 * An application's context on one worker. The control thread sets it up, worker_ctx_attach hands it
 * over; between that and worker_ctx_detach only the worker touches the fields marked W.
 */
struct worker_ctx {
    struct ctx_shared *shared;
    struct doorbells *doorbells; /* this worker's, in shared */
    void *owner;                 /* the control side's own */
    const struct dp_slots *slots;
    uint32_t polls_seen; /* W */
    bool noted;          /* W: in the worker's list of those to be woken */
    struct worker_ctx *next_noted;
    uint8_t apart[CACHE_LINE]; /* from the same application's on another worker */
};

/* A queue pair as the dataplane knows it; qp_init.owner points to it. */
struct dp_qp {
    struct qp *qp;
    struct worker_ctx *ctx;           /* of any worker: it stands for the application */
    struct worker_port *_Atomic port; /* where it belongs: changed by worker_move_qp */
    uint32_t slot;                    /* doorbell slot */
};

/*
 * A completion channel: the dataplane's end of its socket. Events go out at once from the worker;
 * when the application does not read, they are counted at their CQ and the control thread sends
 * them later.
 */
struct dp_channel {
    int fd;
    _Atomic bool stuck; /* some CQ of it has unsent events */
};

/* A completion queue as the dataplane knows it; comp_queue.owner points to it. */
struct dp_cq {
    struct comp_queue cq;
    struct worker_ctx **ctx;    /* by worker: whom to wake */
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
    uint32_t resets; /* how many times it has been */
};

/* An asynchronous event on its way to the control thread. */
struct dp_async {
    struct worker_ctx *ctx;
    uint64_t element; /* the queue pair's uidx or the completion queue's cookie */
    uint32_t type;    /* enum qp_event, or DP_ASYNC_STRAY */
    uint32_t
        worker; /* DP_ASYNC_STRAY: where packets of the queue pair with number `element` come in */
};
#define DP_ASYNC_STRAY 0x10000u

/* ---- setting up ---- */

/* What all workers of a process share; written by the control thread. */
struct worker_group {
    _Atomic unsigned cpus;      /* CPUs for workers and applications, see cpus.h */
    _Atomic unsigned hot;       /* workers that are polling now */
    _Atomic ns_t crowded_until; /* more threads poll than there are CPUs; 0: never did */
    int notify_fd;              /* eventfd that calls the control thread; -1: none */
    struct waker *waker;        /* NULL: no port can wake anybody */
    struct worker *worker[WORKERS_MAX];
    unsigned workers;
    struct forward_rings *forward[WORKERS_MAX][WORKERS_MAX]; /* [from][to] */
};

struct worker_config {
    unsigned index;
    struct worker_group *group;
    _Atomic uint32_t *wake_word; /* in the wake segment */
};

struct worker_stats {
    counter_t loops;          /* looks for work */
    counter_t busy;           /* of them, those that found some */
    counter_t yields;         /* CPU given away while polling */
    counter_t sleeps;         /* times it slept */
    counter_t wakes;          /* ended by somebody's wake */
    counter_t ticks;          /* ended by time */
    counter_t eager;          /* times it became eager (poll_policy.h) */
    counter_t calls;          /* control functions run */
    counter_t cq_events;      /* completion events sent */
    counter_t cq_events_late; /* of them, left to the control thread */
    counter_t async_lost;     /* asynchronous events dropped */
    counter_t bells_passed;   /* doorbells of queue pairs that belong to another worker */
    counter_t forwarded_out;  /* frames given to other workers */
    counter_t forwarded_in;   /* frames taken from them */
};

/* NULL: out of memory. Becomes a member of its group, which must outlive it. Control thread. */
struct worker *worker_create(const struct worker_config *config);
/* The worker must not run; its engines must be destroyed by their owner. */
void worker_destroy(struct worker *w);
/* Rings between all workers of the group: when these are complete, before they run. 0 or -ENOMEM.
 * worker_group_fini also cleans up after a failure. */
int worker_group_connect(struct worker_group *g);
void worker_group_fini(struct worker_group *g);

/* Adds a part of a port before the worker runs. first: the part that was added before all others of
 * the port; NULL: this is it. host callbacks of its engine: worker_host. NULL: too many ports, or
 * its wake descriptor cannot be watched. Control thread. */
struct worker_port *worker_add_port(struct worker *w, struct pktio *io, unsigned queue,
                                    struct worker_port *first);

/* The callbacks that the engine of port must be created with. */
struct engine_host worker_host(struct worker_port *port);

/*
 * The worker's thread: void *fn(void *) for the env. Returns when worker_stop was called. Whoever
 * starts it calls worker_wait_running before anything else with this worker; after worker_stop it
 * joins the thread.
 */
void *worker_run(void *worker);
void worker_wait_running(struct worker *w);
void worker_stop(struct worker *w);

/* One look for work at time now: true if some was found. worker_run's body, for hosts with a loop
 * of their own. */
bool worker_poll(struct worker *w, ns_t now);

/* ---- calls from the control thread ---- */

typedef void (*worker_fn)(struct worker *w, void *arg);

/*
 * Runs fn(w, arg) on the worker, between two of its looks for work, and waits for its end. When it
 * returns the worker has passed a quiet point: it holds no pointer that it found before. If the
 * worker does not run, fn runs on the caller's thread. One control thread at a time.
 */
void worker_call(struct worker *w, worker_fn fn, void *arg);

/* Waits until the worker has passed a quiet point. Control thread. */
void worker_quiesce(struct worker *w);

/* Runs fn once, on the last of n workers, while the others stand still. Control thread. */
void worker_call_all(struct worker *const *w, unsigned n, worker_fn fn, void *arg);

/*
 * Moves a queue pair to another worker's part of its port, with all it is about to do, and rings
 * where it was go on to where it is. False, and nothing has changed, if the application has not
 * read all completions that were posted for it where it is now: they would be overtaken. Control
 * thread.
 */
bool worker_move_qp(struct dp_qp *dq, struct worker_port *to);

/* Puts a queue pair into a slot below DB_SLOTS, or NULL: takes what is there out. 0 or -ENOMEM.
 * Control thread. */
int dp_slots_set(struct dp_slots *s, uint32_t slot, struct dp_qp *dq);
void dp_slots_fini(struct dp_slots *s);
/* Any number. Workers. */
struct dp_qp *dp_slots_get(const struct dp_slots *s, uint32_t slot);

/* Gives ctx to the worker, or takes it away (its queue pairs must be gone). Returns 0 or -ENOMEM.
 * Control thread. */
int worker_ctx_attach(struct worker *w, struct worker_ctx *ctx);
void worker_ctx_detach(struct worker *w, struct worker_ctx *ctx);

/* Takes the next asynchronous event. Returns false when there is none. Control thread. */
bool worker_take_async(struct worker *w, struct dp_async *event);

/* Sends the unsent events of a CQ as far as its channel takes them: true if all are gone. Control
 * thread. */
bool dp_cq_send_unsent(struct dp_cq *dq);

/* The clock that workers go by, for functions they are called with. Any thread. */
ns_t worker_time(void);

/* Wakes the worker if it sleeps. Any thread. */
void worker_kick(struct worker *w);

/* ---- looking at it (any thread) ---- */

unsigned worker_index(const struct worker *w);
const struct worker_stats *worker_stats(const struct worker *w);
/* "hot", "asleep" or "eager". */
const char *worker_mode(const struct worker *w);
/* CPU time its thread has used; 0 if it does not run. */
ns_t worker_cpu_time(const struct worker *w);

#endif
