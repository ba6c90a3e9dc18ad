/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of received frames: see rx_batch.h. Most frames are in one: WRITE ONLY, SEND ONLY, parts
 * of longer WRITEs, READ requests or responses to READs, each kind for itself, and ACKs one by
 * one. A frame is recognised by comparing its headers with the template of its queue pair, as a
 * whole; what remains to be checked is checked packet by packet. Any unusual frame ends the batch
 * untouched and takes the general path (rx_general.c).
 */
#include "rx_batch.h"
#include "completer.h"
#include "invariant.h"
#include "responder.h"
#include "rx.h"

#define ACK_LEN (HDR_L3_LEN + AETH_LEN)

/* What is verified as a whole before it is placed: placing finds it in the first-level cache. */
#define BATCH_BYTES 16384

static unsigned admit_all(struct rx_batch *b, unsigned n)
{
    return n;
}

static void commit_nothing(struct rx_batch *b, unsigned n)
{
}

/* A request's place in the order is the responder's expected PSN. */
static bool expect_request(const struct qp *qp, psn_t *first)
{
    *first = qp->resp.epsn;
    return true;
}

/* The stages that differ from kind to kind. */
static const struct rx_kind rx_writes = {.expect = expect_request,
                                         .admit = resp_admit_writes,
                                         .place = resp_place_writes,
                                         .commit = resp_commit_batch};
static const struct rx_kind rx_segments = {.expect = expect_request,
                                           .admit = resp_admit_writes,
                                           .place = resp_place_segments,
                                           .commit = resp_commit_batch};
static const struct rx_kind rx_sends = {.expect = expect_request,
                                        .admit = resp_admit_sends,
                                        .place = resp_place_sends,
                                        .commit = resp_commit_batch};
static const struct rx_kind rx_reads = {.expect = expect_request,
                                        .admit = resp_admit_reads,
                                        .place = resp_place_reads,
                                        .commit = resp_commit_read_batch,
                                        .reads = true};
static const struct rx_kind rx_responses = {.expect = comp_expect_response,
                                            .admit = admit_all,
                                            .place = comp_place_responses,
                                            .commit = comp_commit_responses};
static const struct rx_kind rx_acks = {
    .expect = NULL, .admit = admit_all, .place = comp_place_ack, .commit = commit_nothing};

static const struct rx_kind *const kind_of[256] = {
    [OPCODE(PKT_RC, OP_WRITE_ONLY)] = &rx_writes,
    [OPCODE(PKT_RC, OP_WRITE_FIRST)] = &rx_segments,
    [OPCODE(PKT_RC, OP_WRITE_MIDDLE)] = &rx_segments,
    [OPCODE(PKT_RC, OP_WRITE_LAST)] = &rx_segments,
    [OPCODE(PKT_RC, OP_SEND_ONLY)] = &rx_sends,
    [OPCODE(PKT_RC, OP_READ_REQUEST)] = &rx_reads,
    [OPCODE(PKT_RC, OP_READ_RESP_FIRST)] = &rx_responses,
    [OPCODE(PKT_RC, OP_READ_RESP_MIDDLE)] = &rx_responses,
    [OPCODE(PKT_RC, OP_READ_RESP_LAST)] = &rx_responses,
    [OPCODE(PKT_RC, OP_READ_RESP_ONLY)] = &rx_responses,
    [OPCODE(PKT_RC, OP_ACK)] = &rx_acks,
};

/* ---- recognise ---- */

/* A queue pair of e's that may get requests or answers now. */
static bool may_batch(const struct engine *e, const struct qp *qp)
{
    return qp && qp_owner_engine(qp) == e && qp->service == PKT_RC && qp_can_receive(qp) &&
           (qp->state != QPS_RTR || qp->comm_est_raised) && !qp->fault &&
           hdr_template_is_ours(&qp->rx_template, e->cfg.port->gids);
}

/*
 * The headers and sizes that the last frame had. Frames that differ in nothing but their ECN mark
 * have one layout: a congested network marks some frames of a batch, in no pattern that a branch
 * could follow, so the mark selects the head to compare with.
 */
struct rx_layout {
    struct hdr_head head[2];   /* by the low bit of ECN: CE has it, ECT(0) and "not ECT" do not */
    uint32_t frame_len;        /* bytes of a frame; 0: no frame yet */
    uint16_t len, payload_len; /* of the IP packet, of its payload */
    bool alike;                /* the last change was one of the mark alone */
    unsigned limit;            /* frames of this size in a batch */
    unsigned since;            /* the first frame that has it */
};

static inline struct hdr_head *head_of(struct rx_layout *l, const uint8_t *frame)
{
    return &l->head[hdr_traffic_class(frame) & 1];
}

