/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of programs as rdma names their members, from the rows of `uroce show`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resource.h"

/* ---- members ---- */

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

/* A number of the row; absent: 0. */
static void add_number(json_t *record, const char *name, const json_t *row, const char *source)
{
    json_object_set_new(record, name,
                        json_integer(json_integer_value(json_object_get(row, source))));
}

static void add_present(json_t *record, const char *name, const json_t *row, const char *source)
{
    if (json_object_get(row, source))
        add_number(record, name, row, source);
}

static void add_text(json_t *record, const char *name, const char *text)
{
    json_object_set_new(record, name, json_string(text));
}

static void add_key(json_t *record, const char *name, const json_t *row, const char *source)
{
    json_object_set_new(
        record, name,
        json_sprintf("%" PRIx32, (uint32_t)json_integer_value(json_object_get(row, source))));
}

static void add_program(json_t *record, const json_t *row, const struct rdma_state *s)
{
    char pid[24];
    const char *name;

    snprintf(pid, sizeof(pid), "%" JSON_INTEGER_FORMAT,
             json_integer_value(json_object_get(row, "pid")));
    name = json_string_value(json_object_get(s->program, pid));
    add_number(record, "pid", row, "pid");
    if (name)
        add_text(record, "comm", name);
}

/* ---- queue pairs ---- */

static const struct rdma_filter qp_filters[] = {{"link", false},
                                                {"lqpn", true},
                                                {"rqpn", true},
                                                {"pid", true},
                                                {"sq-psn", true},
                                                {"rq-psn", true},
                                                {"path-mig-state", false},
                                                {"type", false},
                                                {"state", false},
                                                {"pdn", true},
                                                {NULL, false}};

static const char *rdma_qp_type(const char *type)
{
    return !strcmp(type, "XRC_SEND") ? "XRC_INI" : !strcmp(type, "XRC_RECV") ? "XRC_TGT" : type;
}

/* Where raw packets are spread, there is no state. */
static const char *qp_state(const json_t *row)
{
    const char *state = text_of(row, "state");

    return *state ? state : "RESET";
}

/* It has a port from INIT on. */
static int qp_port(const json_t *row)
{
    return strcmp(qp_state(row), "RESET") ? 1 : RDMA_NO_PORT;
}

static bool fill_qp(json_t *record, const json_t *row, const struct rdma_state *s)
{
    const char *type = text_of(row, "type");
    bool is_connected = !strcmp(type, "RC") || !strcmp(type, "UC");
    bool is_xrc = strstr(type, "XRC_") == type;

    add_number(record, "lqpn", row, "qpn");
    if (is_connected)
        add_number(record, "rqpn", row, "dest_qpn");
    add_text(record, "type", rdma_qp_type(type));
    add_text(record, "state", qp_state(row));
    if (s->sees_secrets && (is_connected || is_xrc))
        add_number(record, "rq-psn", row, "rq_psn");
    if (s->sees_secrets)
        add_number(record, "sq-psn", row, "sq_psn");
    if (is_connected || is_xrc)
        add_text(record, "path-mig-state", "MIGRATED");
    add_present(record, "pdn", row, "pd");
    add_program(record, row, s);
    return true;
}

/* ---- completion queues, domains, regions, contexts ---- */

static const struct rdma_filter cq_filters[] = {{"dev", false}, {"users", true}, {"pid", true},
                                                {"cqn", true},  {"ctxn", true},  {NULL, false}};

static bool fill_cq(json_t *record, const json_t *row, const struct rdma_state *s)
{
    add_number(record, "cqn", row, "cq");
    add_number(record, "cqe", row, "cqe");
    add_number(record, "users", row, "users");
    json_object_set_new(record, "adaptive-moderation", json_false());
    add_number(record, "ctxn", row, "context");
    add_program(record, row, s);
    return true;
}

static const struct rdma_filter pd_filters[] = {{"dev", false}, {"users", true}, {"pid", true},
                                                {"ctxn", true}, {"pdn", true},   {NULL, false}};

