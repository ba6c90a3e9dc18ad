/* SPDX-License-Identifier: BSD-3-Clause */
/* See import.h. */
#include "objects/import.h"

#include <errno.h>

#include "control/session_state.h"
#include "objects/dm.h"
#include "objects/pd_mr.h"

static struct alias *alias_of(struct object *o)
{
    return o->kind == OBJ_PD ? &container_of(o, struct pd, o)->alias
                             : &container_of(o, struct dm, o)->alias;
}

static int import_pd(struct session *sn, struct object *of, struct ctl_import *reply)
{
    struct pd *pd = object_create(sn, OBJ_PD, sizeof(*pd));

    if (!pd)
        return -ENOMEM;
    pd->alias.of = of;
    of->refs++;
    reply->handle = pd->o.handle;
    return 0;
}

/* The domain must be the region's: a queue pair of another one could not use it. */
static int import_mr(struct session *sn, struct object *of, uint32_t handle,
                     struct ctl_import *reply)
{
    struct object *pd = object_get(sn, OBJ_PD, handle);
    struct mr *mr = container_of(of, struct mr, o);

    if (!pd || container_of(pd, struct pd, o)->alias.of != &mr->pd->o || mr->closed)
        return -EINVAL;
    reply->lkey = reply->rkey = mr->region.key;
    reply->length = mr->region.len;
    return 0;
}

static int import_dm(struct session *sn, struct object *of, struct ctl_call *call)
{
    struct ctl_import *reply = &call->reply.import;
    struct dm *original = container_of(of, struct dm, o), *dm;
    int fd = slab_share(&original->segment);

    if (fd < 0)
        return fd;
    call->out_fd[call->out_fds++] = fd; /* closed when the call fails */
    dm = object_create(sn, OBJ_DM, sizeof(*dm));
    if (!dm)
        return -ENOMEM;
    dm->alias.of = of;
    of->refs++;
    dm->base = original->base;
    dm->length = original->length;
    reply->handle = dm->o.handle;
    reply->length = dm->length;
    reply->offset = (uint64_t)(dm->base - (uint8_t *)slab_memory(&original->segment)->base);
    return 0;
}

static const enum object_kind kinds[] = {
    [CTL_IMPORT_PD] = OBJ_PD, [CTL_IMPORT_MR] = OBJ_MR, [CTL_IMPORT_DM] = OBJ_DM};

int object_import(struct session *sn, struct ctl_call *call)
{
    const struct ctl_import *rq = &call->request->import;
    struct object *of;

    if (!sn->joined || rq->kind >= ARRAY_SIZE(kinds))
        return -EINVAL;
    of = object_get(sn->joined, kinds[rq->kind], rq->handle);
    if (!of)
        return -ENOENT;
    switch (rq->kind) {
    case CTL_IMPORT_PD:
        return import_pd(sn, of, &call->reply.import);
    case CTL_IMPORT_MR:
        return import_mr(sn, of, rq->pd, &call->reply.import);
    default:
        return import_dm(sn, of, call);
    }
}

int object_unimport(struct session *sn, struct ctl_call *call)
{
    const struct ctl_import *rq = &call->request->import;
    struct object *o;

    if (rq->kind != CTL_IMPORT_PD && rq->kind != CTL_IMPORT_DM)
        return -EINVAL;
    o = object_get(sn, kinds[rq->kind], rq->handle);
    if (!o || !alias_of(o)->of)
        return -ENOENT;
    alias_of(o)->unimported = true;
    if (rq->kind == CTL_IMPORT_PD)
        pd_end_unused(o);
    else
        dm_end_unused(o);
    return 0;
}
