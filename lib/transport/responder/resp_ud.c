/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD responder (volume 1, 9.8.3): one packet, one receive entry, whose first 40 bytes take the
 * network header (A17.4.5.2). Without a receive entry the packet is dropped.
 */
#include "resp_datagram.h"
#include "resp_rules.h"
#include "responder.h"

void resp_rx_ud(struct engine *e, struct qp *qp, unsigned job)
{
    struct rx_job *rx = &e->rx_job[job];
    const struct pkt *p = &rx->pkt;
    struct responder *resp = &qp->resp;
    struct rx_completion *c;
    enum fault fault;

    if (qp->fault)
        return;
    fault = resp_take_recv(e, qp, NULL);
    if (fault == FAULT_NONE && !resp_room_ok(resp->recv_room, 0, ENCAP_GRH_LEN + p->payload_len))
        fault = why_fault_found(qp, FAULT_RECV_TOO_SMALL, CAUSE_receive_too_small,
                                ENCAP_GRH_LEN + p->payload_len, resp->recv_room, ENCAP_GRH_LEN,
                                p->deth.src_qpn);
    if (fault == FAULT_NONE) {
        encap_grh(rx->grh, rx->view.l3_kind, rx->view.l3);
        fault = resp_scatter(e, qp, job, 0, rx->grh, ENCAP_GRH_LEN);
        if (fault == FAULT_NONE)
            fault = resp_scatter(e, qp, job, ENCAP_GRH_LEN, p->payload, p->payload_len);
    }
    if (fault != FAULT_NONE) {
        resp_fault(e, qp, fault, p->psn);
        return;
    }
    resp->msg_len = ENCAP_GRH_LEN + p->payload_len;
    c = resp_complete_recv(e, qp, job);
    c->cqe.src_qpn = p->deth.src_qpn;
    resp_datagram_cqe(&c->cqe, rx->view.l3_kind, rx->view.vlan_tci);
    memcpy(c->cqe.smac, rx->view.smac, sizeof(c->cqe.smac));
}
