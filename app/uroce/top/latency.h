/* SPDX-License-Identifier: BSD-3-Clause */
/* How long work requests took: the daemon's histograms as numbers for people. */
#ifndef UROCE_TOP_LATENCY_H
#define UROCE_TOP_LATENCY_H

#include <jansson.h>

/*
 * A row for each stage that has samples after `before`: device, stage, samples, and mean and
 * quantiles in microseconds. Both are lists "latency" of a daemon's state; before may be NULL. The
 * caller owns the list.
 */
json_t *latency_between(const json_t *before, const json_t *after);

#endif
