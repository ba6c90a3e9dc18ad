/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Rules (inject.h) that complete work requests with an error, in front of the engine of a part of a
 * port. Without rules the engine asks for no judgement, and takes work requests in batches.
 */
#ifndef UROCE_PORT_JUDGE_H
#define UROCE_PORT_JUDGE_H

#include "port_inject.h"

/**
 * Give a part of a port its rules for work requests, in place of those that it has. The first one
 * that acts decides. Control thread, not within worker_call().
 *
 * @param port  The part.
 * @param rule  The rules, borrowed until the next call; the array is copied.
 * @param n  How many, at most INJECT_RULES_MAX; 0: none.
 * @return  0; -ENOMEM, and nothing has changed: never with n 0.
 */
int port_judge_set(struct worker_port *port, struct inject_live *const *rule, unsigned n);

/**
 * Free what port_judge_set() made. No worker runs. Control thread.
 *
 * @param port  The part.
 */
void port_judge_free(struct worker_port *port);

#endif
