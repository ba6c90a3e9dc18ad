/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engine gets besides frames, and what it produces: work requests in; packets and
 * completions out. */
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define PUMP_LIMIT 65536 /* packets at one instant; more is a livelock */
#define MAX_AHS    4096

static bool sq_full(const struct our_qp *q)
{
    return q->sq_prod - q->sq_free >= SQ_SIZE;
}

static struct sqe *next_sqe(struct our_qp *q)
{
    struct sqe *e = work_queue_slot(q->sq, SQ_SIZE, sqe_stride(MAX_SGE, 0), q->sq_prod);

    memset(e, 0, sizeof(*e));
    return e;
}

static void ring_doorbell(struct run *r, struct our_qp *q)
{
    atomic_store_explicit(&q->shared->sq_prod, ++q->sq_prod, memory_order_release);
    r->posted++;
    engine_doorbell(r->engine, q->qp, r->now);
}

static void set_sge(struct sqe *e, const struct mem_region *mr, uint64_t off, uint32_t len)
{
    struct sge sge = {.addr = mr->iova + off, .length = len, .lkey = mr->key};

    e->num_sge = len != 0;
    memcpy(e + 1, &sge, sizeof(sge));
}

static void post_message(struct run *r, struct our_qp *q, unsigned i)
{
    const struct message *m = &q->conn->stream[r->side].msg[i];
    struct sqe *e = next_sqe(q);

    e->wr_id = i;
    e->opcode = m->op;
    e->flags = SQE_SIGNALED | (m->solicited ? SQE_SOLICITED : 0);
    e->imm = m->op == SQE_SEND_INV ? m->inv_rkey : __builtin_bswap32(m->imm);
    e->remote_addr = m->va;
    e->rkey = m->rkey;
    if (m->op == SQE_FLUSH) {
        e->flush.length = m->len;
        e->flush.placement = m->placement;
        e->flush.selectivity = m->selectivity;
    } else if (m->op == SQE_CMP_SWP) {
        e->atomic.compare_add = m->compare;
        e->atomic.swap = m->swap_add;
    } else if (m->op == SQE_FETCH_ADD) {
        e->atomic.compare_add = m->swap_add;
    }
    if (m->op == SQE_READ || m->op == SQE_CMP_SWP || m->op == SQE_FETCH_ADD)
        set_sge(e, &r->landing, q->landing_off[i], m->len);
    else if (m->op != SQE_FLUSH)
        set_sge(e, &r->payload, m->arena_off, m->len);
    ring_doorbell(r, q);
}

void host_post_due(struct run *r, struct our_qp *q)
{
    const struct stream *s = &q->conn->stream[r->side];

    while (q->next_msg < s->msgs && s->msg[q->next_msg].post_index <= r->index && !sq_full(q))
        post_message(r, q, q->next_msg++);
}

/* One handle per address vector; captures have few. */
static uint32_t ah_number(struct run *r, const struct address_vector *av)
{
    struct address_handle *ah;
    int err;

    for (unsigned i = 0; i < r->paths; i++)
        if (memcmp(&r->path[i].av, av, sizeof(*av)) == 0)
            return address_handle_number(r->path[i].ah);
    if (r->paths == MAX_AHS)
        return 0;
    ah = address_handle_create(r->ahs, REPLAY_PD, av, 0, &err);
    if (ah == NULL)
        return 0;
    ENSURE_ROOM(r->path, r->paths, r->path_room);
    r->path[r->paths].av = *av;
    r->path[r->paths++].ah = ah;
    return address_handle_number(ah);
}

void host_post_datagram(struct run *r, struct our_qp *q, const struct rec *rec)
{
    const struct message *m = rec->msg;
    struct address_vector av = host_path(rec, true);
    struct sqe *e = next_sqe(q);

    if (sq_full(q))
        return;
    host_choose_flow_label(&av, rec, q->recorded_qpn, rec->pkt.dest_qpn);
    e->opcode = m->op;
    e->flags = SQE_SIGNALED | (m->solicited ? SQE_SOLICITED : 0);
    e->imm = __builtin_bswap32(m->imm);
    e->ud.ah = ah_number(r, &av);
    e->ud.remote_qpn = rec->pkt.dest_qpn;
    e->ud.remote_qkey = rec->pkt.deth.qkey;
    set_sge(e, &r->payload, m->arena_off, m->len);
    ring_doorbell(r, q);
}

