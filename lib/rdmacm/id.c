/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: creation, destruction, what they are bound to, migration. */
#include <arpa/inet.h>

#include "cma.h"

/* Of a record of paths: "exactly". */
#define SA_EXACTLY 2

struct cma_id *id_alloc(struct cma_link *link, struct cma_channel *ch, void *context,
                        enum rdma_port_space ps, enum ibv_qp_type type)
{
    struct cma_id *id = calloc(1, sizeof(*id));

    if (!id)
        return NULL;
    id->base.channel = &ch->base;
    id->base.context = context;
    id->base.ps = ps;
    id->base.qp_type = type;
    id->link = link;
    link_ref(link);
    LIST_INIT(&id->mcasts);
    pthread_mutex_init(&id->lock, NULL);
    pthread_cond_init(&id->acks, NULL);
    return id;
}

void id_free(struct cma_id *id)
{
    mcast_free_all(id);
    if (id->device)
        device_put(id->device);
    if (id->sync)
        channel_destroy(to_channel(id->base.channel));
    link_put(id->link);
    rdma_freeaddrinfo(id->info);
    free(id->ep_attr);
    free(id->connect);
    pthread_cond_destroy(&id->acks);
    pthread_mutex_destroy(&id->lock);
    free(id);
}

/* ---- creation ---- */

struct creation {
    struct cma_id *id;
    struct ctl_msg m;
};

static int publish(void *arg, const int *fd, unsigned fds)
{
    struct creation *c = arg;

    if (fds)
        return -EPROTO;
    pthread_mutex_lock(&c->id->link->lock);
    c->id->entry.handle = c->m.cm_id.id;
    c->id->entry.serial = c->m.cm_id.serial;
    cma_table_add(&c->id->link->ids, &c->id->entry);
    pthread_mutex_unlock(&c->id->link->lock);
    return 0;
}

static int create_at_daemon(struct cma_id *id)
{
    struct creation c = {.id = id};

    id->entry.cookie = new_cookie();
    c.m.cm_id = (struct ctl_cm_id){.channel = to_channel(id->base.channel)->handle,
                                   .ps = id->base.ps,
                                   .qp_type = id->base.qp_type,
                                   .cookie = id->entry.cookie};
    return conn_call_then(&id->link->conn, CTL_CM_CREATE_ID, &c.m, publish, &c);
}

/* With a channel of its own if ch is NULL. */
static int create_on(struct cma_channel *ch, struct cma_id **out, void *context,
                     enum rdma_port_space ps, enum ibv_qp_type type)
{
    struct cma_channel *own = NULL;
    struct cma_link *link;
    int err = 0;

    if (!ch)
        ch = own = channel_create(&err);
    if (!err)
        err = channel_revive(ch, &link);
    if (!err) {
        struct cma_id *id = id_alloc(link, ch, context, ps, type);

        link_put(link);
        err = id ? create_at_daemon(id) : -ENOMEM;
        if (!err) {
            id->sync = own != NULL;
            *out = id;
        } else if (id) {
            id_free(id);
        }
    }
    if (err && own)
        channel_destroy(own);
    return err;
}

int id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
              enum rdma_port_space ps, enum ibv_qp_type type)
{
    struct cma_id *out = NULL;
    int err = create_on(channel ? to_channel(channel) : NULL, &out, context, ps, type);

    if (err == -ENOENT || err == -ECONNREFUSED)
        err = -ENODEV; /* no daemon is as no device */
    if (!err)
        *id = &out->base;
    return err;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    bool datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;

    return cma_result(id_create(channel, id, context, ps, datagram ? IBV_QPT_UD : IBV_QPT_RC));
}

/* ---- destruction ---- */

static int unpublish(void *arg, const int *fd, unsigned fds)
{
    struct cma_id *id = arg;

    pthread_mutex_lock(&id->link->lock);
    cma_table_remove(&id->entry);
    pthread_mutex_unlock(&id->link->lock);
    return fds ? -EPROTO : 0;
}

static int end_at_daemon(struct cma_id *id)
{
    struct ctl_msg m = {.cm_id = {.id = id->entry.handle}};
    int err = conn_call_then(&id->link->conn, CTL_CM_DESTROY_ID, &m, unpublish, id);

    if (err && err != -EIO)
        return err;
    if (err)
        unpublish(id, NULL, 0);
    else
        event_drop(id, m.cm_id.sent);
    return 0;
}

/* Of an id whose connection is over the daemon has nothing to say that this would wait for. An
 * event that it sends until it serves this belongs to no id. */
static int post_end(struct cma_id *id)
{
    struct ctl_msg m = {.cm_id = {.id = id->entry.handle}};

    unpublish(id, NULL, 0);
    conn_post(&id->link->conn, CTL_CM_DESTROY_ID, &m); /* it fails when the daemon is gone */
    event_drop_all(id);
    return 0;
}

int id_withdraw(struct cma_id *id)
{
    int err;

    if (!link_is_ours(id->link))
        return 0; /* the parent's */
    err = id->over && LIST_EMPTY(&id->mcasts) ? post_end(id) : end_at_daemon(id);
    if (!err)
        channel_move(to_channel(id->base.channel), id, NULL);
    return err;
}

void id_begin_call(struct cma_id *id)
{
    pthread_mutex_lock(&id->lock);
    id->calls++;
    pthread_mutex_unlock(&id->lock);
}

void id_end_call(struct cma_id *id)
{
    pthread_mutex_lock(&id->lock);
    id->calls--;
    pthread_cond_broadcast(&id->acks);
    pthread_mutex_unlock(&id->lock);
}

