/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder. The path of a request: resp_rx.c compares its PSN with the expected one,
 * resp_check.c judges it by the rules of resp_rules.h, resp_write.c, resp_send.c, resp_read.c or
 * resp_atomic.c (atomics, ATOMIC WRITE, FLUSH) place its bytes, resp_commit.c moves the expected
 * PSN, resp_reply.c builds what is owed. Of a batch, resp_write.c, resp_batch_recv.c,
 * resp_read.c and resp_batch_atomic.c admit and place the packets, and resp_rx.c, resp_read.c and
 * resp_batch_atomic.c commit them.
 */
#ifndef UROCE_RESPONDER_H
#define UROCE_RESPONDER_H

#include "resp_commit.h"

struct rx_batch;

/* ---- requests, one at a time: rx_request of service.c ---- */

void resp_rx(struct engine *e, struct qp *qp, unsigned job);    /* RC, XRC: resp_rx.c */
void resp_rx_uc(struct engine *e, struct qp *qp, unsigned job); /* resp_uc.c */
void resp_rx_ud(struct engine *e, struct qp *qp, unsigned job); /* resp_ud.c */

/* resp_check.c: the checks of 9.7.4.1 in their order. FAULT_NONE: execute the request. */
enum fault resp_check(struct engine *e, struct qp *qp, unsigned job);
/* resp_recv.c: takes a receive WQE into resp->recv, unless one is there that an aborted message
 * left (UC). xrc_srq: the SRQ that an XRC packet names; else NULL. */
enum fault resp_take_recv(struct engine *e, struct qp *qp, struct srq *xrc_srq);
/* Bytes into the receive WQE that was taken, from byte `off` on: copied or queued. */
enum fault resp_scatter(struct engine *e, struct qp *qp, unsigned job, uint32_t off,
                        const uint8_t *bytes, uint32_t len);

/* Execute a request that resp_check has passed: its bytes are copied or queued. resp_execute (in
 * resp_rx.c) is for a request of any kind; the others are for one kind each. */
enum fault resp_execute(struct engine *e, struct qp *qp, unsigned job);
enum fault resp_write(struct engine *e, struct qp *qp, unsigned job);
enum fault resp_send(struct engine *e, struct qp *qp, unsigned job);
void resp_read(struct engine *e, struct qp *qp, unsigned job);
enum fault resp_atomic(struct engine *e, struct qp *qp, unsigned job);
enum fault resp_atomic_write(struct engine *e, struct qp *qp, unsigned job);
enum fault resp_flush(struct engine *e, struct qp *qp, unsigned job);
/* resp_send.c: the message is complete: its receive WQE completes once the burst's bytes are
 * written. */
struct rx_completion *resp_complete_recv(struct engine *e, struct qp *qp, unsigned job);

/* resp_duplicate.c: a request with a PSN before the expected one. */
void resp_duplicate(struct engine *e, struct qp *qp, const struct pkt *p);
/* The same file: a WRITE or SEND before the expected one is answered, if it asks for that. */
void resp_ack_again(struct engine *e, struct qp *qp, const struct pkt *p);

/* resp_trim.c: of a request the headers alone have arrived. At the end of a burst the request that
 * is expected then may be such a one: of a queue pair with a store, and of those without. */
void resp_trimmed(struct engine *e, struct qp *qp, const struct pkt *p);
void resp_tell_loss(struct engine *e, struct qp *qp);
void resp_tell_losses(struct engine *e);

/* resp_write.c: the domain that a peer's keys are checked in: with XRC the SRQ's (A14.4.4). */
uint32_t resp_domain(const struct engine *e, const struct qp *qp, unsigned job);

/* ---- requests, a batch at a time: the columns of rx_batch.c's table ---- */

/* How many of the first n packets may be placed, as far as the queue pair and the first
 * packet tell. */
