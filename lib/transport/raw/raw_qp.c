/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive side of raw queue pairs, as the table of services wants it: see service.h. */
#include <errno.h>
#include <stdlib.h>

#include "raw_private.h"

/* A queue of its own, or the spreading over others' queues. */
int raw_create(struct qp *qp, const struct qp_init *init)
{
    if (init->rx_hash)
        qp->spread = rx_spread_create(init->rx_hash, init->ind);
    else
        qp->raw_rq = wq_of_qp(qp, &init->rq);
    return qp->spread || qp->raw_rq ? 0 : -ENOMEM;
}

void raw_reset(struct qp *qp)
{
    if (qp->raw_rq)
        wq_forget(qp->raw_rq);
}

void raw_destroy(struct qp *qp)
{
    free(qp->spread);
    wq_free(qp->raw_rq);
}

void raw_flush_recv(struct engine *e, struct qp *qp, uint8_t status)
{
    if (qp->raw_rq)
        wq_flush(e, qp->raw_rq, status);
}
