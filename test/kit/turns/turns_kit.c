/* SPDX-License-Identifier: BSD-3-Clause */
#include "turns_kit.h"

#include <stdlib.h>

struct turns_world w;

static void on_cq(void *ctx, struct comp_queue *cq)
{
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
}

static ns_t fault_time(void *ctx)
{
    uint64_t packets = counter_get(&qp_counters(w.sender[0].qp)->tx_packets);
    ns_t time = w.fault[w.fault_calls++ % 2] + (packets - w.packets_seen) * w.fault_of_packet;

    w.packets_seen = packets;
    return time;
}

void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(64, round_up(bytes, 64));

    assert_non_null(p);
    return memset(p, 0, round_up(bytes, 64));
}

static int setup_with(const struct qos_classes *classes)
{
    static const uint64_t secret[2] = {1, 2};
    struct gid_entry gid = {.gid = gid_from_ipv4((uint8_t[]){10, 0, 0, 1}),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = VLAN_NONE};
    struct engine_config c = {
        .port = &w.port,
        .mrs = &w.mrs,
        .classes = *classes,
        .host = {.cq_event = on_cq, .async_event = on_async, .fault_time = fault_time}};

    memset(&w, 0, sizeof(w));
    w.now = 1;
    gid_table_add(&w.gids, &gid);
    w.port.gids = &w.gids;
    w.memory = zeroed(MESSAGE);
    w.mr = (struct mem_region){.pd = PD,
                               .iova = (uintptr_t)w.memory,
                               .addr = (uintptr_t)w.memory,
                               .len = MESSAGE,
                               .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
                                         MEM_REMOTE_ATOMIC,
                               .direct = w.memory};
    assert_int_equal(mr_table_init(&w.mrs, 16, secret), 0);
    assert_int_equal(mr_insert(&w.mrs, &w.mr, 1), 0);
    c.qps = w.qps = qp_table_create(NULL);
    w.e = engine_create(&c);
    w.ring = zeroed(cq_segment_bytes(2 * LONG_QUEUE, 1));
    comp_queue_init(&w.cq, w.ring, 2 * LONG_QUEUE, 1);
    w.reader = (struct cq_reader){.shared = w.ring, .size = 2 * LONG_QUEUE, .lanes = 1};
    for (unsigned i = 0; i < FRAME_BURST; i++)
        w.frame[i] = (struct frame){.data = w.bytes[i], .room = ROOM};
    return 0;
}

int turns_setup(void **state)
{
    return setup_with(&(struct qos_classes){0});
}

int turns_setup_classes(void **state)
{
    return setup_with(&(struct qos_classes){
        .count = 3, .of_priority = {2, 2, 2, 1, 2, 2, 2, 0}, .percent = {0, 60, 40}});
}

void sender_fini(struct sender *s)
{
    if (!s->qp)
        return;
    engine_qp_detach(w.e, s->qp);
    qp_free(s->qp);
    free(s->shared);
    free(s->sq);
    free(s->rq);
    s->qp = NULL;
}

int turns_teardown(void **state)
{
    for (unsigned i = 0; i < w.senders; i++)
        sender_fini(&w.sender[i]);
    engine_destroy(w.e);
    qp_table_destroy(w.qps);
    mr_table_fini(&w.mrs);
    free(w.ring);
    free(w.memory);
    return 0;
}

/* What reliable connections have beside. */
static int connect_reliable(struct qp *qp, struct qp_attr *a, const struct address_vector *av)
{
    int rc;

    a->state = QPS_RTR;
    a->max_dest_rd_atomic = a->max_rd_atomic = 16;
    a->timeout = 14;
    a->min_rnr_timer = 1;
    rc = engine_qp_modify(w.e, qp, a,
                          QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                              QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
                          av, 5, w.now);
    a->state = QPS_RTS;
    return rc | engine_qp_modify(w.e, qp, a,
                                 QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT |
                                     QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC,
                                 NULL, 5, w.now);
}

