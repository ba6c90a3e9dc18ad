/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw queue pairs' frames: the bytes of a work request, as they are. */
#include "encap_layout.h"
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
    if (!req_gather(e, qp, s, job->frame->data, s->len))
        return false;
    job->encap = NULL;
    job->slot = req->send;
    job->psn = s->first;
    job->bth_len = (uint16_t)s->len;
    req_commit_packet(e, qp, s, false);
    return true;
}

uint8_t raw_priority(const uint8_t *frame, uint32_t len)
{
    uint16_t tci = VLAN_NONE;
    uint8_t traffic_class = 0;

    if (len >= ETH_LEN + 2) {
        uint16_t type = get_be16(frame + 12);

        if (type == ETHERTYPE_VLAN)
            tci = get_be16(frame + ETH_LEN);
        else if (type == ETHERTYPE_IPV4)
            traffic_class = frame[ETH_LEN + 1];
        else if (type == ETHERTYPE_IPV6)
            traffic_class = (uint8_t)(get_be16(frame + ETH_LEN) >> 4);
    }
    return qos_frame_priority(tci, traffic_class);
}
