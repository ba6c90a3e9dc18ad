/* SPDX-License-Identifier: BSD-3-Clause */
#include "poll_policy.h"

void poll_policy_init(struct poll_policy *p, ns_t now)
{
    *p = (struct poll_policy){.spin_limit = POLL_SPINS, .last_work = now, .last_yield = now};
}

void poll_set_crowded(struct poll_policy *p, bool crowded)
{
    p->spin_limit = crowded ? 0 : POLL_SPINS;
}

void poll_worked(struct poll_policy *p, ns_t now)
{
    p->last_work = now;
    p->empties = 0;
    p->eager = p->eager && now < p->eager_until;
    p->eager_work += p->eager;
    if (p->lingering) {
        p->lingering = false;
        p->linger_hits++;
    }
}

bool poll_share(const struct poll_policy *p, ns_t now)
{
    ns_t pause = p->spin_limit && p->yields.looks ? POLL_PROBE_NS : POLL_SHARE_NS;

    return !p->eager && now - p->last_yield >= pause;
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
    p->eager = p->eager && now < p->eager_until;
    if (p->eager)
        return linger(p, now) ? POLL_SPIN : POLL_SLEEP;
    if (now - p->last_work >= POLL_HOT_NS)
        return POLL_SLEEP;
    if (p->empties++ < yield_after(&p->yields, p->spin_limit))
        return POLL_SPIN;
    p->empties = 0;
    return POLL_YIELD;
}

void poll_yielded(struct poll_policy *p, ns_t now, ns_t took)
{
    bool again = p->eager_work >= POLL_EAGER_WORK && now - took < p->eager_until + POLL_EAGER_AGAIN;

    p->last_yield = now;
    yield_learn(&p->yields, p->spin_limit, took);
    if (took < YIELD_LONG_NS)
        return;
    p->eager_span = again ? min_of(p->eager_span * 2, POLL_EAGER_MAX) : POLL_EAGER_MIN;
    p->eager_until = now + p->eager_span;
    p->eager_work = 0;
    p->eager = true;
}
