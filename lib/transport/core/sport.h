/* SPDX-License-Identifier: BSD-3-Clause */
/* The UDP source port of a connection, by which a network chooses among equal paths. */
#ifndef UROCE_SPORT_H
#define UROCE_SPORT_H

#include "engine_private.h"

/* Takes the address vector; its source port is chosen here. 0 or -EINVAL, with nothing changed. */
int sport_set_path(struct engine *e, struct qp *qp, const struct address_vector *av,
                   uint32_t dest_qpn);

/* The source port policy of the queue pair: its own, or the port's. */
static inline const struct entropy_policy *sport_policy(const struct engine *e, const struct qp *qp)
{
    return qp->own_entropy ? &qp->entropy : &e->cfg.entropy;
}

/* The requester is rewound by a timeout: takes another source port if this one stays silent. */
void sport_timed_out(struct engine *e, struct qp *qp);
/* The responder got a request again: takes another source port if our answers do not get through.
 */
void sport_request_repeated(struct engine *e, struct qp *qp, psn_t p);

#endif
