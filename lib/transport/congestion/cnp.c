/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion notification packets: see cnp.h. */
#include "cnp.h"

#include "rate.h"

static bool is_connected(const struct qp *qp)
{
    return qp->service == PKT_RC || qp->service == PKT_UC || qp->service == PKT_XRC;
}

void cnp_note_marks(struct engine *e, struct qp *qp)
{
    const struct congestion_config *c = &e->cfg.congestion;

    if (rate_wants_marks(qp))
        rate_on_marks(e, qp);
    if (!c->cnp_interval || !is_connected(qp) || qp->cnp_due || e->now < qp->cnp_after)
        return;
    qp->cnp_due = true;
    qp->cnp_after = e->now + c->cnp_interval;
    engine_tx_ready(e, qp);
}

/* The headers of the connection, with the code point and the priority that the port gives to CNPs:
 * they are to overtake what fills the queues. */
static const struct encap_template *headers(struct engine *e, const struct qp *qp)
{
    const struct congestion_config *c = &e->cfg.congestion;
    struct encap_template *t = &e->cnp_encap[e->jobs];
    struct address_vector av = qp->av;

    av.traffic_class = (uint8_t)(c->cnp_dscp << 2);
    av.pcp = c->cnp_pcp;
    return encap_template_make(t, &av) ? NULL : t;
}

/* Its BTH has BECN and PSN 0, and its 16 bytes are zero (A17.9.3). */
bool cnp_build(struct engine *e, struct qp *qp, struct tx_job *job)
{
    struct pkt p = {.opcode = OPCODE_CNP,
                    .becn = true,
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = qp->dest_qpn,
                    .payload_len = CNP_PAYLOAD};
    const struct encap_template *t;
    uint8_t *bth;

    qp->cnp_due = false;
    t = qp_can_receive(qp) && !qp->fault ? headers(e, qp) : NULL;
    if (!t)
        return false;
    job->encap = t;
    job->psn = p.psn;
    job->bth_len = (uint16_t)pkt_len(p.opcode, p.payload_len);
    bth = job->frame->data + encap_tx(job->frame->data, t, job->bth_len, e->ip_id++);
    memset(bth + pkt_build_headers(bth, &p), 0, CNP_PAYLOAD);
    counter_inc(&qp->counters.np_cnp_sent);
    return true;
}
