/* SPDX-License-Identifier: BSD-3-Clause */
/* The topics of `uroce show`: what each one selects from the daemon's state. */
#include "show.h"

#include <string.h>

#include "table.h"
#include "top/latency.h"

json_t *show_from_ports(const json_t *root, port_visitor *visit, const char *member)
{
    json_t *rows = json_array(), *device, *port;
    size_t d, p;

    json_array_foreach(json_object_get(root, "devices"), d, device)
    {
        json_array_foreach(json_object_get(device, "ports"), p, port)
            visit(rows, json_string_value(json_object_get(device, "name")), port, member);
    }
    return rows;
}

json_t *show_begin_row(const json_t *port)
{
    return json_pack("{s:O?, s:O?}", "device", json_object_get(port, "device"), "port",
                     json_object_get(port, "port"));
}

void show_rows_of_list(json_t *rows, const json_t *port, const char *name)
{
    json_t *element;
    size_t i;

    json_array_foreach(json_object_get(port, name), i, element)
    {
        json_t *row = show_begin_row(port);

        json_object_update(row, element);
        json_array_append_new(rows, row);
    }
}

/* Adds those members of `from` that are neither lists nor objects. */
static void add_scalars(json_t *row, const json_t *from)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)from, key,
                        value) if (!json_is_array(value) && !json_is_object(value))
        json_object_set(row, key, value);
}

static void add_port(json_t *rows, const char *device, json_t *port, const char *member)
{
    json_t *row = json_pack("{s:s?}", "device", device);

    add_scalars(row, port);
    json_array_append_new(rows, row);
}

static json_t *port_row(const char *device, const json_t *port)
{
    return json_pack("{s:s?, s:O?}", "device", device, "port", json_object_get(port, "port"));
}

/* A row for each object of a port's list, or for each number of a port's object. */
static void add_member(json_t *rows, const char *device, json_t *port, const char *member)
{
    json_t *value, *item, *row;
    const char *key;
    size_t i;

    value =
        json_object_get(strcmp(member, "drops") ? port : json_object_get(port, "counters"), member);
    json_array_foreach(value, i, item)
    {
        row = port_row(device, port);
        add_scalars(row, item);
        json_array_append_new(rows, row);
    }
    json_object_foreach(value, key, item)
    {
        if (!json_is_integer(item))
            continue;
        row = port_row(device, port);
        json_object_set_new(row, strcmp(member, "drops") ? "counter" : "reason", json_string(key));
        json_object_set(row, "value", item);
        json_array_append_new(rows, row);
    }
}

