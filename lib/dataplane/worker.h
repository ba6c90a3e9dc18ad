/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The dataplane's worker: one thread that drives the engines of its ports from packets, doorbells
 * and timers, run to completion, and sleeps when there is no work.
 *
 * A port has a queue, and an engine, for each worker. A queue pair belongs to one engine, and
 * workers share nothing on the packet's path. A worker that receives a frame of another worker's
 * queue pair forwards it (forward.h). The control thread changes what a worker uses by running a
 * function on it (worker_call).
 *
 * The files: worker_run.c has worker_run(), the thread; worker.c has worker_poll(), one pass;
 * worker_lend.c the state of a worker that sleeps, for the control thread;
 * worker_notify.c notifications and worker_host(); worker_forward.c forwarding and the group's
 * rings; worker_wake.c worker_kick(); worker_call.c functions that a worker runs, and contexts;
 * worker_qp.c slots and migration; port_inject.c frames that rules spoil, port_judge.c work
 * requests that they fail; worker_fault.c mapped memory that fails; worker_admin.c all others.
 */
#ifndef UROCE_WORKER_H
#define UROCE_WORKER_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "dp_objects.h"
#include "engine.h"
#include "mr_table.h"
#include "pktio.h"
#include "poll_policy.h"
#include "slow_path.h"

#define WORKERS_MAX      CQ_MAX_LANES
#define WORKER_PORTS_MAX 16

/** A worker. */
struct worker;

/* ---- what a worker serves ---- */

/** A worker's part of a port: one queue, and the engine behind it. */
struct worker_port {
    struct worker *worker;
    struct pktio *io; /**< the port, or what stands before it (port_inject.h) */
    unsigned queue;
    struct worker_port *first; /**< the part whose worker serves the port's IP host */
    struct engine *engine;
    struct port_inject *inject; /**< NULL: it has never had a rule */
    struct port_judge *judge;   /**< NULL: it has never had a rule for work requests */
    struct mr_table *mrs;       /**< the port's regions, for worker_guard_memory(); or NULL */
    bool must_poll;             /**< frames arrive without a wakeup */
    bool tx_full;               /**< packets wait, and the port lends no frames */
    uint8_t lend;               /**< frames to borrow for the next burst */
    struct slow_path *slow; /**< of `first`, for frames that are not RoCE; NULL: they are dropped */
};

/* ---- setting up ---- */

/** What all workers of a process share; written by the control thread. */
struct worker_group {
    _Atomic unsigned cpus;            /**< CPUs for workers and applications, see cpus.h */
    _Atomic unsigned polling;         /**< workers that are not asleep */
    _Atomic ns_t crowded_until;       /**< more threads poll than there are CPUs; 0: never so far */
    struct dp_cq *_Atomic late;       /**< completion queues with unsent events: dp_cq_take_late */
    struct dp_events *_Atomic events; /**< asynchronous ones: dp_events_take_list */
    int notify_fd;                    /**< eventfd that wakes the control thread; -1: none */
    _Atomic uint32_t watch_asleep;    /**< futex word of the watch (watch.h) */
    _Atomic uint32_t faults;          /**< times that mapped memory has failed */
    struct worker *worker[WORKERS_MAX];
    unsigned workers;
    struct forward_ring *forward[WORKERS_MAX][WORKERS_MAX]; /**< [from][to] */
};

/** What a worker is created with. */
struct worker_config {
    unsigned index;
    struct worker_group *group;
    const int *cpu;   /**< its thread runs there alone; NULL: where the kernel puts it */
    bool always_poll; /**< it never yields its CPU and never sleeps: that CPU is its own */
};

/** A call that copies from or to an application, and waits for its memory. */
struct late_copy {
    int pid;    /**< of the application; 0: not known */
    int user;   /**< and its user; -1: not known */
    ns_t since; /**< worker_time() */
};

