/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD responder (volume 1, 9.8.3): one packet, one receive entry, whose first 40 bytes take the
 * network header (A17.4.5.2). Without a receive entry the packet is dropped.
 */
#include "resp_rules.h"
#include "responder.h"

#define GRH_LEN 40

/*
 * RoCE carries no service level. A tag's priority is one; otherwise the CQE says what the network
 * header is, as NICs do: UCX reads it there, and drops datagrams whose header it takes for another.
 */
static uint8_t service_level(const struct encap_view *v)
{
    static const uint8_t kind[] = {
        [ICRC_IPV4] = CQE_SL_IPV4, [ICRC_IPV6] = CQE_SL_IPV6, [ICRC_GRH] = 0};

    if (v->vlan_tci != VLAN_NONE && v->vlan_tci >> 13)
        return (uint8_t)(v->vlan_tci >> 13);
    return kind[v->l3_kind];
}

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
    if (fault == FAULT_NONE && !resp_room_ok(resp->recv_room, 0, GRH_LEN + p->payload_len))
        fault = why_fault_found(qp, FAULT_RECV_TOO_SMALL, CAUSE_receive_too_small,
                                GRH_LEN + p->payload_len, resp->recv_room, 0, 0);
    if (fault == FAULT_NONE) {
        encap_grh(rx->grh, &rx->view);
        fault = resp_scatter(e, qp, job, 0, rx->grh, GRH_LEN);
        if (fault == FAULT_NONE)
            fault = resp_scatter(e, qp, job, GRH_LEN, p->payload, p->payload_len);
    }
    if (fault != FAULT_NONE) {
        resp_fault(e, qp, fault, p->psn);
        return;
    }
    resp->msg_len = GRH_LEN + p->payload_len;
    c = resp_complete_recv(e, qp, job);
    c->cqe.src_qpn = p->deth.src_qpn;
    c->cqe.wc_flags |= WC_GRH;
    c->cqe.sl = service_level(&rx->view);
    c->cqe.vlan = rx->view.vlan_tci == VLAN_NONE ? VLAN_NONE : rx->view.vlan_tci & 0xFFF;
    memcpy(c->cqe.smac, rx->view.smac, sizeof(c->cqe.smac));
}
