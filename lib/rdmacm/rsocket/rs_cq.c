/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of a stream, and the messages that follow from them. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "rs_accept.h"
#include "rs_stream.h"

#define BATCH      16
#define LOOK_CALLS 64 /* calls between looks at the event channel, of a program that only polls */

/* ---- posting ---- */

int rs_post_receives(struct rs_stream *s, uint32_t n)
{
    while (n) {
        struct ibv_recv_wr wr[BATCH] = {0}, *bad;
        uint32_t count = n < BATCH ? n : BATCH;
        int err;

        for (uint32_t i = 0; i < count; i++) {
            wr[i].wr_id = rs_work_id(RS_WORK_RECV, 0);
            wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
        }
        err = ibv_post_recv(s->id->qp, wr, &bad);
        if (err)
            return -err;
        n -= count;
    }
    return 0;
}

int rs_post_write(struct rs_stream *s, uint64_t id, struct ibv_sge *sge, int n, const uint32_t *imm,
                  const struct rs_buffer *to, int flags)
{
    struct ibv_send_wr wr = {
        .wr_id = id,
        .sg_list = sge,
        .num_sge = n,
        .opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .send_flags = (unsigned)flags,
    };
    struct ibv_send_wr *bad;

    if (imm)
        wr.imm_data = htobe32(*imm);
    if (to) {
        wr.wr.rdma.remote_addr = to->addr;
        wr.wr.rdma.rkey = to->key;
    }
    return -ibv_post_send(s->id->qp, &wr, &bad);
}

static int post_control(struct rs_stream *s, enum rs_msg kind, uint32_t value)
{
    uint32_t imm = rs_msg_imm(kind, value);

    return rs_post_write(s, rs_work_id(RS_WORK_CONTROL, 0), NULL, 0, &imm, NULL, 0);
}

/* Announces the next half of the receive ring. value: of the credit message that goes along. */
static int announce(struct rs_stream *s, uint32_t value)
{
    uint32_t imm = rs_msg_imm(RS_MSG_CREDITS, value);
    struct rs_buffer entry = {
        .addr = (uintptr_t)s->recv_bytes + rs_recv_ring_announce(&s->recv),
        .key = s->remote_mr->rkey,
        .length = s->recv.half,
    };
    struct rs_buffer to = {
        .addr = s->peer_table.addr + s->peer_table_next * sizeof(entry),
        .key = s->peer_table.key,
    };
    struct ibv_sge sge = {.addr = (uintptr_t)&entry, .length = sizeof(entry)};
    bool is_inline = s->inline_size >= sizeof(entry);

    rs_buffer_to_peer(&entry, s->peer_big_endian);
    if (!is_inline) {
        void *copy =
            s->control_bytes + s->control_number++ % RS_CONTROL_SLOTS * sizeof(struct rs_buffer);

        sge.addr = (uintptr_t)memcpy(copy, &entry, sizeof(entry));
        sge.lkey = s->local_mr->lkey;
    }
    s->peer_table_next = (s->peer_table_next + 1) % s->peer_table.length;
    return rs_post_write(s, rs_work_id(RS_WORK_CONTROL, 0), &sge, 1, &imm, &to,
                         is_inline ? IBV_SEND_INLINE : 0);
}

/* Tells the peer that we send no more; when it does not either, the connection has ended. */
static int finish(struct rs_stream *s)
{
    bool both = s->read_shut || s->peer_finished;
    int err = post_control(s, RS_MSG_CONTROL, both ? RS_DISCONNECT : RS_SHUTDOWN);

    s->control_due = false;
    s->flow.controls++;
    if (!err && both)
        rs_stream_down(s, 0);
    return err;
}

void rs_stream_control(struct rs_stream *s)
{
    int err = 0;

    while (!err && s->state == RS_CONNECTED && !s->peer_finished && rs_flow_can_control(&s->flow)) {
        if (rs_recv_ring_announce_due(&s->recv))
            err = announce(s, rs_flow_grant(&s->flow));
        else if (rs_flow_grant_due(&s->flow))
            err = post_control(s, RS_MSG_CREDITS, rs_flow_grant(&s->flow));
        else
            break;
    }
    if (!err && s->state == RS_CONNECTED && s->control_due && rs_flow_can_control(&s->flow))
        err = finish(s);
    if (err)
        rs_stream_down(s, -err);
}

/* ---- completions ---- */

