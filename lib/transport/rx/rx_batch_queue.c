/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of a batch whose bytes go to memory that is not mapped: see rx_batch.h. */
#include "rx_batch.h"

struct rx_job *rx_batch_job(struct rx_batch *b, unsigned i)
{
    struct rx_job *job = &b->e->rx_job[b->job + i];

    job->qp = b->qp;
    job->srq = b->xrc_srq;
    job->is_response = false;
    job->pkt.opcode = bth_opcode(b->span[i].bth);
    job->pkt.psn = bth_psn(b->span[i].bth);
    return job;
}

struct rx_job *rx_batch_queue(struct rx_batch *b, const struct mr_grant *g, unsigned i, uint64_t va,
                              const uint8_t *payload, uint32_t len)
{
    struct mem_batch *batch = &b->e->batch;
    struct mem_region *mr = g->copied;

    if (!mr || !mr_covers(mr, va, len) || mem_batch_full(batch) || mem_refuses(batch, mr))
        return NULL;
    mem_batch_out(batch, mr, mr_host_addr(mr, va), payload, len, b->job + i);
    return rx_batch_job(b, i);
}
