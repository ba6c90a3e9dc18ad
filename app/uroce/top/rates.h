/* SPDX-License-Identifier: BSD-3-Clause */
/* What has changed between two looks at a daemon. The caller owns the values. */
#ifndef UROCE_TOP_RATES_H
#define UROCE_TOP_RATES_H

#include <jansson.h>
#include <stdbool.h>

/* The parts of a daemon's state (show.h) that rates are made of: lists by their topics' names. */
json_t *rates_snapshot(const json_t *state);

/*
 * An object: "seconds", and the lists "ports", "workers", "programs" or (by_qp) "qps", "drops"
 * and "latency".
 * What was not there before has counted from 0. Programs and queue pairs with the most bytes come
 * first. NULL: out of memory.
 */
json_t *rates_between(const json_t *before, const json_t *after, double seconds, bool by_qp);

#endif
