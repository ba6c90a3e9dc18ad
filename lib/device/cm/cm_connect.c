/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: what programs ask of the manager, in its terms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "ece.h"
#include "objects/qp_object.h"
#include "trust.h"

#define EVENT_COMM_EST 4 /* IBV_EVENT_COMM_EST */

/* ---- what calls have in common ---- */

struct request {
    struct cm_object *o;
    const struct ctl_cm_conn *conn;
    struct cm_private private;
    ns_t now;
};

static int read_call(struct session *sn, const struct ctl_call *call, struct request *q)
{
    const struct ctl_cm_call *rq = &call->request->cm_call;

    *q = (struct request){.o = cm_object_get(sn, rq->id),
                          .conn = &rq->conn,
                          .private = {rq->conn.private_data, rq->conn.private_len},
                          .now = sn->rnic->config.clock()};
    return q->o && rq->conn.private_len <= CTL_CM_PRIVATE_MAX ? 0 : -EINVAL;
}

static int done(struct session *sn, int err)
{
    cm_host_arm(sn->rnic);
    return err;
}

/*
 * A peer takes a connection for over, and ends it, when another one is asked for, or accepted, by
 * the same queue pair. So a program names its own user's, one whose context's key it has, or one
 * that its process made, perhaps as another user.
 */
static bool may_name(const struct cm_object *o, const struct ctl_msg *request, uint32_t qpn)
{
    struct qp_object *q = o->device ? qp_object_of(o->device, qpn) : NULL;
    const struct ucred *own = &o->o.session->peer, *its = q ? &q->o.session->peer : NULL;

    if (!its || trust_same_user(its->uid, own->uid) || (its->pid > 0 && its->pid == own->pid))
        return true;
    return request->type == CTL_CM_WITH_QP &&
           session_has_key(q->o.session, request->cm_with_qp.key);
}

static struct cm_conn_param conn_param(const struct ctl_cm_conn *c)
{
    return (struct cm_conn_param){.qpn = c->qpn,
                                  .qp_type = c->qp_type,
                                  .responder_resources = c->responder_resources,
                                  .initiator_depth = c->initiator_depth,
                                  .flow_control = c->flow_control,
                                  .retry_count = min_of(c->retry_count, (uint8_t)7),
                                  .rnr_retry_count = min_of(c->rnr_retry_count, (uint8_t)7),
                                  .srq = c->srq};
}

static struct cm_ece ece_of(const struct ctl_cm_conn *c)
{
    return (struct cm_ece){.vendor_id = c->ece_vendor, .options = c->ece_options};
}

/* ---- both sides ---- */

static bool has_route(struct cm_object *o, bool routed)
{
    if (routed && o->progress == CM_AT_ADDRESS)
        o->progress = CM_AT_ROUTE;
    return o->progress == CM_AT_ROUTE;
}

int cm_connect_id(struct session *sn, struct ctl_call *call)
{
    struct cm_connect_param param = {.max_cm_retries = CM_MAX_RETRIES};
    struct cm_path path;
    struct request q;
    int err = read_call(sn, call, &q);

    if (!err && (!has_route(q.o, call->request->cm_call.routed) || cm_object_is_full(q.o)))
        err = -EINVAL;
    if (!err && gid_is_multicast(&q.o->dgid)) /* a group is for rdma_join_multicast */
        err = -EINVAL;
    if (!err)
        err = cm_address_path(q.o, &path);
    if (err)
        return err; /* -EINPROGRESS: dispatched again when the next hop is resolved */
    if (!cm_object_is_ud(q.o) && !may_name(q.o, call->request, q.conn->qpn))
        return -EACCES;
    param.conn = conn_param(q.conn);
    param.ece = ece_of(q.conn);
    param.private = q.private;
    memcpy(param.dst.gid.raw, q.o->dst.gid, sizeof(param.dst.gid.raw));
    param.dst.number = q.o->dst.number;
    if (cm_object_is_ud(q.o))
        err = cm_sidr_request(q.o->id, &path, &param, q.now);
    else
        err = cm_connect(q.o->id, &path, &param, q.now);
    if (!err)
        q.o->leads_qp = false; /* until cm_call_with_qp says which one */
    return done(sn, err);
}

static bool makes_connection(uint32_t type)
{
    return type == CTL_CM_CONNECT || type == CTL_CM_ACCEPT;
}

