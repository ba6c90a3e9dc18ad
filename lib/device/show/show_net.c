/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a port's IP host, in JSON: members of the port's object. */
#include "show/show.h"

#include <string.h>

#include "control/device_state.h"

static void set_vlan(json_t *o, uint16_t vlan)
{
    if (vlan != VLAN_NONE)
        json_object_set_new(o, "vlan", json_integer(vlan));
}

static void add_neighbour(void *list, const union gid *addr, uint16_t vlan, const uint8_t mac[6],
                          enum net_neighbour_state state)
{
    static const char *const name[] = {
        [NET_INCOMPLETE] = "incomplete", [NET_REACHABLE] = "reachable", [NET_STALE] = "stale",
        [NET_PROBE] = "probe",           [NET_FAILED] = "failed",       [NET_STATIC] = "static"};
    json_t *o = json_object();

    json_object_set_new(o, "address", show_gid(addr));
    set_vlan(o, vlan);
    if (state != NET_INCOMPLETE && state != NET_FAILED)
        json_object_set_new(o, "mac", show_mac(mac));
    json_object_set_new(o, "state", json_string(name[state]));
    json_array_append_new(list, o);
}

static void add_route(void *list, const struct net_route *r, bool connected)
{
    json_t *o = json_object();
    char text[46];

    gid_format(text, &r->dst);
    json_object_set_new(o, "to", json_sprintf("%s/%u", text, r->prefix));
    if (!connected)
        json_object_set_new(o, "via", show_gid(&r->via));
    set_vlan(o, r->vlan);
    json_array_append_new(list, o);
}

static void add_group(void *list, const union gid *group, uint16_t vlan, unsigned members)
{
    json_t *o = json_object();

    json_object_set_new(o, "group", show_gid(group));
    set_vlan(o, vlan);
    json_object_set_new(o, "members", json_integer(members));
    json_array_append_new(list, o);
}

static void add_pmtu(void *list, const union gid *dst, uint32_t mtu)
{
    json_t *o = json_object();

    json_object_set_new(o, "to", show_gid(dst));
    json_object_set_new(o, "mtu", json_integer(mtu));
    json_array_append_new(list, o);
}

void show_address_state(json_t *o, const struct device *d, const union gid *addr, uint16_t vlan)
{
    static const char *const name[] = {[NET_TENTATIVE] = "tentative",
                                       [NET_PREFERRED] = "preferred",
                                       [NET_DUPLICATE] = "duplicate"};
    int state = net_host_address_state(d->net.host, addr, vlan);

    if (state >= 0)
        json_object_set_new(o, "state", json_string(name[state]));
}

static json_t *show_net_counters(const struct device *d)
{
    const struct net_counters *c = net_host_counters(d->net.host);
    const struct slow_path *s = &d->net.slow;
    json_t *o = json_object();

#define X(name) json_object_set_new(o, #name, json_integer((json_int_t)c->name));
    NET_COUNTERS(X)
#undef X
#define SLOW(name, value) json_object_set_new(o, name, json_integer((json_int_t)(value)))
    SLOW("frames_up", counter_get(&s->up_frames));
    SLOW("frames_up_lost", counter_get(&s->up_lost));
    SLOW("frames_down", counter_get(&s->down_frames));
    SLOW("frames_down_lost", s->down_lost);
    SLOW("exception_lost", d->net.exception_lost);
#undef SLOW
    return o;
}

void show_net(json_t *port, const struct device *d)
{
    json_t *neighbours = json_array(), *routes = json_array();
    json_t *groups = json_array(), *pmtus = json_array();

    net_host_each_neighbour(d->net.host, neighbours, add_neighbour);
    net_host_each_route(d->net.host, routes, add_route);
    net_host_each_group(d->net.host, groups, add_group);
    net_host_each_pmtu(d->net.host, pmtus, add_pmtu);
    json_object_set_new(port, "neighbours", neighbours);
    json_object_set_new(port, "routes", routes);
    json_object_set_new(port, "groups", groups);
    json_object_set_new(port, "path_mtus", pmtus);
    json_object_set_new(port, "network", show_net_counters(d));
}
