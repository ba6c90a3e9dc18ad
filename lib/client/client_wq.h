/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work queue for raw packets: the receive half of a queue pair, with a number, a state and
 * completions of its own. Posting needs no doorbell.
 */
#ifndef UROCE_CLIENT_WQ_H
#define UROCE_CLIENT_WQ_H

#include "client_qp.h"

struct client_wq {
    /* Only rq, qpn, uidx, client and uses are used. It is in the context's table of queue pairs, so
     * that a poller finds both kinds there. */
    struct client_qp half;
    uint32_t handle;
    /* Times it was reset: an event of before a reset means nothing. Atomic, because one thread may
     * modify the work queue while another reads events. */
    _Atomic uint32_t resets;
};

/* Creates it in RESET, with the receive half of these queues. r: pd, cq, type, srq, max_wr, max_sge
 * as in the protocol; the reply replaces it. Returns 0 or a negative errno. */
int client_wq_create(struct client *c, struct client_wq *wq, const struct client_qp_uses *uses,
                     struct ctl_create_wq *r);

/* Destroys it and its outstanding completions. Returns as client_qp_destroy. */
int client_wq_destroy(struct client_wq *wq);

/* Requests a state; RESET also drops posted WQEs and outstanding completions. *state, of enum
 * ibv_wq_state: in, the requested one; out, if the daemon answered, the one that the queue is in.
 * Returns 0 or a negative errno. */
int client_wq_modify(struct client_wq *wq, uint32_t *state);

#endif
