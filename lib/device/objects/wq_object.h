/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues and the indirection tables that lead to them: receive-side scaling of raw packets. */
#ifndef UROCE_DEVICE_WQ_OBJECT_H
#define UROCE_DEVICE_WQ_OBJECT_H

#include "control/async.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "raw.h"
#include "session.h"
#include "worker.h"

struct wq_object {
    struct object o;
    struct dp_wq dp;
    struct wq *wq;
    struct worker_port *port; /* its engine owns the work queue */
    struct pd *pd;
    struct cq *cq;
    struct srq_object *srq; /* the source of its WQEs, or NULL */
    struct segment segment;
    uint32_t uidx;
    struct async_wait wait;
};

struct rwq_ind_object {
    struct object o;
    struct rwq_ind *ind;
    uint32_t size;
    struct wq_object *wq[RWQ_IND_MAX];
};

/* The session's work queue with this number, or its indirection table with this handle; or NULL. */
struct wq_object *wq_object_get(struct session *sn, uint32_t number);
struct rwq_ind_object *rwq_ind_get(struct session *sn, uint32_t handle);

int wq_object_create(struct session *sn, struct ctl_call *call);
int wq_object_modify(struct session *sn, struct ctl_call *call);
int wq_object_destroy(struct session *sn, struct ctl_call *call);
bool wq_free_some(struct session *sn, const struct slice *s);

int rwq_ind_object_create(struct session *sn, struct ctl_call *call);
int rwq_ind_object_modify(struct session *sn, struct ctl_call *call);
int rwq_ind_object_destroy(struct session *sn, struct ctl_call *call);
bool rwq_ind_free_some(struct session *sn, const struct slice *s);

#endif
