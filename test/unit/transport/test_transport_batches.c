/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two equal responders get the same frames: one directly, so that the batch path handles them where
 * it can, the other as forwarded frames, by the general path. Whatever the requester, the network
 * and the application do, both must have the same memory, completions, events and counters, and
 * send the same answers.
 */
#include "batch_kit.h"

#define TRIALS 600
#define BURSTS 60

#define PAD_COUNT_BIT 4 /* the lower of two, in the BTH's second byte */

/* ---- the applications ---- */

/* The message has the same bytes, from two SGEs. */
static void cut_in_two(struct sqe *e, uint32_t at)
{
    struct sge *sge = (struct sge *)(e + 1);

    e->num_sge = 2;
    sge[1] = (struct sge){sge->addr + at, sge->length - at, sge->lkey};
    sge->length = at;
}

/* The WQE sends a datagram instead, mostly to where the last one went. */
static void make_datagram(const struct side *s, const struct side *peer, struct sqe *e,
                          struct random *r)
{
    static unsigned from;

    if (random_below(r, 24) == 0)
        from = random_below(r, ARRAY_SIZE(s->ah));
    e->ud.ah = address_handle_number(s->ah[from]);
    e->ud.remote_qpn = qp_number(peer->qp) + (random_below(r, 200) == 0);
    e->ud.remote_qkey = QKEY + (random_below(r, 200) == 0);
}

static bool is_atomic(uint8_t op)
{
    return op == SQE_CMP_SWP || op == SQE_FETCH_ADD;
}

/* Of one of few words, so that others have changed it, and some comparisons hold. */
static void make_atomic(struct sqe *e, struct random *r)
{
    e->remote_addr = IOVA + 8 * random_below(r, 4) + (random_below(r, 600) == 0);
    e->atomic.compare_add = random_below(r, 3);
    e->atomic.swap = random_below(r, 3);
}

static void post(struct side *s, const struct side *peer, struct random *r)
{
    static const uint32_t lens[] = {0,  1,  7,    8,    8,    8,    8,    8,    9,     16,
                                    17, 64, 1024, 1024, 1024, 1024, 1025, 3072, 10000, 20000};
    static const uint8_t ops[] = {SQE_WRITE,     SQE_WRITE, SQE_WRITE,   SQE_WRITE,
                                  SQE_SEND,      SQE_SEND,  SQE_SEND,    SQE_SEND_IMM,
                                  SQE_WRITE_IMM, SQE_READ,  SQE_CMP_SWP, SQE_FETCH_ADD};
    static uint8_t op = SQE_WRITE;
    static uint32_t message_len = 8;
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);
    uint32_t len;

    /* Mostly the same request again: otherwise there would be no batches. */
    if (random_below(r, 32) == 0)
        op = ops[random_below(r, ARRAY_SIZE(ops) - (batch_type == QPT_UC ? 3 : 0))];
    if (batch_type == QPT_UC && op >= SQE_READ) /* UC has neither READs nor atomics */
        op = SQE_WRITE;
    if (batch_type == QPT_UD && op != SQE_SEND_IMM)
        op = SQE_SEND;
    if (random_below(r, 24) == 0)
        message_len = lens[random_below(r, ARRAY_SIZE(lens))];
    len = is_atomic(op) ? 8 : batch_type == QPT_UD ? min_of(message_len, 1024u) : message_len;
    *e = (struct sqe){.wr_id = s->prod,
                      .opcode = op,
                      .flags = SQE_SIGNALED,
                      .num_sge = 1,
                      .remote_addr = IOVA + random_below(r, MEMORY - len),
                      .rkey = peer->mr.key};
    if (random_below(r, 16) == 0)
        e->flags |= SQE_SOLICITED;
    if (random_below(r, 16) == 0)
        e->flags |= SQE_FENCE;
    if (is_atomic(op))
        make_atomic(e, r);
    if (random_below(r, 600) == 0) /* beyond the end, or before the start */
        e->remote_addr = IOVA + (random_below(r, 2) ? MEMORY - len + 1 : -1ull);
    *(struct sge *)(e + 1) = (struct sge){
        .addr = IOVA + random_below(r, MEMORY - len), .length = len, .lkey = s->mr.key};
    if (batch_type == QPT_UD)
        make_datagram(s, peer, e, r);
    if (op <= SQE_READ && random_below(r, 16) == 0)
        cut_in_two(e, random_below(r, len + 1));
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
    if (what < 20 || (what >= 40 && s->recv_prod / 24 % 3 == 2)) { /* one by one, and in a row */
        e->num_sge = 2;
        sge[0].length = 5 + s->recv_prod % 3 * 20;
        if (s->recv_prod % 31 == 0)
            sge[1].length = 3;
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
    } else if (what >= 35 && what < 38) { /* the second of two is illegal */
        e->num_sge = 2;
        sge[0].length = 5;
        if (what == 35)
            sge[1].lkey ^= 0x100;
        else if (what == 36)
            sge[1].addr = IOVA + MEMORY - 4;
        else
            sge[1].length = UINT32_C(0x80000001);
    }
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

