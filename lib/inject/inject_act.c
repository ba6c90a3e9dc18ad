/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules of a port do to a frame: see inject_act.h. */
#include "inject_act.h"

#include "frame_peek.h"

#define REORDER_LIMIT (10 * NS_PER_MS) /* a packet that no other overtakes goes on */

static ns_t age_of(const struct inject_live *live, ns_t now)
{
    return now - min_of(live->since, now);
}

struct inject_live *inject_link_taker(struct inject_live *const *rule, unsigned n, ns_t now)
{
    for (unsigned i = 0; i < n; i++)
        if (rule[i]->rule.act == INJECT_LINK_DOWN &&
            inject_is_its_time(&rule[i]->rule, age_of(rule[i], now)))
            return rule[i];
    return NULL;
}

struct inject_live *inject_choose(struct inject_live *const *rule, unsigned n,
                                  const struct inject_packet *p, ns_t now, unsigned *next,
                                  uint64_t *index)
{
    struct inject_live *taker = inject_link_taker(rule, n, now);

    if (taker) {
        atomic_fetch_add_explicit(&taker->hits.matched, 1, memory_order_relaxed);
        return taker;
    }
    while (p && *next < n) {
        struct inject_live *live = rule[(*next)++];

        if (live->rule.act != INJECT_LINK_DOWN &&
            inject_decide(&live->rule, &live->hits, p, age_of(live, now), index))
            return live;
    }
    return NULL;
}

bool inject_waits(enum inject_act act)
{
    return act == INJECT_DUPLICATE || act == INJECT_DELAY || act == INJECT_REORDER;
}

struct inject_wait inject_wait_of(const struct inject_rule *rule, ns_t now, uint64_t passed)
{
    switch (rule->act) {
    case INJECT_DELAY:
        return (struct inject_wait){now + rule->delay, UINT64_MAX};
    case INJECT_REORDER:
        return (struct inject_wait){now + REORDER_LIMIT, passed + rule->behind};
    default:
        return (struct inject_wait){now, 0};
    }
}

bool inject_change(const struct inject_rule *rule, uint64_t index, struct frame *f)
{
    switch (rule->act) {
    case INJECT_CORRUPT:
        return inject_corrupt(rule, index, f);
    case INJECT_NAK:
        return inject_nak(rule, f);
    case INJECT_MARK:
        return frame_mark(f->data, f->len);
    default:
        return true;
    }
}

enum inject_act inject_conclude(struct inject_live *live, bool done)
{
    enum inject_act act = live->rule.act;

    atomic_fetch_add_explicit(done ? &live->hits.acted : &live->hits.missed, 1,
                              memory_order_relaxed);
    if (!done)
        return INJECT_NOTHING;
    if (act == INJECT_DROP || act == INJECT_LINK_DOWN)
        return INJECT_DROP;
    return act == INJECT_DELAY || act == INJECT_REORDER ? act : INJECT_NOTHING;
}

enum inject_act inject_apply(struct inject_live *const *rule, unsigned n,
                             const struct inject_packet *p, ns_t now, inject_act_fn *act, void *ctx)
{
    enum inject_act taken = INJECT_NOTHING;
    struct inject_live *live;
    uint64_t index = 0;
    unsigned next = 0;
    bool done = false;

    while (!done && (live = inject_choose(rule, n, p, now, &next, &index)) != NULL) {
        done = act(ctx, live, index);
        taken = inject_conclude(live, done);
    }
    return taken;
}
