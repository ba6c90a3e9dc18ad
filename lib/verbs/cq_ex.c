/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extended polling calls. The queue's lock is held from a start_poll that found a completion to
 * end_poll, and the calls read the current CQE in the queue.
 */
#include <time.h>

#include "shim.h"
#include "watch.h"

static struct shim_cq *cq_of(struct ibv_cq_ex *cq)
{
    return (struct shim_cq *)cq;
}

static int take_next(struct shim_cq *cq)
{
    const struct cqe *e = client_cq_next(&cq->queue);

    cq->current = e;
    if (!e)
        return ENOENT;
    cq->ex.status = e->status;
    cq->ex.wr_id = e->wr_id;
    if (WATCHED(process_completion))
        watch_completion(cq->ex.context, e);
    return 0;
}

static void finish_current(struct shim_cq *cq)
{
    if (cq->current)
        client_cq_advance(&cq->queue);
    cq->current = NULL;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct shim_cq *cq = cq_of(ex);

    if (unlikely(attr && attr->comp_mask))
        return EINVAL;
    if (WATCHED(process_completion)) {
        int err = watch_judge(ex->context, CTL_JUDGE_POLL_CQ);

        if (err)
            return err;
    }
    client_cq_lock(&cq->queue);
    if (likely(!take_next(cq))) {
        cq->wall_known = false;
        client_cq_reads(&cq->queue, &client_idle);
        client_poll_found();
        return 0;
    }
    client_cq_unlock(&cq->queue);
    if (unlikely(client_poll_empty(&cq->queue) && client_cq_flush(&cq->queue) < 0))
        return EIO; /* the daemon is gone, and all work requests are flushed */
    return ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
    finish_current(cq_of(ex));
    return take_next(cq_of(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
    finish_current(cq_of(ex));
    client_cq_reads(&cq_of(ex)->queue, NULL);
    client_cq_unlock(&cq_of(ex)->queue);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->src_qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->wc_flags;
}

/* Ethernet has no LIDs. */
static uint32_t read_slid(struct ibv_cq_ex *ex)
{
    return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
    return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->timestamp;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * (int64_t)NS_PER_SEC + ts.tv_nsec;
}

/*
 * Timestamps are CLOCK_MONOTONIC. The present distance of the wall clock is added, which changes
 * when that is set. It is read once for the CQEs of a start_poll, and a smaller one counts only
 * when it is smaller by more than reading two clocks explains: so the times of a queue run
 * backwards only when the wall clock does.
 */
#define CLOCKS_JITTER_NS 1000000

static uint64_t read_wallclock(struct ibv_cq_ex *ex)
{
    struct shim_cq *cq = cq_of(ex);
    int64_t offset;

    if (!cq->wall_known) {
        offset = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
        if (offset > cq->wall_offset || offset < cq->wall_offset - CLOCKS_JITTER_NS)
            cq->wall_offset = offset;
        cq->wall_known = true;
    }
    return cq->current->timestamp + (uint64_t)cq->wall_offset;
}

/* As NICs do: 0, as of a tag without a VLAN, when there is no tag. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
    uint16_t vlan = cq_of(ex)->current->vlan;

    return vlan == CQE_VLAN_NONE ? 0 : vlan;
}

/* Raw packets have a flow tag in place of immediate data. */
static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current->imm;
}

void cq_ex_init(struct shim_cq *cq, uint64_t wc_flags)
{
    struct ibv_cq_ex *ex = &cq->ex;

    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
    if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
        ex->read_byte_len = read_byte_len;
    if (wc_flags & IBV_WC_EX_WITH_IMM)
        ex->read_imm_data = read_imm_data;
    if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
        ex->read_qp_num = read_qp_num;
    if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
        ex->read_src_qp = read_src_qp;
    if (wc_flags & IBV_WC_EX_WITH_SLID)
        ex->read_slid = read_slid;
    if (wc_flags & IBV_WC_EX_WITH_SL)
        ex->read_sl = read_sl;
    if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
        ex->read_dlid_path_bits = read_dlid_path_bits;
    if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
        ex->read_completion_ts = read_completion_ts;
    if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        ex->read_completion_wallclock_ns = read_wallclock;
    if (wc_flags & IBV_WC_EX_WITH_CVLAN)
        ex->read_cvlan = read_cvlan;
    if (wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
        ex->read_flow_tag = read_flow_tag;
}