/* Takes the sizes of a frame that matches the template, its header checksum apart. */
static bool layout_make(struct rx_layout *l, const struct rx_batch *b, const struct frame *f)
{
    const uint8_t *frame = f->data, *bth = hdr_bth(frame);
    uint32_t total = hdr_ip_len(frame), rest, len;

    if (kind_of[bth_opcode(bth)] != b->kind)
        return false;
    rest = total - HDR_L3_LEN - (opcode_table[bth_opcode(bth)].header_len - BTH_LEN);
    len = rest - bth_pad(bth);
    l->frame_len = f->len;
    l->len = (uint16_t)total;
    l->payload_len = (uint16_t)len;
    l->limit = max_of(BATCH_BYTES / (total + 1), 1u);
    /* As unsigned numbers, lengths below 0 and 1 are too long. */
    return hdr_template_matches(&b->qp->rx_template, frame) &&
           hdr_lengths_ok(frame, f->len, total) && !(rest & 3) &&
           (b->kind->reads ? !(rest | len) : len - 1 < b->qp->mtu);
}

/* The frames up to `end` had this layout. */
static void layout_account(struct rx_layout *l, struct rx_batch *b, unsigned end)
{
    unsigned frames = end - l->since;

    b->bytes += frames * l->frame_len;
    b->payload += frames * l->payload_len;
    l->since = end;
}

/* Whether a frame has this layout, its mark apart. */
static bool mark_change(struct rx_layout *l, const struct rx_batch *b, const struct frame *f)
{
    if (f->len != l->frame_len ||
        (!hdr_same_but_mark(&l->head[0], f->data) && !hdr_same_but_mark(&l->head[1], f->data)))
        return false;
    return hdr_template_sum_ok(&b->qp->rx_template, f->data);
}

/* Whether a frame has this layout, apart from its mark and fields that vary from packet to packet.
 */
static bool same_layout(const struct rx_layout *l, const struct frame *f)
{
    return f->len == l->frame_len &&
           (hdr_same_layout(&l->head[0], f->data) || hdr_same_layout(&l->head[1], f->data));
}

/*
 * Frame i has other headers than those before: whether it belongs to the batch all the same. The
 * headers may differ in the mark alone; or in fields that vary, as the identification; or the frame
 * has another size.
 */
static __attribute__((noinline)) bool layout_change(struct rx_layout *l, struct rx_batch *b,
                                                    const struct frame *f, unsigned i)
{
    struct hdr_head *head;

    l->alike = mark_change(l, b, f);
    if (!l->alike) {
        if (l->frame_len)
            layout_account(l, b, i);
        if (f->len < ETH_LEN + HDR_L3_LEN)
            return false;
        if (!same_layout(l, f) && !layout_make(l, b, f))
            return false;
        if (!hdr_template_sum_ok(&b->qp->rx_template, f->data))
            return false;
    }
    head = head_of(l, f->data);
    hdr_head_take(head, f->data);
    if (!l->alike)
        hdr_head_clear(&l->head[head == l->head]);
    b->marks |= head == &l->head[1];
    return true;
}

/* PSNs of a packet; a READ request has those of its responses. */
ALWAYS_INLINE uint32_t psns_of(const struct rx_batch *b, const uint8_t *bth, bool reads)
{
    return reads ? packets_for(reth_len(bth + BTH_LEN), b->qp->mtu) : 1;
}

/* How many frames from f on belong to the batch, whose first one has this PSN. Inlined once for
 * READ requests, once for the other kinds. */
ALWAYS_INLINE unsigned recognise_kind(struct rx_batch *b, const struct frame *f, unsigned n,
                                      psn_t first, bool reads)
{
    uint64_t position = bth_position_of(b->qp->qpn, first);
    struct rx_layout l;
    uint32_t frame_len = 0;
    uint16_t len = 0, payload_len = 0;
    unsigned i;

    l.frame_len = l.since = 0;
    hdr_head_clear(&l.head[0]);
    hdr_head_clear(&l.head[1]);
    for (i = 0; i < n; i++) {
        const uint8_t *frame = f[i].data, *bth = hdr_bth(frame);
        bool alike = true;

        if (unlikely(f[i].len != frame_len || !hdr_same(head_of(&l, frame), frame))) {
            if (!layout_change(&l, b, &f[i], i))
                break;
            frame_len = l.frame_len;
            len = l.len;
            payload_len = l.payload_len;
            alike = l.alike;
            n = min_of(n, l.since + l.limit);
        }
        if (bth_position(bth) != position) /* also where PSNs wrap around: a batch ends there */
            break;
        b->span[i] = (struct icrc_span){hdr_l3(frame), len, payload_len, alike};
        position += psns_of(b, bth, reads);
    }
    if (i)
        layout_account(&l, b, i);
    return i;
}

static __attribute__((noinline)) unsigned recognise_reads(struct rx_batch *b, const struct frame *f,
                                                          unsigned n, psn_t first)
{
    return recognise_kind(b, f, n, first, true);
}

