/* SPDX-License-Identifier: BSD-3-Clause */
/* Errands that run: those that close are interrupted, and those that last are named. The caller has
 * a lock. */
#ifndef UROCE_DEVICE_ERRAND_RUNNING_H
#define UROCE_DEVICE_ERRAND_RUNNING_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "control/errand.h"

/* On the stack of its thread. */
struct errand_running {
    LIST_ENTRY(errand_running) link;
    pthread_t thread;
    struct late_errand what;
    unsigned ticks;
    bool is_named;
};

LIST_HEAD(errand_running_list, errand_running);

/* Signals a thread that closes. True: it is to be done again at the next tick. */
bool errand_running_interrupt(struct errand_running_list *list, int signal);

/* Takes note of an errand that has lasted for ERRAND_LATE and is not named yet; false: there is
 * none. */
bool errand_running_name(struct errand_running_list *list, ns_t now, struct late_errand *out);

/* When the next one has lasted that long; NS_NEVER: no other is to be named. */
ns_t errand_running_next(const struct errand_running_list *list);

#endif
