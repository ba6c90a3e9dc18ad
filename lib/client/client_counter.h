/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion counters: memory in which the daemon's workers count completed work. */
#ifndef UROCE_CLIENT_COUNTER_H
#define UROCE_CLIENT_COUNTER_H

#include "client.h"
#include "comp_counter.h"

struct client_counter {
    struct client *client;
    struct counter_reader reader;
    uint32_t handle;
};

/* Creates a counter of this enum ctl_counter_type; its counts are 0. 0 or a negative errno. */
int client_counter_create(struct client *c, struct client_counter *counter, uint32_t type);

/* 0, also when the daemon is gone; -EBUSY while queue pairs have it; -EIO: the daemon does not
 * answer, and the counter is gone too. */
int client_counter_destroy(struct client_counter *counter);

/* It counts this work (enum qp_count) of the queue pair from now on. 0 or a negative errno. */
int client_counter_attach(struct client_counter *counter, uint32_t qpn, uint32_t what);

#endif
