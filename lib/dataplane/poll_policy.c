/* SPDX-License-Identifier: BSD-3-Clause */
/* See poll_policy.h. */
#include "poll_policy.h"

void poll_policy_init(struct poll_policy *p, ns_t now)
{
    *p = (struct poll_policy){.spin_limit = POLL_SPINS, .last_work = now, .last_yield = now};
}

void poll_set_crowded(struct poll_policy *p, bool crowded)
{
    p->spin_limit = crowded ? 0 : POLL_SPINS;
}

void poll_found_work(struct poll_policy *p, ns_t now)
{
    p->last_work = now;
    p->empty_polls = 0;
    p->contended = p->contended && now < p->contended_until;
    p->contended_work += p->contended;
    if (p->lingering) {
        p->lingering = false;
        p->linger_hits++;
    }
}

bool poll_should_share(const struct poll_policy *p, ns_t now)
{
    ns_t pause = p->spin_limit && p->yields.looks ? POLL_PROBE_NS : POLL_SHARE_NS;

    return !p->contended && !p->always && now - p->last_yield >= pause;
}

/* Whether to poll once more before sleeping on a contended CPU. */
static bool should_linger(struct poll_policy *p, ns_t now)
{
    if (p->linger_skip) {
        p->linger_skip--;
        return false;
    }
    if (now - p->last_work < POLL_LINGER_NS)
        return p->lingering = true;
    if (p->lingering) {
        p->lingering = false;
        p->linger_skip = p->linger_hits < POLL_LINGER_HITS ? POLL_LINGER_SKIP : 0;
        p->linger_hits = 0;
    }
    return false;
}

enum poll_step poll_empty(struct poll_policy *p, ns_t now)
{
    if (p->always)
        return POLL_SPIN;
    p->contended = p->contended && now < p->contended_until;
    if (p->contended)
        return should_linger(p, now) ? POLL_SPIN : POLL_SLEEP;
    if (now - p->last_work >= POLL_BUSY_NS)
        return POLL_SLEEP;
    if (p->empty_polls++ < yield_after(&p->yields, p->spin_limit))
        return POLL_SPIN;
    p->empty_polls = 0;
    return POLL_YIELD;
}

void poll_yielded(struct poll_policy *p, ns_t now, ns_t took)
{
    bool again = p->contended_work >= POLL_CONTENDED_WORK &&
                 now - took < p->contended_until + POLL_CONTENDED_AGAIN;

    p->last_yield = now;
    yield_learn(&p->yields, p->spin_limit, took);
    if (took < YIELD_LONG_NS)
        return;
    p->contended_span =
        again ? min_of(p->contended_span * 2, POLL_CONTENDED_MAX) : POLL_CONTENDED_MIN;
    p->contended_until = now + p->contended_span;
    p->contended_work = 0;
    p->contended = true;
}
