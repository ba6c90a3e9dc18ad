/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two pairs of engines with the same work. In the first pair both ends use the batch path for READs
 * where it applies. In the second pair the requester has work requests of two SGEs, the responder's
 * memory is not mapped, and both get their frames as forwarded frames, so that all work uses the
 * general path. Whatever the applications and the network do, both pairs must send the same frames
 * (except for the IP identification and the checksums over it) and have the same memory,
 * completions, events and counters.
 */
#include "batch_kit.h"
#include "engine_private.h"

#define TRIALS  400
#define BURSTS  60
#define PENDING 30

#define NO_READ        (ALL_RIGHTS & ~MEM_REMOTE_READ)
#define NO_LOCAL_WRITE (ALL_RIGHTS & ~MEM_LOCAL_WRITE)

struct chain {
    struct side a, b; /* requester, responder */
    bool general;
    struct frame frames[FRAME_BURST];
    uint8_t bytes[FRAME_BURST][ROOM];
    unsigned n;
    uint64_t arrived[2]; /* frames at a, at b */
};

/* The parameters of a trial. */
struct nature {
    uint32_t psn, calm, inflight;
    uint32_t marked; /* per cent of the frames */
    uint32_t qp_access, local_access, remote_access;
    bool icrc_omitted;
};

static struct nature nature_of(uint64_t seed, struct random *r)
{
    struct nature n = {.psn = (uint32_t)random_next(r) & PSN_MASK,
                       .calm = seed % 4 ? 400 : 60,
                       .qp_access = seed % 16 == 1 ? NO_READ : ALL_RIGHTS,
                       .local_access = seed % 16 == 2 ? NO_LOCAL_WRITE : ALL_RIGHTS,
                       .remote_access = seed % 16 == 3 ? NO_READ : ALL_RIGHTS,
                       .inflight = seed % 2 ? 0 : 12,
                       .marked = seed % 3 * 40,
                       .icrc_omitted = seed % 8 == 4};

    if (seed % 3 == 0)
        n.psn = PSN_MASK - 20; /* wraps around */
    if (seed % 8 == 5)
        n.calm = 1 << 20;
    return n;
}

static void chain_init(struct chain *c, bool general, const struct nature *n)
{
    memset(c, 0, sizeof(*c));
    c->general = general;
    side_init(&c->a, 1, 128, n->local_access, n->inflight);
    side_init(&c->b, 2, 128, n->remote_access, 0);
    if (general)
        c->b.mr.direct = c->b.other.direct = NULL;
    for (unsigned i = 0; i < MEMORY; i++) {
        c->a.memory[i] = (uint8_t)(i * 7);
        c->b.memory[i] = (uint8_t)(i * 13 + i / 256);
        c->b.other_memory[i] = (uint8_t)(i * 17 + i / 256);
    }
    connect_to(&c->a, &c->b, ALL_RIGHTS, n->psn);
    connect_to(&c->b, &c->a, n->qp_access, n->psn);
}

static void chain_fini(struct chain *c)
{
    side_fini(&c->a);
    side_fini(&c->b);
}

/* ---- the applications ---- */

struct wish {
    uint8_t op, flags;
    uint32_t len, from, to;
    int wrong;                 /* which error it has; mostly none */
    bool other_from, other_to; /* regions */
};

static struct wish wish(struct random *r)
{
    static const uint32_t lens[] = {0,  1,    7,    8,    8,    8,    9,    16,    511,
                                    64, 1024, 1024, 1025, 2048, 3072, 4095, 10000, 20000};
    static uint8_t op = SQE_READ;
    static uint32_t len = 8;
    struct wish w = {.flags = SQE_SIGNALED};

    if (random_below(r, 24) == 0)
        op = random_below(r, 4) ? SQE_READ : random_below(r, 2) ? SQE_WRITE : SQE_SEND;
    if (random_below(r, 24) == 0)
        len = lens[random_below(r, ARRAY_SIZE(lens))];
    w.op = op;
    w.len = len;
    w.from = random_below(r, MEMORY - len);
    w.to = random_below(r, MEMORY - len);
    if (random_below(r, 40) == 0)
        w.flags |= SQE_FENCE;
    if (random_below(r, 40) == 0)
        w.flags |= SQE_SOLICITED;
    if (random_below(r, 20) == 0)
        w.flags &= (uint8_t)~SQE_SIGNALED;
    w.wrong = (int)random_below(r, 1500);
    w.other_from = random_below(r, 12) == 0;
    w.other_to = random_below(r, 12) == 0;
    return w;
}

