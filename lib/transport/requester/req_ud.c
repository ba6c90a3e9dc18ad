/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD requester (volume 1, 9.8.3): each WQE says where its one packet goes. */
#include "id_tables.h"
#include "requester.h"
#include "sport.h"
#include "tx_header.h"

/* The policy's port for this datagram; PSNs count the queue pair's datagrams to all destinations.
 */
static uint16_t source_port(const struct engine *e, const struct qp *qp, const struct pkt *p,
                            const struct address_handle *ah)
{
    struct entropy_flow flow = {.src_qpn = qp->qpn,
                                .dest_qpn = p->dest_qpn,
                                .flow_label = ah->av.flow_label,
                                .index = p->psn.v - qp->attr.sq_psn};

    return entropy_port(sport_policy(e, qp), &flow);
}

/* A datagram by a handle that has a rate (volume 1, 9.11), of bth_len bytes from the BTH on. False:
 * it waits, and those behind it, too. */
static bool may_leave(struct engine *e, struct qp *qp, struct address_handle *ah, size_t bth_len)
{
    ns_t next = pace_next(&ah->pace);

    if (next > e->now) {
        timer_arm(&e->wheel, &qp->pace, TIMER_PACE, next, e->now);
        return false;
    }
    pace_charge(&ah->pace, ah->encap.len + bth_len, e->now);
    return true;
}

bool req_segment_ud(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct requester *req = &qp->req;
    struct send_slot *s = slot_at(req, req->send);
    const struct sqe *w = &s->wqe.h;
    const struct address_handle *ah = ah_find(e->cfg.ahs, w->ud.ah, qp->pd);
    bool imm = w->opcode == SQE_SEND_IMM;
    struct pkt p = {.opcode = OPCODE(PKT_UD, imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY)};
    uint8_t *bth;

    if (!ah) {
        struct address_handle *limited = ah_find_limited(e->cfg.ahs, w->ud.ah, qp->pd);

        if (!limited) {
            s->status = WC_LOC_QP_OP_ERR;
            engine_touch(e, qp);
            return false;
        }
        if (!may_leave(e, qp, limited, pkt_len(p.opcode, s->len)))
            return false;
        ah = limited;
    }
    req_start_slot(req, s);
    p.pkey = PKEY_DEFAULT;
    p.dest_qpn = w->ud.remote_qpn & PSN_MASK;
    p.psn = req->next_psn;
    p.solicited = w->flags & SQE_SOLICITED;
    p.deth.qkey = req_ud_qkey(qp, w);
    p.deth.src_qpn = qp->qpn;
    p.imm = imm ? __builtin_bswap32(w->imm) : 0;
    p.payload_len = s->len;
    bth = job->frame->data + ah->encap.len;
    req_name_job(req, job, p.psn);
    if (!req_payload(e, qp, s, job, bth + pkt_build_headers(bth, &p), p.payload_len))
        return false;
    job->encap = &ah->encap;
    job->bth_len = (uint16_t)pkt_len(p.opcode, p.payload_len);
    encap_tx(job->frame->data, &ah->encap, job->bth_len, e->ip_id++);
    if (encap_template_has_udp(&ah->encap))
        encap_packet_set_sport(bth, source_port(e, qp, &p, ah));
    req_commit_packet(e, qp, s, false);
    return true;
}
