/* SPDX-License-Identifier: BSD-3-Clause */
/* What failed lately, in JSON. Names are stable, as programs read them. */
#include "show/show.h"

#include <stdio.h>
#include <string.h>

#include "control/session_state.h"
#include "device_host.h"
#include "drop.h"
#include "incident.h"
#include "opcode.h"
#include "printable.h"

static const char *status_name(uint8_t status)
{
    static const char *const name[] = {
        [WC_SUCCESS] = "success",
        [WC_LOC_LEN_ERR] = "local length error",
        [WC_LOC_QP_OP_ERR] = "local QP operation error",
        [WC_LOC_PROT_ERR] = "local protection error",
        [WC_WR_FLUSH_ERR] = "work request flushed",
        [WC_MW_BIND_ERR] = "memory window bind error",
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

static const char *operation_name(uint64_t opcode)
{
    static const char *const name[] = {
        [WC_SEND] = "SEND",
        [WC_RDMA_WRITE] = "RDMA WRITE",
        [WC_RDMA_READ] = "RDMA READ",
        [WC_COMP_SWAP] = "COMPARE AND SWAP",
        [WC_FETCH_ADD] = "FETCH ADD",
        [WC_BIND_MW] = "BIND WINDOW",
        [WC_LOCAL_INV] = "LOCAL INVALIDATE",
        [WC_FLUSH] = "FLUSH",
        [WC_ATOMIC_WRITE] = "ATOMIC WRITE",
    };

    if (opcode >= WC_RECV)
        return "RECEIVE";
    return opcode < ARRAY_SIZE(name) && name[opcode] ? name[opcode] : "?";
}

static json_t *rights(uint64_t access)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } right[] = {{MEM_LOCAL_WRITE, "local write"}, {MEM_REMOTE_WRITE, "remote write"},
                 {MEM_REMOTE_READ, "remote read"}, {MEM_REMOTE_ATOMIC, "remote atomic"},
                 {MEM_MW_BIND, "window bind"},     {MEM_FLUSH_GLOBAL, "flush"}};

    for (unsigned i = 0; i < ARRAY_SIZE(right); i++)
        if (access & right[i].bit)
            return json_string(right[i].name);
    return json_string("local read");
}

/* Attributes as ibv_modify_qp names them. */
static json_t *attributes(uint64_t mask)
{
    static const char *const name[] = {"STATE",
                                       "CUR_STATE",
                                       "EN_SQD_ASYNC_NOTIFY",
                                       "ACCESS_FLAGS",
                                       "PKEY_INDEX",
                                       "PORT",
                                       "QKEY",
                                       "AV",
                                       "PATH_MTU",
                                       "TIMEOUT",
                                       "RETRY_CNT",
                                       "RNR_RETRY",
                                       "RQ_PSN",
                                       "MAX_QP_RD_ATOMIC",
                                       "ALT_PATH",
                                       "MIN_RNR_TIMER",
                                       "SQ_PSN",
                                       "MAX_DEST_RD_ATOMIC",
                                       "PATH_MIG_STATE",
                                       "CAP",
                                       "DEST_QPN"};
    char text[ARRAY_SIZE(name) * 32] = "";

    for (unsigned i = 0; i < ARRAY_SIZE(name); i++)
        if (mask >> i & 1)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sIBV_QP_%s",
                     *text ? " " : "", name[i]);
    return json_string(*text ? text : "other");
}

static bool is_named(const char *name, size_t len, const char *const *list)
{
    for (; *list; list++)
        if (len == strlen(*list) && !memcmp(name, *list, len))
            return true;
    return false;
}

/* A detail: a number, unless its name says that it stands for one of a few words. */
static json_t *detail_value(const char *name, size_t len, uint64_t v)
{
    static const char *const masks[] = {"missing", "unexpected", "attribute", NULL};
    static const char *const states[] = {"from", "to", "peer_state", NULL};
    const char *text = NULL;

    if (is_named(name, len, (const char *const[]){"right", NULL}))
        return rights(v);
    if (is_named(name, len, masks))
        return attributes(v);
    if (is_named(name, len, states))
        text = qp_state_name((uint32_t)v);
    else if (is_named(name, len, (const char *const[]){"opcode", NULL}))
        text = operation_name(v);
    else if (is_named(name, len, (const char *const[]){"packet", NULL}))
        text = v < 256 && opcode_table[v].name ? opcode_table[v].name : "?";
    else if (is_named(name, len, (const char *const[]){"reason", NULL}))
        text = v < DROP_COUNT ? drop_name((enum drop)v) : "?";
    else if (is_named(name, len, (const char *const[]){"qp_type", NULL}))
        text = qp_type_name((uint32_t)v);
    return text ? json_string(text) : show_number(v);
}

/* The words of cause.def and the numbers of the record. */
static json_t *details(const struct incident *i, const struct cause_text *t)
{
    const char *name = t ? t->details : "";
    json_t *o = json_object();

    for (unsigned k = 0; k < CAUSE_DETAILS && *name; k++) {
        size_t len = strcspn(name, " ");
        char member[32];

        snprintf(member, sizeof(member), "%.*s", (int)len, name);
        json_object_set_new(o, member, detail_value(name, len, i->detail[k]));
        name += len + (name[len] == ' ');
    }
    return o;
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
    json_object_set_new(o, "operation", json_string(operation_name(i->opcode)));
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

bool show_sees_incident(const struct viewer *v, const struct incident *i)
{
    return v->all || i->program.uid == v->uid;
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
    json_object_set_new(o, "details", details(i, t));
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
    json_object_set_new(o, "counters", counters(i));
    return o;
}