/* The same for both pairs, except that one has a second, empty SGE. */
static void post(struct chain *c, const struct wish *w)
{
    struct side *s = &c->a;
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);
    struct sge *sge = (struct sge *)(e + 1);

    memset(e, 0, sqe_stride(2, 0));
    *e = (struct sqe){.wr_id = s->prod,
                      .opcode = w->op,
                      .flags = w->flags,
                      .num_sge = c->general ? 2 : 1,
                      .remote_addr = IOVA + w->from,
                      .rkey = w->other_from ? c->b.other.key : c->b.mr.key};
    sge[0] = (struct sge){
        .addr = IOVA + w->to, .length = w->len, .lkey = w->other_to ? s->other.key : s->mr.key};
    if (w->wrong == 0)
        e->remote_addr = IOVA + MEMORY - w->len + 1;
    else if (w->wrong == 1)
        e->remote_addr = IOVA - 1;
    else if (w->wrong == 2)
        sge[0].addr = IOVA + MEMORY - w->len + 1;
    else if (w->wrong == 3)
        sge[0].lkey ^= 0x100;
    else if (w->wrong == 4)
        e->rkey ^= 0x100;
    else if (w->wrong == 5)
        sge[0].addr = IOVA - 1;
    else if (w->wrong < 40 && w->len > 1) { /* in two pieces */
        e->num_sge = 2;
        sge[1] = (struct sge){
            .addr = IOVA + w->to / 2, .length = w->len - w->len / 2, .lkey = s->mr.key};
        sge[0].length = w->len / 2;
    }
    atomic_store(&s->shared->sq_prod, s->prod);
}

static void post_recv(struct side *s)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(2), s->recv_prod++);

    *e = (struct rqe){.wr_id = s->recv_prod, .num_sge = 1};
    *(struct sge *)(e + 1) = (struct sge){.addr = IOVA, .length = 20000, .lkey = s->mr.key};
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

static void new_key(struct side *s)
{
    mr_remove(&s->mrs, &s->mr);
    assert_int_equal(mr_insert(&s->mrs, &s->mr, 1), 0);
}

/* Between two bursts; r is the same for both pairs. */
static void disturb_hosts(struct chain *c, struct random r)
{
    if (random_below(&r, 150) == 0)
        new_key(&c->a);
    if (random_below(&r, 150) == 0)
        new_key(&c->b);
    if (random_below(&r, 30) == 0)
        c->a.mr.direct = c->a.mr.direct ? NULL : c->a.memory;
    if (random_below(&r, 200) == 0) {
        c->a.copied.bad = IOVA + random_below(&r, MEMORY);
        c->a.copied.bad_len = 1 + random_below(&r, 4000);
    }
    if (random_below(&r, 30) == 0 && !c->general)
        c->b.mr.direct = c->b.mr.direct ? NULL : c->b.memory;
    while (c->b.recv_prod - c->b.read < SLOTS / 2)
        post_recv(&c->b);
    drain(&c->b);
    if (random_below(&r, 10))
        drain(&c->a);
    if (random_below(&r, 3) == 0)
        cq_reader_arm(&c->a.reader, random_below(&r, 2) ? CQ_ARM_NEXT : CQ_ARM_SOLICITED);
}

/* ---- the network ---- */

/* A copy without the fields that may differ: the identification and both checksums, which must be
 * right. */
static void plain(uint8_t *to, const struct frame *f)
{
    uint32_t total = total_of(f), l3_at = hdr_l3_at(batch_form);
    bool v6 = hdr_is_ipv6(batch_form);

    assert_true(v6 || ipv4_sum(f->data + l3_at) == UINT16_MAX);
    assert_int_equal(total + l3_at, f->len);
    if (!f->icrc_omitted)
        assert_true(icrc_verify(v6 ? ICRC_IPV6 : ICRC_IPV4, f->data + l3_at, total));
    memcpy(to, f->data, f->len);
    if (!v6) {
        memset(to + l3_at + IPV4_ID_OFF, 0, 2);
        memset(to + l3_at + IPV4_SUM_OFF, 0, 2);
    }
    memset(to + f->len - ICRC_LEN, 0, ICRC_LEN);
}

