/* SPDX-License-Identifier: BSD-3-Clause */
/* Fetches what the queue pairs of a burst of received frames need, ahead of their frames. */
#ifndef UROCE_RX_AHEAD_H
#define UROCE_RX_AHEAD_H

#include "engine.h"

/* A queue pair that the burst has frames for. */
struct rx_arrival {
    const struct qp *qp;
    uint32_t qpn;
    const struct frame *frame; /* the first one of n */
    unsigned first, n;         /* where that is in the burst */
    uint8_t bth_at, op;        /* where its BTH is, and its enum pkt_op */
};

struct rx_ahead {
    const struct engine *engine;
    unsigned n;    /* arrivals */
    unsigned next; /* whose state is fetched next */
    struct rx_arrival arrival[FRAME_BURST];
};

void rx_ahead_begin(struct rx_ahead *a, const struct engine *e, const struct frame *f, unsigned n);
/* Frame i is next. */
void rx_ahead_go_on(struct rx_ahead *a, unsigned i);

#endif
