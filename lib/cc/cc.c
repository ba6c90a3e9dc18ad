/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of congestion controllers, and pacing: see cc.h. */
#include "cc.h"

#include <string.h>

static const struct cc_ops *const algorithms[] = {
#define CC_ALGORITHM(algorithm) &cc_##algorithm,
#include "algorithms.def"
#undef CC_ALGORITHM
};

const struct cc_ops *cc_find(const char *name)
{
    for (unsigned i = 0; i < ARRAY_SIZE(algorithms); i++)
        if (!strcmp(algorithms[i]->name, name))
            return algorithms[i];
    return NULL;
}

const struct cc_ops *cc_at(unsigned i)
{
    return i < ARRAY_SIZE(algorithms) ? algorithms[i] : NULL;
}

/* ---- parameters ---- */

unsigned cc_param_count(const struct cc_ops *ops)
{
    unsigned n = 0;

    while (ops->param && ops->param[n].name)
        n++;
    return n;
}

void cc_default_params(const struct cc_ops *ops, uint64_t *params)
{
    memcpy(params, ops->defaults, cc_param_count(ops) * sizeof(*params));
}

/* A whole number without a sign, to the end of the text. */
static bool read_number(const char *text, uint64_t *value)
{
    *value = 0;
    if (!*text)
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (*value > UINT64_C(1) << 48)
            return false;
        *value = *value * 10 + (uint64_t)(*text - '0');
    }
    return !*text;
}

bool cc_read_param(const struct cc_ops *ops, uint64_t *params, const char *text)
{
    const char *is = strchr(text, '=');
    uint64_t value;

    if (!is || !read_number(is + 1, &value))
        return false;
    for (unsigned i = 0; i < cc_param_count(ops); i++) {
        const struct cc_param *p = &ops->param[i];

        if (strlen(p->name) != (size_t)(is - text) || memcmp(p->name, text, (size_t)(is - text)))
            continue;
        params[i] = value * p->unit;
        return value >= p->least && value <= p->most;
    }
    return false;
}

/* ---- controllers ---- */

void cc_start(struct cc *cc, const struct cc_ops *ops, const uint64_t *params, uint64_t line,
              uint32_t packet)
{
    *cc = (struct cc){.ops = ops,
                      .params = params ? params : ops->defaults,
                      .line = line,
                      .rate = line,
                      .limit = cc->limit,
                      .next = cc->next,
                      .packet = packet};
    if (ops->start)
        ops->start(cc);
}

void cc_stop(struct cc *cc)
{
    cc->ops = NULL;
    cc->window = 0;
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
    uint64_t rate = cc_is_controlled(cc) ? min_of(max_of(cc->rate, cc->least), cc->line) : cc->line;

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

/* What sent at any rate may send on at once: pacing begins now. */
static void tell(struct cc *cc, ns_t now, void (*what)(struct cc *cc, ns_t now))
{
    if (!what)
        return;
    if (!cc_is_limited(cc))
        cc->next = now;
    what(cc, now);
}

void cc_on_cnp(struct cc *cc, ns_t now)
{
    tell(cc, now, cc->ops->on_cnp);
}

void cc_on_ce(struct cc *cc, ns_t now)
{
    tell(cc, now, cc->ops->on_ce);
}

void cc_on_ack(struct cc *cc, uint64_t bytes, ns_t delay, ns_t now)
{
    if (!cc->ops->on_ack)
        return;
    if (!cc_is_limited(cc))
        cc->next = now;
    cc->ops->on_ack(cc, bytes, max_of(delay, (ns_t)1), now);
}

void cc_on_timeout(struct cc *cc, ns_t now)
{
    tell(cc, now, cc->ops->on_timeout);
}

uint64_t cc_allowance(struct cc *cc, ns_t now)
{
    if (cc->ops && cc->ops->on_sent)
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
    if (cc->ops && cc->ops->on_sent)
        cc->ops->on_sent(cc, bytes, now);
}
