/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending connections; looking up datagram services. */
#include "cma.h"

#include "ece.h"

/* Retries that a program without parameters wants: the most, and "without end". */
#define RETRIES 7

#define QPN_MASK 0xFFFFFF

/* Bytes of private data for which a request has room in every port space. */
#define PRIVATE_LEAST 56
/* A reply has room for as many. */
#define PRIVATE_REPLY 196

/* Reasons of a REJ (12.6.7.2, and that of extended connection establishment). */
#define REJ_CONSUMER      28
#define REJ_VENDOR_OPTION 35

/* ---- parameters ---- */

/*
 * What the device can do, if the program says "as much as that". Programs leave fields as they were
 * that do not concern them: numbers that are too large for a message are cut off, as the kernel
 * does, and private data without a place are none.
 */
static int check_param(const struct cma_id *id, const struct rdma_conn_param *p)
{
    const struct cma_device *d = id->device;

    if (!p || is_datagram(id->base.qp_type))
        return 0;
    if (p->responder_resources != RDMA_MAX_RESP_RES &&
        p->responder_resources > d->max_responder_resources)
        return -EINVAL;
    if (p->initiator_depth != RDMA_MAX_INIT_DEPTH && p->initiator_depth > d->max_initiator_depth)
        return -EINVAL;
    return 0;
}

/* A connection of neither the id's queue pair nor one that the program names. */
static bool is_without_qp(const struct cma_id *id, const struct rdma_conn_param *p)
{
    return !id->base.qp && !p && !is_datagram(id->base.qp_type);
}

static void set_private(struct ctl_cm_conn *to, const void *data, uint8_t len)
{
    if (data && len) {
        memcpy(to->private_data, data, len);
        to->private_len = len;
    }
}

/* What the endpoint's address information wants to go first. */
static int put_first(struct ctl_cm_conn *to, const void *data, size_t len)
{
    if (!len)
        return 0;
    if (len > sizeof(to->private_data) - to->private_len)
        return -EINVAL;
    memmove(to->private_data + len, to->private_data, to->private_len);
    memcpy(to->private_data, data, len);
    to->private_len = (uint16_t)(to->private_len + len);
    return 0;
}

/* The queue pair, and its extended connection establishment: its own, or what the program set for
 * one that we do not know. */
static void set_qp(const struct cma_id *id, struct ctl_cm_conn *to, const struct rdma_conn_param *p)
{
    struct ibv_qp *qp = id->base.qp;
    struct ibv_ece ece = id->local_ece;

    if (qp) {
        to->qpn = qp->qp_num;
        to->qp_type = (uint8_t)qp->qp_type;
        to->srq = id->base.srq || qp->srq;
        if (ibv_query_ece(qp, &ece))
            ece = (struct ibv_ece){0};
    } else {
        to->qp_type = (uint8_t)id->base.qp_type;
        to->qpn = p ? p->qp_num & QPN_MASK : 0;
        to->srq = p && p->srq;
    }
    to->ece_vendor = ece.vendor_id;
    to->ece_options = ece.options;
    if (is_datagram(id->base.qp_type))
        to->qkey = RDMA_UDP_QKEY;
}

/* responder_resources, initiator_depth: those of the id, decided by the caller. */
static void set_conn(const struct cma_id *id, struct ctl_cm_conn *to,
                     const struct rdma_conn_param *p)
{
    *to = (struct ctl_cm_conn){.responder_resources = id->responder_resources,
                               .initiator_depth = id->initiator_depth,
                               .flow_control = p ? p->flow_control & 1 : 0,
                               .retry_count = p ? p->retry_count : RETRIES,
                               .rnr_retry_count = p ? p->rnr_retry_count : RETRIES};
    set_qp(id, to, p);
    if (p)
        set_private(to, p->private_data, p->private_data_len);
}

