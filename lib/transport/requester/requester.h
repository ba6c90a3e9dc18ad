/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester. The path of a WQE: req_take.c takes it into a slot, req_check.c judges it,
 * req_segment.c (req_ud.c, raw_tx.c) builds its packets one by one, req_commit.c moves the send
 * window. req_batch_*.c take the most frequent WQEs many at a time, by the same steps.
 */
#ifndef UROCE_REQUESTER_H
#define UROCE_REQUESTER_H

#include "mem_window.h"
#include "req_commit.h"
#include "req_sack.h"

/* ---- req_take.c ---- */

/*
 * Whether the WQE at the sending position has a packet to send: takes the next WQE if need be, and
 * executes local operations on the way. Only while tx_allowed_requests is not 0.
 */
bool req_ready(struct engine *e, struct qp *qp);

/* New WQEs are taken in RTS; in SQD the started ones go on (10.3.1). */
static inline bool req_takes_new(const struct qp *qp)
{
    return qp->state == QPS_RTS;
}

/* RC, UC and XRC: messages of one packet, and segments of longer ones, are built in batches. */
static inline bool req_has_batches(const struct qp *qp)
{
    _Static_assert(PKT_RC == 0 && PKT_UC == 0x20, "no other service has a smaller number");
    return qp->service <= PKT_UC || qp->service == PKT_XRC;
}

/* READs and atomics that may be started besides the outstanding ones (9.7.2, 9.7.7.1). */
static inline uint32_t req_reads_allowed(const struct qp *qp)
{
    uint32_t max = qp->attr.max_rd_atomic, now = qp->req.rd_outstanding;

    if (unlikely(now >= max && qp->req.sack))
        now -= min_of(now, req_sack_parked(qp));
    return now < max ? max - now : 0;
}

/* PSNs for the slot at the sending position. */
static inline void req_start_slot(const struct requester *req, struct send_slot *s)
{
    if (!s->started) {
        s->started = true;
        s->first = req->next_psn;
    }
}

/* ---- req_check.c ---- */

/* What the requester knows of an opcode of send WQEs. */
struct req_op {
    uint8_t services, traits, wc;
    uint8_t first, middle, last, only; /* enum pkt_op of its packets */
};
enum req_trait {
    REQ_HAS_REMOTE = 1 << 0, /* names remote memory */
    REQ_HAS_RESPONSE =
        1 << 1, /* answered by a response, not an ACK: takes a READ/atomic resource */
    REQ_RETURNS_DATA = 1 << 2, /* which is scattered to the SGEs */
    REQ_EIGHT_BYTES = 1 << 3,  /* the message is 8 bytes */
    REQ_IS_LOCAL = 1 << 4,     /* nothing is sent */
};
extern const struct req_op req_ops[16];

/* Whether the queue pair's service offers an operation. */
bool req_is_offered(const struct qp *qp, const struct req_op *op);
/* Bytes of the message that a WQE describes; a sum that 32 bits may not hold. */
uint64_t req_message_len(const struct send_wqe *w);

/* The length and the packets of a WQE that was taken: WC_SUCCESS, or the status that the WQE fails
 * with. */
uint8_t req_check(struct engine *e, struct qp *qp, struct send_slot *s);

/* ---- req_segment.c ---- */

/* Builds the packet at the sending position into job->frame; false: the slot has failed. */
bool req_segment(struct engine *e, struct qp *qp, struct tx_job *job);
/* The same for UD (req_ud.c): one packet, which the WQE addresses. False also: its address handle's
 * rate does not let it leave yet. */
bool req_segment_ud(struct engine *e, struct qp *qp, struct tx_job *job);
/* 10.2.5: the Q_Key of a datagram. One with the high bit set stands for the queue pair's own. */
static inline uint32_t req_ud_qkey(const struct qp *qp, const struct sqe *w)
{
    return w->ud.remote_qkey & QKEY_CONTROLLED ? qp->qkey : w->ud.remote_qkey;
}

/* Which packet the job is: before its payload is fetched, as a copy that is late says which one has
 * to be built again, and the first pieces may be copied while the others are queued. */
static inline void req_name_job(const struct requester *req, struct tx_job *job, psn_t p)
{
    job->slot = req->send;
    job->psn = p;
}

/* The payload of the packet at the sending position, padded: copied to `payload`, or noted in the
 * job as copied when the packet is sealed. False: the slot has failed. */
bool req_payload(struct engine *e, struct qp *qp, struct send_slot *s, struct tx_job *job,
                 uint8_t *payload, uint32_t len);
/* The same copied now, without padding. */
bool req_gather(struct engine *e, struct qp *qp, struct send_slot *s, uint8_t *payload,
                uint32_t len);

/* Whether the packet at PSN p asks for an ACK: the last packet of a message does, and one in
 * ask_every. */
static inline bool req_asks_for_ack(const struct requester *req, psn_t p, psn_t ack_asked_psn,
                                    uint16_t pkt_flags)
{
    return (pkt_flags & PF_END) || (uint32_t)psn_diff(p, ack_asked_psn) >= req->ask_every;
}

/* ---- local_op.c ---- */

/* WQEs that send nothing: BIND_MW, LOCAL_INV. WC_SUCCESS, or why it failed. No copy is queued. */
uint8_t local_op(struct engine *e, struct qp *qp, const struct sqe *w);
/* What a work request asks for that binds a window. */
struct window_bind local_bind(const struct qp *qp, const struct sqe *w);

static inline bool op_is_local(uint8_t sqe_op)
{
    return req_ops[sqe_op & 15].traits & REQ_IS_LOCAL;
}

/* ---- req_batch_*.c: frames[0] is that of job e->jobs ---- */

/*
 * Takes up to n single-packet SENDs and WRITEs, or READs by req_batch_reads, or others, from the
 * send queue and builds their packets into frames[0..]. psns: PSNs that they may have. Returns how
 * many; those that wait for no queued copy are sealed.
 */
unsigned req_batch_messages(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                            unsigned psns);
/* UD alone: up to n datagrams. */
unsigned req_batch_datagrams(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);
/* READs into one SGE, or others: into several, or with a fence; or atomics, ATOMIC WRITEs and
 * FLUSHes. No packet waits for a queued copy. */
unsigned req_batch_reads(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                         unsigned psns);
unsigned req_batch_other_reads(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                               unsigned psns);
unsigned req_batch_atomics(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);
/* Builds and seals up to n packets of the message being sent, neither its first nor its last. */
unsigned req_batch_segments(struct engine *e, struct qp *qp, struct frame *frames, unsigned n);

/* ---- req_retry.c ---- */

/* All that is not acknowledged is sent again. */
void req_send_again(struct engine *e, struct qp *qp);
/* The timer fired without an ACK; or the RNR delay, which comp_nak.c set, has expired. */
void req_ack_timeout(struct engine *e, struct qp *qp);
void req_rnr_timeout(struct engine *e, struct qp *qp);

#endif
