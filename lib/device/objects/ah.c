/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. */
#include "objects/ah.h"

#include <errno.h>
#include <string.h>

#include "control/session_state.h"
#include "net/resolve.h"
#include "objects/pd_mr.h"

int ah_create(struct session *sn, struct ctl_call *call)
{
    const struct ctl_create_ah *rq = &call->request->create_ah;
    struct object *pd = object_get(sn, OBJ_PD, rq->pd);
    struct address_vector av;
    struct ah *ah;
    uint32_t mtu;
    int err;

    if (!pd)
        return -EINVAL;
    err = device_resolve(sn->device, &rq->attr, &av, &mtu);
    if (err)
        return err;
    ah = object_create(sn, OBJ_AH, sizeof(*ah));
    if (!ah)
        return -ENOMEM;
    ah->handle = address_handle_create(sn->device->ahs, rq->pd, &av, &err);
    if (!ah->handle) {
        object_destroy(&ah->o);
        return err == -EINVAL ? -EINVAL : -ENOMEM;
    }
    ah->pd = container_of(pd, struct pd, o);
    pd->refs++;
    /* Work requests contain the transport's number; destruction takes the handle. */
    call->reply.create_ah.handle = ah->o.handle;
    call->reply.create_ah.number = address_handle_number(ah->handle);
    memcpy(call->reply.create_ah.dmac, av.dmac, sizeof(av.dmac));
    call->reply.create_ah.vlan = av.vlan;
    return 0;
}

/* After the quiet point. */
static void ah_free(struct object *o)
{
    struct ah *ah = container_of(o, struct ah, o);

    address_handle_free(ah->handle);
    ah->pd->o.refs--;
    object_destroy(o);
}

int ah_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_AH, call->request->handle);
    struct ah *ah;

    if (!o)
        return -EINVAL;
    ah = container_of(o, struct ah, o);
    address_handle_unpublish(sn->device->ahs, ah->handle);
    device_quiesce(sn->device);
    ah_free(o);
    return 0;
}

void ah_free_all(struct session *sn)
{
    struct object *o;

    if (TAILQ_EMPTY(&sn->objects[OBJ_AH]))
        return;
    TAILQ_FOREACH (o, &sn->objects[OBJ_AH], link)
        address_handle_unpublish(sn->device->ahs, container_of(o, struct ah, o)->handle);
    device_quiesce(sn->device);
    object_free_all(sn, OBJ_AH, ah_free);
}
