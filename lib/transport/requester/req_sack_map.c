/* SPDX-License-Identifier: BSD-3-Clause */
/* What a responder's map of kept packets says: see req_sack.h and kept_map.h. */
#include "req_sack_state.h"

static bool map_has(const struct kept_map *m, psn_t p)
{
    uint32_t i = (uint32_t)psn_diff(p, m->first);

    return i < KEPT_MAP_PACKETS && m->bits[i / 64] >> i % 64 & 1;
}

/* Behind the last one that is kept. */
static psn_t map_end(const struct kept_map *m)
{
    for (unsigned i = KEPT_MAP_WORDS; i-- > 0;)
        if (m->bits[i])
            return psn_add(m->first, 64 * i + 64 - (unsigned)__builtin_clzll(m->bits[i]));
    return m->first;
}

/* Requests of slot m in [from, to) that are kept. A READ that is kept will be answered. */
static bool take_kept(struct qp *qp, const struct kept_map *map, psn_t from, psn_t to,
                      const struct sack_walk *w, const struct send_slot *m)
{
    struct req_sack *s = qp->req.sack;
    bool news = false;

    for (; psn_before(from, to); from = psn_add(from, 1)) {
        if (!map_has(map, from) || !sack_covers(qp, from))
            continue;
        if (!m || !slot_has_response(m)) {
            news |= req_sack_arrived(qp, from);
        } else if (!sack_has(&s->here, from) && !sack_has(&s->waits, from) &&
                   !psn_before(from, s->expected)) {
            news = true;
            if (sack_has(&s->again, from))
                sack_order_arrived(s, from, false);
            sack_forget(s, from);
            sack_will_be_answered(qp, w, m, from);
        }
    }
    return news;
}

/*
 * The peer expects what it had kept: it had no receive for that when its turn came, and has
 * forgotten all that it kept (9.7.5.2.8). What it has told of that may have been lost.
 */
static void take_back(struct qp *qp, const struct kept_map *m)
{
    struct req_sack *s = qp->req.sack;
    psn_t p = m->first;

    if (!sack_covers(qp, p) || psn_before(p, s->expected) ||
        !(sack_has(&s->here, p) || sack_has(&s->waits, p)))
        return;
    for (; psn_before(p, s->high) && sack_covers(qp, p); p = psn_add(p, 1))
        if (!map_has(m, p)) {
            sack_clear(&s->here, p);
            sack_clear(&s->waits, p);
            sack_clear(&s->parked, p);
        }
}

bool req_sack_take_map(struct qp *qp, const struct kept_map *m)
{
    struct req_sack *s = qp->req.sack;
    psn_t end = map_end(m), from, to;
    bool news = false;

    if (psn_before(qp->req.max_psn, end)) /* not what was sent */
        return false;
    take_back(qp, m);
    if (!qp->req.rd_outstanding && psn_eq(qp->req.next_psn, qp->req.max_psn)) {
        news = take_kept(qp, m, m->first, end, NULL, NULL);
    } else {
        struct sack_walk w = sack_walk_to(qp, end);
        struct send_slot *slot;

        while ((slot = sack_walk_next(&w, &from, &to)))
            news |= take_kept(qp, m, from, to, &w, slot);
    }
    if (psn_before(s->high, end))
        s->high = end;
    return news;
}
