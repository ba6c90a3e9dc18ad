/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a queue pair of UD sends. Two equal requesters have the same WQEs; the address handles of
 * one have a rate that is never reached, so each of its datagrams takes the general path. Both must
 * send the same frames, apart from the IPv4 identification.
 */
#include "batch_kit.h"
#include "requester.h"

#define TRIALS    200
#define BURSTS    40
#define MESSAGES  8
#define MUCH      UINT64_C(1000000000000000) /* of a rate */
#define NO_HANDLE 0x7FFFFF

/* Which handle each of the peer's two is: of one of another rate, and of the same addresses. */
static void limit_handles(struct side *s)
{
    int err;

    for (unsigned i = 0; i < ARRAY_SIZE(s->ah); i++) {
        struct address_vector av = *address_handle_vector(s->ah[i]);

        address_handle_unpublish(s->ahs, s->ah[i]);
        address_handle_free(s->ah[i]);
        s->ah[i] = address_handle_create(s->ahs, PD, &av, MUCH, &err);
        assert_non_null(s->ah[i]);
    }
}

static struct sqe *post_datagram(struct side *s, uint32_t handle, uint32_t at, uint32_t len)
{
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);

    *e = (struct sqe){.wr_id = s->prod, .opcode = SQE_SEND, .flags = SQE_SIGNALED, .num_sge = 1};
    e->ud.ah = handle;
    e->ud.remote_qpn = 0x1234;
    e->ud.remote_qkey = QKEY;
    *(struct sge *)(e + 1) = (struct sge){.addr = IOVA + at, .length = len, .lkey = s->mr.key};
    atomic_store(&s->shared->sq_prod, s->prod);
    return e;
}

/* Mostly as the one before. */
static void post(struct side *s, struct random *r)
{
    static const uint32_t lens[] = {0, 1, 7, 8, 8, 8, 9, 16, 64, 511, 512, 1023, 1024};
    uint32_t kind = random_below(r, 64), len = lens[random_below(r, ARRAY_SIZE(lens))];
    struct sqe *e = post_datagram(s, address_handle_number(s->ah[kind < 8]),
                                  random_below(r, MEMORY - 1024), kind % 8 ? 8 : len);

    if (kind == 20)
        e->opcode = SQE_SEND_IMM;
    e->imm = 0x01020304;
    if (kind == 21)
        e->flags |= SQE_SOLICITED | SQE_FENCE;
    if (kind == 22)
        e->ud.remote_qpn = 0xFF000077;
    if (kind == 23)
        e->ud.remote_qkey = 0x80000001; /* the queue pair's own */
    if (kind == 25)
        e->ud.remote_qkey = 77;
    if (kind == 24)
        e->flags = 0;
}

static void forget_identification(struct frame *f)
{
    uint8_t *ip = f->data + hdr_l3_at(batch_form);

    if (hdr_is_ipv6(batch_form))
        return;
    put_be16(ip + 4, 0);
    put_be16(ip + IPV4_SUM_OFF, 0);
}

static unsigned sent(struct side *s, struct frame f[FRAME_BURST], uint8_t bytes[FRAME_BURST][ROOM],
                     ns_t now)
{
    enum icrc_l3 kind = hdr_is_ipv6(batch_form) ? ICRC_IPV6 : ICRC_IPV4;
    unsigned n;

    engine_timers(s->e, now);
    engine_doorbell(s->e, s->qp, now);
    make_frames(f, bytes);
    n = engine_tx(s->e, f, FRAME_BURST, now);
    for (unsigned i = 0; i < n; i++)
        assert_true(icrc_verify(kind, f[i].data + hdr_l3_at(batch_form), total_of(&f[i])));
    return n;
}

static void same_completions(struct side *a, struct side *b)
{
    const struct cqe *c, *d;

    while ((c = cq_reader_peek(&a->reader))) {
        d = cq_reader_peek(&b->reader);
        assert_non_null(d);
        assert_int_equal(c->wr_id, d->wr_id);
        assert_int_equal(c->status, d->status);
        assert_int_equal(c->opcode, d->opcode);
        cq_reader_advance(&a->reader);
        cq_reader_advance(&b->reader);
        a->read++;
    }
    assert_null(cq_reader_peek(&b->reader));
    assert_memory_equal(a->counted, b->counted, sizeof(a->counted));
}

static unsigned same_frames(struct side *fast, struct side *slow, ns_t now)
{
    static uint8_t bytes[2][FRAME_BURST][ROOM];
    struct frame f[2][FRAME_BURST];
    unsigned n = sent(fast, f[0], bytes[0], now);

    assert_int_equal(n, sent(slow, f[1], bytes[1], now));
    for (unsigned i = 0; i < n; i++) {
        forget_identification(&f[0][i]);
        forget_identification(&f[1][i]);
        assert_int_equal(f[0][i].len, f[1][i].len);
        assert_memory_equal(f[0][i].data, f[1][i].data, f[0][i].len - ICRC_LEN);
    }
    same_completions(fast, slow);
    return n;
}

