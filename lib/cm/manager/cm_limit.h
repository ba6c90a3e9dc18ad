/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of what the manager sends without a program's call: token buckets. A bucket is one time:
 * when it is full again. Pure; one thread at a time.
 */
#ifndef UROCE_CM_LIMIT_H
#define UROCE_CM_LIMIT_H

#include <stdbool.h>

#include "common.h"

struct cm_bucket {
    ns_t full; /* at this time and later */
};

/* How many tokens fit, and how long one takes to come back. */
struct cm_rate {
    uint32_t burst;
    ns_t interval;
};

/* Takes a token, or returns false: there is none. */
bool cm_bucket_take(struct cm_bucket *b, const struct cm_rate *rate, ns_t now);

#endif
