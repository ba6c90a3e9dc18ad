/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch_kit.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>

#define VLAN 5

enum hdr_form batch_form;
uint32_t batch_type = QPT_RC;
uint32_t batch_srq_pd;
uint32_t batch_sges = 2;
enum batch_counts batch_counts;

/* The engines of a trial are large, and end with it. Their memory is kept for the next trial: most
 * of a test's time would go into giving it back. */
static __attribute__((constructor)) void keep_memory(void)
{
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 64 << 20);
}

/* ---- the hosts ---- */

static void on_cq(void *ctx, struct comp_queue *cq)
{
    ((struct side *)ctx)->cq_events++;
}

static void on_posted(void *ctx, struct comp_queue *cq)
{
    ((struct side *)ctx)->cq_posted++;
}

static void on_written(void *ctx, struct qp *qp)
{
    ((struct side *)ctx)->written = true;
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    ((struct side *)ctx)->events = ((struct side *)ctx)->events * 31 + (unsigned)event;
}

static void on_srq(void *ctx, struct srq *srq, enum qp_event event)
{
    ((struct side *)ctx)->srq_events++;
}

static bool is_bad(const struct copied *c, uint64_t addr, uint32_t len)
{
    return addr < c->bad + c->bad_len && c->bad < addr + len;
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    const struct copied *c = space;

    for (unsigned i = 0; i < n; i++) {
        bool bad = c->unreadable && is_bad(c, io[i].addr, io[i].len);

        if (!bad)
            memcpy(io[i].local, c->memory + (io[i].addr - IOVA), io[i].len);
        io[i].status = bad ? -EFAULT : 0;
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    const struct copied *c = space;

    for (unsigned i = 0; i < n; i++) {
        bool bad = is_bad(c, io[i].addr, io[i].len);

        if (!bad)
            memcpy(c->memory + (io[i].addr - IOVA), io[i].local, io[i].len);
        io[i].status = bad ? -EFAULT : 0;
    }
}

static int copied_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                         uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    const struct copied *c = space;
    uint8_t *at = c->memory + (addr - IOVA);
    uint64_t new;

    if (is_bad(c, addr, sizeof(*old)))
        return -EFAULT;
    memcpy(old, at, sizeof(*old));
    new = op == MEM_FETCH_ADD ? *old + swap_add : *old == compare ? swap_add : *old;
    memcpy(at, &new, sizeof(new));
    return 0;
}

static const struct mem_backend backend = {
    .name = "test", .copy_in = copy_in, .copy_out = copy_out, .atomic = copied_atomic};

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(64, round_up(bytes, 64));

    assert_non_null(p);
    return memset(p, 0, round_up(bytes, 64));
}

static union gid address(uint8_t number)
{
    const uint8_t v6[16] = {0xFD, [15] = number};
    union gid gid = gid_from_ipv4((uint8_t[]){10, 0, 0, number});

    if (hdr_is_ipv6(batch_form))
        memcpy(gid.raw, v6, sizeof(v6));
    return gid;
}

static bool is_xrc_target(const struct side *s)
{
    return batch_type == QPT_XRC_SEND && s->port.mac[5] == 2;
}

static struct srq *make_srq(struct side *s, const struct work_queue *wq, uint32_t pd,
                            _Atomic uint32_t *taken)
{
    struct srq_init init = {
        .wq = *wq, .taken = taken, .pd = pd, .xrc = batch_type == QPT_XRC_SEND, .cq = &s->cq};
    struct srq *srq;
    int err;

    srq = srq_create(s->srqs, &init, &err);
    assert_non_null(srq);
    return srq;
}

