/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, completion queues and shared receive queues in JSON. */
#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/pd_mr.h"
#include "objects/srq_object.h"
#include "show/show.h"

/* What each row begins with: whose the object is. */
static json_t *begin(const struct object *o, const char *number)
{
    const struct session *sn = o->session;
    json_t *row = json_object();

    json_object_set_new(row, "device", json_string(sn->device->name));
    json_object_set_new(row, number, show_number(o->handle));
    json_object_set_new(row, "pid", show_number((uint64_t)sn->peer.pid));
    json_object_set_new(row, "context", show_number(sn->context));
    return row;
}

static json_t *show_pd(const struct pd *pd)
{
    json_t *row = begin(&pd->o, "pd");

    json_object_set_new(row, "users", show_number(pd->o.refs));
    return row;
}

static json_t *show_cq(const struct cq *cq)
{
    json_t *row = begin(&cq->o, "cq");

    json_object_set_new(row, "cqe", show_number(cq->dp.cq.size));
    json_object_set_new(row, "vector", show_number(cq->vector));
    json_object_set_new(row, "users", show_number(cq->o.refs));
    return row;
}

static json_t *show_srq(const struct srq_object *s)
{
    json_t *row = begin(&s->o, "srq");

    json_object_set_new(row, "type", json_string(s->xrcd ? "XRC" : "BASIC"));
    json_object_set_new(row, "pd", show_number(pd_number(s->pd)));
    if (s->cq)
        json_object_set_new(row, "cq", show_number(s->cq->o.handle));
    json_object_set_new(row, "max_wr", show_number(s->layout.max_wr));
    json_object_set_new(row, "users", show_number(s->o.refs));
    return row;
}

void show_pds(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_pd(container_of(o[i], struct pd, o));
}

void show_cqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_cq(container_of(o[i], struct cq, o));
}

void show_srqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_srq(container_of(o[i], struct srq_object, o));
}
