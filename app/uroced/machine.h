/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine, and those who limit this process, leave to the daemon. */
#ifndef UROCED_MACHINE_H
#define UROCED_MACHINE_H

#include <stdint.h>

#include "quota.h"

/* Mappings that the process may have: vm.max_map_count. */
uint64_t machine_mappings(void);

/* Bytes of memory that the process may use: those of the machine, or less by a limit of its control
 * groups, or its RLIMIT_AS or RLIMIT_DATA. */
uint64_t machine_memory(void);

/*
 * The smallest limit of memory of the control groups in `groups`, the text of /proc/PID/cgroup, and
 * of the groups above them; root is /sys/fs/cgroup. UINT64_MAX: there is none.
 */
uint64_t machine_cgroup_memory(const char *root, const char *groups);

/*
 * Fills in totals that the configuration leaves open, and lowers those of mappings and descriptors
 * that the kernel does not grant. The daemon keeps a sixteenth of both for itself, and some more
 * descriptors; the default for objects' memory is half of the memory, and that for mapped regions
 * all.
 */
void machine_limit(struct quota_limits *limits, uint64_t mappings, uint64_t descriptors,
                   uint64_t memory);

#endif
