/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules of applications. */
#ifndef UROCE_DEVICE_FLOW_H
#define UROCE_DEVICE_FLOW_H

#include "objects/object.h"
#include "raw.h"
#include "session.h"

struct flow_object {
    struct object o;
    struct qp_object *q;
    struct flow_rule rule;
    struct flow_entry *entry; /* of the port's table */
};

int flow_create(struct session *sn, struct ctl_call *call);
int flow_query(struct session *sn, struct ctl_call *call);
int flow_destroy(struct session *sn, struct ctl_call *call);
void flow_free_all(struct session *sn);

#endif
