/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow rules: which raw packets go to which queue pair. Each change publishes a new table of the
 * port's rules.
 */
#include "objects/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/permission.h"
#include "control/session_state.h"
#include "objects/qp_object.h"

#define FLOW_HEADERS (FLOW_HAS_VLAN | FLOW_HAS_IPV4 | FLOW_HAS_IPV6 | FLOW_HAS_TCP | FLOW_HAS_UDP)

#define FLOW_TUNNELS (FLOW_HAS_VXLAN | FLOW_HAS_GRE | FLOW_HAS_MPLS | FLOW_HAS_ESP)

/* ---- the table ---- */

/* Replaces the table by another, or none. */
static void publish_table(struct device *d, struct flow_table *table)
{
    struct flow_table *old = atomic_exchange(&d->flows.table, table);

    device_quiesce(d);
    flow_table_free(old);
}

/* Some of the table's rules have been removed: workers do not have them any more. */
static void publish_rest(struct device *d)
{
    struct flow_table *rest = d->flow_count ? flow_table_with(d->flows.table, NULL) : NULL;

    if (rest || !d->flow_count)
        publish_table(d, rest);
    else /* out of memory: the empty places stay until the next change */
        device_quiesce(d);
}

/* ---- creation ---- */

static bool matches_all(const struct ctl_create_flow *rq)
{
    static const struct flow_deep_fields none;

    return !rq->match.headers && !memcmp(&rq->match.mask, &none, sizeof(rq->match.mask)) &&
           !rq->deep.tunnels && !rq->deep.inner_headers &&
           !memcmp(&rq->deep.mask, &none, sizeof(none));
}

/* No packet is both. */
static bool contradicts_itself(uint32_t headers)
{
    const uint32_t versions = FLOW_HAS_IPV4 | FLOW_HAS_IPV6, services = FLOW_HAS_TCP | FLOW_HAS_UDP;

    return (headers & versions) == versions || (headers & services) == services;
}

static int check_create(const struct ctl_create_flow *rq)
{
    if (rq->port != 1 || rq->type > FLOW_SNIFFER || rq->priority > UINT16_MAX ||
        rq->match.headers & ~(uint32_t)FLOW_HEADERS || rq->deep.tunnels & ~(uint32_t)FLOW_TUNNELS ||
        rq->deep.inner_headers & ~(uint32_t)(FLOW_HEADERS | FLOW_HAS_ETHERNET))
        return -EINVAL;
    if (contradicts_itself(rq->match.headers) || contradicts_itself(rq->deep.inner_headers))
        return -EINVAL;
    /* The other types match by the type alone. */
    if (rq->type != FLOW_NORMAL && (!matches_all(rq) || rq->drop))
        return -EINVAL;
    return 0;
}

static void fill_rule(struct flow_rule *rule, const struct ctl_create_flow *rq, struct qp *qp)
{
    *rule = (struct flow_rule){.type = rq->type,
                               .priority = (uint16_t)rq->priority,
                               .drop = rq->drop != 0,
                               .tagged = rq->tagged != 0,
                               .tag = rq->tag,
                               .match = rq->match,
                               .deep = rq->deep,
                               .qp = qp};
}

static int add_rule(struct device *d, struct flow_object *f)
{
    struct flow_table *table;

    f->entry = flow_entry_create(&f->rule);
    if (!f->entry)
        return -ENOMEM;
    table = flow_table_with(d->flows.table, f->entry);
    if (!table) {
        flow_entry_free(f->entry);
        return -ENOMEM;
    }
    d->flow_count++;
    publish_table(d, table);
    return 0;
}

int flow_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_flow *rq = &call->request->create_flow;
    struct qp_object *q = qp_object_get(sn, rq->qpn);
    struct flow_object *f;
    int err;

    if (!permission_raw(sn))
        return -EPERM;
    if (!q || qp_type(q->dp.qp) != QPT_RAW_PACKET)
        return -EINVAL;
    err = check_create(rq);
    if (err)
        return err;
    f = object_create(sn, OBJ_FLOW, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->q = q;
    fill_rule(&f->rule, rq, q->dp.qp);
    err = add_rule(sn->device, f);
    if (err) {
        object_destroy(&f->o);
        return err;
    }
    q->o.refs++;
    call->reply.create_flow.handle = f->o.handle;
    return 0;
}

/* ---- counts ---- */

static void fill_count(struct ctl_flow_count *reply, const struct flow_object *f)
{
    struct flow_count count = flow_entry_count(f->entry);

    reply->frames = count.frames;
    reply->bytes = count.bytes;
}

int flow_query(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_FLOW, call->request->flow_count.handle);

    if (!o)
        return -ENOENT;
    fill_count(&call->reply.flow_count, container_of(o, struct flow_object, o));
    return 0;
}

/* ---- destruction ---- */

static void remove_rule(struct device *d, const struct flow_object *f)
{
    flow_table_remove(d->flows.table, f->entry);
    d->flow_count--;
}

static void flow_free(struct object *o)
{
    struct flow_object *f = container_of(o, struct flow_object, o);

    flow_entry_free(f->entry);
    f->q->o.refs--;
    object_destroy(o);
}

int flow_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_FLOW, call->request->handle);
    struct flow_object *f;

    if (!o)
        return -ENOENT;
    f = container_of(o, struct flow_object, o);
    remove_rule(sn->device, f);
    publish_rest(sn->device);
    fill_count(&call->reply.flow_count, f);
    flow_free(o);
    return 0;
}

void flow_free_all(struct session *sn)
{
    struct object *o;

    if (!sn->count[OBJ_FLOW])
        return;
    TAILQ_FOREACH (o, &sn->objects[OBJ_FLOW], link)
        remove_rule(sn->device, container_of(o, struct flow_object, o));
    publish_rest(sn->device);
    while (!TAILQ_EMPTY(&sn->objects[OBJ_FLOW]))
        flow_free(TAILQ_FIRST(&sn->objects[OBJ_FLOW]));
}
