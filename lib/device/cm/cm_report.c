/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the manager, as programs get them. */
#include <errno.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "ece.h"

static void put_conn(const struct cm_event *event, struct ctl_cm_conn *c)
{
    *c = (struct ctl_cm_conn){.qpn = event->conn.qpn,
                              .qkey = event->qkey,
                              .ece_vendor = event->ece.vendor_id,
                              .ece_options = event->ece.options,
                              .qp_type = event->conn.qp_type,
                              .responder_resources = event->conn.responder_resources,
                              .initiator_depth = event->conn.initiator_depth,
                              .flow_control = event->conn.flow_control,
                              .retry_count = event->conn.retry_count,
                              .rnr_retry_count = event->conn.rnr_retry_count,
                              .srq = event->conn.srq,
                              .private_len =
                                  (uint16_t)min_of(event->private.len, (size_t)CTL_CM_PRIVATE_MAX)};
    if (c->private_len)
        memcpy(c->private_data, event->private.data, c->private_len);
}

static void refuse(struct rnic *r, const struct cm_event *event, uint16_t reason)
{
    struct cm_private none = {0};

    if (event->type == CM_EVENT_SIDR_REQUEST)
        cm_sidr_reply(event->id, &(struct cm_sidr_answer){.status = CM_SIDR_REJECTED},
                      r->config.clock());
    else
        cm_reject(event->id, reason, none, none, r->config.clock());
    cm_id_destroy(event->id, r->config.clock());
}

static uint8_t requested_type(const struct cm_event *event)
{
    return event->type == CM_EVENT_SIDR_REQUEST ? CM_QP_UD : event->conn.qp_type;
}

/* A program makes queue pairs of its id's type. One that gets a request of another type can only
 * fail to accept it, and may end by that. */
static bool is_of_type(const struct cm_object *listener, const struct cm_event *event)
{
    return !listener->qp_type || listener->qp_type == requested_type(event);
}

/* The id of a request belongs to the listener's program. */
static struct cm_object *request_object(struct rnic *r, const struct cm_event *event)
{
    struct cm_object *listener = cm_id_owner(event->listener), *o;
    const struct cm_path *path = cm_id_path(event->id);

    /* The manager does not count those that the peer has withdrawn. */
    if (listener->requests >= listener->backlog)
        return NULL;
    o = cm_object_add(listener->o.session, listener->channel, listener->ps);
    if (!o)
        return NULL;
    o->id = event->id;
    o->is_request = o->bound = true;
    o->progress = CM_AT_ROUTE;
    o->tos = listener->tos;
    o->ack_timeout = listener->ack_timeout;
    o->has_ack_timeout = listener->has_ack_timeout;
    o->qp_type = requested_type(event);
    o->device = r->device[path->port];
    o->sgid_index = path->sgid_index;
    o->vlan = path->vlan;
    o->dgid = path->dgid;
    o->src = cm_address_from(r, cm_id_src(o->id));
    o->dst = cm_address_from(r, cm_id_dst(o->id));
    cm_id_set_owner(o->id, o);
    return o;
}

/* Whether packets may get back to where a request says that it comes from. A program could only
 * fail to accept one that cannot be answered. */
static bool has_way_back(struct rnic *r, const struct cm_event *event)
{
    const struct cm_path *path = cm_id_path(event->id);
    struct device *d = r->device[path->port];
    struct net_path net;
    int err = net_resolve(d, &d->gids.entry[path->sgid_index], &path->dgid, &net);

    return !err || err == -EINPROGRESS;
}

static void report_request(struct rnic *r, const struct cm_event *event)
{
    struct cm_object *listener = cm_id_owner(event->listener), *o;
    struct cm_record *record;

    if (!is_of_type(listener, event)) {
        refuse(r, event, CM_REJ_INVALID_TRANSPORT);
        return;
    }
    if (!has_way_back(r, event)) {
        refuse(r, event, CM_REJ_INVALID_GID); /* which goes nowhere, too */
        return;
    }
    o = request_object(r, event);
    if (!o) {
        refuse(r, event, CM_REJ_NO_RESOURCES);
        return;
    }
    record = cm_record_new(listener, CTL_CM_CONNECT_REQUEST, 0);
    if (!record) {
        cm_object_end(o);
        return;
    }
    put_conn(event, &record->e.conn);
    cm_record_queue_request(record, o);
}

static void put_ah(const struct cm_object *o, struct ah_attr *ah)
{
    const struct cm_path *p = cm_id_path(o->id);

    *ah = (struct ah_attr){.flow_label = p->flow_label,
                           .sgid_index = (uint8_t)o->sgid_index,
                           .hop_limit = p->hop_limit,
                           .traffic_class = p->traffic_class,
                           .sl = p->sl,
                           .port_num = p->port_num,
                           .is_global = 1};
    memcpy(ah->dgid, p->dgid.raw, sizeof(ah->dgid));
}

static uint32_t type_of(const struct cm_event *event)
{
    switch (event->type) {
    case CM_EVENT_CONNECT_RESPONSE:
        return CTL_CM_CONNECT_RESPONSE;
    case CM_EVENT_ESTABLISHED:
        return CTL_CM_ESTABLISHED;
    case CM_EVENT_REJECTED:
        return CTL_CM_REJECTED;
    case CM_EVENT_DISCONNECTED:
        return CTL_CM_DISCONNECTED;
    case CM_EVENT_TIMEWAIT_EXIT:
        return CTL_CM_TIMEWAIT_EXIT;
    case CM_EVENT_SIDR_REPLY:
        return event->status ? CTL_CM_UNREACHABLE : CTL_CM_ESTABLISHED;
    default:
        return CTL_CM_UNREACHABLE;
    }
}

void cm_on_event(void *ctx, const struct cm_event *event)
{
    struct cm_object *o = cm_id_owner(event->id);
    struct cm_record *r;
    int status = event->status;

    if (event->type == CM_EVENT_CONNECT_REQUEST || event->type == CM_EVENT_SIDR_REQUEST) {
        report_request(ctx, event);
        return;
    }
    if (!cm_object_is_heard(o))
        return;
    cm_incident_of_event(o, event);
    if (event->type == CM_EVENT_UNREACHABLE)
        status = -ETIMEDOUT;
    r = cm_record_new(o, type_of(event), status);
    if (!r)
        return;
    put_conn(event, &r->e.conn);
    o->peer_features = ece_features(event->ece.vendor_id, event->ece.options);
    if (event->type == CM_EVENT_SIDR_REPLY)
        put_ah(o, &r->e.ah);
    if (event->type == CM_EVENT_CONNECT_RESPONSE && cm_object_lead_qp(o)) {
        r->e.type = CTL_CM_ESTABLISHED;
        r->e.qp_is_led = 1;
    }
    cm_record_queue(r);
}
