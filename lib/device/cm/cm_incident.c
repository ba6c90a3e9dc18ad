/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections by rdma_cm that did not come about, for `uroce why`. */
#include <errno.h>
#include <string.h>

#include "cm/cm_object.h"
#include "control/incident_call.h"

static void put(struct cm_object *o, const uint8_t dgid[16], struct incident *i)
{
    memcpy(i->dgid, dgid, sizeof(i->dgid));
    incident_keep(o->o.session, o->device, o->qpn, i);
}

void cm_incident_of_address(struct cm_object *o, const struct ctl_cm_addr *dst, int err)
{
    struct incident i = {.cause = CAUSE_no_neighbour};

    if (err == -ENETUNREACH || err == -ENODEV)
        i.cause = CAUSE_no_route;
    else if (err != -EHOSTUNREACH && err != -ETIMEDOUT)
        return;
    put(o, dst->gid, &i);
}

void cm_incident_of_event(struct cm_object *o, const struct cm_event *event)
{
    struct incident i = {.detail = {o->dst.number, (uint64_t)event->status}};

    if (event->type == CM_EVENT_UNREACHABLE)
        i.cause = CAUSE_connect_timeout;
    else if (event->type != CM_EVENT_REJECTED)
        return;
    else if (event->status == CM_REJ_INVALID_SERVICE_ID)
        i.cause = CAUSE_connect_no_listener;
    else if (event->status == CM_REJ_CONSUMER)
        i.cause = CAUSE_connect_rejected;
    else
        i.cause = CAUSE_connect_refused;
    put(o, o->dgid.raw, &i);
}
