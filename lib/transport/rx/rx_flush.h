/* SPDX-License-Identifier: BSD-3-Clause */
/* Queued copies of received bytes. */
#ifndef UROCE_RX_FLUSH_H
#define UROCE_RX_FLUSH_H

#include "engine_private.h"

/* Does the queued copies now. Those that fail become the responder's fault, or the status of the
 * READ whose response they are. */
void rx_flush(struct engine *e);

#endif
