/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine and its host: queue pairs as the capture shows them, and their connections. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entropy.h"
#include "host.h"
#include "lines.h"

#define CQ_SIZE           16384u
#define MTU_CODE_MAX      5
#define RD_ATOMIC         16
#define RNR_TIMER_LONGEST (656 * NS_PER_MS)
#define TIMEOUT_LEAST     14 /* 67 ms: captures of virtual machines have pauses */

static void on_cq_event(void *ctx, struct comp_queue *cq)
{
}

static void on_async_event(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
}

/* ---- paths ---- */

/* How a side addresses the other: from one of its own frames, or from one of the other side's,
 * reversed. Padding is zero too, so that paths can be compared as bytes. */
struct address_vector host_path(const struct rec *rec, bool own)
{
    const struct encap_view *v = &rec->view;
    struct address_vector av;

    memset(&av, 0, sizeof(av));
    av.sgid = own ? v->sgid : v->dgid;
    av.dgid = own ? v->dgid : v->sgid;
    av.gid_type = v->l3_kind == ICRC_GRH ? GID_TYPE_ROCE_V1 : GID_TYPE_ROCE_V2;
    av.vlan = v->vlan_tci == VLAN_NONE ? VLAN_NONE : v->vlan_tci & 0x0FFF;
    av.sl = av.pcp = v->vlan_tci == VLAN_NONE ? 0 : (uint8_t)(v->vlan_tci >> 13);
    av.traffic_class = v->traffic_class;
    av.hop_limit = v->hop_limit;
    av.flow_label = v->flow_label;
    memcpy(av.smac, own ? v->smac : v->dmac, sizeof(av.smac));
    memcpy(av.dmac, own ? v->dmac : v->smac, sizeof(av.dmac));
    return av;
}

/*
 * A flow label that leads to the recorded source port. IPv4 packets do not carry it, so any label
 * with this result will do. IPv6 packets carry it, so it is the recorded one.
 */
void host_choose_flow_label(struct address_vector *av, const struct rec *rec, uint32_t own,
                            uint32_t peer)
{
    uint16_t sport = rec->view.udp_sport;

    if (rec->view.l3_kind != ICRC_IPV4 || sport < ENTROPY_PORT_MIN ||
        entropy_port_kernel(0, own, peer) == sport)
        return;
    av->flow_label = sport & 0x3FFF ? sport & 0x3FFF : 0x4001;
}

/* ---- queue pairs ---- */

static void *alloc_segment(size_t bytes)
{
    void *p = lines_alloc(bytes);

    if (p == NULL)
        replay_grow(NULL, SIZE_MAX); /* prints a message and exits */
    return p;
}

static struct work_queue make_ring(uint8_t *bytes, _Atomic uint32_t *prod, uint32_t size,
                                   uint32_t stride)
{
    return (struct work_queue){
        .ring = bytes, .prod = prod, .size = size, .stride = stride, .max_sge = MAX_SGE};
}

static struct our_qp *new_qp(struct run *r, uint32_t type, uint32_t qpn)
{
    struct our_qp *q = replay_grow(NULL, sizeof(*q));
    struct qp_init init;
    int err;

    *q = (struct our_qp){.recorded_qpn = qpn};
    q->shared = alloc_segment(sizeof(*q->shared));
    q->sq = alloc_segment((size_t)SQ_SIZE * sqe_stride(MAX_SGE, 0));
    q->rq = alloc_segment((size_t)RQ_SIZE * rqe_stride(MAX_SGE));
    init = (struct qp_init){
        .type = type,
        .pd = REPLAY_PD,
        .send_cq = &r->cq,
        .recv_cq = &r->cq,
        .shared = q->shared,
        .sq = make_ring(q->sq, &q->shared->sq_prod, SQ_SIZE, sqe_stride(MAX_SGE, 0)),
        .rq = make_ring(q->rq, &q->shared->rq_prod, RQ_SIZE, rqe_stride(MAX_SGE)),
        .caps = {SQ_SIZE, RQ_SIZE, MAX_SGE, MAX_SGE, 0},
        .owner = q,
    };
    qp_table_prefer(r->qps, qpn); /* else another: frames are then translated */
    q->qp = qp_create(r->qps, &init, &err);
    if (q->qp != NULL)
        engine_qp_attach(r->engine, q->qp);
    ENSURE_ROOM(r->qp, r->qpcount, r->qp_room);
    r->qp[r->qpcount++] = q;
    return q;
}

