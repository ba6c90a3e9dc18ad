/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport engine, driven by the input's bytes: two engines with connected queue pairs of
 * every type, shared receive queues and windows, whose applications post anything and whose wire
 * delivers, changes, duplicates and loses frames, adds packets of any kind, and lets time pass.
 * Outer headers and ICRC are no obstacle, so that the bytes reach the state machines. Whatever
 * happens, no byte outside the regions that allow it may change, every received frame is counted
 * once, and nothing hangs.
 *
 * A program is a list of steps: one byte that selects the step, the queue pair and the node, then
 * the step's own bytes (missing ones are 0). make_corpus.py writes such programs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "fuzz_engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- input ---- */

uint8_t u8(struct fuzz *f)
{
    if (!f->left)
        return 0;
    f->left--;
    return *f->p++;
}

uint16_t u16(struct fuzz *f)
{
    uint16_t low = u8(f);

    return (uint16_t)(low | u8(f) << 8);
}

uint32_t u32(struct fuzz *f)
{
    uint32_t low = u16(f);

    return low | (uint32_t)u16(f) << 16;
}

uint32_t take_bytes(struct fuzz *f, uint8_t *out, uint32_t len)
{
    uint32_t n = (uint32_t)min_of((size_t)len, f->left);

    memcpy(out, f->p, n);
    f->p += n;
    f->left -= n;
    return n;
}

/* An address in a node's memory: usually inside a region, sometimes anywhere. */
struct kit_mr *pick_mr(struct fuzz *f, unsigned node)
{
    return f->mr[node][u8(f) % MRS];
}

uint64_t pick_va(struct fuzz *f, const struct kit_mr *mr)
{
    uint16_t off = u16(f);

    return off >= 0xFFF0 ? -(uint64_t)(off & 15) : kit_va(mr, off % (REGION + 64));
}

uint32_t pick_len(struct fuzz *f)
{
    uint16_t len = u16(f);

    return len >= 0xFFF0 ? UINT32_MAX << (len & 15) : len % (REGION + 64);
}

/* ---- the applications ---- */

static void pick_remote(struct fuzz *f, unsigned node, struct kit_send *wr)
{
    struct kit_mr *remote = pick_mr(f, !node);

    wr->rkey = remote->region.key;
    wr->remote_addr = pick_va(f, remote);
}

static void post_send(struct fuzz *f, unsigned node, unsigned q)
{
    struct kit_qp *qp = f->qp[node][q];
    uint8_t inlined[256] = {0};
    struct sge sge[4];
    struct kit_send wr = {.wr_id = f->wr_id++, .sge = sge, .inline_data = inlined};

    wr.op = u8(f) % 18;
    wr.flags = u8(f) & 0x1F;
    wr.num_sge = wr.flags & SQE_INLINE ? 0 : u8(f) % 5;
    wr.inline_len = wr.flags & SQE_INLINE ? u8(f) : 0;
    wr.imm = f->left;
    pick_remote(f, node, &wr);
    for (unsigned i = 0; i < wr.num_sge; i++) {
        const struct kit_mr *mr = pick_mr(f, node);

        sge[i] =
            (struct sge){.addr = pick_va(f, mr), .length = pick_len(f), .lkey = mr->region.key};
    }
    if (wr.op == SQE_FETCH_ADD || wr.op == SQE_CMP_SWP || wr.op == SQE_ATOMIC_WRITE)
        sge[0].length = 8;
    if (q == Q_UD || q == Q_UD_SRQ) {
        wr.ud.ah = f->ah[node];
        wr.ud.remote_qpn = f->qp[!node][u8(f) & 1 ? Q_UD_SRQ : Q_UD]->qpn;
        wr.ud.remote_qkey = u8(f) ? (uint32_t)f->wr_id : FUZZ_QKEY;
    } else if (wr.op == SQE_FLUSH) {
        wr.flush.length = u16(f);
        wr.flush.placement = u8(f) & 7;
        wr.flush.selectivity = u8(f) & 3;
    } else if (wr.op == SQE_LOCAL_INV || wr.op == SQE_SEND_INV) {
        wr.imm = f->window[node ^ (wr.op == SQE_SEND_INV)][u8(f) % WINDOWS]->region.key;
    }
    wr.remote_srqn = f->xrc_srq[!node]->number;
    /* The slot has room for the kit's data; only the inline length field may be longer. */
    if (wr.inline_len > qp->max_inline)
        wr.inline_len = qp->max_inline;
    kit_post_send(qp, &wr);
    kit_ring(qp);
}

