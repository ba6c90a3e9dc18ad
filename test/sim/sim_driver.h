/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs seeds, and when one fails, finds a minimal set of lost, corrupted, repeated or delayed
 * frames with which it still fails (delta debugging over the fates that the link recorded).
 */
#ifndef UROCE_SIM_DRIVER_H
#define UROCE_SIM_DRIVER_H

#include "kit.h"

struct sim_orders {
    struct kit_fates *record; /* or */
    const struct kit_fates *replay;
    kit_hook bug; /* on every link, or NULL */
};

/* One run. It fails by ending the program with a status other than 0, or by a signal. */
typedef void (*sim_run)(uint64_t seed, const struct sim_orders *orders);

/* Adds to the numbers of the last line. */
void sim_total(const struct kit_link *l);
void sim_total_forwarded(unsigned long long frames);
void sim_total_moved(unsigned long long queue_pairs);

int sim_main(const char *program, int argc, char **argv, sim_run run);

#endif