/* Its keys, WQEs and CQEs are those of the SRQs. */
static void make_xrc_target(struct side *s, struct qp_init *init)
{
    static _Atomic uint32_t unused;
    struct work_queue empty = init->rq;

    empty.prod = &s->nothing;
    s->srq = make_srq(s, &init->rq, PD, &s->srq_taken);
    s->other_srq = make_srq(s, &empty, OTHER_PD, &unused);
    init->type = QPT_XRC_RECV;
    init->pd = MEM_PD_NONE;
    init->send_cq = init->recv_cq = NULL;
    init->shared = NULL;
    init->sq = init->rq = (struct work_queue){.prod = &s->nothing};
}

static void attach_counters(struct side *s)
{
    for (unsigned i = 0; i < QP_COUNTS && batch_counts != BATCH_COUNTS_NOTHING; i++) {
        s->counter[i] = (struct comp_counter){.line = &s->counted[i],
                                              .bytes = batch_counts == BATCH_COUNTS_BYTES};
        assert_int_equal(engine_qp_count(s->qp, &s->counter[i], 1u << i), 0);
    }
}

void side_init(struct side *s, uint8_t number, uint32_t cq_size, uint32_t access, uint32_t inflight)
{
    static const uint64_t secret[2] = {1, 2};
    struct gid_entry gid = {.gid = address(number),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = batch_form < HDR_VLAN_IPV4 ? VLAN_NONE : VLAN};
    struct engine_config c = {.repath = 2,
                              .max_inflight = inflight,
                              .port = &s->port,
                              .mrs = &s->mrs,
                              .flows = &s->flows,
                              .host = {.ctx = s,
                                       .cq_event = on_cq,
                                       .cq_posted = on_posted,
                                       .async_event = on_async,
                                       .srq_event = on_srq,
                                       .mem_written = on_written}};
    struct qp_init init = {.type = batch_type, .pd = PD, .send_cq = &s->cq, .recv_cq = &s->cq};
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
                                .space = &s->copied};
    assert_int_equal(mr_table_init(&s->mrs, 16, secret), 0);
    assert_int_equal(mr_insert(&s->mrs, &s->mr, 1), 0);
    s->other_memory = zeroed(MEMORY);
    s->other = s->mr;
    s->other.pd = is_xrc_target(s) ? OTHER_PD : PD;
    s->other.direct = s->other_memory;
    s->other.space = &s->other_copied;
    s->copied.memory = s->memory;
    s->other_copied.memory = s->other_memory;
    assert_int_equal(mr_insert(&s->mrs, &s->other, 2), 0);
    c.qps = s->qps = qp_table_create(NULL);
    c.ahs = s->ahs = ah_table_create(NULL);
    c.srqs = s->srqs = srq_table_create(NULL);
    s->e = engine_create(&c);
    s->ring = zeroed(cq_segment_bytes(cq_size, 1));
    comp_queue_init(&s->cq, s->ring, cq_size, 1);
    s->reader = (struct cq_reader){.shared = s->ring, .size = cq_size, .lanes = 1};
    s->shared = zeroed(sizeof(*s->shared));
    s->sq = zeroed(SLOTS * sqe_stride(batch_sges, MAX_INLINE));
    s->rq = zeroed(SLOTS * rqe_stride(batch_sges));
    init.shared = s->shared;
    init.sq = (struct work_queue){.ring = s->sq,
                                  .prod = &s->shared->sq_prod,
                                  .size = SLOTS,
                                  .stride = sqe_stride(batch_sges, MAX_INLINE),
                                  .max_sge = batch_sges,
                                  .max_inline = MAX_INLINE};
    init.rq = (struct work_queue){.ring = s->rq,
                                  .prod = &s->shared->rq_prod,
                                  .size = SLOTS,
                                  .stride = rqe_stride(batch_sges),
                                  .max_sge = batch_sges};
    if (batch_srq_pd)
        init.srq = s->srq = make_srq(s, &init.rq, batch_srq_pd, &s->srq_taken);
    if (is_xrc_target(s))
        make_xrc_target(s, &init);
    s->qp = qp_create(s->qps, &init, &err);
    assert_non_null(s->qp);
    engine_qp_attach(s->e, s->qp);
    attach_counters(s);
}

