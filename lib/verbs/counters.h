/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules, and the counters objects to which they are bound. */
#ifndef UROCE_VERBS_COUNTERS_H
#define UROCE_VERBS_COUNTERS_H

#include <sys/queue.h>

#include "shim.h"

#define COUNTERS_POINTS 32u /* values of an object */

enum counters_point {
    POINT_NONE, /* reads as 0 */
    POINT_PACKETS,
    POINT_BYTES,
};

struct shim_flow {
    struct ibv_flow base;
    struct shim_counters *_Atomic counters; /* or NULL */
    LIST_ENTRY(shim_flow) link;
    struct ctl_flow_count before; /* what it had taken when it was bound */
};

struct shim_counters {
    struct ibv_counters base;
    pthread_mutex_t lock; /* of all below, and of the rules' destruction */
    LIST_HEAD(, shim_flow) flows;
    struct ctl_flow_count past; /* taken by rules that are destroyed */
    uint8_t point[COUNTERS_POINTS];
};

static inline struct shim_counters *to_counters(struct ibv_counters *c)
{
    return (struct shim_counters *)c;
}

/* A rule that is bound to no object. */
void counters_bind(struct shim_counters *c, struct shim_flow *flow);
/* Destroys the rule in the daemon; its object keeps what it has taken. 0 or an errno. */
int counters_destroy_flow(struct shim_flow *flow);

#endif
