/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of [port.N] about addresses, routes and neighbours, and the conditions between them. See
 * config_reader.h. */
#include "config_reader.h"

#include <stdio.h>
#include <string.h>

#include "inet.h"
#include "socket.h"

/* fe80:: without an interface identifier: replaced once the port's MAC is known. */
static const union gid link_local = {.raw = {0xFE, 0x80}};

void config_port_defaults(struct uroced_port *p)
{
    *p = (struct uroced_port){
        .gid_types = 1u << GID_TYPE_ROCE_V1 | 1u << GID_TYPE_ROCE_V2,
        .detect_duplicates = true,
        .selective = true,
    };
    qos_map_default(&p->qos);
    p->congestion =
        (struct congestion_config){.cnp_interval = 50 * NS_PER_US, .cnp_dscp = 48, .cnp_pcp = 6};
}

/* The host has more; these are the first, whether it has them or not. */
static void use_loopback_addresses(struct uroced_port *p)
{
    gid_parse(&p->address[0].gid, "127.0.0.1");
    p->address[0].prefix = 8;
    gid_parse(&p->address[1].gid, "::1");
    p->address[1].prefix = 128;
    p->address[0].vlan = p->address[1].vlan = VLAN_NONE;
    p->addresses = 2;
    p->follow_host = true;
}

void config_complete_addresses(struct uroced_port *p, const uint8_t mac[6])
{
    for (unsigned i = 0; i < p->addresses; i++) {
        if (gid_eq(&p->address[i].gid, &link_local))
            p->address[i].gid = gid_link_local(mac);
    }
}

/* The part before the prefix must be the address of a host. */
static int read_host_prefix(struct reader *r, const char *text, struct port_address *a)
{
    union gid host;
    char address[46];

    if (config_prefix(r, text, &a->gid, &a->prefix))
        return -1;
    gid_format(address, &a->gid);
    return config_host(r, address, &host);
}

/* "10.0.0.1/24 vlan 5", "link-local" */
int config_address(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct port_address *a = &p->address[p->addresses];
    struct words w;

    if (p->addresses == CONFIG_ADDRESSES_MAX)
        return config_fail(r, "is one too many: a port has at most %d addresses",
                           CONFIG_ADDRESSES_MAX);
    config_split(&w, value);
    if (!w.count)
        return config_fail(r, "has no value");
    if (!strcmp(w.word[0], "link-local")) {
        a->gid = link_local;
        a->prefix = 64;
    } else if (read_host_prefix(r, w.word[0], a)) {
        return -1;
    } else if (gid_eq(&a->gid, &link_local)) {
        return config_fail(r,
                           "is no address of a host: for one from the port's MAC say link-local");
    }
    if (config_vlan(r, &w, 1, &a->vlan))
        return -1;
    for (unsigned i = 0; i < p->addresses; i++) {
        if (gid_eq(&p->address[i].gid, &a->gid) && p->address[i].vlan == a->vlan)
            return config_fail(r, "repeats the address %s", w.word[0]);
    }
    p->addresses++;
    return 0;
}

int config_addresses(struct reader *r, const char *value)
{
    r->port->follow_kernel = !strcmp(value, "kernel");
    r->port->follow_host = !strcmp(value, "host");
    if (r->port->follow_kernel || r->port->follow_host)
        return 0;
    return config_fail(r, "must be kernel or host, not \"%s\"", value);
}

