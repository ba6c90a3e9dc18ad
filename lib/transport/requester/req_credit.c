/* SPDX-License-Identifier: BSD-3-Clause */
/* See req_credit.h. */
#include "req_credit.h"

/* 9.7.7.2, the table of codes: 0 to 4, then 6, 8, 12, 16 and so on. */
static uint32_t credits_of(uint8_t code)
{
    return code < 4 ? code : (code & 1 ? 6u : 4u) << (code - 4) / 2;
}

/* The oldest message that is not acknowledged as a whole. */
static uint32_t oldest(const struct requester *req)
{
    uint32_t i = req->tail;

    while (i != req->send && slot_is_before(slot_at(req, i), req->una))
        i++;
    return i;
}

void req_take_credit(struct requester *req, uint8_t value)
{
    req->has_credits = req->credited = value != AETH_CREDIT_NONE;
    if (req->has_credits)
        req->credit_end = oldest(req) + credits_of(value);
}

bool req_credit_allows(const struct requester *req, const struct send_slot *s)
{
    if (!op_takes_receive(s->wqe.h.opcode) || !psn_eq(req->next_psn, req->max_psn))
        return true;
    if (!req->pkt)
        return psn_eq(req->next_psn, req->una);
    /* Its first packet did not ask for an ACK if the peer has taken credits back since. */
    return psn_before(s->first, req->una) || psn_before(req->ack_asked_psn, s->first);
}

unsigned req_credit_room(const struct requester *req)
{
    if (req_is_beyond_credit(req))
        return 0;
    return req->pkt ? FRAME_BURST : req->credit_end - req->send;
}
