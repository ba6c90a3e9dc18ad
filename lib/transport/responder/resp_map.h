/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a requester that has agreed to it is told of what is kept behind a gap (resp_store.h): maps
 * (kept_map.h). resp_map.c; the owner worker.
 */
#ifndef UROCE_RESP_MAP_H
#define UROCE_RESP_MAP_H

#include "kept_map.h"
#include "resp_commit.h"

/*
 * What is kept, be it nothing, has to be told, if the requester has agreed to that: by a NAK with a
 * map, before READ responses that are owed. A NAK without a map for each gap follows in its order:
 * it is what the peer gets of it if it has not agreed after all.
 */
void resp_owe_map(struct engine *e, struct qp *qp);

/* The store has marked requests that are lost: a requester that has agreed is told of them by a map
 * of losses, before all else that is owed. */
void resp_owe_losses(struct engine *e, struct qp *qp);

/* That map. False: none is owed. */
bool resp_take_losses(struct qp *qp, struct kept_map *m);

/* A READ is repeated as agreed requesters may ask for it: an ACK behind that, with an empty map,
 * shows that this one is known to have agreed. */
void resp_show_map(struct qp *qp);

/*
 * A gap was filled, and the responses to the READs behind it wait for their turn, and so do those
 * to the READs that come now. Their requester knows by responses alone that its requests have
 * arrived, and would wait for these with its next ones. So it is told by ACKs with an empty map,
 * before the responses that are owed, what has been executed.
 */
void resp_report(struct qp *qp);

/* The map of such an ACK, if one is owed. `unsent`: the next response, which the ACK must not
 * acknowledge. */
bool resp_take_report(struct qp *qp, psn_t unsent, struct kept_map *m);

/* The map that is owed. False: none is. */
bool resp_take_map(struct qp *qp, struct kept_map *m);

/* A NAK without a map for the expected request is built. */
void resp_gap_is_told(struct qp *qp);

#endif
