/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs: frames in a row that are the next ones of one connection, all WRITE ONLY, all SEND ONLY,
 * all parts of longer WRITEs, all READs or all responses to READs (rx_read.c), which most frames
 * are. A frame is recognised by comparing it with what its queue pair expects, headers as a whole;
 * then the ICRCs are verified; then the checks of resp_check.c that this leaves open are made for
 * each, and it is executed. What that means for the queue pair, its acknowledge and the counters is
 * written once, at the end. Whatever is out of the ordinary (another PSN, memory that is not
 * mapped, something wrong) ends the run before anything was done about it, and goes the general
 * way. Acknowledges are recognised likewise, one by one.
 */
#include "rx_run.h"
#include "encap_layout.h"
#include "mem_memcpy.h"

#define AETH_LEN  4
#define ACK_LEN   (L3_HEADERS + AETH_LEN)
#define NEXT_MASK UINT64_C(0x00FFFFFF00FFFFFF) /* QPN and PSN in bytes 4 to 11 of the BTH */

#define WRITE_ONLY OPCODE(PKT_RC, OP_WRITE_ONLY)
#define SEND_ONLY  OPCODE(PKT_RC, OP_SEND_ONLY)

#define ACK OPCODE(PKT_RC, OP_ACK)

static const uint8_t kinds[256] = {
    [WRITE_ONLY] = RUN_WRITES,
    [SEND_ONLY] = RUN_SENDS,
    [OPCODE(PKT_RC, OP_WRITE_FIRST)] = RUN_PARTS,
    [OPCODE(PKT_RC, OP_WRITE_MIDDLE)] = RUN_PARTS,
    [OPCODE(PKT_RC, OP_WRITE_LAST)] = RUN_PARTS,
    [OPCODE(PKT_RC, OP_READ_RESP_FIRST)] = RUN_RESPONSES,
    [OPCODE(PKT_RC, OP_READ_RESP_MIDDLE)] = RUN_RESPONSES,
    [OPCODE(PKT_RC, OP_READ_RESP_LAST)] = RUN_RESPONSES,
    [OPCODE(PKT_RC, OP_READ_RESP_ONLY)] = RUN_RESPONSES,
    [OPCODE(PKT_RC, OP_READ_REQUEST)] = RUN_READS,
    [ACK] = RUN_ACK,
};

/* Verified as a whole before they are executed, which is to find them in the first cache. */
#define RUN_BYTES 16384

/* A queue pair of e's that may get such requests now. */
static bool may_run(const struct engine *e, const struct qp *qp)
{
    return qp && qp_engine(qp) == e && qp->service == PKT_RC && qp_can_receive(qp) &&
           (qp->state != QPS_RTR || qp->comm_est_told) && !qp->fault &&
           encap_expect_is_ours(&qp->expect, e->cfg.port->gids);
}

/* Frames of one size and opcode, as the last one was. */
struct shape {
    struct encap_head head;
    uint32_t frame;        /* bytes of a frame */
    struct icrc_size size; /* of the packet, and its payload */
    unsigned most;         /* how many are executed at a time */
};

/* The shape of a frame that has what is expected, but for the header checksum. */
static bool new_shape(struct shape *s, const struct run *r, const struct frame *f)
{
    const uint8_t *b = f->data;
    uint32_t total = get_be16(b + 16), rest, len;

    if (kinds[b[BTH]] != r->kind)
        return false;
    rest = total - L3_HEADERS - (opcode_table[b[BTH]].header_len - BTH_LEN);
    len = rest - (b[BTH + 1] >> 4 & 3); /* without its pad */
    s->frame = f->len;
    s->size = (struct icrc_size){.len = (uint16_t)total, .own = (uint16_t)len};
    s->most = RUN_BYTES >> (32 - __builtin_clz(total | 1));
    /* As unsigned numbers, lengths below 0 and 1 are too long. */
    return encap_alike(&r->qp->expect, b) && encap_alike_length(b, f->len, total) && !(rest & 3) &&
           (r->kind == RUN_READS ? !(rest | len) : len - 1 < r->qp->mtu);
}

