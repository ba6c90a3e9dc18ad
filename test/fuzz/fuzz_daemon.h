/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon in this process for the libraries of programs, and one that lies: the answers and the
 * events that they get are changed on the way.
 *
 * The libraries' sockets are ours: connect() makes a pair, and sendmsg() on it has a session answer
 * before it returns. What the daemon sends by itself is in the library's socket when the call that
 * caused it returns.
 */
#ifndef UROCE_FUZZ_DAEMON_H
#define UROCE_FUZZ_DAEMON_H

#include "device_kit.h"
#include "device_private.h"
#include "fuzz_input.h"

#include <poll.h>

#define PUBLIC __attribute__((visibility("default")))

extern struct input in; /* of the current action: an answer takes its changes from here */
extern struct rnic *rnic;
extern ns_t now;

/* The kernel's poll(2), in whose place that of a target may stand. */
int kernel_poll(struct pollfd *p, nfds_t n, int ms);

/* For an input: without connections. */
void daemon_start(void);
/* Ends the connections, and what belongs to them. */
void daemon_end(void);
void daemon_stop(void);
/* Whether connections are refused; not at the start. */
void daemon_refuse(bool refuse);

/* A session that has opened the device, or NULL. */
struct session *daemon_session(void);

/* Sends an event of rdma_cm to the channel with this handle, of the first program that has one. */
void daemon_tell(uint32_t channel, const struct ctl_cm_told *told);

/* What workers and the control thread do, `turns` times. */
void daemon_work(unsigned turns);

#endif
