/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive path of a burst: batches where frames are alike, the general path for all others. */
#include "completion.h"
#include "frame_peek.h"
#include "raw_private.h"
#include "resp_reorder.h"
#include "rx.h"
#include "rx_ahead.h"
#include "rx_batch.h"
#include "rx_flush.h"

/* Bytes first, then CQEs, then the queue pairs' states. */
static void rx_end(struct engine *e)
{
    rx_flush(e);
    complete_recvs(e);
    if (unlikely(e->stores_used))
        resp_execute_kept(e);
    engine_complete(e);
}

/* ahead: what is fetched ahead, or NULL; a constant. */
ALWAYS_INLINE void rx_frames(struct engine *e, struct frame *frames, unsigned n,
                             struct rx_ahead *ahead)
{
    bool batches = e->rx_from == RX_DIRECT && !raw_has_sniffers(e);
    unsigned i = 0, verified = 0, general = 0;

    while (i < n) {
        unsigned done;

        if (ahead)
            rx_ahead_go_on(ahead, i);
        done = batches && !general ? rx_batch(e, frames + i, n - i, i, &verified, &general) : 0;
        i += done;
        if (done)
            continue;
        rx_general(e, i, &frames[i], verified);
        i++;
        general -= general > 0;
        verified -= verified > 0;
    }
}

static __attribute__((noinline)) void rx_frames_of_many(struct engine *e, struct frame *frames,
                                                        unsigned n)
{
    struct rx_ahead ahead;

    rx_ahead_begin(&ahead, e, frames, n);
    rx_frames(e, frames, n, &ahead);
}

static void rx_burst(struct engine *e, struct frame *frames, unsigned n)
{
    fault_cost(e);
    if (unlikely(e->cold))
        rx_frames_of_many(e, frames, n);
    else
        rx_frames(e, frames, n, NULL);
    rx_end(e);
}

void engine_rx(struct engine *e, struct frame *frames, unsigned n, ns_t now)
{
    e->now = now;
    rx_burst(e, frames, n);
}

void engine_rx_dropped(struct engine *e, const struct frame *f, enum drop reason, uint32_t qpn,
                       ns_t now)
{
    uint8_t priority = frame_priority(f->data, f->len);

    e->now = now;
    counter_inc(&e->counters.rx_packets[priority]);
    counter_add(&e->counters.rx_bytes[priority], f->len);
    engine_drop(e, reason, qpn);
}

void engine_tx_dropped(struct engine *e, enum drop reason, uint32_t qpn, uint32_t psn, ns_t now)
{
    trace_put(&e->trace, now, TRACE_TX_DROP, qpn, reason, psn);
}

static void forwarded_in(struct engine *e, unsigned n, uint32_t from, ns_t now)
{
    e->now = now;
    e->rx_from = (int)from;
    counter_add(&e->counters.rx_forwarded_in, n);
}

void engine_rx_forwarded(struct engine *e, struct frame *frames, unsigned n, uint32_t from,
                         ns_t now)
{
    forwarded_in(e, n, from, now);
    rx_burst(e, frames, n);
    e->rx_from = RX_DIRECT;
}

/* These frames are for sniffers of this engine alone: their other takers have them. */
void engine_rx_copies(struct engine *e, struct frame *frames, unsigned n, uint32_t from, ns_t now)
{
    forwarded_in(e, n, from, now);
    for (unsigned i = 0; i < n; i++) {
        unsigned sniffed = raw_sniff(e, &frames[i]);

        if (sniffed)
            counter_add(&e->counters.rx_copies, sniffed - 1);
        else
            engine_drop(e, DROP_raw_no_recv, 0);
    }
    rx_end(e);
    e->rx_from = RX_DIRECT;
}
