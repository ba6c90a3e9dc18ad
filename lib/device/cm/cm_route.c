/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA_OPTION_IB_PATH: the program gives the route instead of resolving it. On RoCE the addresses
 * are resolved already, so that it says no more than how packets are sent.
 */
#include <errno.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "pkt.h"

#define MTU_MAX     5
#define LIFE_MAX    31
#define SL_MAX      15
#define RATE_MAX    0x3F
#define FULL_MEMBER 0x8000
#define FLOW_MAX    0xFFFFFu

static bool is_valid(const struct ctl_cm_route *r)
{
    return r->mtu && r->mtu <= MTU_MAX && r->packet_life_time <= LIFE_MAX && r->sl <= SL_MAX &&
           r->rate <= RATE_MAX && r->flow_label <= FLOW_MAX &&
           (r->pkey | FULL_MEMBER) == PKEY_DEFAULT;
}

/* The GIDs are those that the id has resolved. */
static bool is_between(const struct cm_object *o, const struct ctl_cm_route *r)
{
    return !memcmp(r->sgid, o->src.gid, sizeof(r->sgid)) &&
           !memcmp(r->dgid, o->dgid.raw, sizeof(r->dgid));
}

int cm_route_set(struct cm_object *o, const struct ctl_cm_route *r)
{
    if (o->progress != CM_AT_ADDRESS || cm_object_is_full(o) || !is_between(o, r) || !is_valid(r))
        return -EINVAL;
    o->route = (struct cm_route){.given = true,
                                 .flow_label = r->flow_label,
                                 .hop_limit = r->hop_limit,
                                 .traffic_class = r->traffic_class,
                                 .sl = r->sl,
                                 .mtu = r->mtu,
                                 .rate = r->rate,
                                 .packet_life_time = r->packet_life_time};
    o->progress = CM_AT_ROUTE;
    cm_object_report(o, CTL_CM_ROUTE_RESOLVED, 0);
    return 0;
}

/* What the program leaves open, by zero, stays. */
void cm_route_apply(const struct cm_route *route, struct cm_path *path)
{
    if (!route->given)
        return;
    path->mtu = min_of(path->mtu, route->mtu);
    path->sl = route->sl;
    path->traffic_class = route->traffic_class;
    path->packet_life_time = route->packet_life_time;
    path->hop_limit = route->hop_limit ? route->hop_limit : path->hop_limit;
    path->rate = route->rate ? route->rate : path->rate;
    path->flow_label = route->flow_label ? route->flow_label : path->flow_label;
}
