/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair_kit.h"

#define PENDING 30
#define STALE   128

#define NO_LOCAL_WRITE (ALL_RIGHTS & ~MEM_LOCAL_WRITE)

static struct nature nature_of(uint64_t seed, const struct ops *ops, struct random *r)
{
    struct nature n = {.psn = (uint32_t)random_next(r) & PSN_MASK,
                       .calm = seed % 4 ? 400 : 60,
                       .qp_access = seed % 16 == 1 ? ops->refused : ALL_RIGHTS,
                       .local_access = seed % 16 == 2 ? NO_LOCAL_WRITE : ALL_RIGHTS,
                       .remote_access = seed % 16 == 3 ? ops->refused : ALL_RIGHTS,
                       .inflight = seed % 2 ? 0 : 12,
                       .marked = seed % 3 * 40,
                       .icrc_omitted = seed % 8 == 4};

    if (seed % 3 == 0)
        n.psn = PSN_MASK - 20; /* wraps around */
    if (seed % 8 == 5)
        n.calm = 1 << 20;
    return n;
}

void chain_init(struct chain *c, bool general, const struct nature *n)
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
    memset(c->b.memory, 0, 8 * ATOMIC_WORDS);
    connect_to(&c->a, &c->b, ALL_RIGHTS, n->psn);
    connect_to(&c->b, &c->a, n->qp_access, n->psn);
    c->a.qp->req.sq.in_batches = !general;
}

void chain_fini(struct chain *c)
{
    side_fini(&c->a);
    side_fini(&c->b);
}

/* ---- the applications ---- */

/* Mostly of the words that begin as 0, so that others have changed them, and comparisons hold. */
static void wish_atomic(struct wish *w, struct random *r)
{
    w->from = random_below(r, 4) ? 8 * random_below(r, ATOMIC_WORDS) : w->from & ~7u;
    w->compare_add = random_below(r, 3);
    w->swap = random_below(r, 3);
    if (random_below(r, 16) == 0)
        w->compare_add = w->swap = random_next(r);
    if (random_below(r, 16) == 0) /* as SENDs and WRITEs behind them */
        w->flags |= SQE_FENCE;
}

/* The words are aligned, and mostly the ones of the atomics. */
static void wish_atomic_write(struct wish *w, struct random *r)
{
    w->from = random_below(r, 4) ? 8 * random_below(r, ATOMIC_WORDS) : w->from & ~7u;
    w->is_inline = random_below(r, 2);
}

static void wish_flush(struct wish *w, struct random *r)
{
    w->placement = random_below(r, 60) ? FETH_GLOBAL : (uint8_t)random_below(r, 16);
    w->selectivity = random_below(r, 60) ? (uint8_t)random_below(r, 2) : 2;
    if (random_below(r, 16) == 0) /* a region may be flushed by its key alone */
        w->from += w->selectivity == FETH_REGION ? MEMORY : 0;
}

static bool has_eight_bytes(uint8_t op)
{
    return op_is_atomic(op) || op == SQE_ATOMIC_WRITE;
}

static bool takes_recv(uint8_t op)
{
    return op == SQE_SEND || op == SQE_SEND_IMM || op == SQE_WRITE_IMM;
}

static struct wish wish(const struct ops *ops, struct random *r)
{
    static const uint32_t lens[] = {0,  1,    7,    8,    8,    8,    9,    16,    511,
                                    64, 1024, 1024, 1025, 2048, 3072, 4095, 10000, 20000};
    static uint8_t op = SQE_READ;
    static uint32_t len = 8;
    static bool in_two, in_header;
    struct wish w = {.flags = SQE_SIGNALED};

    if (random_below(r, 24) == 0)
        op = ops->op[random_below(r, ops->n)];
    if (random_below(r, 24) == 0)
        len = lens[random_below(r, ARRAY_SIZE(lens))];
    if (random_below(r, 24) == 0)
        in_two = random_below(r, 4) == 0;
    if (random_below(r, 24) == 0)
        in_header = !in_header;
    w.in_header = in_header;
    w.op = op;
    w.len = has_eight_bytes(op) ? 8 : len;
    w.from = random_below(r, MEMORY - w.len);
    w.to = random_below(r, MEMORY - w.len);
    if (op_is_atomic(op))
        wish_atomic(&w, r);
    if (op == SQE_ATOMIC_WRITE)
        wish_atomic_write(&w, r);
    if (op == SQE_FLUSH)
        wish_flush(&w, r);
    if (random_below(r, 40) == 0)
        w.flags |= SQE_FENCE;
    if (random_below(r, 40) == 0)
        w.flags |= SQE_SOLICITED;
    if (random_below(r, 20) == 0)
        w.flags &= (uint8_t)~SQE_SIGNALED;
    w.wrong = (int)random_below(r, 1500);
    w.in_two = in_two || random_below(r, 40) == 0;
    w.cut = random_below(r, 8) ? w.len / 2 : random_below(r, w.len + 1);
    w.other_from = random_below(r, 12) == 0;
    w.other_to = random_below(r, 12) == 0;
    return w;
}

