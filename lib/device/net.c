/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "neighbour.h"
#include "object.h"

#define EXCEPTION_BURST 64
#define LINK_INTERVAL   NS_PER_SEC /* at which a port that does not tell is asked */

static ns_t time_now(const struct device *d)
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
    worker_kick(d->worker);
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

    if (state == NET_DUPLICATE && n->conflicts < CONFLICTS_MAX)
        n->conflict[n->conflicts++] = *a;
}

static const struct net_host_ops host_ops = {
    .send = on_send,
    .resolved = on_resolved,
    .moved = on_moved,
    .address_state = on_address_state,
};

/* ---- after the host was at work ---- */

static void tell_applications(struct device *d, enum port_event event)
{
    struct client *c;

    TAILQ_FOREACH (c, &d->rnic->clients, link) {
        if (c->device == d)
            ctx_async_event(c, 1, event);
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
        engine_qp_redirect(call->q->dp.port->engine, call->q->dp.qp, call->mac);
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
    worker_call(d->worker, redirect, call);
}

static void follow_neighbours(struct device *d)
{
    struct client *c;
    struct object *o;

    TAILQ_FOREACH (c, &d->rnic->clients, link) {
        if (c->device != d)
            continue;
        TAILQ_FOREACH (o, &c->objects[OBJ_QP], link) {
            struct redirect_call call = {.q = container_of(o, struct qp_object, o)};

            follow(d, qp_address_vector(call.q->dp.qp), &call);
        }
        TAILQ_FOREACH (o, &c->objects[OBJ_AH], link) {
            struct redirect_call call = {.ah = container_of(o, struct ah, o)};

            follow(d, address_handle_vector(call.ah->handle), &call);
        }
    }
}

static void arm_timer(struct device *d)
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

/* Acts on what the host said. */
static void settle(struct device *d)
{
    struct device_net *n = &d->net;
    struct rnic *r = d->rnic;

    while (n->conflicts) {
        struct net_address *a = &n->conflict[--n->conflicts];

        if (!device_gids_remove(d, &a->addr, a->vlan))
            tell_applications(d, PORT_EVENT_GID_CHANGE);
    }
    if (n->moved) {
        n->moved = false;
        follow_neighbours(d);
    }
    arm_timer(d);
    if (n->resolved) {
        n->resolved = false;
        if (r->retry)
            r->retry(r->retry_ctx);
    }
}

/* ---- events ---- */

static void drain(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* A burst at most, so that a flood of frames does not keep applications waiting. */
static void on_frames(struct event_source *s, uint32_t events)
{
    struct device_net *n = container_of(s, struct device_net, frames);
    struct device *d = container_of(n, struct device, net);
    const uint8_t *frame;
    uint64_t one = 1;
    uint32_t len;

    drain(s->fd);
    for (unsigned i = 0; i < FRAME_RING_SLOTS && (frame = frame_ring_peek(n->slow.up, &len)); i++) {
        net_host_rx(n->host, frame, len, time_now(d));
        if (n->exception.fd >= 0 && write(n->exception.fd, frame, len) < 0)
            n->exception_lost++;
        frame_ring_pop(n->slow.up);
    }
    if (!frame_ring_empty(n->slow.up) && write(s->fd, &one, sizeof(one)) < 0)
        return; /* a full eventfd is readable all the same */
    settle(d);
}

static void on_timer(struct event_source *s, uint32_t events)
{
    struct device *d = container_of(container_of(s, struct device_net, timer), struct device, net);

    drain(s->fd);
    net_host_timers(d->net.host, time_now(d));
    settle(d);
}

/* The kernel's frames go out as they are. */
static void on_exception(struct event_source *s, uint32_t events)
{
    struct device_net *n = container_of(s, struct device_net, exception);
    struct device *d = container_of(n, struct device, net);
    static uint8_t frame[FRAME_RING_ROOM];
    unsigned sent = 0;

    while (sent < EXCEPTION_BURST) {
        ssize_t len = read(s->fd, frame, sizeof(frame));

        if (len <= 0)
            break;
        slow_path_down(&n->slow, frame, (uint32_t)len);
        sent++;
    }
    if (sent)
        worker_kick(d->worker);
}

static void on_link(struct event_source *s, uint32_t events)
{
    struct device *d = container_of(container_of(s, struct device_net, link), struct device, net);
    struct pktio_info info;

    if (d->net.link_polled)
        drain(s->fd);
    else
        d->io->ops->link_ack(d->io);
    d->io->ops->info(d->io, &info);
    if (info.link_up == d->net.link_up)
        return;
    d->net.link_up = info.link_up;
    net_host_link(d->net.host, info.link_up, time_now(d));
    tell_applications(d, info.link_up ? PORT_EVENT_ACTIVE : PORT_EVENT_ERR);
    settle(d);
}

/* ---- addresses ---- */

static int add_to_host(struct device *d, const struct port_address *a)
{
    struct net_address na = {
        .addr = a->gid, .prefix = a->prefix, .vlan = a->vlan, .quiet = a->answered};

    return net_host_add_address(d->net.host, &na, !d->net.detect, time_now(d));
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
        tell_applications(d, PORT_EVENT_GID_CHANGE);
    arm_timer(d);
    return err;
}

int net_address_remove(struct device *d, const union gid *gid, uint16_t vlan)
{
    int err = net_host_remove_address(d->net.host, gid, vlan);

    /* A duplicate's entries are gone already. */
    if (!err && !device_gids_remove(d, gid, vlan))
        tell_applications(d, PORT_EVENT_GID_CHANGE);
    return err;
}

/* ---- opening ---- */

static int watch(struct device *d, struct event_source *s)
{
    return s->fd < 0 || !d->rnic->config.loop ? 0
                                              : event_loop_add(d->rnic->config.loop, s, EPOLLIN);
}

/* -1: there is no descriptor for it. */
static int timer_every(ns_t interval)
{
    struct timespec t = {.tv_sec = (time_t)(interval / NS_PER_SEC),
                         .tv_nsec = (long)(interval % NS_PER_SEC)};
    struct itimerspec when = {.it_interval = t, .it_value = t};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd >= 0)
        timerfd_settime(fd, 0, &when, NULL);
    return fd;
}

static int open_sources(struct device *d, const struct port_config *config)
{
    struct device_net *n = &d->net;
    int err;

    n->exception = (struct event_source){.fd = -1, .ready = on_exception};
    if (config->exception_fd)
        n->exception.fd = *config->exception_fd;
    n->frames = (struct event_source){.fd = n->slow.event_fd, .ready = on_frames};
    n->link = (struct event_source){.fd = -1, .ready = on_link};
    if (d->io->ops->link_fd) {
        n->link.fd = d->io->ops->link_fd(d->io);
        n->link_polled = n->link.fd < 0;
    }
    if (n->link_polled)
        n->link.fd = timer_every(LINK_INTERVAL);
    n->timer = (struct event_source){.ready = on_timer};
    n->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (n->timer.fd < 0)
        return -errno;
    err = watch(d, &n->frames);
    if (!err)
        err = watch(d, &n->timer);
    if (!err)
        err = watch(d, &n->link);
    return err ? err : watch(d, &n->exception);
}

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

    n->frames.fd = n->timer.fd = n->link.fd = n->exception.fd = n->slow.event_fd = -1;
    n->isolated = d->io->ops->wake_fd(d->io, 0) == PKTIO_WAKE_NEVER;
    n->detect = config->detect_duplicates && !n->isolated;
    n->link_up = d->info.link_up;
    err = create_host(d);
    if (!err && !n->isolated)
        err = slow_path_init(&n->slow, d->info.mac, config->exception_fd != NULL);
    if (!err)
        err = add_configured(d, config);
    if (err || n->isolated)
        return err;
    d->port->slow = &n->slow;
    err = open_sources(d, config);
    if (!err)
        settle(d);
    return err;
}

