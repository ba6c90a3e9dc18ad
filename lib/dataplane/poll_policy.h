/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a worker that finds no work polls again, yields its CPU or sleeps. Pure: time is an
 * argument.
 *
 * A worker that had work in the last POLL_BUSY_NS keeps polling. It yields after each empty poll,
 * or, while yields return so soon that no other thread can have had the CPU, after more and more of
 * them (yield.h); after fewer when more threads poll than there are CPUs. Later it sleeps.
 *
 * A yield that takes long means that the CPU is contended: another thread on it does not yield in
 * turn (a program that polls its own memory, or plain computation). For a while the worker then
 * sleeps as soon as it finds no work, because the scheduler gives the CPU at once to a thread that
 * wakes up, but not to one that has yielded. When that happens again soon, the time doubles; but
 * only if there was work in it, as every machine has hiccups, and a program may compute before it
 * communicates.
 *
 * Waking the worker costs the program that posts a system call, for each post if its posts come one
 * by one. So a worker on a contended CPU lingers: before it sleeps it polls for about as long as
 * that call takes. When that finds no work the next sleeps come without lingering, because another
 * thread on this CPU may be waiting for the worker to sleep.
 *
 * A worker with a CPU of its own polls always.
 */
#ifndef UROCE_POLL_POLICY_H
#define UROCE_POLL_POLICY_H

#include <stdbool.h>

#include "common.h"
#include "yield.h"

#define POLL_BUSY_NS       (50 * NS_PER_US) /* of polling after the last work */
#define POLL_SPINS         63u /* polls between two yields, at most, when there are enough CPUs */
#define POLL_SHARE_NS      (25 * NS_PER_US) /* of work, after which the worker yields */
#define POLL_PROBE_NS      NS_PER_MS        /* the same while no other thread takes the CPU */
#define POLL_CONTENDED_MIN (4 * NS_PER_MS)
#define POLL_CONTENDED_MAX (256 * NS_PER_MS)
#define POLL_CONTENDED_AGAIN \
    (20 * NS_PER_MS)            /* a long yield this soon after a contended time ... */
#define POLL_CONTENDED_WORK 64u /* ... with this much work continues that time */
#define POLL_LINGER_NS      (5 * NS_PER_US)
#define POLL_LINGER_SKIP    64u /* sleeps without lingering after lingering found no work, ... */
#define POLL_LINGER_HITS    16u /* ... unless it had found work this many times in a row */

enum poll_step {
    POLL_SPIN,  /* pause, poll again */
    POLL_YIELD, /* yield the CPU, measure how long that takes, call poll_yielded */
    POLL_SLEEP, /* arm and sleep */
};

struct poll_policy {
    bool always;         /* polls again whatever happens: the CPU is the worker's own */
    uint32_t spin_limit; /* published to applications: POLL_SPINS, or 0 when crowded */
    struct yield_looks yields;
    uint32_t empty_polls; /* since the last yield */
    ns_t last_yield;
    ns_t last_work;
    bool contended;
    ns_t contended_until, contended_span; /* end and length of the last such time; 0: none yet */
    uint32_t contended_work;              /* polls that found work since it began */
    bool lingering;
    uint32_t linger_hits; /* times in a row that lingering found work */
    uint32_t linger_skip; /* sleeps to come without lingering */
};

void poll_policy_init(struct poll_policy *p, ns_t now);

/* Whether more threads poll than there are CPUs. */
void poll_set_crowded(struct poll_policy *p, bool crowded);

/* A poll found work, or another thread woke the worker on purpose. */
void poll_found_work(struct poll_policy *p, ns_t now);

/* After poll_found_work: whether to yield nevertheless. The program that waits for this work may be
 * on this CPU, and has to consume it before more can come: receives run out, windows fill. */
bool poll_should_share(const struct poll_policy *p, ns_t now);

/* A poll found no work: what to do. */
enum poll_step poll_empty(struct poll_policy *p, ns_t now);

/* A yield returned after `took`. */
void poll_yielded(struct poll_policy *p, ns_t now, ns_t took);

static inline bool poll_is_contended(const struct poll_policy *p)
{
    return p->contended;
}

#endif
