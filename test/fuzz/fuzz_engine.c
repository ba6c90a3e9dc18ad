/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport engine, driven by a program in the input's bytes: two engines with a connected
 * queue pair each, whose applications post anything and whose wire delivers, changes, repeats and
 * loses frames, adds packets of any kind, and lets time pass. Outer headers and ICRC are no
 * obstacle, so that the bytes reach the state machines. Whatever happens, no byte outside the
 * regions that allow it may change, every received frame is counted once, and nothing hangs.
 *
 * A program is a list of steps: one byte that selects the step and the node, then the step's own
 * bytes (missing ones are 0). make_corpus.py writes such programs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_STEPS   400
#define WIRE_FRAMES 64
#define REGION      8192
#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition))                                                  \
            kit_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* Regions of each node. Nothing may ever change the last two. */
enum { MR_MAPPED, MR_COPIED, MR_FAULTY, MR_READ_ONLY, MR_FOREIGN, MRS };

struct wire_frame {
    uint8_t *data;
    uint32_t len;
    unsigned from;
};

struct fuzz {
    const uint8_t *p;
    size_t left;
    struct kit *k;
    struct kit_qp *qp[2];
    struct kit_mr *mr[2][MRS];
    struct wire_frame wire[WIRE_FRAMES]; /* a ring */
    unsigned wire_head, wire_tail;
    uint64_t wr_id;
};

/* ---- input ---- */

static uint8_t u8(struct fuzz *f)
{
    if (!f->left)
        return 0;
    f->left--;
    return *f->p++;
}

static uint16_t u16(struct fuzz *f)
{
    uint16_t low = u8(f);

    return (uint16_t)(low | u8(f) << 8);
}

static uint32_t u32(struct fuzz *f)
{
    uint32_t low = u16(f);

    return low | (uint32_t)u16(f) << 16;
}

static uint32_t take_bytes(struct fuzz *f, uint8_t *out, uint32_t len)
{
    uint32_t n = (uint32_t)min_of((size_t)len, f->left);

    memcpy(out, f->p, n);
    f->p += n;
    f->left -= n;
    return n;
}

/* A place in a node's memory: usually inside a region, sometimes anywhere. */
static struct kit_mr *pick_mr(struct fuzz *f, unsigned node)
{
    return f->mr[node][u8(f) % MRS];
}

static uint64_t pick_va(struct fuzz *f, const struct kit_mr *mr)
{
    uint16_t off = u16(f);

    return off >= 0xFFF0 ? -(uint64_t)(off & 15) : kit_va(mr, off % (REGION + 64));
}

static uint32_t pick_len(struct fuzz *f)
{
    uint16_t len = u16(f);

    return len >= 0xFFF0 ? UINT32_MAX << (len & 15) : len % (REGION + 64);
}

/* ---- the applications ---- */

static void post_send(struct fuzz *f, unsigned node)
{
    uint8_t inlined[256] = {0};
    struct sge sge[4];
    struct kit_send wr = {.wr_id = f->wr_id++, .sge = sge, .inline_data = inlined};
    struct kit_mr *remote;

    wr.op = u8(f) % 18;
    wr.flags = u8(f) & 0x1F;
    wr.num_sge = wr.flags & SQE_INLINE ? 0 : u8(f) % 5;
    wr.inline_len = wr.flags & SQE_INLINE ? u8(f) : 0;
    wr.imm = f->left;
    remote = pick_mr(f, !node);
    wr.rkey = remote->region.key;
    wr.remote_addr = pick_va(f, remote);
    for (unsigned i = 0; i < wr.num_sge; i++) {
        const struct kit_mr *mr = pick_mr(f, node);

        sge[i] =
            (struct sge){.addr = pick_va(f, mr), .length = pick_len(f), .lkey = mr->region.key};
    }
    if (wr.op == SQE_FETCH_ADD || wr.op == SQE_CMP_SWP)
        sge[0].length = 8;
    /* The slot has room for what the kit lays down; a longer inline length is what it lies about.
     */
    if (wr.inline_len > f->qp[node]->max_inline)
        wr.inline_len = f->qp[node]->max_inline;
    kit_post_send(f->qp[node], &wr);
    kit_ring(f->qp[node]);
}

