/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two responders that are the same get the same frames, the one directly and so by the short way
 * where that takes them, the other as if handed over, by the general way. Whatever the requester,
 * the network and the application do, they must not differ: not in memory, completions, events,
 * counters, nor in what they answer.
 */
#include <stdlib.h>
#include <string.h>

#include "encap_layout.h"
#include "engine.h"
#include "pkt.h"
#include "random.h"
#include "unit.h"

#define MTU_CODE 3 /* 1024 bytes */
#define ROOM     (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 64)
#define SLOTS    64
#define MEMORY   65536
#define IOVA     UINT64_C(0x7000000000)
#define PD       1
#define TRIALS   600
#define BURSTS   60

struct side {
    struct engine *e;
    struct qp *qp;
    struct qp_table *qps;
    struct mr_table mrs;
    struct mem_region mr;
    struct encap_port port;
    struct gid_table gids;
    struct qp_shared *shared;
    uint8_t *sq, *rq, *memory;
    struct comp_queue cq;
    struct cq_shared *ring;
    struct cq_reader reader;
    uint32_t cq_size, prod, recv_prod, read;
    unsigned cq_events, cq_posted, events;
};

/* ---- the hosts ---- */

static void on_cq(void *ctx, struct comp_queue *cq)
{
    ((struct side *)ctx)->cq_events++;
}

static void on_posted(void *ctx, struct comp_queue *cq)
{
    ((struct side *)ctx)->cq_posted++;
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    ((struct side *)ctx)->events = ((struct side *)ctx)->events * 31 + (unsigned)event;
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        memcpy(io[i].local, (uint8_t *)space + (io[i].addr - IOVA), io[i].len);
        io[i].status = 0;
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        memcpy((uint8_t *)space + (io[i].addr - IOVA), io[i].local, io[i].len);
        io[i].status = 0;
    }
}

static const struct mem_backend backend = {
    .name = "test", .copy_in = copy_in, .copy_out = copy_out};

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(64, round_up(bytes, 64));

    assert_non_null(p);
    return memset(p, 0, round_up(bytes, 64));
}

static void side_init(struct side *s, uint8_t number, uint32_t cq_size, uint32_t access)
{
    static const uint64_t secret[2] = {1, 2};
    struct gid_entry gid = {.gid = gid_from_ipv4((uint8_t[]){10, 0, 0, number}),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = VLAN_NONE};
    struct engine_config c = {
        .port = &s->port,
        .mrs = &s->mrs,
        .host = {.ctx = s, .cq_event = on_cq, .cq_posted = on_posted, .async_event = on_async}};
    struct qp_init init = {.type = QPT_RC, .pd = PD, .send_cq = &s->cq, .recv_cq = &s->cq};
    int err;

    *s = (struct side){.cq_size = cq_size};
    s->port.mac[5] = gid.mac[5] = number;
    gid_table_add(&s->gids, &gid);
    s->port.gids = &s->gids;
    s->memory = zeroed(MEMORY);
    s->mr = (struct mem_region){.pd = PD,
                                .access = access,
                                .iova = IOVA,
                                .addr = IOVA,
                                .len = MEMORY,
                                .direct = s->memory,
                                .backend = &backend,
                                .space = s->memory};
    assert_int_equal(mr_table_init(&s->mrs, 16, secret), 0);
    assert_int_equal(mr_insert(&s->mrs, &s->mr, 1), 0);
    c.qps = s->qps = qp_table_create();
    s->e = engine_create(&c);
    s->ring = zeroed(cq_segment_bytes(cq_size, 1));
    comp_queue_init(&s->cq, s->ring, cq_size, 1);
    s->reader = (struct cq_reader){.shared = s->ring, .size = cq_size, .lanes = 1};
    s->shared = zeroed(sizeof(*s->shared));
    s->sq = zeroed(SLOTS * sqe_stride(2, 0));
    s->rq = zeroed(SLOTS * rqe_stride(2));
    init.shared = s->shared;
    init.sq = (struct work_queue){.ring = s->sq,
                                  .prod = &s->shared->sq_prod,
                                  .size = SLOTS,
                                  .stride = sqe_stride(2, 0),
                                  .max_sge = 2};
    init.rq = (struct work_queue){.ring = s->rq,
                                  .prod = &s->shared->rq_prod,
                                  .size = SLOTS,
                                  .stride = rqe_stride(2),
                                  .max_sge = 2};
    s->qp = qp_create(s->qps, &init, &err);
    assert_non_null(s->qp);
    engine_qp_attach(s->e, s->qp);
}