/* The gateway's version decides what "default" means. */
static int read_destination(struct reader *r, const char *text, struct net_route *route)
{
    static const union gid any_ipv4 = {.raw = {[10] = 0xFF, [11] = 0xFF}};
    static const union gid any = {{0}};

    if (!strcmp(text, "default")) {
        route->dst = gid_is_ipv4(&route->via) ? any_ipv4 : any;
        route->prefix = 0;
        return 0;
    }
    if (config_prefix(r, text, &route->dst, &route->prefix))
        return -1;
    if (gid_is_ipv4(&route->dst) != gid_is_ipv4(&route->via))
        return config_fail(r, "has a destination and a gateway of different IP versions");
    if (gid_is_multicast(&route->dst))
        return config_fail(r, "has a group as its destination: \"%s\"", text);
    for (unsigned bit = route->prefix; bit < (gid_is_ipv4(&route->dst) ? 32u : 128u); bit++) {
        unsigned at = bit + (gid_is_ipv4(&route->dst) ? 96 : 0);

        if (route->dst.raw[at / 8] & 0x80 >> at % 8)
            return config_fail(r, "has a destination with bits set after its prefix: \"%s\"", text);
    }
    return 0;
}

/* "192.0.2.0/24 via 10.0.0.254 vlan 5", "default via 10.0.0.254", "10.0.0.254/32 link" */
int config_route(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct net_route *route = &p->route[p->routes];
    struct words w;
    bool direct;

    if (p->routes == NET_ROUTE_MAX)
        return config_fail(r, "is one too many: a port has at most %d routes", NET_ROUTE_MAX);
    config_split(&w, value);
    direct = w.count >= 2 && !strcmp(w.word[1], "link");
    if (!direct && (w.count < 3 || strcmp(w.word[1], "via")))
        return config_fail(r,
                           "must be NETWORK/PREFIX via GATEWAY, default via GATEWAY or "
                           "NETWORK/PREFIX link, not \"%s\"",
                           value);
    if (direct)
        route->via = inet_unspecified(!strchr(w.word[0], ':'));
    else if (config_host(r, w.word[2], &route->via))
        return -1;
    if (read_destination(r, w.word[0], route) || config_vlan(r, &w, direct ? 2 : 3, &route->vlan))
        return -1;
    for (unsigned i = 0; i < p->routes; i++) {
        const struct net_route *o = &p->route[i];

        if (gid_eq(&o->dst, &route->dst) && o->prefix == route->prefix && o->vlan == route->vlan)
            return config_fail(r, "repeats the destination %s", w.word[0]);
    }
    p->routes++;
    return 0;
}

/* "10.0.0.2 02:00:00:00:00:02" */
int config_neighbour(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct port_neighbour *n = &p->neighbour[p->neighbours];
    struct words w;

    if (p->neighbours == CONFIG_NEIGHBOURS_MAX)
        return config_fail(r, "is one too many: a port has at most %d neighbours",
                           CONFIG_NEIGHBOURS_MAX);
    config_split(&w, value);
    if (w.count != 2)
        return config_fail(
            r, "must be an address and a MAC, as 10.0.0.2 02:00:00:00:00:02, not \"%s\"", value);
    if (config_host(r, w.word[0], &n->addr) || config_mac(r, w.word[1], n->mac))
        return -1;
    for (unsigned i = 0; i < p->neighbours; i++) {
        if (gid_eq(&p->neighbour[i].addr, &n->addr))
            return config_fail(r, "repeats the address %s", w.word[0]);
    }
    p->neighbours++;
    return 0;
}

/* ---- a whole section ---- */

/* A gateway must be on a network of the port's addresses, or on one on its link. Addresses that the
 * kernel adds later are not known here. */
static bool gateway_connected(const struct uroced_port *p, const struct net_route *route)
{
    if (p->follow_kernel)
        return true;
    for (unsigned i = 0; i < p->addresses; i++) {
        const struct port_address *a = &p->address[i];

        if (a->vlan == route->vlan && config_same_network(&a->gid, &route->via, a->prefix))
            return true;
    }
    for (unsigned i = 0; i < p->routes; i++) {
        const struct net_route *o = &p->route[i];

        if (inet_is_unspecified(&o->via) && o->vlan == route->vlan &&
            config_same_network(&o->dst, &route->via, o->prefix))
            return true;
    }
    return false;
}

