/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program's library gets of an event. */
#include "cm/cm_address.h"
#include "cm/cm_object.h"

/* What the library would ask for next, to lead the id on. */
static void tell_more(const struct cm_record *r, struct ctl_cm_told *told)
{
    const struct cm_object *o = r->fresh ? r->fresh : r->of;

    told->info = (struct ctl_cm_info){0};
    told->steps = (struct ctl_cm_steps){0};
    switch (r->e.type) {
    case CTL_CM_CONNECT_REQUEST:
        cm_object_info(o, &told->info);
        cm_object_steps(o, &told->steps);
        return;
    case CTL_CM_CONNECT_RESPONSE:
        cm_object_steps(o, &told->steps);
        return;
    case CTL_CM_ADDR_RESOLVED:
    case CTL_CM_ROUTE_RESOLVED:
        cm_object_info(o, &told->info);
        return;
    default:
        return;
    }
}

void cm_record_tell(const struct cm_record *r, struct ctl_cm_told *told)
{
    told->event = r->e;
    told->event.channel = r->of->channel->o.handle;
    told->serial = r->fresh ? r->fresh->serial : r->of->serial;
    tell_more(r, told);
}
