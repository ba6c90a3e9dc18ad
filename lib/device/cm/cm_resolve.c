/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_resolve_addr and rdma_resolve_route: the device, the local address, the next hop. */
#include <errno.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "control/slice.h"

/* The bound address must be one of the device's when it is no wildcard. An id without one finds its
 * device again for each destination, until it has reached one. */
static int choose_device(struct cm_object *o, const struct ctl_cm_addr *src,
                         const struct ctl_cm_addr *dst)
{
    struct rnic *r = o->o.session->rnic;

    if (o->device)
        return 0;
    o->searches = cm_address_is_any(src) || (o->bound && o->searches);
    if (!o->searches)
        return cm_address_find(r, src, &o->device, &o->sgid_index);
    return cm_address_towards(r, dst, &o->device, &o->sgid_index);
}

static int bind_local(struct cm_object *o, const struct ctl_cm_addr *wanted)
{
    struct ctl_cm_addr src = cm_address_of(o->device, o->sgid_index, wanted->number);

    src.family = o->dst.family; /* of a mapped IPv4 address both are AF_INET6 */
    if (!o->bound)
        return cm_object_bind(o, &src);
    if (!o->searches) /* the place of its address may be another one's by now */
        return 0;
    src.number = o->src.number; /* of a wildcard, which becomes this address */
    o->src = src;
    o->vlan = o->device->gids.entry[o->sgid_index].vlan;
    return 0;
}

/* ---- ids that wait for ARP or neighbour discovery ---- */

/* Deadlines are this long after the one that the program named, at most: so rarely are all ids
 * looked at for them. */
#define DEADLINE_STEP (10 * NS_PER_MS)

void cm_resolve_forget(struct cm_object *o)
{
    struct cm_host *h = &o->o.session->rnic->cm;

    if (h->next == o)
        h->next = TAILQ_NEXT(o, resolving);
    TAILQ_REMOVE(&h->resolving, o, resolving);
}

/* quiet: who asked sees it without an event. */
static void end_query(struct cm_object *o, int err, bool quiet)
{
    cm_resolve_forget(o);
    o->address_gone = err == -EADDRNOTAVAIL; /* the event says it: cm_follow.c */
    o->progress = err ? CM_AT_START : CM_AT_ADDRESS;
    if (err)
        cm_incident_of_address(o, &o->dst, err);
    if (err && o->searches)
        o->device = NULL;
    if (err || !quiet)
        cm_object_report(o, err ? CTL_CM_ADDR_ERROR : CTL_CM_ADDR_RESOLVED, err);
}

/* True when it is over. */
static bool look(struct cm_object *o, ns_t now, bool quiet)
{
    struct cm_host *h = &o->o.session->rnic->cm;
    struct cm_path path;
    int err = cm_address_path(o, &path);

    if (err == -EINPROGRESS && now < o->deadline) {
        h->first = min_of(h->first, o->deadline);
        return false;
    }
    end_query(o, err == -EINPROGRESS ? -ETIMEDOUT : err, quiet);
    return true;
}

static void begin_query(struct cm_object *o, uint32_t timeout_ms, bool quiet)
{
    struct rnic *r = o->o.session->rnic;
    ns_t now = r->config.clock(), end = now + timeout_ms * NS_PER_MS;

    o->deadline = (end + DEADLINE_STEP - 1) / DEADLINE_STEP * DEADLINE_STEP;
    o->progress = CM_AT_QUERY;
    o->route.given = false;
    TAILQ_INSERT_TAIL(&r->cm.resolving, o, resolving);
    look(o, now, quiet);
    cm_host_arm(r);
}

/* Events of an id stay in their order. */
static bool may_be_at_once(const struct cm_object *o, const struct ctl_cm_resolve *rq)
{
    return rq->at_once && !o->events && rq->got == o->sent;
}