static void trial(uint64_t seed)
{
    struct side fast, slow, peer;
    unsigned turns = 0;

    batch_form = (enum hdr_form)(seed % HDR_FORMS);
    batch_counts = (enum batch_counts)(seed / 2 % 3);
    side_init(&fast, 1, 128, ALL_RIGHTS, 0);
    side_init(&slow, 1, 128, ALL_RIGHTS, 0);
    side_init(&peer, 2, 128, ALL_RIGHTS, 0);
    for (unsigned i = 0; i < MEMORY; i++)
        fast.memory[i] = slow.memory[i] = (uint8_t)(seed + i * i / 7);
    connect_to(&fast, &peer, ALL_RIGHTS, (uint32_t)seed * 3 + PSN_MASK - 600);
    connect_to(&slow, &peer, ALL_RIGHTS, (uint32_t)seed * 3 + PSN_MASK - 600);
    limit_handles(&slow);
    for (unsigned burst = 0; burst < BURSTS; burst++) {
        struct random r = {seed * BURSTS + burst}, again = r;

        fast.mr.direct = slow.mr.direct = burst % 8 ? fast.memory : NULL;
        if (slow.mr.direct)
            slow.mr.direct = slow.memory;
        for (uint32_t k = random_below(&r, 40); k > 0; k--)
            post(&fast, &r);
        for (uint32_t k = random_below(&again, 40); k > 0; k--)
            post(&slow, &again);
        for (ns_t now = 1 + burst * NS_PER_SEC; same_frames(&fast, &slow, now); now += NS_PER_MS)
            turns++;
    }
    assert_true(turns >= BURSTS / 2);
    assert_true(fast.read > BURSTS);
    side_fini(&fast);
    side_fini(&slow);
    side_fini(&peer);
}

static void test_sent_as_one_by_one(void **state)
{
    batch_type = QPT_UD;
    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        trial(seed);
    batch_type = QPT_RC;
    batch_form = HDR_IPV4;
    batch_counts = BATCH_COUNTS_NOTHING;
}

static void begin(struct side *a, struct side *peer)
{
    batch_type = QPT_UD;
    side_init(a, 1, 128, ALL_RIGHTS, 0);
    side_init(peer, 2, 128, ALL_RIGHTS, 0);
    connect_to(a, peer, ALL_RIGHTS, 7);
}

static void finish(struct side *a, struct side *peer)
{
    side_fini(a);
    side_fini(peer);
    batch_type = QPT_RC;
}

/* Datagrams of another priority may be of another traffic class, whose turn it is not. */
static void test_priorities(void **state)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];
    struct side a, peer;

    begin(&a, &peer);
    for (unsigned i = 0; i < MESSAGES; i++)
        post_datagram(&a, address_handle_number(a.ah[i > 0]), 0, 8);
    make_frames(f, bytes);
    assert_int_equal(req_batch_datagrams(a.e, a.qp, f, FRAME_BURST), 1);
    a.e->jobs = 2; /* the second one is not sealed, so those behind it are sealed later */
    assert_int_equal(req_batch_datagrams(a.e, a.qp, &f[2], FRAME_BURST - 2), 1);
    assert_int_equal(a.e->sealed, 1);
    finish(&a, &peer);
}

/* By the rule `spray` each datagram has a port of its own. */
static void test_sprayed(void **state)
{
    static const struct entropy_policy spray = {.rule = ENTROPY_SPRAY};
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];
    struct side a, peer;

    begin(&a, &peer);
    assert_int_equal(engine_qp_set_entropy(a.e, a.qp, &spray), 0);
    for (unsigned i = 0; i < MESSAGES; i++)
        post_datagram(&a, address_handle_number(a.ah[0]), 0, 8);
    assert_int_equal(sent(&a, f, bytes, 1), MESSAGES);
    for (unsigned i = 1; i < MESSAGES; i++)
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(get_be16(f[i].data + AT_UDP_SPORT),
                                 get_be16(f[k].data + AT_UDP_SPORT));
    finish(&a, &peer);
}

/* A handle that does not exist, a region that does not, too many bytes: the datagrams before it are
 * sent, this one fails, and those behind it are flushed. */
static void one_that_fails(unsigned bad, enum wc_status status)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];
    struct side a, peer;

    begin(&a, &peer);
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct sqe *e = post_datagram(&a, address_handle_number(a.ah[0]), 0, 8);

        if (i == bad && status == WC_LOC_QP_OP_ERR)
            e->ud.ah = NO_HANDLE;
        else if (i == bad && status == WC_LOC_PROT_ERR)
            ((struct sge *)(e + 1))->lkey ^= 0x100;
        else if (i == bad)
            ((struct sge *)(e + 1))->length = 4097;
    }
    assert_int_equal(sent(&a, f, bytes, 1), bad);
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct cqe *c = cq_reader_peek(&a.reader);

        assert_non_null(c);
        assert_int_equal(c->wr_id, i + 1);
        assert_int_equal(c->status, i < bad ? WC_SUCCESS : i == bad ? status : WC_WR_FLUSH_ERR);
        cq_reader_advance(&a.reader);
    }
    finish(&a, &peer);
}

static void test_one_that_fails(void **state)
{
    static const enum wc_status status[] = {WC_LOC_QP_OP_ERR, WC_LOC_PROT_ERR, WC_LOC_LEN_ERR};

    for (unsigned bad = 0; bad < MESSAGES; bad++)
        for (unsigned i = 0; i < ARRAY_SIZE(status); i++)
            one_that_fails(bad, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sent_as_one_by_one),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_sprayed),
        cmocka_unit_test(test_one_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
