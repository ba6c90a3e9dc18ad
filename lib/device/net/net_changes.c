/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when the host has changed its addresses or neighbours: GIDs, groups, queue pairs,
 * applications. */
#include <string.h>

#include "control/async.h"
#include "control/session_state.h"
#include "net/gids.h"
#include "objects/ah.h"
#include "objects/mcast.h"
#include "objects/qp_object.h"

struct redirect_call {
    struct qp_object *q;
    struct ah *ah;
    uint8_t mac[6];
};

static void redirect(struct worker *w, void *arg)
{
    struct redirect_call *call = arg;

    if (call->q)
        engine_qp_redirect(qp_object_engine(call->q), call->q->dp.qp, call->mac);
    else
        address_handle_redirect(call->ah->handle, call->mac);
}

/* Redirects the packets of the call's object if their next hop has another MAC than av says. */
static void follow_neighbour(struct device *d, const struct address_vector *av,
                             struct redirect_call *call)
{
    struct gid_entry source = {.gid = av->sgid, .vlan = av->vlan, .type = av->gid_type};
    struct net_path path;

    if (gid_is_zero(&av->dgid) || net_resolve(d, &source, &av->dgid, &path) ||
        !memcmp(path.mac, av->dmac, sizeof(path.mac)))
        return;
    memcpy(call->mac, path.mac, sizeof(path.mac));
    if (call->q)
        qp_object_call(call->q, redirect, call);
    else /* queue pairs of any worker may use it */
        device_call_all(d, redirect, call);
}

static void follow_neighbours(struct device *d)
{
    struct object *o;

    for (struct session *sn = session_next(d, NULL); sn; sn = session_next(d, sn)) {
        TAILQ_FOREACH (o, &sn->objects[OBJ_QP], link) {
            struct redirect_call call = {.q = container_of(o, struct qp_object, o)};

            follow_neighbour(d, qp_address_vector(call.q->dp.qp), &call);
        }
        TAILQ_FOREACH (o, &sn->objects[OBJ_AH], link) {
            struct redirect_call call = {.ah = container_of(o, struct ah, o)};

            follow_neighbour(d, address_handle_vector(call.ah->handle), &call);
        }
    }
}

/* Addresses that are duplicates leave the GID table. They return when the other host has gone while
 * the link was down. */
static void change_gids(struct device *d)
{
    struct device_net *n = &d->net;

    if (!n->changes)
        return;
    for (unsigned i = 0; i < n->changes; i++) {
        const struct net_address *a = &n->change[i].a;
        struct port_address pa = {.gid = a->addr, .prefix = a->prefix, .vlan = a->vlan};
        int err = n->change[i].duplicate ? device_gids_remove(d, &a->addr, a->vlan)
                                         : device_gids_add(d, &pa);

        if (!err)
            async_port_event(d, PORT_EVENT_GID_CHANGE);
    }
    n->changes = 0;
    mcast_follow_addresses(d);
}

void net_apply_changes(struct device *d)
{
    struct device_net *n = &d->net;
    struct rnic *r = d->rnic;

    change_gids(d);
    if (n->moved) {
        n->moved = false;
        follow_neighbours(d);
    }
    net_arm_timer(d);
    if (n->resolved) {
        n->resolved = false;
        if (r->retry)
            r->retry(r->retry_ctx);
    }
}