static int modify_qp(struct run *r, struct our_qp *q, struct qp_attr attr, uint32_t mask,
                     const struct address_vector *av)
{
    return q->qp == NULL ? -ENOMEM
                         : engine_qp_modify(r->engine, q->qp, &attr, mask | QPA_STATE, av,
                                            MTU_CODE_MAX, r->now);
}

void host_set_access(struct run *r, struct our_qp *q, uint32_t access)
{
    modify_qp(r, q, (struct qp_attr){.state = QPS_RTS, .access_flags = access}, QPA_ACCESS_FLAGS,
              NULL);
}

/* The retransmission timer is the requester's choice, but it must not expire before the recorded
 * requester's did. */
static uint8_t timeout_code(const struct conn *conn)
{
    uint8_t code = TIMEOUT_LEAST;

    while (code < 31 && (UINT64_C(4096) << code) < conn->longest_wait / 2)
        code++;
    return code;
}

/*
 * The retry count of a requester that gave up after this many refusals; else 7: never. It gave up
 * if the capture goes on for longer than an RNR NAK can ask for, and has no other attempt.
 */
static uint8_t rnr_retry_of(const struct run *r, const struct stream *s)
{
    ns_t end = r->capture->rec[r->capture->count - 1].at;

    for (unsigned i = 0; i < s->msgs; i++) {
        const struct message *m = &s->msg[i];

        if (m->rnr_naks && m->outcome == OUTCOME_NONE && end - m->rnr_at > RNR_TIMER_LONGEST)
            return (uint8_t)min_of(m->rnr_naks - 1, 6u);
    }
    return 7;
}

static uint32_t mtu_code(uint32_t mtu)
{
    return (uint32_t)__builtin_ctz(mtu) - 7;
}

/* A peer that never got a packet has no known number; frames to it are not compared. */
uint32_t host_peer_number(const struct run *r, const struct conn *conn)
{
    return conn->known[!r->side] ? conn->qpn[!r->side] : PSN_MASK - 1;
}

static int connect_qp(struct run *r, struct our_qp *q, struct conn *conn)
{
    const struct rec *own = conn->sample[r->side];
    const struct rec *rec = own ? own : conn->sample[!r->side];
    struct address_vector av = host_path(rec, own != NULL);
    bool rc = conn->service == PKT_RC;
    uint32_t path = QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
    const struct stream *in = &conn->stream[!r->side], *out = &conn->stream[r->side];
    struct qp_attr attr = {
        .port_num = 1,
        .access_flags = REPLAY_QP_ACCESS,
        .path_mtu = mtu_code(conn->mtu),
        .dest_qpn = host_peer_number(r, conn),
        .rq_psn = in->unwrapped ? psn((uint32_t)in->start).v : conn->cm_psn[!r->side],
        .sq_psn = out->unwrapped ? psn((uint32_t)out->start).v : conn->cm_psn[r->side],
        .max_rd_atomic = RD_ATOMIC,
        .max_dest_rd_atomic = RD_ATOMIC,
        .min_rnr_timer = (uint8_t)conn->rnr_timer[r->side],
        .timeout = timeout_code(conn),
        .retry_cnt = 7,
        .rnr_retry = rnr_retry_of(r, out),
    };
    int err;

    host_choose_flow_label(&av, rec, q->recorded_qpn, attr.dest_qpn);
    attr.state = QPS_INIT;
    err = modify_qp(r, q, attr, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, NULL);
    attr.state = QPS_RTR;
    err = err ? err
              : modify_qp(r, q, attr, path | (rc ? QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER : 0),
                          &av);
    attr.state = QPS_RTS;
    return err ? err
               : modify_qp(
                     r, q, attr,
                     QPA_SQ_PSN |
                         (rc ? QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC : 0),
                     NULL);
}

uint64_t host_landing_reserve(struct run *r, uint32_t len)
{
    uint64_t off = r->landing_used;

    if (round_up(len, 8) > r->landing_len - off)
        return 0; /* cannot happen; else results share the region's start */
    r->landing_used += round_up(len, 8);
    return off;
}