/* ---- the comparison ---- */

/* An acknowledge with a wrong bit is dropped with the reason. */
static void bad_answer(struct side *a, const struct frame *f, unsigned bit, enum drop reason,
                       ns_t now)
{
    const counter_t *dropped = &engine_counters(a->e)->drop[reason];
    uint64_t before = counter_get(dropped);
    uint8_t bytes[128];
    struct frame bad = {.data = bytes, .len = f->len};

    if (f->len != batch_shift() + AT_AETH_END + ICRC_LEN ||
        f->data[batch_shift() + AT_BTH_OPCODE] != OPCODE(PKT_RC, OP_ACK))
        return;
    memcpy(bytes, f->data, f->len);
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (reason != DROP_bad_icrc)
        batch_seal(&bad);
    engine_rx(a->e, &bad, 1, now);
    assert_int_equal(counter_get(dropped), before + 1);
}

/* Both send the same answers, which go to the requester. */
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
        unsigned shift = batch_shift();

        bad_answer(a, f[0], (shift + AT_BTH_FLAGS) * 8 + PAD_COUNT_BIT, DROP_pad_length, now);
        bad_answer(a, f[0], (shift + AT_AETH_MSN + 2) * 8, DROP_bad_icrc, now);
        bad_answer(a, f[0], (shift + AT_UDP_LENGTH + 1) * 8, DROP_udp_length, now);
    }
    if (n[0] && batch_form == HDR_IPV4) {
        bad_answer(a, f[0], (AT_IP_SUM + 1) * 8, DROP_bad_ip_header, now);
        bad_answer(a, f[0], (AT_IP + IPV4_SRC_OFF) * 8, DROP_bad_ip_header, now);
    }
    engine_rx(a->e, f[0], n[0], now);
}

/* The application's part on both sides, between two bursts. */
static void disturb_host(struct side *s, struct random r)
{
    if (random_below(&r, 100) == 0) { /* the region gets another key */
        mr_remove(&s->mrs, &s->mr);
        assert_int_equal(mr_insert(&s->mrs, &s->mr, 1), 0);
    }
    if (random_below(&r, 50) == 0)
        s->mr.direct = s->mr.direct ? NULL : s->memory;
    if (random_below(&r, 200) ==
        0) { /* copies to there fail; WRITEs and SENDs to mapped memory do not */
        s->copied.bad = IOVA + random_below(&r, MEMORY);
        s->copied.bad_len = 1 + random_below(&r, 4000);
    }
    for (uint32_t n = random_below(&r, 8) ? random_below(&r, 60) : 0; n > 0; n--) {
        if (s->recv_prod - s->read >= SLOTS / 2)
            break;
        post_recv(s, r);
        random_next(&r);
    }
    if (s->srq && random_below(&r, 3) == 0)
        s->srq_events += srq_set_limit(s->srq, random_below(&r, SLOTS / 2));
    if (random_below(&r, 40))
        drain(s);
    if (random_below(&r, 3) == 0)
        cq_reader_arm(&s->reader, random_below(&r, 2) ? CQ_ARM_NEXT : CQ_ARM_SOLICITED);
}

