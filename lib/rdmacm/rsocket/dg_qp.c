/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of datagram sockets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "dg_socket.h"

#define BATCH         16
#define SLOTS_MIN     16
#define MESSAGE_USUAL 512 /* bytes: a buffer of n bytes is for messages of this size */
#define IS_RECV       (UINT64_C(1) << 32)

/* ---- making ---- */

static uint32_t slots_of(uint32_t bytes, uint32_t wqes)
{
    uint32_t n = bytes / MESSAGE_USUAL;

    return n > wqes ? wqes : n < SLOTS_MIN ? SLOTS_MIN : n;
}

static int make_memory(struct dg_qp *qp)
{
    uint32_t slots = qp->recv_slots + qp->send_slots;
    int err = rs_memory_create(&qp->memory, (size_t)slots * DG_SLOT);

    if (err)
        return err;
    qp->mr = ibv_reg_mr(qp->device->pd, qp->memory.bytes, qp->memory.size, IBV_ACCESS_LOCAL_WRITE);
    if (!qp->mr)
        return -errno;
    qp->free = calloc(qp->send_slots, sizeof(*qp->free));
    qp->messages = calloc(qp->recv_slots, sizeof(*qp->messages));
    if (!qp->free || !qp->messages)
        return -ENOMEM;
    while (qp->free_slots < qp->send_slots) {
        qp->free[qp->free_slots] = qp->recv_slots + qp->free_slots;
        qp->free_slots++;
    }
    return 0;
}

static uint32_t mtu_bytes(struct rdma_cm_id *id)
{
    struct ibv_port_attr attr;
    uint32_t mtu;

    if (ibv_query_port(id->verbs, id->port_num, &attr))
        return 0;
    mtu = 128u << attr.active_mtu;
    return mtu < DG_MESSAGE_MAX ? mtu : DG_MESSAGE_MAX;
}

static int make_queues(struct dgram *d, struct dg_qp *qp)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = qp->send_slots,
                .max_recv_wr = qp->recv_slots,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
    };
    struct epoll_event e = {.events = EPOLLIN};
    int err =
        rs_cq_create(qp->id->verbs, (int)(qp->send_slots + qp->recv_slots), &qp->comp, &qp->cq);

    if (err)
        return err;
    if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, qp->comp->fd, &e))
        return -errno;
    attr.send_cq = attr.recv_cq = qp->cq;
    if (rdma_create_qp(qp->id, qp->device->pd, &attr))
        return -errno;
    for (uint32_t i = 0; i < qp->recv_slots; i++)
        dg_qp_repost(qp, i);
    return 0;
}

static int fill(struct dgram *d, struct dg_qp *qp, const struct sockaddr_storage *local)
{
    const struct rs_options *o = &d->rs.options;
    struct sockaddr_storage name, bind_to = *local;
    socklen_t length = sizeof(name);
    int err;

    if (getsockname(d->rs.object.fd, (struct sockaddr *)&name, &length))
        return -errno;
    qp->local = *local;
    ((struct sockaddr_in *)&qp->local)->sin_port = ((struct sockaddr_in *)&name)->sin_port;
    ((struct sockaddr_in *)&bind_to)->sin_port = 0;
    if (rdma_create_id(d->channel, &qp->id, NULL, RDMA_PS_UDP) ||
        rdma_bind_addr(qp->id, (struct sockaddr *)&bind_to))
        return -errno;
    if (!qp->id->verbs)
        return -ENODEV;
    qp->device = rs_device_get(qp->id->verbs);
    if (!qp->device)
        return -errno;
    qp->recv_slots = slots_of(o->recv_buffer, o->recv_queue);
    qp->send_slots = slots_of(o->send_buffer, o->send_queue);
    qp->max = mtu_bytes(qp->id);
    err = make_memory(qp);
    return err ? err : make_queues(d, qp);
}

void dg_qp_destroy(struct dg_qp *qp)
{
    if (qp->id && qp->id->qp)
        rdma_destroy_qp(qp->id);
    rs_cq_destroy(qp->comp, qp->cq); /* closes the descriptor, which leaves the epoll set */
    if (qp->mr)
        ibv_dereg_mr(qp->mr);
    rs_memory_destroy(&qp->memory);
    if (qp->device)
        rs_device_put(qp->device);
    if (qp->id)
        rdma_destroy_id(qp->id);
    free(qp->free);
    free(qp->messages);
    free(qp);
}

/* The ports are those of the UDP socket, and of no interest here. */
static bool same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    struct sockaddr_storage copy = *b;

    ((struct sockaddr_in *)&copy)->sin_port = ((const struct sockaddr_in *)a)->sin_port;
    return dg_same_addr(a, &copy);
}

