/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work queue for raw packets: the receive half of a queue pair, with a number, a state and
 * completions of its own. Posting is as in client_qp.h, without a bell.
 */
#ifndef UROCE_CLIENT_WQ_H
#define UROCE_CLIENT_WQ_H

#include "client_qp.h"

struct client_wq {
    /* Only rq, uidx and client are used. It stands in the context's table of queue pairs, so that
     * who polls need not tell the two apart. */
    struct client_qp half;
    uint32_t handle;
    /* How many times it was reset: an event of before is of the past. Who modifies it, and who
     * reads events, may be two. */
    _Atomic uint32_t resets;
};

/* Creates it in RESET. r: pd, cq, type, srq, max_wr, max_sge as in the protocol; the reply replaces
 * it. Returns 0 or a negative errno. */
int client_wq_create(struct client *c, struct client_wq *wq, struct ctl_create_wq *r);

/* Destroys it and its outstanding completions. Returns 0; a negative errno of the daemon, and then
 * it still exists; or -EIO when the daemon is gone, and then it is destroyed all the same. */
int client_wq_destroy(struct client_wq *wq, struct client_cq *cq);

/* Asks for a state, and in RESET forgets what was posted and has completed. *state: the one wanted
 * (numbers of enum ibv_wq_state), then the one it is in, if the daemon answered. Returns 0 or a
 * negative errno. */
int client_wq_modify(struct client_wq *wq, struct client_cq *cq, uint32_t *state);

#endif