static void side_fini(struct side *s)
{
    engine_qp_detach(s->e, s->qp);
    qp_free(s->qp);
    engine_destroy(s->e);
    qp_table_destroy(s->qps);
    mr_table_fini(&s->mrs);
    free(s->memory);
    free(s->ring);
    free(s->shared);
    free(s->sq);
    free(s->rq);
}

static void connect_to(struct side *s, const struct side *peer, uint32_t access, uint32_t psn)
{
    struct qp_attr a = {.state = QPS_INIT,
                        .path_mtu = MTU_CODE,
                        .port_num = 1,
                        .max_rd_atomic = 4,
                        .max_dest_rd_atomic = 4,
                        .timeout = 10,
                        .retry_cnt = 7,
                        .rnr_retry = 7,
                        .min_rnr_timer = 1,
                        .dest_qpn = qp_number(peer->qp),
                        .rq_psn = psn,
                        .sq_psn = psn,
                        .access_flags = access};
    struct address_vector av = {.sgid = s->gids.entry[0].gid,
                                .dgid = peer->gids.entry[0].gid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = VLAN_NONE,
                                .hop_limit = 64};
    int rc;

    memcpy(av.smac, s->port.mac, 6);
    memcpy(av.dmac, peer->port.mac, 6);
    rc = engine_qp_modify(s->e, s->qp, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                          NULL, 5, 1);
    a.state = QPS_RTR;
    rc |= engine_qp_modify(s->e, s->qp, &a,
                           QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                               QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
                           &av, 5, 1);
    a.state = QPS_RTS;
    if (peer->port.mac[5] == 2 || psn % 4) /* some responders stay in RTR */
        rc |= engine_qp_modify(s->e, s->qp, &a,
                               QPA_STATE | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY |
                                   QPA_SQ_PSN | QPA_MAX_RD_ATOMIC,
                               NULL, 5, 1);
    assert_int_equal(rc, 0);
}

/* ---- the applications ---- */

static void post(struct side *s, const struct side *peer, struct random *r)
{
    static const uint32_t lens[] = {0,  1,  7,    8,    8,    8,    8,    8,    9,     16,
                                    17, 64, 1024, 1024, 1024, 1024, 1025, 3072, 10000, 20000};
    static const uint8_t ops[] = {SQE_WRITE, SQE_WRITE, SQE_WRITE,    SQE_WRITE,     SQE_SEND,
                                  SQE_SEND,  SQE_SEND,  SQE_SEND_IMM, SQE_WRITE_IMM, SQE_READ};
    static uint8_t op = SQE_WRITE;
    static uint32_t len = 8;
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);

    /* Mostly the same again, as there would be no runs otherwise. */
    if (random_below(r, 32) == 0)
        op = ops[random_below(r, ARRAY_SIZE(ops))];
    if (random_below(r, 24) == 0)
        len = lens[random_below(r, ARRAY_SIZE(lens))];
    *e = (struct sqe){.wr_id = s->prod,
                      .opcode = op,
                      .flags = SQE_SIGNALED,
                      .num_sge = 1,
                      .remote_addr = IOVA + random_below(r, MEMORY - len),
                      .rkey = peer->mr.key};
    if (random_below(r, 16) == 0)
        e->flags |= SQE_SOLICITED;
    if (random_below(r, 600) == 0) /* beyond the end, or before the begin */
        e->remote_addr = IOVA + (random_below(r, 2) ? MEMORY - len + 1 : -1ull);
    *(struct sge *)(e + 1) = (struct sge){
        .addr = IOVA + random_below(r, MEMORY - len), .length = len, .lkey = s->mr.key};
    atomic_store(&s->shared->sq_prod, s->prod);
}

