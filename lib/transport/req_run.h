/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests that are taken many at a time, for who builds their packets. */
#ifndef UROCE_REQ_RUN_H
#define UROCE_REQ_RUN_H

#include "transport.h"

/* A place in a ring, which goes round. */
struct place {
    uint8_t *at, *begin, *end;
    size_t stride;
};

static inline struct place place_in(const uint8_t *ring, uint32_t size, uint32_t stride, uint32_t i)
{
    uint8_t *begin = (uint8_t *)(uintptr_t)ring;

    return (struct place){.at = begin + (size_t)(i & (size - 1)) * stride,
                          .begin = begin,
                          .end = begin + (size_t)size * stride,
                          .stride = stride};
}

static inline void advance(struct place *p)
{
    p->at += p->stride;
    if (p->at == p->end)
        p->at = p->begin;
}

/* Two words of an entry at a time. */
typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));

#define ONE_SGE UINT64_C(0x010000) /* in the second word: opcode, flags, number of SGEs */

/* The region that holds the bytes, and they may be accessed so: always in the same way. */
struct source {
    struct mem_region *mr;
    uint32_t lkey;
};

static inline bool find_source(struct engine *e, const struct qp *qp, const struct sge *sge,
                               uint32_t access, struct source *from)
{
    if (likely(from->mr && from->lkey == sge->lkey))
        return mr_covers(from->mr, sge->addr, sge->length);
    from->lkey = sge->lkey;
    from->mr = NULL;
    return mr_check(&e->mrs, sge->lkey, qp->pd, sge->addr, sge->length, access, &from->mr) == MR_OK;
}

static inline void start_slot(struct send_slot *s, uint32_t index, uint32_t len, uint32_t packets,
                              psn_t first)
{
    s->index = index;
    s->len = len;
    s->packets = packets;
    s->done = 0;
    s->first = first;
    s->status = WC_SUCCESS;
    s->started = true;
}

/* req_read.c: takes and builds up to n READs, of which there are so many entries and slots; nothing
 * waits behind others. The frames as for req_only. Returns how many. */
unsigned req_reads(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);

#endif
