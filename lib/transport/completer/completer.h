/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The completer: what the peer answered. comp_ack.c moves the oldest unacknowledged PSN,
 * comp_nak.c acts on refusals, comp_read.c takes responses that carry data, one or a batch.
 */
#ifndef UROCE_COMPLETER_H
#define UROCE_COMPLETER_H

#include "engine_private.h"
#include "kept_map.h"

struct rx_batch;

/* An ACK, a NAK or a response: comp_rx.c. sport: the packet's UDP source port, or 0. */
void comp_rx(struct engine *e, struct qp *qp, unsigned job, uint16_t sport);

/* ---- comp_source.c ---- */

#define PEER_MOVES_MAX 8

/* An answer to what is in flight comes from another port than those before it: whether to believe
 * it. */
bool comp_source_moved(struct qp *qp, const struct pkt *p, uint16_t sport);

/* ---- comp_ack.c ---- */

/* All before p is acknowledged. False: that implies that a READ's or atomic's response was lost;
 * the requester has been rewound. */
bool comp_ack_before(struct engine *e, struct qp *qp, psn_t p);
/* What has arrived behind una (req_sack.h) is acknowledged with it. */
void comp_absorb(struct engine *e, struct qp *qp);
/* All before una is acknowledged: retries, timers and the send window follow. */
void comp_progress(struct engine *e, struct qp *qp, psn_t una);
/* The oldest response that is missing was trimmed: it is asked for again, whatever was asked for
 * before. */
void comp_ask_again(struct engine *e, struct qp *qp);

/* ---- comp_slot.c ---- */

/* The slot whose PSNs include p, or NULL. *count: its number. */
struct send_slot *comp_slot(struct qp *qp, psn_t p, uint32_t *count);
/* The peer refused the work request at p: it completes with the reason, when its turn comes. */
void comp_refused(struct engine *e, struct qp *qp, psn_t p, uint8_t status);
/* A loss takes a retry. False: there is none, and the work request at p has failed. */
bool comp_may_retry(struct engine *e, struct qp *qp, psn_t p);

/* ---- comp_nak.c ---- */

/* The peer refuses the request at p: a NAK with this code; or it is not ready (RNR NAK),
 * and the requester waits. */
void comp_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t code);
/* The same NAK with a map of what the peer keeps behind a gap. */
void comp_map(struct engine *e, struct qp *qp, const struct pkt *p);
/* An ACK with a map: the peer has executed all before the map, though not all is answered. */
void comp_report(struct engine *e, struct qp *qp, const struct pkt *p);
void comp_rnr_nak(struct engine *e, struct qp *qp, psn_t p, uint8_t timer_code);

/* ---- comp_trim.c ---- */

/* A map of requests that the peer got without their payload. */
void comp_losses(struct engine *e, struct qp *qp, const struct kept_map *m);
/* A response came without its payload. */
void comp_trimmed(struct engine *e, struct qp *qp, const struct pkt *p);

/* ---- comp_read.c ---- */

void comp_read(struct engine *e, struct qp *qp, unsigned job);
void comp_atomic(struct engine *e, struct qp *qp, unsigned job);

/* ---- batches: the columns of rx_batch.c's table ---- */

/* comp_read.c */
bool comp_expect_response(const struct qp *qp, psn_t *first);
unsigned comp_place_responses(struct rx_batch *b, unsigned n);
unsigned comp_place_results(struct rx_batch *b, unsigned n);
void comp_commit_responses(struct rx_batch *b, unsigned n);
/* comp_rx.c: one ACK or NAK, with any PSN. Judges and commits it, too. */
unsigned comp_place_ack(struct rx_batch *b, unsigned n);

#endif
