/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a packet in the engine: two engines back to back in one process, frames passed in
 * bursts, ICRC computed and verified. Prints nanoseconds; budgets.py runs it under callgrind and
 * prints instructions, in total or of one stage:
 *
 *   build/test/perf/engine_cost write 8 1000000
 *   test/perf/budgets.py --build build --only write-8
 *
 * "marked" stands for WRITEs, half of them with an ECN mark; "swift" and "dcqcn" for WRITEs under
 * that controller. A fourth argument names a form other than RC over IPv4: see `forms`. "paced" N
 * counts what packets of that many paced queue pairs cost. "stages" in place of the message's
 * opcode runs each stage of the packet's path by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encap_layout.h"
#include "engine.h"
#include "mem_batch.h"
#include "pkt.h"
#include "stage_cost.h"

#define ROOM  (ENCAP_MAX_LEN + PKT_MAX_HEADER + PKT_MTU_MAX + 8)
#define SLOTS 128
#define PD    1
#define STEP  (5 * NS_PER_US) /* between two bursts: what 64 short messages take */
#define VLAN  5
#define QKEY  7
#define RIGHTS \
    (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL)

#define MAX_INLINE 64
#define SQE_STRIDE sqe_stride(2, MAX_INLINE)

/* What differs from RC over IPv4 with one SGE. */
struct form {
    const char *name;
    uint32_t type; /* 0: RC. QPT_XRC_SEND: one side's; the other one has QPT_XRC_RECV */
    bool ipv6, tagged, srq, is_inline, fence, copied, counted;
    bool alone;               /* one message at a time */
    unsigned sges, recv_sges; /* 0: one */
};

static const struct form forms[] = {
    {.name = "ipv6", .ipv6 = true},
    {.name = "vlan", .tagged = true},
    {.name = "vlan6", .tagged = true, .ipv6 = true},
    {.name = "srq", .srq = true},
    {.name = "sges", .sges = 2},
    {.name = "inline", .is_inline = true},
    {.name = "fence", .fence = true},
    {.name = "alone", .alone = true},
    {.name = "uc", .type = QPT_UC},
    {.name = "xrc", .type = QPT_XRC_SEND, .srq = true},
    {.name = "xrc6", .type = QPT_XRC_SEND, .srq = true, .ipv6 = true},
    {.name = "xrc-copied", .type = QPT_XRC_SEND, .srq = true, .copied = true},
    {.name = "counted", .counted = true},
    {.name = "ud", .type = QPT_UD},
    {.name = "copied", .copied = true},
    {.name = "recv-sges", .recv_sges = 2},
    {.name = "srq-copied", .srq = true, .copied = true},
    {.name = "srq-sges", .srq = true, .recv_sges = 2},
    {.name = "sges-copied", .sges = 2, .copied = true},
    {.name = "recv-sges-copied", .recv_sges = 2, .copied = true},
    {.name = "ud-copied", .type = QPT_UD, .copied = true},
};

struct side {
    const struct form *form;
    struct comp_counter counter;
    struct counter_line counted;
    struct engine *e;
    struct qp *qp;
    struct qp_table *qps;
    struct srq_table *srqs;
    struct srq *srq;
    struct ah_table *ahs;
    uint32_t ah; /* datagrams: the other side's address */
    struct mr_table mrs;
    struct mem_region mr;
    struct encap_port port;
    struct gid_table gids;
    struct qp_shared *shared;
    uint8_t *sq, *rq;
    struct comp_queue cq;
    struct cq_reader reader;
    uint8_t *memory;
    uint32_t prod, recv_prod;
};

static void on_cq(void *ctx, struct comp_queue *cq)
{
    (void)ctx, (void)cq;
}

static void on_async(void *ctx, struct qp *qp, struct comp_queue *cq, enum qp_event event)
{
    fprintf(stderr, "unexpected event %d\n", event);
    exit(1);
}