static void post_recv(struct side *s, struct random r)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(2), s->recv_prod++);
    struct sge *sge = (struct sge *)(e + 1);
    uint32_t what = random_below(&r, 400);

    *e = (struct rqe){.wr_id = s->recv_prod, .num_sge = 1};
    sge[0] = (struct sge){
        .addr = IOVA + random_below(&r, MEMORY / 2), .length = 20000, .lkey = s->mr.key};
    sge[1] = (struct sge){.addr = IOVA + 40000, .length = 20000, .lkey = s->mr.key};
    if (what < 20) {
        e->num_sge = 2;
        sge[0].length = 5;
    } else if (what < 26) {
        sge[0].length = 8;
    } else if (what == 30) {
        sge[0].lkey ^= 0x100;
    } else if (what == 31) {
        sge[0].addr = IOVA + MEMORY - 4;
    } else if (what == 32) {
        sge[0].length = UINT32_C(0x80000001);
    } else if (what == 33) {
        e->num_sge = 3;
    } else if (what == 34) {
        e->num_sge = 0;
    }
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

static void drain(struct side *s)
{
    while (cq_reader_peek(&s->reader)) {
        cq_reader_advance(&s->reader);
        s->read++;
    }
}

/* ---- the network ---- */

static uint32_t total_of(const struct frame *f)
{
    return get_be16(f->data + 16);
}

static void mend(struct frame *f, bool icrc)
{
    uint32_t total = total_of(f);

    memset(f->data + 24, 0, 2);
    put_be16(f->data + 24, (uint16_t)~ipv4_sum(f->data + ETH_LEN));
    if (icrc && total >= 44 && total + 14 <= f->len)
        icrc_seal(ICRC_IPV4, f->data + 14, total - 4);
}

static void damage(struct frame *f, struct random *r)
{
    uint8_t *b = f->data;
    uint32_t bit = random_below(r, (f->len - 4) * 8), what = random_below(r, 15);

    if (what < 2) /* no mending: any byte */
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (what < 2)
        return;
    if (what < 4) /* BTH and RETH */
        b[42 + bit % 28] ^= (uint8_t)(1 << bit % 8);
    else if (what == 4)
        b[15] = (uint8_t)bit; /* TOS */
    else if (what == 5)
        b[22] = (uint8_t)bit; /* TTL */
    else if (what == 6)
        b[18 + bit % 2] ^= (uint8_t)(1 << bit % 8);
    else if (what == 7)
        b[20] ^= (uint8_t)(1 << bit % 8); /* DF, fragments */
    else if (what == 8)
        put_be16(b + 16, (uint16_t)(total_of(f) + (bit % 3 ? 4 : bit % 9 - 4)));
    else if (what == 9)
        put_be16(b + 38, (uint16_t)(get_be16(b + 38) - 4));
    else if (what == 10)
        b[43] ^= (uint8_t)(1 << bit % 8); /* solicited, pad, version */
    else if (what == 11)
        put_be24(b + 51, get_be24(b + 51) + (bit % 3 ? 1 : -1u)); /* PSN */
    else if (what == 12)
        b[42] = bit % 2 ? OP_WRITE_FIRST : (uint8_t)(OP_WRITE_FIRST + bit % 6);
    else if (what == 13)
        b[34 + bit % 2] ^= 1; /* source port */
    else
        b[50] ^= 0x80;              /* asks for an acknowledge */
    if (what == 8 && bit % 4 < 3) { /* both lengths */
        put_be16(b + 38, (uint16_t)(total_of(f) - 20));
        f->len += 4;
    }
    mend(f, random_below(r, 8) != 0);
}

