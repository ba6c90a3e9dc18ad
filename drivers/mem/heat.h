/* SPDX-License-Identifier: BSD-3-Clause */
/* Telling an application which of its regions are copied much (struct mem_heat). */
#ifndef UROCE_MEM_HEAT_H
#define UROCE_MEM_HEAT_H

#include "common.h"
#include "mem.h"

/* Wakes the application's thread that waits at word, in memory that the two share. */
void mem_heat_wake(_Atomic uint32_t *word);

/* For each backend call. Workers. */
static inline void mem_heat_count(struct mem_heat *h, const struct mem_io *io, unsigned n)
{
    if (unlikely(mem_heat_note(h, io, n)))
        mem_heat_wake(h->word);
}

#endif
