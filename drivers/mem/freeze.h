/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suspending copies while an application rearranges its memory. A copy that began earlier could
 * write to pages that have left the application, so workers copy nothing from their next quiet
 * point until the application is done. The freeze ends after a time limit in any case, because
 * workers have other applications to serve.
 */
#ifndef UROCE_MEM_FREEZE_H
#define UROCE_MEM_FREEZE_H

#include <stdatomic.h>
#include <stdint.h>

#include "common.h"

/* The freeze of one application. Zeroed: not frozen. */
struct mem_freeze {
    _Atomic uint64_t until;  /* CLOCK_MONOTONIC, ns; 0: not frozen */
    _Atomic uint64_t waited; /* ns that workers have waited for it */
};

/* Starts a freeze of at most ns. Control thread. */
void mem_freeze_begin(struct mem_freeze *f, uint64_t ns);
/* Ends it. Returns the ns that workers have waited since mem_freeze_begin. Control thread. */
uint64_t mem_freeze_end(struct mem_freeze *f);

/* The slow part of mem_freeze_wait. */
void mem_freeze_sleep(struct mem_freeze *f);

/* Waits while the application is frozen; before each transfer. Workers. */
static inline void mem_freeze_wait(struct mem_freeze *f)
{
    if (unlikely(atomic_load_explicit(&f->until, memory_order_acquire)))
        mem_freeze_sleep(f);
}

#endif
