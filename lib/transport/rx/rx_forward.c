/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that another engine of the device has to process: see rx_forward.h. */
#include "rx_forward.h"
#include "rx.h"

/* The host is told that a queue pair is misplaced after this many consecutive packets that one
 * other engine forwarded; each time that changes nothing it takes twice as many. */
#define MISPLACED_REPORT_MIN 64
#define MISPLACED_REPORT_MAX 32768

static void forward_by(struct engine *e, const struct frame *f, struct engine *to,
                       bool (*way)(void *ctx, const struct frame *f, struct engine *to))
{
    if (e->forwarded < ARRAY_SIZE(e->forwarded_to))
        e->forwarded_to[e->forwarded++] = to;
    if (way && way(e->cfg.host.ctx, f, to))
        counter_inc(&e->counters.rx_forwarded_out);
    else
        engine_drop(e, DROP_forward_full, 0);
}

struct frame rx_frame_with_icrc(const struct engine *e, const struct frame *f)
{
    struct encap_port any = {.promiscuous = true, .gids = e->cfg.port->gids};
    struct frame whole = *f;
    struct encap_view v;

    /* What is left of a trimmed packet has no room for it. */
    if (unlikely(f->icrc_omitted) && encap_rx(&v, f->data, f->len, &any) == DROP_NONE &&
        v.bth_len >= BTH_LEN + ICRC_LEN)
        icrc_seal(v.l3_kind, f->data + (v.l3 - f->data), v.l3_len - ICRC_LEN);
    whole.icrc_omitted = false;
    return whole;
}

void rx_forward(struct engine *e, const struct frame *f, struct engine *to)
{
    struct frame whole = rx_frame_with_icrc(e, f);

    forward_by(e, &whole, to, e->cfg.host.forward);
}

void rx_forward_copy(struct engine *e, const struct frame *f, struct engine *to)
{
    forward_by(e, f, to, e->cfg.host.forward_copy);
}

/* A connection's packets all take one way, because they have the same addresses and ports: if they
 * keep arriving at another engine the queue pair should migrate to it. */
void rx_note_misplaced(struct engine *e, struct qp *qp)
{
    if (e->rx_from == RX_DIRECT || qp->service == PKT_UD) {
        rx_arrived_here(qp);
        return;
    }
    if (!qp->misplaced_limit)
        qp->misplaced_limit = MISPLACED_REPORT_MIN;
    if (qp->misplaced_lane != e->rx_from)
        qp->misplaced_count = 0;
    qp->misplaced_lane = (uint8_t)e->rx_from;
    if (++qp->misplaced_count < qp->misplaced_limit)
        return;
    note(e, qp, TRACE_QP_MISPLACED, qp->misplaced_lane, qp->misplaced_count);
    qp->misplaced_count = 0;
    qp->misplaced_limit = (uint16_t)min_of(qp->misplaced_limit * 2, MISPLACED_REPORT_MAX);
    if (e->cfg.host.misplaced)
        e->cfg.host.misplaced(e->cfg.host.ctx, qp, (uint32_t)e->rx_from);
}
