/* SPDX-License-Identifier: BSD-3-Clause */
/* The file with an answer of CTL_SHOW, while the application may have it. */
#ifndef UROCE_DEVICE_SHOWN_H
#define UROCE_DEVICE_SHOWN_H

#include "control/account.h"
#include "session.h"

/* What a user is charged for files with answers and their pages, as the daemon makes them: nothing,
 * if the user is an owner. */
struct quota_cost shown_cost(const struct session *sn, unsigned descriptors, uint64_t bytes);

/*
 * Answers a call with a file of this length. The file and its pages have been charged to
 * the session. The session has no other answer (shown_end). Its next one, or its
 * end, frees the pages, although the application may keep the file. 0: the descriptor fd, and the
 * charge, are the session's; or a negative errno.
 */
int shown_answer(struct session *sn, int fd, uint64_t length, struct ctl_call *call);
/* Frees the pages of the session's last answer, if there is one. At the daemon's end they stay. */
void shown_end(struct session *sn);

#endif
