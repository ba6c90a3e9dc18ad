/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when the host has changed its addresses or neighbours: GIDs, groups, queue pairs,
 * applications. */
#include <string.h>

#include "cm/cm_host.h"
#include "control/async.h"
#include "control/session_state.h"
#include "net/gids.h"
#include "objects/ah.h"
#include "objects/mcast.h"
#include "objects/qp_object.h"

/* ---- packets follow neighbours: a job, as there may be many queue pairs ---- */

#define BATCH  32  /* redirected with one interruption of the workers */
#define LOOKED 256 /* before the slice may be over */

struct redirect {
    struct object *o;
    uint8_t mac[6];
};

struct redirect_call {
    struct redirect r[BATCH];
    unsigned n;
};

/* Queue pairs that live on the worker. */
static void redirect_qps(struct worker *w, void *arg)
{
    struct redirect_call *call = arg;

    for (unsigned i = 0; i < call->n; i++) {
        struct qp_object *q = container_of(call->r[i].o, struct qp_object, o);

        if (q->dp.port->worker == w)
            engine_qp_redirect(qp_object_engine(q), q->dp.qp, call->r[i].mac);
    }
}

/* While no worker runs: queue pairs of any of them may use the address handles. */
static void redirect_ahs(struct worker *w, void *arg)
{
    struct redirect_call *call = arg;

    for (unsigned i = 0; i < call->n; i++)
        address_handle_redirect(container_of(call->r[i].o, struct ah, o)->handle, call->r[i].mac);
}

static const struct address_vector *vector_of(const struct object *o)
{
    return o->kind == OBJ_QP ? qp_address_vector(container_of(o, struct qp_object, o)->dp.qp)
                             : address_handle_vector(container_of(o, struct ah, o)->handle);
}

/* Whether the object's packets must go to another MAC than they do. */
static bool has_moved(struct device *d, struct object *o, uint8_t mac[6])
{
    const struct address_vector *av = vector_of(o);
    struct gid_entry source = {.gid = av->sgid, .vlan = av->vlan, .type = av->gid_type};
    struct net_path path;

    if (gid_is_zero(&av->dgid) || net_resolve(d, &source, &av->dgid, &path) ||
        !memcmp(path.mac, av->dmac, sizeof(path.mac)))
        return false;
    memcpy(mac, path.mac, sizeof(path.mac));
    return true;
}

/* The next objects that must be redirected. False: there are no more at all. */
static bool take_moved(struct device *d, struct walk *w, struct redirect_call *call)
{
    call->n = 0;
    for (unsigned looked = 0; looked < LOOKED && call->n < BATCH; looked++) {
        struct object *o = walk_next(w);

        if (!o)
            return false;
        call->r[call->n].o = o;
        if (o->session->device != d)
            walk_skip_session(w);
        else if (has_moved(d, o, call->r[call->n].mac))
            call->n++;
    }
    return true;
}

static void redirect_batch(struct device *d, enum object_kind kind, struct redirect_call *call)
{
    if (call->n && kind == OBJ_AH)
        device_call_all(d, redirect_ahs, call);
    for (unsigned i = 0; call->n && kind == OBJ_QP && i < d->parts; i++)
        worker_call(d->workers[i], redirect_qps, call);
}

static void begin_kind(struct device *d, struct net_follow *f, enum object_kind kind)
{
    f->again = f->again && kind != OBJ_QP;
    walk_begin(&f->walk, d->rnic, kind);
}

/* False: all packets go where they should. */
static bool follow_some(struct device *d, struct net_follow *f)
{
    struct slice s = slice_begin();

    do {
        struct redirect_call call;
        enum object_kind kind = f->walk.kind;
        bool more = take_moved(d, &f->walk, &call);

        redirect_batch(d, kind, &call);
        if (more)
            continue;
        walk_end(&f->walk);
        if (kind == OBJ_QP) {
            begin_kind(d, f, OBJ_AH);
        } else if (f->again) {
            begin_kind(d, f, OBJ_QP);
        } else {
            f->active = false;
            return false;
        }
    } while (!slice_over(&s) || !d->rnic->config.loop);
    return true;
}

static bool run_follow(struct event_job *job)
{
    struct net_follow *f = container_of(job, struct net_follow, job);

    return follow_some(container_of(container_of(f, struct device_net, follow), struct device, net),
                       f);
}

static void follow_neighbours(struct device *d)
{
    struct net_follow *f = &d->net.follow;

    f->again = f->active;
    if (f->active)
        return;
    f->active = true;
    f->job.run = run_follow;
    begin_kind(d, f, OBJ_QP);
    if (follow_some(d, f))
        event_loop_start(d->rnic->config.loop, &f->job);
}

void net_follow_cancel(struct device *d)
{
    if (!d->net.follow.active)
        return;
    event_loop_stop(d->rnic->config.loop, &d->net.follow.job);
    walk_end(&d->net.follow.walk);
    d->net.follow.active = false;
}

/* ---- addresses ---- */

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
    cm_host_addresses_changed(d->rnic);
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
        gsi_send_waiting(d);
        cm_host_resolved(r);
        if (r->retry)
            r->retry(r->retry_ctx);
    }
}