/* A window over the ground; from then on peers may reach those bytes. */
static void bind_window(struct fuzz *f, unsigned node, unsigned q)
{
    struct kit_mw *w = f->window[node][u8(f) % WINDOWS];
    struct kit_mr *ground = f->ground[node];
    uint16_t off = u16(f) % (REGION + 64), len = u16(f) % (REGION + 64);
    uint8_t tag = u8(f);
    struct kit_send wr = {.wr_id = f->wr_id++, .op = SQE_BIND_MW, .flags = tag & 0x1F};

    wr.rkey = w->region.key;
    wr.imm = (w->region.key & ~UINT32_C(255)) | u8(f);
    wr.remote_addr = kit_va(ground, off);
    wr.bind.length = len;
    wr.bind.region_key = tag & 0x20 ? pick_mr(f, node)->region.key : ground->region.key;
    wr.bind.access = u8(f) & (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC |
                              MEM_LOCAL_WRITE | MEM_ZERO_BASED);
    f->bound_from[node] = min_of(f->bound_from[node], (uint32_t)off);
    f->bound_to[node] = max_of(f->bound_to[node], min_of((uint32_t)off + len, (uint32_t)REGION));
    wr.flags &= ~SQE_INLINE;
    kit_post_send(f->qp[node][q], &wr);
    kit_ring(f->qp[node][q]);
}

/* A request to the range of a window of the other node, or near it. */
static void post_through_window(struct fuzz *f, unsigned node, unsigned q)
{
    static const uint8_t ops[] = {SQE_WRITE, SQE_READ,         SQE_FETCH_ADD, SQE_WRITE_IMM,
                                  SQE_FLUSH, SQE_ATOMIC_WRITE, SQE_CMP_SWP,   SQE_WRITE};
    const struct kit_mw *w = f->window[!node][u8(f) % WINDOWS];
    struct kit_send wr = {.wr_id = f->wr_id++, .op = ops[u8(f) & 7], .flags = SQE_SIGNALED};
    struct sge sge;

    wr.rkey = w->region.key;
    wr.remote_addr = w->region.iova + (int8_t)u8(f);
    wr.remote_srqn = f->xrc_srq[!node]->number;
    sge = kit_sge(f->mr[node][MR_MAPPED], 0, u16(f) % REGION);
    wr.sge = &sge;
    wr.num_sge = wr.op != SQE_FLUSH;
    if (wr.op == SQE_FLUSH)
        wr.flush.placement = FETH_GLOBAL;
    else if (wr.op != SQE_WRITE && wr.op != SQE_READ && wr.op != SQE_WRITE_IMM)
        sge.length = 8;
    kit_post_send(f->qp[node][q], &wr);
    kit_ring(f->qp[node][q]);
}

static void post_recv(struct fuzz *f, unsigned node, unsigned q)
{
    struct sge sge[4];
    unsigned n = u8(f) % 5;

    for (unsigned i = 0; i < n; i++) {
        const struct kit_mr *mr = pick_mr(f, node);

        sge[i] =
            (struct sge){.addr = pick_va(f, mr), .length = pick_len(f), .lkey = mr->region.key};
    }
    if (q == Q_RC_SRQ || q == Q_UD_SRQ)
        kit_srq_post(f->srq[node], f->wr_id++, sge, n);
    else if (q == Q_XRC_SEND || q == Q_XRC_RECV)
        kit_srq_post(f->xrc_srq[node], f->wr_id++, sge, n);
    else
        kit_post_recv(f->qp[node][q], f->wr_id++, sge, n);
}

/* Any bytes as a send queue entry. */
static void post_rubbish(struct fuzz *f, unsigned node, unsigned q)
{
    struct kit_qp *qp = f->qp[node][q];
    uint32_t len = u8(f);

    take_bytes(f, kit_sq_slot(qp), min_of(len, qp->sq_stride));
    kit_publish_send(qp);
    kit_ring(qp);
}

static void set_index(struct fuzz *f, unsigned node, unsigned q)
{
    struct kit_qp *qp = f->qp[node][q];
    uint8_t which = u8(f);
    uint32_t to = u32(f);

    if (which & 2)
        atomic_store(&(which & 4 ? f->srq : f->xrc_srq)[node]->shared->prod, to);
    else
        atomic_store(which & 1 ? &qp->shared->sq_prod : &qp->shared->rq_prod, to);
    kit_ring(qp);
}

