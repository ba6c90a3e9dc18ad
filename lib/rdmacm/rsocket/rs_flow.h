/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stream may send, and what it owes its peer; pure, no lock.
 *
 * Data and iomap messages take a receive WQE of the peer, which the peer's credits account for:
 * both ends count these messages modulo 2^16, and a credit message says up to which count they may
 * be sent. Credit and control messages need no credit, so that credits cannot deadlock; at most
 * RS_CONTROL_SLOTS of them wait for their completion.
 */
#ifndef UROCE_RS_FLOW_H
#define UROCE_RS_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#define RS_CONTROL_SLOTS 4

struct rs_flow {
    uint16_t sent, limit;       /* messages with credit: how many; how many may be */
    uint16_t received, granted; /* from the peer; of them at the last grant */
    uint16_t window;            /* messages beyond those received that the peer may send */
    uint16_t slots;             /* free WQEs of the send queue for messages with credit, writes */
    uint8_t controls;           /* credit and control messages without completion */
};

static inline void rs_flow_init(struct rs_flow *f, uint16_t window, uint16_t slots)
{
    *f = (struct rs_flow){.window = window, .slots = slots};
}

/* Also of the hello: messages that may be sent. */
static inline void rs_flow_limit(struct rs_flow *f, uint32_t limit)
{
    f->limit = (uint16_t)limit;
}

static inline bool rs_flow_can_send(const struct rs_flow *f)
{
    return f->slots && f->sent != f->limit;
}

static inline void rs_flow_sent(struct rs_flow *f)
{
    f->sent++;
    f->slots--;
}

static inline bool rs_flow_can_control(const struct rs_flow *f)
{
    return f->controls < RS_CONTROL_SLOTS;
}

/* Whether the peer has used up half of its credits. */
static inline bool rs_flow_grant_due(const struct rs_flow *f)
{
    return (uint16_t)(f->received - f->granted) >= (f->window + 1) / 2;
}

/* Returns the value of the credit message, which is a control message. */
static inline uint16_t rs_flow_grant(struct rs_flow *f)
{
    f->controls++;
    f->granted = f->received;
    return (uint16_t)(f->received + f->window);
}

#endif
