/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels and completion queues. */
#ifndef UROCE_DEVICE_CQ_CHANNEL_H
#define UROCE_DEVICE_CQ_CHANNEL_H

#include "control/async.h"
#include "event_loop.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "session.h"
#include "worker.h"

struct channel {
    struct object o;
    struct dp_channel dp;
    TAILQ_HEAD(, cq) unsent;      /* those of its CQs that have events to be sent */
    struct event_source writable; /* watched while there are some */
};

struct cq {
    struct object o;
    struct dp_cq dp;
    struct channel *channel; /* or NULL */
    uint32_t vector;         /* the worker that the application asked for */
    struct segment segment;
    struct segment old;     /* after a resize, until the application has left it */
    unsigned looks;         /* calls in which a resize has waited for work that is under way */
    TAILQ_ENTRY(cq) unsent; /* while is_unsent: in its channel's list */
    bool is_unsent;
    struct async_wait wait;
};

int cq_channel_create(struct session *sn, struct ctl_call *call);
int cq_channel_destroy(struct session *sn, struct ctl_call *call);
bool channel_free_some(struct session *sn, const struct slice *s);
/* Sends, or arranges to be sent, the completion events that workers left behind. */
void channels_deliver(struct rnic *r);

int cq_create(struct session *sn, struct ctl_call *call);
int cq_destroy(struct session *sn, struct ctl_call *call);
int cq_resize(struct session *sn, struct ctl_call *call);
int cq_resize_done(struct session *sn, struct ctl_call *call);
int cq_modify(struct session *sn, struct ctl_call *call);
int cq_raise(struct session *sn, struct ctl_call *call);
bool cq_free_some(struct session *sn, const struct slice *s);

#endif
