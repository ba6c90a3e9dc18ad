/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of the packet's path one by one, for callgrind. */
#ifndef UROCE_STAGE_COST_H
#define UROCE_STAGE_COST_H

/* Each stage so many times, in a function of its own, cost_STAGE. */
void stage_costs(unsigned times);

#endif
