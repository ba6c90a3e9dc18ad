/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trimmed frames (frame_trim.h): a switch without room has forwarded the headers of a frame, so its
 * packet is known to be lost before another one shows that, or a timer. Only frames that are
 * dropped anyhow come here: shorter than their headers say, or with a wrong ICRC.
 *
 * Nothing vouches for the headers, which have no ICRC. Therefore they change nothing that is
 * acknowledged, placed or completed: the most that a trimmed frame does is one answer, or one
 * retransmission, as a frame may have that is forged with an ICRC. It is a counted drop in any
 * case.
 */
#include "completer.h"
#include "frame_trim.h"
#include "responder.h"
#include "rx.h"
#include "rx_forward.h"

static void act_on_loss(struct engine *e, struct rx_job *job)
{
    struct qp *qp = job->qp;

    if (encap_is_marked(&job->view)) {
        counter_inc(&qp->counters.np_ecn_marked_roce_packets);
        cnp_note_marks(e, qp);
    }
    if (!qp_is_reliable(qp) || qp->fault)
        return;
    if (pkt_info(&job->pkt)->flags & PF_RESPONSE)
        comp_trimmed(e, qp, &job->pkt);
    else
        resp_trimmed(e, qp, &job->pkt);
}

/* The queue pair of a packet that only one of this device may have, or NULL. */
static struct qp *find_qp(const struct engine *e, const struct pkt *p)
{
    if (p->dest_qpn == QPN_MULTICAST || p->dest_qpn == QPN_GSI)
        return NULL;
    return qp_table_lookup(e->cfg.qps, p->dest_qpn);
}

bool rx_trimmed(struct engine *e, unsigned i, const struct frame *f)
{
    struct rx_job *job = &e->rx_job[i];
    struct frame_trimmed t;
    struct engine *owner;
    enum drop reason;

    if (!frame_trim_read(&t, f->data, f->len, e->cfg.trim_dscp, e->cfg.port))
        return false;
    job->view = t.view;
    job->pkt = t.pkt;
    job->matched = false;
    job->qp = find_qp(e, &job->pkt);
    owner = job->qp ? qp_owner_engine(job->qp) : NULL;
    if (owner && owner != e) {
        rx_forward(e, f, owner);
        return true;
    }
    reason = owner ? rx_validate(e, job) : DROP_unknown_qpn;
    engine_drop(e, reason == DROP_NONE ? DROP_trimmed : reason, job->pkt.dest_qpn);
    if (reason == DROP_NONE)
        act_on_loss(e, job);
    return true;
}
