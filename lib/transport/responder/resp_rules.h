/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of 9.7.4.1 that a request must obey, a function each. resp_check.c turns a broken rule
 * into its fault; a batch ends before the packet that breaks one, which then takes the general
 * path. A batch may end before other packets, too: where its own code is simpler than the rule.
 */
#ifndef UROCE_RESP_RULES_H
#define UROCE_RESP_RULES_H

#include "qp.h"

/* 9.7.4.1.2: FIRST and ONLY start a message, MIDDLE and LAST continue one of the same kind. */
static inline bool resp_order_ok(const struct responder *resp, uint16_t flags, enum resp_op op)
{
    return flags & PF_START ? resp->op == RESP_IDLE : resp->op != RESP_IDLE && resp->op == op;
}

/* 9.7.4.1.3: the queue pair allows the operation. */
static inline bool resp_right_ok(const struct qp *qp, enum mem_access need)
{
    return qp->access & need;
}

/* 9.7.4.1.6: FIRST and MIDDLE are full, LAST is not empty. */
static inline bool resp_payload_ok(uint16_t flags, uint32_t len, uint32_t mtu)
{
    if (!(flags & PF_END))
        return len == mtu;
    return len <= mtu && (len || (flags & PF_START));
}

/* 9.7.4.1.6: a WRITE is as long as its RETH said. left: of it, this packet included. */
static inline bool resp_write_len_ok(uint16_t flags, uint32_t left, uint32_t len)
{
    return flags & PF_END ? left == len : left > len && left <= MESSAGE_MAX;
}

/* 9.7.4.1.7: a WRITE ONLY that takes no receive WQE refers only to memory that it writes at once:
 * its R_Key is judged when its bytes are placed. */
static inline bool resp_rkey_is_judged_late(uint16_t flags)
{
    const uint16_t only = PF_START | PF_END;

    return (flags & (only | PF_IMM)) == only;
}

/* 9.7.4.1.6: what a READ asks for is no longer than a message may be. */
static inline bool resp_read_len_ok(uint32_t len)
{
    return len <= MESSAGE_MAX;
}

/*
 * 9.7.4.1.5, C9-151: no more READs and atomics at a time than were agreed; r: the resource that is
 * opened next. A reply that is only being repeated does not count: the requester goes on, so it has
 * the first reply.
 */
static inline bool resp_resource_ok(const struct resp_resource *r)
{
    return !r->pending || r->answered;
}

/* 9.4.5: an atomic is of 8 bytes that are aligned. */
static inline bool resp_aligned_ok(uint64_t va)
{
    return !(va & 7);
}

/* The message fits the receive WQE. have: bytes of it that have arrived. */
static inline bool resp_room_ok(uint32_t room, uint32_t have, uint32_t len)
{
    return room - have >= len;
}

#endif
