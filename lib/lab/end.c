/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair with its queues, as an application has it. */
#include <stdlib.h>
#include <string.h>

#include "lab_internal.h"
#include "lines.h"

static struct work_queue queue_of(const struct end *e, bool send)
{
    return (struct work_queue){
        .ring = send ? e->sq : e->rq,
        .prod = send ? &e->shared->sq_prod : &e->shared->rq_prod,
        .size = send ? e->sq_size : e->rq_size,
        .stride = send ? sqe_stride(1, 0) : rqe_stride(1),
        .max_sge = 1,
    };
}

static bool make_cq(struct end *e)
{
    uint32_t size = pow2_at_least(2 * (e->sq_size + e->rq_size));
    struct cq_shared *shared = lines_alloc(cq_segment_bytes(size, 1));

    if (!shared)
        return false;
    comp_queue_init(&e->cq, shared, size, 1);
    e->cq.owner = e;
    e->reader = (struct cq_reader){.shared = shared, .size = size, .lanes = 1};
    return true;
}

static bool make_qp(struct end *e)
{
    struct qp_init init = {
        .type = QPT_RC,
        .pd = LAB_PD,
        .sq_sig_all = true,
        .send_cq = &e->cq,
        .recv_cq = &e->cq,
        .sq = queue_of(e, true),
        .rq = queue_of(e, false),
        .caps = {e->sq_size, e->rq_size, 1, 1, 0},
        .shared = e->shared,
        .owner = e,
    };
    int err;

    e->qp = qp_create(e->site->lab->qps, &init, &err);
    if (!e->qp)
        return false;
    engine_qp_attach(e->site->engine, e->qp);
    return true;
}

struct end *end_create(struct lab_run *flow, struct site *s, uint32_t sends, uint32_t recvs)
{
    struct end *e = lines_alloc(sizeof(*e));

    if (!e)
        return NULL;
    e->flow = flow;
    e->site = s;
    e->sq_size = pow2_at_least(sends);
    e->rq_size = pow2_at_least(recvs);
    e->shared = lines_alloc(sizeof(*e->shared));
    e->sq = lines_alloc((size_t)e->sq_size * sqe_stride(1, 0));
    e->rq = lines_alloc((size_t)e->rq_size * rqe_stride(1));
    if (!e->shared || !e->sq || !e->rq || !make_cq(e) || !make_qp(e)) {
        end_free(e);
        return NULL;
    }
    return e;
}

static void unlist(struct end *e)
{
    struct end **at = &e->site->ends;

    while (*at && *at != e)
        at = &(*at)->next;
    if (*at)
        *at = e->next;
}

void end_free(struct end *e)
{
    if (!e)
        return;
    unlist(e);
    if (e->qp) {
        qp_unpublish(e->qp);
        engine_qp_detach(e->site->engine, e->qp);
        qp_free(e->qp);
    }
    free(e->cq.shared);
    free(e->shared);
    free(e->sq);
    free(e->rq);
    free(e);
}

/* ---- the connection ---- */

static struct address_vector route(const struct end *e, const struct end *peer)
{
    const struct gid_entry *from = &e->site->gids.entry[0], *to = &peer->site->gids.entry[0];
    struct address_vector av = {
        .sgid = from->gid,
        .dgid = to->gid,
        .gid_type = GID_TYPE_ROCE_V2,
        .vlan = VLAN_NONE,
        .traffic_class = (uint8_t)(e->flow->spec->dscp << 2),
        .hop_limit = 64,
    };

    memcpy(av.smac, e->site->port.mac, sizeof(av.smac));
    memcpy(av.dmac, peer->site->port.mac, sizeof(av.dmac));
    return av;
}

static uint32_t mtu_code(uint32_t mtu)
{
    return (uint32_t)__builtin_ctz(mtu) - 7; /* 256: 1 */
}

static int modify(struct end *e, const struct qp_attr *attr, uint32_t mask,
                  const struct address_vector *av)
{
    return engine_qp_modify(e->site->engine, e->qp, attr, mask | QPA_STATE, av, 5,
                            lab_engine_time(e->site->lab));
}

static int to_rtr(struct end *e, const struct end *peer)
{
    struct address_vector av = route(e, peer);
    uint32_t mtu = min_of(e->site->node->host.mtu, peer->site->node->host.mtu);
    struct qp_attr attr = {
        .state = QPS_RTR,
        .path_mtu = mtu_code(mtu),
        .dest_qpn = qp_number(peer->qp),
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 1,
        .ah = {.is_global = 1, .port_num = 1, .hop_limit = 64, .traffic_class = av.traffic_class},
    };

    memcpy(attr.ah.dgid, av.dgid.raw, sizeof(attr.ah.dgid));
    return modify(e, &attr,
                  QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
                      QPA_MIN_RNR_TIMER,
                  &av);
}

int end_connect(struct end *e, const struct end *peer)
{
    const struct lab_host *h = &e->site->node->host;
    struct qp_attr init = {
        .state = QPS_INIT, .port_num = 1, .access_flags = MEM_REMOTE_WRITE | MEM_REMOTE_READ};
    struct qp_attr rts = {.state = QPS_RTS,
                          .timeout = (uint8_t)h->timeout,
                          .retry_cnt = (uint8_t)h->retry,
                          .rnr_retry = 7,
                          .max_rd_atomic = 16};
    int err = modify(e, &init, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, NULL);

    if (!err)
        err = to_rtr(e, peer);
    if (!err && e->flow->spec->has_entropy)
        err = engine_qp_set_entropy(e->site->engine, e->qp, &e->flow->spec->entropy);
    if (!err)
        err = modify(e, &rts,
                     QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC,
                     NULL);
    if (!err && h->selective && peer->site->node->host.selective)
        engine_qp_agree(e->site->engine, e->qp, true);
    return err;
}

/* ---- work ---- */

static struct sge sge_of(const struct mem_region *mr, uint32_t len)
{
    return (struct sge){.addr = mr->iova, .length = len, .lkey = mr->key};
}

void end_post_send(struct end *e, enum sqe_op op, uint32_t len)
{
    const struct lab *lab = e->site->lab;
    bool reads = op == SQE_READ;
    struct sqe *wqe = work_queue_slot(e->sq, e->sq_size, sqe_stride(1, 0), e->sq_prod);
    struct sge sge = sge_of(reads ? &lab->sink : &lab->source, len);

    *wqe = (struct sqe){
        .wr_id = len,
        .opcode = (uint8_t)op,
        .flags = SQE_SIGNALED,
        .num_sge = 1,
        .remote_addr = op == SQE_SEND ? 0 : (reads ? lab->source.iova : lab->sink.iova),
        .rkey = op == SQE_SEND ? 0 : (reads ? lab->source.key : lab->sink.key),
    };
    memcpy(wqe + 1, &sge, sizeof(sge));
    atomic_store_explicit(&e->shared->sq_prod, ++e->sq_prod, memory_order_release);
}

void end_post_recv(struct end *e, uint32_t len)
{
    struct rqe *wqe = work_queue_slot(e->rq, e->rq_size, rqe_stride(1), e->rq_prod);
    struct sge sge = sge_of(&e->site->lab->sink, len);

    *wqe = (struct rqe){.wr_id = len, .num_sge = 1};
    memcpy(wqe + 1, &sge, sizeof(sge));
    atomic_store_explicit(&e->shared->rq_prod, ++e->rq_prod, memory_order_release);
}
