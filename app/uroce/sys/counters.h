/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of sysfs, and which of the daemon's they are. doc/sysfs.md has the table. */
#ifndef UROCE_SYS_COUNTERS_H
#define UROCE_SYS_COUNTERS_H

#include "face.h"

#define SYS_COUNTER_SOURCES 10

struct sys_counter {
    const char *folder, *name;
    uint64_t unit; /* bytes, where it does not count one by one */
    /* The daemon's counters that it is the sum of: "c." of the port, "d." drops, "t." sums over
     * queue pairs. None: what cannot happen here. */
    const char *source[SYS_COUNTER_SOURCES];
};

/* The last one has no name. */
extern const struct sys_counter sys_counters[];

uint64_t sys_counter_value(const struct sys_counter *c, const struct face_device *d);

#endif
