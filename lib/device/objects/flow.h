/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules of applications. */
#ifndef UROCE_DEVICE_FLOW_H
#define UROCE_DEVICE_FLOW_H

#include "objects/object.h"
#include "raw.h"
#include "session.h"

struct flow_object {
    struct object o;
    TAILQ_ENTRY(flow_object) in_device;
    struct qp_object *q;
    struct flow_rule rule;
    bool published; /* as number `index` of the port's table */
    unsigned index;
    struct flow_count past; /* taken while earlier tables were published */
};

int flow_create(struct session *sn, struct ctl_call *call);
int flow_query(struct session *sn, struct ctl_call *call);
int flow_destroy(struct session *sn, struct ctl_call *call);
void flow_free_all(struct session *sn);

/* What the rule has taken since its creation. */
struct flow_count flow_taken(const struct flow_object *f);

#endif
