/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of fuzz_engine. */
#ifndef UROCE_FUZZ_ENGINE_H
#define UROCE_FUZZ_ENGINE_H

#include "kit.h"

#define FUZZ_TRIM   50 /* the code point of trimmed frames */
#define MAX_STEPS   400
#define WIRE_FRAMES 64
#define REGION      8192
#define XRC_DOMAIN  3
#define FUZZ_QKEY   0x11111111
#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition))                                                  \
            kit_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* Regions of each node that work requests and packets name. Nothing may ever change READ_ONLY and
 * FOREIGN. */
enum { MR_MAPPED, MR_COPIED, MR_FAULTY, MR_READ_ONLY, MR_FOREIGN, MRS };

/* Queue pairs of each node. [XRC_SEND] of one is connected to [XRC_RECV] of the other, the others
 * to their own kind. */
enum { Q_RC, Q_UC, Q_UD, Q_RC_SRQ, Q_XRC_SEND, Q_XRC_RECV, Q_UD_SRQ, QPS };

#define WINDOWS 3

struct wire_frame {
    uint8_t *data;
    uint32_t len;
    unsigned from;
};

struct fuzz {
    const uint8_t *p;
    size_t left;
    struct kit *k;
    struct kit_qp *qp[2][QPS];
    struct kit_mr *mr[2][MRS];
    struct kit_mr *ground[2];            /* for windows alone: peers reach only what was bound */
    uint32_t bound_from[2], bound_to[2]; /* around every range that a window was ever bound to */
    struct kit_mw *window[2][WINDOWS];
    struct kit_srq *srq[2], *xrc_srq[2];
    struct kit_cq *cq[2];
    uint32_t ah[2];
    struct wire_frame wire[WIRE_FRAMES]; /* a ring */
    unsigned wire_head, wire_tail;
    uint64_t wr_id;
};

/* ---- input: missing bytes are 0 ---- */

uint8_t u8(struct fuzz *f);
uint16_t u16(struct fuzz *f);
uint32_t u32(struct fuzz *f);
uint32_t take_bytes(struct fuzz *f, uint8_t *out, uint32_t len);

/* An address in a node's memory: usually inside a region, sometimes anywhere. */
struct kit_mr *pick_mr(struct fuzz *f, unsigned node);
uint64_t pick_va(struct fuzz *f, const struct kit_mr *mr);
uint32_t pick_len(struct fuzz *f);

/* ---- fuzz_wire.c ---- */

void transmit(struct fuzz *f, unsigned node);
/* The oldest frames: delivered in one burst, lost, or kept for a second delivery. */
void deliver(struct fuzz *f);
/* Changes bytes of the oldest frame, from the BTH on or anywhere. */
void change(struct fuzz *f);
/* A packet with sound headers for a queue pair of node `to`. */
void add_packet(struct fuzz *f, unsigned to, unsigned q);
/* Any bytes from the BTH on. */
void add_bytes(struct fuzz *f, unsigned to, unsigned q);
void wire_fini(struct fuzz *f);

/* The queue pair that q of the other node talks to. */
static inline unsigned other_end(unsigned q)
{
    return q == Q_XRC_SEND ? Q_XRC_RECV : q == Q_XRC_RECV ? Q_XRC_SEND : q;
}

#endif