static int check(const struct cm_object *o, const struct ctl_cm_resolve *rq)
{
    const struct ctl_cm_addr *src = o->bound ? &o->src : &rq->src;

    if (!rq->dst.family || o->is_request || cm_object_is_full(o) || o->progress != CM_AT_START)
        return -EINVAL;
    if (src->family && !cm_address_is_any(src) &&
        cm_address_is_ipv4(src) != cm_address_is_ipv4(&rq->dst))
        return -EINVAL;
    return cm_id_state(o->id) == CM_IDLE ? 0 : -EINVAL;
}

int cm_resolve_addr(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_resolve *rq = &call->request->cm_resolve;
    struct cm_object *o = cm_object_get(sn, rq->id);
    int err = o ? check(o, rq) : -EINVAL;
    bool quiet;

    if (err)
        return err;
    err = choose_device(o, o->bound ? &o->src : &rq->src, &rq->dst);
    if (err)
        cm_incident_of_address(o, &rq->dst, err);
    if (err == -ENETUNREACH) { /* as the kernel: found out later */
        o->device = NULL;
        cm_object_report(o, CTL_CM_ADDR_ERROR, err);
        cm_object_info(o, &call->reply.cm_info);
        return 0;
    }
    if (!err) {
        o->dst = rq->dst;
        err = bind_local(o, &rq->src);
    }
    if (err) {
        if (!o->bound)
            o->device = NULL;
        return err;
    }
    if (cm_address_is_any(&o->dst)) /* this host */
        memcpy(o->dst.gid, o->src.gid, sizeof(o->dst.gid));
    memcpy(o->dgid.raw, o->dst.gid, sizeof(o->dgid.raw));
    quiet = may_be_at_once(o, rq);
    begin_query(o, rq->timeout_ms, quiet);
    cm_object_info(o, &call->reply.cm_info);
    call->reply.cm_info.at_once = quiet && o->progress == CM_AT_ADDRESS;
    return 0;
}

int cm_resolve_route(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_resolve *rq = &call->request->cm_resolve;
    struct cm_object *o = cm_object_get(sn, rq->id);

    if (!o || o->progress != CM_AT_ADDRESS || cm_object_is_full(o))
        return -EINVAL;
    o->progress = CM_AT_ROUTE;
    call->reply.cm_info = (struct ctl_cm_info){0};
    if (!may_be_at_once(o, rq)) {
        cm_object_report(o, CTL_CM_ROUTE_RESOLVED, 0);
        return 0;
    }
    cm_object_info(o, &call->reply.cm_info);
    call->reply.cm_info.at_once = 1;
    return 0;
}

/* ---- a look at all that wait ---- */

static void begin_look(struct cm_host *h)
{
    h->next = TAILQ_FIRST(&h->resolving);
    h->first = NS_NEVER; /* each of them says its own */
    h->again = false;
}

/* A slice; false: all have been looked at. */
static bool look_some(struct rnic *r)
{
    struct slice s = slice_begin();
    struct cm_host *h = &r->cm;
    struct cm_object *o;

    do {
        if (!h->next && h->again)
            begin_look(h);
        o = h->next;
        if (!o)
            break;
        h->next = TAILQ_NEXT(o, resolving);
        look(o, r->config.clock(), false);
    } while (!slice_over(&s) || !r->config.loop);
    h->looking = o != NULL;
    cm_host_arm(r);
    return h->looking;
}

static bool run_look(struct event_job *job)
{
    return look_some(container_of(container_of(job, struct cm_host, look), struct rnic, cm));
}

void cm_resolve_again(struct rnic *r)
{
    struct cm_host *h = &r->cm;

    h->again = true;
    if (h->looking)
        return;
    h->next = NULL;
    if (look_some(r))
        event_loop_start(r->config.loop, &h->look);
}

void cm_resolve_init(struct cm_host *h)
{
    TAILQ_INIT(&h->resolving);
    h->look.run = run_look;
    h->first = NS_NEVER;
}

void cm_resolve_stop(struct rnic *r)
{
    if (r->cm.looking)
        event_loop_stop(r->config.loop, &r->cm.look);
    r->cm.looking = false;
}