void side_fini(struct side *s)
{
    engine_qp_detach(s->e, s->qp);
    qp_free(s->qp);
    engine_destroy(s->e);
    qp_table_destroy(s->qps);
    for (unsigned i = 0; i < ARRAY_SIZE(s->ah); i++)
        if (s->ah[i]) {
            address_handle_unpublish(s->ahs, s->ah[i]);
            address_handle_free(s->ah[i]);
        }
    ah_table_destroy(s->ahs);
    if (s->srq)
        srq_free(s->srq);
    if (s->other_srq)
        srq_free(s->other_srq);
    srq_table_destroy(s->srqs);
    mr_table_fini(&s->mrs);
    free(s->memory);
    free(s->other_memory);
    free(s->ring);
    free(s->shared);
    free(s->sq);
    free(s->rq);
}

/* Of the attributes those that the type of queue pairs takes. */
static uint32_t taken(const struct side *s, uint32_t mask)
{
    const uint32_t reliable = QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER | QPA_TIMEOUT |
                              QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC,
                   connected = QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_ACCESS_FLAGS;

    if (batch_type == QPT_RC)
        return mask;
    if (batch_type == QPT_XRC_SEND)
        return mask & (is_xrc_target(s) ? ~(QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC)
                                        : ~(QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER));
    if (batch_type == QPT_UC)
        return mask & ~reliable;
    return (mask & ~(reliable | connected)) | (mask & QPA_ACCESS_FLAGS ? QPA_QKEY : 0);
}

/* Datagrams from either address come from the same port. */
static void make_handles(struct side *s, const struct address_vector *av)
{
    struct address_vector from = *av;
    int err;

    for (unsigned i = 0; i < ARRAY_SIZE(s->ah); i++) {
        s->ah[i] = address_handle_create(s->ahs, PD, &from, 0, &err);
        assert_non_null(s->ah[i]);
        from.sgid.raw[14] ^= 1;
        from.smac[3] ^= 1;
        from.traffic_class = 8;
        from.pcp = 3;
    }
}

void connect_to(struct side *s, const struct side *peer, uint32_t access, uint32_t psn)
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
                        .qkey = QKEY,
                        .access_flags = access};
    struct address_vector av = {.sgid = s->gids.entry[0].gid,
                                .dgid = peer->gids.entry[0].gid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = s->gids.entry[0].vlan,
                                .hop_limit = 64};
    int rc;

    memcpy(av.smac, s->port.mac, 6);
    memcpy(av.dmac, peer->port.mac, 6);
    rc = engine_qp_modify(s->e, s->qp, &a,
                          taken(s, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS), NULL,
                          5, 1);
    a.state = QPS_RTR;
    rc |= engine_qp_modify(s->e, s->qp, &a,
                           taken(s, QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                                        QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER),
                           batch_type == QPT_UD ? NULL : &av, 5, 1);
    a.state = QPS_RTS;
    if (peer->port.mac[5] == 2 || psn % 4) /* some responders stay in RTR */
        rc |= engine_qp_modify(s->e, s->qp, &a,
                               taken(s, QPA_STATE | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY |
                                            QPA_SQ_PSN | QPA_MAX_RD_ATOMIC),
                               NULL, 5, 1);
    make_handles(s, &av);
    assert_int_equal(rc, 0);
}

void drain(struct side *s)
{
    while (cq_reader_peek(&s->reader)) {
        cq_reader_advance(&s->reader);
        s->read++;
    }
}

bool works(const struct side *s)
{
    return qp_current_state(s->qp) == QPS_RTS || qp_current_state(s->qp) == QPS_RTR;
}

/* ---- the network ---- */

uint32_t total_of(const struct frame *f)
{
    return hdr_ip_len(batch_form, f->data);
}

