/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of received frames: see rx_batch.h. Most frames are in one: WRITE ONLY, SEND ONLY, parts
 * of longer WRITEs, READ requests or responses to READs, atomics or their results, ATOMIC WRITEs,
 * FLUSHes, datagrams, each kind for itself, and ACKs one by one. A frame is recognised by comparing
 * its headers with the template of its queue pair, as a whole; what remains to be checked is
 * checked packet by packet. Any unusual frame ends the batch untouched and takes the general path
 * (rx_general.c).
 */
#include "rx_batch.h"
#include "completer.h"
#include "invariant.h"
#include "responder.h"
#include "rx.h"

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
static const struct rx_kind rx_send_segments = {.expect = expect_request,
                                                .admit = resp_admit_send_segments,
                                                .place = resp_place_send_segments,
                                                .commit = resp_commit_batch};
static const struct rx_kind rx_sends_imm = {.expect = expect_request,
                                            .admit = resp_admit_sends,
                                            .place = resp_place_sends_imm,
                                            .commit = resp_commit_batch,
                                            .empty = true};
static const struct rx_kind rx_writes_imm = {.expect = expect_request,
                                             .admit = resp_admit_writes_imm,
                                             .place = resp_place_writes_imm,
                                             .commit = resp_commit_batch,
                                             .empty = true};
static const struct rx_kind rx_reads = {.expect = expect_request,
                                        .admit = resp_admit_reads,
                                        .place = resp_place_reads,
                                        .commit = resp_commit_read_batch,
                                        .reads = true,
                                        .bare = true};
static const struct rx_kind rx_atomics = {.expect = expect_request,
                                          .admit = resp_admit_atomics,
                                          .place = resp_place_atomics,
                                          .commit = resp_commit_atomic_batch,
                                          .bare = true};
static const struct rx_kind rx_atomic_writes = {.expect = expect_request,
                                                .admit = resp_admit_atomic_writes,
                                                .place = resp_place_atomic_writes,
                                                .commit = resp_commit_atomic_batch};
static const struct rx_kind rx_flushes = {.expect = expect_request,
                                          .admit = resp_admit_flushes,
                                          .place = resp_place_flushes,
                                          .commit = resp_commit_atomic_batch,
                                          .bare = true};
static const struct rx_kind rx_results = {.expect = comp_expect_response,
                                          .admit = admit_all,
                                          .place = comp_place_results,
                                          .commit = comp_commit_responses,
                                          .bare = true};
static const struct rx_kind rx_responses = {.expect = comp_expect_response,
                                            .admit = admit_all,
                                            .place = comp_place_responses,
                                            .commit = comp_commit_responses,
                                            .empty = true};
static const struct rx_kind rx_datagrams = {.expect = NULL,
                                            .admit = resp_admit_sends,
                                            .place = resp_place_datagrams,
                                            .commit = commit_nothing,
                                            .datagrams = true};
static const struct rx_kind rx_datagrams_imm = {.expect = NULL,
                                                .admit = resp_admit_sends,
                                                .place = resp_place_datagrams_imm,
                                                .commit = commit_nothing,
                                                .empty = true,
                                                .datagrams = true};
static const struct rx_kind rx_acks = {
    .expect = NULL, .admit = admit_all, .place = comp_place_ack, .commit = commit_nothing};

/* A kind may be of several services: its functions ask for the service where that matters. */
#define SEND_AND_WRITE(service)                                             \
    [OPCODE(service, OP_WRITE_ONLY)] = &rx_writes,                          \
                     [OPCODE(service, OP_WRITE_FIRST)] = &rx_segments,      \
                     [OPCODE(service, OP_WRITE_MIDDLE)] = &rx_segments,     \
                     [OPCODE(service, OP_WRITE_LAST)] = &rx_segments,       \
                     [OPCODE(service, OP_SEND_ONLY)] = &rx_sends,           \
                     [OPCODE(service, OP_SEND_MIDDLE)] = &rx_send_segments, \
                     [OPCODE(service, OP_SEND_LAST)] = &rx_send_segments,   \
                     [OPCODE(service, OP_SEND_ONLY_IMM)] = &rx_sends_imm,   \
                     [OPCODE(service, OP_WRITE_ONLY_IMM)] = &rx_writes_imm