static void poll_all(struct fuzz *f, unsigned node)
{
    struct cqe e[16];

    while (kit_poll(f->cq[node], e, ARRAY_SIZE(e)))
        ;
    kit_arm(f->cq[node], CQ_ARM_NEXT);
}

static void deregister(struct fuzz *f, unsigned node)
{
    struct kit_mr *mr = f->mr[node][u8(f) % 2];

    if (mr->region.space) /* still registered */
        kit_mr_deregister(mr);
}

static void join(struct fuzz *f, unsigned node, unsigned q)
{
    uint8_t how = u8(f);
    union gid group = {.raw = {0xff, 0x0e, [15] = how & 3}};

    if ((how & 0xFC) == 0x3C) /* on maps of kept packets, instead */
        engine_qp_agree(f->k->node[node].engine, f->qp[node][q]->qp, how & 1);
    else if (how & 0x40) /* of the shared queue, instead */
        srq_set_limit(f->srq[node]->srq, how & 15);
    else if (how & 0x80)
        engine_mcast_leave(f->k->node[node].engine, f->qp[node][q]->qp, &group);
    else
        engine_mcast_join(f->k->node[node].engine, f->qp[node][q]->qp, &group);
}

/* ---- states ---- */

static void connect(struct fuzz *f, unsigned node, unsigned q, uint8_t mtu, uint32_t psn0,
                    uint32_t psn1)
{
    struct kit_qp *a = f->qp[node][q], *b = f->qp[!node][other_end(q)];
    struct kit_rc rc = {
        .path_mtu = mtu,
        .psn = {psn0, psn1},
        .access = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL,
    };

    if (q == Q_UD || q == Q_UD_SRQ) {
        kit_start_ud(a, FUZZ_QKEY, psn0);
        kit_start_ud(b, FUZZ_QKEY, psn1);
    } else {
        kit_connect(a, b, &rc);
    }
}

/* Both to RESET and connected again, or one to another state. */
static void change_state(struct fuzz *f, unsigned node, unsigned q)
{
    uint8_t how = u8(f);

    if (how & 1) {
        REQUIRE(!kit_modify(f->qp[node][q], QPS_ERR));
        return;
    }
    if (how & 0x80) { /* may be refused */
        kit_modify(f->qp[node][q], how & 0x40 ? QPS_SQD : QPS_RTS);
        return;
    }
    REQUIRE(!kit_modify(f->qp[node][q], QPS_RESET));
    REQUIRE(!kit_modify(f->qp[!node][other_end(q)], QPS_RESET));
    connect(f, node, q, 1 + (how >> 1) % 5, u32(f), u32(f));
}

/* ---- time ---- */

static void pass_time(struct fuzz *f)
{
    uint8_t how = u8(f);

    f->k->now += (ns_t)(1 + (how & 15)) * NS_PER_US << (how >> 4);
    for (unsigned i = 0; i < 2; i++) {
        struct engine *e = f->k->node[i].engine;

        if (engine_next_timer(e) <= f->k->now)
            engine_timers(e, f->k->now);
    }
}

/* ---- a run ---- */

static void step(struct fuzz *f)
{
    uint8_t what = u8(f);
    unsigned node = what >> 7, q = (what >> 4 & 7) % QPS;

    switch (what & 15) {
    case 0:
        return post_send(f, node, q);
    case 1:
        return post_recv(f, node, q);
    case 2:
        return post_rubbish(f, node, q);
    case 3:
        return transmit(f, node);
    case 4:
        return deliver(f);
    case 5:
        return change(f);
    case 6:
        return add_packet(f, node, q);
    case 7:
        return add_bytes(f, node, q);
    case 8:
        return pass_time(f);
    case 9:
        return change_state(f, node, q);
    case 10:
        return set_index(f, node, q);
    case 11:
        return deregister(f, node);
    case 13:
        return bind_window(f, node, q);
    case 14:
        return post_through_window(f, node, q);
    case 15:
        return join(f, node, q);
    default:
        return poll_all(f, node);
    }
}

#define RIGHTS \
    (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL)

