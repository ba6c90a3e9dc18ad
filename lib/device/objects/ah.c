/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. */
#include "objects/ah.h"

#include <errno.h>
#include <string.h>

#include "control/incident_call.h"
#include "control/session_state.h"
#include "net/resolve.h"
#include "objects/pd_mr.h"
#include "objects/qp_object.h"
#include "static_rate.h"

/* Of the path, where the port is faster; else 0. */
static uint64_t rate_of(const struct device *d, const struct ah_attr *attr)
{
    uint64_t rate = static_rate_mbps(attr->static_rate) * UINT64_C(1000000);

    return rate < d->congestion.line ? rate : 0;
}

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
    if (err) {
        incident_of_resolve(sn, 0, 0, &rq->attr, err);
        return err;
    }
    ah = object_create(sn, OBJ_AH, sizeof(*ah));
    if (!ah)
        return -ENOMEM;
    ah->handle = address_handle_create(sn->device->ahs, pd_number(container_of(pd, struct pd, o)),
                                       &av, rate_of(sn->device, &rq->attr), &err);
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

static void ah_unpublish(struct object *o)
{
    address_handle_unpublish(o->session->device->ahs, container_of(o, struct ah, o)->handle);
}

/* After the quiet point. */
static void ah_free(struct object *o)
{
    struct ah *ah = container_of(o, struct ah, o);

    address_handle_free(ah->handle);
    ah->pd->o.refs--;
    object_destroy(o);
}

/* ---- datagrams that wait ---- */

/* NICs copy the address when the work request is posted, so programs destroy the handle once they
 * have posted. Here the worker reads it when it sends. */

/* Queue pairs and work requests that one request to destroy looks at, on each worker. Beyond these
 * it is answered as if one had the handle's name. */
#define LOOKS 4096

struct name_call {
    const struct ah *ah;
    unsigned looks;
    bool named;
};

static void find_name(struct worker *w, void *arg)
{
    struct name_call *c = arg;
    uint32_t number = address_handle_number(c->ah->handle);
    const struct qp_object *q;

    c->looks = LOOKS;
    LIST_FOREACH(q, &pd_original(c->ah->pd)->datagram_qps, of_pd)
    {
        c->named |= !c->looks;
        if (c->named)
            return;
        c->looks--;
        if (q->dp.port->worker == w)
            c->named = qp_datagrams_name(q->dp.qp, number, &c->looks);
    }
}

static bool is_named(struct ah *ah)
{
    struct device *d = ah->o.session->device;
    struct name_call c = {.ah = ah};

    if (LIST_EMPTY(&pd_original(ah->pd)->datagram_qps))
        return false;
    for (unsigned i = 0; i < d->parts && !c.named; i++)
        worker_call(d->workers[i], find_name, &c);
    return c.named;
}

int ah_destroy(struct session *sn, struct ctl_call *call)
{
    struct object *o = object_get(sn, OBJ_AH, call->request->handle);
    struct ah *ah;

    if (!o)
        return -ENOENT;
    ah = container_of(o, struct ah, o);
    if (ah->end_tries < END_TRIES && is_named(ah)) {
        ah->end_tries++;
        return -EAGAIN;
    }
    ah_unpublish(o);
    device_quiesce(sn->device);
    ah_free(o);
    return 0;
}

bool ah_free_some(struct session *sn, const struct slice *s)
{
    return object_free_batches(sn, OBJ_AH, s, ah_unpublish, ah_free);
}
