/* SPDX-License-Identifier: BSD-3-Clause */
#include "rings.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE));

    memset(p, 0, bytes);
    return p;
}

static void make_ring(struct client_ring *ring, struct work_queue *q, _Atomic uint32_t *prod,
                      uint32_t stride)
{
    ring->size = RINGS_WR;
    ring->stride = stride;
    ring->max_sge = RINGS_SGE;
    ring->shared_prod = prod;
    ring->entries = zeroed((size_t)RINGS_WR * stride);
    *q = (struct work_queue){.ring = ring->entries,
                             .prod = prod,
                             .size = RINGS_WR,
                             .stride = stride,
                             .max_sge = RINGS_SGE,
                             .max_inline = RINGS_INLINE};
}

static void make_qp(struct rings *r)
{
    struct client_qp *q;

    r->qp = zeroed(sizeof(*r->qp));
    r->shared = zeroed(sizeof(*r->shared));
    q = &r->qp->queue;
    q->client = &r->client;
    q->max_inline = RINGS_INLINE;
    q->doorbells = r->client.shared->worker;
    q->workers = r->client.workers = 1;
    q->wake_fd = r->client.wake_fd;
    q->db_slot = 5;
    q->qpn = RINGS_QPN;
    q->rq_notify = &r->shared->rq_notify;
    q->uses = (struct client_qp_uses){.send_cq = &r->cq->queue, .recv_cq = &r->cq->queue};
    q->worker = &r->client.shared->slot_worker[0];
    make_ring(&q->sq, &r->dataplane_sq, &r->shared->sq_prod, sqe_stride(RINGS_SGE, RINGS_INLINE));
    make_ring(&q->rq, &r->dataplane_rq, &r->shared->rq_prod, rqe_stride(RINGS_SGE));
    slot_table_reserve(&r->client.qps, &q->uidx);
    slot_table_publish(&r->client.qps, q->uidx, q);
    qp_ex_init(r->qp, IBV_QPT_RC, 0);
    r->qp->ex.qp_base.state = IBV_QPS_RTS;
}

static void make_cq(struct rings *r)
{
    r->cq = zeroed(sizeof(*r->cq));
    r->cq->queue.client = &r->client;
    r->cq->queue.reader =
        (struct cq_reader){.shared = zeroed(cq_segment_bytes(RINGS_CQE, RINGS_LANES)),
                           .size = RINGS_CQE,
                           .lanes = RINGS_LANES};
    comp_queue_init(&r->dataplane_cq, r->cq->queue.reader.shared, RINGS_CQE, RINGS_LANES);
    slot_table_reserve(&r->client.cqs, &r->cq->queue.id);
    slot_table_publish(&r->client.cqs, r->cq->queue.id, &r->cq->queue);
    cq_ex_init(r->cq,
               IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN);
}

struct rings *rings_new(void)
{
    struct rings *r = zeroed(sizeof(*r));

    r->client.shared = zeroed(ctx_segment_bytes(1));
    r->client.conn.inherited = true; /* there is no daemon to look for */
    r->client.wake_fd[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&r->client.shared->spin_limit, 1000);
    slot_table_init(&r->client.qps);
    slot_table_init(&r->client.cqs);
    make_cq(r);
    make_qp(r);
    return r;
}

void rings_free(struct rings *r)
{
    slot_table_destroy(&r->client.qps);
    slot_table_destroy(&r->client.cqs);
    free(r->qp->queue.sq.entries);
    free(r->qp->queue.rq.entries);
    free(r->qp);
    free(r->shared);
    free(r->cq->queue.reader.shared);
    free(r->cq);
    free(r->client.shared);
    close(r->client.wake_fd[0]);
    free(r);
}

void rings_complete(struct rings *r, enum wc_opcode opcode, uint32_t wqe, enum wc_status status,
                    uint64_t wr_id)
{
    struct cqe e = {.wr_id = wr_id,
                    .timestamp = 77,
                    .qpn = RINGS_QPN,
                    .src_qpn = 9,
                    .byte_len = 100 + wqe,
                    .imm = 0xAABBCCDD,
                    .uidx = r->qp->queue.uidx,
                    .wqe = wqe,
                    .status = (uint8_t)status,
                    .opcode = (uint8_t)opcode,
                    .wc_flags = WC_WITH_IMM,
                    .sl = 3,
                    .vlan = wqe ? 0x123 : CQE_VLAN_NONE};

    cq_post(&r->dataplane_cq, wqe % RINGS_LANES, &e, false);
}
