/* SPDX-License-Identifier: BSD-3-Clause */
/* Which packets a rule acts on: see inject.h. */
#include <string.h>

#include "inject.h"
#include "opcode.h"
#include "random.h"

static bool is_of(const struct inject_rule *rule, const char *program)
{
    return !rule->program[0] || (program && !strcmp(rule->program, program));
}

bool inject_matches(const struct inject_rule *rule, const struct inject_packet *p)
{
    if (rule->directions && !(rule->directions & p->direction))
        return false;
    if (rule->by_opcode && !(rule->opcode[p->opcode / 64] >> p->opcode % 64 & 1))
        return false;
    if (rule->act == INJECT_NAK && !p->is_ack)
        return false;
    if (rule->by_qp && rule->qp != p->dest_qpn)
        return false;
    if (rule->by_sport && rule->sport != p->sport)
        return false;
    if (rule->by_peer && !gid_eq(&rule->peer, &p->peer))
        return false;
    if (!is_of(rule, p->program))
        return false;
    return !rule->by_psn || ((p->psn - rule->psn) & PSN_MASK) < rule->psn_count;
}

/* The generator's number `index`, without those before it: its state grows by a constant. */
static struct random generator(const struct inject_rule *rule, uint64_t index)
{
    return (struct random){rule->seed + index * UINT64_C(0x9e3779b97f4a7c15)};
}

bool inject_picks(const struct inject_rule *rule, uint64_t index)
{
    struct random r = generator(rule, index);

    if (rule->nth && (index + 1) % rule->nth)
        return false;
    return !rule->by_chance || (random_next(&r) >> 32) * INJECT_BILLION < rule->chance << 32;
}

/* Other numbers than those that `chance` compares, which would be small ones only. */
uint32_t inject_below(const struct inject_rule *rule, uint64_t index, uint32_t n)
{
    struct random r = generator(rule, ~index);

    return random_below(&r, n);
}

/* Counts a packet as picked, unless `count` have been. */
static bool take_one(struct inject_hits *hits, uint64_t count)
{
    uint64_t picked = atomic_load_explicit(&hits->picked, memory_order_relaxed);

    do {
        if (picked >= count)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&hits->picked, &picked, picked + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

bool inject_is_its_time(const struct inject_rule *rule, ns_t age)
{
    return age >= rule->after && (!rule->lasts || age - rule->after < rule->lasts);
}

/* Counts one that matches. */
static bool pick(const struct inject_rule *rule, struct inject_hits *hits, uint64_t *index)
{
    *index = atomic_fetch_add_explicit(&hits->matched, 1, memory_order_relaxed);
    if (!inject_picks(rule, *index))
        return false;
    return take_one(hits, rule->count ? rule->count : UINT64_MAX);
}

bool inject_decide(const struct inject_rule *rule, struct inject_hits *hits,
                   const struct inject_packet *p, ns_t age, uint64_t *index)
{
    return inject_is_its_time(rule, age) && inject_matches(rule, p) && pick(rule, hits, index);
}

bool inject_decide_call(const struct inject_rule *rule, struct inject_hits *hits,
                        const struct inject_call *c, ns_t age)
{
    uint64_t index;

    return inject_is_its_time(rule, age) && rule->verb == c->verb && is_of(rule, c->program) &&
           pick(rule, hits, &index);
}

bool inject_decide_request(const struct inject_rule *rule, struct inject_hits *hits,
                           const struct inject_request *r, ns_t age)
{
    uint64_t index;

    return inject_is_its_time(rule, age) && (!rule->by_qp || rule->qp == r->qpn) &&
           (!rule->operations || (r->operation < 32 && (rule->operations >> r->operation & 1))) &&
           is_of(rule, r->program) && pick(rule, hits, &index);
}
