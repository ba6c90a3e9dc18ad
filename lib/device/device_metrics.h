/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's counters for its own HTTP server: the state that `uroce metrics` asks for, as a
 * value of jansson, collected part by part so that requests of applications are served in between.
 *
 * Threads: the control thread. The host ends a collection before it destroys the devices.
 */
#ifndef UROCE_DEVICE_METRICS_H
#define UROCE_DEVICE_METRICS_H

#include <jansson.h>
#include <stdbool.h>

#include "device.h"

/** A collection. */
struct rnic_metrics;

/**
 * Begin a collection, of what root may see.
 *
 * @param r  The devices.
 * @return  The collection; NULL: out of memory.
 */
struct rnic_metrics *rnic_metrics_begin(struct rnic *r);
/**
 * Collect for some ten microseconds.
 *
 * @param m  The collection.
 * @return  Whether there is more.
 */
bool rnic_metrics_some(struct rnic_metrics *m);
/**
 * End a collection, also before all is collected.
 *
 * @param m  The collection, which is freed.
 * @return  The state, which the caller owns; NULL: it is not complete, or out of memory.
 */
json_t *rnic_metrics_end(struct rnic_metrics *m);

#endif
