/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "unit.h"

#include "bytes.h"
#include "frame_layout.h"
#include "mr_table.h"
#include "raw_kit.h"

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE));

    assert_non_null(p);
    return memset(p, 0, round_up(bytes, CACHE_LINE));
}

/* ---- memory ---- */

static void copy(void *space, struct mem_io *io, unsigned n, bool out)
{
    struct raw_kit *k = space;

    for (unsigned i = 0; i < n; i++) {
        uint64_t slot = (io[i].addr - (uintptr_t)k->arena) / RAW_SLOT;
        void *at = (void *)(uintptr_t)io[i].addr;

        io[i].status = slot >= k->fail_from && slot < k->fail_to ? -14 : 0;
        if (!io[i].status)
            memcpy(out ? at : io[i].local, out ? io[i].local : at, io[i].len);
    }
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    copy(space, io, n, false);
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    copy(space, io, n, true);
}

static const struct mem_backend backend = {
    .name = "raw-kit", .copy_in = copy_in, .copy_out = copy_out};

/* ---- the host ---- */

static void on_cq_event(void *ctx, struct comp_queue *cq)
{
    (void)ctx, (void)cq;
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    struct raw_kit *k = ((struct raw_node *)ctx)->kit;

    (void)qp, (void)cq;
    k->cq_errors += event == QP_EVENT_CQ_ERR;
    k->fatal += event == QP_EVENT_QP_FATAL;
    k->last_wqe += event == QP_EVENT_LAST_WQE_REACHED;
}

static void on_srq(void *ctx, struct srq *srq, enum qp_event event)
{
    (void)srq;
    ((struct raw_node *)ctx)->kit->srq_limit += event == QP_EVENT_SRQ_LIMIT_REACHED;
}

static void on_wq(void *ctx, struct wq *wq, enum qp_event event)
{
    assert_non_null(wq_owner(wq));
    ((struct raw_node *)ctx)->kit->wq_fatal += event == QP_EVENT_WQ_FATAL;
}

static void on_wq_charge(void *ctx, struct wq *wq, uint64_t cost)
{
    assert_non_null(wq_owner(wq));
    ((struct raw_node *)ctx)->kit->wq_cost += cost;
}

static bool on_punt(void *ctx, const struct frame *f)
{
    struct raw_node *n = ctx;

    assert_true(f->len >= 14);
    n->others += n->kit->host_takes;
    return n->kit->host_takes;
}

static bool hand(void *ctx, const struct frame *f, struct engine *to, bool copy)
{
    struct raw_node *from = ctx;
    struct raw_kit *k = from->kit;
    struct raw_node *n = to == k->node[0].engine ? &k->node[0] : &k->node[1];

    assert_ptr_equal(n->engine, to);
    assert_ptr_not_equal(n, from);
    k->forwards++;
    if (n->refuse)
        return false;
    assert_true(n->waiting < RAW_HANDED);
    n->forwarded_copy[n->waiting] = copy;
    n->handed_from[n->waiting] = (uint32_t)(from - k->node);
    n->handed[n->waiting] = (struct frame){.data = malloc(f->len), .len = f->len};
    memcpy(n->handed[n->waiting++].data, f->data, f->len);
    return true;
}

static bool on_forward(void *ctx, const struct frame *f, struct engine *to)
{
    return hand(ctx, f, to, false);
}

static bool on_forward_copy(void *ctx, const struct frame *f, struct engine *to)
{
    return hand(ctx, f, to, true);
}

struct raw_kit *raw_kit_create(bool mapped)
{
    static const uint64_t secret[2] = {3, 4};
    struct raw_kit *k = zeroed(sizeof(*k));
    const struct gid_entry gid = {.gid = gid_from_ipv4((const uint8_t[]){10, 0, 0, 1}),
                                  .type = GID_TYPE_ROCE_V2,
                                  .valid = true,
                                  .vlan = VLAN_NONE};