static uint64_t trial(uint64_t seed)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct random r = {seed}, marks = {seed};
    struct side a, fast, slow;
    uint32_t cq_size = seed % 4 ? 128 : 16;
    uint32_t access = seed % 16 == 0   ? ALL_RIGHTS & ~MEM_REMOTE_WRITE
                      : seed % 16 == 4 ? ALL_RIGHTS & ~MEM_REMOTE_ATOMIC
                                       : ALL_RIGHTS;
    uint32_t mr_access = seed % 16 == 8 ? MEM_LOCAL_WRITE | MEM_REMOTE_READ : ALL_RIGHTS;
    uint32_t psn = (uint32_t)random_next(&r) & PSN_MASK;
    struct frame f[FRAME_BURST];
    uint64_t frames = 0;
    ns_t now = 1;

    batch_form = seed / 16 % 2 ? HDR_IPV4 : (enum hdr_form)(seed / 32 % HDR_FORMS);
    batch_counts = (enum batch_counts)(seed / 2 % 3);
    batch_type = seed % 5 == 4 ? QPT_UC : seed % 5 == 3 ? QPT_UD : QPT_RC;
    if (seed % 3 == 0)
        psn = PSN_MASK - 20; /* wraps around */
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    if (seed / 8 % 3 == 0) /* of another domain the first receive fails */
        batch_srq_pd = seed % 7 ? PD : PD + 1;
    side_init(&fast, 2, cq_size, mr_access, 0);
    side_init(&slow, 2, cq_size, mr_access, 0);
    batch_srq_pd = 0;
    for (unsigned i = 0; i < MEMORY; i++)
        a.memory[i] = (uint8_t)random_next(&r);
    connect_to(&a, &fast, ALL_RIGHTS, psn);
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
        n = engine_tx(a.e, f, FRAME_BURST, now);
        mark_some(f, n, seed % 5 * 25, &marks);
        n = disturb(f, n, seed % 4 ? 300 : 40, &r);
        engine_rx(fast.e, f, n, now);
        engine_rx_forwarded(slow.e, f, n, 0, now);
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
    batch_form = HDR_IPV4;
    batch_type = QPT_RC;
    batch_counts = BATCH_COUNTS_NOTHING;
    assert_true(packets > TRIALS * BURSTS); /* most trials transfer data */
}

/* Marks of whole bursts, of none, of some, and of the requester's ACKs are added up. */
static void count_marks(void)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct random r = {1}, marks = {2};
    struct side a, b;
    struct frame f[FRAME_BURST];
    unsigned ce = 0, ce_back = 0, packets = 0;

    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&b, 2, 128, ALL_RIGHTS, 0);
    connect_to(&a, &b, ALL_RIGHTS, 7);
    connect_to(&b, &a, ALL_RIGHTS, 7);
    for (ns_t now = 1; now < 200; now++) {
        unsigned n;

        while (b.recv_prod - b.read < SLOTS / 2)
            post_recv(&b, (struct random){now});
        while (a.prod - a.read < 30)
            post(&a, &b, &r);
        engine_doorbell(a.e, a.qp, now);
        make_frames(f, bytes);
        n = engine_tx(a.e, f, FRAME_BURST, now);
        ce += mark_some(f, n, now % 4 * 33, &marks);
        packets += n;
        engine_rx(b.e, f, n, now);
        make_frames(f, bytes);
        n = engine_tx(b.e, f, FRAME_BURST, now);
        ce_back += mark_some(f, n, 50, &marks);
        engine_rx(a.e, f, n, now);
        drain(&a);
        drain(&b);
        if (!works(&a) || !works(&b))
            break;
    }
    assert_true(ce > packets / 4 && ce_back > 10);
    assert_int_equal(counter_get(&qp_counters(b.qp)->np_ecn_marked_roce_packets), ce);
    assert_int_equal(counter_get(&qp_counters(a.qp)->np_ecn_marked_roce_packets), ce_back);
    side_fini(&a);
    side_fini(&b);
}

static void test_marks_are_counted(void **state)
{
    for (batch_form = HDR_IPV4; batch_form < HDR_FORMS; batch_form++)
        count_marks();
    batch_form = HDR_IPV4;
}