static void post_recv(struct fuzz *f, unsigned node)
{
    struct sge sge[4];
    unsigned n = u8(f) % 5;

    for (unsigned i = 0; i < n; i++) {
        const struct kit_mr *mr = pick_mr(f, node);

        sge[i] =
            (struct sge){.addr = pick_va(f, mr), .length = pick_len(f), .lkey = mr->region.key};
    }
    kit_post_recv(f->qp[node], f->wr_id++, sge, n);
}

/* Any bytes as a send queue entry. */
static void post_rubbish(struct fuzz *f, unsigned node)
{
    struct kit_qp *qp = f->qp[node];
    uint32_t len = u8(f);

    take_bytes(f, kit_sq_slot(qp), min_of(len, qp->sq_stride));
    kit_publish_send(qp);
    kit_ring(qp);
}

static void set_index(struct fuzz *f, unsigned node)
{
    struct kit_qp *qp = f->qp[node];

    atomic_store(u8(f) & 1 ? &qp->shared->sq_prod : &qp->shared->rq_prod, u32(f));
    kit_ring(qp);
}

static void poll_all(struct fuzz *f, unsigned node)
{
    struct cqe e[16];

    while (kit_poll(f->qp[node]->send_cq, e, ARRAY_SIZE(e)))
        ;
    kit_arm(f->qp[node]->send_cq, CQ_ARM_NEXT);
}

static void deregister(struct fuzz *f, unsigned node)
{
    struct kit_mr *mr = f->mr[node][u8(f) % 2];

    if (mr->region.space) /* still registered */
        kit_mr_deregister(mr);
}

