/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking WQEs: see work_queue.h. The application may rewrite a WQE while the worker takes it. Each
 * of its words is therefore loaded exactly once (volatile: the compiler may not load it again), and
 * only the private copy is checked.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "work_queue.h"

#define SEND_FLAGS_KNOWN                                                                       \
    (SQE_FENCE | SQE_SIGNALED | SQE_SOLICITED | SQE_INLINE | SQE_SGE_IN_HEADER | SQE_IP_CSUM | \
     SQE_TIMED)

enum op_kind {
    OP_UNKNOWN,
    OP_NO_DATA, /* SGEs are ignored */
    OP_SGES,    /* local memory by SGEs only: the operation writes it, or it may be large */
    OP_SGE_OR_INLINE,
};

static const uint8_t op_kinds[] = {
    [SQE_WRITE] = OP_SGE_OR_INLINE, [SQE_WRITE_IMM] = OP_SGE_OR_INLINE,
    [SQE_SEND] = OP_SGE_OR_INLINE,  [SQE_SEND_IMM] = OP_SGE_OR_INLINE,
    [SQE_READ] = OP_SGES,           [SQE_CMP_SWP] = OP_SGES,
    [SQE_FETCH_ADD] = OP_SGES,      [SQE_LOCAL_INV] = OP_NO_DATA,
    [SQE_BIND_MW] = OP_NO_DATA,     [SQE_SEND_INV] = OP_SGE_OR_INLINE,
    [SQE_FLUSH] = OP_NO_DATA,       [SQE_ATOMIC_WRITE] = OP_SGE_OR_INLINE,
};

int work_queue_pending(const struct work_queue *q)
{
    uint32_t n = atomic_load_explicit(q->prod, memory_order_acquire) - q->cons;

    return likely(n <= q->size) ? (int)n : -EOVERFLOW;
}

static const void *take_wqe(struct work_queue *q)
{
    return work_queue_entry(q, q->cons++);
}

static void copy_words(void *to, const void *from, unsigned words)
{
    const volatile uint64_t *src = from;
    uint64_t *dst = to;

#pragma GCC unroll 8
    for (unsigned i = 0; i < words; i++)
        dst[i] = src[i];
}

static void copy_sges(struct sge *to, const void *from, unsigned n)
{
    copy_words(to, from, n * (unsigned)(sizeof(*to) / sizeof(uint64_t)));
}

static uint64_t sum_lengths(const struct sge *sge, unsigned n)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < n; i++)
        total += sge[i].length;
    return total;
}

static int copy_inline(const struct work_queue *q, struct send_wqe *wqe, const void *data)
{
    if (wqe->h.inline_len > q->max_inline)
        return -EINVAL;
    wqe->h.num_sge = 0;
    memcpy(wqe->inline_data, data, wqe->h.inline_len);
    return 0;
}

/* The SGE that was copied with the header. The words are those of other operations, too: these have
 * none. */
static int move_sge(const struct work_queue *q, struct send_wqe *wqe)
{
    if (!sqe_has_free_words(wqe->h.opcode) || wqe->h.num_sge != 1 || !q->max_sge ||
        (wqe->h.flags & SQE_INLINE))
        return -EINVAL;
    wqe->sge[0] = wqe->h.sge;
    memset(wqe->h.words, 0, sizeof(wqe->h.words));
    wqe->h.inline_len = 0;
    return 0;
}

int send_queue_take(struct work_queue *q, struct send_wqe *wqe)
{
    const struct sqe *entry = take_wqe(q);
    enum op_kind kind;

    copy_words(&wqe->h, entry, sizeof(*entry) / sizeof(uint64_t));
    kind = wqe->h.opcode < ARRAY_SIZE(op_kinds) ? op_kinds[wqe->h.opcode] : OP_UNKNOWN;
    if (unlikely(kind == OP_UNKNOWN || (wqe->h.flags & ~SEND_FLAGS_KNOWN)))
        return -EINVAL;
    if (wqe->h.flags & SQE_SGE_IN_HEADER)
        return move_sge(q, wqe);
    if (wqe->h.flags & SQE_INLINE)
        return kind == OP_SGE_OR_INLINE ? copy_inline(q, wqe, entry + 1) : -EINVAL;
    wqe->h.inline_len = 0;
    if (unlikely(kind == OP_NO_DATA))
        wqe->h.num_sge = 0;
    if (unlikely(wqe->h.num_sge > q->max_sge))
        return -EINVAL;
    copy_sges(wqe->sge, entry + 1, wqe->h.num_sge);
    return 0;
}

int recv_queue_take(struct work_queue *q, struct recv_wqe *wqe)
{
    const struct rqe *entry = take_wqe(q);

    copy_words(&wqe->h, entry, sizeof(*entry) / sizeof(uint64_t));
    if (unlikely(wqe->h.num_sge > q->max_sge))
        return -EINVAL;
    copy_sges(wqe->sge, entry + 1, wqe->h.num_sge);
    return 0;
}

uint32_t recv_wqe_room(const struct recv_wqe *wqe)
{
    return (uint32_t)min_of(sum_lengths(wqe->sge, wqe->h.num_sge), (uint64_t)UINT32_MAX);
}

uint64_t work_queue_take_id(struct work_queue *q)
{
    uint64_t id;

    _Static_assert(offsetof(struct sqe, wr_id) == 0 && offsetof(struct rqe, wr_id) == 0, "");
    copy_words(&id, take_wqe(q), 1);
    return id;
}
