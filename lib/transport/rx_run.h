/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside runs of received frames: what rx_run.c recognised and verified, for those who execute it.
 */
#ifndef UROCE_RX_RUN_H
#define UROCE_RX_RUN_H

#include "encap_layout.h"
#include "grant.h"
#include "mem_memcpy.h"

#define BTH      ENCAP_EXPECT_BTH
#define RETH_LEN 16
#define L3_HEADERS \
    (BTH - ETH_LEN + BTH_LEN + ICRC_LEN) /* and the ICRC: bytes beside other headers, payload */

/* What runs are of, by opcode. */
enum run_kind { RUN_NONE, RUN_WRITES, RUN_SENDS, RUN_PARTS, RUN_READS, RUN_RESPONSES, RUN_ACK };

struct run {
    struct engine *e;
    struct qp *qp;
    enum run_kind kind;
    uint32_t bytes, payload; /* of what was recognised: of frames, and of their payloads */
    struct grant first;      /* WRITEs: where the first of them goes */
    struct icrc_span span[FRAME_BURST]; /* what was recognised; own: bytes of payload */
};

/* What lies in a frame that was just summed up the C library copies faster than mem_memcpy_long. */
ALWAYS_INLINE void put(uint8_t *to, const uint8_t *from, uint32_t len)
{
    if (mem_memcpy_is_few(len))
        mem_memcpy_few(to, from, len);
    else
        memcpy(to, from, len);
}

/* rx_read.c: whether the next that the requester waits for may be the response to a READ. Its PSN
 * is the oldest that is unacknowledged. */
bool rx_read_waits(const struct qp *qp);
/* Executes the first of n responses with the PSNs from there on; how many of them could be. */
unsigned rx_read_responses(struct run *r, unsigned n);
/* How many of n READs there are resources for, if READs are allowed at all. */
unsigned rx_read_room(const struct qp *qp, unsigned n);
/* Executes the first of n READs, the first of which is expected; how many of them could be. */
unsigned rx_read_requests(struct run *r, unsigned n);

#endif
