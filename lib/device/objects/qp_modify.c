/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs are modified, on their worker, and queried. */
#include "objects/qp_object.h"

#include <errno.h>

#include "control/incident_call.h"
#include "control/permission.h"
#include "control/session_state.h"
#include "device_host.h"
#include "ece.h"
#include "net/resolve.h"
#include "objects/agree.h"
#include "objects/local_peer.h"
#include "objects/qp_open.h"
#include "objects/steer.h"

/* The bytes of READs and atomics that the queue pair has not been charged for. It keeps what it was
 * charged for once. */
static size_t reads_to_charge(const struct qp_object *q, const struct qp_attr *attr, uint32_t mask)
{
    uint32_t reads = max_of((uint32_t)attr->max_dest_rd_atomic, RD_ATOM_INCLUDED);
    size_t bytes = qp_memory_reads(reads) - qp_memory_reads(RD_ATOM_INCLUDED);

    if (!(mask & QPA_MAX_DEST_RD_ATOMIC) || bytes < q->reads_memory)
        return 0;
    return bytes - q->reads_memory;
}

/* A step of a request. */
struct modify_call {
    struct qp_object *q;
    struct qp_attr attr;
    uint32_t mask;
    const struct address_vector *av; /* NULL: mask does not have it */
    uint32_t max_mtu;
    bool held;
    int err;
    struct incident why; /* with -EINVAL */
};

static void modify_qp(struct worker *w, void *arg)
{
    struct modify_call *m = arg;
    struct dp_qp *dq = &m->q->dp;

    if ((m->mask & QPA_STATE) && m->attr.state == QPS_RESET && !qp_object_send_answers(m->q)) {
        m->err = -EAGAIN;
        return;
    }
    m->err = engine_qp_modify(qp_object_engine(m->q), dq->qp, &m->attr, m->mask, m->av, m->max_mtu,
                              m->q->o.session->rnic->config.clock());
    if (m->err == -EINVAL)
        engine_qp_modify_why(dq->qp, &m->attr, m->mask, m->max_mtu, &m->why);
    if (!m->err && m->av)
        engine_qp_hold(qp_object_engine(m->q), dq->qp, m->held);
}

/* Volume 1, 3.5.3: Q_Keys with the most significant bit set are controlled, and applications may
 * not choose them. The kernel has the same rule. A work request that names one sends the queue
 * pair's own (req_ud.c). */
static bool qkey_is_allowed(const struct session *sn, const struct ctl_modify_qp *rq, uint32_t mask)
{
    return !(mask & QPA_QKEY) || !(rq->attr.qkey & QKEY_CONTROLLED) || permission_raw(sn);
}

/* What is wrong with the attributes that any of the steps names. */
static int check_modify(const struct session *sn, const struct qp_object *q,
                        const struct ctl_modify_qp *rq, uint32_t mask)
{
    if (!q)
        return -EINVAL;
    if (q->ind) /* it has no states, as with mlx5 */
        return -EOPNOTSUPP;
    if (!qkey_is_allowed(sn, rq, mask))
        return -EPERM;
    if ((mask & QPA_PORT) && rq->attr.port_num != 1)
        return -EINVAL;
    return (mask & QPA_PKEY_INDEX) && rq->attr.pkey_index ? -EINVAL : 0;
}

/* Each handle is charged for the whole queue pair. */
static int charge_reads(struct qp_object *q, size_t more)
{
    int err = qp_object_charge(q->o.session, q, more);

    if (err)
        return err;
    err = qp_handles_charge(q, more);
    if (err)
        qp_object_uncharge(q->o.session, q, more);
    return err;
}

static void uncharge_reads(struct qp_object *q, size_t more)
{
    qp_handles_uncharge(q, more);
    qp_object_uncharge(q->o.session, q, more);
}

