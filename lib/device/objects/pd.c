/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. */
#include <errno.h>

#include "control/session_state.h"
#include "objects/pd_mr.h"

#define NULLS_AT_ONCE 64u

int pd_alloc(struct session *sn, struct ctl_call *call)
{
    struct pd *pd = object_create(sn, OBJ_PD, sizeof(*pd));

    if (!pd)
        return -ENOMEM;
    call->reply.handle = pd->o.handle;
    return 0;
}

static void pd_free(struct object *o)
{
    alias_end(&container_of(o, struct pd, o)->alias);
    object_destroy(o);
}

void pd_end_unused(struct object *o)
{
    if (container_of(o, struct pd, o)->alias.unimported && !o->refs)
        pd_free(o);
}

/*
 * Null regions end with their domain. mlx5 has one key for all null regions of a device and no
 * object behind it, so that programs that deregister none (perftest) deallocate the domain there.
 * -EAGAIN: not all are gone.
 */
static int end_nulls(struct pd *pd)
{
    struct mr *batch[NULLS_AT_ONCE], *mr;
    unsigned n = 0;

    LIST_FOREACH(mr, &pd->null_mrs, null_link)
    {
        if (n == NULLS_AT_ONCE)
            break;
        batch[n++] = mr;
    }
    for (unsigned i = 0; i < n; i++)
        mr_unpublish(&batch[i]->o);
    if (n)
        device_quiesce(pd->o.session->device);
    for (unsigned i = 0; i < n; i++)
        if (!mr_waits(
                &batch[i]->region)) /* no access begins any more, but one may not have ended */
            mr_free(&batch[i]->o);
    return LIST_EMPTY(&pd->null_mrs) ? 0 : -EAGAIN;
}

int pd_dealloc(struct session *sn, struct ctl_call *call)
{
    struct object *o;
    struct pd *pd;
    int err;

    aliases_sweep(sn, OBJ_PD, pd_end_unused);
    o = object_get(sn, OBJ_PD, call->request->handle);
    if (!o)
        return -ENOENT;
    pd = container_of(o, struct pd, o);
    if (o->refs != pd->nulls)
        return -EBUSY;
    err = end_nulls(pd);
    if (!err)
        pd_free(o);
    return err;
}

bool pd_free_some(struct session *sn, const struct slice *s)
{
    return object_free_some(sn, OBJ_PD, s, pd_free);
}
