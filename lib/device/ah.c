/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. */
#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ah_create(struct client *c, struct ctl_call *call)
{
    const struct ctl_create_ah *rq = &call->request->create_ah;
    struct object *pd = object_get(c, OBJ_PD, rq->pd);
    struct address_vector av;
    struct ah *ah;
    int err;

    if (!pd)
        return -EINVAL;
    err = device_resolve(c->device, &rq->attr, &av);
    if (err)
        return err;
    ah = calloc(1, sizeof(*ah));
    if (!ah || object_add(c, &ah->o, OBJ_AH)) {
        free(ah);
        return -ENOMEM;
    }
    ah->pd = container_of(pd, struct pd, o);
    ah->av = av;
    pd->refs++;
    call->reply.create_ah.handle = ah->o.handle;
    memcpy(call->reply.create_ah.dmac, av.dmac, sizeof(av.dmac));
    call->reply.create_ah.vlan = av.vlan;
    return 0;
}

static void ah_free(struct ah *ah)
{
    ah->pd->o.refs--;
    object_remove(&ah->o);
    free(ah);
}

int ah_destroy(struct client *c, struct ctl_call *call)
{
    struct object *o = object_get(c, OBJ_AH, call->request->handle);

    if (!o)
        return -EINVAL;
    ah_free(container_of(o, struct ah, o));
    return 0;
}

void ah_free_all(struct client *c)
{
    struct object *o;

    while ((o = TAILQ_FIRST(&c->objects[OBJ_AH])))
        ah_free(container_of(o, struct ah, o));
}
