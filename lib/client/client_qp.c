/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, destroying and resetting queue pairs; posting is in client_qp.h. */
#include "client_qp.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_cq.h"

static struct client_ring_layout sq_layout(const struct ctl_create_qp *r)
{
    return (struct client_ring_layout){r->sq_off, r->sq_size, r->sq_stride, r->caps.max_send_sge};
}

static struct client_ring_layout rq_layout(const struct ctl_create_qp *r)
{
    return (struct client_ring_layout){r->rq_off, r->rq_size, r->rq_stride, r->caps.max_recv_sge};
}

static bool reply_fits(const struct ctl_msg *reply, const struct client_piece *piece)
{
    const struct ctl_create_qp *r = &reply->create_qp;
    struct client_ring_layout sq = sq_layout(r), rq = rq_layout(r);

    return r->db_slot < DB_SLOTS && r->segment_bytes <= piece->bytes &&
           client_ring_fits(&sq, sqe_stride(sq.max_sge, r->caps.max_inline_data),
                            sizeof(struct qp_shared), r->segment_bytes) &&
           client_ring_fits(&rq, rqe_stride(rq.max_sge), sizeof(struct qp_shared),
                            r->segment_bytes);
}

static const struct client_queue_kind kind = {CTL_CREATE_QP, CTL_DESTROY_QP,
                                              offsetof(struct ctl_msg, create_qp.place),
                                              offsetof(struct ctl_msg, create_qp.qpn), reply_fits};
static const struct client_queue_kind modified_kind = {
    CTL_CREATE_QP_IN, CTL_DESTROY_QP, offsetof(struct ctl_msg, create_qp_in.create.place),
    offsetof(struct ctl_msg, create_qp_in.create.qpn), reply_fits};

static void use_segment(struct client_qp *qp, const struct ctl_create_qp *r,
                        struct qp_shared *shared)
{
    struct client_ring_layout sq = sq_layout(r), rq = rq_layout(r);

    qp->rq_notify = &shared->rq_notify;
    client_ring_use(&qp->sq, &sq, shared, &shared->sq_prod);
    client_ring_use(&qp->rq, &rq, shared, &shared->rq_prod);
}

int client_qp_create(struct client *c, struct client_qp *qp, const struct client_qp_uses *uses,
                     struct ctl_create_qp_in *r)
{
    struct ctl_msg m = {.create_qp_in = *r};
    const struct ctl_create_qp *is = &m.create_qp_in.create;
    struct client_piece piece;
    int err;

    memset(qp, 0, sizeof(*qp));
    qp->client = c;
    qp->uses = *uses;
    err = slot_table_reserve(&c->qps, &qp->uidx);
    if (err)
        return err;
    m.create_qp_in.create.uidx = qp->uidx;
    err = client_queue_create(&c->conn, &c->slabs, r->modify.mask ? &modified_kind : &kind, &m,
                              &piece);
    if (err) {
        slot_table_remove(&c->qps, qp->uidx);
        return err;
    }
    *r = m.create_qp_in;
    if (r->modify_status > 0 || r->modify_status < -CTL_ERRNO_MAX)
        r->modify_status = -EIO;
    use_segment(qp, is, piece.base);
    if (is->type == QPT_XRC_RECV || !is->caps.max_send_wr)
        qp->sq.size = 0;
    if (is->type == QPT_XRC_RECV || !is->caps.max_recv_wr)
        qp->rq.size = 0;
    qp->qpn = is->qpn;
    qp->max_inline = is->caps.max_inline_data;
    qp->db_slot = is->db_slot;
    qp->doorbells = c->shared->worker;
    qp->workers = c->workers;
    qp->worker = &c->shared->slot_worker[is->db_slot];
    qp->wake_fd = c->wake_fd;
    client_qp_count_cqs(uses, 1);
    return 0;
}

void client_qp_publish(struct client_qp *qp)
{
    slot_table_publish(&qp->client->qps, qp->uidx, qp);
}

int client_qp_open(struct client *c, struct client_qp *qp, struct ctl_open_qp *r)
{
    struct ctl_msg m = {.open_qp = *r};
    int err;

    memset(qp, 0, sizeof(*qp));
    qp->client = c;
    err = slot_table_reserve(&c->qps, &qp->uidx);
    if (err)
        return err;
    m.open_qp.uidx = qp->uidx;
    err = conn_call(&c->conn, CTL_OPEN_QP, &m, NULL, 0, NULL, 0);
    if (err) {
        slot_table_remove(&c->qps, qp->uidx);
        return err;
    }
    *r = m.open_qp;
    qp->qpn = r->handle;
    return 0;
}

static void clean_cqs(const struct client_qp_uses *uses, uint32_t uidx)
{
    if (uses->send_cq)
        client_cq_clean(uses->send_cq, uidx);
    if (uses->recv_cq && uses->recv_cq != uses->send_cq)
        client_cq_clean(uses->recv_cq, uidx);
}

void client_qp_count_cqs(const struct client_qp_uses *uses, int by)
{
    if (uses->send_cq)
        atomic_fetch_add(&uses->send_cq->users, by);
    if (uses->recv_cq && uses->recv_cq != uses->send_cq)
        atomic_fetch_add(&uses->recv_cq->users, by);
}

/* First it leaves its completion queues, so that none of its WQEs is flushed after the cleaning. */
static void drop_completions(struct client_qp *qp)
{
    struct slot_table *table = &qp->client->qps;
    struct client_qp_uses uses;

    pthread_mutex_lock(&table->lock);
    uses = qp->uses;
    qp->uses = (struct client_qp_uses){0};
    pthread_mutex_unlock(&table->lock);
    clean_cqs(&uses, qp->uidx);
    client_qp_count_cqs(&uses, -1);
}

/* While it is leaving nothing is flushed from its rings. */
static void set_leaving(struct client_qp *qp, bool leaving)
{
    pthread_mutex_lock(&qp->client->qps.lock);
    qp->sq.leaving = qp->rq.leaving = leaving;
    pthread_mutex_unlock(&qp->client->qps.lock);
}

int client_qp_end(struct client_qp *qp, enum ctl_type type, uint32_t handle)
{
    struct client *c = qp->client;
    int err;

    set_leaving(qp, true);
    err = client_slab_destroy(&c->conn, &c->slabs, type, handle);
    if (err && err != -EIO) {
        set_leaving(qp, false);
        return err;
    }
    drop_completions(qp);
    slot_table_remove(&c->qps, qp->uidx);
    return err;
}

int client_qp_destroy(struct client_qp *qp)
{
    return client_qp_end(qp, CTL_DESTROY_QP, qp->qpn);
}

void client_qp_reset(struct client_qp *qp)
{
    clean_cqs(&qp->uses, qp->uidx);
    if (!qp->sq.entries) /* it was opened */
        return;
    client_ring_reset(&qp->sq);
    client_ring_reset(&qp->rq);
    qp->timed.next = 0;
    atomic_store(&qp->timed.out, false);
}

int client_qp_set_entropy(struct client_qp *qp, struct ctl_entropy entropy)
{
    struct ctl_msg m = {.set_entropy = {.qpn = qp->qpn, .entropy = entropy}};

    return conn_call(&qp->client->conn, CTL_SET_ENTROPY, &m, NULL, 0, NULL, 0);
}

void client_qp_wake(struct client_qp *qp, uint32_t worker)
{
    uint64_t one = 1;

    /* write() would be a cancellation point. */
    syscall(SYS_write, qp->wake_fd[worker], &one, sizeof(one));
}
