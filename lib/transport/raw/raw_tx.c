/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw queue pairs' frames: the bytes of a work request, as they are. */
#include "raw_private.h"
#include "requester.h"

bool raw_segment(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct requester *req = &qp->req;
    struct send_slot *s = slot_at(req, req->send);
    uint32_t max = min_of(job->frame->room, (uint32_t)UINT16_MAX);

    if (e->cfg.port->max_frame)
        max = min_of(max, e->cfg.port->max_frame);
    if (s->len < RAW_LEN_MIN || s->len > max) {
        s->status = WC_LOC_LEN_ERR;
        engine_touch(e, qp);
        return false;
    }
    req_start_slot(req, s);
    req_name_job(req, job, s->first);
    if (!req_gather(e, qp, s, job->frame->data, s->len))
        return false;
    job->encap = NULL;
    job->bth_len = (uint16_t)s->len;
    req_commit_packet(e, qp, s, false);
    return true;
}
