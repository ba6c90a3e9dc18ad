/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between two queue pairs of one port. A packet does not say which queue pair sent it,
 * and all queue pairs of a port have the same addresses: one that names another as its destination
 * could send in the name of that one's peer. So a queue pair whose destination is on its own port
 * is held (engine_qp_hold) until the destination is connected to it. What it sends before, the
 * destination could not receive anyway.
 *
 * When a queue pair is reset or destroyed nothing happens. Its number remembers which queue pair
 * may send to it, and that one is held before the number is connected again, to another peer.
 */
#include "objects/local_peer.h"

#include "control/session_state.h"
#include "objects/qp_object.h"
#include "objects/steer.h"

static struct qp_object *object_of(const struct device *d, uint32_t qpn)
{
    struct qp *qp = qp_table_lookup(d->qps, qpn);

    return qp ? container_of((struct dp_qp *)qp_owner(qp), struct qp_object, dp) : NULL;
}

/* Whether q is connected to that number on its own port. */
static bool is_connected_to(const struct qp_object *q, uint32_t qpn)
{
    return q && q->peer_is_local && q->peer_qpn == qpn;
}

struct hold_call {
    struct qp_object *q;
    bool held;
};

static void hold_qp(struct worker *w, void *arg)
{
    struct hold_call *call = arg;

    engine_qp_hold(qp_object_engine(call->q), call->q->dp.qp, call->held);
}

static void hold(struct qp_object *q, bool held)
{
    qp_object_call(q, hold_qp, &(struct hold_call){.q = q, .held = held});
}

bool local_peer_prepare(struct qp_object *q, const struct address_vector *av, uint32_t dest_qpn)
{
    struct device *d = q->o.session->device;
    uint32_t qpn = q->o.handle, *sender = &d->local_sender[qpn];

    /* In other states the number has a peer, and a request to change it will fail. */
    if (qp_current_state(q->dp.qp) == QPS_INIT && *sender && *sender != dest_qpn) {
        struct qp_object *former = object_of(d, *sender);

        if (is_connected_to(former, qpn))
            hold(former, true);
        *sender = 0;
    }
    return device_has_address(d, av) && dest_qpn != qpn &&
           !is_connected_to(object_of(d, dest_qpn), qpn);
}

void local_peer_connected(struct qp_object *q, const struct address_vector *av, uint32_t dest_qpn)
{
    struct device *d = q->o.session->device;
    struct qp_object *peer;

    q->peer_is_local = device_has_address(d, av);
    q->peer_qpn = dest_qpn;
    peer = object_of(d, dest_qpn);
    if (!q->peer_is_local || peer == q || !is_connected_to(peer, q->o.handle))
        return;
    d->local_sender[q->o.handle] = dest_qpn;
    d->local_sender[dest_qpn] = q->o.handle;
    hold(peer, false);
}

void local_peer_reset(struct qp_object *q)
{
    q->peer_is_local = false;
}
