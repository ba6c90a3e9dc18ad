/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_engine's wire: frames in flight, and made-up packets. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "frame_trim.h"
#include "fuzz_engine.h"

/* ---- the wire ---- */

static void wire_put(struct fuzz *f, unsigned from, const uint8_t *data, uint32_t len)
{
    struct wire_frame *w = &f->wire[f->wire_tail % WIRE_FRAMES];

    if (f->wire_tail - f->wire_head == WIRE_FRAMES)
        return; /* lost */
    /* Exactly the frame's size: a read beyond it is reported. */
    *w = (struct wire_frame){.data = kit_alloc(len), .len = len, .from = from};
    memcpy(w->data, data, len);
    f->wire_tail++;
}

static void deliver_now(struct fuzz *f, unsigned to, uint8_t *data, uint32_t len)
{
    struct frame frame = {.data = data, .len = len};

    engine_rx(f->k->node[to].engine, &frame, 1, f->k->now);
}

void transmit(struct fuzz *f, unsigned node)
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

enum { KEEP = 1, LOSE = 2, BURST = 4, TRIM = 8 };

/* The oldest frames: delivered in one burst, lost, trimmed, or kept for a second delivery. */
void deliver(struct fuzz *f)
{
    uint8_t how = u8(f);
    unsigned most = how & BURST ? FRAME_BURST : 1, n = 0;
    unsigned from = f->wire[f->wire_head % WIRE_FRAMES].from;
    struct frame frame[FRAME_BURST];

    for (unsigned i = f->wire_head; i != f->wire_tail && n < most; i++) {
        struct wire_frame *w = &f->wire[i % WIRE_FRAMES];

        if (w->from != from)
            break;
        if (how & TRIM) {
            uint32_t left = frame_trim(w->data, w->len, FUZZ_TRIM);

            w->len = left ? left : w->len;
        }
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
void change(struct fuzz *f)
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

static psn_t near_psn(const struct fuzz *f, unsigned to, unsigned q, bool request, int8_t delta)
{
    struct qp_attr attr;

    engine_qp_query(f->qp[to][q]->qp, &attr);
    return psn((request ? attr.rq_psn : attr.sq_psn) + (uint32_t)delta);
}

/* A packet with sound headers for the queue pair of node `to`. */
void add_packet(struct fuzz *f, unsigned to, unsigned q)
{
    static uint8_t frame[KIT_FRAME_ROOM], payload[PKT_MTU_MAX];
    struct pkt p = {.opcode = u8(f), .pkey = PKEY_DEFAULT, .dest_qpn = f->qp[to][q]->qpn};
    const struct opcode_info *info = pkt_info(&p);
    const struct kit_mr *mr;
    uint8_t bits = u8(f), window;

    if (!opcode_is_defined(p.opcode))
        return;
    p.ack_req = bits & 1;
    p.solicited = bits & 2;
    p.psn = near_psn(f, to, q, info->flags & PF_REQUEST, (int8_t)u8(f));
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
    p.xrc_srqn = u8(f) ? f->srq[to]->number : f->xrc_srq[to]->number;
    p.deth.qkey = u8(f) ? f->wr_id : FUZZ_QKEY;
    p.deth.src_qpn = f->qp[!to][Q_UD]->qpn;
    window = u8(f);
    if (window) { /* a window's key, in p.ieth_rkey or instead of the region's */
        const struct kit_mw *w = f->window[to][window % WINDOWS];

        p.ieth_rkey = w->region.key;
        if (window & 0x80)
            p.reth.rkey = p.atomic.rkey = w->region.key;
    }
    deliver_now(f, to, frame,
                kit_frame_build(frame, f->qp[!to][Q_RC] /* its path fits all */, &p, payload));
}

enum { FIX_PSN = 1, FIX_KEY = 2 };

/* Any bytes from the BTH on, with the queue pair's number and, if wanted, a PSN and key that fit.
 */
void add_bytes(struct fuzz *f, unsigned to, unsigned q)
{
    static uint8_t frame[KIT_FRAME_ROOM];
    struct encap_template t;
    uint8_t fix = u8(f);
    int8_t delta = (int8_t)u8(f);
    uint8_t *bth;
    uint32_t len;

    if (encap_template_make(&t, qp_address_vector(f->qp[!to][Q_RC]->qp)))
        return;
    bth = frame + t.len;
    memset(bth, 0, BTH_LEN + ICRC_LEN);
    len = u16(f);
    len = take_bytes(f, bth, min_of(len, (uint32_t)(BTH_LEN + PKT_MTU_MAX)));
    len = max_of(len, (uint32_t)BTH_LEN) + ICRC_LEN;
    encap_tx(frame, &t, len, 0);
    put_be24(bth + 5, f->qp[to][q]->qpn);
    if (fix & FIX_PSN)
        put_be24(bth + 9, near_psn(f, to, q, opcode_table[bth[0]].flags & PF_REQUEST, delta).v);
    if ((fix & FIX_KEY) && len >= BTH_LEN + 16) {
        put_be64(bth + 12, kit_va(f->mr[to][MR_MAPPED], get_be64(bth + 12) % REGION));
        put_be32(bth + 20, f->mr[to][MR_MAPPED]->region.key);
    }
    deliver_now(f, to, frame, t.len + len);
}

void wire_fini(struct fuzz *f)
{
    while (f->wire_head != f->wire_tail)
        free(f->wire[f->wire_head++ % WIRE_FRAMES].data);
}