    k->qps = qp_table_create(NULL);
    k->wqs = wq_table_create(NULL);
    k->srqs = srq_table_create(NULL);
    assert_int_equal(mr_table_init(&k->mrs, 16, secret), 0);
    assert_true(gid_table_add(&k->gids, &gid) >= 0);
    k->port.gids = &k->gids;
    memcpy(k->port.mac, (const uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
    k->arena = zeroed(RAW_SLOTS * RAW_SLOT);
    k->region = (struct mem_region){.pd = RAW_PD,
                                    .bound = true,
                                    .access = MEM_LOCAL_WRITE,
                                    .iova = (uintptr_t)k->arena,
                                    .addr = (uintptr_t)k->arena,
                                    .len = RAW_SLOTS * RAW_SLOT,
                                    .direct = mapped ? k->arena : NULL,
                                    .backend = &backend,
                                    .space = k};
    k->foreign = k->region;
    k->foreign.pd = RAW_PD + 1;
    assert_int_equal(mr_insert(&k->mrs, &k->region, 1), 0);
    assert_int_equal(mr_insert(&k->mrs, &k->foreign, 2), 0);
    for (unsigned i = 0; i < RAW_ENGINES; i++) {
        struct raw_node *n = &k->node[i];
        struct engine_config c = {.port = &k->port,
                                  .mrs = &k->mrs,
                                  .qps = k->qps,
                                  .srqs = k->srqs,
                                  .flows = &k->slot,
                                  .lane = i,
                                  .host = {.ctx = n,
                                           .cq_event = on_cq_event,
                                           .async_event = on_async,
                                           .srq_event = on_srq,
                                           .wq_event = on_wq,
                                           .wq_charge = on_wq_charge,
                                           .punt = on_punt,
                                           .forward = on_forward,
                                           .forward_copy = on_forward_copy}};

        n->kit = k;
        n->engine = engine_create(&c);
        assert_non_null(n->engine);
    }
    return k;
}

void raw_kit_destroy(struct raw_kit *k)
{
    raw_rules(k, NULL, 0);
    for (unsigned i = 0; i < RAW_ENGINES; i++) {
        for (unsigned f = 0; f < k->node[i].waiting; f++)
            free(k->node[i].handed[f].data);
        engine_destroy(k->node[i].engine);
    }
    mr_table_fini(&k->mrs);
    qp_table_destroy(k->qps);
    wq_table_destroy(k->wqs);
    srq_table_destroy(k->srqs);
    free(k->arena);
    free(k);
}

void raw_rules(struct raw_kit *k, const struct flow_rule *rule, unsigned rules)
{
    struct flow_kit before = k->flows;

    assert_true(rules <= FLOW_KIT_RULES);
    k->flows = flow_kit_init(rule, rules);
    assert_true(k->flows.table || !rules);
    atomic_store(&k->slot.table, k->flows.table);
    flow_kit_fini(&before);
}

/* ---- queues ---- */

struct raw_cq *raw_cq_create(uint32_t size)
{
    struct raw_cq *cq = zeroed(sizeof(*cq));
    struct cq_shared *shared = zeroed(cq_segment_bytes(size, RAW_ENGINES));

    comp_queue_init(&cq->cq, shared, size, RAW_ENGINES);
    cq->reader = (struct cq_reader){.shared = shared, .size = size, .lanes = RAW_ENGINES};
    return cq;
}

void raw_cq_destroy(struct raw_cq *cq)
{
    free(cq->cq.shared);
    free(cq);
}

bool raw_poll(struct raw_cq *cq, struct cqe *out)
{
    const struct cqe *e = cq_reader_peek(&cq->reader);

    if (!e)
        return false;
    memcpy(out, e, sizeof(*out));
    cq_reader_advance(&cq->reader);
    return true;
}

static struct raw_queue *queue_create(struct raw_kit *k, unsigned at, struct raw_cq *cq)
{
    struct raw_queue *q = zeroed(sizeof(*q));

    q->kit = k;
    q->at = at;
    q->cq = cq;
    q->shared = zeroed(sizeof(*q->shared));
    q->srq_shared = zeroed(sizeof(*q->srq_shared));
    q->rq = zeroed(RAW_QUEUE * rqe_stride(RAW_SGE));
    q->sq = zeroed(RAW_QUEUE * sqe_stride(RAW_SGE, 64));
    return q;
}

static struct work_queue recv_end(struct raw_queue *q, _Atomic uint32_t *prod)
{
    return (struct work_queue){.ring = q->rq,
                               .prod = prod,
                               .size = RAW_QUEUE,
                               .stride = rqe_stride(RAW_SGE),
                               .max_sge = RAW_SGE};
}

struct raw_queue *raw_srq_create(struct raw_kit *k)
{
    struct raw_queue *q = queue_create(k, 0, NULL);
    struct srq_init init = {.wq = recv_end(q, &q->srq_shared->prod),
                            .taken = &q->srq_shared->taken,
                            .pd = RAW_PD,
                            .owner = q};
    int err;

    q->srq = srq_create(k->srqs, &init, &err);
    assert_non_null(q->srq);
    return q;
}

struct raw_queue *raw_wq_create(struct raw_kit *k, unsigned at, struct raw_cq *cq,
                                struct raw_queue *srq)
{
    struct raw_queue *q = queue_create(k, at, cq);
    struct wq_init init = {.pd = RAW_PD, .uidx = 0x1000, .cq = &cq->cq, .owner = q};
    int err;

    if (srq) {
        init.srq = srq->srq;
    } else {
        init.rq = recv_end(q, &q->shared->rq_prod);
        init.rq_prod = &q->shared->rq_prod;
    }
    q->wq = wq_create(k->wqs, &init, &err);
    assert_non_null(q->wq);
    engine_wq_attach(k->node[at].engine, q->wq);
    return q;
}

static void to_rts(struct raw_queue *q)
{
    struct qp_attr a = {.state = QPS_INIT, .port_num = 1};
    struct engine *e = q->kit->node[q->at].engine;

    assert_int_equal(engine_qp_modify(e, q->qp, &a, QPA_STATE | QPA_PORT, NULL, 5, 0), 0);
    a.state = QPS_RTR;
    assert_int_equal(engine_qp_modify(e, q->qp, &a, QPA_STATE, NULL, 5, 0), 0);
    a.state = QPS_RTS;
    assert_int_equal(engine_qp_modify(e, q->qp, &a, QPA_STATE, NULL, 5, 0), 0);
}

struct raw_queue *raw_qp_create(struct raw_kit *k, unsigned at, struct raw_cq *cq,
                                struct raw_queue *srq)
{
    struct raw_queue *q = queue_create(k, at, cq);
    struct qp_init init = {.type = QPT_RAW_PACKET,
                           .pd = RAW_PD,
                           .srq = srq ? srq->srq : NULL,
                           .uidx = 0x2000,
                           .send_cq = &cq->cq,
                           .recv_cq = &cq->cq,
                           .shared = q->shared,
                           .sq = {.ring = q->sq,
                                  .prod = &q->shared->sq_prod,
                                  .size = RAW_QUEUE,
                                  .stride = sqe_stride(RAW_SGE, 64),
                                  .max_sge = RAW_SGE,
                                  .max_inline = 64},
                           .rq = recv_end(q, &q->shared->rq_prod),
                           .owner = q};
    int err;

    q->qp = qp_create(k->qps, &init, &err);
    assert_non_null(q->qp);
    engine_qp_attach(k->node[at].engine, q->qp);
    to_rts(q);
    return q;
}

struct raw_queue *raw_rss_create(struct raw_kit *k, const struct rx_hash *hash, struct rwq_ind *ind)
{
    struct raw_queue *q = queue_create(k, 0, NULL);
    struct qp_init init = {
        .type = QPT_RAW_PACKET, .pd = RAW_PD, .rx_hash = hash, .ind = ind, .owner = q};
    int err;

    q->qp = qp_create(k->qps, &init, &err);
    assert_non_null(q->qp);
    engine_qp_attach(k->node[0].engine, q->qp);
    return q;
}

void raw_queue_destroy(struct raw_queue *q)
{
    struct engine *e = q->kit->node[q->at].engine;

    if (q->qp) {
        engine_qp_detach(e, q->qp);
        qp_free(q->qp);
    }
    if (q->wq) {
        engine_wq_detach(e, q->wq);
        wq_free(q->wq);
    }
    if (q->srq)
        srq_free(q->srq);
    free(q->shared);
    free(q->srq_shared);
    free(q->rq);
    free(q->sq);
    free(q);
}

struct sge raw_sge(const struct raw_kit *k, unsigned slot, uint32_t off, uint32_t len)
{
    return (struct sge){.addr = k->region.iova + (uint64_t)slot * RAW_SLOT + off,
                        .length = len,
                        .lkey = k->region.key};
}

static _Atomic uint32_t *recv_prod(const struct raw_queue *q)
{
    return q->srq ? &q->srq_shared->prod : &q->shared->rq_prod;
}

uint32_t raw_posted(const struct raw_queue *q)
{
    return atomic_load(recv_prod(q));
}

void raw_post_sges(struct raw_queue *q, uint64_t wr_id, const struct sge *sge, uint32_t num_sge)
{
    _Atomic uint32_t *prod = recv_prod(q);
    struct rqe *e = work_queue_slot(q->rq, RAW_QUEUE, rqe_stride(RAW_SGE), atomic_load(prod));

    *e = (struct rqe){.wr_id = wr_id, .num_sge = num_sge};
    if (num_sge)
        memcpy(e + 1, sge, min_of(num_sge, (uint32_t)RAW_SGE) * sizeof(*sge));
    atomic_fetch_add(prod, 1);
}

void raw_post(struct raw_queue *q, unsigned slot)
{
    struct sge sge = raw_sge(q->kit, slot, 0, RAW_SLOT);

    raw_post_sges(q, slot, &sge, 1);
}

/* ---- traffic ---- */

void raw_arrive_only(struct raw_kit *k, unsigned at, const struct frame *frames, unsigned n)
{
    struct frame burst[FRAME_BURST];

    memcpy(burst, frames, n * sizeof(*frames));
    engine_rx(k->node[at].engine, burst, n, ++k->now);
}

static bool pass_one(struct raw_kit *k, struct raw_node *n)
{
    struct frame f = n->handed[0];
    uint32_t from = n->handed_from[0];
    bool copy = n->forwarded_copy[0];

    if (!n->waiting)
        return false;
    n->waiting--;
    memmove(n->handed, n->handed + 1, n->waiting * sizeof(n->handed[0]));
    memmove(n->handed_from, n->handed_from + 1, n->waiting * sizeof(n->handed_from[0]));
    memmove(n->forwarded_copy, n->forwarded_copy + 1, n->waiting * sizeof(n->forwarded_copy[0]));
    (copy ? engine_rx_copies : engine_rx_forwarded)(n->engine, &f, 1, from, ++k->now);
    free(f.data);
    return true;
}

void raw_pass_on(struct raw_kit *k)
{
    unsigned turns = 0;

    while (pass_one(k, &k->node[0]) || pass_one(k, &k->node[1]))
        assert_true(++turns < 10 * RAW_HANDED);
}

void raw_arrive(struct raw_kit *k, unsigned at, const struct frame *frames, unsigned n)
{
    raw_arrive_only(k, at, frames, n);
    raw_pass_on(k);
}

static uint64_t drops(const struct engine_counters *c)
{
    return counter_sum(c->drop, DROP_COUNT);
}

bool raw_adds_up(const struct raw_kit *k)
{
    for (unsigned i = 0; i < RAW_ENGINES; i++) {
        const struct engine_counters *c = engine_counters(k->node[i].engine);
        uint64_t in = counter_sum(c->rx_packets, QOS_PRIORITIES) +
                      counter_get(&c->rx_forwarded_in) + counter_get(&c->rx_copies);

        if (in != counter_get(&c->rx_delivered) + counter_get(&c->rx_punted) +
                      counter_get(&c->rx_forwarded_out) + drops(c))
            return false;
    }
    return true;
}

uint64_t raw_drops(const struct raw_kit *k, enum drop reason)
{
    return counter_get(&engine_counters(k->node[0].engine)->drop[reason]) +
           counter_get(&engine_counters(k->node[1].engine)->drop[reason]);
}

uint64_t raw_delivered(const struct raw_kit *k)
{
    return counter_get(&engine_counters(k->node[0].engine)->rx_delivered) +
           counter_get(&engine_counters(k->node[1].engine)->rx_delivered);
}

/* ---- frames ---- */

void raw_address(uint8_t out[16], const char *text)
{
    union gid g;

    assert_int_equal(gid_parse(&g, text), 0);
    memcpy(out, g.raw, 16);
}

static uint8_t *put_l4(uint8_t *p, const struct raw_spec *s)
{
    unsigned len = s->proto == 17 ? 8 : s->proto == 6 ? 20 : 0;

    memset(p, 0, len);
    if (len) {
        put_be16(p, s->sport);
        put_be16(p + 2, s->dport);
    }
    if (s->proto == 17)
        put_be16(p + 4, (uint16_t)(8 + s->payload));
    p += len;
    for (unsigned i = 0; i < s->payload; i++)
        *p++ = (uint8_t)(i * 7 + 1);
    return p;
}

static uint8_t *put_ipv4(uint8_t *ip, const struct raw_spec *s)
{
    unsigned header = IPV4_LEN + 4 * s->options;
    uint32_t sum = 0;
    uint8_t address[16], *end;

    memset(ip, 0, header);
    memset(ip + IPV4_LEN, 1, header - IPV4_LEN); /* no operation */
    end = s->fragment & 0x1FFF ? ip + header + 24 : put_l4(ip + header, s);
    if (s->fragment & 0x1FFF)
        memset(ip + header, 0x5A, 24);
    ip[0] = (uint8_t)(0x40 | header / 4);
    ip[IPV4_TOS_OFF] = s->traffic_class;
    put_be16(ip + IPV4_TOTAL_OFF, (uint16_t)(end - ip));
    put_be16(ip + IPV4_FRAGMENT_OFF, s->fragment);
    ip[IPV4_TTL_OFF] = s->hop_limit;
    ip[IPV4_PROTO_OFF] = s->proto;
    raw_address(address, s->src ? s->src : "192.0.2.1");
    memcpy(ip + IPV4_SRC_OFF, address + 12, 4);
    raw_address(address, s->dst ? s->dst : "192.0.2.2");
    memcpy(ip + IPV4_DST_OFF, address + 12, 4);
    for (unsigned i = 0; i < header; i += 2)
        sum += get_be16(ip + i);
    sum = (sum & 0xFFFF) + (sum >> 16);
    put_be16(ip + IPV4_SUM_OFF, (uint16_t) ~(sum + (sum >> 16)));
    return end;
}

static uint8_t *put_ipv6(uint8_t *ip, const struct raw_spec *s)
{
    uint8_t *p = ip + IPV6_LEN, *next = ip + IPV6_NEXT_OFF;

    memset(ip, 0, IPV6_LEN);
    put_be32(ip, UINT32_C(6) << 28 | (uint32_t)s->traffic_class << 20 | s->flow_label);
    ip[7] = s->hop_limit;
    raw_address(ip + IPV6_SRC_OFF, s->src ? s->src : "2001:db8::1");
    raw_address(ip + IPV6_DST_OFF, s->dst ? s->dst : "2001:db8::2");
    for (unsigned i = 0; i < s->extensions; i++) {
        unsigned len = s->extension[i] == 44 ? 8 : 16;

        *next = s->extension[i];
        next = p;
        memset(p, 0, len);
        p[1] = s->extension[i] == 44 ? 0 : s->extension[i] == 51 ? 2 : 1;
        if (s->extension[i] == 44)
            put_be16(p + 2, s->v6_fragment);
        p += len;
    }
    *next = s->proto;
    p = put_l4(p, s);
    put_be16(ip + IPV6_PAYLOAD_OFF, (uint16_t)(p - ip - IPV6_LEN));
    return p;
}

void raw_build(struct raw_bytes *out, const struct raw_spec *s)
{
    static const uint8_t smac[6] = {0xbb, 1, 2, 3, 4, 5};
    static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
    uint8_t *p = out->data + ETH_TYPE_OFF;

    memset(out->data, 0, sizeof(out->data));
    memcpy(out->data, s->dmac ? s->dmac : our_mac, 6);
    memcpy(out->data + ETH_SMAC_OFF, s->smac ? s->smac : smac, 6);
    for (unsigned i = 0; i < s->tags; i++) {
        put_be16(p, i || !s->tag_type ? ETHERTYPE_VLAN : s->tag_type);
        put_be16(p + 2, i ? s->inner_tci : s->tci);
        p += 4;
    }
    put_be16(p, s->version == 4   ? ETHERTYPE_IPV4
                : s->version == 6 ? ETHERTYPE_IPV6
                : s->ether_type   ? s->ether_type
                                  : 0x88B5);
    p += 2;
    p = s->version == 4 ? put_ipv4(p, s) : s->version == 6 ? put_ipv6(p, s) : p + s->payload;
    out->len = (uint32_t)(p - out->data);
    if (out->len < 60) /* padding, not of zeros, as some hosts do it */
        memset(p, 0xEE, 60 - out->len);
    out->len = max_of(out->len, 60u);
}

struct frame raw_frame(struct raw_bytes *b)
{
    return (struct frame){.data = b->data, .len = b->len};
}
