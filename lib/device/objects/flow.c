/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow rules: which raw packets go to which queue pair. Each change publishes a new table of all
 * rules of the port, in the order of their creation.
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

static struct flow_table *make_table(struct device *d)
{
    struct flow_rule *rules = calloc(d->flow_count, sizeof(*rules));
    struct flow_table *table;
    struct flow_object *f;
    unsigned n = 0;

    if (!rules)
        return NULL;
    TAILQ_FOREACH (f, &d->flow_list, in_device)
        rules[n++] = f->rule;
    table = flow_table_create(rules, n);
    free(rules);
    return table;
}

static struct flow_count sum_of(struct flow_count a, struct flow_count b)
{
    return (struct flow_count){.frames = a.frames + b.frames, .bytes = a.bytes + b.bytes};
}

struct flow_count flow_taken(const struct flow_object *f)
{
    const struct flow_table *table = atomic_load(&f->o.session->device->flows.table);

    return f->published && table ? sum_of(f->past, flow_table_count(table, f->index)) : f->past;
}

/*
 * Replaces the table by another, or none. The rules keep their counts; so does `removed`, a rule of
 * the old table only, or NULL.
 */
static void publish_table(struct device *d, struct flow_table *table, struct flow_object *removed)
{
    struct flow_table *old = atomic_exchange(&d->flows.table, table);
    struct flow_object *f;
    unsigned n = 0;

    device_quiesce(d);
    if (removed && removed->published) {
        removed->past = sum_of(removed->past, flow_table_count(old, removed->index));
        removed->published = false;
    }
    TAILQ_FOREACH (f, &d->flow_list, in_device) {
        if (f->published)
            f->past = sum_of(f->past, flow_table_count(old, f->index));
        f->published = table != NULL;
        f->index = n++;
    }
    if (old)
        flow_table_free(old);
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

    TAILQ_INSERT_TAIL(&d->flow_list, f, in_device);
    d->flow_count++;
    table = make_table(d);
    if (!table) {
        TAILQ_REMOVE(&d->flow_list, f, in_device);
        d->flow_count--;
        return -ENOMEM;
    }
    publish_table(d, table, NULL);
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
    struct flow_count count = flow_taken(f);

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

static void unlink_rule(struct device *d, struct flow_object *f)
{
    TAILQ_REMOVE(&d->flow_list, f, in_device);
    d->flow_count--;
}

static void flow_free(struct object *o)
{
    container_of(o, struct flow_object, o)->q->o.refs--;
    object_destroy(o);
}

int flow_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_FLOW, call->request->handle);
    struct device *d = sn->device;
    struct flow_table *table = NULL;
    struct flow_object *f, *next;

    if (!o)
        return -ENOENT;
    f = container_of(o, struct flow_object, o);
    next = TAILQ_NEXT(f, in_device);
    unlink_rule(d, f);
    if (d->flow_count) {
        table = make_table(d);
        if (!table) { /* the old table stays */
            if (next)
                TAILQ_INSERT_BEFORE(next, f, in_device);
            else
                TAILQ_INSERT_TAIL(&d->flow_list, f, in_device);
            d->flow_count++;
            return -ENOMEM;
        }
    }
    publish_table(d, table, f);
    fill_count(&call->reply.flow_count, f);
    flow_free(o);
    return 0;
}

void flow_free_all(struct session *sn)
{
    struct device *d = sn->device;
    struct object *o;

    if (!sn->count[OBJ_FLOW])
        return;
    TAILQ_FOREACH (o, &sn->objects[OBJ_FLOW], link)
        unlink_rule(d, container_of(o, struct flow_object, o));
    /* The rules must not stay. Without memory for a table of the remaining rules, these are not
     * effective until the next change. */
    publish_table(d, d->flow_count ? make_table(d) : NULL, NULL);
    while (!TAILQ_EMPTY(&sn->objects[OBJ_FLOW]))
        flow_free(TAILQ_FIRST(&sn->objects[OBJ_FLOW]));
}