static void set_total(struct frame *f, uint32_t total)
{
    uint8_t *ip = f->data + hdr_l3_at(batch_form);

    if (hdr_is_ipv6(batch_form))
        put_be16(ip + 4, (uint16_t)(total - IPV6_LEN));
    else
        put_be16(ip + IPV4_TOTAL_OFF, (uint16_t)total);
}

static void mend_sum(struct frame *f)
{
    uint8_t *ip = f->data + hdr_l3_at(batch_form);

    if (hdr_is_ipv6(batch_form))
        return;
    put_be16(ip + IPV4_SUM_OFF, 0);
    put_be16(ip + IPV4_SUM_OFF, (uint16_t)~ipv4_sum(ip));
}

void batch_seal(struct frame *f)
{
    icrc_seal(hdr_is_ipv6(batch_form) ? ICRC_IPV6 : ICRC_IPV4, f->data + hdr_l3_at(batch_form),
              total_of(f) - ICRC_LEN);
}

static void mend(struct frame *f, bool icrc)
{
    uint32_t total = total_of(f);

    mend_sum(f);
    if (icrc && total >= hdr_l3_len(batch_form) && total + hdr_l3_at(batch_form) <= f->len)
        batch_seal(f);
}

/* A field of the IP header, or the whole of it, that the network or a bad sender changes. */
static void damage_ip(struct frame *f, uint32_t bit, uint32_t what)
{
    uint8_t *ip = f->data + hdr_l3_at(batch_form);
    bool v6 = hdr_is_ipv6(batch_form);

    if (what == 4) /* TOS; a part of traffic class and flow label */
        ip[1] = (uint8_t)bit;
    else if (what == 5) /* TTL, hop limit */
        ip[v6 ? 7 : 8] = (uint8_t)bit;
    else if (what == 6) /* identification, flow label */
        ip[(v6 ? 2 : 4) + bit % 2] ^= (uint8_t)(1 << bit % 8);
    else if (what == 7) /* fragments, next header */
        ip[6] ^= (uint8_t)(1 << bit % 8);
    else
        set_total(f, total_of(f) + (bit % 3 ? 4 : bit % 9 - 4));
}

static void damage(struct frame *f, struct random *r)
{
    uint8_t *b = f->data + batch_shift();
    uint32_t bit = random_below(r, (f->len - ICRC_LEN) * 8), what = random_below(r, 15);

    if (what < 2) /* any byte, without a new checksum or ICRC */
        f->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (what < 2)
        return;
    if (what < 4) /* BTH and RETH */
        b[AT_BTH + bit % (AT_RETH_END - AT_BTH)] ^= (uint8_t)(1 << bit % 8);
    else if (what <= 8)
        damage_ip(f, bit, what);
    else if (what == 9)
        put_be16(b + AT_UDP_LENGTH, (uint16_t)(get_be16(b + AT_UDP_LENGTH) - 4));
    else if (what == 10)
        b[AT_BTH_FLAGS] ^= (uint8_t)(1 << bit % 8);
    else if (what == 11)
        put_be24(b + AT_BTH_PSN, get_be24(b + AT_BTH_PSN) + (bit % 3 ? 1 : -1u));
    else if (what == 12)
        b[AT_BTH_OPCODE] = bit % 2   ? OP_WRITE_FIRST
                           : bit % 4 ? (uint8_t)(OP_WRITE_FIRST + bit % 6)
                                     : (uint8_t)(OP_READ_REQUEST + bit % 9);
    else if (what == 13)
        b[AT_UDP_SPORT + bit % 2] ^= 1;
    else
        b[AT_BTH_ACK_REQ] ^= 0x80;
    if (what == 8 && bit % 4 < 3) { /* both lengths */
        put_be16(b + AT_UDP_LENGTH, (uint16_t)(total_of(f) - hdr_ip_header(batch_form)));
        /* The ICRC may be payload now, and it is another one in another pair of engines. */
        memset(f->data + f->len - ICRC_LEN, 0, ICRC_LEN);
        f->len += 4;
    }
    mend(f, random_below(r, 8) != 0);
}

