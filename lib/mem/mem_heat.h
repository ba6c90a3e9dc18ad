/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How much regions are copied: those that are worth mapping.
 */
#ifndef UROCE_MEM_HEAT_H
#define UROCE_MEM_HEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mem.h"

/**
 * Regions that are worth mapping: those of one application that were copied as many times as their
 * limit says, each listed once. Zeroed: none, and no reader.
 */
struct mem_heat {
    _Atomic uint32_t *word; /**< set to 1 when there is a new one; NULL: no thread waits */
    struct mem_region *_Atomic hot;
};

/**
 * Count a backend call. Any worker.
 *
 * @param h  The application's list.
 * @param io  The transfers of the call. Without a region they are not counted.
 * @param n  How many.
 * @return  True when *word was 0 and has become 1: the caller wakes the thread that waits for that.
 */
bool mem_heat_note(struct mem_heat *h, const struct mem_io *io, unsigned n);

/**
 * Take the regions that became hot since the last call. Control thread.
 *
 * @param h  The application's list.
 * @return  The first, linked by heat.next; NULL: none.
 */
struct mem_region *mem_heat_take(struct mem_heat *h);

/**
 * Begin to count anew. Control thread.
 *
 * @param mr  The region; if it was listed, it has been taken.
 * @param limit  At how many calls it is hot. 0: never, except what a worker lists at this moment.
 */
void mem_heat_restart(struct mem_region *mr, uint32_t limit);

#endif