/* Sorts responses before requests: their order among each other does not matter. */
static void answers_first(struct chain *c)
{
    struct frame sorted[FRAME_BURST];
    unsigned n = 0;

    for (int answers = 1; answers >= 0; answers--)
        for (unsigned i = 0; i < c->n; i++)
            if (!(opcode_table[c->frames[i].data[batch_shift() + AT_BTH_OPCODE]].flags &
                  PF_RESPONSE) == !answers)
                sorted[n++] = c->frames[i];
    assert_int_equal(n, c->n);
    memcpy(c->frames, sorted, n * sizeof(*sorted));
}

static void check_frames(const struct chain *fast, const struct chain *slow)
{
    static uint8_t bytes[2][ROOM];

    assert_int_equal(fast->n, slow->n);
    for (unsigned i = 0; i < fast->n; i++) {
        assert_int_equal(fast->frames[i].len, slow->frames[i].len);
        plain(bytes[0], &fast->frames[i]);
        plain(bytes[1], &slow->frames[i]);
        assert_memory_equal(bytes[0], bytes[1], fast->frames[i].len);
    }
}

/* Fetches the frames that `from` sends; receive() then delivers those that the network leaves. */
static void send_from(struct chain *c, struct side *from, const struct nature *n, ns_t now)
{
    make_frames(c->frames, c->bytes);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        c->frames[i].icrc_omitted = n->icrc_omitted;
    c->n = engine_tx(from->e, c->frames, FRAME_BURST, now);
    answers_first(c);
}

static void receive(struct chain *c, struct side *to, const struct nature *n, struct random r,
                    ns_t now)
{
    unsigned left;

    mark_some(c->frames, c->n, n->marked, &r);
    left = disturb(c->frames, c->n, n->calm, &r);

    if (c->general)
        engine_rx_forwarded(to->e, c->frames, left, 0, now);
    else
        engine_rx(to->e, c->frames, left, now);
    c->arrived[to == &c->b] += left;
}

static void check_pairs(const struct chain *fast, const struct chain *slow)
{
    check_counters(&fast->a, &slow->a, fast->arrived[0]);
    check_counters(&fast->b, &slow->b, fast->arrived[1]);
    check_same(&fast->a, &slow->a);
    check_same(&fast->b, &slow->b);
}

static void one_way(struct chain pair[2], bool answers, const struct nature *n, struct random *r,
                    ns_t now)
{
    struct random same = {random_next(r)};

    for (unsigned i = 0; i < 2; i++)
        send_from(&pair[i], answers ? &pair[i].b : &pair[i].a, n, now);
    check_frames(&pair[0], &pair[1]);
    for (unsigned i = 0; i < 2; i++)
        receive(&pair[i], answers ? &pair[i].a : &pair[i].b, n, same, now);
    check_pairs(&pair[0], &pair[1]);
}

/* ---- the comparison ---- */

static void work(struct chain pair[2], struct random *r, ns_t now)
{
    uint64_t app = random_next(r);

    for (unsigned i = 0; i < 2; i++)
        disturb_hosts(&pair[i], (struct random){app});
    for (uint32_t k = random_below(r, 40); k > 0 && pair[0].a.prod - pair[0].a.read < PENDING;
         k--) {
        struct wish w = wish(r);

        for (unsigned i = 0; i < 2; i++)
            post(&pair[i], &w);
    }
    for (unsigned i = 0; i < 2; i++) {
        engine_timers(pair[i].a.e, now);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, now);
    }
}

static uint64_t trial(uint64_t seed)
{
    static struct chain pair[2];
    struct random r = {seed};
    struct nature n = nature_of(seed, &r);
    uint64_t packets;
    ns_t now = 1;

    batch_form = seed / 16 % 2 ? HDR_IPV4 : (enum hdr_form)(seed / 32 % HDR_FORMS);
    batch_counts = (enum batch_counts)(seed / 2 % 3);
    for (unsigned i = 0; i < 2; i++)
        chain_init(&pair[i], i, &n);
    for (unsigned burst = 0; burst < BURSTS && works(&pair[0].a); burst++) {
        now += random_below(&r, 4) ? 100000 : 6000000;
        work(pair, &r, now);
        for (uint32_t k = random_below(&r, 3) + 1; k > 0; k--) {
            one_way(pair, false, &n, &r, now);
            one_way(pair, true, &n, &r, now);
        }
    }
    packets = counter_get(&qp_counters(pair[0].a.qp)->rx_packets);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
    return packets;
}

static void test_same_as_the_general_way(void **state)
{
    uint64_t packets = 0;

    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        packets += trial(seed);
    batch_form = HDR_IPV4;
    batch_counts = BATCH_COUNTS_NOTHING;
    assert_true(packets > TRIALS * BURSTS); /* most trials transfer data */
}

