/* SPDX-License-Identifier: BSD-3-Clause */
/* Long work of the control thread is cut into slices, between which it serves other requests. */
#ifndef UROCE_DEVICE_SLICE_H
#define UROCE_DEVICE_SLICE_H

#include <time.h>

#include "common.h"

#define SLICE_NS (100 * NS_PER_US)

struct slice {
    ns_t end;
};

static inline ns_t slice_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ns_t)ts.tv_sec * NS_PER_SEC + (ns_t)ts.tv_nsec;
}

static inline struct slice slice_begin(void)
{
    return (struct slice){slice_clock() + SLICE_NS};
}

/* Asked after each part of the work, which takes much less than a slice. */
static inline bool slice_over(const struct slice *s)
{
    return slice_clock() >= s->end;
}

#endif