/* For a frame that does not begin as the one before: whether it is expected all the same. */
static __attribute__((noinline)) bool another(struct shape *s, const struct run *r,
                                              const struct frame *f)
{
    if (f->len < ETH_LEN + L3_HEADERS)
        return false;
    if ((f->len != s->frame || !encap_same_shape(&s->head, f->data)) && !new_shape(s, r, f))
        return false;
    encap_head_take(&s->head, f->data);
    return encap_alike_sum(&r->qp->expect, f->data);
}

static void account(struct run *r, const struct shape *s, unsigned frames)
{
    r->bytes += frames * s->frame;
    r->payload += frames * s->size.own;
}

/* How many PSNs a packet takes; a READ's request takes those of its responses. */
ALWAYS_INLINE uint32_t psns(const struct run *r, const uint8_t *bth, bool reads)
{
    return reads ? packets_for(get_be32(bth + BTH_LEN + 12), r->qp->mtu) : 1;
}

/* How many frames from f on are the next ones of the run, of which the first has this PSN. Inlined
 * once for requests of READs, once for the others. */
ALWAYS_INLINE unsigned recognise_by(struct run *r, const struct frame *f, unsigned n, psn_t first,
                                    bool reads)
{
    uint64_t next = (uint64_t)r->qp->qpn << 32 | first.v;
    struct shape s = {.frame = 0}; /* no frame's */
    unsigned i, since = 0;

    r->bytes = r->payload = 0;
    for (i = 0; i < n; i++) {
        const uint8_t *b = f[i].data;

        s.size.alike = true;
        if (unlikely(f[i].len != s.frame || !encap_begins_same(&s.head, b))) {
            account(r, &s, i - since);
            since = i;
            if (!another(&s, r, &f[i]))
                break;
            s.size.alike = false;
            n = min_of(n, i + s.most);
        }
        if ((get_be64(b + BTH + 4) & NEXT_MASK) != next)
            break;
        r->span[i] = (struct icrc_span){b + ETH_LEN, s.size};
        next = (next + psns(r, b + BTH, reads)) & NEXT_MASK;
    }
    account(r, &s, i - since);
    return i;
}

static __attribute__((noinline)) unsigned recognise_reads(struct run *r, const struct frame *f,
                                                          unsigned n, psn_t first)
{
    return recognise_by(r, f, n, first, true);
}

static unsigned recognise(struct run *r, const struct frame *f, unsigned n, psn_t first)
{
    return r->kind == RUN_READS ? recognise_reads(r, f, n, first)
                                : recognise_by(r, f, n, first, false);
}

/* What has none ends a run of those that have; the general way knows of both. */
static unsigned verify(const struct run *r, const struct frame *f, unsigned n)
{
    unsigned i = 0;

    if (r->e->cfg.any_icrc)
        return n;
    while (i < n && f[i].icrc_omitted)
        i++;
    return i ? i : icrc_verify_batch(ICRC_IPV4, r->span, n);
}

static struct grant look_up(const struct run *r, struct mr_hint *hint, uint32_t key,
                            uint32_t access)
{
    return grant_find(r->e, r->qp, hint, key, access);
}

/* Whether the first of the WRITEs, or of their parts, goes to mapped memory. */
static bool may_write(struct run *r)
{
    const uint8_t *bth = r->span[0].l3 + (BTH - ETH_LEN);
    struct responder *resp = &r->qp->resp;

    if (!(r->qp->access & MEM_REMOTE_WRITE))
        return false;
    r->first = look_up(r, &resp->write_hint,
                       opcode_table[bth[0]].flags & PF_RETH ? get_be32(bth + BTH_LEN + 8)
                                                            : resp->write_rkey,
                       MEM_REMOTE_WRITE);
    return r->first.direct;
}

