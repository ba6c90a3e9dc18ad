/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: made here unbound; work requests bind them. */
#include "objects/mw.h"

#include <errno.h>

#include "control/session_state.h"
#include "mem_window.h"
#include "objects/pd_mr.h"

int mw_alloc(struct session *sn, struct ctl_call *call)
{
    const struct ctl_alloc_mw *rq = &call->request->alloc_mw;
    struct object *pd = object_get(sn, OBJ_PD, rq->pd);
    struct mw *mw;
    uint8_t tag;
    int err;

    if (!pd || (rq->type != 1 && rq->type != 2))
        return -EINVAL;
    mw = object_create(sn, OBJ_MW, sizeof(*mw));
    if (!mw)
        return -ENOMEM;
    mw->pd = container_of(pd, struct pd, o);
    mw->window.pd = pd_number(mw->pd);
    mw->window.kind = rq->type == 1 ? MEM_WINDOW_1 : MEM_WINDOW_2;
    err = random_bytes(&tag, sizeof(tag));
    if (!err) /* low: programs make the next key by adding one to the whole, which must not carry */
        err = mr_insert(&sn->device->mrs, &mw->window, tag & 0x7F);
    if (err) {
        object_destroy(&mw->o);
        return err == -ENOSPC ? -ENOMEM : err;
    }
    pd->refs++;
    call->reply.alloc_mw.handle = mw->o.handle;
    call->reply.alloc_mw.rkey = mw->window.key;
    return 0;
}

static void mw_unpublish(struct object *o)
{
    struct mw *mw = container_of(o, struct mw, o);

    if (!mw->closed) {
        mr_note_removal(&o->session->device->mrs, &mw->window, o->session->rnic->config.clock());
        mr_remove(&o->session->device->mrs, &mw->window);
    }
    mw->closed = true;
}

/* After the quiet point: a worker may have been binding it. */
static void mw_free(struct object *o)
{
    struct mw *mw = container_of(o, struct mw, o);

    window_unbind(&mw->window);
    mw->pd->o.refs--;
    object_destroy(o);
}

int mw_dealloc(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_MW, call->request->handle);

    if (!o)
        return -ENOENT;
    mw_unpublish(o);
    device_quiesce(sn->device);
    if (window_waits(&container_of(o, struct mw, o)->window)) /* as of mr_deregister */
        return -EAGAIN;
    mw_free(o);
    return 0;
}

bool mw_free_some(struct session *sn, const struct slice *s)
{
    return object_free_batches(sn, OBJ_MW, s, mw_unpublish, mw_free);
}