static void connect_sender(struct qp *qp, uint32_t type, union gid dgid, uint32_t qpn)
{
    struct qp_attr a = {.state = QPS_INIT,
                        .path_mtu = 3,
                        .port_num = 1,
                        .dest_qpn = qpn,
                        .access_flags = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC};
    struct address_vector av = {.sgid = w.gids.entry[0].gid,
                                .dgid = dgid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .sl = w.pcp,
                                .pcp = w.pcp,
                                .hop_limit = 64};
    int rc = engine_qp_modify(w.e, qp, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                              NULL, 5, w.now);

    if (type == QPT_RC) {
        assert_int_equal(rc | connect_reliable(qp, &a, &av), 0);
        return;
    }
    a.state = QPS_RTR;
    rc |= engine_qp_modify(
        w.e, qp, &a, QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN, &av, 5, w.now);
    a.state = QPS_RTS;
    rc |= engine_qp_modify(w.e, qp, &a, QPA_STATE | QPA_SQ_PSN, NULL, 5, w.now);
    assert_int_equal(rc, 0);
}

struct sender *make_sender(struct share *share, uint32_t type, uint32_t size, bool to_itself)
{
    struct sender *s = &w.sender[w.senders++];
    struct qp_init init = {
        .type = type, .pd = PD, .send_cq = &w.cq, .recv_cq = &w.cq, .shares = share};
    int err;

    assert_true(w.senders <= QUEUES_MAX);
    s->size = size;
    s->shared = zeroed(sizeof(*s->shared));
    s->sq = zeroed(size * sqe_stride(1, 0));
    s->rq = zeroed(size * rqe_stride(1));
    init.shared = s->shared;
    init.sq = (struct work_queue){.ring = s->sq,
                                  .prod = &s->shared->sq_prod,
                                  .size = size,
                                  .stride = sqe_stride(1, 0),
                                  .max_sge = 1};
    init.rq = (struct work_queue){.ring = s->rq,
                                  .prod = &s->shared->rq_prod,
                                  .size = size,
                                  .stride = rqe_stride(1),
                                  .max_sge = 1};
    s->qp = qp_create(w.qps, &init, &err);
    assert_non_null(s->qp);
    engine_qp_attach(w.e, s->qp);
    if (to_itself)
        connect_sender(s->qp, type, w.gids.entry[0].gid, qp_number(s->qp));
    else
        connect_sender(s->qp, type, gid_from_ipv4((uint8_t[]){10, 0, 0, 2}), 77);
    return s;
}

struct sender *sender_of(struct share *share, uint32_t size)
{
    return make_sender(share, QPT_UC, size, false);
}

uint64_t sent_by(const struct sender *s)
{
    return counter_get(&qp_counters(s->qp)->tx_packets);
}

void post_writes(struct sender *s, unsigned n)
{
    for (; n; n--) {
        struct sqe *e = work_queue_slot(s->sq, s->size, sqe_stride(1, 0), s->prod++);

        *e = (struct sqe){
            .opcode = SQE_WRITE, .num_sge = 1, .remote_addr = w.mr.iova, .rkey = w.mr.key};
        *(struct sge *)(e + 1) =
            (struct sge){.addr = (uintptr_t)w.memory, .length = MESSAGE, .lkey = w.mr.key};
    }
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(w.e, s->qp, w.now);
}

unsigned transmit(void)
{
    return engine_tx(w.e, w.frame, FRAME_BURST, ++w.now);
}

void always_send(struct sender *const *s, unsigned n, unsigned bursts)
{
    for (; bursts; bursts--) {
        for (unsigned i = 0; i < n; i++)
            post_writes(s[i], s[i]->size - (uint32_t)(s[i]->prod - sent_by(s[i])));
        assert_int_equal(transmit(), FRAME_BURST);
    }
}

void program_init(struct share *s, struct share *user, uint32_t weight)
{
    share_init(s, w.e, user, weight);
    share_join(s);
}

void assert_ratio(uint64_t a, uint64_t b, double expected)
{
    double ratio = (double)a / (double)b;

    if (ratio < expected * 0.95 || ratio > expected * 1.05)
        fail_msg("%llu to %llu, not %.2f to 1", (unsigned long long)a, (unsigned long long)b,
                 expected);
}