/* Executes n WRITEs; how many of them could be. */
static unsigned run_writes(struct run *r, unsigned n)
{
    struct mr_hint *hint = &r->qp->resp.write_hint;
    struct grant g = r->first;
    unsigned i;

    if (r->qp->resp.op != RESP_IDLE)
        return 0;
    for (i = 0; i < n; i++) {
        const uint8_t *reth = r->span[i].l3 + (BTH - ETH_LEN + BTH_LEN);
        uint32_t len = r->span[i].size.own, key = get_be32(reth + 8);
        uint8_t *to;

        if (unlikely(key != g.key))
            g = look_up(r, hint, key, MEM_REMOTE_WRITE);
        to = grant_place(&g, get_be64(reth), len);
        if (unlikely(!to || get_be32(reth + 12) != len))
            break;
        put(to, reth + RETH_LEN, len);
    }
    r->qp->resp.msn += i;
    return i;
}

/* FIRST: whether all that the WRITE is for may be written, and this is a part of it. */
static bool start_write(struct run *r, struct grant *g, const uint8_t *reth, uint32_t len)
{
    struct responder *resp = &r->qp->resp;
    uint32_t key = get_be32(reth + 8), all = get_be32(reth + 12);

    *g = look_up(r, &resp->write_hint, key, MEM_REMOTE_WRITE);
    if (resp->op != RESP_IDLE || all > MESSAGE_MAX || all <= len ||
        !grant_place(g, get_be64(reth), all))
        return false;
    resp->msg_len = 0;
    resp->write_va = get_be64(reth);
    resp->write_rkey = key;
    resp->write_left = all;
    return true;
}

/* Executes one of the packets of a longer WRITE, of which all but the last are full. */
static bool run_part(struct run *r, struct grant *g, const uint8_t *bth, uint32_t len)
{
    struct responder *resp = &r->qp->resp;
    uint16_t flags = opcode_table[bth[0]].flags;
    const uint8_t *payload = bth + opcode_table[bth[0]].header_len;
    uint8_t *to;

    if (flags & PF_START) {
        if (len != r->qp->mtu || !start_write(r, g, bth + BTH_LEN, len))
            return false;
    } else if (resp->op != RESP_WRITE) {
        return false;
    } else if (flags & PF_END ? len != resp->write_left
                              : len != r->qp->mtu || len >= resp->write_left) {
        return false;
    }
    if (g->key != resp->write_rkey)
        *g = look_up(r, &resp->write_hint, resp->write_rkey, MEM_REMOTE_WRITE);
    to = grant_place(g, resp->write_va, len);
    if (!to)
        return false;
    memcpy(to, payload, len);
    resp->op = flags & PF_END ? RESP_IDLE : RESP_WRITE;
    resp->msn += flags & PF_END ? 1 : 0;
    resp->write_va += len;
    resp->write_left -= len;
    resp->msg_len += len;
    return true;
}

static unsigned run_parts(struct run *r, unsigned n)
{
    struct grant g = r->first;
    unsigned i = 0;

    while (i < n && run_part(r, &g, r->span[i].l3 + (BTH - ETH_LEN), r->span[i].size.own))
        i++;
    return i;
}

/* Looks at the receive entry at `index`, each word once; it is taken only if all is good. */
ALWAYS_INLINE uint8_t *recv_place(const struct run *r, struct grant *g, const struct work_queue *rq,
                                  uint32_t index, uint32_t len, uint64_t *wr_id)
{
    const volatile uint64_t *entry =
        (const volatile uint64_t *)(rq->ring + (size_t)(index & (rq->size - 1)) * rq->stride);
    uint64_t num_sge, addr, sge;
    uint32_t key;

    *wr_id = entry[0];
    num_sge = entry[1];
    addr = entry[2];
    sge = entry[3]; /* length and key */
    key = (uint32_t)(sge >> 32);
    if ((uint32_t)num_sge != 1 || (uint32_t)sge < len || (uint32_t)sge > UINT32_C(1) << 31)
        return NULL;
    if (unlikely(key != g->key))
        *g = look_up(r, &r->qp->resp.recv_hint, key, MEM_LOCAL_WRITE);
    return grant_place(g, addr, len);
}

/* What its receive completions have in common. */
static struct cqe completion(const struct run *r)
{
    return (struct cqe){
        .timestamp = r->e->now,
        .qpn = r->qp->qpn,
        .src_qpn = r->qp->dest_qpn,
        .uidx = r->qp->uidx,
        .status = WC_SUCCESS,
        .opcode = WC_RECV,
        .sl = r->qp->av.sl,
        .vlan = VLAN_NONE,
    };
}

