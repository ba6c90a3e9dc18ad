/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP source port of a connection: chosen by the queue pair's policy, which is the port's
 * unless it has one of its own, and changed when the path that the network chose for it seems to be
 * broken.
 *
 * A requester cannot tell whether its requests or their answers are lost. It changes its own port,
 * which mends the first; for the second the peer must change its port, and the sign it has is that
 * the same requests come again and again. A queue pair has one port for requests and answers: both
 * go the same way to the same peer. UC and UD have no answers, so no sign of
 * a broken path.
 */
#include "sport.h"

#include <errno.h>

static uint16_t first_port(const struct engine *e, const struct qp *qp, uint32_t dest_qpn,
                           uint32_t flow_label)
{
    struct entropy_flow flow = {qp->qpn, dest_qpn, .flow_label = flow_label};

    return entropy_port(sport_policy(e, qp), &flow);
}

int sport_set_path(struct engine *e, struct qp *qp, const struct address_vector *av,
                   uint32_t dest_qpn)
{
    struct address_vector path = *av;
    struct encap_template encap;
    int rc;

    path.udp_sport = first_port(e, qp, dest_qpn, av->flow_label);
    rc = encap_template_make(&encap, &path);
    if (rc)
        return rc;
    if (e->cfg.congestion.ect && qp_is_reliable(qp) && encap_template_has_udp(&encap))
        encap_template_set_ect(&encap);
    qp->av = path;
    qp->encap = encap;
    hdr_template_make(&qp->rx_template, e->cfg.port, av);
    return 0;
}

static void port_set(struct qp *qp, uint16_t port)
{
    __atomic_store_n(&qp->av.udp_sport, port, __ATOMIC_RELAXED);
    encap_template_set_sport(&qp->encap, port);
}

static void port_change(struct engine *e, struct qp *qp)
{
    uint16_t next = entropy_port_after(qp->av.udp_sport, qp->qpn, qp->attr.dest_qpn);

    if (!encap_template_has_udp(&qp->encap))
        return;
    note(e, qp, TRACE_REPATH, qp->av.udp_sport, next);
    port_set(qp, next);
    counter_inc(&qp->counters.repaths);
}

/* Before RTR there is none yet, in the error state none any more. The work requests of a UD queue
 * pair bring theirs. */
static bool has_path(const struct qp *qp)
{
    return qp->state >= QPS_RTR && qp->state != QPS_ERR && qp->service != PKT_UD &&
           encap_template_has_udp(&qp->encap);
}

int engine_qp_set_entropy(struct engine *e, struct qp *qp, const struct entropy_policy *policy)
{
    if (qp->type == QPT_RAW_PACKET)
        return -EINVAL;
    qp->own_entropy = policy != NULL;
    if (policy)
        qp->entropy = *policy;
    if (!has_path(qp))
        return 0;
    port_set(qp, first_port(e, qp, qp->attr.dest_qpn, qp->av.flow_label));
    qp->req.stalls = 0;
    qp->resp.rounds = 0;
    return 0;
}

void sport_timed_out(struct engine *e, struct qp *qp)
{
    if (!e->cfg.repath || ++qp->req.stalls < e->cfg.repath)
        return;
    qp->req.stalls = 0;
    port_change(e, qp);
}

/*
 * A requester that gets no answer goes back to its oldest request each time, so a round begins
 * where PSNs stop rising, and rounds that begin at the same PSN say that nothing got through
 * between them. New requests may come in between: it goes on posting until its queue is full.
 */
void sport_request_repeated(struct engine *e, struct qp *qp, psn_t p)
{
    struct responder *resp = &qp->resp;
    bool goes_on = psn_eq(resp->epsn, resp->repeated_epsn) && psn_before(resp->repeated, p);

    resp->repeated = p;
    resp->repeated_epsn = resp->epsn;
    if (!e->cfg.repath || goes_on)
        return;
    if (!psn_eq(p, resp->round_first))
        resp->rounds = 0;
    resp->round_first = p;
    if (++resp->rounds < e->cfg.repath)
        return;
    resp->rounds = 0;
    port_change(e, qp);
}