/* ---- one burst each, in which something is forged ---- */

static const struct nature calm = {.psn = 1001,
                                   .calm = UINT32_MAX,
                                   .qp_access = ALL_RIGHTS,
                                   .local_access = ALL_RIGHTS,
                                   .remote_access = ALL_RIGHTS};

static void exchange(struct chain pair[2], bool answers, void (*forge)(struct chain *c))
{
    for (unsigned i = 0; i < 2; i++)
        send_from(&pair[i], answers ? &pair[i].b : &pair[i].a, &calm, 1);
    check_frames(&pair[0], &pair[1]);
    for (unsigned i = 0; i < 2; i++) {
        if (forge)
            forge(&pair[i]);
        receive(&pair[i], answers ? &pair[i].a : &pair[i].b, &calm, (struct random){1}, 1);
    }
    check_pairs(&pair[0], &pair[1]);
}

/* Each to another address. */
static void post_both(struct chain pair[2], enum sqe_op op, uint32_t len)
{
    struct wish w = {.op = (uint8_t)op,
                     .flags = SQE_SIGNALED,
                     .len = len,
                     .from = 100,
                     .to = 200 + 64 * pair[0].a.prod,
                     .wrong = 1000};

    for (unsigned i = 0; i < 2; i++) {
        post(&pair[i], &w);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
}

/* After one READ, so that both engines have learned their templates. */
static void begin(struct chain pair[2])
{
    for (unsigned i = 0; i < 2; i++)
        chain_init(&pair[i], i, &calm);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, NULL);
}

static void end(struct chain pair[2])
{
    exchange(pair, true, NULL);
    exchange(pair, false, NULL);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* Frame `to` becomes a copy of frame `from`, its PSN increased by psns. */
static void copy_frame(struct chain *c, unsigned to, unsigned from, uint32_t psns)
{
    struct frame *f = &c->frames[to];

    memmove(f->data, c->frames[from].data, c->frames[from].len);
    f->len = c->frames[from].len;
    put_be24(f->data + AT_BTH_PSN, get_be24(f->data + AT_BTH_PSN) + psns);
    icrc_seal(ICRC_IPV4, f->data + ETH_LEN, total_of(f) - ICRC_LEN);
    c->n = max_of(c->n, to + 1);
}

/* Responses show that the path works in both directions (sport.c). */
static void test_responses_end_a_stall(void **state)
{
    static struct chain pair[2];

    begin(pair);
    post_both(pair, SQE_READ, 8);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    for (unsigned i = 0; i < 2; i++)
        pair[i].a.qp->req.stalls = 1;
    exchange(pair, true, NULL);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pair[i].a.qp->req.stalls, 0);
    end(pair);
}

static void lose_first(struct chain *c)
{
    for (unsigned i = 0; i + 1 < c->n; i++)
        copy_frame(c, i, i + 1, 0);
    c->n--;
}

/* The first response is lost, and the second has the PSN that the other direction expects next. */
static void test_batch_begins_with_the_oldest(void **state)
{
    static struct chain pair[2];

    begin(pair);
    for (unsigned i = 0; i < 3; i++)
        post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    for (unsigned i = 0; i < 2; i++)
        pair[i].a.qp->resp.epsn = psn_add(pair[i].a.qp->req.una, 1);
    exchange(pair, true, lose_first);
    assert_int_equal(counter_get(&qp_counters(pair[0].a.qp)->implied_nak_seq_err), 1);
    end(pair);
}

static void one_more(struct chain *c)
{
    copy_frame(c, c->n, c->n - 1, 1);
}

static void test_one_read_too_many(void **state)
{
    static struct chain pair[2];

    begin(pair);
    for (unsigned k = 0; k < 2; k++) { /* four are agreed */
        post_both(pair, SQE_READ, 8);
        post_both(pair, SQE_READ, 8);
        exchange(pair, false, k ? one_more : NULL);
    }
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_invalid_request), 1);
    end(pair);
}

/* The first READ again, and behind it the request that came. */
static void first_again(struct chain *c)
{
    copy_frame(c, 1, 0, 0);
    copy_frame(c, 0, 0, -4u);
}

/* The fifth READ has the resource of the first one, whose reply was to be repeated. */
static void test_repeated_read_is_replaced(void **state)
{
    static struct chain pair[2];

    begin(pair);
    for (unsigned k = 0; k < 3; k++)
        post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, NULL);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, first_again);
    exchange(pair, true, NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(counter_get(&qp_counters(pair[i].b.qp)->duplicate_request), 1);
        assert_int_equal(pair[i].b.qp->resp.res_pending, 0);
    }
    end(pair);
}