void host_post_recv(struct run *r, struct our_qp *q, uint32_t len)
{
    struct rqe *e = work_queue_slot(q->rq, RQ_SIZE, rqe_stride(MAX_SGE), q->rq_prod);
    struct sge sge = {.length = len, .lkey = r->landing.key};
    uint64_t off;

    if (q->rq_prod - q->rq_free >= RQ_SIZE)
        return;
    off = host_landing_reserve(r, len);
    sge.addr = r->landing.iova + off;
    *e = (struct rqe){.wr_id = off, .num_sge = len != 0};
    memcpy(e + 1, &sge, sizeof(sge));
    atomic_store_explicit(&q->shared->rq_prod, ++q->rq_prod, memory_order_release);
    if (atomic_load(&q->shared->rq_notify))
        engine_doorbell(r->engine, q->qp, r->now);
}

/* ---- what comes out ---- */

/* Counts the engine's RNR NAKs of a message. */
static void note_refusal(const struct run *r, const struct sent *s)
{
    struct message *m = stream_message(&s->conn->stream[!r->side], s->psn);

    if (m != NULL && pkt_info(&s->pkt)->kind == KIND_ACK &&
        (s->pkt.aeth.syndrome & AETH_CLASS_MASK) == AETH_RNR)
        m->rnr_sent++;
}

/* Finds the connection of a frame that the engine sent, and unwraps its PSN. */
static void find_connection(struct run *r, struct sent *s)
{
    uint8_t service = pkt_info(&s->pkt)->service;
    bool request = pkt_info(&s->pkt)->flags & PF_REQUEST;

    for (unsigned i = 0; i < r->qpcount && service != PKT_UD; i++) {
        struct our_qp *q = r->qp[i];

        if (q->conn == NULL || q->conn->service != service ||
            host_peer_number(r, q->conn) != s->pkt.dest_qpn)
            continue;
        s->conn = q->conn;
        ENSURE_ROOM(q->sent, q->sents, q->sent_room);
        q->sent[q->sents++] = s;
        s->psn = psn_unwrap(request ? q->out_psn : q->in_psn, s->pkt.psn);
        if (request)
            q->out_psn = s->psn;
        else
            note_refusal(r, s);
        return;
    }
}

void host_change_sent(struct sent *s, enum frame_field field, uint64_t value)
{
    struct frame_layout layout;

    frame_layout(&layout, s->data, &s->view, &s->pkt);
    frame_field_put(s->data, &layout, field, value);
    icrc_seal(s->view.l3_kind, s->data + (s->view.l3 - s->data), s->view.l3_len - ICRC_LEN);
}

/* Puts the recorded queue pair's number in place of ours. */
static void restore_source(struct run *r, struct sent *s)
{
    if (!(pkt_info(&s->pkt)->flags & PF_DETH))
        return;
    for (unsigned i = 0; i < r->qpcount; i++)
        if (r->qp[i]->dgram != NULL && qp_number(r->qp[i]->qp) == s->pkt.deth.src_qpn) {
            s->pkt.deth.src_qpn = r->qp[i]->recorded_qpn;
            host_change_sent(s, FRAME_DETH_src_qpn, s->pkt.deth.src_qpn);
            return;
        }
}

static void note_sent(struct run *r, const struct frame *f)
{
    struct sent *s = replay_grow(NULL, sizeof(*s));

    *s = (struct sent){.at = r->now, .after = r->index, .len = f->len, .order = r->sents};
    r->sent_bytes += f->len;
    if (r->sent_bytes > r->sent_limit)
        r->failed = "the engine sends far more than was captured";
    s->data = replay_grow(NULL, f->len);
    memcpy(s->data, f->data, f->len);
    s->sound = encap_rx(&s->view, s->data, s->len, &r->port) == DROP_NONE &&
               pkt_parse(&s->pkt, s->view.bth, s->view.bth_len) == DROP_NONE &&
               icrc_verify(s->view.l3_kind, s->view.l3, s->view.l3_len);
    if (s->sound) {
        restore_source(r, s);
        find_connection(r, s);
    }
    ENSURE_ROOM(r->sent, r->sents, r->sent_room);
    r->sent[r->sents++] = s;
}