/* Memory that is not mapped, without system calls. */
static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        memcpy(io[i].local, (const void *)(uintptr_t)io[i].addr, io[i].len);
        io[i].status = 0;
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        memcpy((void *)(uintptr_t)io[i].addr, io[i].local, io[i].len);
        io[i].status = 0;
    }
}

static int copy_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    *old = mem_atomic_mapped((void *)(uintptr_t)addr, op, swap_add, compare);
    return 0;
}

static const struct mem_backend backend = {
    .name = "copied", .copy_in = copy_in, .copy_out = copy_out, .atomic = copy_atomic};

static unsigned sges_of(const struct form *f)
{
    return f->sges ? f->sges : 1;
}

static bool is_xrc(const struct form *f)
{
    return f->type == QPT_XRC_SEND;
}

/* The first side is the requester. */
static bool is_first(const struct side *s)
{
    return s->port.mac[5] == 1;
}

static uint32_t type_of(const struct side *s)
{
    if (is_xrc(s->form) && !is_first(s))
        return QPT_XRC_RECV;
    return s->form->type ? s->form->type : QPT_RC;
}

static struct work_queue receive_queue(const struct side *s)
{
    return (struct work_queue){.ring = s->rq,
                               .prod = &s->shared->rq_prod,
                               .size = SLOTS,
                               .stride = rqe_stride(2),
                               .max_sge = 2};
}

static struct srq *make_srq(struct side *s)
{
    static _Atomic uint32_t taken[2];
    struct srq_init init = {.wq = receive_queue(s),
                            .taken = &taken[!is_first(s)],
                            .pd = PD,
                            .xrc = is_xrc(s->form),
                            .cq = &s->cq};
    int err;

    return srq_create(s->srqs, &init, &err);
}

static struct qp *make_qp(struct side *s)
{
    static _Atomic uint32_t nothing;
    struct qp_init init = {.type = type_of(s),
                           .pd = PD,
                           .srq = is_xrc(s->form) ? NULL : s->srq,
                           .send_cq = &s->cq,
                           .recv_cq = &s->cq,
                           .shared = s->shared,
                           .sq = {.ring = s->sq,
                                  .prod = &s->shared->sq_prod,
                                  .size = SLOTS,
                                  .stride = SQE_STRIDE,
                                  .max_sge = 2,
                                  .max_inline = MAX_INLINE},
                           .rq = receive_queue(s)};
    struct qp *qp;
    int err;

    if (init.type == QPT_XRC_RECV) { /* its WQEs and CQEs are those of others */
        init.send_cq = init.recv_cq = NULL;
        init.shared = NULL;
        init.sq = init.rq = (struct work_queue){.prod = &nothing};
        init.pd = MEM_PD_NONE;
    }
    qp = qp_create(s->qps, &init, &err);
    s->counter.line = &s->counted;
    if (qp && s->form->counted)
        engine_qp_count(qp, &s->counter, QP_COUNT_ALL);
    return qp;
}

static union gid address_of(const struct form *f, uint8_t number)
{
    const uint8_t v4[4] = {10, 0, 0, number}, v6[16] = {0xFD, [15] = number};
    union gid gid = gid_from_ipv4(v4);

    if (f->ipv6)
        memcpy(gid.raw, v6, sizeof(v6));
    return gid;
}

