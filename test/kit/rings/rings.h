/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair and a completion queue of lib/verbs over private memory, with the dataplane's ends:
 * the daemon's view, without a daemon. */
#ifndef UROCE_TEST_RINGS_H
#define UROCE_TEST_RINGS_H

#include "shim.h"
#include "work_queue.h"

#define RINGS_WR     8
#define RINGS_SGE    3
#define RINGS_INLINE 64
#define RINGS_CQE    16
#define RINGS_LANES  2
#define RINGS_QPN    0x1234

struct rings {
    struct client client;
    struct shim_qp *qp;
    struct shim_cq *cq;
    struct qp_shared *shared;
    struct comp_queue dataplane_cq;
    struct work_queue dataplane_sq, dataplane_rq;
};

/* In RTS, with the ibv_wr_* calls and all readable fields. */
struct rings *rings_new(void);
void rings_free(struct rings *r);

/* The dataplane completes WQE `wqe`. The opcode selects the queue. */
void rings_complete(struct rings *r, enum wc_opcode opcode, uint32_t wqe, enum wc_status status,
                    uint64_t wr_id);

#endif
