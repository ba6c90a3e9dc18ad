/* SPDX-License-Identifier: BSD-3-Clause */
/* The file with an answer of CTL_SHOW, while the application may have it. */
#ifndef UROCE_DEVICE_SHOWN_H
#define UROCE_DEVICE_SHOWN_H

#include <stdio.h>

#include "session.h"

/*
 * Answers a call with a file's bytes, from its beginning. The daemon made the file's pages and is
 * charged for them, so its user is, too (owners are not), and the session's next answer, or its
 * end, frees them, although the application may keep the file. 0; -ENOMEM: also when a quota is
 * used up; or another negative errno.
 */
int shown_answer(struct session *sn, FILE *f, struct ctl_call *call);
/* Frees the pages of the session's last answer, if there is one. At the daemon's end they stay. */
void shown_end(struct session *sn);

#endif