static void side_init(struct side *s, const struct form *form, uint8_t number,
                      const struct congestion_config *congestion)
{
    static const uint64_t secret[2] = {1, 2};
    struct gid_entry gid = {.gid = address_of(form, number),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = form->tagged ? VLAN : VLAN_NONE};
    struct cq_shared *cq = zeroed(cq_segment_bytes(1024, 1));

    s->form = form;
    s->port.mac[5] = gid.mac[5] = number;
    gid_table_add(&s->gids, &gid);
    s->port.gids = &s->gids;
    s->qps = qp_table_create(NULL);
    s->srqs = srq_table_create(NULL);
    s->ahs = ah_table_create(NULL);
    mr_table_init(&s->mrs, 16, secret);
    s->memory = zeroed(1 << 20);
    s->mr = (struct mem_region){.pd = PD,
                                .access = RIGHTS,
                                .iova = (uintptr_t)s->memory,
                                .addr = (uintptr_t)s->memory,
                                .len = 1 << 20,
                                .direct = form->copied ? NULL : s->memory,
                                .backend = &backend};
    mr_insert(&s->mrs, &s->mr, 1);
    struct engine_config c = {.port = &s->port,
                              .mrs = &s->mrs,
                              .qps = s->qps,
                              .srqs = s->srqs,
                              .ahs = s->ahs,
                              .host = {.cq_event = on_cq, .async_event = on_async},
                              .congestion = *congestion};
    s->e = engine_create(&c);
    comp_queue_init(&s->cq, cq, 1024, 1);
    s->reader = (struct cq_reader){.shared = cq, .size = 1024, .lanes = 1};
    s->shared = zeroed(sizeof(*s->shared));
    s->sq = zeroed(SLOTS * SQE_STRIDE);
    s->rq = zeroed(SLOTS * rqe_stride(2));
    s->srq = form->srq ? make_srq(s) : NULL;
    s->qp = make_qp(s);
    engine_qp_attach(s->e, s->qp);
}

/* Attributes that a type does not take are left out. */
static uint32_t allowed(const struct side *s, uint32_t mask)
{
    const uint32_t reliable = QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC |
                              QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
                   connected = QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_ACCESS_FLAGS;

    switch (type_of(s)) {
    case QPT_RC:
        return mask;
    case QPT_UC:
        return mask & ~reliable;
    case QPT_XRC_SEND: /* has no responder, and the other one no requester */
        return mask & ~(QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER);
    case QPT_XRC_RECV:
        return mask & ~(QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC);
    }
    return (mask & ~(reliable | connected)) | (mask & QPA_ACCESS_FLAGS ? QPA_QKEY : 0);
}

static void connect_to(struct side *s, const struct side *peer)
{
    struct qp_attr a = {.state = QPS_INIT,
                        .path_mtu = 5,
                        .port_num = 1,
                        .max_rd_atomic = 16,
                        .max_dest_rd_atomic = 16,
                        .timeout = 14,
                        .retry_cnt = 7,
                        .rnr_retry = 7,
                        .min_rnr_timer = 12,
                        .dest_qpn = qp_number(peer->qp),
                        .qkey = QKEY,
                        .access_flags = RIGHTS};
    struct address_vector av = {.sgid = s->gids.entry[0].gid,
                                .dgid = peer->gids.entry[0].gid,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = s->gids.entry[0].vlan,
                                .hop_limit = 64};

    memcpy(av.smac, s->port.mac, 6);
    memcpy(av.dmac, peer->port.mac, 6);
    const uint32_t mask[] = {QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
                             QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                                 QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
                             QPA_STATE | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN |
                                 QPA_MAX_RD_ATOMIC};
    struct address_handle *ah;
    int err;

    for (unsigned i = 0; i < 3; i++) {
        uint32_t m = allowed(s, mask[i]);

        a.state = QPS_INIT + i;
        if (engine_qp_modify(s->e, s->qp, &a, m, m & QPA_AV ? &av : NULL, 5, 1))
            exit(1);
    }
    ah = address_handle_create(s->ahs, PD, &av, 0, &err);
    s->ah = address_handle_number(ah);
}

