/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that put a flow on a chosen queue: a hash table of words. */
#include <errno.h>

#include "spread_internal.h"

#define EMPTY      UINT64_C(0) /* a search ends here */
#define REMOVED    UINT64_C(1) /* a search continues */
#define QUEUE_BITS 7
#define PROBES     32
#define BY_PORT    (UINT64_C(1) << 63)

_Static_assert(SPREAD_QUEUES_MAX < 1 << QUEUE_BITS, "a word holds a queue");
_Static_assert((FLOW_SLOTS & (FLOW_SLOTS - 1)) == 0, "slots are masked");

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 29;
}

static uint64_t mix_gid(uint64_t h, const union gid *gid)
{
    uint64_t word[2];

    __builtin_memcpy(word, gid->raw, sizeof(word));
    return mix(mix(h, word[0]), word[1]);
}

/* A rule's word without its queue. Never EMPTY or REMOVED. */
static uint64_t word_by_port(const struct spread_flows *f, const union gid *src,
                             const union gid *dst, uint16_t sport)
{
    uint64_t h = mix(mix_gid(mix_gid(f->secret, src), dst), sport);

    return (h | BY_PORT) >> QUEUE_BITS << QUEUE_BITS;
}

static uint64_t word_by_qpn(const struct spread_flows *f, const union gid *dst, uint32_t qpn)
{
    uint64_t h = mix(mix_gid(f->secret, dst), qpn);

    return ((h & ~BY_PORT) | 1u << QUEUE_BITS) >> QUEUE_BITS << QUEUE_BITS;
}

static uint32_t first_slot(uint64_t word)
{
    return (uint32_t)(word >> 32) & (FLOW_SLOTS - 1);
}

static bool find_rule(struct spread_flows *f, uint64_t word, unsigned *queue)
{
    for (uint32_t i = 0, at = first_slot(word); i < PROBES; i++, at = (at + 1) & (FLOW_SLOTS - 1)) {
        uint64_t found = atomic_load_explicit(&f->slot[at], memory_order_relaxed);

        if (found == EMPTY)
            return false;
        if (found >> QUEUE_BITS == word >> QUEUE_BITS && found != REMOVED) {
            *queue = found & ((1u << QUEUE_BITS) - 1);
            return true;
        }
    }
    return false;
}

bool spread_flow_find(struct spread_flows *f, const struct rss_frame *r, unsigned *queue)
{
    if (atomic_load_explicit(&f->by_port, memory_order_relaxed) &&
        find_rule(f, word_by_port(f, &r->tuple.src, &r->tuple.dst, r->tuple.sport), queue))
        return true;
    return atomic_load_explicit(&f->by_qpn, memory_order_relaxed) &&
           find_rule(f, word_by_qpn(f, &r->tuple.dst, r->dest_qpn), queue);
}

int spread_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule)
{
    struct spread *s = spread_of(io);
    struct spread_flows *f = &s->flows;
    uint64_t word = flow->sport ? word_by_port(f, &flow->src, &flow->dst, flow->sport)
                                : word_by_qpn(f, &flow->dst, flow->dest_qpn);

    if (queue >= s->queues)
        return -EINVAL;
    if (f->by_port + f->by_qpn >= SPREAD_FLOWS_MAX)
        return -ENOSPC;
    for (uint32_t i = 0, at = first_slot(word); i < PROBES; i++, at = (at + 1) & (FLOW_SLOTS - 1)) {
        uint64_t there = f->slot[at];

        if (there != EMPTY && there != REMOVED)
            continue;
        atomic_store_explicit(&f->slot[at], word | queue, memory_order_relaxed);
        atomic_fetch_add(flow->sport ? &f->by_port : &f->by_qpn, 1);
        *rule = &f->slot[at];
        return 0;
    }
    return -ENOSPC;
}

/* In front of an empty slot a removed rule is none to search past, nor are those before it. */
static void end_search(struct spread_flows *f, uint32_t at)
{
    if (f->slot[(at + 1) & (FLOW_SLOTS - 1)] != EMPTY)
        return;
    for (; f->slot[at] == REMOVED; at = (at - 1) & (FLOW_SLOTS - 1))
        atomic_store_explicit(&f->slot[at], EMPTY, memory_order_relaxed);
}

void spread_flow_remove(struct pktio *io, void *rule)
{
    struct spread_flows *f = &spread_of(io)->flows;
    _Atomic uint64_t *slot = rule;

    atomic_fetch_sub(*slot & BY_PORT ? &f->by_port : &f->by_qpn, 1);
    atomic_store_explicit(slot, REMOVED, memory_order_relaxed);
    end_search(f, (uint32_t)(slot - f->slot));
}
