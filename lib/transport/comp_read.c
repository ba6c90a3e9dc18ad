/* SPDX-License-Identifier: BSD-3-Clause */
/* The completer: responses that carry data. */
#include "transport.h"

/*
 * The slot that response p belongs to, if it is the next one it waits for. All before it is thereby
 * acknowledged; a gap means that responses were lost, and the requester goes back.
 */
static struct send_slot *expected_slot(struct engine *e, struct qp *qp, unsigned job)
{
    struct rx_job *rx = &e->rx_job[job];
    struct send_slot *s;

    if (!comp_ack_before(e, qp, rx->pkt.psn))
        return NULL;
    s = comp_slot(qp, rx->pkt.psn, &rx->slot);
    if (!s || s->status != WC_SUCCESS || !psn_eq(psn_add(s->first, s->done), rx->pkt.psn))
        return NULL;
    return s;
}

static void fail_slot(struct engine *e, struct qp *qp, struct send_slot *s, uint8_t status)
{
    s->status = status;
    engine_touch(e, qp);
}

static void response_taken(struct engine *e, struct qp *qp, struct send_slot *s, psn_t p)
{
    if (++s->done == s->packets && qp->req.rd_outstanding)
        qp->req.rd_outstanding--;
    comp_progress(e, qp, psn_add(p, 1));
}

/* Bytes of the next response; FLUSH and ATOMIC WRITE are answered by an empty one (A19.4). */
static uint32_t response_len(const struct qp *qp, const struct send_slot *s)
{
    switch (s->wqe.h.opcode) {
    case SQE_READ:
        return min_of(s->len - s->done * qp->mtu, qp->mtu);
    case SQE_FLUSH:
    case SQE_ATOMIC_WRITE:
        return 0;
    default:
        return UINT32_MAX;
    }
}

void comp_read(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct send_slot *s = expected_slot(e, qp, job);
    uint32_t off;
    bool last;

    if (!s)
        return;
    off = s->done * qp->mtu;
    last = s->done + 1 == s->packets;
    if (p->payload_len != response_len(qp, s) || last != !!(pkt_info(p)->flags & PF_END)) {
        fail_slot(e, qp, s, WC_BAD_RESP_ERR);
        return;
    }
    if (p->payload_len && sg_scatter(e, qp->pd, s->wqe.sge, s->wqe.h.num_sge, off, p->payload,
                                     p->payload_len, job) != MR_OK) {
        fail_slot(e, qp, s, WC_LOC_PROT_ERR);
        return;
    }
    response_taken(e, qp, s, p->psn);
}

void comp_atomic(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    struct send_slot *s = expected_slot(e, qp, job);

    if (!s)
        return;
    if (s->wqe.h.opcode != SQE_CMP_SWP && s->wqe.h.opcode != SQE_FETCH_ADD) {
        fail_slot(e, qp, s, WC_BAD_RESP_ERR);
        return;
    }
    s->atomic_value = p->atomic_ack;
    if (sg_scatter(e, qp->pd, s->wqe.sge, s->wqe.h.num_sge, 0, (const uint8_t *)&s->atomic_value,
                   sizeof(s->atomic_value), job) != MR_OK) {
        fail_slot(e, qp, s, WC_LOC_PROT_ERR);
        return;
    }
    response_taken(e, qp, s, p->psn);
}