static void post(struct side *s, const struct side *peer, enum sqe_op op, uint32_t len)
{
    struct sqe *e = work_queue_slot(s->sq, SLOTS, SQE_STRIDE, s->prod++);
    struct sge *sge = (struct sge *)(e + 1);
    unsigned n = op == SQE_FLUSH ? 0 : sges_of(s->form);

    *e = (struct sqe){.opcode = (uint8_t)op,
                      .flags = SQE_SIGNALED | (s->form->fence ? SQE_FENCE : 0) |
                               (s->form->is_inline ? SQE_INLINE : 0),
                      .num_sge = (uint8_t)n,
                      .inline_len = s->form->is_inline ? len : 0,
                      .remote_addr = peer->mr.iova,
                      .rkey = peer->mr.key};
    if (is_xrc(s->form))
        e->remote_srqn = srq_number(peer->srq);
    if (type_of(s) == QPT_UD) {
        e->ud.ah = s->ah;
        e->ud.remote_qpn = qp_number(peer->qp);
        e->ud.remote_qkey = QKEY;
    }
    if (op == SQE_FLUSH) {
        e->flush.length = len;
        e->flush.placement = FETH_GLOBAL;
    }
    if (!s->form->is_inline)
        for (unsigned i = 0; i < n; i++)
            sge[i] = (struct sge){.addr = s->mr.iova, .length = len / n, .lkey = s->mr.key};
    if (n == 1 && !s->form->is_inline && sqe_has_free_words(op) && type_of(s) != QPT_UD) {
        e->flags |= SQE_SGE_IN_HEADER; /* as the library posts it */
        e->sge = sge[0];
    }
    atomic_store_explicit(&s->shared->sq_prod, s->prod, memory_order_release);
}

static void post_recv(struct side *s)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(2), s->recv_prod++);

    struct sge *sge = (struct sge *)(e + 1);

    *e = (struct rqe){.num_sge = s->form->recv_sges ? s->form->recv_sges : 1};
    for (unsigned i = 0; i < e->num_sge; i++)
        sge[i] = (struct sge){
            .addr = s->mr.iova, .length = i + 1 < e->num_sge ? 4 : 65536, .lkey = s->mr.key};
    atomic_store_explicit(&s->shared->rq_prod, s->recv_prod, memory_order_release);
}

static unsigned poll(struct side *s)
{
    const struct cqe *e;
    unsigned n = 0;

    while ((e = cq_reader_peek(&s->reader))) {
        if (e->status)
            exit(1);
        cq_reader_advance(&s->reader);
        n++;
    }
    return n;
}

/*
 * The four steps of a message: request out and in, answer out and in. Separate functions, which
 * callgrind tells apart.
 */
#define HALF __attribute__((noinline)) static unsigned

HALF requester_tx(struct side *s, struct frame *frames, ns_t now)
{
    return engine_tx(s->e, frames, FRAME_BURST, now);
}

HALF responder_rx(struct side *s, struct frame *frames, unsigned n, ns_t now)
{
    engine_rx(s->e, frames, n, now);
    return n;
}

HALF responder_tx(struct side *s, struct frame *frames, ns_t now)
{
    return engine_tx(s->e, frames, FRAME_BURST, now);
}

HALF requester_rx(struct side *s, struct frame *frames, unsigned n, ns_t now)
{
    engine_rx(s->e, frames, n, now);
    return n;
}

enum marks { NOT_MARKED, HALF_MARKED, FEW_MARKED };

/* The network marks the frame "congestion experienced". */
static void mark(struct frame *f)
{
    uint8_t *ip = f->data + ETH_LEN;

    ip[1] |= ECN_CE;
    put_be16(ip + 10, 0);
    put_be16(ip + 10, (uint16_t)~ipv4_sum(ip));
}

/* Half of them, in no pattern. */
static void mark_half(struct frame *frames, unsigned n)
{
    static uint32_t state = 1;

    for (unsigned i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        if (state >> 31)
            mark(&frames[i]);
    }
}

/* A controller that answers marks is at work all the time, but holds back nothing: a mark halves a
 * rate that is far above what is sent, and the next one comes before the rate is the line's. */
#define LINE          UINT64_C(4000000000000)
#define BURSTS_A_MARK 100

