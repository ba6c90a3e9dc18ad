/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_select.h. What the state lacks, rows lack. */
#include "metrics_select.h"

#include <string.h>

#include "common.h"
#include "drop.h"

/* ---- the daemon ---- */

static void add_daemon(json_t *rows, const json_t *state)
{
    json_array_append(rows, (json_t *)state);
}

static void add_build(json_t *rows, const json_t *state)
{
    json_array_append_new(
        rows, json_pack("{s:O?, s:i}", "version", json_object_get(state, "version"), "one", 1));
}

static void add_workers(json_t *rows, const json_t *state)
{
    json_t *worker, *row;
    size_t i;

    json_array_foreach(json_object_get(state, "workers"), i, worker)
    {
        row = json_copy(worker);
        json_object_set(row, "worker", json_object_get(worker, "index"));
        json_array_append_new(rows, row);
    }
}

/* Each kind of wait has a row, so that there is a value when nothing waits. */
static void add_late(json_t *rows, const json_t *state)
{
    static const char *const what[] = {"copied memory", "descriptor", "process or memory"};
    json_t *late;
    size_t k;

    for (unsigned i = 0; i < ARRAY_SIZE(what); i++) {
        json_int_t waits = 0, longest = 0;

        json_array_foreach(json_object_get(state, "late"), k, late)
        {
            const char *name = json_string_value(json_object_get(late, "what"));

            if (!name || strcmp(name, what[i]))
                continue;
            waits++;
            longest = max_of(longest, json_integer_value(json_object_get(late, "ms")));
        }
        json_array_append_new(
            rows, json_pack("{s:s, s:I, s:I}", "what", what[i], "waits", waits, "ms", longest));
    }
}

static void add_latency(json_t *rows, const json_t *state)
{
    json_array_extend(rows, json_object_get(state, "latency"));
}

/* ---- ports ---- */

typedef void port_rows(json_t *rows, const json_t *device, const json_t *port);

static void each_port(json_t *rows, const json_t *state, port_rows *add)
{
    json_t *device, *port;
    size_t d, p;

    json_array_foreach(json_object_get(state, "devices"), d, device)
    {
        json_array_foreach(json_object_get(device, "ports"), p, port) add(rows, device, port);
    }
}

/* A row with these values and the port's labels. values may be NULL. */
static json_t *port_row(const json_t *values, const json_t *device, const json_t *port)
{
    json_t *row = values ? json_copy((json_t *)values) : json_object();

    json_object_set(row, "device", json_object_get(device, "name"));
    json_object_set(row, "port", json_object_get(port, "port"));
    return row;
}

static void add_port_info(json_t *rows, const json_t *device, const json_t *port)
{
    static const char *const label[] = {"driver", "name", "netdev", "mac"};
    json_t *row = port_row(NULL, device, port);

    for (unsigned i = 0; i < ARRAY_SIZE(label); i++)
        json_object_set(row, label[i], json_object_get(port, label[i]));
    json_object_set_new(row, "one", json_integer(1));
    json_array_append_new(rows, row);
}

static void add_port(json_t *rows, const json_t *device, const json_t *port)
{
    static const char *const gauge[] = {"speed_mbps", "mtu", "path_mtu"};
    const json_t *steering = json_object_get(port, "steering");
    const char *state = json_string_value(json_object_get(port, "state"));
    json_t *row = port_row(json_object_get(port, "counters"), device, port);

    for (unsigned i = 0; i < ARRAY_SIZE(gauge); i++)
        json_object_set(row, gauge[i], json_object_get(port, gauge[i]));
    json_object_set_new(row, "up", json_integer(state && !strcmp(state, "active")));
    json_object_set(row, "moved_after_misplaced",
                    json_object_get(steering, "moved_after_misplaced"));
    json_array_append_new(rows, row);
}

static void add_drops(json_t *rows, const json_t *device, const json_t *port)
{
    const json_t *drops = json_object_get(json_object_get(port, "counters"), "drops");

    for (unsigned i = DROP_NONE + 1; i < DROP_COUNT; i++) {
        const char *name = drop_name((enum drop)i);
        json_t *row = port_row(NULL, device, port);

        json_object_set_new(row, "reason", json_string(name));
        json_object_set_new(row, "value",
                            json_integer(json_integer_value(json_object_get(drops, name))));
        json_array_append_new(rows, row);
    }
}

static void add_items(json_t *rows, const json_t *list, const json_t *device, const json_t *port)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item) json_array_append_new(rows, port_row(item, device, port));
}

static void add_priorities(json_t *rows, const json_t *device, const json_t *port)
{
    add_items(rows, json_object_get(json_object_get(port, "qos"), "priorities"), device, port);
}

static void add_queues(json_t *rows, const json_t *device, const json_t *port)
{
    add_items(rows, json_object_get(json_object_get(port, "steering"), "workers"), device, port);
}

static void add_network(json_t *rows, const json_t *device, const json_t *port)
{
    json_array_append_new(rows, port_row(json_object_get(port, "network"), device, port));
}

/* ---- devices ---- */

/* The sums are in the order of the devices, which have one port each. */
static void add_totals(json_t *rows, const json_t *state)
{
    const json_t *totals = json_object_get(state, "totals");
    json_t *device, *port;
    size_t i;

    json_array_foreach(json_object_get(state, "devices"), i, device)
    {
        port = json_array_get(json_object_get(device, "ports"), 0);
        json_array_append_new(rows, port_row(json_array_get(totals, i), device, port));
    }
}

