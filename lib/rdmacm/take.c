/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows from an event of the daemon, before the program gets it. */
#include "cma.h"
#include "common.h"

static void take_conn(struct cma_event *ev, const struct ctl_cm_conn *conn)
{
    struct rdma_conn_param *p = &ev->event.param.conn;

    *p = (struct rdma_conn_param){.responder_resources = conn->responder_resources,
                                  .initiator_depth = conn->initiator_depth,
                                  .flow_control = conn->flow_control,
                                  .retry_count = conn->retry_count,
                                  .rnr_retry_count = conn->rnr_retry_count,
                                  .srq = conn->srq,
                                  .qp_num = conn->qpn};
}

static void take_datagram(struct cma_event *ev, const struct ctl_cm_event *m)
{
    struct rdma_ud_param *p = &ev->event.param.ud;

    *p = (struct rdma_ud_param){.qp_num = m->conn.qpn, .qkey = m->conn.qkey};
    ah_from_ctl(&p->ah_attr, &m->ah);
}

/* Both sorts of parameters begin with the private data. */
static void take_private(struct cma_event *ev, const struct ctl_cm_conn *conn)
{
    uint16_t len = conn->private_len < UINT8_MAX ? conn->private_len : UINT8_MAX;

    if (!len)
        return;
    memcpy(ev->private_data, conn->private_data, len);
    ev->event.param.conn.private_data = ev->private_data;
    ev->event.param.conn.private_data_len = (uint8_t)len;
}

static void take_param(struct cma_event *ev, const struct ctl_cm_event *m)
{
    if (is_datagram(to_id(ev->event.id)->base.qp_type))
        take_datagram(ev, m);
    else
        take_conn(ev, &m->conn);
    take_private(ev, &m->conn);
}

static void take_ece(struct cma_id *id, const struct ctl_cm_conn *conn)
{
    id->remote_ece = (struct ibv_ece){.vendor_id = conn->ece_vendor, .options = conn->ece_options};
}

/* The id of a request belongs to the program from now on, and waits if the listener does. */
static int adopt_request(struct cma_event *ev, const struct ctl_cm_told *told)
{
    const struct ctl_cm_event *m = &told->event;
    struct cma_id *id = to_id(ev->event.id);
    int err = id_take_info(id, &told->info);

    id->begun = true;
    id_show_route(id);
    qp_take_steps(id, &told->steps);
    id->responder_resources = m->conn.responder_resources;
    id->initiator_depth = m->conn.initiator_depth;
    take_ece(id, &m->conn);
    if (!err && ev->owner->sync && rdma_migrate_id(&id->base, NULL))
        err = cma_errno();
    return err;
}

static bool take_request(struct cma_event *ev, const struct ctl_cm_told *told)
{
    if (!adopt_request(ev, told)) {
        take_param(ev, &told->event);
        return true;
    }
    rdma_destroy_id(ev->event.id);
    event_done(ev);
    return false;
}

static void respond(struct cma_event *ev)
{
    struct cma_id *id = ev->owner;

    id_begin_call(id);
    if (id->base.qp) {
        ev->event.status = connect_respond(id);
        ev->event.event =
            ev->event.status ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
        id->connect_error = ev->event.status != 0;
    }
    id_end_call(id);
}

static void end_qp(struct cma_id *id)
{
    id_begin_call(id);
    qp_to_error(id);
    id_end_call(id);
}

static void take_response(struct cma_event *ev, const struct ctl_cm_told *told)
{
    struct cma_id *id = ev->owner;

    take_param(ev, &told->event);
    take_ece(id, &told->event.conn);
    qp_take_steps(id, &told->steps);
    respond(ev);
}

/* The end of a connection; false: the program has got a CONNECT_ERROR instead. Private data of a
 * DREQ or DREP, which no program can send, and which would be zeros, are not the program's. */
static bool take_end(struct cma_event *ev, const struct ctl_cm_event *m)
{
    if (ev->owner->connect_error) {
        event_done(ev);
        return false;
    }
    if (m->type == RDMA_CM_EVENT_REJECTED) {
        take_param(ev, m);
        end_qp(ev->owner);
    }
    return true;
}

/* With datagrams by a SIDR_REP. Of connections the daemon has led the active side's queue pair
 * there by a REP; the passive side's RTU says nothing. */
static void take_established(struct cma_event *ev, const struct ctl_cm_event *m)
{
    struct cma_id *id = ev->owner;

    if (m->qp_is_led || is_datagram(id->base.qp_type))
        take_param(ev, m);
    if (!m->qp_is_led)
        return;
    take_ece(id, &m->conn);
    id_begin_call(id);
    connect_set_ece(id);
    if (id->base.qp)
        id->base.qp->state = IBV_QPS_RTS;
    id_end_call(id);
}

/* rdma_accept has not waited for it. */
static void take_error(struct cma_event *ev)
{
    if (ev->owner->accepted)
        end_qp(ev->owner);
}

/* An address or route that the daemon has found. The call that asked for it may not have read its
 * reply, which says less. */
static void take_resolved(struct cma_event *ev, const struct ctl_cm_info *info,
                          enum rdma_cm_event_type failure)
{
    id_wait_for_calls(ev->owner);
    ev->event.status = id_take_info(ev->owner, info);
    ev->owner->routed = !ev->event.status && failure == RDMA_CM_EVENT_ROUTE_ERROR;
    if (ev->owner->routed)
        id_show_route(ev->owner);
    if (ev->event.status)
        ev->event.event = failure;
}

static void take_join(struct cma_event *ev, const struct ctl_cm_event *m)
{
    take_datagram(ev, m);
    ev->event.param.ud.private_data = ev->mcast->context;
    if (m->type != RDMA_CM_EVENT_MULTICAST_JOIN || m->status)
        return;
    ev->event.status = mcast_joined(ev->owner, ev->mcast, &ev->event.param.ud.ah_attr.grh.dgid);
    if (ev->event.status)
        ev->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
}

/* A synchronous id's call waits for the end of what it has begun, and takes each event for it. */
static bool take_address_change(struct cma_event *ev)
{
    ev->owner->routed = ev->owner->path_known = false;
    if (!ev->owner->sync)
        return true;
    event_done(ev);
    return false;
}

/* After which an id has nothing left but its timewait. */
static bool is_end(uint32_t type)
{
    return type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED ||
           type == RDMA_CM_EVENT_UNREACHABLE;
}

bool event_take(struct cma_event *ev, const struct ctl_cm_told *told)
{
    const struct ctl_cm_event *m = &told->event;

    if (is_end(m->type)) /* another thread may be taking an earlier event */
        ev->owner->over = true;
    ev->event.event = m->type;
    ev->event.status = max_of(m->status, -CTL_ERRNO_MAX);
    switch (m->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        take_resolved(ev, &told->info, RDMA_CM_EVENT_ADDR_ERROR);
        return true;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        take_resolved(ev, &told->info, RDMA_CM_EVENT_ROUTE_ERROR);
        return true;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return take_request(ev, told);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        take_response(ev, told);
        return true;
    case RDMA_CM_EVENT_CONNECT_ERROR:
        take_error(ev);
        return true;
    case RDMA_CM_EVENT_ESTABLISHED:
        take_established(ev, m);
        return true;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
        return take_end(ev, m);
    case RDMA_CM_EVENT_UNREACHABLE: /* also that the service refuses, with data of its own */
        take_param(ev, m);
        return true;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
        take_join(ev, m);
        return true;
    case RDMA_CM_EVENT_ADDR_CHANGE:
        return take_address_change(ev);
    default:
        return true;
    }
}
