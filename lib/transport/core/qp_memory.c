/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a queue pair: little while it is idle, as there may be a hundred thousand of them.
 * It has one block, of its structure, the receive entry, and a few slots for work requests; a queue
 * pair that uses more slots gets more of them, and the resources for READs and atomics come when
 * their number is agreed, with RTR. Until RESET it keeps what it got.
 */
#include "qp_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "resp_commit.h"
#include "srq.h"

#define SLOTS_FIRST 2u

/* Raw packets that are spread over work queues are received only. */
static bool has_requester(const struct qp_init *init)
{
    return init->type != QPT_XRC_RECV && !init->rx_hash;
}

/* A slot holds a work request cut to the queue's entry size. What a completion needs of it is in
 * its first cache line. */
static uint32_t slot_stride(const struct qp_init *init)
{
    size_t body = sqe_stride(init->sq.max_sge, init->sq.max_inline);

    return (uint32_t)round_up(offsetof(struct send_slot, wqe) + body, CACHE_LINE);
}

/* More slots than packets in flight are no use. */
static uint32_t slots_max(const struct qp_init *init)
{
    return min_of(init->sq.size, SEND_SLOTS_MAX);
}

static uint32_t slots_first(uint32_t max)
{
    return min_of(max, SLOTS_FIRST);
}

/* Entries of a shared queue are as long as that queue's, which for XRC is known only per packet.
 * Raw packets have queues of another kind. */
static size_t recv_bytes(const struct qp_init *init)
{
    uint32_t max_sge = init->type == QPT_XRC_RECV ? QUEUE_MAX_SGE
                       : init->srq                ? init->srq->init.wq.max_sge
                                                  : init->rq.max_sge;

    return init->type == QPT_RAW_PACKET ? 0 : sizeof(struct rqe) + max_sge * sizeof(struct sge);
}

static uint8_t *own_slots(struct qp *qp)
{
    return (uint8_t *)(qp + 1);
}

struct qp *qp_alloc(const struct qp_init *init)
{
    uint32_t stride = slot_stride(init), max = has_requester(init) ? slots_max(init) : 0;
    size_t slots = (size_t)slots_first(max) * stride;
    size_t bytes = round_up(sizeof(struct qp) + slots + recv_bytes(init), CACHE_LINE);
    struct qp *qp = aligned_alloc(CACHE_LINE, bytes);

    if (!qp)
        return NULL;
    memset(qp, 0, bytes);
    if (max) {
        qp->req.slots = own_slots(qp);
        qp->req.slot_count = slots_first(max);
        qp->req.slot_max = max;
        qp->req.slot_stride = stride;
    }
    qp->resp.recv = (struct recv_wqe *)(own_slots(qp) + slots);
    return qp;
}

size_t qp_memory_max(const struct qp_init *init)
{
    /* The first slots, which stay in its block; and all of them, when they were needed. */
    size_t slots = has_requester(init) ? slots_first(slots_max(init)) + slots_max(init) : 0;

    return sizeof(struct qp) + slots * slot_stride(init) + recv_bytes(init);
}

size_t qp_memory_reads(uint32_t reads)
{
    return reads * sizeof(struct resp_resource);
}

/* Messages that have arrived behind one that has not need slots, too. Their memory is not the
 * program's: queue pairs that have some at a time, and how many. */
#define SLOTS_BEHIND 1024u
#define BEHINDS_MAX  256u
static atomic_uint behinds;

static void free_slots(struct qp *qp)
{
    if (!qp->req.slots || qp->req.slots == own_slots(qp))
        return;
    if (qp->req.slot_count > qp->req.slot_max)
        atomic_fetch_sub(&behinds, 1);
    free(qp->req.slots);
}

void qp_memory_reset(struct qp *qp)
{
    struct requester *req = &qp->req;

    resp_resources_set(qp, NULL, 0);
    if (!req->slots)
        return;
    free_slots(qp);
    req->slots = own_slots(qp);
    req->slot_count = slots_first(req->slot_max);
}

void qp_memory_free(struct qp *qp)
{
    free_slots(qp);
    free(qp->resp.res);
    free(qp);
}

/* ---- slots ---- */

static bool may_grow(const struct requester *req)
{
    if (req->slot_count < req->slot_max)
        return true;
    if (!req->sack || req->slot_count >= min_of(req->sq.size, SLOTS_BEHIND))
        return false;
    return req->slot_count > req->slot_max || atomic_load(&behinds) < BEHINDS_MAX;
}

bool req_grow_slots(struct qp *qp)
{
    struct requester *req = &qp->req, old = qp->req;
    uint8_t *slots;
    size_t bytes;

    if (work_queue_pending(&req->sq) <= 0 || !may_grow(req))
        return false;
    bytes = 2 * (size_t)req->slot_count * req->slot_stride;
    slots = aligned_alloc(CACHE_LINE, bytes);
    if (!slots)
        return false;
    memset(slots, 0, bytes);
    if (req->slot_count == req->slot_max)
        atomic_fetch_add(&behinds, 1);
    req->slots = slots;
    req->slot_count *= 2;
    for (uint32_t i = req->tail; i != req->head; i++)
        memcpy(slot_at(req, i), slot_at(&old, i), req->slot_stride);
    if (old.slots != own_slots(qp))
        free(old.slots);
    return true;
}
