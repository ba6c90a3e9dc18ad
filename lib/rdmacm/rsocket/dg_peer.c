/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers of a datagram socket, and the way to their queue pairs. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dg_socket.h"

#define RESOLVE_MS 2000

/* ---- the table ---- */

/* A link-local address is one of its link; a program whose socket is bound to one need not say so.
 * Of other addresses the scope ID, which programs leave as it was, says nothing. */
static bool same_link(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b)
{
    return !IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr) || !a->sin6_scope_id || !b->sin6_scope_id ||
           a->sin6_scope_id == b->sin6_scope_id;
}

bool dg_same_addr(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->ss_family != b->ss_family || a4->sin_port != b4->sin_port)
        return false;
    if (a->ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) && same_link(a6, b6);
}

static unsigned bucket_of(const struct sockaddr_storage *addr)
{
    const uint8_t *p = addr->ss_family == AF_INET
                           ? (const uint8_t *)&((const struct sockaddr_in *)addr)->sin_addr
                           : (const uint8_t *)&((const struct sockaddr_in6 *)addr)->sin6_addr;
    unsigned n = addr->ss_family == AF_INET ? 4 : 16;
    unsigned hash = ((const struct sockaddr_in *)addr)->sin_port;

    for (unsigned i = 0; i < n; i++)
        hash = hash * 31 + p[i];
    return hash % DG_BUCKETS;
}

static void stop(struct dgram *d, struct dg_peer *p)
{
    rdma_destroy_id(p->resolving);
    p->resolving = NULL;
    d->resolving--;
}

static void peer_free(struct dgram *d, struct dg_peer *p)
{
    if (p->resolving)
        stop(d, p);
    if (p->ah)
        ibv_destroy_ah(p->ah);
    free(p);
}

static void unlink_bucket(struct dgram *d, struct dg_peer *peer)
{
    struct dg_peer **p = &d->bucket[bucket_of(&peer->addr)];

    while (*p != peer)
        p = &(*p)->next;
    *p = peer->next;
}

/* Makes room: strangers' datagrams take an entry each. */
static void forget_oldest(struct dgram *d)
{
    struct dg_peer **p = &d->oldest, *peer;

    if (*p == d->peer && *p)
        p = &(*p)->younger;
    peer = *p;
    *p = peer->younger;
    if (d->youngest == &peer->younger)
        d->youngest = p;
    unlink_bucket(d, peer);
    d->peers--;
    peer_free(d, peer);
}

void dg_peers_destroy(struct dgram *d)
{
    d->peer = NULL;
    while (d->oldest)
        forget_oldest(d);
}

/* The local address that the kernel routes by. librspreload takes a socket of socket() for the
 * program's, and asks for an rsocket. */
static int source_of(const struct sockaddr_storage *to, struct sockaddr_storage *from)
{
    int fd = (int)syscall(SYS_socket, to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
    socklen_t length = sizeof(*from);

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)to, rs_addr_size(to->ss_family)) ||
        getsockname(fd, (struct sockaddr *)from, &length))
        err = -errno;
    close(fd);
    return err;
}

