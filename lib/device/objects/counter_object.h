/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion counters: an application reads in shared memory how much work of its queue pairs is
 * done. */
#ifndef UROCE_DEVICE_COUNTER_OBJECT_H
#define UROCE_DEVICE_COUNTER_OBJECT_H

#include "comp_counter.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "session.h"

struct qp_object;

struct counter_object {
    struct object o; /* refs: kinds of work of queue pairs */
    struct segment segment;
    struct comp_counter counter;
};

int counter_create(struct session *sn, struct ctl_call *call);
int counter_destroy(struct session *sn, struct ctl_call *call);
bool counter_free_some(struct session *sn, const struct slice *s);

int counter_attach(struct session *sn, struct ctl_call *call);
/* No worker counts the queue pair's work any more. */
void counters_released(struct qp_object *q);

#endif
