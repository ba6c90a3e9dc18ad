/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a daemon, by its control socket (CTL_SHOW). Any thread. */
#ifndef UROCE_STATE_H
#define UROCE_STATE_H

#include <jansson.h>
#include <time.h>

#include "ctl_msg.h"

/* Connects to the socket at path; its calls then wait for `seconds` at most. A close-on-exec
 * descriptor, or a negative errno. */
int state_connect(const char *path, time_t seconds);
/* How long answers of a connection are waited for. 0 or a negative errno. */
int state_limit(int sock, time_t seconds);

/* The state, or a part of it, for the caller to free. NULL: *err is -EAGAIN, as there was no answer
 * in time, -EPROTO or another negative errno. */
json_t *state_ask(int sock, enum ctl_show_what what, int *err);

#endif