static void into_the_first(struct chain *c)
{
    copy_frame(c, 1, 1, -2u);
}

static void test_read_inside_of_another(void **state)
{
    static struct chain pair[2];

    begin(pair);
    post_both(pair, SQE_READ, 3072);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, into_the_first);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->duplicate_request), 1);
    end(pair);
}

static void wrong_and_right(struct chain *c)
{
    copy_frame(c, 1, 0, 0);
    c->frames[0].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_READ_RESP_FIRST);
    copy_frame(c, 0, 0, 0);
}

static void test_failed_read_stays_failed(void **state)
{
    static struct chain pair[2];

    begin(pair);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, wrong_and_right);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    for (unsigned i = 264; i < 264 + 8; i++) /* its bytes are not written */
        assert_int_equal(pair[0].a.memory[i], (uint8_t)(i * 7));
    end(pair);
}

/* The second frame acknowledges the WRITE. */
static void response_again(struct chain *c)
{
    assert_int_equal(c->n, 2);
    copy_frame(c, 1, 0, 1);
}

static void test_response_to_a_write(void **state)
{
    static struct chain pair[2];

    begin(pair);
    post_both(pair, SQE_READ, 8);
    post_both(pair, SQE_WRITE, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, response_again);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    end(pair);
}

/* Regions longer than the longest message. */
static void begin_large(struct chain pair[2])
{
    begin(pair);
    for (unsigned i = 0; i < 2; i++)
        pair[i].a.other.len = pair[i].b.other.len = UINT64_C(2) * MESSAGE_MAX;
}

static void test_read_too_long(void **state)
{
    static struct chain pair[2];
    struct wish w = {.op = SQE_READ, .len = MESSAGE_MAX + 1, .wrong = 1000, .other_to = true};

    begin_large(pair);
    for (unsigned i = 0; i < 2; i++) {
        post(&pair[i], &w);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
    exchange(pair, false, NULL);
    assert_int_equal(qp_current_state(pair[0].a.qp), QPS_ERR);
    end(pair);
}

/* In its RETH. */
static void ask_for_more(struct chain *c)
{
    put_be32(c->frames[0].data + AT_RETH_RKEY, c->b.other.key);
    put_be32(c->frames[0].data + AT_RETH_LENGTH, MESSAGE_MAX + 1);
    copy_frame(c, 0, 0, 0);
}

static void test_request_too_long(void **state)
{
    static struct chain pair[2];

    begin_large(pair);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, ask_for_more);
    assert_int_equal(counter_get(&qp_counters(pair[0].b.qp)->remote_invalid_request), 1);
    end(pair);
}

/* The count has 32 bits and outlives more READs than that. */
static void test_count_of_resources_stays_small(void **state)
{
    static struct chain pair[2];

    begin(pair);
    for (unsigned k = 0; k < 30; k++) {
        const struct responder *resp = &pair[k % 2].b.qp->resp;

        for (unsigned n = 0; n <= k % 3; n++)
            post_both(pair, SQE_READ, 8);
        exchange(pair, false, NULL);
        exchange(pair, true, NULL);
        assert_true(resp->res_head < 2 * resp->res_max);
        assert_int_equal(qp_current_state(pair[0].a.qp), QPS_RTS);
        for (unsigned i = 0; i < 2; i++)
            drain(&pair[i].a);
    }
    assert_int_equal(pair[0].b.qp->resp.msn, 61);
    end(pair);
}

/* ---- the requester's window and timer ---- */

/* A READ takes as many PSNs as it has responses, here more than may be in flight. */
static void test_read_beyond_the_window(void **state)
{
    static struct chain pair[2];
    struct nature narrow = calm;

    narrow.inflight = 12;
    for (unsigned i = 0; i < 2; i++)
        chain_init(&pair[i], i, &narrow);
    post_both(pair, SQE_READ, 20000);
    post_both(pair, SQE_WRITE, 8);
    for (unsigned i = 0; i < 2; i++) {
        send_from(&pair[i], &pair[i].a, &narrow, 1);
        assert_int_equal(pair[i].n, 1);
        chain_fini(&pair[i]);
    }
}

static void ask_for_acknowledge(struct chain *c)
{
    struct frame *f = &c->frames[c->n - 1];

    f->data[AT_BTH_ACK_REQ] |= 0x80;
    icrc_seal(ICRC_IPV4, f->data + AT_IP, total_of(f) - ICRC_LEN);
}

