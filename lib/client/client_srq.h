/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared receive queue: its ring. Posting needs no doorbell. */
#ifndef UROCE_CLIENT_SRQ_H
#define UROCE_CLIENT_SRQ_H

#include "client_qp.h"

struct client_srq {
    struct client_ring ring; /* without `cons`: */
    _Atomic uint32_t *taken; /* WQEs before it are free: the dataplane stores it */
    struct client *client;
    const struct client_cq *cq; /* of an XRC one: where its receives complete; else NULL */
    uint32_t uidx, handle, max_wr;
};

/* Creates it; cq: an XRC one's, else NULL. r: pd, type, xrcd, cq, max_wr, max_sge as in the
 * protocol; the reply replaces it. 0 or a negative errno. */
int client_srq_create(struct client *c, struct client_srq *srq, const struct client_cq *cq,
                      struct ctl_create_srq *r);

/* Destroys it: 0, also when the daemon is gone; -EBUSY while queue pairs use it; -EIO: the daemon
 * does not answer, and it is destroyed too. */
int client_srq_destroy(struct client_srq *srq);

/* Resizes it and arms its limit, as m's mask says. Takes the ring's lock. 0 or a negative errno. */
int client_srq_modify(struct client_srq *srq, const struct ctl_modify_srq *m);

static inline bool client_srq_has_room(const struct client_srq *srq, uint32_t prod)
{
    return prod - atomic_load_explicit(srq->taken, memory_order_acquire) < srq->ring.size;
}

#endif
