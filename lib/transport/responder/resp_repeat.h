/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of READs that a requester asks for again, if it has agreed on maps of kept packets: such a
 * requester keeps the responses behind those that it lacks, and may ask for several parts of a READ
 * at once, and for a part of one that is older than those whose resources are kept (9.7.5.1.5 asks
 * for no more than these). Each request says all that it takes to answer it. The owner worker.
 */
#ifndef UROCE_RESP_REPEAT_H
#define UROCE_RESP_REPEAT_H

#include "loan.h"
#include "resp_commit.h"

struct resp_repeat {
    struct loan loan;
    struct resp_repeat *next;
    struct resp_resource r;
    uint32_t end; /* behind its last packet that is sent again */
};

/* Owes the answer to a READ request that came again, unless it is still to be sent for the first
 * time; of: the READ's resource, or NULL. False: there is no room for it. */
bool resp_repeat_add(struct engine *e, struct qp *qp, const struct pkt *p,
                     const struct resp_resource *of);

/* The oldest one has been answered. */
void resp_repeat_done(struct qp *qp);

/* None is answered. */
void resp_repeat_forget(struct qp *qp);

#endif
