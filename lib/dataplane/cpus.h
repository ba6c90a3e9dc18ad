/* SPDX-License-Identifier: BSD-3-Clause */
/* How many CPUs the workers and the applications share. Control thread. */
#ifndef UROCE_CPUS_H
#define UROCE_CPUS_H

#include <sched.h>
#include <sys/types.h>

/* Starts a set with the CPUs of this process. */
void cpus_begin(cpu_set_t *set);

/* Adds the CPUs that process pid may use. A process that has ended adds none. */
void cpus_add(cpu_set_t *set, pid_t pid);

/* The number of CPUs in the set, at most what the cgroup's CPU quota (versions 2 and 1) allows, at
 * least 1. */
unsigned cpus_count(const cpu_set_t *set);

#endif
