/* SPDX-License-Identifier: BSD-3-Clause */
/* Completed work, for completion counters: see count.h. */
#include "count.h"

#include <errno.h>

#include "completion.h"
#include "fault.h"

/* ---- counters of a queue pair ---- */

static bool overlaps(const struct qp *qp, uint32_t what)
{
    return qp->resp.counted & what;
}

int engine_qp_count(struct qp *qp, struct comp_counter *c, uint32_t what)
{
    const uint32_t sends = QP_COUNT_SEND | QP_COUNT_READ | QP_COUNT_WRITE;

    if (qp->state != QPS_RESET && qp->state != QPS_INIT)
        return -EINVAL;
    if (overlaps(qp, what))
        return -EBUSY;
    for (unsigned i = 0; i < QP_COUNTS; i++)
        if (what >> i & 1)
            qp->counter[i] = c;
    qp->resp.counted |= (uint8_t)what;
    qp->counts_sends = qp->resp.counted & sends;
    return 0;
}

void engine_qp_count_none(struct qp *qp)
{
    qp->resp.counted = 0;
    qp->counts_sends = false;
}

/* ---- counting ---- */

static void add(struct engine *e, struct qp *qp, enum qp_count what, uint64_t done, uint64_t bytes,
                uint64_t failed)
{
    if (qp->resp.counted & what)
        comp_counter_add(qp->counter[__builtin_ctz(what)], e->cfg.lane, done, bytes, failed);
}

void count_done(struct engine *e, struct qp *qp, enum qp_count what, uint64_t n, uint64_t bytes)
{
    add(e, qp, what, n, bytes, 0);
}

void count_failed(struct engine *e, struct qp *qp, enum qp_count what)
{
    add(e, qp, what, 0, 0, 1);
}

/* What a work request is counted as; 0: as nothing. */
static enum qp_count kind_of_send(uint8_t opcode)
{
    switch (opcode) {
    case SQE_SEND:
    case SQE_SEND_IMM:
    case SQE_SEND_INV:
        return QP_COUNT_SEND;
    case SQE_WRITE:
    case SQE_WRITE_IMM:
        return QP_COUNT_WRITE;
    case SQE_READ:
        return QP_COUNT_READ;
    default:
        return (enum qp_count)0;
    }
}

/* Those of one kind in a row are added as one. */
void count_sends(struct engine *e, struct qp *qp, uint32_t tail, uint32_t end)
{
    enum qp_count what = (enum qp_count)0;
    uint64_t n = 0, bytes = 0;

    for (uint32_t i = tail; i != end; i++) {
        const struct send_slot *s = slot_at(&qp->req, i);
        enum qp_count is = kind_of_send(s->wqe.h.opcode);

        if (is != what) {
            add(e, qp, what, n, bytes, 0);
            n = bytes = 0;
            what = is;
        }
        n++;
        bytes += s->len;
    }
    add(e, qp, what, n, bytes, 0);
}

void count_send_failed(struct engine *e, struct qp *qp, const struct sqe *w)
{
    add(e, qp, kind_of_send(w->opcode), 0, 0, 1);
}

static void count_message(struct engine *e, struct qp *qp, enum qp_count what, const struct cqe *c)
{
    if (c->status == WC_SUCCESS)
        count_done(e, qp, what, 1, c->byte_len);
    else
        count_failed(e, qp, what);
}

void count_recv(struct engine *e, struct qp *qp, const struct cqe *c)
{
    count_message(e, qp, QP_COUNT_RECV, c);
    if (c->opcode == WC_RECV_RDMA_WITH_IMM)
        count_message(e, qp, QP_COUNT_PEER_WRITE, c);
}

void count_received(struct engine *e, struct qp *qp, const struct icrc_span *s, unsigned n,
                    bool writes)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < n; i++)
        bytes += s[i].payload;
    if (qp->service == PKT_UD)
        bytes += (uint64_t)n * ENCAP_GRH_LEN;
    count_done(e, qp, QP_COUNT_RECV, n, bytes);
    if (writes)
        count_done(e, qp, QP_COUNT_PEER_WRITE, n, bytes);
}

void count_write_later(struct engine *e, struct qp *qp, unsigned job, uint32_t len)
{
    *rx_completion_take(e) = (struct rx_completion){.qp = qp, .job = job, .cqe.byte_len = len};
}

void count_read(struct engine *e, struct qp *qp, struct resp_resource *r)
{
    if (r->counted || r->kind != KIND_READ_REQUEST)
        return;
    r->counted = true;
    count_done(e, qp, QP_COUNT_PEER_READ, 1, r->all_len);
}

void count_refused(struct engine *e, struct qp *qp, uint8_t kind, enum fault fault)
{
    if (!fault_rules[fault].fatal || qp->fault)
        return;
    if (kind == KIND_READ_REQUEST)
        count_failed(e, qp, QP_COUNT_PEER_READ);
    else if (kind == KIND_WRITE)
        count_failed(e, qp, QP_COUNT_PEER_WRITE);
}