static bool fill_pd(json_t *record, const json_t *row, const struct rdma_state *s)
{
    add_number(record, "pdn", row, "pd");
    if (s->sees_secrets)
        add_text(record, "local_dma_lkey", "0"); /* there is no such key */
    add_number(record, "users", row, "users");
    add_number(record, "ctxn", row, "context");
    add_program(record, row, s);
    return true;
}

static const struct rdma_filter mr_filters[] = {{"dev", false},  {"rkey", true}, {"lkey", true},
                                                {"mrlen", true}, {"pid", true},  {"mrn", true},
                                                {"pdn", true},   {NULL, false}};

static bool fill_mr(json_t *record, const json_t *row, const struct rdma_state *s)
{
    add_number(record, "mrn", row, "handle");
    if (s->sees_secrets) {
        add_key(record, "rkey", row, "key");
        add_key(record, "lkey", row, "key");
    }
    add_number(record, "mrlen", row, "length");
    add_number(record, "pdn", row, "pd");
    add_program(record, row, s);
    return true;
}

static const struct rdma_filter ctx_filters[] = {
    {"dev", false}, {"pid", true}, {"ctxn", true}, {NULL, false}};

static bool fill_ctx(json_t *record, const json_t *row, const struct rdma_state *s)
{
    if (!json_object_get(row, "context")) /* connected, without a device */
        return false;
    add_number(record, "ctxn", row, "context");
    add_program(record, row, s);
    return true;
}

/* ---- shared receive queues ---- */

static const struct rdma_filter srq_filters[] = {{"dev", false},  {"pid", true}, {"srqn", true},
                                                 {"type", false}, {"pdn", true}, {"cqn", true},
                                                 {"lqpn", true},  {NULL, false}};

static int compare(const void *a, const void *b)
{
    json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;

    return (x > y) - (x < y);
}

/* Sorted numbers, consecutive ones as a range. */
static json_t *ranges(const json_int_t *number, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && number[end] == number[end - 1] + 1;)
            end++;
        json_array_append_new(list, end == i + 1 ? json_sprintf("%" JSON_INTEGER_FORMAT, number[i])
                                                 : json_sprintf("%" JSON_INTEGER_FORMAT
                                                                "-%" JSON_INTEGER_FORMAT,
                                                                number[i], number[end - 1]));
    }
    return list;
}

/* The queue pairs that receive from it, as far as the filter names them. */
static json_t *srq_qps(const json_t *row, const struct rdma_state *s)
{
    const char *wanted = rdma_filters_value(s->filters, "lqpn");
    char key[96];
    json_t *list, *item, *result;
    json_int_t *number;
    size_t i, n = 0;

    snprintf(key, sizeof(key), "%s/%" JSON_INTEGER_FORMAT, text_of(row, "device"),
             json_integer_value(json_object_get(row, "srq")));
    list = json_object_get(s->srq_qps, key);
    number = calloc(json_array_size(list) + 1, sizeof(*number));
    json_array_foreach(list, i, item)
    {
        if (number && (!wanted || rdma_in_ranges(wanted, json_integer_value(item))))
            number[n++] = json_integer_value(item);
    }
    if (number)
        qsort(number, n, sizeof(*number), compare);
    result = ranges(number, n);
    free(number);
    return result;
}

static bool fill_srq(json_t *record, const json_t *row, const struct rdma_state *s)
{
    json_t *qps = srq_qps(row, s);
    bool any = json_array_size(qps);

    add_number(record, "srqn", row, "srq");
    add_text(record, "type", text_of(row, "type"));
    if (any)
        json_object_set(record, "lqpn", qps);
    json_decref(qps);
    add_number(record, "pdn", row, "pd");
    add_present(record, "cqn", row, "cq");
    add_program(record, row, s);
    return true;
}

/* ---- ids of rdma_cm ---- */