static void receive_control(struct rs_stream *s, uint32_t value)
{
    if (value != RS_SHUTDOWN && value != RS_DISCONNECT)
        return;
    s->peer_finished = true;
    s->gone |= value == RS_DISCONNECT;
    if (value == RS_DISCONNECT || (s->write_shut && !s->control_due))
        rs_stream_down(s, 0);
}

static void receive(struct rs_stream *s, uint32_t imm)
{
    uint32_t value = rs_msg_value(imm);

    switch (rs_msg_kind(imm)) {
    case RS_MSG_DATA:
        s->flow.received++;
        if (!rs_recv_ring_fill(&s->recv, value))
            rs_stream_down(s, EPROTO);
        break;
    case RS_MSG_CREDITS:
        rs_flow_limit(&s->flow, value);
        break;
    case RS_MSG_IOMAP: /* the table's entry is read when it is used */
        s->flow.received++;
        break;
    case RS_MSG_CONTROL:
        receive_control(s, value);
        break;
    default: /* of a later version; credits are unaffected */
        break;
    }
}

static int error_of(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ? ETIMEDOUT
                                                                                : ECONNRESET;
}

static void complete(struct rs_stream *s, const struct ibv_wc *wc, uint32_t *receives)
{
    uint32_t bytes = (uint32_t)wc->wr_id;

    switch ((enum rs_work)(wc->wr_id >> 32)) {
    case RS_WORK_RECV:
        if (wc->status == IBV_WC_SUCCESS && wc->wc_flags & IBV_WC_WITH_IMM) {
            if (s->state == RS_ACCEPTING) /* its confirmation was lost, or is late */
                s->state = RS_CONNECTED;
            ++*receives;
            receive(s, be32toh(wc->imm_data));
        }
        break;
    case RS_WORK_DATA:
        s->flow.slots++;
        rs_send_ring_release(&s->send, bytes);
        break;
    case RS_WORK_CONTROL:
        s->flow.controls--;
        break;
    }
    if (wc->status != IBV_WC_SUCCESS)
        rs_stream_down(s, error_of(wc->status));
}

void rs_stream_drop_unread(struct rs_stream *s)
{
    if (s->read_shut && !s->kept)
        rs_recv_ring_consume(&s->recv, s->recv.filled);
}

void rs_stream_poll_cq(struct rs_stream *s)
{
    struct ibv_wc wc[BATCH];
    uint32_t receives = 0;
    bool news = false;
    int n;

    do {
        n = ibv_poll_cq(s->cq, BATCH, wc);
        for (int i = 0; i < n; i++)
            complete(s, &wc[i], &receives);
        news |= n > 0;
    } while (n == BATCH);
    if (n < 0)
        rs_stream_down(s, EIO);
    if (receives && s->state == RS_CONNECTED) {
        int err = rs_post_receives(s, receives);

        if (err)
            rs_stream_down(s, -err);
    }
    rs_stream_drop_unread(s);
    if (news) {
        rs_stream_control(s);
        rs_wake(&s->rs);
    }
}

/* Completions are polled when there can be some: before the queue is armed, or after its event. */
static void take_completions(struct rs_stream *s)
{
    if (s->armed) {
        int got = rs_cq_events(s->comp, s->cq);

        if (!got)
            return;
        s->armed = false;
        rs_wake(&s->rs); /* the event will not wake those that sleep on it */
        if (got < 0)
            rs_stream_down(s, EIO);
    }
    rs_stream_poll_cq(s);
}

void rs_stream_take(struct rs_stream *s)
{
    if (s->cq && s->state >= RS_ACCEPTING)
        take_completions(s);
}

void rs_stream_process(struct rsocket *rs, bool cm)
{
    struct rs_stream *s = rs_stream_of(rs);

    if (s->state == RS_INIT || s->state == RS_BOUND || s->state == RS_FAILED)
        return;
    if (s->state == RS_LISTENING) {
        while (rs_stream_serve(rs))
            ;
        return;
    }
    if (s->state < RS_CONNECTED || cm || ++s->idle % LOOK_CALLS == 0)
        rs_stream_cm(s);
    rs_stream_take(s);
}

void rs_stream_arm(struct rsocket *rs)
{
    struct rs_stream *s = rs_stream_of(rs);

    if (s->cq && !s->armed) {
        s->armed = true;
        if (ibv_req_notify_cq(s->cq, 0))
            rs_stream_down(s, EIO);
        if (s->state >= RS_ACCEPTING)
            rs_stream_poll_cq(s);
    }
}