static bool is_any(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == htobe32(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* The address that the socket is bound to, or else by the route. */
static int local_for(const struct dgram *d, const struct sockaddr_storage *to,
                     struct sockaddr_storage *local)
{
    socklen_t length = sizeof(*local);

    if (getsockname(d->rs.object.fd, (struct sockaddr *)local, &length))
        return -errno;
    rs_addr_plain(local);
    return is_any(local) ? source_of(to, local) : 0;
}

/* A wildcard as destination is this host: what comes back has the address that we send from. */
static int name_this_host(const struct dgram *d, struct sockaddr_storage *to)
{
    struct sockaddr_storage local = {0};
    int err = local_for(d, to, &local);

    if (err)
        return err;
    ((struct sockaddr_in *)&local)->sin_port = ((const struct sockaddr_in *)to)->sin_port;
    *to = local;
    return 0;
}

int dg_addr_of(const struct dgram *d, const struct sockaddr *addr, socklen_t length,
               struct sockaddr_storage *plain)
{
    int err = rs_addr_of(&d->rs, addr, length, plain);

    return err || !is_any(plain) ? err : name_this_host(d, plain);
}

struct dg_peer *dg_peer_find(const struct dgram *d, const struct sockaddr_storage *addr)
{
    struct dg_peer *p = d->bucket[bucket_of(addr)];

    while (p && !dg_same_addr(&p->addr, addr))
        p = p->next;
    return p;
}

int dg_peer_get(struct dgram *d, const struct sockaddr_storage *addr, struct dg_peer **made)
{
    struct dg_peer **bucket = &d->bucket[bucket_of(addr)], *p = dg_peer_find(d, addr);
    struct sockaddr_storage local;
    struct dg_qp *qp;
    int err;

    if (p) {
        *made = p;
        return 0;
    }
    err = local_for(d, addr, &local);
    if (!err)
        err = dg_qp_get(d, &local, &qp);
    if (err)
        return err;
    if (d->peers == DG_PEERS_MAX)
        forget_oldest(d);
    p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->addr = *addr;
    p->qp = qp;
    p->next = *bucket;
    *bucket = p;
    *d->youngest = p;
    d->youngest = &p->younger;
    d->peers++;
    *made = p;
    return 0;
}

/* ---- the way ---- */

/* A failure is retried with the peer's next message by UDP. */
void dg_peer_learn(struct dgram *d, struct dg_peer *p, uint32_t qpn)
{
    struct sockaddr_storage from = p->qp->local;

    if (p->ah && p->qpn == qpn)
        return;
    p->qpn = qpn;
    if (p->resolving)
        return;
    if (p->ah) { /* it was started again, perhaps on another machine with its address */
        ibv_destroy_ah(p->ah);
        p->ah = NULL;
    }
    ((struct sockaddr_in *)&from)->sin_port = 0;
    if (rdma_create_id(d->channel, &p->resolving, p, RDMA_PS_UDP)) {
        p->resolving = NULL;
        return;
    }
    d->resolving++;
    if (rdma_resolve_addr(p->resolving, (struct sockaddr *)&from, (struct sockaddr *)&p->addr,
                          RESOLVE_MS))
        stop(d, p);
}

/* The index of a RoCEv2 GID of the port, or -1. */
static int gid_index(const struct rdma_cm_id *id, const union ibv_gid *gid)
{
    struct ibv_port_attr attr;
    struct ibv_gid_entry e;
    int found = -1;

    if (ibv_query_port(id->verbs, id->port_num, &attr))
        return -1;
    for (int i = 0; i < attr.gid_tbl_len; i++)
        if (!ibv_query_gid_ex(id->verbs, id->port_num, (uint32_t)i, &e, 0) &&
            !memcmp(&e.gid, gid, sizeof(*gid)) &&
            (found < 0 || e.gid_type == IBV_GID_TYPE_ROCE_V2)) {
            found = i;
            if (e.gid_type == IBV_GID_TYPE_ROCE_V2)
                break;
        }
    return found;
}

static void make_ah(struct dg_peer *p)
{
    const struct ibv_sa_path_rec *path = p->resolving->route.path_rec;
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = p->resolving->port_num};
    int index;

    if (!p->resolving->route.num_paths || !path)
        return;
    index = gid_index(p->resolving, &path->sgid);
    if (index < 0)
        return;
    attr.grh.dgid = path->dgid;
    attr.grh.sgid_index = (uint8_t)index;
    attr.grh.flow_label = be32toh(path->flow_label);
    attr.grh.hop_limit = path->hop_limit;
    attr.grh.traffic_class = path->traffic_class;
    attr.dlid = be16toh(path->dlid);
    attr.sl = path->sl;
    attr.static_rate = path->rate;
    p->ah = ibv_create_ah(p->qp->device->pd, &attr);
}

static void act(struct dgram *d, struct dg_peer *p, enum rdma_cm_event_type event)
{
    switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (!rdma_resolve_route(p->resolving, RESOLVE_MS))
            return;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        make_ah(p);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        break;
    default:
        return;
    }
    stop(d, p);
}

void dg_peer_events(struct dgram *d)
{
    struct rdma_cm_event *e;

    while (!rdma_get_cm_event(d->channel, &e)) {
        struct dg_peer *p = e->id->context; /* NULL: a queue pair's id */
        enum rdma_cm_event_type event = e->event;

        rdma_ack_cm_event(e);
        if (p)
            act(d, p, event);
    }
    d->ended = errno != EAGAIN && errno != EINTR;
    if (d->ended)
        d->rs.error = errno;
}