#define MESSAGES 8
#define PIECE    64

static void post_bytes(struct side *s, const struct side *peer, enum sqe_op op, uint32_t at,
                       uint32_t len)
{
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);

    *e = (struct sqe){.wr_id = s->prod,
                      .opcode = (uint8_t)op,
                      .flags = SQE_SIGNALED,
                      .num_sge = 1,
                      .remote_addr = IOVA + at,
                      .rkey = peer->mr.key};
    *(struct sge *)(e + 1) = (struct sge){.addr = IOVA, .length = len, .lkey = s->mr.key};
    atomic_store(&s->shared->sq_prod, s->prod);
}

static void post_piece(struct side *s, const struct side *peer, enum sqe_op op, unsigned i)
{
    post_bytes(s, peer, op, i * PIECE, PIECE);
}

static void post_recv_bytes(struct side *s, uint32_t at, uint32_t len)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(2), s->recv_prod++);

    *e = (struct rqe){.wr_id = s->recv_prod, .num_sge = 1};
    *(struct sge *)(e + 1) = (struct sge){.addr = IOVA + at, .length = len, .lkey = s->mr.key};
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

static void post_recv_piece(struct side *s, unsigned i)
{
    post_recv_bytes(s, i * PIECE, PIECE);
}

/* The address of a connection is removed, or that of another VLAN now: its frames are dropped, in
 * batches as one by one. */
static void test_address_moves(void **state)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    const struct engine_counters *c;
    struct frame f[FRAME_BURST];
    struct side a, b;

    for (batch_form = HDR_IPV4; batch_form < HDR_FORMS; batch_form++) {
        unsigned n;

        side_init(&a, 1, 128, ALL_RIGHTS, 0);
        side_init(&b, 2, 128, ALL_RIGHTS, 0);
        connect_to(&a, &b, ALL_RIGHTS, 7);
        connect_to(&b, &a, ALL_RIGHTS, 7);
        c = engine_counters(b.e);
        for (unsigned i = 0; i < 3; i++) {
            for (unsigned k = 0; k < MESSAGES; k++)
                post_piece(&a, &b, SQE_WRITE, k);
            engine_doorbell(a.e, a.qp, 1 + i);
            make_frames(f, bytes);
            n = engine_tx(a.e, f, FRAME_BURST, 1 + i);
            assert_int_equal(n, MESSAGES);
            if (i == 1)
                b.gids.entry[0].vlan = 9;
            if (i == 2)
                b.gids.entry[0].valid = false;
            engine_rx(b.e, f, n, 1 + i);
            assert_int_equal(counter_get(&c->rx_delivered), MESSAGES);
            assert_int_equal(counter_get(&c->drop[DROP_wrong_destination]), i * MESSAGES);
        }
        side_fini(&a);
        side_fini(&b);
    }
    batch_form = HDR_IPV4;
}

/* Four bytes more than the path MTU; the lengths and the ICRC are right. */
static void lengthen(struct frame *f)
{
    uint8_t *udp_len = f->data + AT_UDP_LENGTH;

    put_be16(f->data + AT_IP_TOTAL, (uint16_t)(total_of(f) + 4));
    put_be16(udp_len, (uint16_t)(get_be16(udp_len) + 4));
    put_be16(f->data + AT_IP_SUM, 0);
    put_be16(f->data + AT_IP_SUM, (uint16_t)~ipv4_sum(f->data + AT_IP));
    memset(f->data + f->len - ICRC_LEN, 0, 2 * ICRC_LEN);
    f->len += 4;
    batch_seal(f);
}

