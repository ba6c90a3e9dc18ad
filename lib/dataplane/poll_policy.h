/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a worker that finds nothing to do spins, yields or sleeps. Pure: time is an argument.
 *
 * A worker with work in the last POLL_HOT_NS keeps looking: with pauses between the looks while
 * there is a CPU for everybody who spins, and giving its CPU away at every empty look when there is
 * not. Then it sleeps. A yield that takes long means that somebody on this CPU does not yield in
 * turn (a program that polls its own memory, or plain computation): for a while the worker then
 * sleeps at once whenever it finds nothing ("eager"), because a sleeper that is woken gets the CPU
 * at once and a yielder does not.
 *
 * To be woken costs the program that posts a system call, each time if its posts come one by one.
 * So an eager worker lingers before it sleeps for about as long as that costs. If that was in vain
 * it does not again for a while, as somebody on this CPU may be waiting for it to go.
 */
#ifndef UROCE_POLL_POLICY_H
#define UROCE_POLL_POLICY_H

#include <stdbool.h>

#include "common.h"

#define POLL_HOT_NS         (50 * NS_PER_US)
#define POLL_LONG_YIELD_NS  (100 * NS_PER_US)
#define POLL_EAGER_MIN      1024u
#define POLL_EAGER_MAX      65536u
#define POLL_EAGER_RECUR_NS (2 * NS_PER_SEC)
#define POLL_SPINS          64u /* looks between two yields when CPUs are enough */
#define POLL_LINGER_NS      (5 * NS_PER_US)
#define POLL_LINGER_SKIP    64u /* sleeps without lingering after it was in vain */
#define POLL_LINGER_RUN     16u /* unless it was not, so many times in a row before */

enum poll_step {
    POLL_SPIN,  /* pause, look again */
    POLL_YIELD, /* give the CPU away, measure for how long, tell poll_yielded */
    POLL_SLEEP, /* arm and sleep */
};

struct poll_policy {
    uint32_t spin_limit; /* looks between yields: 0 or POLL_SPINS */
    uint32_t empties;    /* since the last yield */
    ns_t last_work;
    uint32_t eager_left; /* empty looks for which to stay eager; 0: not eager */
    uint32_t eager_span; /* length of the last eager time */
    ns_t eager_end;      /* when it ended; 0: never was eager */
    bool lingering;
    uint32_t linger_hits; /* times in a row that work came meanwhile */
    uint32_t linger_skip; /* sleeps to come without lingering */
};

void poll_policy_init(struct poll_policy *p, ns_t now);

/* spinners: threads that poll now, this one included. */
void poll_set_spinners(struct poll_policy *p, unsigned spinners, unsigned cpus);

/* A look found work, or somebody woke the worker on purpose. */
void poll_worked(struct poll_policy *p, ns_t now);

/* A look found nothing: what to do. */
enum poll_step poll_empty(struct poll_policy *p, ns_t now);

/* A yield came back after `took`. */
void poll_yielded(struct poll_policy *p, ns_t now, ns_t took);

static inline bool poll_is_eager(const struct poll_policy *p)
{
    return p->eager_left > 0;
}

#endif