int id_call(struct cma_id *id, enum ctl_type type, const struct ctl_msg *m)
{
    struct ctl_msg request = *m;

    request.cm_call.id = id->entry.handle;
    return link_call(id->link, type, &request);
}

int id_post(struct cma_id *id, enum ctl_type type, const struct ctl_msg *m)
{
    struct ctl_msg request = *m;

    request.cm_call.id = id->entry.handle;
    return conn_post(&id->link->conn, type, &request);
}

/* ---- the active side ---- */

/* One of a group is refused, for which the program has an errno. */
static bool is_group(const struct cma_id *id)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    const uint8_t *gid = id->base.route.addr.addr.ibaddr.dgid.raw;

    return gid[0] == 0xFF || (!memcmp(gid, mapped, sizeof(mapped)) && gid[12] >> 4 == 0xE);
}

/* Whether the daemon will find nothing wrong with it. What else may fail, such as memory, is an
 * event. */
static bool is_in_order(const struct cma_id *id, const struct ctl_cm_conn *conn, uint16_t private)
{
    return id->base.qp && id->base.qp->qp_type == IBV_QPT_RC &&
           conn->ece_vendor <= ECE_VENDOR_MAX && conn->flow_control <= 1 &&
           conn->private_len <= private;
}

static int call_connect(struct cma_id *id, struct ctl_msg *m)
{
    bool moved;

    m->cm_call.routed = id->route_told;
    if (!id->routed || !is_in_order(id, &m->cm_call.conn, PRIVATE_LEAST) || is_group(id))
        return id_call(id, CTL_CM_CONNECT, m);
    id->routed = false;
    return qp_begin(id, &(struct id_call){CTL_CM_CONNECT, m, &moved, true});
}

EXPORT int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {0};
    bool begun = id->begun, sync = id->sync;
    int err;

    if (!id->device || is_without_qp(id, param))
        return cma_result(-EINVAL);
    err = check_param(id, param);
    if (err)
        return cma_result(err);
    id->responder_resources = param && param->responder_resources != RDMA_MAX_RESP_RES
                                  ? param->responder_resources
                                  : id->device->max_responder_resources;
    id->initiator_depth = param && param->initiator_depth != RDMA_MAX_INIT_DEPTH
                              ? param->initiator_depth
                              : id->device->max_initiator_depth;
    id->connect_error = false;
    id->over = false;
    set_conn(id, &m.cm_call.conn, param);
    err = put_first(&m.cm_call.conn, id->connect, id->connect_len);
    if (err)
        return cma_result(err);
    id_begin_call(id);
    id->begun = true; /* before there can be an event of it */
    err = call_connect(id, &m);
    if (err)
        id->begun = begun;
    id_end_call(id);
    return cma_result(err || !sync ? err : id_complete(id));
}

void connect_set_ece(struct cma_id *id)
{
    if (id->base.qp && !is_datagram(id->base.qp_type))
        ibv_set_ece(id->base.qp, &id->remote_ece);
}

int connect_respond(struct cma_id *id)
{
    struct ctl_msg m = {0};
    bool moved;
    int err;

    connect_set_ece(id);
    err = qp_connect(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH,
                     &(struct id_call){CTL_CM_ESTABLISH, &m, &moved, false});

    if (err && !moved)
        connect_reject(id, REJ_CONSUMER, NULL, 0);
    if (err)
        qp_to_error(id);
    return err;
}

EXPORT int rdma_establish(struct rdma_cm_id *base)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {0};

    if (base->qp)
        return cma_result(-EINVAL);
    return cma_result(id_call(id, CTL_CM_ESTABLISH, &m));
}

/* ---- the passive side ---- */