/* Returns the number of packets. */
static unsigned exchange(struct side *a, struct side *b, struct frame *frames, ns_t now,
                         enum marks marks)
{
    unsigned requests = requester_tx(a, frames, now), answers;

    if (marks == HALF_MARKED)
        mark_half(frames, requests);
    else if (marks == FEW_MARKED && requests && now / STEP % BURSTS_A_MARK == 0)
        mark(&frames[0]);
    if (requests)
        responder_rx(b, frames, requests, now);
    answers = responder_tx(b, frames, now);
    if (answers)
        requester_rx(a, frames, answers, now);
    return requests + answers;
}

static enum sqe_op find_op(const char *name)
{
    static const struct {
        const char *name;
        enum sqe_op op;
    } ops[] = {{"send", SQE_SEND},
               {"read", SQE_READ},
               {"write-imm", SQE_WRITE_IMM},
               {"send-imm", SQE_SEND_IMM},
               {"fetch-add", SQE_FETCH_ADD},
               {"cmp-swap", SQE_CMP_SWP},
               {"atomic-write", SQE_ATOMIC_WRITE},
               {"flush", SQE_FLUSH}};

    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (!strcmp(name, ops[i].name))
            return ops[i].op;
    return SQE_WRITE;
}

/* NULL: there is none of this name. */
static const struct form *find_form(const char *name)
{
    static const struct form plain;

    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (!strcmp(name, forms[i].name))
            return &forms[i];
    return *name ? NULL : &plain;
}

int main(int argc, char **argv)
{
    static struct side a, b;
    static uint8_t buffers[FRAME_BURST][ROOM];
    struct frame frames[FRAME_BURST];
    uint32_t len = argc > 2 ? (uint32_t)atoi(argv[2]) : 8,
             left = argc > 3 ? (uint32_t)atoi(argv[3]) : 1000000;
    enum sqe_op op = find_op(argc > 1 ? argv[1] : "");
    const struct form *form = find_form(argc > 4 ? argv[4] : "");
    struct congestion_config congestion = {
        .control = argc > 1 ? cc_find(argv[1]) : NULL, .cnp_interval = 50000, .line = LINE};
    enum marks marks = argc > 1 && !strcmp(argv[1], "marked") ? HALF_MARKED
                       : congestion.control                   ? FEW_MARKED
                                                              : NOT_MARKED;
    uint32_t total = left, pending = 0, received = 0;
    uint64_t packets = 0;
    struct timespec t0, t1;
    ns_t now = 1;

    if (argc > 1 && !strcmp(argv[1], "stages")) {
        stage_costs(left);
        return 0;
    }
    if (!congestion.control)
        congestion.cnp_interval = 0;
    if (argc > 1 && !strcmp(argv[1], "paced")) {
        paced_costs(len, left);
        return 0;
    }
    if (!form)
        return 1;
    side_init(&a, form, 1, &congestion);
    side_init(&b, form, 2, &congestion);
    connect_to(&a, &b);
    connect_to(&b, &a);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        frames[i] = (struct frame){.data = buffers[i], .room = ROOM};
    for (unsigned i = 0; i < SLOTS; i++)
        post_recv(&b);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    while (left || pending) {
        for (; left && pending < (form->alone ? 1 : 64); left--, pending++)
            post(&a, &b, op, len);
        engine_doorbell(a.e, a.qp, now += STEP);
        packets += exchange(&a, &b, frames, now, marks);
        pending -= poll(&a);
        for (received = poll(&b); received; received--)
            post_recv(&b);
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    if (congestion.control && congestion.control->on_cnp &&
        counter_get(&qp_counters(a.qp)->rp_cnp_handled) < total / (64 * 2 * BURSTS_A_MARK))
        return 1; /* the controller had nothing to do */
    double ns = (double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec);
    printf("%u messages of %u bytes, %lu packets: %.1f ns a message, %.1f ns a packet, %.2f GB/s\n",
           total, len, packets, ns / total, ns / (double)packets, (double)total * len / ns);
    return 0;
}
