/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * End-to-end credits (9.7.7.2), which some responders give: how many receives the peer has for
 * messages that it has not completed. Messages that take a receive are sent up to that number; one
 * beyond it alone, when nothing else is out, and of that only the first packet until it is
 * acknowledged. So the requester needs no word of new receives. What is sent again is not held
 * back, nor is a message that takes none, though it counts. Credits are taken from ACKs, not from
 * responses.
 *
 * The responder gives no credits: its ACKs say so (AETH_CREDIT_NONE).
 */
#ifndef UROCE_REQ_CREDIT_H
#define UROCE_REQ_CREDIT_H

#include "engine_private.h"

/* The value of an ACK, after what it acknowledges. */
void req_take_credit(struct requester *req, uint8_t value);

/* Whether the message at the sending position is beyond the credits. */
static inline bool req_is_beyond_credit(const struct requester *req)
{
    return req->has_credits && (int32_t)(req->credit_end - req->send) <= 0;
}

/* Whether the next packet of that message, in s, may be sent nevertheless. */
bool req_credit_allows(const struct requester *req, const struct send_slot *s);

/* How many messages may be sent without asking req_credit_allows. */
unsigned req_credit_room(const struct requester *req);

#endif
