/* SPDX-License-Identifier: BSD-3-Clause */
/* See probe.h. */
#include "probe.h"

#ifdef HAVE_SDT

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define COLD __attribute__((cold, noinline))

static uint64_t bytes_of(const struct sqe *s)
{
    const struct sge *sge = s->flags & SQE_SGE_IN_HEADER ? &s->sge : (const struct sge *)(s + 1);
    uint64_t bytes = s->inline_len;

    for (unsigned i = 0; i < s->num_sge; i++)
        bytes += sge[i].length;
    return bytes;
}

COLD void probe_sends(const struct shim_qp *qp, uint32_t from, uint32_t to)
{
    const struct ibv_qp *base = &qp->ex.qp_base;

    for (; from != to; from++) {
        const struct sqe *s = ring_slot(&qp->queue.sq, from);

        STAP_PROBE5(rdma_core_uroce, post_send, base->context->device->name, base->qp_num,
                    shim_wr_opcode_str(s->opcode), (uint32_t)bytes_of(s), s->wr_id);
    }
}

COLD void probe_receives(const struct ibv_context *context, uint32_t number,
                         const struct client_ring *ring, uint32_t from, uint32_t to)
{
    for (; from != to; from++) {
        const struct rqe *r = ring_slot(ring, from);

        STAP_PROBE4(rdma_core_uroce, post_recv, context->device->name, r->wr_id, number,
                    (int)r->num_sge);
    }
}

static void fire(const char *device, const struct ibv_wc *wc)
{
    STAP_PROBE7(rdma_core_uroce, process_completion, device, wc->wr_id, (int)wc->status,
                (int)wc->opcode, wc->src_qp, wc->qp_num, wc->byte_len);
}

COLD void probe_completion(const struct ibv_context *context, const struct cqe *e)
{
    struct ibv_wc wc = {.wr_id = e->wr_id,
                        .status = e->status,
                        .opcode = e->opcode,
                        .src_qp = e->src_qpn,
                        .qp_num = e->qpn,
                        .byte_len = e->byte_len};

    fire(context->device->name, &wc);
}

#else

void probe_sends(const struct shim_qp *qp, uint32_t from, uint32_t to)
{
}

void probe_receives(const struct ibv_context *context, uint32_t number,
                    const struct client_ring *ring, uint32_t from, uint32_t to)
{
}

void probe_completion(const struct ibv_context *context, const struct cqe *e)
{
}

#endif
