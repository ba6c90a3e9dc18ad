/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifying an application of its hot regions (struct mem_heat). */
#ifndef UROCE_HEAT_H
#define UROCE_HEAT_H

#include "common.h"
#include "mem_heat.h"

/* Wakes the application's thread that waits at word, which is in shared memory. */
void mem_heat_wake(_Atomic uint32_t *word);

/* Counts a backend call. Workers. */
static inline void mem_heat_count(struct mem_heat *h, const struct mem_io *io, unsigned n)
{
    if (unlikely(mem_heat_note(h, io, n)))
        mem_heat_wake(h->word);
}

#endif
