/* SPDX-License-Identifier: BSD-3-Clause */
/* What failed lately, in JSON. Names are stable, as programs read them. */
#include "show/show_detail.h"

#include <stdio.h>
#include <string.h>

#include "control/session_state.h"
#include "device_host.h"
#include "drop.h"
#include "incident.h"
#include "printable.h"
#include "trust.h"

static const char *status_name(uint8_t status)
{
    static const char *const name[] = {
        [WC_SUCCESS] = "success",
        [WC_LOC_LEN_ERR] = "local length error",
        [WC_LOC_QP_OP_ERR] = "local QP operation error",
        [WC_LOC_PROT_ERR] = "local protection error",
        [WC_WR_FLUSH_ERR] = "work request flushed",
        [WC_MW_BIND_ERR] = "memory management operation error",
        [WC_BAD_RESP_ERR] = "bad response",
        [WC_LOC_ACCESS_ERR] = "local access error",
        [WC_REM_INV_REQ_ERR] = "remote invalid request",
        [WC_REM_ACCESS_ERR] = "remote access error",
        [WC_REM_OP_ERR] = "remote operation error",
        [WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
        [WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
        [WC_REM_ABORT_ERR] = "remote abort",
        [WC_FATAL_ERR] = "fatal error",
    };

    return status < ARRAY_SIZE(name) && name[status] ? name[status] : "?";
}

static json_t *counters(const struct incident *i)
{
    json_t *o = json_object();

#define X(name) json_object_set_new(o, #name, show_number(i->counter.name));
    INCIDENT_COUNTERS(X)
#undef X
    return o;
}

static void add_request(json_t *o, const struct incident *i)
{
    json_object_set_new(o, "operation", json_string(show_operation(i->opcode)));
    json_object_set_new(o, "status", json_string(status_name(i->status)));
    json_object_set_new(o, "status_code", show_number(i->status));
    if (i->has_wr)
        json_object_set_new(o, "wr_id", json_sprintf("%llu", (unsigned long long)i->wr_id));
}

static void add_peer(json_t *o, const struct incident *i)
{
    union gid gid;

    memcpy(gid.raw, i->dgid, sizeof(gid.raw));
    if (i->dest_qpn)
        json_object_set_new(o, "dest_qpn", show_number(i->dest_qpn));
    if (!gid_is_zero(&gid))
        json_object_set_new(o, "dgid", show_gid(&gid));
}

/* Packets that the port did not take since it was opened, perhaps those that had no answer. */
static void add_refused(json_t *o, const struct device *d, const struct incident *i)
{
    uint64_t refused = show_refused(d);

    if (refused && (i->cause == CAUSE_no_answer || i->cause == CAUSE_answers_stopped))
        json_object_set_new(o, "tx_refused", show_number(refused));
}

bool show_sees_incident(const struct viewer *v, const struct incident *i)
{
    return v->all || trust_same_user(v->uid, i->program.uid);
}

json_t *show_incident(const struct device *d, const struct incident *i)
{
    static const char *const kind[INCIDENT_KINDS] = {[INCIDENT_SEND] = "send",
                                                     [INCIDENT_REQUEST] = "request",
                                                     [INCIDENT_DROPPED] = "dropped",
                                                     [INCIDENT_CALL] = "call"};
    const struct cause_text *t = cause_text(i->cause);
    char comm[PRINTABLE_GROWTH * sizeof(i->program.comm)];
    json_t *o = json_object();

    printable(comm, sizeof(comm), i->program.comm);
    json_object_set_new(o, "time_ns", show_number(i->time));
    json_object_set_new(o, "device", json_string(d->name));
    json_object_set_new(o, "kind",
                        json_string(i->kind && i->kind < INCIDENT_KINDS ? kind[i->kind] : "?"));
    json_object_set_new(o, "code", show_number(i->cause));
    json_object_set_new(o, "cause", json_string(t ? t->name : "?"));
    json_object_set_new(o, "details", show_details(i, t));
    json_object_set_new(o, "pid", show_number(i->program.pid));
    json_object_set_new(o, "uid", show_number(i->program.uid));
    json_object_set_new(o, "comm", json_string(comm));
    if (i->qpn)
        json_object_set_new(o, "qpn", show_number(i->qpn));
    add_peer(o, i);
    if (i->kind == INCIDENT_CALL)
        return o;
    json_object_set_new(o, "qp_type", json_string(qp_type_name(i->qp_type)));
    if (i->kind != INCIDENT_DROPPED)
        add_request(o, i);
    if (i->drops) {
        json_object_set_new(o, "drops", show_number(i->drops));
        json_object_set_new(o, "drop_reason", json_string(drop_name((enum drop)i->drop_reason)));
    }
    if (i->silent)
        json_object_set_new(o, "silent_us", show_number(i->silent / NS_PER_US));
    add_refused(o, d, i);
    json_object_set_new(o, "counters", counters(i));
    return o;
}
