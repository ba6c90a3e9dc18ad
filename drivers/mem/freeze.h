/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standing still while an application rearranges its memory. A copy that began before would go to
 * pages that are no longer its own, so nothing is copied from the moment that all workers have
 * passed until it says that it is done; or until its time is up, for workers have others to serve.
 */
#ifndef UROCE_MEM_FREEZE_H
#define UROCE_MEM_FREEZE_H

#include <stdatomic.h>
#include <stdint.h>

#include "common.h"

/* Of one application; zeroed: not frozen. */
struct mem_freeze {
    _Atomic uint64_t until;  /* CLOCK_MONOTONIC, ns; 0: not frozen */
    _Atomic uint64_t waited; /* ns that workers stood still for it */
};

/* For at most ns from now. Control thread. */
void mem_freeze_begin(struct mem_freeze *f, uint64_t ns);
/* Returns the ns that workers waited since mem_freeze_begin. Control thread. */
uint64_t mem_freeze_end(struct mem_freeze *f);

void mem_freeze_sleep(struct mem_freeze *f);

/* Before each transfer. Workers. */
static inline void mem_freeze_wait(struct mem_freeze *f)
{
    if (unlikely(atomic_load_explicit(&f->until, memory_order_acquire)))
        mem_freeze_sleep(f);
}

#endif
