/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch of received frames: consecutive frames of one queue pair and one kind, recognised by its
 * header template. rx_batch.c recognises and verifies it, then the row of its kind says which
 * functions admit, place and commit it. All of them read the packets' fields in place (bth.h).
 */
#ifndef UROCE_RX_BATCH_H
#define UROCE_RX_BATCH_H

#include "bth.h"
#include "icrc.h"
#include "mr_grant.h"
#include "srq.h"

struct rx_batch;

/* The stages that depend on what the packets are. */
struct rx_kind {
    /* The PSN of the first packet; false: no such packet is expected. NULL: an ACK or NAK, or
     * datagrams, which have no place in an order. */
    bool (*expect)(const struct qp *qp, psn_t *first);
    /* How many of the first n packets may be placed, as far as the queue pair and the first
     * packet tell. Answers: all. */
    unsigned (*admit)(struct rx_batch *b, unsigned n);
    /* Moves their bytes; how many packets could be placed. It ends before a packet that the general
     * path must judge, with nothing done about that packet. An ACK or NAK has no bytes: place
     * judges and commits it. A response that completes its READ is counted here, too. */
    unsigned (*place)(struct rx_batch *b, unsigned n);
    /* What n placed packets mean for the queue pair. */
    void (*commit)(struct rx_batch *b, unsigned n);
    bool reads; /* requests of READs: each has the PSNs of its responses */
    bool bare;  /* headers alone: requests of READs, atomics and what answers these */
    bool empty; /* they may have no payload: requests with immediate data, responses */
    bool datagrams;
};

struct rx_batch {
    struct engine *e;
    struct qp *qp;
    const struct rx_kind *kind;
    enum hdr_form form;      /* of all frames' headers */
    unsigned job;            /* the first packet's: its rx_job is free to use */
    uint32_t messages;       /* placed: SENDs and WRITEs that are complete */
    psn_t next;              /* placed: READs, atomics: the PSN behind the last one's responses */
    uint32_t bytes, payload; /* recognised: of frames, and of their payloads */
    bool marks;              /* recognised: some frame may be marked "congestion experienced" */
    unsigned ce;             /* placed: frames that were marked so */
    struct mr_grant grant;   /* WRITEs: of the first packet's key */
    uint8_t eth_at;          /* where in all packets the headers behind BTH and XRCETH are */
    uint32_t xrceth;         /* of requests of XRC: all have this one, */
    struct srq *xrc_srq;     /* and name this SRQ; of other packets: NULL */
    struct mr_hint xrc_hint; /* in its domain */
    struct icrc_span span[FRAME_BURST];
};

/* What follows a packet's BTH and, if it has one, XRCETH. */
ALWAYS_INLINE const uint8_t *rx_batch_eth(const struct rx_batch *b, const struct icrc_span *s)
{
    return s->bth + b->eth_at;
}

/* The domain that keys are checked in, and the SRQ that WQEs come from, or NULL: of XRC they are
 * those of the SRQ that the packets name (A14.4). So is the completion queue. */
static inline uint32_t rx_batch_pd(const struct rx_batch *b)
{
    return unlikely(b->xrc_srq) ? b->xrc_srq->init.pd : b->qp->pd;
}

static inline struct srq *rx_batch_srq(const struct rx_batch *b)
{
    return unlikely(b->xrc_srq) ? b->xrc_srq : b->qp->srq;
}

static inline struct comp_queue *rx_batch_recv_cq(const struct rx_batch *b)
{
    return unlikely(b->xrc_srq) ? b->xrc_srq->init.cq : b->qp->recv_cq;
}

/* mr_grant_find in that domain. hint: of the queue pair's domain. */
struct mr_grant rx_batch_grant(struct rx_batch *b, struct mr_hint *hint, uint32_t key,
                               uint32_t access);

/* mr_grant_lookup there. */
ALWAYS_INLINE uint8_t *rx_batch_lookup(struct rx_batch *b, struct mr_grant *g, struct mr_hint *hint,
                                       uint32_t key, uint32_t access, uint64_t va, uint32_t len)
{
    if (unlikely(key != g->key))
        *g = rx_batch_grant(b, hint, key, access);
    return mr_grant_address(g, va, len);
}

/*
 * Processes the first of n frames that are a batch, from engine_rx's frame `job` on. Returns how
 * many; 0: the first frame takes the general path. *verified: this many after these were found to
 * have the right ICRC. *general: this many after these are not worth another try.
 */
unsigned rx_batch(struct engine *e, const struct frame *f, unsigned n, unsigned job,
                  unsigned *verified, unsigned *general);

/* The BTH of a frame by its Ethernet header alone, and the form of its headers; or NULL. */
ALWAYS_INLINE const uint8_t *rx_find_bth(const struct frame *f, enum hdr_form *form)
{
    *form = HDR_IPV4;
    if (f->len < hdr_min_len(HDR_IPV4))
        return NULL;
    if (unlikely(!hdr_is_plain_ipv4(f->data))) {
        *form = hdr_form_of(f->data);
        if (*form == HDR_NONE || f->len < hdr_min_len(*form))
            return NULL;
    }
    return f->data + hdr_bth_at(*form);
}

/* ---- rx_batch_xrc.c ---- */

/* A14.4: the first packet of a batch of XRC has this BTH. False: it is a request that names no SRQ
 * of the queue pair's domain. */
bool rx_batch_begin_xrc(struct rx_batch *b, const uint8_t *bth);

/* ---- rx_batch_queue.c ---- */

/*
 * Queues the copy of packet i's payload to memory that is not mapped, under the packet's rx_job, as
 * that of a request. NULL, with nothing done: g does not cover [va, va + len), or the copy cannot
 * be queued now.
 */
struct rx_job *rx_batch_queue(struct rx_batch *b, const struct mr_grant *g, unsigned i, uint64_t va,
                              const uint8_t *payload, uint32_t len);

/* Packet i is a request whose completion waits, or whose copy is queued: its rx_job says so much.
 */
struct rx_job *rx_batch_job(struct rx_batch *b, unsigned i);

#endif