/* An ACK or NAK, with any PSN. */
static unsigned recognise_ack(struct rx_batch *b, const struct frame *f)
{
    const struct hdr_template *t = &b->qp->rx_template;

    if (f->len < ETH_LEN + ACK_LEN || hdr_ip_len(f->data) != ACK_LEN || bth_pad(hdr_bth(f->data)) ||
        !hdr_template_matches(t, f->data) || !hdr_template_sum_ok(t, f->data) ||
        !hdr_lengths_ok(f->data, f->len, ACK_LEN))
        return 0;
    b->bytes = f->len;
    b->marks = hdr_is_ce(f->data);
    b->span[0] = (struct icrc_span){.l3 = hdr_l3(f->data), .len = ACK_LEN};
    return 1;
}

static unsigned recognise(struct rx_batch *b, const struct frame *f, unsigned n)
{
    psn_t first;

    b->bytes = b->payload = 0;
    b->marks = false;
    if (b->kind == &rx_acks)
        return recognise_ack(b, f);
    if (!b->kind->expect(b->qp, &first))
        return 0;
    return b->kind->reads ? recognise_reads(b, f, n, first) : recognise_kind(b, f, n, first, false);
}

/* ---- verify ---- */

/* Frames without an ICRC end a batch of those that have one, and the reverse. */
static unsigned verify(const struct rx_batch *b, const struct frame *f, unsigned n)
{
    unsigned i = 0;

    if (b->e->cfg.any_icrc)
        return n;
    while (i < n && f[i].icrc_omitted)
        i++;
    return i ? i : icrc_verify_batch(ICRC_IPV4, b->span, n);
}

/* ---- all stages ---- */

/* Frames from `done` to `found` were recognised, but not placed. */
static void leave_out(struct rx_batch *b, const struct frame *f, unsigned done, unsigned found)
{
    for (unsigned i = done; i < found; i++) {
        b->bytes -= f[i].len;
        b->payload -= b->span[i].payload;
    }
}

/* Frames that the network marked "congestion experienced". */
static unsigned count_ce(const struct frame *f, unsigned n)
{
    unsigned ce = 0;

    while (n-- > 0)
        ce += hdr_is_ce(f[n].data);
    return ce;
}

/* The n frames have one traffic class, apart from ECN. */
static void count(struct rx_batch *b, const struct frame *f, unsigned n)
{
    struct engine_counters *c = &b->e->counters;
    uint8_t priority = qos_frame_priority(VLAN_NONE, hdr_traffic_class(f->data));

    counter_add(&c->rx_packets[priority], n);
    counter_add(&c->rx_bytes[priority], b->bytes);
    counter_add(&c->rx_delivered, n);
    b->ce = b->marks ? count_ce(f, n) : 0;
    rx_count_qp(b->e, b->qp, n, b->payload, b->ce);
    rx_arrived_here(b->qp);
}

unsigned rx_batch(struct engine *e, const struct frame *f, unsigned n, unsigned job,
                  unsigned *verified, unsigned *general)
{
    struct rx_batch b;
    unsigned found, good, done;

    *verified = *general = 0;
    if (f->len < ETH_LEN + HDR_L3_LEN)
        return 0;
    b.kind = kind_of[bth_opcode(hdr_bth(f->data))];
    if (!b.kind)
        return 0;
    b.e = e;
    b.job = job;
    b.messages = 0;
    b.qp = qp_table_lookup(e->cfg.qps, bth_dest_qpn(hdr_bth(f->data)));
    if (!may_batch(e, b.qp))
        return 0;
    found = recognise(&b, f, n);
    if (!found)
        return 0;
    good = verify(&b, f, found);
    done = good ? b.kind->admit(&b, good) : 0;
    if (done)
        done = b.kind->place(&b, done);
    charge_received_faults(e, b.qp);
    invariant(done <= good && good <= found && found <= n);
    leave_out(&b, f, done, found);
    if (done) {
        count(&b, f, done);
        b.kind->commit(&b, done);
    }
    *verified = good - done;
    *general = found - done;
    return done;
}

void rx_batch_prefetch(struct engine *e, const struct frame *f, unsigned n)
{
    /* Mostly all frames of a burst are of one queue pair. */
    if (n < 2 || f[0].len < ETH_LEN + HDR_L3_LEN || f[n - 1].len < ETH_LEN + HDR_L3_LEN ||
        bth_dest_qpn(hdr_bth(f[0].data)) == bth_dest_qpn(hdr_bth(f[n - 1].data)))
        return;
    for (unsigned i = 0; i < n; i++) {
        const struct qp *qp;

        if (f[i].len < ETH_LEN + HDR_L3_LEN)
            continue;
        qp = qp_table_lookup(e->cfg.qps, bth_dest_qpn(hdr_bth(f[i].data)));
        if (!qp)
            continue;
        __builtin_prefetch(qp);
        __builtin_prefetch(&qp->resp);
        __builtin_prefetch(&qp->resp.recv_hint);
        __builtin_prefetch(&qp->rx_template);
        __builtin_prefetch(&qp->counters);
    }
}
