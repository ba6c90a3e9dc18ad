/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a worker that finds nothing to do spins, yields or sleeps. Pure: time is an argument.
 *
 * A worker with work in the last POLL_HOT_NS keeps looking, and gives its CPU away at every empty
 * look, or, while yields come back so soon that nobody else can have had it, after ever more of
 * them; fewer when it is known that more spin than there are CPUs. Then it sleeps. A yield that
 * takes long means that somebody on this CPU does not yield in turn (a program that polls its
 * own memory, or plain computation): for a while the worker then sleeps at once whenever it finds
 * nothing ("eager"), because a sleeper that is woken gets the CPU at once and a yielder does not.
 * If that happens again soon, it is eager for twice the time. Not so for what happens on any
 * machine: a hiccup, or a program that computes before it begins.
 *
 * To be woken costs the program that posts a system call, each time if its posts come one by one.
 * So an eager worker lingers before it sleeps for about as long as that costs. If that was in vain
 * it does not again for a while, as somebody on this CPU may be waiting for it to go.
 */
#ifndef UROCE_POLL_POLICY_H
#define UROCE_POLL_POLICY_H

#include <stdbool.h>

#include "common.h"
#include "yield.h"

#define POLL_HOT_NS      (50 * NS_PER_US)
#define POLL_SPINS       63u /* looks between two yields, at most, when CPUs are enough */
#define POLL_SHARE_NS    (25 * NS_PER_US) /* of work, after which a wanted CPU is given away */
#define POLL_PROBE_NS    NS_PER_MS        /* the same when nobody seems to want it */
#define POLL_EAGER_MIN   (4 * NS_PER_MS)
#define POLL_EAGER_MAX   (256 * NS_PER_MS)
#define POLL_EAGER_AGAIN (20 * NS_PER_MS) /* a long yield so soon after an eager time ... */
#define POLL_EAGER_WORK  64u              /* ... that had so much work is the same again */
#define POLL_LINGER_NS   (5 * NS_PER_US)
#define POLL_LINGER_SKIP 64u /* sleeps without lingering after it was in vain */
#define POLL_LINGER_RUN  16u /* unless it was not, so many times in a row before */

enum poll_step {
    POLL_SPIN,  /* pause, look again */
    POLL_YIELD, /* give the CPU away, measure for how long, tell poll_yielded */
    POLL_SLEEP, /* arm and sleep */
};

struct poll_policy {
    uint32_t spin_limit; /* what applications are told: POLL_SPINS, or 0 when crowded */
    struct yield_looks yields;
    uint32_t empties; /* since the last yield */
    ns_t last_yield;
    ns_t last_work;
    bool eager;
    ns_t eager_until, eager_span; /* of the last eager time: its end, its length; 0: never was */
    uint32_t eager_work;          /* looks that found work since it began */
    bool lingering;
    uint32_t linger_hits; /* times in a row that work came meanwhile */
    uint32_t linger_skip; /* sleeps to come without lingering */
};

void poll_policy_init(struct poll_policy *p, ns_t now);

/* Whether more threads poll than there are CPUs. */
void poll_set_crowded(struct poll_policy *p, bool crowded);

/* A look found work, or somebody woke the worker on purpose. */
void poll_worked(struct poll_policy *p, ns_t now);

/* After poll_worked: whether to yield all the same. Who else is on this CPU may be the one for whom
 * the work is, and has to take it before more can come: receives run out, windows fill. */
bool poll_share(const struct poll_policy *p, ns_t now);

/* A look found nothing: what to do. */
enum poll_step poll_empty(struct poll_policy *p, ns_t now);

/* A yield came back after `took`. */
void poll_yielded(struct poll_policy *p, ns_t now, ns_t took);

static inline bool poll_is_eager(const struct poll_policy *p)
{
    return p->eager;
}

#endif
