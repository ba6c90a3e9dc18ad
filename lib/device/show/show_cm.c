/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of rdma_cm, and the manager's counters, in JSON. */
#include <netinet/in.h>
#include <string.h>

#include "cm/cm_object.h"
#include "cm_msg.h"
#include "show/show.h"

static const char *port_space_name(enum ip_cm_port_space ps)
{
    switch (ps) {
    case IP_CM_PS_TCP:
        return "tcp";
    case IP_CM_PS_UDP:
        return "udp";
    case IP_CM_PS_IPOIB:
        return "ipoib";
    case IP_CM_PS_IB:
        return "ib";
    default:
        return "none";
    }
}

/* How far addresses and routes are resolved. */
static const char *progress_name(enum cm_progress progress)
{
    static const char *const name[] = {[CM_AT_START] = "no",
                                       [CM_AT_QUERY] = "query",
                                       [CM_AT_ADDRESS] = "address",
                                       [CM_AT_ROUTE] = "route"};

    return name[progress];
}

/* Address and port number; nothing of an address that there is not. */
static void set_address(json_t *row, const char *name, const struct ctl_cm_addr *a)
{
    char text[46];
    union gid gid;

    if (!a->family)
        return;
    memcpy(gid.raw, a->gid, sizeof(gid.raw));
    gid_format(text, &gid);
    json_object_set_new(row, name,
                        json_sprintf(a->family == AF_INET ? "%s:%u" : "[%s]:%u", text, a->number));
}

static json_t *show_cm_id(const struct cm_object *o)
{
    const struct session *sn = o->o.session;
    struct cm_id_info info;
    json_t *row = json_object();

    cm_id_query(o->id, &info);
    if (o->device)
        json_object_set_new(row, "device", json_string(o->device->name));
    json_object_set_new(row, "id", show_number(o->o.handle));
    json_object_set_new(row, "pid", show_number((uint64_t)sn->peer.pid));
    json_object_set_new(row, "port_space", json_string(port_space_name(o->ps)));
    json_object_set_new(row, "state", json_string(cm_state_name(cm_id_state(o->id))));
    json_object_set_new(row, "bound", json_boolean(o->bound));
    json_object_set_new(row, "resolved", json_string(progress_name(o->progress)));
    json_object_set_new(row, "passive", json_boolean(info.passive));
    set_address(row, "src", &o->src);
    set_address(row, "dst", &o->dst);
    if (o->qp_type)
        json_object_set_new(row, "qp_type", json_string(qp_type_name(o->qp_type)));
    json_object_set_new(row, "qpn", show_number(info.conn.qpn));
    json_object_set_new(row, "remote_qpn", show_number(info.remote_qpn));
    json_object_set_new(row, "events", show_number(o->events));
    return row;
}

void show_cm_ids(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_cm_id(container_of(o[i], struct cm_object, o));
}

/* Packets of queue pair 1. Those received are bad, or messages, or `malformed`, which has those of
 * other classes, too, or `gsi_answered`. */
static json_t *show_gsi(const struct device *d)
{
    const struct gsi *g = &d->gsi;

    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "device", d->name, "rx", (json_int_t)g->rx,
                     "rx_bad", (json_int_t)g->rx_bad, "tx", (json_int_t)g->tx, "tx_unreachable",
                     (json_int_t)g->tx_unreachable, "waiting", (json_int_t)g->waiting_count);
}

json_t *show_cm(const struct rnic *r)
{
    const struct cm_counters *c = cm_counters(r->cm.manager);
    json_t *o = json_object(), *rx = json_object(), *tx = json_object(), *gsi = json_array();

    for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++) {
        json_object_set_new(rx, cm_message_name((enum cm_message)i), show_number(c->rx[i]));
        json_object_set_new(tx, cm_message_name((enum cm_message)i), show_number(c->tx[i]));
    }
    json_object_set_new(o, "rx", rx);
    json_object_set_new(o, "tx", tx);
#define X(name, about) json_object_set_new(o, #name, show_number(c->name));
    CM_COUNTERS(X)
#undef X
    for (unsigned i = 0; i < r->devices; i++)
        json_array_append_new(gsi, show_gsi(r->device[i]));
    json_object_set_new(o, "gsi", gsi);
    return o;
}