/* Of a request that is not accepted that is the only event: cm_object_is_heard(). */
void cm_post_failed(struct session *sn, const struct ctl_msg *request, int status)
{
    struct cm_object *o = NULL;
    struct cm_record *r;

    if (makes_connection(request->type == CTL_CM_WITH_QP ? request->cm_with_qp.type
                                                         : request->type))
        o = cm_object_get(sn, request->cm_call.id); /* with which a cm_with_qp begins */
    r = o && !cm_object_is_full(o) ? cm_record_new(o, CTL_CM_CONNECT_ERROR, status) : NULL;
    if (r)
        cm_record_queue(r);
}

int cm_accept_id(struct session *sn, struct ctl_call *call)
{
    struct cm_conn_param param;
    struct cm_ece ece;
    struct request q;
    int err = read_call(sn, call, &q);

    if (!err && !q.o->is_request)
        err = -EINVAL;
    err = err ? err : min_of(cm_address_place(q.o), 0);
    if (err)
        return err;
    ece = ece_of(q.conn);
    if (cm_object_is_ud(q.o)) {
        struct cm_sidr_answer answer = {.status = CM_SIDR_OK,
                                        .qpn = q.conn->qpn,
                                        .qkey = q.conn->qkey ? q.conn->qkey : CTL_CM_QKEY,
                                        .ece = ece,
                                        .private = q.private};

        err = cm_sidr_reply(q.o->id, &answer, q.now);
    } else if (!may_name(q.o, call->request, q.conn->qpn)) {
        err = -EACCES;
    } else {
        param = conn_param(q.conn);
        err = cm_accept(q.o->id, &param, ece.vendor_id ? &ece : NULL, q.private, q.now);
    }
    if (!err)
        q.o->accepted = true;
    return done(sn, err);
}

int cm_reject_id(struct session *sn, struct ctl_call *call)
{
    struct cm_private none = {0};
    struct request q;
    int err = read_call(sn, call, &q);

    if (err)
        return err;
    if (cm_object_is_ud(q.o)) {
        struct cm_sidr_answer answer = {.status = CM_SIDR_REJECTED, .private = q.private};

        return done(sn, cm_sidr_reply(q.o->id, &answer, q.now));
    }
    err = cm_reject(q.o->id, q.conn->reason ? q.conn->reason : CM_REJ_CONSUMER, none, q.private,
                    q.now);
    return done(sn, err);
}

int cm_establish_id(struct session *sn, struct ctl_call *call)
{
    struct request q;
    int err = read_call(sn, call, &q);

    return err ? err : done(sn, cm_establish(q.o->id, q.private, q.now));
}

int cm_disconnect_id(struct session *sn, struct ctl_call *call)
{
    struct request q;
    int err = read_call(sn, call, &q);

    return err ? err : done(sn, cm_disconnect(q.o->id, q.private, q.now));
}

int cm_notify_id(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_id *rq = &call->request->cm_id;
    struct cm_object *o = cm_object_get(sn, rq->id);

    if (!o || rq->event != EVENT_COMM_EST)
        return -EINVAL;
    return done(sn, cm_notify(o->id, sn->rnic->config.clock()));
}

/* ---- with the queue pair's state ---- */

/* The manager has the place that the id's address had in the GID table when the connection began,
 * and the library what the daemon said then: by now it may have another one, or none. */
static int put_source(const struct cm_object *o, struct qp_attr *attr)
{
    int place = cm_address_place(o);

    if (place < 0)
        return place;
    attr->ah.sgid_index = (uint8_t)place;
    return 0;
}

static int (*const with_qp[])(struct session *sn, struct ctl_call *call) = {
    [CTL_CM_CONNECT] = cm_connect_id,
    [CTL_CM_ACCEPT] = cm_accept_id,
    [CTL_CM_ESTABLISH] = cm_establish_id,
    [CTL_CM_DISCONNECT] = cm_disconnect_id,
};

/* The queue pair of a CONNECT that has succeeded is looked up again when the peer has accepted. */
static void remember(struct cm_object *o, const struct ctl_cm_with_qp *rq)
{
    o->leads_qp = true;
    o->qp_serial = qp_object_of_key(o->device, rq->modify.qpn, rq->key)->serial;
    o->qpn = rq->modify.qpn;
    memcpy(o->qp_key, rq->key, sizeof(o->qp_key));
}

static bool has_source(const struct ctl_modify_qp *m)
{
    uint32_t mask = m->mask;

    for (unsigned i = 0; i < ARRAY_SIZE(m->next); i++)
        mask |= m->next[i].mask;
    return mask & QPA_AV;
}