static void close_source(struct device *d, struct event_source *s, bool own)
{
    if (d->rnic->config.loop)
        event_loop_remove(d->rnic->config.loop, s);
    if (own && s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void net_close(struct device *d)
{
    struct device_net *n = &d->net;

    if (!n->host)
        return;
    close_source(d, &n->frames, false);
    close_source(d, &n->link, n->link_polled);
    close_source(d, &n->timer, true);
    close_source(d, &n->exception, true);
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
        neighbour_multicast_mac(dgid, path->mac);
        return 0;
    }
    if (mac_in_gid(source, dgid, path->mac))
        return 0;
    err = net_host_resolve(d->net.host, &source->gid, source->vlan, dgid, time_now(d), path);
    arm_timer(d);
    if (err && (d->net.isolated || (err == -EINPROGRESS && !d->rnic->retry)))
        return -EHOSTUNREACH;
    return err;
}

/* Whether entry i is the first of its VLAN and IP version, so that each is visited once. */
static bool is_first_of_network(const struct gid_table *t, unsigned i, bool ipv4)
{
    for (unsigned k = 0; k <= i; k++) {
        const struct gid_entry *e = &t->entry[k];

        if (e->valid && e->vlan == t->entry[i].vlan && gid_is_ipv4(&e->gid) == ipv4)
            return k == i;
    }
    return false;
}

int net_join(struct device *d, const union gid *group)
{
    int err = 0;

    for (unsigned i = 0; i < d->gids.len && !err; i++) {
        if (is_first_of_network(&d->gids, i, gid_is_ipv4(group)))
            err = net_host_join(d->net.host, group, d->gids.entry[i].vlan, time_now(d));
    }
    arm_timer(d);
    return err;
}

void net_leave(struct device *d, const union gid *group)
{
    for (unsigned i = 0; i < d->gids.len; i++) {
        if (is_first_of_network(&d->gids, i, gid_is_ipv4(group)))
            net_host_leave(d->net.host, group, d->gids.entry[i].vlan, time_now(d));
    }
    arm_timer(d);
}