/* Loses, doubles, moves and damages frames; returns how many are left. */
static unsigned disturb(struct frame *f, unsigned n, uint32_t calm, struct random *r)
{
    static uint8_t spare[FRAME_BURST][ROOM];

    for (unsigned i = 0; i < n; i++) {
        switch (random_below(r, calm)) {
        case 0:
            memmove(&f[i], &f[i + 1], (n - i - 1) * sizeof(*f));
            n--;
            break;
        case 1:
            if (i) {
                memcpy(spare[i], f[i - 1].data, f[i - 1].len);
                f[i].data = spare[i];
                f[i].len = f[i - 1].len;
            }
            break;
        case 2:
            if (i) {
                struct frame swap = f[i];

                f[i] = f[i - 1];
                f[i - 1] = swap;
            }
            break;
        case 3:
        case 6:
        case 7:
            damage(&f[i], r);
            break;
        case 4:
            f[i].len += random_below(r, 3) * 8; /* Ethernet padding */
            break;
        case 5:
            f[i].len -= random_below(r, 2) ? 4 : random_below(r, f[i].len);
            break;
        }
    }
    return n;
}

/* ---- the comparison ---- */

/* What is not RoCE is nobody's, if it was handed over. */
static bool may_be_raw(enum drop reason)
{
    return reason == DROP_not_roce || reason == DROP_ip_fragment || reason == DROP_raw_no_recv;
}

static void check_counters(const struct side *fast, const struct side *slow, uint64_t frames)
{
    const struct engine_counters *f = engine_counters(fast->e), *s = engine_counters(slow->e);

    assert_int_equal(counter_get(&f->rx_delivered), counter_get(&s->rx_delivered));
    assert_int_equal(counter_get(&f->rx_other), counter_get(&s->rx_other));
    for (unsigned i = 0; i < DROP_COUNT; i++)
        if (!may_be_raw(i))
            assert_int_equal(counter_get(&f->drop[i]), counter_get(&s->drop[i]));
    assert_memory_equal(qp_counters(fast->qp), qp_counters(slow->qp), sizeof(struct qp_counters));
    assert_int_equal(counter_sum(f->rx_packets, QOS_PRIORITIES), frames);
    assert_int_equal(counter_get(&f->rx_delivered) + counter_get(&f->rx_other) +
                         counter_sum(f->drop, DROP_COUNT),
                     frames);
}

static void check_same(const struct side *fast, const struct side *slow)
{
    assert_int_equal(qp_current_state(fast->qp), qp_current_state(slow->qp));
    assert_memory_equal(fast->memory, slow->memory, MEMORY);
    assert_memory_equal(fast->ring, slow->ring, cq_segment_bytes(fast->cq_size, 1));
    assert_int_equal(fast->cq_events, slow->cq_events);
    assert_int_equal(fast->cq_posted, slow->cq_posted);
    assert_int_equal(fast->events, slow->events);
    assert_int_equal(fast->cq.lane[0].overrun, slow->cq.lane[0].overrun);
    assert_int_equal(fast->cq.lane[0].prod, slow->cq.lane[0].prod);
}

static void make_frames(struct frame f[FRAME_BURST], uint8_t bytes[FRAME_BURST][ROOM])
{
    for (unsigned i = 0; i < FRAME_BURST; i++)
        f[i] = (struct frame){.data = bytes[i], .room = ROOM};
}

/* An acknowledge that is no good is dropped with the reason. */
static void bad_answer(struct side *a, const struct frame *f, unsigned bit, enum drop reason,
                       ns_t now)
{
    const counter_t *dropped = &engine_counters(a->e)->drop[reason];
    uint64_t before = counter_get(dropped);
    uint8_t bytes[128];
    struct frame bad = {.data = bytes, .len = f->len};

    if (f->len != 62 || f->data[42] != OPCODE(PKT_RC, OP_ACK))
        return;
    memcpy(bytes, f->data, f->len);
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (reason != DROP_bad_icrc)
        icrc_seal(ICRC_IPV4, bytes + 14, total_of(&bad) - 4);
    engine_rx(a->e, &bad, 1, now);
    assert_int_equal(counter_get(dropped), before + 1);
}

