/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responses that carry data. A batch is of consecutive responses of the oldest READs that are not
 * complete, into one piece of memory each, or into several that are mapped; or of the results of
 * the oldest atomics.
 */
#include "completer.h"
#include "late.h"
#include "mr_pieces.h"
#include "req_commit.h"
#include "req_recovery.h"
#include "req_sack.h"
#include "rx_batch.h"
#include "sg.h"

/* Whether p is the next response that s waits for, and s has not failed. */
static bool is_next_response(const struct send_slot *s, psn_t p)
{
    return s->status == WC_SUCCESS && psn_eq(psn_add(s->first, s->done), p);
}

/*
 * The slot that response p belongs to, if it may be placed. All before it is thereby acknowledged,
 * or else it is *ahead: others before it are missing, and asked for again.
 */
static struct send_slot *expected_slot(struct engine *e, struct qp *qp, unsigned job, bool *ahead)
{
    struct rx_job *rx = &e->rx_job[job];
    psn_t p = rx->pkt.psn;
    struct send_slot *s;

    *ahead = !comp_ack_before(e, qp, p);
    s = comp_slot(qp, p, &rx->slot);
    if (!s || s->status != WC_SUCCESS)
        return NULL;
    if (!*ahead)
        return is_next_response(s, p) ? s : NULL;
    if (!qp->req.sack || !op_is_read_or_atomic(s->wqe.h.opcode) || !sack_covers(qp, p) ||
        sack_is_here(qp, p))
        return NULL;
    return s;
}

static void fail_slot(struct engine *e, struct qp *qp, struct send_slot *s, uint8_t status)
{
    s->status = status;
    engine_touch(e, qp);
}

/* The bytes of a response. False: the slot has failed, or the response is asked for again. */
static bool scatter(struct engine *e, struct qp *qp, struct send_slot *s, uint32_t off,
                    const uint8_t *bytes, uint32_t len, unsigned job)
{
    enum mr_fault f = sg_scatter(e, qp->pd, s->wqe.sge, s->wqe.h.num_sge, off, bytes, len, job);

    if (f != MR_OK && (f != MR_NO_ROOM || late_wait(e, qp) != FAULT_SUSPENDED))
        fail_slot(e, qp, s, WC_LOC_PROT_ERR);
    return f == MR_OK;
}

/*
 * A peer that has maps answers, where the oldest READ is in the way, to READs that it does not
 * remember; that of XRC does not. An atomic it must remember until its response is here, and what
 * is behind that, too.
 */
static bool may_be_forgotten(const struct qp *qp, const struct send_slot *s)
{
    const struct requester *req = &qp->req;
    const struct send_slot *a;
    uint32_t i = req->tail;

    if (qp->service != PKT_RC || !req->recovery.has_maps || !req_sack_is_complete(qp, s))
        return false;
    do {
        a = slot_at(req, i++);
        if (op_is_read_or_atomic(a->wqe.h.opcode) && a->wqe.h.opcode != SQE_READ &&
            !slot_is_before(a, req->una))
            return false;
    } while (a != s);
    return true;
}

static void response_taken(struct engine *e, struct qp *qp, struct send_slot *s, unsigned job,
                           bool ahead)
{
    psn_t p = e->rx_job[job].pkt.psn;

    if (ahead) {
        req_sack_response(qp, p);
        if (s->done < s->packets && may_be_forgotten(qp, s)) {
            s->done = s->packets;
            req_commit_response_at(&qp->req, e->rx_job[job].slot);
        }
        req_lose(e, qp, true);
        return;
    }
    if (++s->done == s->packets)
        req_commit_response(&qp->req);
    comp_progress(e, qp, psn_add(p, 1));
}

/* Whether a response's opcode says what its position says: it is the last one, or not, and the
 * first of all is no MIDDLE or LAST. Behind it, where the READ was asked for again, responders
 * go on with FIRST or with MIDDLE. Peers that have agreed on maps are asked for parts of READs, and
 * answer parts: there it says nothing. */
