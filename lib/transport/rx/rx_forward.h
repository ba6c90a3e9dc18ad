/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that another engine of the device has to process. */
#ifndef UROCE_RX_FORWARD_H
#define UROCE_RX_FORWARD_H

#include "engine_private.h"

/* Forwards a frame to another engine, with its ICRC; or drops it. Counted. */
void rx_forward(struct engine *e, const struct frame *f, struct engine *to);
/* The same for the sniffers there. */
void rx_forward_copy(struct engine *e, const struct frame *f, struct engine *to);

/* The frame as its receiver outside of this process would see it: with its ICRC. */
struct frame rx_frame_with_icrc(const struct engine *e, const struct frame *f);

/* A packet of qp was received in this call, forwarded or not: tells the host now and then that qp
 * is misplaced. */
void rx_note_misplaced(struct engine *e, struct qp *qp);

#endif
