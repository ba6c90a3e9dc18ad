/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The notification point (A17.9.3): a queue pair that receives packets which the network marked
 * "congestion experienced" tells their sender by a CNP, at most one in the port's interval.
 */
#ifndef UROCE_CNP_H
#define UROCE_CNP_H

#include "engine_private.h"

/* Marked packets of its peer have arrived: its controller may want to know, too. Datagrams have no
 * connection whose sender could be told, so they cause none. */
void cnp_note_marks(struct engine *e, struct qp *qp);

/* The CNP that is due into the job, whose frame is set; false: qp may not send it any more. */
bool cnp_build(struct engine *e, struct qp *qp, struct tx_job *job);

#endif