static inline bool opcode_fits(const struct send_slot *s, uint32_t at, uint16_t pkt_flags)
{
    uint16_t end = at + 1 == s->packets ? PF_END : 0, is = pkt_flags & (PF_START | PF_END);

    return is == (PF_START | end) || (at && is == end);
}

static bool opcode_is_right(struct qp *qp, const struct send_slot *s, uint32_t at,
                            const struct pkt *p)
{
    uint16_t flags = pkt_info(p)->flags;

    if (unlikely((flags & PF_END) && at + 1 != s->packets) && req_take_probe_answer(qp, p->psn))
        return true;
    return qp->selective || opcode_fits(s, at, flags);
}

/* Bytes of response `at`; FLUSH and ATOMIC WRITE are answered by an empty one (A19.4). */
static uint32_t response_len(const struct qp *qp, const struct send_slot *s, uint32_t at)
{
    switch (s->wqe.h.opcode) {
    case SQE_READ:
        return min_of(s->len - at * qp->mtu, qp->mtu);
    case SQE_FLUSH:
    case SQE_ATOMIC_WRITE:
        return 0;
    default:
        return UINT32_MAX;
    }
}

void comp_read(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    bool ahead;
    struct send_slot *s = expected_slot(e, qp, job, &ahead);
    uint32_t at;

    if (!s)
        return;
    at = (uint32_t)psn_diff(p->psn, s->first);
    if (p->payload_len != response_len(qp, s, at) || !opcode_is_right(qp, s, at, p)) {
        fail_slot(e, qp, s, WC_BAD_RESP_ERR);
        return;
    }
    if (p->payload_len && !scatter(e, qp, s, at * qp->mtu, p->payload, p->payload_len, job))
        return;
    response_taken(e, qp, s, job, ahead);
}

void comp_atomic(struct engine *e, struct qp *qp, unsigned job)
{
    const struct pkt *p = &e->rx_job[job].pkt;
    bool ahead;
    struct send_slot *s = expected_slot(e, qp, job, &ahead);

    if (!s)
        return;
    if (!op_is_atomic(s->wqe.h.opcode)) {
        fail_slot(e, qp, s, WC_BAD_RESP_ERR);
        return;
    }
    s->atomic_value = p->atomic_ack;
    if (!scatter(e, qp, s, 0, (const uint8_t *)&s->atomic_value, sizeof(s->atomic_value), job))
        return;
    response_taken(e, qp, s, job, ahead);
}

/* ---- a batch ---- */

bool comp_expect_response(const struct qp *qp, psn_t *first)
{
    *first = qp->req.una;
    return qp_can_request(qp) && qp->req.rd_outstanding;
}

/* The count of the oldest slot that is not acknowledged as a whole. Those before `send` were
 * sent. */
static uint32_t oldest_slot(const struct requester *req)
{
    uint32_t i = req->tail;

    while (i != req->send && slot_is_before(slot_at(req, i), req->una))
        i++;
    return i;
}

/* Moves the bytes of a response that go to several pieces of memory, all of them mapped. */
static __attribute__((noinline)) bool move_to_pieces(struct rx_batch *b, struct mr_grant *g,
                                                     const struct send_slot *s,
                                                     const uint8_t *payload, uint32_t len)
{
    struct mr_piece pieces[QUEUE_MAX_SGE];

    if (!mr_pieces_find(b, g, s->wqe.sge, s->wqe.h.num_sge, s->done * b->qp->mtu, len, pieces))
        return false;
    mr_pieces_put(pieces, payload, len);
    return true;
}

