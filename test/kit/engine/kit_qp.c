/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs and completion queues as a fake application uses them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kit_internal.h"

#define OR(value, fallback) ((value) ? (value) : (fallback))

void *kit_segment(size_t bytes)
{
    void *p = aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE));

    if (!p)
        kit_fail("out of memory");
    return memset(p, 0, bytes);
}

/* ---- completion queues ---- */

#define LANES 2 /* one engine posts into one of them; see kit_node_init */

struct kit_cq *kit_cq_create(struct kit_node *n, uint32_t size)
{
    struct kit_cq *cq = kit_alloc(sizeof(*cq));
    uint32_t lanes = max_of(n->engines, (unsigned)LANES);
    struct cq_shared *shared = kit_segment(cq_segment_bytes(size, lanes));

    comp_queue_init(&cq->cq, shared, size, lanes);
    cq->cq.owner = cq;
    cq->reader = (struct cq_reader){.shared = shared, .size = size, .lanes = lanes};
    cq->node = n;
    cq->next = n->cq;
    n->cq = cq;
    return cq;
}

/* Entries up to the completed one are free again. */
static void free_entries(struct kit_node *n, const struct cqe *e)
{
    for (struct kit_qp *qp = n->qp; qp; qp = qp->next) {
        if (qp->qpn != e->qpn)
            continue;
        if (e->opcode & WC_RECV)
            qp->rq_free = qp->srq ? qp->rq_free : e->wqe + 1;
        else
            qp->sq_free = e->wqe + 1;
        return;
    }
    kit_fail("a completion of queue pair 0x%06x, which does not exist", e->qpn);
}

unsigned kit_poll(struct kit_cq *cq, struct cqe *out, unsigned max)
{
    const struct cqe *e;
    unsigned n;

    for (n = 0; n < max && (e = cq_reader_peek(&cq->reader)); n++) {
        memcpy(&out[n], e, sizeof(*e));
        cq_reader_advance(&cq->reader);
        free_entries(cq->node, &out[n]);
    }
    return n;
}

void kit_arm(struct kit_cq *cq, enum cq_arm arm)
{
    cq_reader_arm(&cq->reader, arm);
}

/* ---- queue pairs ---- */

static struct work_queue private_end(const struct kit_qp *qp, bool send)
{
    return (struct work_queue){
        .ring = send ? qp->sq : qp->rq,
        .prod = send ? &qp->shared->sq_prod : &qp->shared->rq_prod,
        .size = send ? qp->sq_size : qp->rq_size,
        .stride = send ? qp->sq_stride : qp->rq_stride,
        .max_sge = qp->max_sge,
        .max_inline = send ? qp->max_inline : 0,
    };
}

struct kit_qp *kit_qp_create(struct kit_node *n, const struct kit_qp_config *config)
{
    static const struct kit_qp_config defaults;
    const struct kit_qp_config *c = OR(config, &defaults);
    struct kit_qp *qp = kit_alloc(sizeof(*qp));
    struct qp_init init;
    int err = 0;

    qp->node = n;
    qp->type = OR(c->type, QPT_RC);
    qp->srq = c->srq;
    qp->sq_size = OR(c->sq_size, 64);
    qp->rq_size = OR(c->rq_size, 64);
    qp->max_sge = OR(c->max_sge, 4);
    qp->max_inline = OR(c->max_inline, 128);
    qp->sig_all = c->sq_sig_all;
    qp->sq_stride = sqe_stride(qp->max_sge, qp->max_inline);
    qp->rq_stride = rqe_stride(qp->max_sge);
    qp->shared = kit_segment(sizeof(*qp->shared));
    qp->sq = kit_segment((size_t)qp->sq_size * qp->sq_stride);
    qp->rq = kit_segment((size_t)qp->rq_size * qp->rq_stride);
    qp->send_cq = c->send_cq ? c->send_cq : kit_cq_create(n, 2 * max_of(qp->sq_size, qp->rq_size));
    qp->recv_cq = OR(c->recv_cq, qp->send_cq);
    init = (struct qp_init){
        .type = qp->type,
        .srq = c->srq && qp->type != QPT_XRC_RECV ? c->srq->srq : NULL,
        .xrcd = c->xrcd,
        .pd = OR(c->pd, KIT_PD),
        .sq_sig_all = c->sq_sig_all,
        .uidx = (uint32_t)random_next(&n->kit->random),
        .send_cq = &qp->send_cq->cq,
        .recv_cq = &qp->recv_cq->cq,
        .sq = private_end(qp, true),
        .rq = private_end(qp, false),
        .caps = {qp->sq_size, qp->rq_size, qp->max_sge, qp->max_sge, qp->max_inline},
        .shared = qp->type == QPT_XRC_RECV ? NULL : qp->shared,
        .owner = qp,
    };
    qp->qp = qp_create(n->qps, &init, &err);
    if (!qp->qp)
        kit_fail("qp_create: %d", err);
    qp->qpn = qp_number(qp->qp);
    engine_qp_attach(n->part[c->engine].engine, qp->qp);
    qp->next = n->qp;
    n->qp = qp;
    return qp;
}

