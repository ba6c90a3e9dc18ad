/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a packet that was built by itself: see tx.h. */
#include "frame_csum.h"
#include "frame_peek.h"
#include "tx.h"
#include "tx_header.h"

static uint32_t seal_encap(const struct tx_job *job)
{
    const struct frame *f = job->frame;

    if (job->source)
        return tx_seal_copy(f, job->encap, job->bth_len, job->source, job->source_len);
    return (uint32_t)(f->icrc_omitted ? (size_t)job->encap->len + job->bth_len
                                      : encap_seal(f->data, job->encap, job->bth_len));
}

void tx_seal(struct engine *e, struct tx_job *job)
{
    struct frame *f = job->frame;
    uint8_t priority;

    f->icrc_omitted &= job->encap != NULL; /* a raw frame's ICRC is the program's own */
    if (job->encap) {
        f->len = seal_encap(job);
        priority = job->encap->priority;
    } else {
        f->len = job->bth_len;
        if (slot_at(&job->qp->req, job->slot)->wqe.h.flags & SQE_IP_CSUM)
            frame_csum_write(f->data, f->len);
        priority = frame_priority(f->data, f->len);
    }
    tx_count(e, job->qp, priority, 1, f->len);
}
