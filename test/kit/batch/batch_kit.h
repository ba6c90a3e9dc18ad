/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines that get the same frames, for tests that compare the batch path with the general path. */
#ifndef UROCE_TEST_BATCH_KIT_H
#define UROCE_TEST_BATCH_KIT_H

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "frame_layout.h"
#include "hdr_template.h"
#include "pkt.h"
#include "random.h"
#include "raw.h"
#include "unit.h"

#define MTU_CODE 3 /* 1024 bytes */
#define ROOM     (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 64)
#define SLOTS    64
#define MEMORY   65536
#define IOVA     UINT64_C(0x7000000000)
#define PD       1
#define QKEY     0x11223344
#define OTHER_PD 2 /* XRC: of the second SRQ, and of `other` of the side that has it */

#define ALL_RIGHTS \
    (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL)
#define MAX_INLINE 16

/* A region's bytes, and addresses that cannot be copied to, or from either. */
struct copied {
    uint8_t *memory;
    uint64_t bad, bad_len;
    bool unreadable;
};

struct side {
    struct engine *e;
    struct qp *qp;
    struct qp_table *qps;
    struct srq_table *srqs;
    struct srq *srq;       /* or NULL */
    struct srq *other_srq; /* XRC: without WQEs; or NULL */
    struct ah_table *ahs;
    struct address_handle *ah[2]; /* the peer, as seen from two addresses, for datagrams */
    _Atomic uint32_t srq_taken, nothing;
    struct mr_table mrs;
    struct mem_region mr, other; /* the same addresses, and other bytes */
    struct encap_port port;
    struct gid_table gids;
    struct flow_slot flows; /* empty */
    struct qp_shared *shared;
    uint8_t *sq, *rq, *memory, *other_memory;
    struct copied copied, other_copied;
    struct comp_queue cq;
    struct cq_shared *ring;
    struct cq_reader reader;
    uint32_t cq_size, prod, recv_prod, read;
    unsigned cq_events, cq_posted, events, srq_events;
    bool written; /* the host was told so */
    struct comp_counter counter[QP_COUNTS];
    struct counter_line counted[QP_COUNTS];
};

/* The headers of all that is made from now on; at first HDR_IPV4. */
extern enum hdr_form batch_form;
/* The type of queue pairs made from now on: QPT_RC, as at first, QPT_UC, QPT_UD, or QPT_XRC_SEND:
 * then that of the second side is QPT_XRC_RECV, and this side has two SRQs. */
extern uint32_t batch_type;
/* The protection domain of the SRQ from which queue pairs made from now on receive; 0, as at first:
 * they have none. */
extern uint32_t batch_srq_pd;
/* How many SGEs the WQEs of queue pairs made from now on may have; at first 2. */
extern uint32_t batch_sges;

/* Whether queue pairs made from now on have a counter of each kind of work, and of what; at first
 * BATCH_COUNTS_NOTHING. */
enum batch_counts { BATCH_COUNTS_NOTHING, BATCH_COUNTS_WRS, BATCH_COUNTS_BYTES };
extern enum batch_counts batch_counts;

/* How much further back UDP and all that follows lie in frames of this form than frame_layout.h
 * says. */
static inline unsigned batch_shift(void)
{
    return hdr_bth_at(batch_form) - AT_BTH;
}

/* Addresses and queue pairs with the same number are the same. inflight: the most packets, or 0. */
void side_init(struct side *s, uint8_t number, uint32_t cq_size, uint32_t access,
               uint32_t inflight);
void side_fini(struct side *s);
void connect_to(struct side *s, const struct side *peer, uint32_t access, uint32_t psn);
/* Reads all completions. */
void drain(struct side *s);
bool works(const struct side *s);

/* Bytes of the IP packet, as its header says. */
uint32_t total_of(const struct frame *f);
/* Gives the packet its ICRC. */
void batch_seal(struct frame *f);
void make_frames(struct frame f[FRAME_BURST], uint8_t bytes[FRAME_BURST][ROOM]);
/* Loses, duplicates, reorders and damages frames, about one of calm / 8; returns how many are left.
 * Frames without an ICRC are not damaged. */
unsigned disturb(struct frame *f, unsigned n, uint32_t calm, struct random *r);

/* The network marks about percent of the frames by ECN, most of them "congestion experienced".
 * Returns how many of the frames say that. */
unsigned mark_some(struct frame *f, unsigned n, uint32_t percent, struct random *r);

/* For two sides that got the same `frames` frames, slow as forwarded frames. */
void check_counters(const struct side *fast, const struct side *slow, uint64_t frames);
void check_same(const struct side *fast, const struct side *slow);

#endif