/* Both to RESET or one to ERR, and connected again. */
static void change_state(struct fuzz *f, unsigned node)
{
    uint8_t how = u8(f);

    if (how & 1) {
        REQUIRE(!kit_modify(f->qp[node], QPS_ERR));
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        REQUIRE(!kit_modify(f->qp[i], QPS_RESET));
    kit_connect(f->qp[0], f->qp[1],
                &(struct kit_rc){.path_mtu = 1 + (how >> 1) % 5, .psn = {u32(f), u32(f)}});
}

/* ---- the wire ---- */

static void wire_put(struct fuzz *f, unsigned from, const uint8_t *data, uint32_t len)
{
    struct wire_frame *w = &f->wire[f->wire_tail % WIRE_FRAMES];

    if (f->wire_tail - f->wire_head == WIRE_FRAMES)
        return; /* lost */
    /* Exactly the frame's size: a read beyond it is seen. */
    *w = (struct wire_frame){.data = kit_alloc(len), .len = len, .from = from};
    memcpy(w->data, data, len);
    f->wire_tail++;
}

static void deliver_now(struct fuzz *f, unsigned to, uint8_t *data, uint32_t len)
{
    struct frame frame = {.data = data, .len = len};

    engine_rx(f->k->node[to].engine, &frame, 1, f->k->now);
}

static void transmit(struct fuzz *f, unsigned node)
{
    struct frame frame[FRAME_BURST];
    unsigned n = 1 + u8(f) % FRAME_BURST, got;

    for (unsigned i = 0; i < n; i++)
        frame[i] = (struct frame){.data = f->k->node[node].tx[i], .room = KIT_FRAME_ROOM};
    got = engine_tx(f->k->node[node].engine, frame, n, f->k->now);
    REQUIRE(got <= n);
    for (unsigned i = 0; i < got; i++)
        wire_put(f, node, frame[i].data, frame[i].len);
}

enum { KEEP = 1, LOSE = 2, BURST = 4 };

/* The oldest frames: delivered in one burst, lost, or kept to come again. */
static void deliver(struct fuzz *f)
{
    uint8_t how = u8(f);
    unsigned most = how & BURST ? FRAME_BURST : 1, n = 0;
    unsigned from = f->wire[f->wire_head % WIRE_FRAMES].from;
    struct frame frame[FRAME_BURST];

    for (unsigned i = f->wire_head; i != f->wire_tail && n < most; i++) {
        struct wire_frame *w = &f->wire[i % WIRE_FRAMES];

        if (w->from != from)
            break;
        frame[n++] = (struct frame){.data = w->data, .len = w->len};
    }
    if (n && !(how & LOSE))
        engine_rx(f->k->node[!from].engine, frame, n, f->k->now);
    if (how & KEEP)
        return;
    f->wire_head += n;
    for (unsigned i = 0; i < n; i++)
        free(frame[i].data);
}

/* Changes bytes of the oldest frame, from the BTH on or anywhere. */
static void change(struct fuzz *f)
{
    struct wire_frame *w = &f->wire[f->wire_head % WIRE_FRAMES];
    unsigned changes = 1 + u8(f) % 4;

    while (changes-- && f->wire_head != f->wire_tail) {
        uint16_t at = u16(f);
        uint32_t from = at & 0x8000 ? 0 : min_of(42u, w->len - 1);

        w->data[from + at % (w->len - from)] ^= u8(f);
    }
}

/* ---- packets out of nothing ---- */

static psn_t near_psn(const struct fuzz *f, unsigned to, bool request, int8_t delta)
{
    struct qp_attr attr;

    engine_qp_query(f->qp[to]->qp, &attr);
    return psn((request ? attr.rq_psn : attr.sq_psn) + (uint32_t)delta);
}

/* A packet with sound headers for the queue pair of node `to`. */
static void add_packet(struct fuzz *f, unsigned to)
{
    static uint8_t frame[KIT_FRAME_ROOM], payload[PKT_MTU_MAX];
    struct pkt p = {.opcode = u8(f), .pkey = PKEY_DEFAULT, .dest_qpn = f->qp[to]->qpn};
    const struct opcode_info *info = pkt_info(&p);
    const struct kit_mr *mr;
    uint8_t bits = u8(f);

    if (!opcode_is_defined(p.opcode))
        return;
    p.ack_req = bits & 1;
    p.solicited = bits & 2;
    p.psn = near_psn(f, to, info->flags & PF_REQUEST, (int8_t)u8(f));
    p.payload_len = info->flags & PF_PAYLOAD ? u16(f) % (PKT_MTU_MAX + 1) : 0;
    if (!(info->flags & PF_END)) /* FIRST and MIDDLE carry no pad */
        p.payload_len &= ~3u;
    if (info->payload_fix)
        p.payload_len = info->payload_fix;
    mr = pick_mr(f, to);
    p.reth.rkey = p.atomic.rkey = mr->region.key;
    p.reth.va = p.atomic.va = pick_va(f, mr);
    p.reth.len = pick_len(f);
    p.aeth.syndrome = u8(f);
    p.aeth.msn = u8(f);
    deliver_now(f, to, frame, kit_frame_build(frame, f->qp[!to], &p, payload));
}

enum { FIX_PSN = 1, FIX_KEY = 2 };

/* Any bytes from the BTH on, with the queue pair's number and, if wanted, a PSN and key that fit.
 */
static void add_bytes(struct fuzz *f, unsigned to)
{
    static uint8_t frame[KIT_FRAME_ROOM];
    struct encap_template t;
    uint8_t fix = u8(f);
    int8_t delta = (int8_t)u8(f);
    uint8_t *bth;
    uint32_t len;

    if (encap_template_make(&t, qp_address_vector(f->qp[!to]->qp)))
        return;
    bth = frame + t.len;
    memset(bth, 0, BTH_LEN + ICRC_LEN);
    len = u16(f);
    len = take_bytes(f, bth, min_of(len, (uint32_t)(BTH_LEN + PKT_MTU_MAX)));
    len = max_of(len, (uint32_t)BTH_LEN) + ICRC_LEN;
    encap_tx(frame, &t, len, 0);
    put_be24(bth + 5, f->qp[to]->qpn);
    if (fix & FIX_PSN)
        put_be24(bth + 9, near_psn(f, to, opcode_table[bth[0]].flags & PF_REQUEST, delta).v);
    if ((fix & FIX_KEY) && len >= BTH_LEN + 16) {
        put_be64(bth + 12, kit_va(f->mr[to][MR_MAPPED], get_be64(bth + 12) % REGION));
        put_be32(bth + 20, f->mr[to][MR_MAPPED]->region.key);
    }
    deliver_now(f, to, frame, t.len + len);
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
    unsigned node = what >> 7;

    switch (what & 15) {
    case 0:
        return post_send(f, node);
    case 1:
        return post_recv(f, node);
    case 2:
        return post_rubbish(f, node);
    case 3:
        return transmit(f, node);
    case 4:
        return deliver(f);
    case 5:
        return change(f);
    case 6:
        return add_packet(f, node);
    case 7:
        return add_bytes(f, node);
    case 8:
        return pass_time(f);
    case 9:
        return change_state(f, node);
    case 10:
        return set_index(f, node);
    case 11:
        return deregister(f, node);
    default:
        return poll_all(f, node);
    }
}

static void make_regions(struct fuzz *f, unsigned node)
{
    static const struct {
        uint32_t access;
        enum kit_mr_kind kind;
    } what[MRS] = {
        [MR_MAPPED] = {MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
                       KIT_MR_DIRECT},
        [MR_COPIED] = {MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
                       KIT_MR_COPY},
        [MR_FAULTY] = {MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
                       KIT_MR_COPY},
        [MR_READ_ONLY] = {MEM_REMOTE_READ, KIT_MR_DIRECT},
        [MR_FOREIGN] = {MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC, KIT_MR_DIRECT},
    };

    for (unsigned i = 0; i < MRS; i++)
        f->mr[node][i] = kit_mr_create(&f->k->node[node], REGION, what[i].access, what[i].kind);
    f->mr[node][MR_FOREIGN]->region.pd = KIT_PD + 1;
    kit_mr_fault(f->mr[node][MR_FAULTY], REGION / 2, 1, node ? -ESRCH : -EFAULT);
}

static void check(struct fuzz *f)
{
    static const uint8_t zeroes[REGION];

    for (unsigned i = 0; i < 2; i++) {
        struct kit_node *n = &f->k->node[i];
        const struct engine_counters *c = engine_counters(n->engine);

        REQUIRE(counter_get(&c->rx_delivered) + kit_drops(n) == counter_get(&c->rx_packets));
        REQUIRE(kit_canaries_intact(n));
        REQUIRE(!memcmp(f->mr[i][MR_READ_ONLY]->bytes, zeroes, REGION));
        REQUIRE(!memcmp(f->mr[i][MR_FOREIGN]->bytes, zeroes, REGION));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {.p = data, .left = size};
    enum kit_end end;

    f.k = kit_create(&(struct kit_config){.seed = 1, .shared_qp_table = true, .any_icrc = true});
    for (unsigned i = 0; i < 2; i++) {
        f.qp[i] =
            kit_qp_create(&f.k->node[i], &(struct kit_qp_config){.sq_size = 16, .rq_size = 16});
        make_regions(&f, i);
    }
    kit_connect(f.qp[0], f.qp[1], &(struct kit_rc){.psn = {PSN_MASK - 2, 100}});
    for (unsigned steps = 0; f.left && steps < MAX_STEPS; steps++)
        step(&f);
    /* Left alone they go on in peace (a receiver may never become ready, though). */
    end = kit_run(f.k, NULL, NULL, 20 * NS_PER_MS);
    REQUIRE(end == KIT_IDLE || end == KIT_BUDGET);
    check(&f);
    while (f.wire_head != f.wire_tail)
        free(f.wire[f.wire_head++ % WIRE_FRAMES].data);
    kit_destroy(f.k);
    return 0;
}
