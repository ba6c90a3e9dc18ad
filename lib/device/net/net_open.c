/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes a port's host, and configures it while it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/async.h"
#include "control/device_state.h"
#include "inet.h"
#include "net/gids.h"
#include "objects/mcast.h"

/* ---- the host's callbacks: they record, and net_apply_changes acts after the host's call ---- */

static void on_send(void *ctx, const uint8_t *frame, uint32_t len)
{
    struct device *d = ctx;

    if (d->net.isolated || d->info.routed)
        return;
    slow_path_down(&d->net.slow, frame, len);
    worker_kick(d->port[0]->worker);
}

static void on_resolved(void *ctx, const union gid *next_hop, uint16_t vlan, bool found)
{
    struct device *d = ctx;

    gsi_note_hop(d, next_hop, vlan, found);
    d->net.resolved = true;
}

static void on_moved(void *ctx, const union gid *next_hop, uint16_t vlan, const uint8_t mac[6])
{
    ((struct device *)ctx)->net.moved = true;
}

static void on_address_state(void *ctx, const struct net_address *a, enum net_address_state state)
{
    struct device_net *n = &((struct device *)ctx)->net;

    if (n->changes == NET_ADDRESS_MAX)
        return;
    n->change[n->changes].a = *a;
    n->change[n->changes++].duplicate = state == NET_DUPLICATE;
}

static const struct net_host_ops host_ops = {
    .send = on_send,
    .resolved = on_resolved,
    .moved = on_moved,
    .address_state = on_address_state,
    .too_big = net_too_big,
};

/* ---- addresses ---- */

static int add_to_host(struct device *d, const struct port_address *a)
{
    struct net_address na = {
        .addr = a->gid, .prefix = a->prefix, .vlan = a->vlan, .quiet = a->answered};

    return net_host_add_address(d->net.host, &na, !d->net.detect, net_time(d));
}

int net_address_add(struct device *d, const struct port_address *a)
{
    int err = add_to_host(d, a);

    if (err)
        return err;
    err = device_gids_add(d, a);
    if (err)
        net_host_remove_address(d->net.host, &a->gid, a->vlan);
    else
        async_port_event(d, PORT_EVENT_GID_CHANGE);
    mcast_follow_addresses(d);
    cm_host_addresses_changed(d->rnic);
    net_apply_changes(d);
    return err;
}

int net_address_remove(struct device *d, const union gid *gid, uint16_t vlan)
{
    int err = net_host_remove_address(d->net.host, gid, vlan);

    /* A duplicate has no entries any more. */
    if (!err && !device_gids_remove(d, gid, vlan))
        async_port_event(d, PORT_EVENT_GID_CHANGE);
    mcast_follow_addresses(d);
    cm_host_addresses_changed(d->rnic);
    net_apply_changes(d);
    return err;
}

int net_address_answered(struct device *d, const union gid *gid, bool answered)
{
    int err = net_host_set_quiet(d->net.host, gid, VLAN_NONE, answered, net_time(d));

    net_apply_changes(d);
    return err;
}

/* ---- opening ---- */

static int create_host(struct device *d)
{
    struct net_host_config hc = {
        .mtu = d->info.mtu, .optimistic = true, .ops = &host_ops, .ctx = d};
    int err = random_bytes(&hc.seed, sizeof(hc.seed));

    if (err)
        return err;
    memcpy(hc.mac, d->info.mac, sizeof(hc.mac));
    if (d->info.routed)
        memcpy(hc.router, d->info.router, sizeof(hc.router));
    d->net.host = net_host_create(&hc);
    return d->net.host ? 0 : -ENOMEM;
}

/* Networks on the link first: gateways may be on them. */
static int add_routes(struct device *d, const struct port_config *config, bool direct)
{
    int err = 0;

    for (unsigned i = 0; i < config->routes && !err; i++)
        if (inet_is_unspecified(&config->route[i].via) == direct)
            err = net_host_add_route(d->net.host, &config->route[i]);
    return err;
}

static int add_configured(struct device *d, const struct port_config *config)
{
    int err = device_add_gids(d, config);

    for (unsigned i = 0; i < config->neighbours && !err; i++)
        err = net_host_add_neighbour(d->net.host, &config->neighbour[i].addr, VLAN_NONE,
                                     config->neighbour[i].mac);
    for (unsigned i = 0; i < config->addresses && !err; i++)
        err = add_to_host(d, &config->address[i]);
    err = err ? err : add_routes(d, config, true);
    err = err ? err : add_routes(d, config, false);
    return err == -EEXIST ? -EINVAL : err;
}

static enum slow_path_frames slow_frames(const struct device *d, const struct port_config *config)
{
    if (d->info.routed)
        return SLOW_PATH_IP_HOST; /* the router's reports */
    if (d->net.isolated)
        return SLOW_PATH_NONE;
    return config->exception_fd ? SLOW_PATH_ALL : SLOW_PATH_IP_HOST;
}

int net_open(struct device *d, const struct port_config *config)
{
    struct device_net *n = &d->net;
    int err;

    gsi_init(d);
    gsi_local_init(&d->gsi, &(struct gsi_local_ops){gsi_rx, gsi_send_waiting});
    n->frames.fd = n->timer.fd = n->link.fd = n->slow.event_fd = -1;
    n->isolated = d->io->ops->wake_fd(d->io, 0) == PKTIO_WAKE_NEVER;
    n->detect = config->detect_duplicates && !n->isolated && !d->info.routed;
    n->link_up = d->info.link_up;
    err = create_host(d);
    if (!err && !n->link_up) /* what it sends now would be lost; it starts when the link comes up */
        net_host_link(n->host, false, net_time(d));
    if (!err)
        err = slow_path_init(&n->slow, d->info.mac, slow_frames(d, config));
    if (!err)
        err = add_configured(d, config);
    if (err)
        return err;
    d->port[0]->slow = &n->slow;
    err = net_events_open(d, config);
    if (!err)
        net_apply_changes(d);
    return err;
}

void net_close(struct device *d)
{
    struct device_net *n = &d->net;

    net_too_big_cancel(d);
    net_follow_cancel(d);
    net_events_close(d);
    gsi_local_fini(d);
    gsi_fini(d);
    if (!n->host)
        return;
    slow_path_fini(&n->slow);
    net_host_destroy(n->host);
    n->host = NULL;
}