static void add_devices(json_t *rows, const json_t *state)
{
    json_t *device;
    size_t i;

    json_array_foreach(json_object_get(state, "devices"), i, device) json_array_append_new(
        rows, json_pack("{s:O?, s:O?}", "device", json_object_get(device, "name"), "mrs_denied",
                        json_object_get(device, "mrs_denied")));
}

static void add_mrs(json_t *rows, const json_t *state)
{
    json_t *device, *times;
    const char *reason;
    size_t i;

    json_array_foreach(json_object_get(state, "devices"), i, device)
    {
        json_object_foreach(json_object_get(device, "mrs_why"), reason, times)
            json_array_append_new(rows, json_pack("{s:O?, s:s, s:O}", "device",
                                                  json_object_get(device, "name"), "reason", reason,
                                                  "times", times));
    }
}

/* ---- quotas ---- */

/* Rows of one user, or of all users together; of memory, in bytes, or of what is counted. */
static void add_quotas(json_t *rows, const json_t *state, bool of_all, bool of_memory)
{
    json_t *quota, *row;
    size_t i;

    json_array_foreach(json_object_get(state, "quotas"), i, quota)
    {
        const char *kind = json_string_value(json_object_get(quota, "kind"));
        const json_t *uid = json_object_get(quota, "uid");

        if (!kind || json_is_string(uid) != of_all || !!strstr(kind, "memory") != of_memory)
            continue;
        row = json_copy(quota);
        if (!of_all)
            json_object_set(row, "user", (json_t *)uid);
        json_array_append_new(rows, row);
    }
}

/* ---- the connection manager ---- */

static void add_cm(json_t *rows, const json_t *state)
{
    json_array_append(rows, json_object_get(state, "cm"));
}

static void add_cm_messages(json_t *rows, const json_t *state)
{
    const json_t *cm = json_object_get(state, "cm"), *tx = json_object_get(cm, "tx");
    const char *name;
    json_t *received;

    json_object_foreach(json_object_get(cm, "rx"), name, received)
        json_array_append_new(rows, json_pack("{s:s, s:O, s:O?}", "message", name, "received",
                                              received, "sent", json_object_get(tx, name)));
}

static void add_gsi(json_t *rows, const json_t *state)
{
    json_t *gsi;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(state, "cm"), "gsi"), i, gsi)
        json_array_append(rows, gsi);
}

/* ---- the topics ---- */

#define LABELS_MAX 7

static const struct {
    const char *label[LABELS_MAX];
    void (*add)(json_t *rows, const json_t *state);
    port_rows *add_port; /* in place of `add`, for each port */
} topics[METRIC_TOPICS] = {
    [METRIC_DAEMON] = {{NULL}, add_daemon, NULL},
    [METRIC_BUILD] = {{"version"}, add_build, NULL},
    [METRIC_PORT_INFO] = {{"device", "port", "driver", "name", "netdev", "mac"},
                          NULL,
                          add_port_info},
    [METRIC_PORT] = {{"device", "port"}, NULL, add_port},
    [METRIC_DROPS] = {{"device", "port", "reason"}, NULL, add_drops},
    [METRIC_QOS] = {{"device", "port", "priority"}, NULL, add_priorities},
    [METRIC_TOTALS] = {{"device", "port"}, add_totals, NULL},
    [METRIC_NETWORK] = {{"device", "port"}, NULL, add_network},
    [METRIC_QUEUE] = {{"device", "port", "queue", "worker"}, NULL, add_queues},
    [METRIC_WORKER] = {{"worker"}, add_workers, NULL},
    [METRIC_DEVICE] = {{"device"}, add_devices, NULL},
    [METRIC_MRS] = {{"device", "reason"}, add_mrs, NULL},
    [METRIC_USER] = {{"user", "device", "kind"}, NULL, NULL},
    [METRIC_USER_MEMORY] = {{"user", "kind"}, NULL, NULL},
    [METRIC_ALL] = {{"device", "kind"}, NULL, NULL},
    [METRIC_ALL_MEMORY] = {{"kind"}, NULL, NULL},
    [METRIC_LATE] = {{"what"}, add_late, NULL},
    [METRIC_LATENCY] = {{"device", "port", "stage"}, add_latency, NULL},
    [METRIC_CM_MESSAGE] = {{"message"}, add_cm_messages, NULL},
    [METRIC_CM] = {{NULL}, add_cm, NULL},
    [METRIC_GSI] = {{"device"}, add_gsi, NULL},
};

const char *const *metrics_labels(enum metrics_topic topic)
{
    return topics[topic].label;
}

json_t *metrics_select(enum metrics_topic topic, const json_t *state)
{
    json_t *rows = json_array();

    if (topics[topic].add)
        topics[topic].add(rows, state);
    else if (topics[topic].add_port)
        each_port(rows, state, topics[topic].add_port);
    else
        add_quotas(rows, state, topic == METRIC_ALL || topic == METRIC_ALL_MEMORY,
                   topic == METRIC_USER_MEMORY || topic == METRIC_ALL_MEMORY);
    return rows;
}