#define RELIABLE(service)                                                    \
    [OPCODE(service, OP_READ_REQUEST)] = &rx_reads,                          \
                     [OPCODE(service, OP_READ_RESP_FIRST)] = &rx_responses,  \
                     [OPCODE(service, OP_READ_RESP_MIDDLE)] = &rx_responses, \
                     [OPCODE(service, OP_READ_RESP_LAST)] = &rx_responses,   \
                     [OPCODE(service, OP_READ_RESP_ONLY)] = &rx_responses,   \
                     [OPCODE(service, OP_ACK)] = &rx_acks,                   \
                     [OPCODE(service, OP_ATOMIC_ACK)] = &rx_results,         \
                     [OPCODE(service, OP_CMP_SWP)] = &rx_atomics,            \
                     [OPCODE(service, OP_FETCH_ADD)] = &rx_atomics,          \
                     [OPCODE(service, OP_ATOMIC_WRITE)] = &rx_atomic_writes, \
                     [OPCODE(service, OP_FLUSH)] = &rx_flushes

static const struct rx_kind *const kind_of[256] = {
    SEND_AND_WRITE(PKT_RC),
    RELIABLE(PKT_RC),
    SEND_AND_WRITE(PKT_UC),
    SEND_AND_WRITE(PKT_XRC),
    RELIABLE(PKT_XRC),
    [OPCODE(PKT_UD, OP_SEND_ONLY)] = &rx_datagrams,
    [OPCODE(PKT_UD, OP_SEND_ONLY_IMM)] = &rx_datagrams_imm,
};

/* ---- recognise ---- */

