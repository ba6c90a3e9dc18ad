/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include "object.h"

ns_t net_time(const struct device *d)
{
    return d->rnic->config.clock();
}

/* ---- what the host asks of us; it is at work meanwhile, so most of it waits ---- */

static void on_send(void *ctx, const uint8_t *frame, uint32_t len)
{
    struct device *d = ctx;

    if (d->net.isolated)
        return;
    slow_path_down(&d->net.slow, frame, len);
    worker_kick(d->port[0]->worker);
}

static void on_resolved(void *ctx, const union gid *next_hop, uint16_t vlan)
{
    ((struct device *)ctx)->net.resolved = true;
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
};

/* ---- after the host was at work ---- */

void net_tell_applications(struct device *d, unsigned event)
{
    struct session *sn;

    TAILQ_FOREACH (sn, &d->rnic->sessions, link) {
        if (sn->device == d)
            ctx_async_event(sn, 1, event);
    }
}

struct redirect_call {
    struct qp_object *q;
    struct ah *ah;
    uint8_t mac[6];
};

static void redirect(struct worker *w, void *arg)
{
    struct redirect_call *call = arg;

    if (call->q)
        engine_qp_redirect(qp_object_engine(call->q), call->q->dp.qp, call->mac);
    else
        address_handle_redirect(call->ah->handle, call->mac);
}

/* Lets call's packets follow their neighbour if it has another MAC than av says. */
static void follow(struct device *d, const struct address_vector *av, struct redirect_call *call)
{
    struct gid_entry source = {.gid = av->sgid, .vlan = av->vlan, .type = av->gid_type};
    struct net_path path;

    if (gid_is_zero(&av->dgid) || net_resolve(d, &source, &av->dgid, &path) ||
        !memcmp(path.mac, av->dmac, sizeof(path.mac)))
        return;
    memcpy(call->mac, path.mac, sizeof(path.mac));
    if (call->q)
        qp_object_call(call->q, redirect, call);
    else /* queue pairs of any worker may send by it */
        device_call_all(d, redirect, call);
}

static void follow_neighbours(struct device *d)
{
    struct session *sn;
    struct object *o;

    TAILQ_FOREACH (sn, &d->rnic->sessions, link) {
        if (sn->device != d)
            continue;
        TAILQ_FOREACH (o, &sn->objects[OBJ_QP], link) {
            struct redirect_call call = {.q = container_of(o, struct qp_object, o)};

            follow(d, qp_address_vector(call.q->dp.qp), &call);
        }
        TAILQ_FOREACH (o, &sn->objects[OBJ_AH], link) {
            struct redirect_call call = {.ah = container_of(o, struct ah, o)};

            follow(d, address_handle_vector(call.ah->handle), &call);
        }
    }
}