/* Moves or queues the bytes of packet i, the next response of s, which is of count `slot`. */
static bool move_response(struct rx_batch *b, struct mr_grant *g, const struct send_slot *s,
                          uint32_t slot, unsigned i)
{
    const struct sge *sge = s->wqe.sge, *end = sge + s->wqe.h.num_sge;
    const uint8_t *payload = bth_payload(b->span[i].bth);
    uint32_t off = s->done * b->qp->mtu, len = b->span[i].payload;
    struct rx_job *job;
    uint8_t *to;

    for (; sge != end && off >= sge->length; sge++)
        off -= sge->length;
    if (sge == end || sge->length - off < len)
        return len && move_to_pieces(b, g, s, payload, len);
    to = rx_batch_lookup(b, g, &b->qp->resp.recv_hint, sge->lkey, MEM_LOCAL_WRITE, sge->addr + off,
                         len);
    if (likely(to)) {
        mr_grant_copy(to, payload, len);
        return true;
    }
    job = rx_batch_queue(b, g, i, sge->addr + off, payload, len);
    if (!job)
        return false;
    job->is_response = true;
    job->slot = slot;
    return true;
}

/* Places packet i, the next response of s. False, with nothing done: the general path must judge
 * it. */
static bool place_response(struct rx_batch *b, struct mr_grant *g, struct send_slot *s,
                           uint32_t slot, unsigned i)
{
    const uint8_t *bth = b->span[i].bth;
    uint32_t len = b->span[i].payload;

    if (!s->started || s->wqe.h.opcode != SQE_READ || len != response_len(b->qp, s, s->done) ||
        !opcode_fits(s, s->done, opcode_table[bth_opcode(bth)].flags))
        return false;
    if (!move_response(b, g, s, slot, i))
        return false;
    s->done++;
    return true;
}

/* The same of an empty response: to an ATOMIC WRITE, a FLUSH, or a READ of nothing. */
static __attribute__((noinline)) bool place_empty(const struct rx_batch *b, struct send_slot *s,
                                                  unsigned i)
{
    if (b->span[i].payload || !s->started || response_len(b->qp, s, s->done) ||
        !opcode_fits(s, s->done, opcode_table[bth_opcode(b->span[i].bth)].flags))
        return false;
    s->done++;
    return true;
}

unsigned comp_place_responses(struct rx_batch *b, unsigned n)
{
    struct requester *req = &b->qp->req;
    struct mr_grant g = {.direct = NULL};
    uint32_t at = oldest_slot(req);
    unsigned i;

    for (i = 0; i < n && at != req->send; i++) {
        struct send_slot *s = slot_at(req, at);

        if (!is_next_response(s, psn_add(req->una, i)) ||
            (!place_response(b, &g, s, at, i) && !place_empty(b, s, i)))
            break;
        if (s->done != s->packets)
            continue;
        at++;
        req_commit_response(req);
    }
    return i;
}

/* Stores the result in packet i, the one response of s, into mapped memory. False, with nothing
 * done: the general path must judge it. */
static bool place_result(struct rx_batch *b, struct mr_grant *g, struct send_slot *s, unsigned i)
{
    const struct sge *sge = s->wqe.sge;
    uint64_t original = atomic_ack_original(b->span[i].bth + BTH_LEN + AETH_LEN);
    uint8_t *to;

    if (!s->started || !op_is_atomic(s->wqe.h.opcode) || s->wqe.h.num_sge != 1)
        return false;
    to = rx_batch_lookup(b, g, &b->qp->resp.recv_hint, sge->lkey, MEM_LOCAL_WRITE, sge->addr,
                         sizeof(original));
    if (!to)
        return false;
    memcpy(to, &original, sizeof(original));
    s->done++;
    return true;
}

unsigned comp_place_results(struct rx_batch *b, unsigned n)
{
    struct requester *req = &b->qp->req;
    struct mr_grant g = {.direct = NULL};
    uint32_t at = oldest_slot(req);
    unsigned i;

    for (i = 0; i < n && at != req->send; i++, at++) {
        struct send_slot *s = slot_at(req, at);

        if (!is_next_response(s, psn_add(req->una, i)) || !place_result(b, &g, s, i))
            break;
        req_commit_response(req);
    }
    return i;
}

void comp_commit_responses(struct rx_batch *b, unsigned n)
{
    b->qp->req.stalls = 0; /* both directions of the path work */
    b->qp->req.peer_sport = hdr_template_sport(b->span[n - 1].bth);
    comp_progress(b->e, b->qp, psn_add(b->qp->req.una, n));
}
