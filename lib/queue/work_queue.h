/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The dataplane's end of a send or receive queue: takes entries out of the shared ring by
 * copying each once and checking the copy. One worker owns a queue. Pure.
 */
#ifndef UROCE_WORK_QUEUE_H
#define UROCE_WORK_QUEUE_H

#include "queue_abi.h"

/** The consumer's end of a ring. */
struct work_queue {
    const uint8_t *ring;    /**< 8-aligned */
    _Atomic uint32_t *prod; /**< the application's index */
    uint32_t size, stride;  /**< entries, a power of two; bytes */
    uint32_t max_sge,
        max_inline;  /**< at most QUEUE_MAX_SGE, QUEUE_MAX_INLINE, and what stride holds */
    uint32_t cons;   /**< next entry to take: private */
    bool in_batches; /**< the engine's: entries may be taken many at a time */
};

/** A private copy of a WQE of a send queue; what follows the header lies in sge or inline_data. */
struct send_wqe {
    struct sqe h;
    union {
        struct sge sge[QUEUE_MAX_SGE];
        uint8_t inline_data[QUEUE_MAX_INLINE];
    };
};

/** A private copy of a WQE of a receive queue. */
struct recv_wqe {
    struct rqe h;
    struct sge sge[QUEUE_MAX_SGE];
};

/**
 * How many WQEs wait. The worker.
 *
 * @param q  The queue.
 * @return  The number of WQEs, 0 to q->size; -EOVERFLOW: the application's index is more than
 *     q->size ahead, and the queue pair cannot go on.
 */
int work_queue_pending(const struct work_queue *q);

/**
 * Take the next WQE of a send queue, which must be pending; its index is q->cons before the call.
 * The worker.
 *
 * @param q  The queue.
 * @param wqe  Only the used part is written. On success num_sge or inline_len is set by the WQE's
 *     kind, and the other is 0: inline data has no SGEs, and opcodes that carry no data have
 *     neither.
 * @return  0; -EINVAL: the WQE is malformed (unknown opcode or flag, too many SGEs, too much inline
 *     data, inline data with an opcode that cannot carry it). It is taken all the same, and
 *     wqe->h.wr_id is valid. The lengths of SGEs are not looked at.
 */
int send_queue_take(struct work_queue *q, struct send_wqe *wqe);

/**
 * Take the next WQE of a receive queue, as send_queue_take().
 *
 * @param q  The queue.
 * @param wqe  Only the used part is written. Its SGEs may have any lengths: messages have a limit,
 *     the room for one has none.
 * @return  0; -EINVAL: the WQE is malformed (too many SGEs). It is taken all the same, and
 *     wqe->h.wr_id is valid.
 */
int recv_queue_take(struct work_queue *q, struct recv_wqe *wqe);

/**
 * How many bytes of a message a receive WQE has room for. Any thread.
 *
 * @param wqe  The WQE, as recv_queue_take() has copied it.
 * @return  The sum of its SGEs' lengths, or UINT32_MAX, more than any message has, if that is less.
 */
uint32_t recv_wqe_room(const struct recv_wqe *wqe);

/**
 * Take the next WQE, which must be pending, without a look at more than its id: flushing needs no
 * more. The worker.
 *
 * @param q  The queue.
 * @return  The WQE's wr_id.
 */
uint64_t work_queue_take_id(struct work_queue *q);

/* ---- the application's end, also used by tests ---- */

/**
 * Where a WQE lies. The application, and tests.
 *
 * @param ring  The ring's first byte.
 * @param size  WQEs in the ring, a power of two.
 * @param stride  Bytes from one WQE to the next.
 * @param index  The WQE's, counted from the queue's creation.
 * @return  The WQE's first byte.
 */
static inline void *work_queue_slot(uint8_t *ring, uint32_t size, uint32_t stride, uint32_t index)
{
    return ring + (size_t)(index & (size - 1)) * stride;
}

/**
 * Where an entry is, at the dataplane's end. The worker.
 *
 * @param q  The queue.
 * @param index  Any number; it is the entry's modulo q->size.
 * @return  The entry, which the application may be writing.
 */
static inline const void *work_queue_entry(const struct work_queue *q, uint32_t index)
{
    return work_queue_slot((uint8_t *)q->ring, q->size, q->stride, index);
}

#endif
