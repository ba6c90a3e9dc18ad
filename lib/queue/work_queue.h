/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataplane's end of a send or receive queue: takes entries out of the shared ring by
 * copying each once and checking the copy. One worker owns a queue. Pure.
 */
#ifndef UROCE_WORK_QUEUE_H
#define UROCE_WORK_QUEUE_H

#include "queue_abi.h"

struct work_queue {
    const uint8_t *ring;    /* 8-aligned */
    _Atomic uint32_t *prod; /* the application's index */
    uint32_t size, stride;  /* entries, a power of two; bytes */
    uint32_t max_sge,
        max_inline; /* at most QUEUE_MAX_SGE, QUEUE_MAX_INLINE, and what stride holds */
    uint32_t cons;  /* next entry to take: private */
};

/* A private copy of an entry; what follows the header lies in `sge` or `inline_data`. */
struct send_wqe {
    struct sqe h;
    union {
        struct sge sge[QUEUE_MAX_SGE];
        uint8_t inline_data[QUEUE_MAX_INLINE];
    };
};
struct recv_wqe {
    struct rqe h;
    struct sge sge[QUEUE_MAX_SGE];
};

/*
 * How many entries wait. -EOVERFLOW when the application's index is out of range (more than `size`
 * ahead): the queue pair is then beyond use.
 */
int work_queue_pending(const struct work_queue *q);

/*
 * Takes the next entry, which must be pending, into *wqe; its index is q->cons before the call.
 * Only the used part of *wqe is written. Returns 0, or -EINVAL with wqe->h.wr_id valid when the
 * entry is malformed (unknown opcode or flag, too many SGEs, too much inline data, inline with an
 * opcode that cannot carry it, SGE lengths that add up to more than 2^31): the entry is taken all
 * the same. On success only what the entry's kind uses is set of num_sge and inline_len, and the
 * other is 0: inline data has no SGEs, and neither have opcodes that carry no data.
 */
int send_queue_take(struct work_queue *q, struct send_wqe *wqe);
int recv_queue_take(struct work_queue *q, struct recv_wqe *wqe);

/* Only the wr_id of the next entry, which must be pending (flushing needs no more), and takes it.
 */
uint64_t work_queue_take_id(struct work_queue *q);

/* ---- the application's end, also used by tests ---- */

/* Where entry `index` lies. */
static inline void *work_queue_slot(uint8_t *ring, uint32_t size, uint32_t stride, uint32_t index)
{
    return ring + (size_t)(index & (size - 1)) * stride;
}

#endif
