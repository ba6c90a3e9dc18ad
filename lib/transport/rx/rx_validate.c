/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of a packet that need its queue pair: see rx.h. */
#include "id_tables.h"
#include "rate.h"
#include "rx.h"
#include "srq.h"

/* The same addresses may be in another VLAN, or speak the other RoCE version. */
static bool same_network(const struct gid_entry *to, const struct address_vector *av)
{
    return to->vlan == av->vlan && to->type == av->gid_type;
}

static bool pkey_matches(uint16_t pkey)
{
    /* The table holds the default partition as a full member: any membership matches it (10.9.3).
     */
    return (pkey & 0x7FFF) == (PKEY_DEFAULT & 0x7FFF);
}

/* Sent by the connected peer, to the address that it is connected to; a frame that matches the
 * template is. */
static bool comes_from_peer(const struct engine *e, const struct rx_job *job)
{
    const struct address_vector *av = &job->qp->av;
    const struct encap_view *v = &job->view;

    return gid_eq(&v->sgid, &av->dgid) && gid_eq(&v->dgid, &av->sgid) &&
           (v->gid_index < 0 || same_network(&e->cfg.port->gids->entry[v->gid_index], av));
}

struct srq *xrc_srq_find(const struct engine *e, const struct qp *qp, uint32_t srqn)
{
    struct srq *srq = e->cfg.srqs ? srq_table_lookup(e->cfg.srqs, srqn) : NULL;

    return qp->type == QPT_XRC_RECV && srq && srq->init.xrc && srq->init.xrcd == qp->xrcd ? srq
                                                                                          : NULL;
}

enum drop rx_validate(struct engine *e, struct rx_job *job)
{
    const struct qp *qp = job->qp;
    const struct pkt *p = &job->pkt;
    uint16_t flags = pkt_info(p)->flags;

    job->srq = NULL;
    if (!qp_can_receive(qp))
        return DROP_qp_state;
    if (pkt_info(p)->service != qp->service)
        return DROP_service_mismatch;
    if (!pkey_matches(p->pkey))
        return DROP_pkey_mismatch;
    if (flags & PF_DETH) {
        if (gid_is_multicast(
                &job->view.dgid)) /* a group has one queue pair number, of all members */
            return DROP_wrong_destination;
        return p->deth.qkey == qp->qkey ? DROP_NONE : DROP_qkey_mismatch;
    }
    if (!job->matched && !comes_from_peer(e, job))
        return DROP_source_mismatch;
    if ((flags & PF_AETH) && unlikely(p->payload_len) && pkt_info(p)->kind == KIND_ACK &&
        !qp->selective)
        return DROP_pad_length; /* a map that was not agreed on */
    if (flags & PF_XRCETH) {    /* A14.4: the SRQ must exist in the queue pair's domain */
        job->srq = xrc_srq_find(e, qp, p->xrc_srqn);
        if (!job->srq)
            return DROP_xrc_srq_mismatch;
    }
    return DROP_NONE;
}

/* Any UDP source port, type of service and P_Key will do: hardware has its own for CNPs. */
enum drop rx_validate_cnp(const struct engine *e, const struct rx_job *job)
{
    const struct qp *qp = job->qp;
    bool connected = qp && job->owner &&
                     (qp->service == PKT_RC || qp->service == PKT_UC || qp->service == PKT_XRC);

    if (!connected || !rate_is_controlled(e, qp))
        return DROP_cnp_unsupported;
    return job->matched || comes_from_peer(e, job) ? DROP_NONE : DROP_source_mismatch;
}

enum drop rx_validate_mcast(const struct engine *e, const struct rx_job *job)
{
    if (!(pkt_info(&job->pkt)->flags & PF_DETH) || !gid_is_multicast(&job->view.dgid))
        return DROP_unknown_qpn;
    if (!pkey_matches(job->pkt.pkey))
        return DROP_pkey_mismatch;
    return rx_mcast_group(e, &job->view.dgid) ? DROP_NONE : DROP_unknown_qpn;
}