static void post_flush(struct sqe *e, const struct wish *w)
{
    e->num_sge = 0;
    e->flush.length = w->len;
    e->flush.placement = w->placement;
    e->flush.selectivity = w->selectivity;
    if (w->wrong == 10)
        e->flush.length = UINT64_C(1) << 32;
    if (w->wrong == 11)
        e->num_sge = 1;
}

/* The value is one that its address says. */
static void post_inline(struct sqe *e, const struct wish *w)
{
    e->flags |= SQE_INLINE;
    e->inline_len = w->wrong == 10 ? 7 : 8;
    e->num_sge = w->wrong == 11;
    memset(e + 1, 0, MAX_INLINE);
    memcpy(e + 1, &w->to, sizeof(w->to));
}

/* The SRQ whose domain has the key, or that has WQEs. */
static uint32_t srq_named(const struct side *b, const struct wish *w)
{
    bool other = w->other_from && !takes_recv(w->op);

    if (w->wrong == 12)
        other = !other;
    return srq_number(other ? b->other_srq : b->srq) ^ (w->wrong == 13);
}

void post(struct chain *c, const struct wish *w)
{
    struct side *s = &c->a;
    struct sqe *e = work_queue_slot(s->sq, SLOTS, sqe_stride(2, MAX_INLINE), s->prod++);
    struct sge *sge = (struct sge *)(e + 1);

    memset(e, 0, sqe_stride(2, MAX_INLINE));
    *e = (struct sqe){.wr_id = s->prod,
                      .opcode = w->op,
                      .flags = w->flags,
                      .num_sge = 1,
                      .remote_addr = IOVA + w->from,
                      .rkey = w->other_from ? c->b.other.key : c->b.mr.key};
    sge[0] = (struct sge){
        .addr = IOVA + w->to, .length = w->len, .lkey = w->other_to ? s->other.key : s->mr.key};
    if (w->in_two) {
        e->num_sge = 2;
        sge[1] = (struct sge){IOVA + w->to / 2, w->len - w->cut, s->mr.key};
        sge[0].length = w->cut;
    }
    if (op_is_atomic(w->op)) {
        e->atomic.compare_add = w->compare_add;
        e->atomic.swap = w->swap;
    }
    if (w->op == SQE_FLUSH)
        post_flush(e, w);
    if (w->op == SQE_ATOMIC_WRITE && w->is_inline)
        post_inline(e, w);
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
    else if (w->wrong == 6)
        e->remote_addr += 4;
    else if (w->wrong == 7)
        sge[0].length++;
    else if (w->wrong == 8)
        sge[1].lkey ^= 0x100;
    else if (w->wrong == 9)
        sge[1].addr = IOVA + MEMORY - sge[1].length + 1;
    if (w->in_header && e->num_sge == 1 && sqe_has_free_words(w->op) && batch_type != QPT_UD) {
        e->flags |= SQE_SGE_IN_HEADER;
        e->sge = sge[0];
        memset(sge, 0xEE, sizeof(*sge));
    }
    if (batch_type == QPT_XRC_SEND)
        e->remote_srqn = srq_named(&c->b, w);
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

void check_frames(const struct chain *fast, const struct chain *slow)
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

/* Each frame by the general path: what is urgent would go before what else is owed. */
static unsigned send_single(struct chain *c, struct side *from, ns_t now)
{
    unsigned n = 0;

    do
        from->qp->resp.urgent = true;
    while (n < FRAME_BURST && engine_tx(from->e, &c->frames[n], 1, now) && ++n);
    from->qp->resp.urgent = false;
    return n;
}

void send_from(struct chain *c, struct side *from, const struct nature *n, ns_t now)
{
    make_frames(c->frames, c->bytes);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        memset(c->bytes[i], 0xA5, STALE); /* no header of an earlier packet */
        c->frames[i].icrc_omitted = n->icrc_omitted;
    }
    c->n = c->general && from == &c->b ? send_single(c, from, now)
                                       : engine_tx(from->e, c->frames, FRAME_BURST, now);
    answers_first(c);
}