/* Loses, duplicates, reorders and damages frames; returns how many are left. */
unsigned disturb(struct frame *f, unsigned n, uint32_t calm, struct random *r)
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
            if (!f[i].icrc_omitted)
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

unsigned mark_some(struct frame *f, unsigned n, uint32_t percent, struct random *r)
{
    unsigned ce = 0;

    for (unsigned i = 0; i < n; i++) {
        uint8_t *ip = f[i].data + hdr_l3_at(batch_form), mark;

        if (random_below(r, 100) >= percent)
            continue;
        mark = random_below(r, 4) ? ECN_CE : (uint8_t)(1 + random_below(r, 2));
        ip[1] |= (uint8_t)(mark << (hdr_is_ipv6(batch_form) ? 4 : 0));
        mend_sum(&f[i]);
        ce += hdr_is_ce(batch_form, f[i].data);
    }
    return ce;
}

/* ---- the comparison ---- */

/* A forwarded frame that is not RoCE, or not for our MAC address, is not punted: it has another
 * reason then. */
static bool may_be_raw(enum drop reason)
{
    return reason == DROP_not_roce || reason == DROP_ip_fragment || reason == DROP_not_our_mac ||
           reason == DROP_truncated || reason == DROP_bad_ip_header || reason == DROP_raw_no_recv;
}

void check_counters(const struct side *fast, const struct side *slow, uint64_t frames)
{
    const struct engine_counters *f = engine_counters(fast->e), *s = engine_counters(slow->e);

    assert_int_equal(counter_get(&f->rx_delivered), counter_get(&s->rx_delivered));
    assert_int_equal(counter_get(&f->rx_punted), counter_get(&s->rx_punted));
    for (unsigned i = 0; i < DROP_COUNT; i++)
        if (!may_be_raw(i))
            assert_int_equal(counter_get(&f->drop[i]), counter_get(&s->drop[i]));
    assert_memory_equal(qp_counters(fast->qp), qp_counters(slow->qp), sizeof(struct qp_counters));
    assert_int_equal(counter_sum(f->rx_packets, QOS_PRIORITIES), frames);
    assert_int_equal(counter_get(&f->rx_delivered) + counter_get(&f->rx_punted) +
                         counter_sum(f->drop, DROP_COUNT),
                     frames);
}

void check_same(const struct side *fast, const struct side *slow)
{
    assert_int_equal(qp_current_state(fast->qp), qp_current_state(slow->qp));
    assert_memory_equal(fast->memory, slow->memory, MEMORY);
    assert_memory_equal(fast->other_memory, slow->other_memory, MEMORY);
    assert_memory_equal(fast->ring, slow->ring, cq_segment_bytes(fast->cq_size, 1));
    assert_int_equal(fast->cq_events, slow->cq_events);
    assert_int_equal(fast->cq_posted, slow->cq_posted);
    assert_int_equal(fast->written, slow->written);
    assert_int_equal(fast->events, slow->events);
    assert_int_equal(fast->srq_events, slow->srq_events);
    if (fast->srq) {
        assert_int_equal(srq_waiting(fast->srq), srq_waiting(slow->srq));
        assert_int_equal(srq_limit(fast->srq), srq_limit(slow->srq));
        assert_int_equal(atomic_load(&fast->srq_taken), atomic_load(&slow->srq_taken));
    }
    assert_memory_equal(fast->counted, slow->counted, sizeof(fast->counted));
    assert_int_equal(fast->cq.lane[0].overrun, slow->cq.lane[0].overrun);
    assert_int_equal(fast->cq.lane[0].prod, slow->cq.lane[0].prod);
}

void make_frames(struct frame f[FRAME_BURST], uint8_t bytes[FRAME_BURST][ROOM])
{
    for (unsigned i = 0; i < FRAME_BURST; i++)
        f[i] = (struct frame){.data = bytes[i], .room = ROOM};
}
