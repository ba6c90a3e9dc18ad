/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's CPUs, as a device that is near to all of them has them in sysfs. */
#ifndef UROCE_SYS_HOST_CPUS_H
#define UROCE_SYS_HOST_CPUS_H

#include <stddef.h>

/* Fills mask ("00000000,0000000f") and list ("0-3"), each of `room` bytes. Returns the NUMA node:
 * 0, or -1 where there are several, or none. */
int host_cpus(char *mask, char *list, size_t room);

#endif
