/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a packet costs when queue pairs wait for their time: many are paced, and each sends one
 * packet in a turn. The packets go nowhere: unreliable connections need no answer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "encap_layout.h"
#include "engine.h"
#include "pkt.h"
#include "stage_cost.h"

#define ROOM  (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 8)
#define PD    1
#define BYTES 1024
#define KBPS  10000 /* a packet in 0.9 ms */
#define CQES  64

struct paced {
    struct engine *e;
    struct qp_table *qps;
    struct mr_table mrs;
    struct mem_region mr;
    struct encap_port port;
    struct gid_table gids;
    struct comp_queue cq;
    struct frame frames[FRAME_BURST];
};

static void on_cq(void *ctx, struct comp_queue *cq)
{
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    exit(1);
}

static void init(struct paced *p)
{
    static const uint64_t secret[2] = {1, 2};
    struct gid_entry gid = {.gid = gid_from_ipv4((const uint8_t[4]){10, 0, 0, 1}),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = VLAN_NONE};
    struct engine_config config = {
        .port = &p->port, .mrs = &p->mrs, .host = {.cq_event = on_cq, .async_event = on_async}};

    gid_table_add(&p->gids, &gid);
    p->port.gids = &p->gids;
    config.qps = p->qps = qp_table_create(NULL);
    mr_table_init(&p->mrs, 16, secret);
    p->mr = (struct mem_region){.pd = PD, .access = 15, .len = BYTES};
    p->mr.direct = zeroed(BYTES);
    p->mr.addr = p->mr.iova = (uintptr_t)p->mr.direct;
    mr_insert(&p->mrs, &p->mr, 1);
    p->e = engine_create(&config);
    comp_queue_init(&p->cq, zeroed(cq_segment_bytes(CQES, 1)), CQES, 1);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        p->frames[i] = (struct frame){.data = zeroed(ROOM), .room = ROOM};
}

/* Paced, and with its WRITEs in the queue. */
static void add(struct paced *p, uint32_t writes)
{
    const uint32_t stride = sqe_stride(1, 0);
    struct qp_shared *shared = zeroed(sizeof(*shared));
    uint8_t *sq = zeroed((size_t)writes * stride);
    struct qp_init init = {.type = QPT_UC,
                           .pd = PD,
                           .send_cq = &p->cq,
                           .recv_cq = &p->cq,
                           .shared = shared,
                           .sq = {.ring = sq,
                                  .prod = &shared->sq_prod,
                                  .size = writes,
                                  .stride = stride,
                                  .max_sge = 1},
                           .rq = {.ring = sq,
                                  .prod = &shared->rq_prod,
                                  .size = 1,
                                  .stride = rqe_stride(1),
                                  .max_sge = 1}};
    struct qp_attr a = {.state = QPS_INIT, .path_mtu = 5, .port_num = 1, .rate_limit = KBPS};
    struct address_vector av = {.sgid = p->gids.entry[0].gid,
                                .dgid = gid_from_ipv4((const uint8_t[4]){10, 0, 0, 2}),
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64};
    int err = 0;
    struct qp *qp = qp_create(p->qps, &init, &err);

    if (!qp)
        exit(1);
    engine_qp_attach(p->e, qp);
    a.dest_qpn = qp_number(qp);
    err = engine_qp_modify(p->e, qp, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                           NULL, 5, 1);
    a.state = QPS_RTR;
    err |= engine_qp_modify(
        p->e, qp, &a, QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN, &av, 5, 1);
    a.state = QPS_RTS;
    err |= engine_qp_modify(p->e, qp, &a, QPA_STATE | QPA_SQ_PSN | QPA_RATE_LIMIT, NULL, 5, 1);
    for (uint32_t i = 0; i < writes; i++) {
        struct sqe *w = work_queue_slot(sq, writes, stride, i);

        *w = (struct sqe){.opcode = SQE_WRITE, .num_sge = 1, .remote_addr = 1, .rkey = 1};
        *(struct sge *)(w + 1) =
            (struct sge){.addr = p->mr.iova, .length = BYTES, .lkey = p->mr.key};
    }
    atomic_store_explicit(&shared->sq_prod, writes, memory_order_release);
    engine_doorbell(p->e, qp, 1);
    if (err)
        exit(1);
}

static unsigned send_all(struct paced *p, ns_t now)
{
    unsigned sent = 0, n;

    while ((n = engine_tx(p->e, p->frames, FRAME_BURST, now)))
        sent += n;
    return sent;
}

/* What is counted: timers that fire, and packets that leave then. */
__attribute__((noinline)) static unsigned paced_tx(struct paced *p, ns_t now)
{
    engine_timers(p->e, now);
    return send_all(p, now);
}

void paced_costs(unsigned queue_pairs, unsigned packets)
{
    static struct paced p;
    uint32_t writes = 1;
    ns_t now = 1;

    while (writes * queue_pairs < packets)
        writes *= 2;
    init(&p);
    for (unsigned i = 0; i < queue_pairs; i++)
        add(&p, writes);
    packets = (writes - 1) * queue_pairs; /* the first of each leaves at once */
    (void)send_all(&p, now);
    for (unsigned left = packets; left;) {
        unsigned n;

        now = max_of(engine_next_timer(p.e), now + 1);
        n = paced_tx(&p, now);
        if (n > left)
            exit(1);
        left -= n;
    }
    printf("%u paced queue pairs: packets %u\n", queue_pairs, packets);
}