static bool gateway_is_own(const struct uroced_port *p, const struct net_route *route)
{
    for (unsigned i = 0; i < p->addresses; i++)
        if (p->address[i].vlan == route->vlan && gid_eq(&p->address[i].gid, &route->via))
            return true;
    return false;
}

static int check_routes(struct reader *r)
{
    char via[46];

    r->key = "route";
    for (unsigned i = 0; i < r->port->routes; i++) {
        const struct net_route *route = &r->port->route[i];

        if (inet_is_unspecified(&route->via))
            continue;
        gid_format(via, &route->via);
        if (gateway_is_own(r->port, route))
            return config_fail(r, "has the gateway %s, which is an address of the port", via);
        if (!gateway_connected(r->port, route))
            return config_fail(
                r, "has the gateway %s, which is on no network of the port's addresses%s", via,
                route->vlan == VLAN_NONE ? "" : " in that VLAN");
    }
    return 0;
}

/* A device on top of a kernel interface names it in its arguments. */
static bool on_kernel_interface(const struct uroced_port *p)
{
    return strstr(p->device, ",iface=") != NULL;
}

/* The kernel below has addresses, routes, neighbours and VLANs, and shows the packets to tcpdump.
 */
static int check_socket(struct reader *r)
{
    struct uroced_port *p = r->port;

    p->gid_types &= 1u << GID_TYPE_ROCE_V2;
    if (!p->gid_types)
        return config_fail(r, "is over UDP: RoCEv1 is not");
    if (p->addresses > SOCKET_ADDRESSES_MAX)
        return config_fail(r, "has more than %d addresses", SOCKET_ADDRESSES_MAX);
    for (unsigned i = 0; i < p->addresses; i++)
        if (p->address[i].vlan != VLAN_NONE || gid_is_link_local(&p->address[i].gid))
            return config_fail(r,
                               "is over the kernel's sockets: an address of it is in no VLAN, and "
                               "not link-local");
    if (p->follow_kernel || p->tap || p->neighbours || p->routes || p->capture[0])
        return config_fail(r,
                           "is over the kernel's sockets: it has the host's addresses, routes and "
                           "neighbours; the kernel's interfaces show its packets");
    p->follow_host |= !p->addresses;
    return 0;
}

static int choose_addresses(struct reader *r)
{
    struct uroced_port *p = r->port;
    bool loopback = port_is_loopback(p);

    if (p->flow_control && (loopback || port_is_socket(p))) {
        r->key = "flow_control";
        return config_fail(r, "is for ports with a link: no pause frame reaches this device");
    }
    if (port_is_socket(p))
        return check_socket(r);
    if (p->has_segmentation && !port_is_packet(p)) {
        r->key = "segmentation";
        return config_fail(r, "is for the devices socket and packet alone");
    }
    if (loopback && p->mtu) {
        r->key = "mtu";
        return config_fail(r, "is not for the loopback device, whose path MTU is 4096");
    }
    if (loopback && p->follow_kernel) {
        r->key = "addresses";
        return config_fail(
            r, "cannot be the kernel's: the loopback device has no kernel interface below it");
    }
    if (!loopback && p->follow_host) {
        r->key = "addresses";
        return config_fail(r, "can be the whole host's for the devices loopback and socket alone");
    }
    if (loopback && p->tap) {
        r->key = "exception";
        return config_fail(r, "is not for the loopback device, which no other host can reach");
    }
    if (p->addresses || p->follow_kernel)
        return 0;
    if (loopback)
        use_loopback_addresses(p);
    else if (on_kernel_interface(p) || p->tap)
        p->follow_kernel = true;
    else
        return config_fail(r, "has no address (address.N), and its device names no kernel "
                              "interface (iface=) that has some");
    return 0;
}

int config_check_port(struct reader *r)
{
    r->key = NULL;
    if (!r->port->device[0])
        return config_fail(r, "names no device");
    return choose_addresses(r) ? -1 : check_routes(r);
}