/* All that was sent is acknowledged, and the timer stops: it starts again with the packets that
 * follow, though they ask for nothing. */
static void test_timer_in_the_middle_of_a_message(void **state)
{
    static struct chain pair[2];
    struct chain *c = &pair[0];

    begin(pair);
    post_both(pair, SQE_WRITE, 20000);
    make_frames(c->frames, c->bytes);
    c->n = engine_tx(c->a.e, c->frames, 2, 1);
    ask_for_acknowledge(c);
    receive(c, &c->b, &calm, (struct random){1}, 1);
    assert_true(c->a.qp->timer.deadline != NS_NEVER);
    send_from(c, &c->b, &calm, 1);
    receive(c, &c->a, &calm, (struct random){1}, 1);
    assert_true(c->a.qp->timer.deadline == NS_NEVER);
    c->n = engine_tx(c->a.e, c->frames, 3, 1);
    assert_int_equal(c->n, 3);
    assert_true(c->a.qp->timer.deadline != NS_NEVER);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* ---- requests and responses of one queue pair ---- */

/* The opcodes of up to n frames that s sends, in a string: R a response, S a SEND. */
static void sent(char *text, struct side *s, unsigned n)
{
    static uint8_t bytes[FRAME_BURST][ROOM];
    struct frame f[FRAME_BURST];

    make_frames(f, bytes);
    n = engine_tx(s->e, f, n, 1);
    for (unsigned i = 0; i < n; i++)
        text[i] = opcode_table[f[i].data[AT_BTH_OPCODE]].flags & PF_RESPONSE ? 'R' : 'S';
    text[n] = 0;
}

static void post_sends(struct side *s, unsigned n)
{
    for (; n > 0; n--) {
        struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, 0), s->prod++);

        *e = (struct sqe){.opcode = SQE_SEND, .num_sge = 1};
        *(struct sge *)(e + 1) = (struct sge){.addr = IOVA, .length = 8, .lkey = s->mr.key};
    }
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(s->e, s->qp, 1);
}

static void test_short_ones_take_turns(void **state)
{
    static struct chain pair[2];
    struct side *b = &pair[0].b;
    char text[FRAME_BURST + 1];

    begin(pair);
    post_sends(b, 40); /* so that there are enough slots */
    sent(text, b, FRAME_BURST);
    sent(text, b, FRAME_BURST);
    assert_string_equal(text, "SSSSSSSS");
    for (unsigned i = 0; i < 4; i++)
        post_both(pair, SQE_READ, 8);
    send_from(&pair[0], &pair[0].a, &calm, 1);
    receive(&pair[0], b, &calm, (struct random){1}, 1);
    post_sends(b, 12);
    sent(text, b, 3);
    assert_string_equal(text, "RRR");
    sent(text, b, FRAME_BURST);
    assert_string_equal(text, "SSSSSSSSRSSSS");
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* Each response of a READ takes a turn, and so does each request, whatever its length. */
static void test_long_ones_take_turns(void **state)
{
    static struct chain pair[2];
    struct side *b = &pair[0].b;
    char text[FRAME_BURST + 1];

    begin(pair);
    post_sends(b, 40);
    sent(text, b, FRAME_BURST);
    sent(text, b, FRAME_BURST);
    post_both(pair, SQE_READ, 3072);
    send_from(&pair[0], &pair[0].a, &calm, 1);
    receive(&pair[0], b, &calm, (struct random){1}, 1);
    post_sends(b, 12);
    sent(text, b, 8);
    assert_string_equal(text, "RSRSRSSS");
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_general_way),
        cmocka_unit_test(test_responses_end_a_stall),
        cmocka_unit_test(test_batch_begins_with_the_oldest),
        cmocka_unit_test(test_one_read_too_many),
        cmocka_unit_test(test_repeated_read_is_replaced),
        cmocka_unit_test(test_read_inside_of_another),
        cmocka_unit_test(test_failed_read_stays_failed),
        cmocka_unit_test(test_response_to_a_write),
        cmocka_unit_test(test_read_too_long),
        cmocka_unit_test(test_request_too_long),
        cmocka_unit_test(test_count_of_resources_stays_small),
        cmocka_unit_test(test_read_beyond_the_window),
        cmocka_unit_test(test_timer_in_the_middle_of_a_message),
        cmocka_unit_test(test_short_ones_take_turns),
        cmocka_unit_test(test_long_ones_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