unsigned resp_admit_writes(struct rx_batch *b, unsigned n);
unsigned resp_admit_sends(struct rx_batch *b, unsigned n);
unsigned resp_admit_send_segments(struct rx_batch *b, unsigned n);
unsigned resp_admit_writes_imm(struct rx_batch *b, unsigned n);
unsigned resp_admit_reads(struct rx_batch *b, unsigned n);
unsigned resp_admit_atomics(struct rx_batch *b, unsigned n);
unsigned resp_admit_atomic_writes(struct rx_batch *b, unsigned n);
unsigned resp_admit_flushes(struct rx_batch *b, unsigned n);
/* Place the first n packets; how many could be placed. */
unsigned resp_place_writes(struct rx_batch *b, unsigned n);
unsigned resp_place_segments(struct rx_batch *b, unsigned n);
unsigned resp_place_send_segments(struct rx_batch *b, unsigned n);
unsigned resp_place_sends(struct rx_batch *b, unsigned n);
unsigned resp_place_sends_imm(struct rx_batch *b, unsigned n);
unsigned resp_place_writes_imm(struct rx_batch *b, unsigned n);
unsigned resp_place_datagrams(struct rx_batch *b, unsigned n);
unsigned resp_place_datagrams_imm(struct rx_batch *b, unsigned n);
unsigned resp_place_reads(struct rx_batch *b, unsigned n);
unsigned resp_place_atomics(struct rx_batch *b, unsigned n);
unsigned resp_place_atomic_writes(struct rx_batch *b, unsigned n);
unsigned resp_place_flushes(struct rx_batch *b, unsigned n);
/* resp_rx.c, resp_read.c, resp_batch_atomic.c: n packets were placed. One ACK, of the last one that
 * asks for one, covers all of them. */
void resp_commit_batch(struct rx_batch *b, unsigned n);
void resp_commit_read_batch(struct rx_batch *b, unsigned n);
void resp_commit_atomic_batch(struct rx_batch *b, unsigned n);

/* ---- resp_fault.c ---- */

/* Records a fault of the responder: fault_rules says what follows from it. */
void resp_fault(struct engine *e, struct qp *qp, enum fault fault, psn_t at);
/* FAULT_MEMORY, which is found late: takes the place of a fault at a later job of this burst. */
void resp_memory_fault(struct engine *e, struct qp *qp, unsigned job);

/* ---- replies ---- */

/* resp_reply.c: builds the next reply; false: there is none after all. */
bool resp_reply(struct engine *e, struct qp *qp, struct tx_job *job);
/* Its payload is there. */
void resp_reply_sealed(struct engine *e, const struct tx_job *job);
/* resp_reply, unless it is a response to a READ, whose bytes would have to be copied. */
bool resp_reply_short(struct engine *e, struct qp *qp, struct tx_job *job);
/* resp_batch_reply.c: builds and seals up to n responses to READs and atomics; frames[0] is that of
 * job e->jobs. one_of_many: a response to a READ of several packets is built only as the first of
 * them, so that long READs do not take all frames. Returns how many. */
unsigned resp_batch_replies(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                            bool one_of_many);

/*
 * How many resources, the newest ones, hold all pending ones; the oldest first. Replies leave in
 * order, so those that were never answered are the newest: where the oldest of as many as are
 * pending is such a one, they are all. A search among the answered ones is left for repetitions.
 */
static inline uint32_t resp_pending_span(const struct responder *resp)
{
    uint32_t n = min_of(resp->res_max, resp->res_head);
    uint32_t pending = min_of(resp->res_pending, n); /* repetitions are counted there, too */
    const struct resp_resource *r;

    if (!pending)
        return 0;
    r = &resp->res[(resp->res_head - pending) % resp->res_max];
    return r->pending && !r->answered ? pending : n;
}

/* The opcode of the next packet of a READ's reply. */
static inline uint8_t resp_read_op(const struct resp_resource *r)
{
    bool first = r->next == r->start, last = r->next + 1 == r->packets;

    if (first)
        return last ? OP_READ_RESP_ONLY : OP_READ_RESP_FIRST;
    return last ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
}

#endif
