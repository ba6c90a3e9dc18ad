/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs in JSON. */
#include "show/show.h"

#include "control/session_state.h"
#include "device_host.h"
#include "objects/cq_channel.h"
#include "objects/pd_mr.h"
#include "objects/qp_object.h"
#include "objects/srq_object.h"

/* The fields of a connection's packets besides addresses. */
static void add_path(json_t *o, const struct address_vector *av)
{
    json_object_set_new(o, "sgid_index", show_number(av->sgid_index));
    json_object_set_new(o, "sl", show_number(av->sl));
    if (av->vlan != VLAN_NONE) {
        json_object_set_new(o, "vlan", show_number(av->vlan));
        json_object_set_new(o, "pcp", show_number(av->pcp));
    }
    json_object_set_new(o, "dscp", show_number(av->traffic_class >> 2));
}

static void add_used_objects(json_t *o, const struct qp_object *q)
{
    if (q->pd)
        json_object_set_new(o, "pd", show_number(pd_number(q->pd)));
    if (q->send_cq)
        json_object_set_new(o, "send_cq", show_number(q->send_cq->o.handle));
    if (q->recv_cq)
        json_object_set_new(o, "recv_cq", show_number(q->recv_cq->o.handle));
    if (q->srq)
        json_object_set_new(o, "srq", show_number(q->srq->o.handle));
}

static json_t *show_qp(const struct viewer *v, struct qp_object *q, const struct qp_attr *a)
{
    const struct qp_counters *qc = qp_counters(q->dp.qp);
    const struct address_vector *av = qp_address_vector(q->dp.qp);
    json_t *o = json_object();

    json_object_set_new(o, "device", json_string(q->o.session->device->name));
    json_object_set_new(o, "qpn", show_number(q->o.handle));
    json_object_set_new(o, "pid", show_number((uint64_t)q->o.session->peer.pid));
    json_object_set_new(o, "type", json_string(qp_type_name(qp_type(q->dp.qp))));
    add_used_objects(o, q);
    show_qp_steering(o, q);
    if (q->ind)
        show_rx_hash(o, q);
    else
        json_object_set_new(o, "state", json_string(qp_state_name(a->state)));
    if (a->state >= QPS_RTR && qp_type(q->dp.qp) != QPT_RAW_PACKET) {
        json_object_set_new(o, "dest_qpn", show_number(a->dest_qpn));
        json_object_set_new(o, "sgid", show_gid(&av->sgid));
        json_object_set_new(o, "dgid", show_gid(&av->dgid));
        json_object_set_new(o, "path_mtu", show_number(a->path_mtu ? 128u << a->path_mtu : 0));
        if (v->all) { /* enough to send in the peer's name */
            json_object_set_new(o, "sq_psn", show_number(a->sq_psn));
            json_object_set_new(o, "rq_psn", show_number(a->rq_psn));
        }
        if (qp_type(q->dp.qp) != QPT_UD)
            add_path(o, av);
        if (q->o.session->device->selective)
            json_object_set_new(o, "selective_repeat", json_boolean(qp_has_agreed(q->dp.qp)));
        if (qp_udp_sport(q->dp.qp))
            json_object_set_new(o, "udp_sport", show_number(qp_udp_sport(q->dp.qp)));
    }
    if (qp_entropy(q->dp.qp))
        json_object_set_new(o, "entropy", show_entropy(qp_entropy(q->dp.qp)));
#define X(name) json_object_set_new(o, #name, show_number(counter_get(&qc->name)));
    QP_COUNTERS(X)
#undef X
    return o;
}

void show_qps(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    struct qp_object *q[SHOW_BATCH] = {NULL};
    struct qp_attr attr[SHOW_BATCH];

    for (unsigned i = 0; i < n; i++)
        q[i] = container_of(o[i], struct qp_object, o);
    qp_objects_attr(o[0]->session->device, q, n, attr);
    for (unsigned i = 0; i < n; i++)
        out[i] = show_qp(v, q[i], &attr[i]);
}