/* How many of n SENDs have a receive entry, and room for its completion. What waits for its bytes
 * to be written completes before them. */
static unsigned entries(const struct run *r, unsigned n)
{
    const struct responder *resp = &r->qp->resp;
    int pending;

    if (r->qp->srq || resp->op != RESP_IDLE || resp->recv_busy || !resp->rq.max_sge ||
        r->e->completions || r->e->batch.n)
        return 0;
    pending = work_queue_pending(&resp->rq);
    n = pending > 0 ? min_of(n, (unsigned)pending) : 0;
    return n ? cq_room(r->qp->recv_cq, r->e->cfg.lane, n) : 0;
}

/* Executes n SENDs; how many of them could be. */
static unsigned run_sends(struct run *r, unsigned n)
{
    struct comp_queue *cq = r->qp->recv_cq;
    const struct work_queue rq = r->qp->resp.rq;
    struct cqe like = completion(r);
    struct grant g = {.direct = NULL};
    struct cq_batch run;
    uint8_t flags = 0;
    uint32_t i;

    run = cq_batch_begin(cq, r->e->cfg.lane);
    for (i = 0; i < n; i++) {
        const uint8_t *bth = r->span[i].l3 + (BTH - ETH_LEN);
        uint32_t len = r->span[i].size.own;
        struct cqe *c = cq_batch_entry(&run);
        uint64_t wr_id;
        uint8_t *to = recv_place(r, &g, &rq, rq.cons + i, len, &wr_id);

        if (unlikely(!to))
            break;
        put(to, bth + BTH_LEN, len);
        memcpy(c, &like, offsetof(struct cqe, seq));
        c->wr_id = wr_id;
        c->byte_len = len;
        c->wqe = rq.cons + i;
        flags |= bth[1];
        cq_batch_give(&run, c);
    }
    r->qp->resp.rq.cons += i;
    r->qp->resp.msn += i;
    engine_post_run(r->e, cq, &run, flags >> 7);
    return i;
}

/* Of n frames, which all have the same traffic class. */
static void count(const struct run *r, const struct frame *f, unsigned n)
{
    struct engine_counters *c = &r->e->counters;
    uint8_t priority = qos_frame_priority(VLAN_NONE, f->data[15]);

    counter_add(&c->rx_packets[priority], n);
    counter_add(&c->rx_bytes[priority], r->bytes);
    counter_add(&c->rx_delivered, n);
    counter_add(&r->qp->counters.rx_packets, n);
    counter_add(&r->qp->counters.rx_bytes, r->payload);
    if (unlikely(r->qp->misplaced_count)) /* they come here by themselves */
        r->qp->misplaced_count = 0;
}

/* The last one that asks for an acknowledge gets it: all before it are acknowledged thereby. */
static void acknowledge(struct run *r, unsigned n)
{
    struct responder *resp = &r->qp->resp;

    if (resp->syndrome != AETH_ACK_PLAIN) /* a NAK that was not sent yet is void */
        resp->ack_pending = false;
    while (n-- > 0) {
        const uint8_t *bth = r->span[n].l3 + (BTH - ETH_LEN);

        if (!(bth[8] & 0x80))
            continue;
        resp->ack_pending = true;
        resp->syndrome = AETH_ACK_PLAIN;
        resp->ack_psn = psn(get_be24(bth + 9));
        engine_tx_ready(r->e, r->qp);
        return;
    }
}

/* n of the frames, which are requests, were executed. */
static void accept_run(struct run *r, unsigned n)
{
    struct responder *resp = &r->qp->resp;

    resp->epsn = psn_add(resp->epsn, n);
    resp->nak_sent = false;
    acknowledge(r, n);
}