static int create_connected(struct run *r, struct conn *conn)
{
    struct stream *out = &conn->stream[r->side], *in = &conn->stream[!r->side];
    struct our_qp *q = new_qp(r, conn->service == PKT_RC ? QPT_RC : QPT_UC,
                              conn->known[r->side] ? conn->qpn[r->side] : 0);

    q->conn = conn;
    conn->ours = q;
    q->out_psn = out->start;
    q->in_psn = in->start;
    q->status = replay_grow(NULL, out->msgs + 1);
    memset(q->status, NOT_COMPLETED, out->msgs + 1);
    q->landing_off = replay_grow(NULL, (out->msgs + 1) * sizeof(uint64_t));
    for (unsigned i = 0; i < out->msgs; i++)
        q->landing_off[i] = message_has_response(&out->msg[i]) && out->msg[i].op != SQE_FLUSH
                                ? host_landing_reserve(r, out->msg[i].len)
                                : 0;
    for (unsigned i = 0; i < in->msgs; i++) {
        in->msg[i].rnr_sent = 0;
        in->msg[i].recv_posted = false;
    }
    return connect_qp(r, q, conn);
}

static int create_datagram(struct run *r, struct datagram *d)
{
    struct our_qp *q = new_qp(r, QPT_UD, d->group ? 0 : d->qpn);
    struct qp_attr attr = {.port_num = 1, .qkey = d->qkey, .sq_psn = d->first_psn};
    int err;

    q->dgram = d;
    q->recorded_qpn = d->qpn;
    attr.state = QPS_INIT;
    err = modify_qp(r, q, attr, QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, NULL);
    attr.state = QPS_RTR;
    err = err ? err : modify_qp(r, q, attr, 0, NULL);
    attr.state = QPS_RTS;
    err = err ? err : modify_qp(r, q, attr, QPA_SQ_PSN, NULL);
    if (!err && d->group)
        err = engine_mcast_join(r->engine, q->qp, &r->conversation->addr[r->side]);
    return err;
}

static int create_engine(struct run *r)
{
    struct engine_config config;

    r->port.promiscuous = true;
    r->qps = qp_table_create(NULL);
    r->ahs = ah_table_create(NULL);
    comp_queue_init(&r->cq, alloc_segment(cq_segment_bytes(CQ_SIZE, 1)), CQ_SIZE, 1);
    r->reader = (struct cq_reader){.shared = r->cq.shared, .size = CQ_SIZE, .lanes = 1};
    for (unsigned i = 0; i < FRAME_BURST; i++)
        r->tx[i] = alloc_segment(FRAME_ROOM);
    if (r->qps == NULL || r->ahs == NULL)
        return -ENOMEM;
    config = (struct engine_config){
        .port = &r->port,
        .mrs = &r->mrs,
        .qps = r->qps,
        .ahs = r->ahs,
        .host = {.ctx = r, .cq_event = on_cq_event, .async_event = on_async_event},
    };
    r->engine = engine_create(&config);
    return r->engine == NULL ? -ENOMEM : 0;
}

int host_create(struct run *r)
{
    int err = create_engine(r);

    for (unsigned i = 0; i < r->conversation->conns && !err; i++)
        err = create_connected(r, r->conversation->conn[i]);
    for (unsigned i = 0; i < r->conversation->dgrams && !err; i++)
        if (r->conversation->dgram[i].side == r->side)
            err = create_datagram(r, &r->conversation->dgram[i]);
    return err;
}

void host_destroy(struct run *r)
{
    for (unsigned i = 0; i < r->qpcount; i++) {
        struct our_qp *q = r->qp[i];

        if (q->qp != NULL) {
            engine_qp_detach(r->engine, q->qp);
            qp_free(q->qp);
        }
        free(q->shared);
        free(q->sq);
        free(q->rq);
        free(q->landing_off);
        free(q->status);
        free(q->sent);
        free(q);
    }
    for (unsigned i = 0; i < r->paths; i++) {
        address_handle_unpublish(r->ahs, r->path[i].ah);
        address_handle_free(r->path[i].ah);
    }
    if (r->engine != NULL)
        engine_destroy(r->engine);
    if (r->qps != NULL)
        qp_table_destroy(r->qps);
    if (r->ahs != NULL)
        ah_table_destroy(r->ahs);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        free(r->tx[i]);
    free(r->cq.shared);
    free(r->qp);
    free(r->path);
}

struct our_qp *host_qp_for(const struct run *r, const struct rec *rec)
{
    uint32_t qpn = rec->side == r->side ? rec->pkt.deth.src_qpn : rec->pkt.dest_qpn;

    if (rec->conn != NULL)
        return rec->conn->ours;
    for (unsigned i = 0; i < r->qpcount; i++)
        if (r->qp[i]->dgram != NULL && r->qp[i]->recorded_qpn == qpn)
            return r->qp[i];
    return NULL;
}