static uint8_t smaller(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* The peer's numbers, within what the device can do; or the program's. */
static void agree(struct cma_id *id, const struct rdma_conn_param *p)
{
    id->responder_resources =
        p && p->responder_resources != RDMA_MAX_RESP_RES
            ? p->responder_resources
            : smaller(id->responder_resources, id->device->max_responder_resources);
    id->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH
                              ? p->initiator_depth
                              : smaller(id->initiator_depth, id->device->max_initiator_depth);
}

/* The first time, and not of what is known to be over. A request that its peer has withdrawn
 * without the program's knowledge ends in an event. */
static bool may_post_accept(const struct cma_id *id, const struct ctl_cm_conn *conn)
{
    bool is_request = !id->entry.cookie; /* the daemon made it */

    return is_request && !id->accepted && !id->over && id->steps_mask[0] &&
           is_in_order(id, conn, PRIVATE_REPLY);
}

EXPORT int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {0};
    bool sync = id->sync, datagram = is_datagram(base->qp_type), moved, post;
    int err;

    if (!id->device || is_without_qp(id, param))
        return cma_result(-EINVAL);
    err = check_param(id, param);
    if (err)
        return cma_result(err);
    id_begin_call(id);
    agree(id, param);
    connect_set_ece(id);
    set_conn(id, &m.cm_call.conn, param);
    post = may_post_accept(id, &m.cm_call.conn);
    id->accepted |= post;
    err = qp_connect(id, id->responder_resources, id->initiator_depth,
                     &(struct id_call){CTL_CM_ACCEPT, &m, &moved, post});
    if (err && moved) /* of a connection that is there already nothing has moved */
        qp_to_error(id);
    id_end_call(id);
    if (err || !sync)
        return cma_result(err);
    if (!datagram)
        return cma_result(id_complete(id));
    id_drop_event(id); /* none follows, and the listener's end waits for that of the request */
    return 0;
}

int connect_reject(struct cma_id *id, uint8_t reason, const void *data, uint8_t len)
{
    struct ctl_msg m = {.cm_call = {.conn = {.reason = reason}}};

    set_private(&m.cm_call.conn, data, len);
    return id_call(id, CTL_CM_REJECT, &m);
}

/* The last call with the event of a synchronous listener's request, whose end waits for that. */
static int reject(struct cma_id *id, uint8_t reason, const void *data, uint8_t len)
{
    int err = connect_reject(id, reason, data, len);

    if (!err && id->sync)
        id_drop_event(id);
    return cma_result(err);
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return reject(to_id(id), REJ_CONSUMER, private_data, private_data_len);
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
                           uint8_t private_data_len)
{
    return reject(to_id(id), REJ_VENDOR_OPTION, private_data, private_data_len);
}

EXPORT int rdma_notify(struct rdma_cm_id *base, enum ibv_event_type event)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {.cm_id = {.id = id->entry.handle, .event = event}};

    return cma_result(link_call(id->link, CTL_CM_NOTIFY, &m));
}

/* ---- the end ---- */

/* Of a connection that is over already it succeeds, as the kernel's does, and has no event: only a
 * synchronous id, which would wait for that, has to know. */
EXPORT int rdma_disconnect(struct rdma_cm_id *base)
{
    struct cma_id *id = to_id(base);
    struct ctl_msg m = {0};
    bool moved, begun = id->begun, sync = id->sync, post = begun && !sync;
    int err;

    id_begin_call(id);
    err = qp_disconnect(id, &(struct id_call){CTL_CM_DISCONNECT, &m, &moved, post});
    id_end_call(id);
    if (err == -EINVAL && moved && begun)
        return 0;
    return cma_result(err || !sync ? err : id_complete(id));
}

/* ---- extended connection establishment of a queue pair that the id does not know ---- */

EXPORT int rdma_set_local_ece(struct rdma_cm_id *base, struct ibv_ece *ece)
{
    if (base->qp || !ece || ece->comp_mask)
        return cma_result(-EINVAL);
    to_id(base)->local_ece = *ece;
    return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *base, struct ibv_ece *ece)
{
    if (base->qp || !ece)
        return cma_result(-EINVAL);
    *ece = to_id(base)->remote_ece;
    return 0;
}