/* A queue pair of e's that may get requests or answers by such frames now. */
static bool may_batch(const struct rx_batch *b, const struct qp *qp, uint8_t opcode)
{
    const struct engine *e = b->e;

    return qp && qp_owner_engine(qp) == e && qp->service == (opcode & PKT_SERVICE_MASK) &&
           qp_can_receive(qp) && qp->rx_template.form == b->form &&
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

ALWAYS_INLINE struct hdr_head *head_of(enum hdr_form form, struct rx_layout *l,
                                       const uint8_t *frame)
{
    return &l->head[hdr_traffic_class(form, frame) & 1];
}

/* Takes the sizes of a frame that matches the template, its header checksum apart. */
ALWAYS_INLINE bool layout_make(enum hdr_form form, struct rx_layout *l, const struct rx_batch *b,
                               const struct frame *f)
{
    const uint8_t *frame = f->data, *bth = frame + hdr_bth_at(form);
    uint32_t total = hdr_ip_len(form, frame), rest, len;

    if (kind_of[bth_opcode(bth)] != b->kind ||
        (bth_opcode(bth) & PKT_SERVICE_MASK) != b->qp->service)
        return false;
    rest = total - hdr_l3_len(form) - (opcode_table[bth_opcode(bth)].header_len - BTH_LEN);
    len = rest - bth_pad(bth);
    l->frame_len = f->len;
    l->len = (uint16_t)total;
    l->payload_len = (uint16_t)len;
    l->limit = max_of(BATCH_BYTES / (total + 1), 1u);
    /* As unsigned numbers, lengths below 0, and 1 where a payload is due, are too long. */
    return hdr_template_matches(form, &b->qp->rx_template, frame) &&
           hdr_lengths_ok(form, frame, f->len, total) && !(rest & 3) &&
           (b->kind->bare ? !(rest | len) : len - !b->kind->empty < b->qp->mtu + b->kind->empty);
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
ALWAYS_INLINE bool mark_change(enum hdr_form form, struct rx_layout *l, const struct rx_batch *b,
                               const struct frame *f)
{
    if (f->len != l->frame_len || (!hdr_same_but_mark(form, &l->head[0], f->data) &&
                                   !hdr_same_but_mark(form, &l->head[1], f->data)))
        return false;
    return hdr_template_sum_ok(form, &b->qp->rx_template, f->data);
}

/* Whether a frame has this layout, apart from its mark and fields that vary from packet to packet.
 */
ALWAYS_INLINE bool same_layout(enum hdr_form form, const struct rx_layout *l, const struct frame *f)
{
    return f->len == l->frame_len && (hdr_same_layout(form, &l->head[0], f->data) ||
                                      hdr_same_layout(form, &l->head[1], f->data));
}

/*
 * Frame i has other headers than those before: whether it belongs to the batch all the same. The
 * headers may differ in the mark alone; or in fields that vary, as the identification; or the frame
 * has another size.
 */
ALWAYS_INLINE bool layout_change(enum hdr_form form, struct rx_layout *l, struct rx_batch *b,
                                 const struct frame *f, unsigned i)
{
    struct hdr_head *head;

    l->alike = mark_change(form, l, b, f);
    if (!l->alike) {
        if (l->frame_len)
            layout_account(l, b, i);
        if (f->len < hdr_min_len(form))
            return false;
        if (!same_layout(form, l, f) && !layout_make(form, l, b, f))
            return false;
        if (!hdr_template_sum_ok(form, &b->qp->rx_template, f->data))
            return false;
    }
    head = head_of(form, l, f->data);
    hdr_head_take(form, head, f->data);
    if (!l->alike)
        hdr_head_clear(&l->head[head == l->head]);
    b->marks |= head == &l->head[1];
    return true;
}

static __attribute__((noinline)) bool layout_change_plain(struct rx_layout *l, struct rx_batch *b,
                                                          const struct frame *f, unsigned i)
{
    return layout_change(HDR_IPV4, l, b, f, i);
}

static __attribute__((noinline)) bool layout_change_other(struct rx_layout *l, struct rx_batch *b,
                                                          const struct frame *f, unsigned i)
{
    return layout_change(b->form, l, b, f, i);
}

/* How the PSNs of a batch follow each other. A READ request has those of its responses. Requests of
 * XRC may be READs, and name one SRQ. */
enum order { ONE_BY_ONE, BY_RESPONSES, NO_ORDER, XRC_ORDER };

static enum order order_of(const struct rx_kind *kind)
{
    return kind->reads ? BY_RESPONSES : ONE_BY_ONE;
}

ALWAYS_INLINE uint32_t psns_of(const struct rx_batch *b, const uint8_t *bth, enum order order)
{
    if (order == XRC_ORDER && b->kind->reads)
        return packets_for(reth_len(bth + BTH_LEN + XRCETH_LEN), b->qp->mtu);
    return order == BY_RESPONSES ? packets_for(reth_len(bth + BTH_LEN), b->qp->mtu) : 1;
}

ALWAYS_INLINE bool is_next(const struct rx_batch *b, enum order order, const uint8_t *bth,
                           uint64_t position)
{
    if (order == NO_ORDER)
        return bth_dest_qpn(bth) == position >> 32;
    return bth_position(bth) == position &&
           (order != XRC_ORDER || xrceth_word(bth + BTH_LEN) == b->xrceth);
}

/* How many frames from f on belong to the batch, whose first one has this PSN. Inlined for the
 * forms that are common; for IPv4 without a tag once for each order. */
ALWAYS_INLINE unsigned recognise_kind(enum hdr_form form, struct rx_batch *b, const struct frame *f,
                                      unsigned n, psn_t first, enum order order)
{
    uint64_t position = bth_position_of(b->qp->qpn, first), sizes = 0;
    struct icrc_span *s = b->span;
    struct rx_layout l;
    uint32_t frame_len = 0;
    unsigned i;

    l.frame_len = l.since = 0;
    hdr_head_clear(&l.head[0]);
    hdr_head_clear(&l.head[1]);
    for (i = 0; i < n; i++, f++, s++) {
        const uint8_t *frame = f->data, *bth = frame + hdr_bth_at(form);

        if (unlikely(f->len != frame_len || !hdr_same(form, head_of(form, &l, frame), frame))) {
            if (!(form == HDR_IPV4 ? layout_change_plain(&l, b, f, i)
                                   : layout_change_other(&l, b, f, i)))
                break;
            frame_len = l.frame_len;
            sizes = icrc_span_sizes(l.len, l.payload_len, true);
            n = min_of(n, l.since + l.limit);
            if (!is_next(b, order, bth, position))
                break;
            icrc_span_set(s, bth, icrc_span_sizes(l.len, l.payload_len, l.alike));
        } else {
            /* Also where PSNs wrap around: a batch ends there. */
            if (!is_next(b, order, bth, position))
                break;
            icrc_span_set(s, bth, sizes);
        }
        if (order != NO_ORDER)
            position += psns_of(b, bth, order);
    }
    if (i)
        layout_account(&l, b, i);
    return i;
}

static __attribute__((noinline)) unsigned recognise_reads(struct rx_batch *b, const struct frame *f,
                                                          unsigned n, psn_t first)
{
    return recognise_kind(HDR_IPV4, b, f, n, first, BY_RESPONSES);
}

static __attribute__((noinline)) unsigned recognise_ipv6(struct rx_batch *b, const struct frame *f,
                                                         unsigned n, psn_t first)
{
    return recognise_kind(HDR_IPV6, b, f, n, first, order_of(b->kind));
}

static __attribute__((noinline)) unsigned
recognise_tagged(struct rx_batch *b, const struct frame *f, unsigned n, psn_t first)
{
    return recognise_kind(b->form, b, f, n, first, order_of(b->kind));
}

static __attribute__((noinline)) unsigned recognise_xrc(struct rx_batch *b, const struct frame *f,
                                                        unsigned n, psn_t first)
{
    return recognise_kind(b->form, b, f, n, first, XRC_ORDER);
}

static __attribute__((noinline)) unsigned recognise_datagrams(struct rx_batch *b,
                                                              const struct frame *f, unsigned n)
{
    return b->form == HDR_IPV4 ? recognise_kind(HDR_IPV4, b, f, n, psn(0), NO_ORDER)
                               : recognise_kind(b->form, b, f, n, psn(0), NO_ORDER);
}

/* An ACK or NAK, with any PSN. */
ALWAYS_INLINE unsigned recognise_ack(enum hdr_form form, struct rx_batch *b, const struct frame *f)
{
    const struct hdr_template *t = &b->qp->rx_template;
    const uint8_t *bth = f->data + hdr_bth_at(form);
    uint32_t len = hdr_l3_len(form) + AETH_LEN;

    if (f->len < hdr_l3_at(form) + len || hdr_ip_len(form, f->data) != len || bth_pad(bth) ||
        !hdr_template_matches(form, t, f->data) || !hdr_template_sum_ok(form, t, f->data) ||
        !hdr_lengths_ok(form, f->data, f->len, len))
        return 0;
    b->bytes = f->len;
    b->marks = hdr_is_ce(form, f->data);
    b->span[0] = (struct icrc_span){.bth = bth, .len = (uint16_t)len};
    return 1;
}

static __attribute__((noinline)) unsigned recognise_other_ack(struct rx_batch *b,
                                                              const struct frame *f)
{
    return recognise_ack(b->form, b, f);
}

static unsigned recognise(struct rx_batch *b, const struct frame *f, unsigned n)
{
    psn_t first;

    b->bytes = b->payload = 0;
    b->marks = false;
    if (b->kind == &rx_acks)
        return likely(b->form == HDR_IPV4) ? recognise_ack(HDR_IPV4, b, f)
                                           : recognise_other_ack(b, f);
    if (unlikely(b->kind->datagrams))
        return recognise_datagrams(b, f, n);
    if (!b->kind->expect(b->qp, &first))
        return 0;
    if (unlikely(b->xrc_srq))
        return recognise_xrc(b, f, n, first);
    if (likely(b->form == HDR_IPV4))
        return b->kind->reads ? recognise_reads(b, f, n, first)
                              : recognise_kind(HDR_IPV4, b, f, n, first, ONE_BY_ONE);
    return b->form == HDR_IPV6 ? recognise_ipv6(b, f, n, first) : recognise_tagged(b, f, n, first);
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
    return i ? i : icrc_verify_batch(hdr_is_ipv6(b->form) ? ICRC_IPV6 : ICRC_IPV4, b->span, n);
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
static unsigned count_ce(enum hdr_form form, const struct frame *f, unsigned n)
{
    unsigned ce = 0;

    while (n-- > 0)
        ce += hdr_is_ce(form, f[n].data);
    return ce;
}

static __attribute__((noinline)) uint8_t priority_of(enum hdr_form form, const uint8_t *frame)
{
    return qos_frame_priority(hdr_vlan_tci(form, frame), hdr_traffic_class(form, frame));
}

/* The n frames have one traffic class, apart from ECN. */
static void count(struct rx_batch *b, const struct frame *f, unsigned n)
{
    struct engine_counters *c = &b->e->counters;
    uint8_t priority = likely(b->form == HDR_IPV4)
                           ? qos_frame_priority(VLAN_NONE, hdr_traffic_class(HDR_IPV4, f->data))
                           : priority_of(b->form, f->data);

    counter_add(&c->rx_packets[priority], n);
    counter_add(&c->rx_bytes[priority], b->bytes);
    counter_add(&c->rx_delivered, n);
    b->ce = b->marks ? count_ce(b->form, f, n) : 0;
    rx_count_qp(b->e, b->qp, n, b->payload, b->ce);
    rx_arrived_here(b->qp);
}

unsigned rx_batch(struct engine *e, const struct frame *f, unsigned n, unsigned job,
                  unsigned *verified, unsigned *general)
{
    unsigned found, good, done;
    const uint8_t *bth;
    struct rx_batch b;

    *verified = *general = 0;
    bth = rx_find_bth(f, &b.form);
    if (!bth)
        return 0;
    b.kind = kind_of[bth_opcode(bth)];
    if (!b.kind)
        return 0;
    b.e = e;
    b.job = job;
    b.messages = 0;
    b.qp = qp_table_lookup(e->cfg.qps, bth_dest_qpn(bth));
    if (!may_batch(&b, b.qp, bth_opcode(bth)))
        return 0;
    b.eth_at = BTH_LEN;
    b.xrc_srq = NULL;
    if (unlikely(b.qp->service == PKT_XRC) && !rx_batch_begin_xrc(&b, bth))
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
