/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of memory that the daemon has shared with an application. */
#ifndef UROCE_SEGMENT_END_H
#define UROCE_SEGMENT_END_H

#include "control/account.h"
#include "objects/segment.h"

struct session;

/*
 * Frees a segment as segment_destroy. An application can hold the lock of its file for as long as
 * it likes, so this is an errand, unless the daemon ends; its user is charged with the cost until
 * then.
 */
void segment_end(struct session *sn, struct segment *s, const struct quota_cost *cost);

#endif