void kit_qp_destroy(struct kit_qp *qp)
{
    struct kit_node *n = qp->node;
    struct kit_qp **link = &n->qp;

    kit_adopt(qp);
    while (*link != qp)
        link = &(*link)->next;
    *link = qp->next;
    qp_unpublish(qp->qp);
    for (unsigned i = 0; i < n->engines; i++)
        engine_qp_detach(n->part[i].engine, qp->qp);
    qp_free(qp->qp);
    free(qp->shared);
    free(qp->sq);
    free(qp->rq);
    free(qp);
}

/* The engine that a call goes to: a migration that has begun is finished first. */
static struct engine *engine_for(struct kit_qp *qp)
{
    struct engine *e = qp_engine(qp->qp);

    kit_adopt(qp);
    return e ? e : qp->node->engine;
}

/* ---- attributes ---- */

static const struct kit_rc rc_defaults;

static uint8_t code(uint8_t wanted, uint8_t fallback)
{
    return wanted == KIT_ZERO ? 0 : OR(wanted, fallback);
}

static void must_modify(struct kit_qp *qp, const struct qp_attr *attr, uint32_t mask,
                        const struct address_vector *av)
{
    int err =
        engine_qp_modify(engine_for(qp), qp->qp, attr, mask | QPA_STATE, av, 5, qp->node->kit->now);

    if (err)
        kit_fail("engine_qp_modify to state %u: %d", attr->state, err);
}

void kit_to_init(struct kit_qp *qp, const struct kit_rc *rc)
{
    const struct kit_rc *c = OR(rc, &rc_defaults);
    struct qp_attr attr = {
        .state = QPS_INIT,
        .port_num = 1,
        .access_flags = OR(c->access, MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC),
    };

    must_modify(qp, &attr, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, NULL);
}

struct address_vector kit_route(const struct kit_node *from, const struct kit_node *to,
                                const struct kit_rc *c)
{
    const struct gid_entry *source = &from->gids.entry[c->gid_index];
    struct address_vector av = {
        .sgid = source->gid,
        .dgid = to->gids.entry[c->gid_index].gid,
        .gid_type = source->type,
        .sgid_index = c->gid_index,
        .vlan = source->vlan,
        .sl = c->sl,
        .pcp = c->sl & 7,
        .traffic_class = c->traffic_class,
        .hop_limit = 64,
        .flow_label = c->flow_label,
    };

    memcpy(av.smac, from->port.mac, sizeof(av.smac));
    memcpy(av.dmac, to->port.mac, sizeof(av.dmac));
    return av;
}