void receive(struct chain *c, struct side *to, const struct nature *n, struct random r, ns_t now)
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

void check_pairs(const struct chain *fast, const struct chain *slow)
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

static void work(struct chain pair[2], const struct ops *ops, struct random *r, ns_t now)
{
    uint64_t app = random_next(r);

    for (unsigned i = 0; i < 2; i++)
        disturb_hosts(&pair[i], (struct random){app});
    for (uint32_t k = random_below(r, 40); k > 0 && pair[0].a.prod - pair[0].a.read < PENDING;
         k--) {
        struct wish w = wish(ops, r);

        for (unsigned i = 0; i < 2; i++)
            post(&pair[i], &w);
    }
    for (unsigned i = 0; i < 2; i++) {
        engine_timers(pair[i].a.e, now);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, now);
    }
}

uint64_t pair_trial(uint64_t seed, const struct ops *ops)
{
    static struct chain pair[2];
    struct random r = {seed};
    struct nature n = nature_of(seed, ops, &r);
    uint64_t packets;
    ns_t now = 1;

    batch_form = seed / 16 % 2 ? HDR_IPV4 : (enum hdr_form)(seed / 32 % HDR_FORMS);
    batch_counts = (enum batch_counts)(seed / 2 % 3);
    for (unsigned i = 0; i < 2; i++)
        chain_init(&pair[i], i, &n);
    for (unsigned burst = 0; burst < PAIR_BURSTS && works(&pair[0].a); burst++) {
        now += random_below(&r, 4) ? ops->step : 6 * NS_PER_MS;
        work(pair, ops, &r, now);
        for (uint32_t k = random_below(&r, 3) + 1; k > 0; k--) {
            one_way(pair, false, &n, &r, now);
            one_way(pair, true, &n, &r, now);
        }
    }
    packets = counter_get(&qp_counters(pair[0].a.qp)->rx_packets);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
    batch_counts = BATCH_COUNTS_NOTHING;
    return packets;
}

/* ---- one burst each, in which something is forged ---- */

const struct nature calm = {.psn = 1001,
                            .calm = UINT32_MAX,
                            .qp_access = ALL_RIGHTS,
                            .local_access = ALL_RIGHTS,
                            .remote_access = ALL_RIGHTS};

void exchange(struct chain pair[2], bool answers, void (*forge)(struct chain *c))
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
void post_both(struct chain pair[2], enum sqe_op op, uint32_t len)
{
    struct wish w = {.op = (uint8_t)op,
                     .flags = SQE_SIGNALED,
                     .len = len,
                     .from = has_eight_bytes((uint8_t)op) ? 104 : 100,
                     .placement = FETH_GLOBAL,
                     .compare_add = 1,
                     .to = 200 + 64 * pair[0].a.prod,
                     .wrong = 1000};

    for (unsigned i = 0; i < 2; i++) {
        post(&pair[i], &w);
        engine_doorbell(pair[i].a.e, pair[i].a.qp, 1);
    }
}

/* After one READ, so that both engines have learned their templates. */
void pair_begin(struct chain pair[2])
{
    for (unsigned i = 0; i < 2; i++)
        chain_init(&pair[i], i, &calm);
    post_both(pair, SQE_READ, 8);
    exchange(pair, false, NULL);
    exchange(pair, true, NULL);
}

void pair_end(struct chain pair[2])
{
    exchange(pair, true, NULL);
    exchange(pair, false, NULL);
    for (unsigned i = 0; i < 2; i++)
        chain_fini(&pair[i]);
}

/* Frame `to` becomes a copy of frame `from`, its PSN increased by psns. */
void copy_frame(struct chain *c, unsigned to, unsigned from, uint32_t psns)
{
    struct frame *f = &c->frames[to];

    memmove(f->data, c->frames[from].data, c->frames[from].len);
    f->len = c->frames[from].len;
    put_be24(f->data + AT_BTH_PSN, get_be24(f->data + AT_BTH_PSN) + psns);
    icrc_seal(ICRC_IPV4, f->data + ETH_LEN, total_of(f) - ICRC_LEN);
    c->n = max_of(c->n, to + 1);
}
