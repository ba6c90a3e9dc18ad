/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages that are in flight, by their PSNs: see req_sack_state.h. */
#include "req_sack_state.h"

/* Slots are in the order of their PSNs, so a peer that makes this look for each packet of a map
 * costs little. */
uint32_t sack_slot_from(const struct requester *req, psn_t p)
{
    uint32_t first = req->tail, end = req->head;

    while (first != end) {
        uint32_t middle = first + (end - first) / 2;
        const struct send_slot *s = slot_at(req, middle);

        if (s->started && slot_is_before(s, p))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

struct send_slot *sack_message(const struct requester *req, psn_t p)
{
    uint32_t i = sack_slot_from(req, p);
    struct send_slot *s = i == req->head ? NULL : slot_at(req, i);

    return s && s->started && psn_within(p, s->first, slot_last(s)) ? s : NULL;
}

struct sack_walk sack_walk_to(const struct qp *qp, psn_t end)
{
    const struct requester *req = &qp->req;
    psn_t last = psn_add(req->una, SACK_PACKETS);

    if (psn_before(last, end))
        end = last;
    return (struct sack_walk){.req = req, .i = req->tail, .end = end};
}

struct send_slot *sack_walk_next(struct sack_walk *w, psn_t *from, psn_t *to)
{
    while (w->i != w->req->head) {
        struct send_slot *s = slot_at(w->req, w->i++);

        if (!s->started || !psn_before(s->first, w->end))
            return NULL;
        if (!s->packets || slot_is_before(s, w->req->una))
            continue;
        *from = psn_before(s->first, w->req->una) ? w->req->una : s->first;
        *to = psn_add(s->first, s->packets);
        if (psn_before(w->end, *to))
            *to = w->end;
        w->may_park = s->wqe.h.opcode == SQE_READ && !w->behind_atomic;
        w->behind_atomic |= slot_has_response(s) && s->wqe.h.opcode != SQE_READ;
        return s;
    }
    return NULL;
}