/** What a worker counts. */
struct worker_stats {
    counter_t loops;               /**< passes of its loop, see worker_poll */
    counter_t busy;                /**< of these, passes that found work */
    counter_t yields;              /**< times it yielded the CPU while polling */
    counter_t sleeps;              /**< times it slept */
    counter_t wakes;               /**< sleeps ended by a wakeup */
    counter_t ticks;               /**< sleeps ended by time */
    counter_t contended;           /**< times it found its CPU contended (poll_policy.h) */
    counter_t calls;               /**< functions run for the control thread */
    counter_t borrowed;            /**< of these, on its own thread while the worker slept */
    counter_t cq_events;           /**< completion events */
    counter_t cq_events_late;      /**< of these, left to the control thread */
    counter_t doorbells_forwarded; /**< doorbells of queue pairs that another worker owns */
    counter_t forwarded_out;       /**< frames given to other workers */
    counter_t forwarded_in;        /**< frames received from them */
    counter_t taken_away;          /**< times its loop left a thread that waited for memory */
    counter_t given_up;            /**< calls that waited for too long: their queue pairs failed */
    counter_t memory_faults; /**< SIGBUS at mapped memory: the queue pairs of its program failed */
};

/**
 * Create a worker, which joins its group. Control thread.
 *
 * @param config  Copied; the group must outlive the worker.
 * @return  The worker; NULL: out of memory or descriptors.
 */
struct worker *worker_create(const struct worker_config *config);
/**
 * Destroy a worker that does not run. Control thread.
 *
 * @param w  The worker. Its engines remain their owner's to destroy.
 */
void worker_destroy(struct worker *w);
/**
 * Make the rings between all workers of a group: after the last worker_create(), before any worker
 * runs. Control thread.
 *
 * @param g  The group.
 * @return  0; -ENOMEM: worker_group_fini() cleans up.
 */
int worker_group_connect(struct worker_group *g);

/**
 * Free what worker_group_connect() made. No worker runs. Control thread.
 *
 * @param g  The group.
 */
void worker_group_fini(struct worker_group *g);

/**
 * Add a part of a port to a worker that does not run yet. Control thread.
 *
 * @param w  The worker.
 * @param io  The port; borrowed until the worker is destroyed.
 * @param queue  The port's queue that the worker serves.
 * @param first  The part of the port that was added before all others; NULL: this one is.
 * @return  The part; NULL: the worker has WORKER_PORTS_MAX ports, or cannot sleep on the queue's
 *     descriptor.
 */
struct worker_port *worker_add_port(struct worker *w, struct pktio *io, unsigned queue,
                                    struct worker_port *first);

/**
 * The callbacks that the engine of a part must be created with.
 *
 * @param port  The part.
 * @return  The callbacks, by value.
 */
struct engine_host worker_host(struct worker_port *port);

/**
 * The body of the worker's thread, for the environment. Returns after worker_stop(). The thread
 * that starts it calls worker_wait_running() before anything else with this worker, and
 * worker_join() after worker_stop().
 *
 * @param worker  The worker.
 * @return  NULL.
 */
void *worker_run(void *worker);

/**
 * Wait until the worker's thread runs. The thread that started it.
 *
 * @param w  The worker.
 */
void worker_wait_running(struct worker *w);

/**
 * Request that worker_run() returns. Control thread.
 *
 * @param w  The worker.
 */
void worker_stop(struct worker *w);

/**
 * Wait until the worker's loop has ended, after worker_stop(), and join its thread, unless that one
 * has lost the loop to another (watch.h) and may never end. Control thread.
 *
 * @param w  The worker.
 * @param thread  The thread that was started with worker_run().
 */
void worker_join(struct worker *w, pthread_t thread);

/**
 * Make one pass over commands, ports, doorbells and timers. For hosts with a loop of their own;
 * worker_run() is that loop for a thread.
 *
 * @param w  The worker.
 * @param now  The time.
 * @return  True when the pass found work.
 */
bool worker_poll(struct worker *w, ns_t now);

/* ---- mapped memory that fails ---- */

/**
 * From now on a SIGBUS that a worker gets at mapped memory of an application ends that
 * application's queue pairs, and any other one ends the process, with a line on standard error. One
 * group of a process. Control thread, before the workers run.
 *
 * @param g  The group.
 * @return  0 or a negative errno.
 */
int worker_guard_memory(struct worker_group *g);

/**
 * Undo worker_guard_memory(), after the workers have ended. Control thread.
 */
void worker_unguard_memory(void);

/* ---- calls from the control thread ---- */

/** A function that a worker runs for the control thread. */
typedef void (*worker_fn)(struct worker *w, void *arg);

