/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of the packet's path one by one, for callgrind. */
#ifndef UROCE_STAGE_COST_H
#define UROCE_STAGE_COST_H

#include <stddef.h>

/* Each stage this many times, in a function of its own, cost_STAGE. */
void stage_costs(unsigned times);

/* Queue pairs that are paced send at least this many packets in all, in turns of a packet:
 * paced_tx.
 */
void paced_costs(unsigned queue_pairs, unsigned packets);

/* Whole pages. Ends the program when there is no memory. */
void *zeroed(size_t bytes);

#endif
