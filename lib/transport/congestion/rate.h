/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reaction point (A17.9.3): a queue pair that gets CNPs has a controller (lib/cc) from the
 * first one on, until it may send at the rate of the line again. Controllers that work by delay are
 * there from the first packet on, and bound the window, too. A queue pair may have a limit of its
 * own as well (IBV_QP_RATE_LIMIT), and so may its path (static_rate); for those of address handles
 * see req_ud.c. In between its turns to send
 * ask here, for requests and responses to READs (not where the delay alone decides); acknowledges
 * and CNPs are not held back.
 */
#ifndef UROCE_RATE_H
#define UROCE_RATE_H

#include "engine_private.h"
#include "tx_allowance.h"

/* Whether CNPs for qp change something. */
static inline bool rate_is_controlled(const struct engine *e, const struct qp *qp)
{
    const struct cc_ops *ops = e->cfg.congestion.control;

    return ops && ops->on_cnp && qp_can_receive(qp);
}

/* Whether it has a controller that is to know of round trips, and of marks. */
static inline bool rate_wants_acks(const struct qp *qp)
{
    return qp->cc.ops && qp->cc.ops->on_ack;
}

static inline bool rate_wants_marks(const struct qp *qp)
{
    return qp->cc.ops && qp->cc.ops->on_ce;
}

/* Sends from now on, or has a new window: a controller that works by delay begins, or goes on. */
void rate_begin(struct engine *e, struct qp *qp);
/* The local ACK timeout has changed. */
void rate_timeout_changed(struct qp *qp);

void rate_on_cnp(struct engine *e, struct qp *qp);

/* Packets of its peer have arrived marked, and it wants to know. */
void rate_on_marks(struct engine *e, struct qp *qp);

/* The packet that was timed has its answer after `delay`, and the controller wants to know. */
void rate_on_ack(struct engine *e, struct qp *qp, ns_t delay);

/* The local ACK timeout is over. */
void rate_on_timeout(struct engine *e, struct qp *qp);

/* Packets, at most n, that a paced queue pair may send. Where it must wait, nothing of *allow is
 * left but acknowledges, and the timer is armed. */
unsigned rate_admit(struct engine *e, struct qp *qp, struct tx_allowance *allow, unsigned n);

/* It has built `taken` packets, of requests or of responses; jobs that are not sealed have their
 * length in the job. */
void rate_charge(struct engine *e, struct qp *qp, const struct frame *frames, unsigned taken,
                 bool responses);

/* Its time has come. */
void rate_timer(struct engine *e, struct qp *qp);

/* It sends at any rate, without a controller and without a limit. */
void rate_forget(struct engine *e, struct qp *qp);

/* -EINVAL: bursts at attr->rate_limit, with a packet of the path MTU, may be larger than
 * attr->rate_burst; or an XRC receive side, which posts nothing. */
int rate_check_limit(const struct qp *qp, const struct qp_attr *attr);

/* Bits per second: of what it sends, from the Ethernet header on; 0: no limit. */
void rate_set_limit(struct engine *e, struct qp *qp, uint64_t limit);

#endif