static const struct rdma_filter cm_id_filters[] = {
    {"link", false},     {"lqpn", true},     {"qp-type", false},  {"state", false},
    {"ps", false},       {"pid", true},      {"src-addr", false}, {"src-port", true},
    {"dst-addr", false}, {"dst-port", true}, {"cm-idn", true},    {NULL, false}};

/* A listener at all addresses has none. */
static int cm_id_port(const json_t *row)
{
    return json_object_get(row, "device") ? 1 : RDMA_NO_PORT;
}

/* The daemon's states are those of messages (12.9.7), rdma's those of librdmacm's functions. */
static const char *cm_id_state(const json_t *row)
{
    const char *state = text_of(row, "state"), *resolved = text_of(row, "resolved");

    if (!strcmp(state, "LISTEN"))
        return state;
    if (strstr(state, "DREQ_") == state || !strcmp(state, "TIMEWAIT"))
        return "DISCONNECT";
    if (strcmp(state, "IDLE"))
        return "CONNECT";
    if (!strcmp(resolved, "query"))
        return "ADDR_QUERY";
    if (!strcmp(resolved, "address"))
        return "ADDR_RESOLVED";
    if (!strcmp(resolved, "route"))
        return "ROUTE_RESOLVED";
    return json_is_true(json_object_get(row, "bound")) ? "ADDR_BOUND" : "IDLE";
}

static const char *port_space(const json_t *row)
{
    const char *name = text_of(row, "port_space");

    return !strcmp(name, "tcp")                            ? "TCP"
           : !strcmp(name, "udp")                          ? "UDP"
           : !strcmp(name, "ipoib") || !strcmp(name, "ib") ? "IPoIB"
                                                           : "---";
}

/* rdma writes IPv6 addresses without brackets. */
static void add_address(json_t *record, const char *name, const json_t *row, const char *source)
{
    const char *text = text_of(row, source), *end = strchr(text, ']');

    if (*text == '[' && end)
        json_object_set_new(record, name,
                            json_sprintf("%.*s%s", (int)(end - text - 1), text + 1, end + 1));
    else if (*text)
        add_text(record, name, text);
}

static const char *cm_id_qp_type(const json_t *row)
{
    const char *type = text_of(row, "qp_type");

    return *type ? rdma_qp_type(type) : !strcmp(text_of(row, "port_space"), "udp") ? "UD" : "RC";
}

static bool fill_cm_id(json_t *record, const json_t *row, const struct rdma_state *s)
{
    const char *state = cm_id_state(row);

    if (!json_object_get(row, "device") && strcmp(state, "LISTEN"))
        return false;
    add_number(record, "cm-idn", row, "id");
    if (json_integer_value(json_object_get(row, "qpn"))) {
        add_number(record, "lqpn", row, "qpn");
        add_text(record, "qp-type", cm_id_qp_type(row));
    }
    add_text(record, "state", state);
    add_text(record, "ps", port_space(row));
    add_program(record, row, s);
    add_address(record, "src-addr", row, "src");
    add_address(record, "dst-addr", row, "dst");
    if (json_object_get(record, "src-addr") && !json_object_get(record, "dst-addr"))
        add_text(record, "dst-addr", *text_of(row, "src") == '[' ? ":::0" : "0.0.0.0:0");
    return true;
}

const struct rdma_kind rdma_kinds[] = {
    {"pd", "pds", RDMA_DEV, pd_filters, fill_pd, NULL, false},
    {"cq", "cqs", RDMA_DEV, cq_filters, fill_cq, NULL, false},
    {"qp", "qps", RDMA_LINK, qp_filters, fill_qp, qp_port, false},
    {"cm_id", "cm_ids", RDMA_LINK, cm_id_filters, fill_cm_id, cm_id_port, true},
    {"mr", "mrs", RDMA_DEV, mr_filters, fill_mr, NULL, false},
    {"ctx", "clients", RDMA_DEV, ctx_filters, fill_ctx, NULL, false},
    {"srq", "srqs", RDMA_DEV, srq_filters, fill_srq, NULL, false},
    {NULL, NULL, RDMA_DEV, NULL, NULL, NULL, false},
};
