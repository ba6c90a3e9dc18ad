/* SPDX-License-Identifier: BSD-3-Clause */
/* See watch_call.h. */
#include "control/watch_call.h"

#include <errno.h>

#include "control/fault_rules.h"
#include "control/session_state.h"
#include "trust.h"

static bool is_on(const struct rnic *r)
{
    return r->config.latency || r->watchers;
}

void watch_context(struct session *sn)
{
    struct ctx_shared *shared = sn->segment.base;
    uint32_t watch = is_on(sn->rnic) ? CTX_WATCH_LATENCY : 0;

    if (!sn->device || !shared)
        return;
    if (fault_verbs_asked(sn))
        watch |= CTX_WATCH_CALLS;
    atomic_store_explicit(&shared->watch, watch, memory_order_relaxed);
}

void watch_follow(struct rnic *r)
{
    struct session *sn;

    for (unsigned i = 0; i < r->devices; i++)
        for (unsigned k = 0; k < r->device[i]->parts; k++)
            engine_time_sends(r->device[i]->port[k]->engine, is_on(r));
    TAILQ_FOREACH (sn, &r->sessions, link)
        watch_context(sn);
}

static void set_watches(struct session *sn, bool on)
{
    if (sn->watches == on)
        return;
    sn->watches = on;
    sn->rnic->watchers += on ? 1 : -1u;
    watch_follow(sn->rnic);
}

int judge_call(struct session *sn, struct ctl_call *call)
{
    (void)sn;
    return call->request->judge.call < CTL_JUDGED ? 0 : -EINVAL;
}

int watch_call(struct session *sn, struct ctl_call *call)
{
    if (!trust_user(sn->peer.uid))
        return -EPERM;
    if (call->request->watch.latency > 1)
        return -EINVAL;
    set_watches(sn, call->request->watch.latency);
    return 0;
}

void watch_end(struct session *sn)
{
    set_watches(sn, false);
}
