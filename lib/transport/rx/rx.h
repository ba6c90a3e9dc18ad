/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive path. rx_burst.c walks through a burst: rx_batch.c processes the frames of a batch,
 * rx_general.c all others one by one.
 */
#ifndef UROCE_RX_H
#define UROCE_RX_H

#include "cnp.h"

/* ---- rx_general.c ---- */

/* Processes frame i of a burst: counted, given to sniffers, and to its queue pair, another engine,
 * or the punt path. verified: its ICRC is known to be right. */
void rx_general(struct engine *e, unsigned i, struct frame *f, bool verified);

/* ---- rx_trim.c ---- */

/* Frame i of a burst is to be dropped, and cfg.trim_dscp is not 0: whether it is a trimmed one
 * after all, which is then counted, forwarded or acted on. */
bool rx_trimmed(struct engine *e, unsigned i, const struct frame *f);

/* ---- rx_validate.c ---- */

/* 9.6.1 and A17.3.4: the checks of a packet that need its queue pair. */
enum drop rx_validate(struct engine *e, struct rx_job *job);
/* A14.4: the SRQ that a request of XRC names, which has to be of the queue pair's domain; or NULL.
 */
struct srq *xrc_srq_find(const struct engine *e, const struct qp *qp, uint32_t srqn);
/* A CNP: of the peer of a controlled queue pair. */
enum drop rx_validate_cnp(const struct engine *e, const struct rx_job *job);
/* A packet to a group that no queue pair of the port has joined is dropped, and one of another
 * partition. */
enum drop rx_validate_mcast(const struct engine *e, const struct rx_job *job);

/* ---- rx_mcast.c ---- */

/* A UD queue pair in a multicast group, as one engine knows it. */
struct mcast_member {
    struct engine *engine;
    struct mcast_group *group;
    struct qp *qp;
    LIST_ENTRY(mcast_member) link;  /* in the group: the engine's worker */
    LIST_ENTRY(mcast_member) of_qp; /* of all engines: the control thread, and workers for it */
};

/* A group that has members. */
struct mcast_group {
    union gid gid;
    LIST_HEAD(, mcast_member) members;
};

/* ---- rx_groups.c ---- */

/* The group of the engine with this GID, or NULL. */
struct mcast_group *rx_mcast_group(const struct engine *e, const union gid *gid);
/* The same; made if there is none, without members. NULL: out of memory. */
struct mcast_group *rx_mcast_group_get(struct engine *e, const union gid *gid);
/* Frees a group without members. */
void rx_mcast_group_put(struct engine *e, struct mcast_group *g);

/* ---- rx_mcast.c ---- */

/* Delivers a multicast packet to every member of its group that e owns, and forwards it to the
 * engines that own the others. */
void rx_mcast(struct engine *e, unsigned job, const struct frame *f);
void rx_mcast_forget(struct engine *e, struct qp *qp);

/* ---- counters ---- */

/* Packets that qp received; ce: those that the network marked. */
static inline void rx_count_qp(struct engine *e, struct qp *qp, unsigned packets, uint32_t payload,
                               unsigned ce)
{
    counter_add(&qp->counters.rx_packets, packets);
    counter_add(&qp->counters.rx_bytes, payload);
    if (unlikely(ce)) {
        counter_add(&qp->counters.np_ecn_marked_roce_packets, ce);
        cnp_note_marks(e, qp);
    }
}

/* A packet of qp has arrived: the first one in RTR is told of. */
static inline void rx_note_established(struct engine *e, struct qp *qp)
{
    if (qp->state != QPS_RTR || qp->comm_est_raised)
        return;
    qp->comm_est_raised = true;
    e->cfg.host.async_event(e->cfg.host.ctx, qp, NULL, QP_EVENT_COMM_EST);
}

/* qp's packets arrive at the engine that owns it. */
static inline void rx_arrived_here(struct qp *qp)
{
    if (unlikely(qp->misplaced_count))
        qp->misplaced_count = 0;
}

#endif
