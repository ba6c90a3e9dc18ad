/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include "table.h"

json_t *show_from_ports(const json_t *root, port_visitor *visit)
{
    json_t *rows = json_array(), *device, *port;
    size_t d, p;

    json_array_foreach(json_object_get(root, "devices"), d, device)
    {
        json_array_foreach(json_object_get(device, "ports"), p, port)
            visit(rows, json_string_value(json_object_get(device, "name")), port);
    }
    return rows;
}

/* Adds the members of `from` that are neither lists nor objects. */
static void add_scalars(json_t *row, const json_t *from)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)from, key,
                        value) if (!json_is_array(value) && !json_is_object(value))
        json_object_set(row, key, value);
}

static void add_port(json_t *rows, const char *device, json_t *port)
{
    json_t *row = json_pack("{s:s?}", "device", device);

    add_scalars(row, port);
    json_array_append_new(rows, row);
}

/* A row for each object of one of the port's lists. */
static void add_list(json_t *rows, const char *device, const json_t *port, const char *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(port, list), i, item)
    {
        json_t *row =
            json_pack("{s:s?, s:O?}", "device", device, "port", json_object_get(port, "port"));

        add_scalars(row, item);
        json_array_append_new(rows, row);
    }
}

static void add_gids(json_t *rows, const char *device, json_t *port)
{
    add_list(rows, device, port, "gids");
}

static void add_neighbours(json_t *rows, const char *device, json_t *port)
{
    add_list(rows, device, port, "neighbours");
}

static void add_routes(json_t *rows, const char *device, json_t *port)
{
    add_list(rows, device, port, "routes");
}

static void add_groups(json_t *rows, const char *device, json_t *port)
{
    add_list(rows, device, port, "groups");
}

static void add_path_mtus(json_t *rows, const char *device, json_t *port)
{
    add_list(rows, device, port, "path_mtus");
}

/* A row for each member of an object of numbers. */
static void add_numbers(json_t *rows, const char *device, const json_t *port, const json_t *numbers,
                        const char *title)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)numbers, key, value) if (json_is_integer(value))
        json_array_append_new(rows,
                              json_pack("{s:s?, s:O?, s:s, s:O}", "device", device, "port",
                                        json_object_get(port, "port"), title, key, "value", value));
}

static void add_counters(json_t *rows, const char *device, json_t *port)
{
    add_numbers(rows, device, port, json_object_get(port, "counters"), "counter");
}

static void add_drops(json_t *rows, const char *device, json_t *port)
{
    add_numbers(rows, device, port, json_object_get(json_object_get(port, "counters"), "drops"),
                "reason");
}

static void add_network(json_t *rows, const char *device, json_t *port)
{
    add_numbers(rows, device, port, json_object_get(port, "network"), "counter");
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
    return show_from_ports(root, add_port);
}

static json_t *select_gids(const json_t *root)
{
    return show_from_ports(root, add_gids);
}

static json_t *select_neighbours(const json_t *root)
{
    return show_from_ports(root, add_neighbours);
}

static json_t *select_routes(const json_t *root)
{
    return show_from_ports(root, add_routes);
}

static json_t *select_groups(const json_t *root)
{
    return show_from_ports(root, add_groups);
}

static json_t *select_path_mtus(const json_t *root)
{
    return show_from_ports(root, add_path_mtus);
}

static json_t *select_network(const json_t *root)
{
    return show_from_ports(root, add_network);
}

static json_t *select_counters(const json_t *root)
{
    return show_from_ports(root, add_counters);
}

static json_t *select_drops(const json_t *root)
{
    return show_from_ports(root, add_drops);
}

static json_t *select_workers(const json_t *root)
{
    return json_incref(json_object_get(root, "workers"));
}

static json_t *select_clients(const json_t *root)
{
    return json_incref(json_object_get(root, "clients"));
}

static json_t *select_qps(const json_t *root)
{
    return json_incref(json_object_get(root, "qps"));
}

const struct topic show_topics[] = {
    {"devices", "the RDMA devices", select_devices, NULL, NULL},
    {"ports", "their ports: state, address, MTU", select_ports, NULL, NULL},
    {"gids", "the GID tables", select_gids, "device port index address prefix vlan type", NULL},
    {"neighbours", "who was found on the network, with which MAC", select_neighbours,
     "device port address vlan mac state", NULL},
    {"routes", "networks and the gateways to them", select_routes, "device port to via vlan", NULL},
    {"groups", "multicast groups, and for how many queue pairs", select_groups,
     "device port group vlan members", NULL},
    {"path_mtus", "what routers said of packets that were too big", select_path_mtus, NULL, NULL},
    {"network", "what ARP, ND, ICMP and group membership counted", select_network, NULL, NULL},
    {"workers", "the dataplane's threads", select_workers, NULL, NULL},
    {"clients", "connected programs", select_clients, NULL, NULL},
    {"qps", "queue pairs (their counters: with --json)", select_qps,
     "device qpn pid type state dest_qpn path_mtu sgid dgid", NULL},
    {"counters", "what the ports counted", select_counters, NULL, NULL},
    {"drops", "dropped packets by reason", select_drops, NULL, NULL},
    {"qos", "priorities: the ports' tables and what was counted", show_qos_select, NULL,
     show_qos_print},
    {NULL, NULL, NULL, NULL, NULL},
};
