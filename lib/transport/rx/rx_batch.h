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
    struct icrc_span span[FRAME_BURST];
};

/*
 * Processes the first of n frames that are a batch, from engine_rx's frame `job` on. Returns how
 * many; 0: the first frame takes the general path. *verified: this many after these were found to
 * have the right ICRC. *general: this many after these are not worth another try.
 */
unsigned rx_batch(struct engine *e, const struct frame *f, unsigned n, unsigned job,
                  unsigned *verified, unsigned *general);

/* Fetches what rx_batch reads first, where the frames are of many queue pairs. */
void rx_batch_prefetch(struct engine *e, const struct frame *f, unsigned n);

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