static void longer_than_the_mtu(enum sqe_op op)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct side a, fast, slow, *both[] = {&fast, &slow};
    struct frame f[FRAME_BURST];

    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&fast, 2, 128, ALL_RIGHTS, 0);
    side_init(&slow, 2, 128, ALL_RIGHTS, 0);
    connect_to(&a, &fast, ALL_RIGHTS, 7);
    connect_to(&fast, &a, ALL_RIGHTS, 7);
    connect_to(&slow, &a, ALL_RIGHTS, 7);
    for (unsigned i = 0; i < 2; i++) { /* the first frame is learnt from */
        for (unsigned k = 0; k < ARRAY_SIZE(both); k++)
            post_recv_bytes(both[k], 0, MEMORY);
        post_bytes(&a, &fast, op, 0, 128u << MTU_CODE);
        engine_doorbell(a.e, a.qp, 1 + i);
        make_frames(f, bytes);
        assert_int_equal(engine_tx(a.e, f, FRAME_BURST, 1 + i), 1);
        if (i)
            lengthen(&f[0]);
        engine_rx(fast.e, f, 1, 1 + i);
        engine_rx_forwarded(slow.e, f, 1, 0, 1 + i);
        check_counters(&fast, &slow, 1 + i);
        check_same(&fast, &slow);
    }
    assert_int_equal(qp_current_state(fast.qp), QPS_ERR);
    side_fini(&a);
    side_fini(&fast);
    side_fini(&slow);
}

static void test_longer_than_the_mtu(void **state)
{
    longer_than_the_mtu(SQE_SEND);
    longer_than_the_mtu(SQE_SEND_IMM);
}

/* Frame `other` of a burst has the opcode of the other service: it is dropped. */
static void one_of_another_service(uint32_t type, unsigned other)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct side a, fast, slow;
    struct frame f[FRAME_BURST];

    batch_type = type;
    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&fast, 2, 128, ALL_RIGHTS, 0);
    side_init(&slow, 2, 128, ALL_RIGHTS, 0);
    connect_to(&a, &fast, ALL_RIGHTS, 7);
    connect_to(&fast, &a, ALL_RIGHTS, 7);
    connect_to(&slow, &a, ALL_RIGHTS, 7);
    for (unsigned i = 0; i < 2; i++) { /* the first burst is learnt from */
        for (unsigned k = 0; k < MESSAGES; k++)
            post_piece(&a, &fast, SQE_WRITE, k);
        engine_doorbell(a.e, a.qp, 1 + i);
        make_frames(f, bytes);
        assert_int_equal(engine_tx(a.e, f, FRAME_BURST, 1 + i), MESSAGES);
        if (i) {
            f[other].data[AT_BTH_OPCODE] ^= PKT_UC;
            batch_seal(&f[other]);
        }
        engine_rx(fast.e, f, MESSAGES, 1 + i);
        engine_rx_forwarded(slow.e, f, MESSAGES, 0, 1 + i);
        check_counters(&fast, &slow, (1 + i) * MESSAGES);
        check_same(&fast, &slow);
    }
    assert_int_equal(counter_get(&qp_counters(fast.qp)->rx_packets), 2 * MESSAGES - 1);
    side_fini(&a);
    side_fini(&fast);
    side_fini(&slow);
    batch_type = QPT_RC;
}

static void test_another_service(void **state)
{
    for (unsigned other = 0; other < MESSAGES; other++) {
        one_of_another_service(QPT_RC, other);
        one_of_another_service(QPT_UC, other);
    }
}

/* What `from` sends for `posted` messages to `to`, or as answers; returns how many frames. */
static unsigned send_to(struct side *from, struct side *to, unsigned posted, struct frame *f,
                        uint8_t bytes[FRAME_BURST][ROOM])
{
    for (unsigned i = 0; i < posted; i++)
        post_piece(from, to, SQE_WRITE, i);
    engine_doorbell(from->e, from->qp, 1);
    make_frames(f, bytes);
    return engine_tx(from->e, f, FRAME_BURST, 1);
}

