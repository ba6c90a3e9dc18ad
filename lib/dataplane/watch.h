/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The watch: a thread that sees to it that no program's memory stops a worker. Every four
 * milliseconds while workers copy from or to programs (and never else) it looks whether one of them
 * is in the same such call as the time before, and sleeps. Then the worker's loop goes on with
 * another thread, which is always in reserve, and the sleeping one is left with the call
 * (carrier.h). After that, or when it has found a worker asleep in two calls within a second, it
 * looks every millisecond for ten seconds.
 */
#ifndef UROCE_WATCH_H
#define UROCE_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

/** The watch of a group of workers. */
struct watch;

/** What a watch is created with. */
struct watch_config {
    struct worker_group *group; /**< its workers exist already; outlives the watch */
    /** Starts a thread, as env_ops.thread_start. */
    int (*thread_start)(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);
    /** Called on the watch's thread when a worker's loop was taken out of a call: for a log. pid:
     * the process whose memory did not answer, or 0. May be NULL. */
    void (*on_late)(void *ctx, unsigned worker, int pid);
    void *ctx;
};

/**
 * Create a watch, before the workers run. Control thread.
 *
 * @param config  Copied.
 * @param err  Set when the result is NULL: a negative errno.
 * @return  The watch; NULL: out of memory or threads.
 */
struct watch *watch_create(const struct watch_config *config, int *err);

/**
 * The body of the watch's thread, for the environment. Returns after watch_stop().
 *
 * @param watch  The watch.
 * @return  NULL.
 */
void *watch_run(void *watch);

/**
 * Request that watch_run() returns, after the workers have ended. Control thread.
 *
 * @param w  The watch.
 */
void watch_stop(struct watch *w);

/**
 * Whether workers that the calling thread starts can be taken out of calls. Where the system gives
 * threads shadow stacks they cannot, and wait for the memory of applications.
 *
 * @return  Whether they can.
 */
bool watch_takes_loops(void);

/**
 * Free a watch whose thread has ended, if it ran. Control thread.
 *
 * @param w  The watch; NULL does nothing.
 */
void watch_destroy(struct watch *w);

#endif