void kit_to_rtr(struct kit_qp *qp, const struct kit_qp *peer, const struct kit_rc *rc, int side)
{
    const struct kit_rc *c = OR(rc, &rc_defaults);
    struct address_vector av = kit_route(qp->node, peer->node, c);
    struct qp_attr attr = {
        .state = QPS_RTR,
        .path_mtu = OR(c->path_mtu, 3),
        .dest_qpn = peer->qpn,
        .rq_psn = c->psn[!side] & PSN_MASK,
        .max_dest_rd_atomic = code(c->max_rd_atomic, 4),
        .min_rnr_timer = OR(c->min_rnr_timer, 1),
        .ah = {.sgid_index = c->gid_index,
               .is_global = 1,
               .port_num = 1,
               .hop_limit = 64,
               .static_rate = c->static_rate},
    };

    memcpy(attr.ah.dgid, av.dgid.raw, sizeof(attr.ah.dgid));
    engine_qp_agree(engine_for(qp), qp->qp, c->agreed);
    must_modify(qp, &attr,
                QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                    (qp->type == QPT_RC || qp->type == QPT_XRC_RECV
                         ? QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER
                         : 0),
                &av);
}

void kit_to_rts(struct kit_qp *qp, const struct kit_rc *rc, int side)
{
    const struct kit_rc *c = OR(rc, &rc_defaults);
    struct qp_attr attr = {
        .state = QPS_RTS,
        .timeout = code(c->timeout, 8),
        .retry_cnt = code(c->retry_cnt, 7),
        .rnr_retry = code(c->rnr_retry, 7),
        .sq_psn = c->psn[side] & PSN_MASK,
        .max_rd_atomic = code(c->max_rd_atomic, 4),
    };

    uint32_t mask = QPA_SQ_PSN;

    if (qp->type != QPT_UC)
        mask |= QPA_TIMEOUT;
    if (qp->type == QPT_RC || qp->type == QPT_XRC_SEND)
        mask |= QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC;
    must_modify(qp, &attr, mask, NULL);
}

void kit_start_ud(struct kit_qp *qp, uint32_t qkey, uint32_t first)
{
    struct qp_attr attr = {.state = QPS_INIT, .port_num = 1, .qkey = qkey};

    must_modify(qp, &attr, QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, NULL);
    attr.state = QPS_RTR;
    must_modify(qp, &attr, 0, NULL);
    attr = (struct qp_attr){.state = QPS_RTS, .sq_psn = first & PSN_MASK};
    must_modify(qp, &attr, QPA_SQ_PSN, NULL);
}

void kit_connect(struct kit_qp *a, struct kit_qp *b, const struct kit_rc *rc)
{
    kit_to_init(a, rc);
    kit_to_init(b, rc);
    kit_to_rtr(a, b, rc, 0);
    kit_to_rtr(b, a, rc, 1);
    kit_to_rts(a, rc, 0);
    kit_to_rts(b, rc, 1);
}

void kit_pair_rc(struct kit *k, struct kit_qp **a, struct kit_qp **b, const struct kit_rc *rc)
{
    *a = kit_qp_create(&k->node[0], NULL);
    *b = kit_qp_create(&k->node[1], NULL);
    kit_connect(*a, *b, rc);
}

int kit_modify(struct kit_qp *qp, enum qp_state state)
{
    struct qp_attr attr = {.state = state};
    int err =
        engine_qp_modify(engine_for(qp), qp->qp, &attr, QPA_STATE, NULL, 5, qp->node->kit->now);

    if (!err && state == QPS_RESET) {
        qp->sq_prod = qp->rq_prod = qp->sq_free = qp->rq_free = 0;
        atomic_store(&qp->shared->sq_prod, 0);
        atomic_store(&qp->shared->rq_prod, 0);
    }
    return err;
}

/* ---- work ---- */

void *kit_sq_slot(struct kit_qp *qp)
{
    return work_queue_slot(qp->sq, qp->sq_size, qp->sq_stride, qp->sq_prod);
}

void kit_publish_send(struct kit_qp *qp)
{
    atomic_store_explicit(&qp->shared->sq_prod, ++qp->sq_prod, memory_order_release);
}

/* Every other request that may: both forms mean the same. */
static bool has_sge_in_header(const struct kit_qp *qp, const struct kit_send *wr)
{
    return (qp->sq_prod & 1) && wr->num_sge == 1 && !(wr->flags & SQE_INLINE) && qp->max_sge &&
           sqe_has_free_words(wr->op) && qp->type != QPT_UD;
}