static int modify_step(struct modify_call *m)
{
    struct qp_object *q = m->q;
    uint32_t dest_qpn = m->mask & QPA_DEST_QPN ? m->attr.dest_qpn : q->peer_qpn;
    size_t more;
    int err;

    if (m->av) {
        steer_connect(q, m->av, &m->attr, m->mask);
        m->held = local_peer_prepare(q, m->av, dest_qpn);
    }
    more = reads_to_charge(q, &m->attr, m->mask);
    err = charge_reads(q, more);
    if (err)
        return err;
    qp_object_call(q, modify_qp, m);
    if (m->err) {
        uncharge_reads(q, more);
        incident_of_modify(q->o.session, q->o.handle, &m->why);
        return m->err;
    }
    q->reads_memory += more;
    if (m->av) {
        local_peer_connected(q, m->av, dest_qpn);
        agree_connected(q, m->av);
    } else if ((m->mask & QPA_STATE) && m->attr.state == QPS_RESET) {
        local_peer_reset(q);
        agree_forget(q);
        q->ece = 0;
    }
    return 0;
}

/* The first step is done whatever its mask is: ibv_modify_qp has no other. */
static int modify_steps(struct modify_call *m, struct ctl_modify_qp *rq,
                        const struct address_vector *av)
{
    uint32_t mask = rq->mask, state = rq->attr.state;
    int err;

    for (;;) {
        m->attr = rq->attr;
        m->attr.state = state;
        m->mask = mask;
        m->av = mask & QPA_AV ? av : NULL;
        err = modify_step(m);
        if (err || ++rq->done == QP_STEPS || !rq->next[rq->done - 1].mask)
            return err;
        mask = rq->next[rq->done - 1].mask;
        state = rq->next[rq->done - 1].state;
    }
}

int qp_object_modify_by(struct session *sn, struct ctl_modify_qp *rq)
{
    struct modify_call m = {.q = qp_object_reach(sn, rq->qpn),
                            .max_mtu = device_mtu_code(sn->device->info.mtu)};
    uint32_t all = rq->mask, mtu;
    struct address_vector av;
    bool resolved;
    int err;

    rq->done = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(rq->next); i++)
        all |= rq->next[i].mask;
    err = check_modify(sn, m.q, rq, all);
    resolved = !err && (all & QPA_AV);
    if (resolved)
        err = device_resolve(sn->device, &rq->attr.ah, &av, &mtu);
    if (err && resolved)
        incident_of_resolve(sn, rq->qpn, rq->attr.dest_qpn, &rq->attr.ah, err);
    if (err)
        return err; /* -EINPROGRESS: dispatched again, and no step is done */
    /* A router on the path may have reported a smaller MTU than the port's. */
    if (all & QPA_AV)
        m.max_mtu = min_of(m.max_mtu, device_mtu_code(mtu));
    if (rq->ece & ECE_SAID)
        m.q->ece = rq->ece;
    return modify_steps(&m, rq, &av);
}

int qp_object_modify(struct session *sn, struct ctl_call *call)
{
    return qp_object_modify_by(sn, &call->reply.modify_qp); /* a copy of the request */
}

static void fail_qp(struct worker *w, void *arg)
{
    struct qp_object *q = arg;

    engine_qp_error(qp_object_engine(q), q->dp.qp, CAUSE_error_on_purpose,
                    q->o.session->rnic->config.clock());
}

int qp_object_fail(struct qp_object *q)
{
    struct ctl_modify_qp m = {.qpn = q->o.handle, .mask = QPA_STATE, .attr.state = QPS_ERR};

    if (!q->ind)
        qp_object_call(q, fail_qp, q);
    return qp_object_modify_by(q->o.session, &m); /* from RESET, too */
}

int qp_object_query(struct session *sn, struct ctl_call *call)
{
    struct ctl_query_qp *reply = &call->reply.query_qp;
    struct qp_object *q = qp_object_reach(sn, call->request->query_qp.qpn);

    if (!q)
        return -EINVAL;
    if (q->ind)
        return -EOPNOTSUPP;
    *reply = (struct ctl_query_qp){
        .qpn = q->o.handle, .sq_sig_all = q->sq_sig_all, .caps = *qp_capabilities(q->dp.qp)};
    qp_object_attr(q, &reply->attr);
    return 0;
}
