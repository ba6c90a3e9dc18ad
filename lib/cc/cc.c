/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of congestion controllers, and pacing: see cc.h. */
#include "cc.h"

#include <string.h>

static const struct cc_ops *const algorithms[] = {
    &cc_dcqcn,
    &cc_dcqcn_mlx5,
};

const struct cc_ops *cc_find(const char *name)
{
    for (unsigned i = 0; i < ARRAY_SIZE(algorithms); i++)
        if (!strcmp(algorithms[i]->name, name))
            return algorithms[i];
    return NULL;
}

void cc_start(struct cc *cc, const struct cc_ops *ops, uint64_t line)
{
    *cc = (struct cc){.ops = ops, .line = line, .rate = line, .limit = cc->limit, .next = cc->next};
    ops->start(cc);
}

void cc_stop(struct cc *cc)
{
    cc->ops = NULL;
}

void cc_set_limit(struct cc *cc, uint64_t limit, ns_t now)
{
    if (!cc_is_controlled(cc))
        cc->next = now;
    cc->limit = limit;
    cc->carry = 0;
}

static uint64_t rate_of(const struct cc *cc)
{
    uint64_t rate = cc_is_controlled(cc) ? cc->rate : cc->line;

    return cc->limit && (cc->limit < rate || !rate) ? cc->limit : rate;
}

uint64_t cc_burst(uint64_t rate)
{
    return CC_BURST * rate / (8 * NS_PER_SEC);
}

/* What was not sent in time is not made up for, except for a burst. */
static void forget_credit(struct cc *cc, ns_t now)
{
    if (now > CC_BURST && cc->next < now - CC_BURST)
        cc->next = now - CC_BURST;
}

void cc_on_cnp(struct cc *cc, ns_t now)
{
    if (!cc_is_limited(cc))
        cc->next = now;
    cc->ops->on_cnp(cc, now);
}

uint64_t cc_allowance(struct cc *cc, ns_t now)
{
    if (cc->ops)
        cc->ops->on_sent(cc, 0, now);
    forget_credit(cc, now);
    return now < cc->next ? 0 : (now - cc->next) * rate_of(cc) / (8 * NS_PER_SEC) + 1;
}

/* The remainder is kept: the rate is exact in the long run. */
void cc_on_sent(struct cc *cc, uint32_t bytes, ns_t now)
{
    uint64_t bits = (uint64_t)bytes * 8 * NS_PER_SEC + cc->carry, rate = rate_of(cc);

    forget_credit(cc, now);
    cc->next += bits / rate;
    cc->carry = bits % rate;
    if (cc->ops)
        cc->ops->on_sent(cc, bytes, now);
}