int kit_post_send(struct kit_qp *qp, const struct kit_send *wr)
{
    struct sqe *e = kit_sq_slot(qp);

    if (qp->sq_prod - qp->sq_free >= qp->sq_size)
        return -ENOMEM;
    *e = (struct sqe){
        .wr_id = wr->wr_id,
        .opcode = wr->op,
        .flags = wr->flags,
        .num_sge = (uint8_t)wr->num_sge,
        .imm = wr->imm,
        .remote_addr = wr->remote_addr,
        .rkey = wr->rkey,
        .inline_len = wr->inline_len,
        .words = {wr->words[0], wr->words[1], wr->words[2]},
        .remote_srqn = wr->remote_srqn,
    };
    if (wr->op == SQE_CMP_SWP || wr->op == SQE_FETCH_ADD) {
        e->atomic.compare_add = wr->compare_add;
        e->atomic.swap = wr->swap;
    }
    if (wr->flags & SQE_INLINE)
        memcpy(e + 1, wr->inline_data, wr->inline_len);
    else if (wr->num_sge)
        memcpy(e + 1, wr->sge, wr->num_sge * sizeof(*wr->sge));
    if (has_sge_in_header(qp, wr)) {
        e->flags |= SQE_SGE_IN_HEADER;
        e->sge = wr->sge[0];
        memset(e + 1, 0xEE, sizeof(*wr->sge));
    }
    kit_publish_send(qp);
    return 0;
}

int kit_post_recv(struct kit_qp *qp, uint64_t wr_id, const struct sge *sge, unsigned num_sge)
{
    struct rqe *e = work_queue_slot(qp->rq, qp->rq_size, qp->rq_stride, qp->rq_prod);

    if (qp->rq_prod - qp->rq_free >= qp->rq_size)
        return -ENOMEM;
    *e = (struct rqe){.wr_id = wr_id, .num_sge = num_sge};
    if (num_sge)
        memcpy(e + 1, sge, num_sge * sizeof(*sge));
    atomic_store_explicit(&qp->shared->rq_prod, ++qp->rq_prod, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&qp->shared->rq_notify))
        kit_ring(qp);
    return 0;
}

/* While it migrates the application may ring at the old engine: the engine that adopts it looks for
 * work. */
void kit_ring(struct kit_qp *qp)
{
    struct kit *k = qp->node->kit;
    struct engine *e = qp_engine(qp->qp);

    if (qp->left && random_below(&k->engines_random, 2))
        e = qp->left->engine;
    engine_doorbell(e ? e : qp->node->engine, qp->qp, k->now);
}

void kit_do(struct kit_qp *qp, enum sqe_op op, uint64_t wr_id, const struct kit_mr *local,
            uint64_t off, uint32_t len, const struct kit_mr *remote, uint64_t remote_off)
{
    struct sge sge = len ? kit_sge(local, off, len) : (struct sge){0};
    struct kit_send wr = {
        .wr_id = wr_id,
        .op = (uint8_t)op,
        .flags = SQE_SIGNALED,
        .sge = &sge,
        .num_sge = len != 0,
        .remote_addr = remote ? kit_va(remote, remote_off) : 0,
        .rkey = remote ? remote->region.key : 0,
    };

    if (kit_post_send(qp, &wr))
        kit_fail("send queue full");
    kit_ring(qp);
}

void kit_recv(struct kit_qp *qp, uint64_t wr_id, const struct kit_mr *mr, uint64_t off,
              uint32_t len)
{
    struct sge sge = kit_sge(mr, off, len);

    if (kit_post_recv(qp, wr_id, &sge, 1))
        kit_fail("receive queue full");
}

uint32_t kit_frame_build(uint8_t *out, const struct kit_qp *from, const struct pkt *p,
                         const void *payload)
{
    struct encap_template template;
    size_t len = pkt_len(p->opcode, p->payload_len), at;

    if (encap_template_make(&template, qp_address_vector(from->qp)))
        kit_fail("kit_frame_build: bad address vector");
    at = encap_tx(out, &template, len, 0);
    at += pkt_build_headers(out + at, p);
    if (p->payload_len)
        memcpy(out + at, payload, p->payload_len);
    pkt_build_pad(out + at, p->payload_len);
    return (uint32_t)encap_seal(out, &template, len);
}