/* Without cancellation: the thread would leave the lock behind, which who acknowledges needs. */
void id_await(struct cma_id *id)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_cond_wait(&id->acks, &id->lock);
    pthread_setcancelstate(cancel, NULL);
}

/* In a forked child the calls of the parent's threads do not end. */
void id_wait_for_calls(struct cma_id *id)
{
    if (!link_is_ours(id->link))
        return;
    pthread_mutex_lock(&id->lock);
    while (id->calls)
        id_await(id);
    pthread_mutex_unlock(&id->lock);
}

struct ibv_qp *id_take_qp(struct cma_id *id)
{
    struct ibv_qp *qp;

    pthread_mutex_lock(&id->lock);
    while (id->calls && link_is_ours(id->link))
        id_await(id);
    qp = id->base.qp;
    id->base.qp = NULL;
    pthread_mutex_unlock(&id->lock);
    return qp;
}

/* In a forked child the events that the parent's threads got are never acknowledged. */
static void wait_for_acks(struct cma_id *id)
{
    if (!link_is_ours(id->link))
        return;
    pthread_mutex_lock(&id->lock);
    while (id->acked != id->reported)
        id_await(id);
    pthread_mutex_unlock(&id->lock);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *base)
{
    struct cma_id *id = to_id(base);
    int err = id_withdraw(id);

    if (err)
        return cma_result(err);
    id_drop_event(id);
    wait_for_acks(id);
    id_wait_for_calls(id);
    id_free(id);
    return 0;
}

/* ---- what the daemon knows ---- */

static int take_device(struct cma_id *id, const struct ctl_cm_info *info)
{
    struct rdma_ib_addr *ib = &id->base.route.addr.addr.ibaddr;
    int err = 0;

    if (!id->device) {
        id->device = device_get(id->link, info->node_guid, &err);
        if (err)
            return err;
        id->base.verbs = id->device->verbs;
        if (!id->base.pd)
            id->base.pd = id->device->pd;
    }
    id->base.port_num = info->port_num;
    memcpy(ib->sgid.raw, info->sgid, sizeof(ib->sgid.raw));
    memcpy(ib->dgid.raw, info->dgid, sizeof(ib->dgid.raw));
    ib->pkey = htons(info->pkey);
    return 0;
}

static void take_path(struct cma_id *id, const struct ctl_cm_info *info)
{
    struct ibv_sa_path_rec *p = &id->path;

    *p = (struct ibv_sa_path_rec){.flow_label = htonl(info->flow_label),
                                  .hop_limit = info->hop_limit,
                                  .traffic_class = info->traffic_class,
                                  .reversible = 1,
                                  .numb_path = 1,
                                  .pkey = htons(info->pkey),
                                  .sl = info->sl,
                                  .mtu_selector = SA_EXACTLY,
                                  .mtu = info->mtu,
                                  .rate_selector = SA_EXACTLY,
                                  .rate = info->rate,
                                  .packet_life_time_selector = SA_EXACTLY,
                                  .packet_life_time = info->packet_life_time};
    memcpy(p->sgid.raw, info->sgid, sizeof(p->sgid.raw));
    memcpy(p->dgid.raw, info->dgid, sizeof(p->dgid.raw));
    id->path_known = true;
}

void id_show_route(struct cma_id *id)
{
    if (!id->path_known)
        return;
    id->path_known = false;
    id->base.route.path_rec = &id->path;
    id->base.route.num_paths = 1;
}

int id_take_info(struct cma_id *id, const struct ctl_cm_info *info)
{
    struct rdma_addr *addr = &id->base.route.addr;
    int err;

    if (info->src.family)
        addr_from_ctl(&addr->src_storage, &info->src);
    if (info->dst.family)
        addr_from_ctl(&addr->dst_storage, &info->dst);
    if (!info->has_device)
        return 0;
    err = take_device(id, info);
    if (!err && info->has_path)
        take_path(id, info);
    return err;
}

/* ---- migration ---- */

/* Other threads read requests, whose ids get the listener's channel: event.c. */
static void set_channel(struct cma_id *id, struct cma_channel *ch)
{
    pthread_mutex_lock(&id->link->lock);
    id->base.channel = &ch->base;
    pthread_mutex_unlock(&id->link->lock);
}

/* The channel that the id leaves gives no more events of it. Another thread may get a request by
 * the new one before the daemon's reply is read here. */
static int move_to(struct cma_id *id, struct cma_channel *to)
{
    struct ctl_msg m = {.cm_id = {.id = id->entry.handle, .channel = to->handle}};
    struct cma_channel *from = to_channel(id->base.channel);
    int err;

    if (to->link != id->link)
        return -EIO; /* the channel or the id is one of a daemon that is gone */
    set_channel(id, to);
    err = link_call(id->link, CTL_CM_MIGRATE, &m);
    if (err) {
        set_channel(id, from);
        channel_move(to, id, from);
        return err;
    }
    event_move(id, from, to, m.cm_id.sent);
    channel_move(from, id, to);
    if (id->sync)
        id_drop_event(id);
    wait_for_acks(id);
    return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *base, struct rdma_event_channel *channel)
{
    struct cma_id *id = to_id(base);
    struct cma_channel *from = to_channel(id->base.channel), *to;
    int err = 0;

    if (id->sync && !channel)
        return cma_result(-EINVAL);
    to = channel ? to_channel(channel) : channel_create(&err);
    if (!err)
        err = move_to(id, to);
    if (err) {
        if (!channel && to)
            channel_destroy(to);
        return cma_result(err);
    }
    if (id->sync)
        channel_destroy(from);
    id->sync = !channel;
    return 0;
}