/* -EINPROGRESS: dispatched again, and no step is done. */
static int modify(struct cm_object *o, struct ctl_cm_with_qp *rq)
{
    struct qp_object *q = qp_object_of_key(o->device, rq->modify.qpn, rq->key);
    int err;

    if (!q)
        return -EACCES;
    if (rq->type == CTL_CM_CONNECT)
        return 0;
    err = has_source(&rq->modify) ? put_source(o, &rq->modify.attr) : 0;
    return err ? err : qp_object_modify_by(q->o.session, &rq->modify);
}

/* NULL: the program has destroyed it, though another one may have its number. */
static struct qp_object *led_qp(const struct cm_object *o)
{
    struct qp_object *q = o->leads_qp ? qp_object_of_key(o->device, o->qpn, o->qp_key) : NULL;

    return q && q->serial == o->qp_serial ? q : NULL;
}

bool cm_object_lead_qp(struct cm_object *o)
{
    struct cm_private none = {0};
    struct ctl_modify_qp m = {.qpn = o->qpn};
    struct qp_object *q = led_qp(o);
    struct ctl_cm_steps steps;

    if (!q)
        return false;
    cm_object_steps(o, &steps);
    if (!steps.mask[0])
        return false;
    m.attr = steps.attr;
    m.attr.state = QPS_INIT; /* again: the access rights follow from the connection */
    m.mask = steps.mask[0];
    m.ece = ECE_SAID | o->peer_features;
    for (uint32_t i = 1; i < QP_STEPS; i++) {
        m.next[i - 1].state = QPS_INIT + i;
        m.next[i - 1].mask = steps.mask[i];
    }
    return !qp_object_modify_by(q->o.session, &m) &&
           !cm_establish(o->id, none, o->o.session->rnic->config.clock());
}

/* A posted end of a connection: the program may have destroyed the queue pair since. */
static bool goes_on_without(const struct ctl_msg *request)
{
    return !request->seq && request->cm_with_qp.type == CTL_CM_DISCONNECT;
}

int cm_call_with_qp(struct session *sn, struct ctl_call *call)
{
    struct ctl_cm_with_qp *rq = &call->reply.cm_with_qp; /* a copy of the request */
    struct cm_object *o = cm_object_get(sn, rq->call.id);
    int err;

    rq->modify.done = 0;
    if (!o || !o->device || rq->type >= ARRAY_SIZE(with_qp) || !with_qp[rq->type])
        return -EINVAL;
    err = modify(o, rq);
    if (err && (err == -EINPROGRESS || !goes_on_without(call->request)))
        return err;
    err = with_qp[rq->type](sn, call);
    if (!err && rq->type == CTL_CM_CONNECT)
        remember(o, rq);
    return err;
}

/* ---- the queue pair's attributes ---- */

/* Datagrams, and connections that have not begun. */
static int early_attr(const struct cm_object *o, uint32_t state, struct qp_attr *attr,
                      uint32_t *mask)
{
    bool ud = cm_object_is_ud(o);

    *attr = (struct qp_attr){.state = state};
    *mask = QPA_STATE;
    if (state == QPS_INIT && o->device) {
        attr->port_num = 1;
        attr->qkey = ud ? CTL_CM_QKEY : 0;
        *mask |= QPA_PORT | QPA_PKEY_INDEX | (ud ? QPA_QKEY : QPA_ACCESS_FLAGS);
        return 0;
    }
    if (state == QPS_RTS)
        *mask |= QPA_SQ_PSN;
    return ud && (state == QPS_RTR || state == QPS_RTS) ? 0 : -EINVAL;
}

void cm_object_steps(const struct cm_object *o, struct ctl_cm_steps *steps)
{
    if (cm_object_is_ud(o) || cm_qp_steps(o->id, &steps->attr, steps->mask) ||
        put_source(o, &steps->attr)) {
        *steps = (struct ctl_cm_steps){0};
        return;
    }
    if (o->has_ack_timeout)
        steps->attr.timeout = o->ack_timeout;
}

int cm_get_qp_attr(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_qp_attr *rq = &call->request->cm_qp_attr;
    struct ctl_cm_qp_attr *reply = &call->reply.cm_qp_attr;
    struct cm_object *o = cm_object_get(sn, rq->id);
    uint32_t state = rq->attr.state;
    int err;

    if (!o || state >= QPS_COUNT)
        return -EINVAL;
    err = cm_object_is_ud(o) ? -EINVAL
                             : cm_qp_attr(o->id, (enum qp_state)state, &reply->attr, &reply->mask);
    if (err)
        err = early_attr(o, state, &reply->attr, &reply->mask);
    else if (reply->mask & QPA_AV)
        err = put_source(o, &reply->attr);
    if (!err && o->has_ack_timeout && (reply->mask & QPA_TIMEOUT))
        reply->attr.timeout = o->ack_timeout;
    return err;
}