static json_t *select_devices(const json_t *root)
{
    json_t *rows = json_array(), *device;
    size_t i;

    json_array_foreach(json_object_get(root, "devices"), i, device)
    {
        json_t *row = json_object();

        add_scalars(row, device);
        json_object_set_new(
            row, "ports",
            json_integer((json_int_t)json_array_size(json_object_get(device, "ports"))));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *select_ports(const json_t *root)
{
    return show_from_ports(root, add_port, NULL);
}

/* A row for each reason of each device. */
static json_t *select_mr_reasons(const json_t *root)
{
    json_t *rows = json_array(), *device, *times;
    const char *reason;
    size_t i;

    json_array_foreach(json_object_get(root, "devices"), i, device)
    {
        json_object_foreach(json_object_get(device, "mrs_why"), reason, times)
        {
            json_array_append_new(rows, json_pack("{s:O?, s:s, s:O}", "device",
                                                  json_object_get(device, "name"), "reason", reason,
                                                  "times", times));
        }
    }
    return rows;
}

/* Rows of what a device's queue pair 1 received and sent. */
static void add_gsi(json_t *rows, const json_t *gsi)
{
    static const char *const name[] = {"rx_bad", "tx_unreachable", "waiting"};
    const json_t *device = json_object_get(gsi, "device");

    json_array_append_new(rows, json_pack("{s:s, s:O, s:O, s:O}", "counter", "packets", "device",
                                          device, "received", json_object_get(gsi, "rx"), "sent",
                                          json_object_get(gsi, "tx")));
    for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++)
        json_array_append_new(rows, json_pack("{s:s, s:O, s:O}", "counter", name[i], "device",
                                              device, "value", json_object_get(gsi, name[i])));
}

/* A row for each message, and one for each other counter. */
static json_t *select_cm(const json_t *root)
{
    const json_t *cm = json_object_get(root, "cm"), *rx = json_object_get(cm, "rx");
    json_t *rows = json_array(), *value, *gsi;
    const char *name;
    size_t i;

    json_object_foreach((json_t *)rx, name, value)
    {
        json_array_append_new(rows,
                              json_pack("{s:s, s:O, s:O}", "counter", name, "received", value,
                                        "sent", json_object_get(json_object_get(cm, "tx"), name)));
    }
    json_object_foreach((json_t *)cm, name, value)
    {
        if (json_is_integer(value))
            json_array_append_new(rows, json_pack("{s:s, s:O}", "counter", name, "value", value));
    }
    json_array_foreach(json_object_get(cm, "gsi"), i, gsi) add_gsi(rows, gsi);
    return rows;
}

static json_t *select_latency(const json_t *root)
{
    return latency_between(NULL, json_object_get(root, "latency"));
}

json_t *show_select(const struct topic *t, const json_t *root)
{
    if (t->list)
        return json_incref(json_object_get(root, t->list));
    return t->select ? t->select(root) : show_from_ports(root, add_member, t->member);
}

const struct topic show_topics[] = {
    {.name = "devices", .help = "the RDMA devices", .select = select_devices},
    {.name = "ports", .help = "their ports: state, address, MTU", .select = select_ports},
    {.name = "gids",
     .help = "the GID tables",
     .member = "gids",
     .columns = "device port index address prefix vlan type state ifindex"},
    {.name = "neighbours",
     .help = "hosts found on the network, and their MACs",
     .member = "neighbours",
     .columns = "device port address vlan mac state"},
    {.name = "routes",
     .help = "networks and the gateways to them",
     .member = "routes",
     .columns = "device port to via vlan by_source"},
    {.name = "groups",
     .help = "multicast groups, and their numbers of queue pairs",
     .member = "groups",
     .columns = "device port group vlan members"},
    {.name = "path_mtus", .help = "path MTUs that routers reported", .member = "path_mtus"},
    {.name = "network",
     .help = "counters of ARP, ND, ICMP and group membership",
     .member = "network"},
    {.name = "workers", .help = "the dataplane's threads", .list = "workers"},
    {.name = "clients", .help = "connected programs", .list = "clients", .others = "clients"},
    {.name = "quotas",
     .help = "what users have of what all share, and may have",
     .list = "quotas",
     .columns = "uid device kind used limit refused"},
    {.name = "late",
     .help = "programs that the daemon waits for",
     .list = "late",
     .columns = "pid uid what ms"},
    {.name = "latency",
     .help = "how long timed work requests took, stage by stage",
     .select = select_latency},
    {.name = "faults",
     .help = "rules of uroce fault, and their hits",
     .list = "faults",
     .columns = SHOW_FAULT_COLUMNS},
    {.name = "qps",
     .help = "queue pairs (their counters: with --json)",
     .list = "qps",
     .columns = "device qpn pid type state worker dest_qpn path_mtu sgid dgid entropy",
     .others = "qps"},
    {.name = "pds", .help = "protection domains", .list = "pds", .others = "pds"},
    {.name = "cqs", .help = "completion queues", .list = "cqs", .others = "cqs"},
    {.name = "srqs", .help = "shared receive queues", .list = "srqs", .others = "srqs"},
    {.name = "steering",
     .help = "how packets and queue pairs are spread over workers",
     .select = show_steering_select,
     .print = show_steering_print,
     .check = show_steering_check},
    {.name = "mr",
     .help = "memory regions: mapped or copied, and why",
     .list = "mrs",
     .columns = "device pid address length backend why uses",
     .others = "mrs"},
    {.name = "mr_reasons",
     .help = "how many regions were mapped or copied, by reason",
     .select = select_mr_reasons},
    {.name = "wqs", .help = "work queues of raw packets", .list = "wqs", .others = "wqs"},
    {.name = "rwq_tables",
     .help = "indirection tables (their work queues: with --json)",
     .list = "rwq_tables",
     .columns = "device table pid size qps",
     .others = "rwq_tables"},
    {.name = "flows",
     .help = "flow rules, and their frames (what they match: with --json)",
     .list = "flows",
     .columns = "device flow pid qpn type priority action tag frames",
     .others = "flows"},
    {.name = "cm_ids",
     .help = "connections and listeners of rdma_cm",
     .list = "cm_ids",
     .columns = "device id pid port_space state src dst qpn remote_qpn events",
     .others = "cm_ids"},
    {.name = "cm",
     .help = "the connection manager's messages and counters",
     .select = select_cm,
     .columns = "counter device received sent value"},
    {.name = "counters", .help = "the ports' counters", .member = "counters"},
    {.name = "drops", .help = "dropped packets by reason", .member = "drops"},
    {.name = "qos",
     .help = "priorities: the ports' tables and counters",
     .select = show_qos_select,
     .print = show_qos_print},
    {0},
};
