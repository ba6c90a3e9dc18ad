/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's state as rows with labels and values. */
#ifndef UROCE_METRICS_SELECT_H
#define UROCE_METRICS_SELECT_H

#include <jansson.h>

enum metrics_topic {
    METRIC_DAEMON,
    METRIC_BUILD,
    METRIC_PORT_INFO,
    METRIC_PORT,
    METRIC_DROPS, /* all reasons, also those that have not occurred */
    METRIC_QOS,
    METRIC_TOTALS, /* over the queue pairs of a device, also those that are gone */
    METRIC_NETWORK,
    METRIC_QUEUE,
    METRIC_WORKER,
    METRIC_DEVICE,
    METRIC_MRS,
    METRIC_USER,
    METRIC_USER_MEMORY,
    METRIC_ALL, /* users */
    METRIC_ALL_MEMORY,
    METRIC_LATE,
    METRIC_LATENCY,
    METRIC_CM_MESSAGE,
    METRIC_CM,
    METRIC_GSI,
    METRIC_TOPICS
};

/* The names of a topic's labels, members of its rows; a row may be without one. The last is NULL.
 */
const char *const *metrics_labels(enum metrics_topic topic);

/* The rows of a topic, a list of objects, for the caller to free. NULL: out of memory. */
json_t *metrics_select(enum metrics_topic topic, const json_t *state);

#endif