/* An acknowledge, of any kind and with any PSN. */
static bool ack(struct run *r, const struct frame *f, unsigned job)
{
    const uint8_t *b = f->data, *bth = b + BTH;
    struct encap_expect *x = &r->qp->expect;
    struct pkt *p = &r->e->rx_job[job].pkt;

    if (f->len < ETH_LEN + ACK_LEN || get_be16(b + 16) != ACK_LEN || (bth[1] & 0x30) ||
        !encap_alike(x, b) || !encap_alike_sum(x, b) || !encap_alike_length(b, f->len, ACK_LEN))
        return false;
    r->bytes = f->len;
    r->payload = 0;
    r->span[0] = (struct icrc_span){b + ETH_LEN, {.len = ACK_LEN}};
    if (!verify(r, f, 1))
        return false;
    count(r, f, 1);
    p->opcode = ACK;
    p->psn = psn(get_be24(bth + 9));
    p->aeth.syndrome = bth[BTH_LEN];
    p->aeth.msn = get_be24(bth + BTH_LEN + 1);
    p->payload_len = 0;
    comp_rx(r->e, r->qp, job);
    return true;
}

/* The PSN of the next packet of the run; false: none is expected, or nothing simple. */
static bool first_psn(const struct run *r, psn_t *first)
{
    *first = r->kind == RUN_RESPONSES ? r->qp->req.una : r->qp->resp.epsn;
    return r->kind != RUN_RESPONSES || rx_read_waits(r->qp);
}

/* How many of n may be executed here, as far as their contents need not be believed for that. */
static unsigned executable(struct run *r, unsigned n)
{
    switch (r->kind) {
    case RUN_RESPONSES:
        return n;
    case RUN_READS:
        return rx_read_room(r->qp, n);
    case RUN_SENDS:
        return entries(r, n);
    default:
        return may_write(r) ? n : 0;
    }
}

static unsigned execute(struct run *r, unsigned n)
{
    switch (r->kind) {
    case RUN_WRITES:
        return run_writes(r, n);
    case RUN_SENDS:
        return run_sends(r, n);
    case RUN_RESPONSES:
        return rx_read_responses(r, n);
    case RUN_READS:
        return rx_read_requests(r, n);
    default:
        return run_parts(r, n);
    }
}

unsigned rx_run(struct engine *e, const struct frame *f, unsigned n, unsigned job,
                unsigned *general)
{
    struct run r;
    unsigned found, done;
    psn_t first;

    *general = 0;
    if (f->len < ETH_LEN + L3_HEADERS)
        return 0;
    r.kind = kinds[f->data[BTH]];
    if (r.kind == RUN_NONE)
        return 0;
    r.e = e;
    r.qp = qp_table_lookup(e->cfg.qps, get_be24(f->data + BTH + 5));
    if (!may_run(e, r.qp))
        return 0;
    if (r.kind == RUN_ACK)
        return ack(&r, f, job);
    if (!first_psn(&r, &first))
        return 0;
    found = recognise(&r, f, n, first);
    if (!found)
        return 0;
    done = executable(&r, found);
    if (done)
        done = execute(&r, verify(&r, f, done));
    for (unsigned i = done; i < found; i++) {
        r.bytes -= f[i].len;
        r.payload -= r.span[i].size.own;
    }
    if (done)
        count(&r, f, done);
    if (done && r.kind < RUN_READS)
        accept_run(&r, done);
    *general = found - done;
    return done;
}

void rx_run_prefetch(struct engine *e, const struct frame *f, unsigned n)
{
    const uint8_t *qpn = f[0].data + BTH + 5;

    /* Mostly all of a burst are of one. */
    if (n < 2 || f[0].len < ETH_LEN + L3_HEADERS || f[n - 1].len < ETH_LEN + L3_HEADERS ||
        get_be24(qpn) == get_be24(f[n - 1].data + BTH + 5))
        return;
    for (unsigned i = 0; i < n; i++) {
        const struct qp *qp;

        if (f[i].len < ETH_LEN + L3_HEADERS)
            continue;
        qp = qp_table_lookup(e->cfg.qps, get_be24(f[i].data + BTH + 5));
        if (!qp)
            continue;
        __builtin_prefetch(qp);
        __builtin_prefetch(&qp->resp);
        __builtin_prefetch(&qp->resp.recv_hint);
        __builtin_prefetch(&qp->expect);
        __builtin_prefetch(&qp->counters);
    }
}
