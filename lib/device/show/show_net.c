/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a port's IP host, in JSON. */
#include "show/show.h"

#include <string.h>

#include "control/device_state.h"

static void set_vlan(json_t *o, uint16_t vlan)
{
    if (vlan != VLAN_NONE)
        json_object_set_new(o, "vlan", json_integer(vlan));
}

/* The items of a list from a number on. */
struct window {
    unsigned skip;
    json_t *list;
};

/* Whether the next item is in the window. */
static bool is_in(struct window *w)
{
    if (!w->skip)
        return json_array_size(w->list) < SHOW_BATCH;
    w->skip--;
    return false;
}

static void add_neighbour(void *window, const union gid *addr, uint16_t vlan, const uint8_t mac[6],
                          enum net_neighbour_state state)
{
    static const char *const name[] = {
        [NET_INCOMPLETE] = "incomplete", [NET_REACHABLE] = "reachable", [NET_STALE] = "stale",
        [NET_PROBE] = "probe",           [NET_FAILED] = "failed",       [NET_STATIC] = "static"};
    struct window *w = window;
    json_t *o;

    if (!is_in(w))
        return;
    o = json_object();
    json_object_set_new(o, "address", show_gid(addr));
    set_vlan(o, vlan);
    if (state != NET_INCOMPLETE && state != NET_FAILED)
        json_object_set_new(o, "mac", show_mac(mac));
    json_object_set_new(o, "state", json_string(name[state]));
    json_array_append_new(w->list, o);
}

static void add_route(void *window, const struct net_route *r, bool connected)
{
    struct window *w = window;
    json_t *o;
    char text[46];

    if (!is_in(w))
        return;
    o = json_object();
    gid_format(text, &r->dst);
    json_object_set_new(o, "to", json_sprintf("%s/%u", text, r->prefix));
    if (!connected)
        json_object_set_new(o, "via", show_gid(&r->via));
    set_vlan(o, r->vlan);
    if (r->by_source)
        json_object_set_new(o, "by_source", json_true());
    json_array_append_new(w->list, o);
}

static void add_group(void *window, const union gid *group, uint16_t vlan, unsigned members)
{
    struct window *w = window;
    json_t *o;

    if (!is_in(w))
        return;
    o = json_object();
    json_object_set_new(o, "group", show_gid(group));
    set_vlan(o, vlan);
    json_object_set_new(o, "members", json_integer(members));
    json_array_append_new(w->list, o);
}

static void add_pmtu(void *window, const union gid *dst, uint16_t vlan, uint32_t mtu)
{
    struct window *w = window;
    json_t *o;

    if (!is_in(w))
        return;
    o = json_object();
    json_object_set_new(o, "to", show_gid(dst));
    set_vlan(o, vlan);
    json_object_set_new(o, "mtu", json_integer(mtu));
    json_array_append_new(w->list, o);
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

json_t *show_net_counters(const struct device *d)
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

json_t *show_neighbours(const struct device *d, unsigned from)
{
    struct window w = {from, json_array()};

    net_host_each_neighbour(d->net.host, &w, add_neighbour);
    return w.list;
}

json_t *show_routes(const struct device *d, unsigned from)
{
    struct window w = {from, json_array()};

    net_host_each_route(d->net.host, &w, add_route);
    return w.list;
}

json_t *show_groups(const struct device *d, unsigned from)
{
    struct window w = {from, json_array()};

    net_host_each_group(d->net.host, &w, add_group);
    return w.list;
}

json_t *show_path_mtus(const struct device *d, unsigned from)
{
    struct window w = {from, json_array()};

    net_host_each_pmtu(d->net.host, &w, add_pmtu);
    return w.list;
}
