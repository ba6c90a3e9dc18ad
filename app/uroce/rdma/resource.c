/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce rdma resource`: numbers of objects, or a kind's objects. */
#include "resource.h"

#include <stdio.h>
#include <string.h>

#include "show.h"

/* ---- the daemon's state ---- */

static json_t *index_programs(const json_t *root)
{
    json_t *names = json_object(), *client;
    char pid[24];
    size_t i;

    json_array_foreach(json_object_get(root, "clients"), i, client)
    {
        snprintf(pid, sizeof(pid), "%" JSON_INTEGER_FORMAT,
                 json_integer_value(json_object_get(client, "pid")));
        json_object_set(names, pid, json_object_get(client, "comm"));
    }
    return names;
}

static json_t *index_srq_qps(const json_t *root)
{
    json_t *lists = json_object(), *qp;
    char key[96];
    size_t i;

    json_array_foreach(json_object_get(root, "qps"), i, qp)
    {
        const json_t *srq = json_object_get(qp, "srq");

        if (!srq)
            continue;
        snprintf(key, sizeof(key), "%s/%" JSON_INTEGER_FORMAT,
                 json_string_value(json_object_get(qp, "device")), json_integer_value(srq));
        if (!json_object_get(lists, key))
            json_object_set_new(lists, key, json_array());
        json_array_append(json_object_get(lists, key), json_object_get(qp, "qpn"));
    }
    return lists;
}

static void state_open(struct rdma_state *s, const json_t *root, const struct rdma_filters *f)
{
    *s = (struct rdma_state){.root = root, .filters = f};
    s->sees_secrets = !json_object_get(root, "others");
    s->program = index_programs(root);
    s->srq_qps = index_srq_qps(root);
}

static void state_close(struct rdma_state *s)
{
    json_decref(s->program);
    json_decref(s->srq_qps);
}

static const json_t *devices_of(const struct rdma_state *s)
{
    return json_object_get(s->root, "devices");
}

static const char *device_name(const struct rdma_state *s, size_t device)
{
    return json_string_value(json_object_get(json_array_get(devices_of(s), device), "name"));
}

/* ---- the objects of a kind ---- */

/* Whether a row is one of the device. */
static bool is_of(const struct rdma_kind *k, const json_t *row, const char *device)
{
    const char *name = json_string_value(json_object_get(row, "device"));

    return name ? !strcmp(name, device) : k->is_everywhere;
}

/* The record of a row, if it is one of the kind and the device and at the port. */
static json_t *record_of(const struct rdma_kind *k, const json_t *row, const struct rdma_state *s,
                         size_t device, int port)
{
    const char *name = device_name(s, device);
    json_t *record;

    if (!is_of(k, row, name) || (k->port && k->port(row) != port))
        return NULL;
    record = json_pack("{s:i, s:s}", "ifindex", (int)device, "ifname", name);
    if (k->port && port != RDMA_NO_PORT)
        json_object_set_new(record, "port", json_integer(port));
    if (k->fill(record, row, s))
        return record;
    json_decref(record);
    return NULL;
}

/* Adds those of a device and port that pass the filters. */
static void add_records(json_t *records, const struct rdma_kind *k, const struct rdma_state *s,
                        size_t device, int port)
{
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(s->root, k->list), i, row)
    {
        json_t *record = record_of(k, row, s, device, port);

        if (record && rdma_filters_pass(s->filters, record))
            json_array_append(records, record);
        json_decref(record);
    }
}

/* Those that belong to no port come first. */
static json_t *list_kind(const struct rdma_kind *k, const struct rdma_state *s,
                         const struct rdma_place *place)
{
    json_t *records = json_array();
    size_t n = json_array_size(devices_of(s));

    for (size_t device = 0; device < n; device++) {
        size_t ports =
            json_array_size(json_object_get(json_array_get(devices_of(s), device), "ports"));

        for (int port = RDMA_NO_PORT; port <= (k->port ? (int)ports : RDMA_NO_PORT); port++)
            if ((!place || place->device == device) &&
                (!place || place->port == RDMA_ALL_PORTS || place->port == port))
                add_records(records, k, s, device, port);
    }
    return records;
}

static int show_kind(struct rdma_call *c, const struct rdma_kind *k, const json_t *root)
{
    struct rdma_place place = {.port = RDMA_ALL_PORTS};
    const char *word = k->port ? "link" : "dev";
    struct rdma_filters filters;
    struct rdma_state s;
    json_t *records;
    int status = rdma_filters_read(&filters, k->filters, c->word);

    if (status)
        return status;
    word = rdma_filters_value(&filters, word);
    if (word && k->port && !rdma_find_place(&place, json_object_get(root, "devices"), word))
        return 1;
    if (word && !k->port &&
        !rdma_find_device(&place.device, json_object_get(root, "devices"), word))
        return rdma_failed("there is no device \"%s\"", word);
    state_open(&s, root, &filters);
    records = list_kind(k, &s, word ? &place : NULL);
    state_close(&s);
    return rdma_print(c, k->head, records);
}

/* ---- the summary ---- */

static int show_summary(struct rdma_call *c, const json_t *root)
{
    const struct rdma_filters none = {.pairs = 0};
    struct rdma_place place = {.port = RDMA_ALL_PORTS};
    json_t *records = json_array(), *list;
    size_t only = 0, n = json_array_size(json_object_get(root, "devices"));
    bool is_one =
        c->word[0] && rdma_find_device(&only, json_object_get(root, "devices"), c->word[0]);
    struct rdma_state s;

    state_open(&s, root, &none);
    for (place.device = 0; place.device < n; place.device++) {
        json_t *record;

        if (is_one && place.device != only)
            continue;
        record = json_pack("{s:i, s:s}", "ifindex", (int)place.device, "ifname",
                           device_name(&s, place.device));
        for (const struct rdma_kind *k = rdma_kinds; k->name; k++) {
            list = list_kind(k, &s, &place);
            json_object_set_new(record, k->name, json_integer((json_int_t)json_array_size(list)));
            json_decref(list);
        }
        json_array_append_new(records, record);
    }
    state_close(&s);
    return rdma_print(c, RDMA_NUMBERED, records);
}

/* In rdma's order, which decides about abbreviations. */
static const struct rdma_kind *find_kind(const char *word)
{
    static const char *const order[] = {"qp", "cm_id", "cq", "mr", "pd", "ctx", "srq"};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        for (const struct rdma_kind *k = rdma_kinds; rdma_is(word, order[i]) && k->name; k++)
            if (!strcmp(k->name, order[i]))
                return k;
    return NULL;
}

static int show(struct rdma_call *c, const json_t *root)
{
    const struct rdma_kind *k;
    size_t device;

    if (!c->word[0] ||
        (!c->word[1] && rdma_find_device(&device, json_object_get(root, "devices"), c->word[0])))
        return show_summary(c, root);
    k = find_kind(c->word[0]);
    if (!k)
        return rdma_wrong("\"%s\" is no device, and no kind of objects", c->word[0]);
    c->word++;
    return show_kind(c, k, root);
}

int rdma_resource_show(struct rdma_call *c)
{
    json_t *root = show_state(c->socket, CTL_SHOW_ALL);
    int status;

    if (!root)
        return 1;
    rdma_choose_names(root);
    status = show(c, root);
    json_decref(root);
    return status;
}