void net_arm_timer(struct device *d)
{
    ns_t next = net_host_next_timer(d->net.host);
    struct itimerspec when = {0};

    if (d->net.timer.fd < 0)
        return;
    if (next != NS_NEVER) {
        when.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
        when.it_value.tv_nsec = (long)(next % NS_PER_SEC);
        if (!next)
            when.it_value.tv_nsec = 1; /* all zero would disarm */
    }
    timerfd_settime(d->net.timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Somebody else's addresses leave the GID table. One that is ours after all comes back: its owner
 * may have gone while the link was down. */
static void change_gids(struct device *d)
{
    struct device_net *n = &d->net;

    if (!n->changes)
        return;
    for (unsigned i = 0; i < n->changes; i++) {
        const struct net_address *a = &n->change[i].a;
        struct port_address pa = {.gid = a->addr, .prefix = a->prefix, .vlan = a->vlan};
        int err = n->change[i].duplicate ? device_gids_remove(d, &a->addr, a->vlan)
                                         : device_gids_add(d, &pa);

        if (!err)
            net_tell_applications(d, PORT_EVENT_GID_CHANGE);
    }
    n->changes = 0;
    mcast_follow_addresses(d);
}

/* Acts on what the host said. */
void net_settle(struct device *d)
{
    struct device_net *n = &d->net;
    struct rnic *r = d->rnic;

    change_gids(d);
    if (n->moved) {
        n->moved = false;
        follow_neighbours(d);
    }
    net_arm_timer(d);
    if (n->resolved) {
        n->resolved = false;
        if (r->retry)
            r->retry(r->retry_ctx);
    }
}

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
        net_tell_applications(d, PORT_EVENT_GID_CHANGE);
    mcast_follow_addresses(d);
    net_settle(d);
    return err;
}

int net_address_remove(struct device *d, const union gid *gid, uint16_t vlan)
{
    int err = net_host_remove_address(d->net.host, gid, vlan);

    /* A duplicate's entries are gone already. */
    if (!err && !device_gids_remove(d, gid, vlan))
        net_tell_applications(d, PORT_EVENT_GID_CHANGE);
    mcast_follow_addresses(d);
    net_settle(d);
    return err;
}

int net_address_answered(struct device *d, const union gid *gid, bool answered)
{
    int err = net_host_set_quiet(d->net.host, gid, VLAN_NONE, answered, net_time(d));

    net_settle(d);
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
    d->net.host = net_host_create(&hc);
    return d->net.host ? 0 : -ENOMEM;
}

static int add_configured(struct device *d, const struct port_config *config)
{
    int err = device_add_gids(d, config);

    for (unsigned i = 0; i < config->neighbours && !err; i++)
        err = net_host_add_neighbour(d->net.host, &config->neighbour[i].addr, VLAN_NONE,
                                     config->neighbour[i].mac);
    for (unsigned i = 0; i < config->addresses && !err; i++)
        err = add_to_host(d, &config->address[i]);
    for (unsigned i = 0; i < config->routes && !err; i++)
        err = net_host_add_route(d->net.host, &config->route[i]);
    return err == -EEXIST ? -EINVAL : err;
}

int net_open(struct device *d, const struct port_config *config)
{
    struct device_net *n = &d->net;
    int err;

    n->frames.fd = n->timer.fd = n->link.fd = n->slow.event_fd = -1;
    n->isolated = d->io->ops->wake_fd(d->io, 0) == PKTIO_WAKE_NEVER;
    n->detect = config->detect_duplicates && !n->isolated;
    n->link_up = d->info.link_up;
    err = create_host(d);
    if (!err && !n->link_up) /* what it sends now is lost; it starts when the link comes up */
        net_host_link(n->host, false, net_time(d));
    if (!err && !n->isolated)
        err = slow_path_init(&n->slow, d->info.mac, config->exception_fd != NULL);
    if (!err)
        err = add_configured(d, config);
    if (err || n->isolated)
        return err;
    d->port[0]->slow = &n->slow;
    err = net_events_open(d, config);
    if (!err)
        net_settle(d);
    return err;
}

void net_close(struct device *d)
{
    struct device_net *n = &d->net;

    net_events_close(d);
    if (!n->host)
        return;
    slow_path_fini(&n->slow);
    net_host_destroy(n->host);
    n->host = NULL;
}

/* ---- use ---- */

/* RoCEv1 knows of no other resolution for link-local GIDs (A16.5.1): the MAC is in them. */
static bool mac_in_gid(const struct gid_entry *source, const union gid *dgid, uint8_t mac[6])
{
    const uint8_t *id = dgid->raw + 8;

    if (source->type != GID_TYPE_ROCE_V1 || dgid->raw[0] != 0xFE || (dgid->raw[1] & 0xC0) != 0x80 ||
        id[3] != 0xFF || id[4] != 0xFE)
        return false;
    memcpy(mac, (uint8_t[]){id[0] ^ 2, id[1], id[2], id[5], id[6], id[7]}, 6);
    return true;
}

int net_resolve(struct device *d, const struct gid_entry *source, const union gid *dgid,
                struct net_path *path)
{
    int err;

    path->next_hop = *dgid;
    path->mtu = d->info.mtu;
    if (gid_is_multicast(dgid)) { /* of either IP version: RoCEv1 has groups of both */
        gid_multicast_mac(dgid, path->mac);
        return 0;
    }
    if (mac_in_gid(source, dgid, path->mac))
        return 0;
    err = net_host_resolve(d->net.host, &source->gid, source->vlan, dgid, net_time(d), path);
    net_arm_timer(d);
    if (err && (d->net.isolated || (err == -EINPROGRESS && !d->rnic->retry)))
        return -EHOSTUNREACH;
    return err;
}
