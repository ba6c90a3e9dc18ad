/* SPDX-License-Identifier: BSD-3-Clause */
#include "poll_policy.h"

void poll_policy_init(struct poll_policy *p, ns_t now)
{
    *p = (struct poll_policy){.spin_limit = POLL_SPINS, .last_work = now};
}

void poll_set_spinners(struct poll_policy *p, unsigned spinners, unsigned cpus)
{
    p->spin_limit = spinners > cpus ? 0 : POLL_SPINS;
}

void poll_worked(struct poll_policy *p, ns_t now)
{
    p->last_work = now;
    p->empties = 0;
    if (p->lingering) {
        p->lingering = false;
        p->linger_hits++;
    }
}

/* Whether to look once more before an eager sleep. */
static bool linger(struct poll_policy *p, ns_t now)
{
    if (p->linger_skip) {
        p->linger_skip--;
        return false;
    }
    if (now - p->last_work < POLL_LINGER_NS)
        return p->lingering = true;
    if (p->lingering) {
        p->lingering = false;
        p->linger_skip = p->linger_hits < POLL_LINGER_RUN ? POLL_LINGER_SKIP : 0;
        p->linger_hits = 0;
    }
    return false;
}

enum poll_step poll_empty(struct poll_policy *p, ns_t now)
{
    if (p->eager_left) {
        if (linger(p, now))
            return POLL_SPIN;
        if (!--p->eager_left)
            p->eager_end = now;
        return POLL_SLEEP;
    }
    if (now - p->last_work >= POLL_HOT_NS)
        return POLL_SLEEP;
    if (p->empties++ < p->spin_limit)
        return POLL_SPIN;
    p->empties = 0;
    return POLL_YIELD;
}

void poll_yielded(struct poll_policy *p, ns_t now, ns_t took)
{
    bool again = p->eager_end && now - p->eager_end < POLL_EAGER_RECUR_NS;

    if (took < POLL_LONG_YIELD_NS)
        return;
    p->eager_span = again ? min_of(p->eager_span * 2, POLL_EAGER_MAX) : POLL_EAGER_MIN;
    p->eager_left = p->eager_span;
}