/* What both answer is the same; it goes to the requester. */
static void answers(struct side *a, struct side *fast, struct side *slow, ns_t now)
{
    static uint8_t bytes[2][FRAME_BURST][ROOM];
    struct frame f[2][FRAME_BURST];
    unsigned n[2];

    make_frames(f[0], bytes[0]);
    make_frames(f[1], bytes[1]);
    n[0] = engine_tx(fast->e, f[0], FRAME_BURST, now);
    n[1] = engine_tx(slow->e, f[1], FRAME_BURST, now);
    assert_int_equal(n[0], n[1]);
    for (unsigned i = 0; i < n[0]; i++) {
        assert_int_equal(f[0][i].len, f[1][i].len);
        assert_memory_equal(f[0][i].data, f[1][i].data, f[0][i].len);
    }
    if (n[0]) {
        bad_answer(a, f[0], 43 * 8 + 4, DROP_pad_length, now);
        bad_answer(a, f[0], 57 * 8, DROP_bad_icrc, now);
        bad_answer(a, f[0], 25 * 8, DROP_bad_ip_header, now);
    }
    engine_rx(a->e, f[0], n[0], now);
}

/* The application's side of both, between two bursts. */
static void disturb_host(struct side *s, struct random r)
{
    if (random_below(&r, 100) == 0) { /* the key is another from now on */
        mr_remove(&s->mrs, &s->mr);
        assert_int_equal(mr_insert(&s->mrs, &s->mr, 1), 0);
    }
    if (random_below(&r, 50) == 0)
        s->mr.direct = s->mr.direct ? NULL : s->memory;
    for (uint32_t n = random_below(&r, 8) ? random_below(&r, 60) : 0; n > 0; n--) {
        if (s->recv_prod - s->read >= SLOTS / 2)
            break;
        post_recv(s, r);
        random_next(&r);
    }
    if (random_below(&r, 40))
        drain(s);
    if (random_below(&r, 3) == 0)
        cq_reader_arm(&s->reader, random_below(&r, 2) ? CQ_ARM_NEXT : CQ_ARM_SOLICITED);
}

static bool works(const struct side *s)
{
    return qp_current_state(s->qp) == QPS_RTS || qp_current_state(s->qp) == QPS_RTR;
}

static uint64_t trial(uint64_t seed)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct random r = {seed};
    struct side a, fast, slow;
    uint32_t cq_size = seed % 4 ? 128 : 16, access = seed % 16 ? 15 : 13;
    uint32_t mr_access = seed % 16 == 8 ? 5 : 15, psn = (uint32_t)random_next(&r) & PSN_MASK;
    struct frame f[FRAME_BURST];
    uint64_t frames = 0;
    ns_t now = 1;

    if (seed % 3 == 0)
        psn = PSN_MASK - 20; /* wraps around */
    side_init(&a, 1, 128, 15);
    side_init(&fast, 2, cq_size, mr_access);
    side_init(&slow, 2, cq_size, mr_access);
    for (unsigned i = 0; i < MEMORY; i++)
        a.memory[i] = (uint8_t)random_next(&r);
    connect_to(&a, &fast, 15, psn);
    connect_to(&fast, &a, access, psn);
    connect_to(&slow, &a, access, psn);
    for (unsigned burst = 0; burst < BURSTS && works(&a); burst++) {
        uint64_t app = random_next(&r);
        unsigned n;

        now += 2000000;
        disturb_host(&fast, (struct random){app});
        disturb_host(&slow, (struct random){app});
        for (uint32_t k = random_below(&r, 60); k > 0 && a.prod - a.read < 30; k--)
            post(&a, &fast, &r);
        engine_timers(a.e, now);
        engine_doorbell(a.e, a.qp, now);
        make_frames(f, bytes);
        n = disturb(f, engine_tx(a.e, f, FRAME_BURST, now), seed % 4 ? 300 : 40, &r);
        engine_rx(fast.e, f, n, now);
        engine_rx_handed(slow.e, f, n, 0, now);
        frames += n;
        check_counters(&fast, &slow, frames);
        check_same(&fast, &slow);
        answers(&a, &fast, &slow, now);
        drain(&a);
    }
    frames = counter_get(&qp_counters(fast.qp)->rx_packets);
    side_fini(&a);
    side_fini(&fast);
    side_fini(&slow);
    return frames;
}

static void test_same_as_the_general_way(void **state)
{
    uint64_t packets = 0;

    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        packets += trial(seed);
    assert_true(packets > TRIALS * BURSTS); /* most of them get somewhere */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_general_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
