/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Rules (inject.h) in front of a port: a struct pktio that spoils frames on their way. It stands in
 * worker_port.io while there are rules for the port, and until the last frame that it holds or has
 * lent is gone; otherwise the worker uses the port itself, and rules cost nothing.
 *
 * A frame that waits (delay, reorder, duplicate) is a copy in memory of this port. The worker polls
 * while there is one.
 */
#ifndef UROCE_PORT_INJECT_H
#define UROCE_PORT_INJECT_H

#include "inject_act.h"
#include "worker.h"

/** What a part of a port does by its rules. */
struct port_inject;

/**
 * Give a part of a port its rules, in place of those that it has. The first one that acts on a
 * frame decides about it. Control thread, not within worker_call().
 *
 * @param port  The part.
 * @param rule  The rules, borrowed until the next call; the array is copied.
 * @param n  How many, at most INJECT_RULES_MAX; 0: the port works as if there never were any.
 * @return  0; -ENOMEM, and nothing has changed: never with n 0.
 */
int port_inject_set(struct worker_port *port, struct inject_live *const *rule, unsigned n);

/**
 * Free what port_inject_set() made. No worker runs, and no frame is lent. Control thread.
 *
 * @param port  The part.
 */
void port_inject_free(struct worker_port *port);

#endif