void host_pump(struct run *r)
{
    struct frame frame[FRAME_BURST];
    unsigned n, total = 0;

    do {
        for (unsigned i = 0; i < FRAME_BURST; i++)
            frame[i] = (struct frame){.data = r->tx[i], .room = FRAME_ROOM};
        n = engine_tx(r->engine, frame, FRAME_BURST, r->now);
        for (unsigned i = 0; i < n; i++)
            note_sent(r, &frame[i]);
        total += n;
    } while (engine_wants_tx(r->engine) && total < PUMP_LIMIT && r->failed == NULL);
}

/* ---- completions ---- */

/* On unreliable services a message is delivered if all of its packets arrived once and in order.
 * All other messages are unpredictable. */
bool host_is_delivered(const struct conn *conn, const struct stream *s, const struct message *m)
{
    if (conn->service == PKT_RC)
        return true;
    return s->tidy && !m->cut && m->recorded == m->packets;
}

static void check_received(struct run *r, struct our_qp *q, const struct cqe *e)
{
    const struct stream *s = &q->conn->stream[!r->side];
    const struct message *m;
    bool same;

    while (q->next_recv < s->msgs && (!message_takes_recv(&s->msg[q->next_recv]) ||
                                      !host_is_delivered(q->conn, s, &s->msg[q->next_recv])))
        q->next_recv++;
    if (q->next_recv == s->msgs || (q->conn->service == PKT_UC && !s->tidy))
        return;
    m = &s->msg[q->next_recv++];
    r->effects++;
    same = e->byte_len == m->len;
    if (same && m->op != SQE_WRITE_IMM)
        same = memcmp(r->landing_bytes + e->wr_id, r->capture->arena + m->arena_off, m->len) == 0;
    if (same && m->has_imm)
        same = (e->wc_flags & WC_WITH_IMM) && e->imm == __builtin_bswap32(m->imm);
    if (same && m->has_inv)
        same = e->wc_flags & WC_WITH_INV;
    if (!same)
        finding_add(r, DIFF_effect, -1, 0, &r->capture->rec[r->index], NULL,
                    "received %u bytes, not the message of %u that was sent", e->byte_len, m->len);
}

static void check_datagram(struct run *r, struct our_qp *q, const struct cqe *e)
{
    const struct rec *rec = &r->capture->rec[r->index];

    q->received++;
    r->effects++;
    if (rec->msg == NULL || e->byte_len != rec->msg->len + 40 ||
        memcmp(r->landing_bytes + e->wr_id + 40, r->capture->arena + rec->msg->arena_off,
               rec->msg->len))
        finding_add(r, DIFF_effect, -1, 0, rec, NULL, "received %u bytes that were not sent",
                    e->byte_len);
}

static void handle_completion(struct run *r, const struct cqe *e)
{
    struct qp *qp = qp_table_lookup(r->qps, e->qpn);
    struct our_qp *q = qp != NULL ? qp_owner(qp) : NULL;

    if (q == NULL)
        return;
    if (e->status != WC_SUCCESS)
        q->errored = true;
    if (!(e->opcode & WC_RECV)) {
        q->sq_free = e->wqe + 1;
        if (q->conn != NULL && e->wr_id < q->conn->stream[r->side].msgs)
            q->status[e->wr_id] = e->status;
        return;
    }
    q->rq_free = e->wqe + 1;
    if (e->status != WC_SUCCESS)
        return;
    if (q->conn != NULL)
        check_received(r, q, e);
    else
        check_datagram(r, q, e);
}

void host_poll(struct run *r)
{
    const struct cqe *e;

    while ((e = cq_reader_peek(&r->reader)) != NULL) {
        handle_completion(r, e);
        cq_reader_advance(&r->reader);
    }
}
