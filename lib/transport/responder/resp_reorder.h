/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests behind a gap, executed when it is filled: resp_reorder.c. The owner worker. */
#ifndef UROCE_RESP_REORDER_H
#define UROCE_RESP_REORDER_H

#include "engine_private.h"

/* Executes what is kept and expected now: at the end of a burst, and when READs were answered. */
void resp_execute_kept(struct engine *e);

#endif