int dg_qp_get(struct dgram *d, const struct sockaddr_storage *local, struct dg_qp **made)
{
    struct dg_qp *qp;
    int err;

    for (qp = d->qps; qp; qp = qp->next)
        if (same_ip(&qp->local, local)) {
            *made = qp;
            return 0;
        }
    qp = calloc(1, sizeof(*qp));
    if (!qp)
        return -ENOMEM;
    err = fill(d, qp, local);
    if (err) {
        dg_qp_destroy(qp);
        return err;
    }
    qp->next = d->qps;
    d->qps = qp;
    *made = qp;
    return 0;
}

/* ---- work ---- */

static uint8_t *slot_bytes(const struct dg_qp *qp, uint32_t slot)
{
    return qp->memory.bytes + (size_t)slot * DG_SLOT;
}

void dg_qp_repost(struct dg_qp *qp, uint32_t slot)
{
    struct ibv_sge sge = {(uintptr_t)slot_bytes(qp, slot), DG_GRH + DG_MESSAGE_MAX, qp->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = IS_RECV | slot, .sg_list = &sge, .num_sge = 1}, *bad;

    (void)!ibv_post_recv(qp->id->qp, &wr, &bad); /* fails at the end of the device alone */
}

void dg_qp_go_on(struct dg_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};

    qp->stopped = false;
    (void)!ibv_modify_qp(qp->id->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
}

int dg_qp_send(struct dg_peer *peer, const struct iovec *iov, size_t size)
{
    struct dg_qp *qp = peer->qp;
    uint32_t slot = qp->free[qp->free_slots - 1];
    uint8_t *bytes = slot_bytes(qp, slot);
    size_t header = rs_ud_header_write(bytes, &qp->local);
    struct ibv_sge sge = {(uintptr_t)bytes, (uint32_t)(header + size), qp->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr *bad;
    int err;

    rs_iov_gather(bytes + header, iov, 0, size);
    wr.wr.ud.ah = peer->ah;
    wr.wr.ud.remote_qpn = peer->qpn;
    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    err = ibv_post_send(qp->id->qp, &wr, &bad);
    if (err)
        return -err;
    qp->free_slots--;
    return 0;
}

static uint32_t scope_of(const struct sockaddr_storage *local)
{
    return local->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)local)->sin6_scope_id : 0;
}

/* A message whose header makes no sense is dropped, as is one whose source has no form here. */
static void receive(struct dgram *d, struct dg_qp *qp, const struct ibv_wc *wc, int64_t now)
{
    uint32_t slot = (uint32_t)wc->wr_id;
    struct dg_message *m = &qp->messages[slot];
    uint32_t size = wc->byte_len > DG_GRH ? wc->byte_len - DG_GRH : 0;
    const uint8_t *bytes = slot_bytes(qp, slot) + DG_GRH;
    int header = rs_ud_header_read(&m->from, scope_of(&qp->local), bytes, size);

    if (header >= 0)
        rs_addr_plain(&m->from);
    if (header < 0 || (d->rs.family == AF_INET && m->from.ss_family != AF_INET)) {
        dg_qp_repost(qp, slot);
        return;
    }
    m->qp = qp;
    m->slot = slot;
    m->bytes = bytes + header;
    m->size = size - (uint32_t)header;
    dg_heard(d, &m->from, now);
    dg_queue(d, m);
}

void dg_qp_poll(struct dgram *d, struct dg_qp *qp)
{
    struct ibv_wc wc[BATCH];
    int64_t now;
    int n;

    if (qp->armed) {
        if (!rs_cq_events(qp->comp, qp->cq))
            return;
        qp->armed = false;
        rs_wake(&d->rs); /* the event will not wake those that sleep on it */
    }
    do {
        n = ibv_poll_cq(qp->cq, BATCH, wc);
        now = n > 0 ? rs_now_ns() : 0;
        for (int i = 0; i < n; i++) {
            bool good = wc[i].status == IBV_WC_SUCCESS;

            if (wc[i].wr_id & IS_RECV) {
                if (good)
                    receive(d, qp, &wc[i], now);
                continue;
            }
            qp->free[qp->free_slots++] = (uint32_t)wc[i].wr_id;
            qp->stopped |= !good;
        }
    } while (n == BATCH);
    if (n < 0 && !d->rs.error)
        d->rs.error = EIO;
}

int dg_qp_arm(struct dg_qp *qp)
{
    if (qp->armed)
        return 0;
    if (ibv_req_notify_cq(qp->cq, 0))
        return -EIO;
    return 1;
}
