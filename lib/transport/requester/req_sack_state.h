/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files behind req_sack.h share: its bits, and the messages in flight. */
#ifndef UROCE_REQ_SACK_STATE_H
#define UROCE_REQ_SACK_STATE_H

#include "req_sack.h"

/* By how many packets others may overtake one, before anything is known of the path. */
#define REORDER 64u

static inline void sack_set(struct sack_bits *b, psn_t p)
{
    b->word[p.v % SACK_PACKETS / 64] |= UINT64_C(1) << p.v % 64;
}

static inline void sack_clear(struct sack_bits *b, psn_t p)
{
    b->word[p.v % SACK_PACKETS / 64] &= ~(UINT64_C(1) << p.v % 64);
}

static inline void sack_forget(struct req_sack *s, psn_t p)
{
    sack_clear(&s->here, p);
    sack_clear(&s->waits, p);
    sack_clear(&s->parked, p);
    sack_clear(&s->again, p);
    sack_clear(&s->lost, p);
    sack_clear(&s->trimmed, p);
}

static inline bool slot_has_response(const struct send_slot *s)
{
    return op_is_read_or_atomic(s->wqe.h.opcode);
}

static inline int32_t sack_reorder(const struct qp *qp)
{
    const struct req_recovery *r = &qp->req.recovery;

    return r->reorder_known ? r->reorder : (int32_t)REORDER;
}

/* Behind the last packet that anything is known about. */
static inline psn_t sack_last_known(const struct req_sack *s)
{
    return psn_before(s->high, s->lost_end) ? s->lost_end : s->high;
}

/* What has arrived there of the same kind: responses, or requests. */
static inline psn_t sack_high(const struct req_sack *s, bool response)
{
    return response ? s->executed : s->high;
}

/* A packet that was sent again has arrived: as a request, or as a response. */
static inline void sack_order_arrived(struct req_sack *s, psn_t p, bool response)
{
    uint32_t order = s->sent[p.v % SACK_PACKETS].order;

    if ((int32_t)(order - s->arrived_order[response]) > 0)
        s->arrived_order[response] = order;
}

/* ---- req_sack_walk.c ---- */

/* The first slot whose message ends at PSN p or behind it, or has no PSNs yet. */
uint32_t sack_slot_from(const struct requester *req, psn_t p);
/* The message in flight that PSN p is of, or NULL. */
struct send_slot *sack_message(const struct requester *req, psn_t p);

/* A walk over the messages in flight from una up to `end`, at most as far as something can be known
 * about. */
struct sack_walk {
    const struct requester *req;
    uint32_t i;
    psn_t end;
    bool may_park;   /* it is a READ, and no atomic without a response is before it */
    bool behind_atomic;
};

struct sack_walk sack_walk_to(const struct qp *qp, psn_t end);
/* The next one, and its PSNs from *from on and before *to; NULL: that was all. */
struct send_slot *sack_walk_next(struct sack_walk *w, psn_t *from, psn_t *to);

/* ---- req_sack.c ---- */

/* The responder has the READ or atomic m, which PSN p is one of. If it has maps, it answers a READ
 * again that it does not remember; for XRC it does not (resp_duplicate.c). */
void sack_will_be_answered(const struct qp *qp, const struct sack_walk *w,
                           const struct send_slot *m, psn_t p);

#endif
