/* SPDX-License-Identifier: BSD-3-Clause */
/* See raised.h. */
#include "control/raised.h"

#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/qp_open.h"
#include "objects/srq_object.h"
#include "objects/steer.h"
#include "objects/wq_object.h"

static void tell(struct object *o, const struct dp_events *e, uint32_t events)
{
    if (o->kind == OBJ_CQ) {
        struct cq *cq = container_of(o, struct cq, o);

        async_tell(o->session, &cq->wait, cq->dp.cq.cookie, events);
    } else if (o->kind == OBJ_SRQ) {
        struct srq_object *s = container_of(o, struct srq_object, o);

        async_tell(o->session, &s->wait, s->layout.uidx, events);
    } else if (o->kind == OBJ_WQ) {
        struct wq_object *w = container_of(o, struct wq_object, o);

        async_tell(o->session, &w->wait, (uint64_t)atomic_load(&e->detail) << 32 | w->uidx, events);
    } else {
        qp_handles_tell(container_of(o, struct qp_object, o), events);
    }
}

static void take(struct dp_events *e)
{
    uint32_t events = dp_events_take(e);

    if (events & 1u << DP_MISPLACED)
        steer_misplaced(container_of((struct object *)e->owner, struct qp_object, o),
                        atomic_load(&e->detail));
    events &= ~(1u << DP_MISPLACED);
    if (events)
        tell(e->owner, e, events);
}

bool raised_take_some(struct rnic *r, unsigned n)
{
    while (n--) {
        struct dp_events *e;

        if (!r->raised)
            r->raised = dp_events_take_list(&r->group);
        e = r->raised;
        if (!e)
            return false;
        r->raised = e->next;
        take(e);
    }
    return true;
}

void raised_forget(struct rnic *r, struct dp_events *e)
{
    while (atomic_load(&e->raised))
        raised_take_some(r, 1);
}
