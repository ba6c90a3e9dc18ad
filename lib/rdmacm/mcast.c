/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups. */
#include "cma.h"

struct cma_mcast *mcast_find(struct cma_id *id, uint64_t cookie)
{
    struct cma_mcast *mc = LIST_FIRST(&id->mcasts);

    while (mc && mc->cookie != cookie)
        mc = LIST_NEXT(mc, next);
    return mc;
}

/* A member that only sends receives nothing. */
int mcast_joined(struct cma_id *id, struct cma_mcast *mc, const union ibv_gid *mgid)
{
    int err = 0;

    pthread_mutex_lock(&id->lock);
    mc->mgid = *mgid;
    if (id->base.qp && !mc->send_only && !mc->attached) {
        err = ibv_attach_mcast(id->base.qp, mgid, 0);
        mc->attached = !err;
    }
    pthread_mutex_unlock(&id->lock);
    return -err;
}

static void detach(struct ibv_qp *qp, struct cma_mcast *mc)
{
    if (mc->attached && qp)
        ibv_detach_mcast(qp, &mc->mgid, 0);
    mc->attached = false;
}

void mcast_detach_all(struct cma_id *id, struct ibv_qp *qp)
{
    struct cma_mcast *mc;

    pthread_mutex_lock(&id->lock);
    for (mc = LIST_FIRST(&id->mcasts); mc; mc = LIST_NEXT(mc, next))
        detach(qp, mc);
    pthread_mutex_unlock(&id->lock);
}

void mcast_free_all(struct cma_id *id)
{
    struct cma_mcast *mc;

    mcast_detach_all(id, id->base.qp);
    while ((mc = LIST_FIRST(&id->mcasts))) {
        LIST_REMOVE(mc, next);
        free(mc);
    }
}

/* ---- joining ---- */

static void add(struct cma_id *id, struct cma_mcast *mc)
{
    pthread_mutex_lock(&id->lock);
    LIST_INSERT_HEAD(&id->mcasts, mc, next);
    pthread_mutex_unlock(&id->lock);
}

/* A synchronous id holds its last event until the next call, which this one is: the program does
 * not acknowledge it. */
static void drop_held_event(struct cma_id *id, const struct cma_mcast *mc)
{
    const struct cma_event *held = (const struct cma_event *)id->base.event;

    if (id->sync && held && held->mcast == mc)
        id_drop_event(id);
}

static void wait_and_free(struct cma_id *id, struct cma_mcast *mc)
{
    pthread_mutex_lock(&id->lock);
    while (mc->acked != mc->reported)
        id_await(id);
    pthread_mutex_unlock(&id->lock);
    free(mc);
}

/* The daemon may have sent an event before it failed, or ended, and another thread may have it:
 * then the group stays until the id ends, which waits for that event. */
static void give_up(struct cma_id *id, struct cma_mcast *mc)
{
    bool told;

    pthread_mutex_lock(&id->lock);
    told = mc->left = mc->acked != mc->reported;
    if (!told)
        LIST_REMOVE(mc, next);
    pthread_mutex_unlock(&id->lock);
    if (!told)
        free(mc);
}

static int ask_to_join(struct cma_id *id, const struct sockaddr *addr, uint32_t flags,
                       void *context)
{
    struct ctl_msg m = {.cm_mcast = {.id = id->entry.handle, .flags = flags}};
    struct cma_mcast *mc;
    int err = addr ? addr_to_ctl(&m.cm_mcast.addr, addr) : -EINVAL;

    if (err)
        return err;
    mc = calloc(1, sizeof(*mc));
    if (!mc)
        return -ENOMEM;
    memcpy(&mc->addr, addr, addr_len(addr));
    mc->context = context;
    mc->send_only = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
    mc->cookie = m.cm_mcast.cookie = new_cookie();
    add(id, mc); /* its event may come before the reply */
    err = link_call(id->link, CTL_CM_JOIN, &m);
    if (err)
        give_up(id, mc);
    else
        mc->handle = m.cm_mcast.handle;
    return err;
}

/* Another thread may leave the group, or destroy the id, after the event. */
static int join(struct cma_id *id, const struct sockaddr *addr, uint32_t flags, void *context)
{
    bool sync = id->sync;
    int err;

    id_begin_call(id);
    err = ask_to_join(id, addr, flags, context);
    id_end_call(id);
    return err || !sync ? err : id_complete(id);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    return cma_result(join(to_id(id), addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context));
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                                  void *context)
{
    uint32_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;

    if (!attr)
        return cma_result(-EINVAL);
    if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) /* of a later version of the API */
        return cma_result(-EOPNOTSUPP);
    if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS))
        return cma_result(-EINVAL);
    if (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)
        flags = attr->join_flags;
    if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return cma_result(-EINVAL);
    return cma_result(join(to_id(id), attr->addr, flags, context));
}

/* ---- leaving ---- */

struct leaving {
    struct cma_id *id;
    struct cma_mcast *mc;
};

static int forget(void *arg, const int *fd, unsigned fds)
{
    const struct leaving *l = arg;

    pthread_mutex_lock(&l->id->lock);
    LIST_REMOVE(l->mc, next);
    pthread_mutex_unlock(&l->id->lock);
    return fds ? -EPROTO : 0;
}

/* The membership that the call is to end; none that another thread's does. */
static struct cma_mcast *take_addr(struct cma_id *id, const struct sockaddr *addr)
{
    struct cma_mcast *mc;

    pthread_mutex_lock(&id->lock);
    for (mc = LIST_FIRST(&id->mcasts); mc; mc = LIST_NEXT(mc, next))
        if (!mc->left && !memcmp(&mc->addr, addr, addr_len(addr)))
            break;
    if (mc) {
        mc->left = true;
        detach(id->base.qp, mc);
    }
    pthread_mutex_unlock(&id->lock);
    return mc;
}

static int leave(struct cma_id *id, const struct sockaddr *addr)
{
    struct leaving l = {.id = id};
    struct ctl_msg m;
    int err;

    if (!addr || !addr_len(addr))
        return -EINVAL;
    id_wait_for_calls(id); /* a join's reply has the group's handle */
    l.mc = take_addr(id, addr);
    if (!l.mc)
        return -EADDRNOTAVAIL;
    m = (struct ctl_msg){.cm_mcast = {.id = id->entry.handle, .handle = l.mc->handle}};
    err = conn_call_then(&id->link->conn, CTL_CM_LEAVE, &m, forget, &l);
    if (err)
        forget(&l, NULL, 0);
    else
        event_drop_join(id, l.mc->cookie, m.cm_mcast.sent);
    drop_held_event(id, l.mc);
    wait_and_free(id, l.mc);
    return err;
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    return cma_result(leave(to_id(id), addr));
}
