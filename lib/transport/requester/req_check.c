/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations that send WQEs may ask for, as a table, and what makes a WQE illegal. */
#include "requester.h"
#include "sg.h"

/* Which services offer the operation (volume 1, table 38; A14.3; A19). */
enum { ON_RC = 1, ON_UC = 2, ON_UD = 4, ON_RAW = 8, ON_RELIABLE = ON_RC };

const struct req_op req_ops[16] = {
    [SQE_WRITE] = {ON_RC | ON_UC, REQ_HAS_REMOTE, WC_RDMA_WRITE, OP_WRITE_FIRST, OP_WRITE_MIDDLE,
                   OP_WRITE_LAST, OP_WRITE_ONLY},
    [SQE_WRITE_IMM] = {ON_RC | ON_UC, REQ_HAS_REMOTE, WC_RDMA_WRITE, OP_WRITE_FIRST,
                       OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM},
    [SQE_SEND] = {ON_RC | ON_UC | ON_UD | ON_RAW, 0, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE,
                  OP_SEND_LAST, OP_SEND_ONLY},
    [SQE_SEND_IMM] = {ON_RC | ON_UC | ON_UD, 0, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE,
                      OP_SEND_LAST_IMM, OP_SEND_ONLY_IMM},
    [SQE_SEND_INV] = {ON_RC, 0, WC_SEND, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_INV,
                      OP_SEND_ONLY_INV},
    [SQE_READ] = {ON_RC, REQ_HAS_REMOTE | REQ_HAS_RESPONSE | REQ_RETURNS_DATA, WC_RDMA_READ,
                  .only = OP_READ_REQUEST},
    [SQE_CMP_SWP] = {ON_RC, REQ_HAS_REMOTE | REQ_HAS_RESPONSE | REQ_RETURNS_DATA | REQ_EIGHT_BYTES,
                     WC_COMP_SWAP, .only = OP_CMP_SWP},
    [SQE_FETCH_ADD] = {ON_RC,
                       REQ_HAS_REMOTE | REQ_HAS_RESPONSE | REQ_RETURNS_DATA | REQ_EIGHT_BYTES,
                       WC_FETCH_ADD, .only = OP_FETCH_ADD},
    [SQE_ATOMIC_WRITE] = {ON_RC, REQ_HAS_REMOTE | REQ_HAS_RESPONSE | REQ_EIGHT_BYTES,
                          WC_ATOMIC_WRITE, .only = OP_ATOMIC_WRITE},
    [SQE_FLUSH] = {ON_RC, REQ_HAS_REMOTE | REQ_HAS_RESPONSE, WC_FLUSH, .only = OP_FLUSH},
    [SQE_LOCAL_INV] = {ON_RC | ON_UC, REQ_IS_LOCAL, WC_LOCAL_INV},
    [SQE_BIND_MW] = {ON_RC | ON_UC, REQ_IS_LOCAL, WC_BIND_MW},
};

uint64_t req_message_len(const struct send_wqe *w)
{
    uint64_t len = 0;

    if (w->h.flags & SQE_INLINE)
        return w->h.inline_len;
    for (unsigned i = 0; i < w->h.num_sge; i++)
        len += w->sge[i].length;
    return len;
}

bool req_is_offered(const struct qp *qp, const struct req_op *op)
{
    return op->services & (qp->service == PKT_UD        ? ON_UD
                           : qp->service == PKT_UC      ? ON_UC
                           : qp->service == SERVICE_RAW ? ON_RAW
                                                        : ON_RELIABLE);
}

uint8_t req_check(struct engine *e, struct qp *qp, struct send_slot *s)
{
    const struct send_wqe *w = &s->wqe;
    const struct req_op *op = &req_ops[w->h.opcode & 15];
    uint64_t len = req_message_len(w);
    bool returns = op->traits & REQ_RETURNS_DATA;

    s->len = s->packets = 0;
    if (!req_is_offered(qp, op) || (returns && (w->h.flags & SQE_INLINE)) ||
        ((op->traits & REQ_HAS_RESPONSE) && !qp->attr.max_rd_atomic))
        return WC_LOC_QP_OP_ERR;
    if (op->traits & REQ_IS_LOCAL)
        return WC_SUCCESS;
    if (len > MESSAGE_MAX || ((op->traits & REQ_EIGHT_BYTES) && len != sizeof(uint64_t)) ||
        (qp->service == PKT_UD && len > qp->mtu) ||
        (w->h.opcode == SQE_FLUSH && w->h.flush.length > UINT32_MAX))
        return WC_LOC_LEN_ERR;
    s->len = (uint32_t)len;
    s->packets =
        op->traits & REQ_EIGHT_BYTES || w->h.opcode == SQE_FLUSH || qp->service == SERVICE_RAW
            ? 1
            : packets_for(s->len, qp->mtu);
    /* The one packet of a short message is checked when its payload is fetched. */
    if (!(w->h.flags & SQE_INLINE) && (s->packets > 1 || returns) &&
        sg_check(e, qp->pd, w->sge, w->h.num_sge, returns ? MEM_LOCAL_WRITE : MEM_LOCAL_READ) !=
            MR_OK) {
        counter_inc(&qp->counters.local_protection_err);
        return WC_LOC_PROT_ERR;
    }
    return WC_SUCCESS;
}
