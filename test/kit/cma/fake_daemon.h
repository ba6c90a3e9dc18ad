/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon that has event channels and ids, and no device: for tests of librdmacm. It serves one
 * connection at a time, in a thread of its own; tests call it from theirs.
 */
#ifndef UROCE_TEST_FAKE_DAEMON_H
#define UROCE_TEST_FAKE_DAEMON_H

#include "ctl_msg.h"

/* Starts it on a socket in a folder of its own, which $UROCE_SOCKET names. */
void fake_daemon_start(void);
/* Ends the connection and what belongs to it, as a restart does; the next one is served again. */
void fake_daemon_restart(void);
void fake_daemon_stop(void);

/* Sends an event of the id `handle`: on its channel, with its cookie unless event->cookie is set.
 * A CONNECT_REQUEST is the listener's, and makes a new id, whose handle is returned. */
uint32_t fake_daemon_event(uint32_t handle, const struct ctl_cm_event *event);

/* Whether of the next event the last half is kept back, until this says that none is. */
void fake_daemon_hold(bool hold);

/* The last request of a type; and how many there were. */
unsigned fake_daemon_calls(enum ctl_type type, struct ctl_msg *last);
/* What the next request of a type is answered with, instead of 0. */
void fake_daemon_fail(enum ctl_type type, int status);
/* The reply to the next request of a type waits; until the request is there and done; until now. */
void fake_daemon_delay(enum ctl_type type);
void fake_daemon_await(void);
void fake_daemon_reply(void);
/* The next event names a device that does not exist any more. */
void fake_daemon_lose_device(void);
/* Whether addresses and routes are found at once. Not from the start. */
void fake_daemon_at_once(bool at_once);
/* Ids that exist. */
unsigned fake_daemon_ids(void);

#endif