/* UC has no ACKs: one that comes is dropped. */
static void test_ack_to_uc(void **state)
{
    static uint8_t bytes[FRAME_BURST][ROOM], ack_bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST], ack[FRAME_BURST];
    struct side a, b;
    unsigned n;

    for (batch_type = QPT_RC; batch_type <= QPT_UC; batch_type++) {
        side_init(&a, 1, 128, ALL_RIGHTS, 0);
        side_init(&b, 2, 128, ALL_RIGHTS, 0);
        connect_to(&a, &b, ALL_RIGHTS, 7);
        connect_to(&b, &a, ALL_RIGHTS, 7);
        n = send_to(&b, &a, 1, f, bytes);
        engine_rx(a.e, f, n, 1); /* is learnt from */
        if (batch_type == QPT_RC) {
            n = send_to(&a, &b, 1, f, bytes);
            engine_rx(b.e, f, n, 1);
            assert_int_equal(send_to(&b, &a, 0, ack, ack_bytes), 1);
            assert_int_equal(ack[0].data[AT_BTH_OPCODE], OPCODE(PKT_RC, OP_ACK));
        }
        engine_rx(a.e, ack, 1, 1);
        assert_int_equal(counter_get(&engine_counters(a.e)->rx_delivered),
                         batch_type == QPT_RC ? 2 : 1);
        side_fini(&a);
        side_fini(&b);
    }
    batch_type = QPT_RC;
}

/* ---- copies that fail ---- */

/* The receive WQEs before the one whose memory fails are complete, that one has failed, and those
 * behind it are flushed. */
static void check_recvs(struct side *s, unsigned failed)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct cqe *c = cq_reader_peek(&s->reader);

        assert_non_null(c);
        assert_int_equal(c->wr_id, i + 1);
        assert_int_equal(c->status, i < failed    ? WC_SUCCESS
                                    : i == failed ? WC_LOC_PROT_ERR
                                                  : WC_WR_FLUSH_ERR);
        cq_reader_advance(&s->reader);
    }
}

/* One burst to memory that is copied: the copy of message `failed` fails. One side gets it
 * directly, the other as forwarded frames. */
static void copy_that_fails(enum sqe_op op, unsigned failed)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct side a, fast, slow, *both[] = {&fast, &slow};
    struct frame f[FRAME_BURST];
    unsigned n;

    side_init(&a, 1, 128, ALL_RIGHTS, 0);
    side_init(&fast, 2, 128, ALL_RIGHTS, 0);
    side_init(&slow, 2, 128, ALL_RIGHTS, 0);
    memset(a.memory, 0x5A, PIECE);
    connect_to(&a, &fast, ALL_RIGHTS, 7);
    for (unsigned i = 0; i < ARRAY_SIZE(both); i++) {
        connect_to(both[i], &a, ALL_RIGHTS, 7);
        both[i]->mr.direct = NULL;
        both[i]->copied.bad = IOVA + failed * PIECE + PIECE / 2;
        both[i]->copied.bad_len = 1;
        for (unsigned k = 0; k < MESSAGES; k++)
            post_recv_piece(both[i], k);
    }
    for (unsigned i = 0; i < MESSAGES; i++)
        post_piece(&a, &fast, op, i);
    engine_doorbell(a.e, a.qp, 1);
    make_frames(f, bytes);
    n = engine_tx(a.e, f, FRAME_BURST, 1);
    assert_int_equal(n, MESSAGES);
    engine_rx(fast.e, f, n, 1);
    engine_rx_forwarded(slow.e, f, n, 0, 1);
    check_counters(&fast, &slow, n);
    check_same(&fast, &slow);
    assert_int_equal(qp_current_state(fast.qp), QPS_ERR);
    assert_int_equal(fast.memory[0], failed ? 0x5A : 0);
    if (op != SQE_WRITE)
        check_recvs(&fast, failed);
    answers(&a, &fast, &slow, 2); /* a NAK */
    assert_int_equal(qp_current_state(a.qp), QPS_ERR);
    side_fini(&a);
    side_fini(&fast);
    side_fini(&slow);
}

static void test_copies_that_fail(void **state)
{
    for (unsigned failed = 0; failed < MESSAGES; failed++) {
        copy_that_fails(SQE_SEND, failed);
        copy_that_fails(SQE_SEND_IMM, failed);
        copy_that_fails(SQE_WRITE, failed);
        copy_that_fails(SQE_WRITE_IMM, failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_are_counted), cmocka_unit_test(test_same_as_the_general_way),
        cmocka_unit_test(test_address_moves),     cmocka_unit_test(test_longer_than_the_mtu),
        cmocka_unit_test(test_another_service),   cmocka_unit_test(test_ack_to_uc),
        cmocka_unit_test(test_copies_that_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
