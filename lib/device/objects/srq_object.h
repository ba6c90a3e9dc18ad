/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#ifndef UROCE_DEVICE_SRQ_OBJECT_H
#define UROCE_DEVICE_SRQ_OBJECT_H

#include "control/async.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "session.h"
#include "worker.h"

struct srq_object {
    struct object o;
    struct dp_srq dp;
    struct srq *srq;
    struct pd *pd;
    struct cq *cq; /* XRC */
    struct xrcd *xrcd;
    struct segment segment;
    struct ctl_create_srq layout; /* as in the last reply */
    struct async_wait wait;
};

/* The session's SRQ with this number, or NULL. */
struct srq_object *srq_object_get(struct session *sn, uint32_t srqn);

int srq_object_create(struct session *sn, struct ctl_call *call);
int srq_object_modify(struct session *sn, struct ctl_call *call);
int srq_object_query(struct session *sn, struct ctl_call *call);
int srq_object_destroy(struct session *sn, struct ctl_call *call);
/* The session ends before a resize was answered. */
void srq_end_resize(struct session *sn);
bool srq_free_some(struct session *sn, const struct slice *s);

#endif