static void make_regions(struct fuzz *f, unsigned node)
{
    static const struct {
        uint32_t access;
        enum kit_mr_kind kind;
    } what[MRS] = {
        [MR_MAPPED] = {RIGHTS, KIT_MR_DIRECT},
        [MR_COPIED] = {RIGHTS, KIT_MR_COPY},
        [MR_FAULTY] = {RIGHTS, KIT_MR_COPY},
        [MR_READ_ONLY] = {MEM_REMOTE_READ, KIT_MR_DIRECT},
        [MR_FOREIGN] = {MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC, KIT_MR_DIRECT},
    };
    struct kit_node *n = &f->k->node[node];

    for (unsigned i = 0; i < MRS; i++)
        f->mr[node][i] = kit_mr_create(n, REGION, what[i].access, what[i].kind);
    f->mr[node][MR_FOREIGN]->region.pd = KIT_PD + 1;
    kit_mr_fault(f->mr[node][MR_FAULTY], REGION / 2, 1, node ? -ESRCH : -EFAULT);
    f->bound_from[node] = REGION;
    f->ground[node] =
        kit_mr_create(n, REGION, MEM_LOCAL_WRITE | MEM_MW_BIND, node ? KIT_MR_COPY : KIT_MR_DIRECT);
    for (unsigned i = 0; i < WINDOWS; i++)
        f->window[node][i] = kit_mw_create(n, i ? MEM_WINDOW_2 : MEM_WINDOW_1);
}

static void make_queues(struct fuzz *f, unsigned node)
{
    static const uint8_t types[QPS] = {
        [Q_RC] = QPT_RC,
        [Q_UC] = QPT_UC,
        [Q_UD] = QPT_UD,
        [Q_RC_SRQ] = QPT_RC,
        [Q_XRC_SEND] = QPT_XRC_SEND,
        [Q_XRC_RECV] = QPT_XRC_RECV,
        [Q_UD_SRQ] = QPT_UD,
    };
    struct kit_node *n = &f->k->node[node];

    f->cq[node] = kit_cq_create(n, 64);
    f->srq[node] = kit_srq_create(n, 16, NULL, 0);
    f->xrc_srq[node] = kit_srq_create(n, 16, f->cq[node], XRC_DOMAIN);
    f->ah[node] = kit_ah_create(n, &f->k->node[!node], KIT_GID_V4);
    for (unsigned q = 0; q < QPS; q++)
        f->qp[node][q] = kit_qp_create(n, &(struct kit_qp_config){
                                              .type = types[q],
                                              .sq_size = 16,
                                              .rq_size = 16,
                                              .send_cq = f->cq[node],
                                              .recv_cq = f->cq[node],
                                              .xrcd = XRC_DOMAIN,
                                              .srq = q == Q_RC_SRQ || q == Q_UD_SRQ ? f->srq[node]
                                                     : q == Q_XRC_RECV ? f->xrc_srq[node]
                                                                       : NULL,
                                          });
}

static void check(struct fuzz *f)
{
    static const uint8_t zeroes[REGION];

    for (unsigned i = 0; i < 2; i++) {
        struct kit_node *n = &f->k->node[i];
        const struct engine_counters *c = engine_counters(n->engine);

        REQUIRE(counter_get(&c->rx_delivered) + kit_drops(n) ==
                counter_sum(c->rx_packets, QOS_PRIORITIES));
        REQUIRE(kit_canaries_intact(n));
        REQUIRE(!memcmp(f->mr[i][MR_READ_ONLY]->bytes, zeroes, REGION));
        REQUIRE(!memcmp(f->mr[i][MR_FOREIGN]->bytes, zeroes, REGION));
        REQUIRE(!memcmp(f->ground[i]->bytes, zeroes, f->bound_from[i]));
        REQUIRE(!memcmp(f->ground[i]->bytes + f->bound_to[i], zeroes, REGION - f->bound_to[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz *f = kit_alloc(sizeof(*f));
    enum kit_end end;

    f->p = data;
    f->left = size;
    f->k = kit_create(&(struct kit_config){.seed = 1,
                                           .shared_qp_table = true,
                                           .any_icrc = true,
                                           .reorder = 2,
                                           .trim = FUZZ_TRIM,
                                           .congestion = kit_congestion(3)});
    for (unsigned i = 0; i < 2; i++) {
        make_queues(f, i);
        make_regions(f, i);
    }
    for (unsigned q = 0; q < QPS; q++)
        if (q != Q_XRC_RECV)
            connect(f, 0, q, 3, PSN_MASK - 2, 100);
    connect(f, 1, Q_XRC_SEND, 3, 7, 8);
    for (unsigned steps = 0; f->left && steps < MAX_STEPS; steps++)
        step(f);
    /* Without further input they finish (a receiver may never become ready, though). */
    end = kit_run(f->k, NULL, NULL, 20 * NS_PER_MS);
    REQUIRE(end == KIT_IDLE || end == KIT_BUDGET);
    check(f);
    wire_fini(f);
    kit_destroy(f->k);
    free(f);
    return 0;
}