/**
 * Run a function on the worker, between two passes of its loop, and wait until it has returned. The
 * worker has then passed a quiet point: it holds no pointer that it looked up before. If the worker
 * does not run, sleeps or yields its CPU, the function runs on the caller's thread. So it must not
 * copy from or to programs' memory, which may wait. One control thread at a time.
 *
 * @param w  The worker.
 * @param fn  The function.
 * @param arg  Its second argument.
 */
void worker_call(struct worker *w, worker_fn fn, void *arg);

/**
 * The calls that copiers of this worker make now. Control thread, within worker_call().
 *
 * @param w  The worker.
 * @param out  One element for each application.
 * @param room  Elements of out.
 * @return  How many there are, at most `room`.
 */
unsigned worker_late_copies(const struct worker *w, struct late_copy *out, unsigned room);

/**
 * Whether the worker has made a pass. One that sleeps makes ten in a second. Control thread.
 *
 * @param w  The worker.
 * @param seen  In: what the last call has left here; out: for the next one.
 * @return  Whether it has, or does not run.
 */
bool worker_has_passed(const struct worker *w, uint64_t *seen);

/**
 * Wait until the worker has passed a quiet point. Control thread.
 *
 * @param w  The worker.
 */
void worker_quiesce(struct worker *w);

/**
 * Run a function once, on the last of several workers, while the others stand still. Control
 * thread.
 *
 * @param w  The workers.
 * @param n  How many, at least 1.
 * @param fn  The function.
 * @param arg  Its second argument.
 */
void worker_call_all(struct worker *const *w, unsigned n, worker_fn fn, void *arg);

/**
 * Send the answers that a queue pair owes, but not responses to READs, before it is reset or
 * destroyed (engine_tx_answers). Within worker_call() on the worker.
 *
 * @param port  A part of a port; if it does not own the queue pair, nothing is sent.
 * @param qp  The queue pair.
 * @return  False: the port has no room for them now.
 */
bool worker_send_answers(struct worker_port *port, struct qp *qp);

/**
 * Move a queue pair, with its pending work, to another worker's part of its port. The old worker
 * forwards doorbells that arrive there later. Control thread.
 *
 * @param dq  The queue pair.
 * @param to  The part.
 * @return  True; false, and nothing has changed: the application has not read all completions of
 *     the queue pair in the old worker's lane, and later ones in the new lane would overtake them.
 */
bool worker_migrate_qp(struct dp_qp *dq, struct worker_port *to);

/**
 * Make a worker serve a context. Control thread.
 *
 * @param w  The worker.
 * @param ctx  The context; the worker's until worker_ctx_detach(). Its wake_fd is made here.
 * @return  0; -ENOMEM, or another negative errno: no descriptor is left.
 */
int worker_ctx_attach(struct worker *w, struct worker_ctx *ctx);

/**
 * Make a worker stop serving a context, whose queue pairs must be gone. Closes its wake_fd. Control
 * thread.
 *
 * @param w  The worker.
 * @param ctx  The context.
 */
void worker_ctx_detach(struct worker *w, struct worker_ctx *ctx);

/**
 * The workers' clock: the time to pass to their functions. Any thread.
 *
 * @return  Nanoseconds of CLOCK_MONOTONIC.
 */
static inline ns_t worker_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

/**
 * Wake the worker if it sleeps. Any thread.
 *
 * @param w  The worker.
 */
void worker_kick(struct worker *w);

/* ---- queries (any thread) ---- */

/**
 * The number of a worker in its group. Any thread.
 *
 * @param w  The worker.
 * @return  The number that its configuration had.
 */
unsigned worker_index(const struct worker *w);

/**
 * The counters of a worker. Any thread.
 *
 * @param w  The worker.
 * @return  The counters, which go on counting; valid until worker_destroy().
 */
const struct worker_stats *worker_stats(const struct worker *w);
/**
 * What a worker does with its CPU, for people. Any thread.
 *
 * @param w  The worker.
 * @return  "polling", "asleep" or "contended" (it polls on a contended CPU, see poll_policy.h).
 */
const char *worker_mode(const struct worker *w);
/**
 * The CPU time that a worker's thread has used. Any thread.
 *
 * @param w  The worker.
 * @return  Nanoseconds; 0 when it does not run.
 */
ns_t worker_cpu_time(const struct worker *w);

#endif
