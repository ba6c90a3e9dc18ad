/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's answers against the recorded ones. Answers with data are paired by their PSN; ACKs
 * and NAKs are compared by what they acknowledge when, and by what they refuse.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

/* The engine's answers on a stream, and what the comparison asks of them and of the recorded ones.
 */
struct engine_answers {
    const struct stream *stream;
    struct sent **sent; /* in order */
    struct sent **by_psn;
    int64_t *acked; /* per answer in order: the highest PSN that the engine had acknowledged */
    int64_t *max_psn_from; /* per recorded answer: the highest PSN from it on */
    unsigned count;
    int64_t recorded_acked;
};

static bool is_positive(const struct pkt *p)
{
    return !is_ack(p) || (p->aeth.syndrome & AETH_CLASS_MASK) == AETH_ACK;
}

static int by_psn_and_time(const void *a, const void *b)
{
    const struct sent *x = *(struct sent *const *)a, *y = *(struct sent *const *)b;

    if (x->psn != y->psn)
        return x->psn < y->psn ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static struct engine_answers collect_answers(struct our_qp *q, const struct stream *stream)
{
    struct engine_answers o = {.stream = stream, .recorded_acked = INT64_MIN};
    int64_t acked = INT64_MIN;

    o.sent = replay_grow(NULL, (q->sents + 1) * sizeof(*o.sent));
    o.by_psn = replay_grow(NULL, (q->sents + 1) * sizeof(*o.sent));
    o.acked = replay_grow(NULL, (q->sents + 1) * sizeof(*o.acked));
    o.max_psn_from = replay_grow(NULL, (stream->answers + 1) * sizeof(*o.max_psn_from));
    for (unsigned i = 0; i < q->sents; i++) {
        struct sent *s = q->sent[i];

        if (is_request(&s->pkt))
            continue;
        acked = max_of(acked, s->psn - !is_positive(&s->pkt));
        o.acked[o.count] = acked;
        o.by_psn[o.count] = s;
        o.sent[o.count++] = s;
    }
    if (o.count)
        qsort(o.by_psn, o.count, sizeof(*o.by_psn), by_psn_and_time);
    o.max_psn_from[stream->answers] = INT64_MIN;
    for (unsigned i = stream->answers; i-- > 0;) {
        const struct rec *ans = stream->ans[i];

        o.max_psn_from[i] = max_of(o.max_psn_from[i + 1], ans->psn);
        o.recorded_acked = max_of(o.recorded_acked, ans->psn - !is_positive(&ans->pkt));
    }
    return o;
}

static void free_answers(struct engine_answers *o)
{
    free(o->sent);
    free(o->by_psn);
    free(o->acked);
    free(o->max_psn_from);
}

/* The engine's first answer with this PSN or a later one, by PSN. */
static unsigned first_engine_answer(const struct engine_answers *o, int64_t psn)
{
    unsigned low = 0, high = o->count;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (o->by_psn[mid]->psn < psn)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The first recorded answer after the frame of this number. */
static unsigned first_answer_after(const struct stream *s, unsigned number)
{
    unsigned low = 0, high = s->answers;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (s->ans[mid]->number <= number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Whether the later frames of the capture show that the counterpart of the engine's answer was
 * lost: the peer repeated the request, or the capture ends before any frame could show it. */
static bool seems_lost(const struct run *r, const struct engine_answers *o, const struct sent *s)
{
    const struct message *m = stream_message(o->stream, s->psn);
    unsigned number = r->capture->rec[s->after].number, n;

    for (unsigned i = m ? judge_find_psn(o->stream->req, o->stream->reqs, m->first, &n) : UINT_MAX;
         i < o->stream->reqs && o->stream->req[i]->msg == m; i++)
        if (o->stream->req[i]->number > number)
            return true;
    return o->max_psn_from[first_answer_after(o->stream, number)] < s->psn;
}

/* The PSN of the last recorded packet of a message's response: the recorded responder sent those
 * before it as well. */
static int64_t last_response(const struct stream *s, const struct message *m)
{
    unsigned n, at = judge_find_psn(s->ans_by_psn, s->answers, m->first + m->packets, &n);

    while (at-- > 0 && s->ans_by_psn[at]->psn >= m->first)
        if (!is_ack(&s->ans_by_psn[at]->pkt))
            return s->ans_by_psn[at]->psn;
    return INT64_MIN;
}

static void judge_data_answer(struct run *r, const struct engine_answers *o, struct sent *s,
                              uint8_t *covered)
{
    const struct stream *stream = o->stream;
    unsigned n, at = judge_find_psn(stream->ans_by_psn, stream->answers, s->psn, &n), data = 0;
    struct rec **copy = replay_grow(NULL, (n + 1) * sizeof(*copy));
    uint64_t fields = 0;

    for (unsigned i = 0; i < n; i++)
        if (!is_ack(&stream->ans_by_psn[at + i]->pkt)) {
            copy[data++] = stream->ans_by_psn[at + i];
            covered[at + i] = 1;
        }
    if (data) {
        unsigned best = judge_most_similar(copy, data, s, &fields);

        judge_note_fields(r, s, copy[best], fields);
    } else {
        const struct message *m = stream_message(stream, s->psn);
        bool lost = (m && (m->outcome == OUTCOME_ACKED || s->psn < last_response(stream, m))) ||
                    seems_lost(r, o, s);

        finding_add(r, DIFF_extra_answer, lost ? RULE_lost : -1, 0, NULL, s, NULL);
    }
    free(copy);
}

/* ---- ACKs and NAKs ---- */

static bool acknowledges_the_same(const struct pkt *a, const struct pkt *b)
{
    uint8_t class = a->aeth.syndrome & AETH_CLASS_MASK;

    if (class != (b->aeth.syndrome & AETH_CLASS_MASK))
        return false;
    return class == AETH_ACK || class == AETH_RNR || a->aeth.syndrome == b->aeth.syndrome;
}

/* The engine's first unmatched acknowledge with this PSN that says the same; if all are matched,
 * the last one. */
static struct sent *find_ack(const struct engine_answers *o, const struct rec *rec)
{
    struct sent *used = NULL;

    for (unsigned i = first_engine_answer(o, rec->psn);
         i < o->count && o->by_psn[i]->psn == rec->psn; i++) {
        struct sent *s = o->by_psn[i];

        if (!is_ack(&s->pkt) || !acknowledges_the_same(&s->pkt, &rec->pkt))
            continue;
        if (!s->matched)
            return s;
        used = s;
    }
    return used;
}

/* The highest PSN that the engine had acknowledged when a frame was captured. */
static int64_t acked_by(const struct engine_answers *o, const struct run *r, const struct rec *rec)
{
    unsigned low = 0, high = o->count;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (r->capture->rec[o->sent[mid]->after].number <= rec->number)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? o->acked[low - 1] : INT64_MIN;
}

/* Whether the capture has, before this frame, a request that asked for an ACK and got none
 * from the engine. */
static bool ack_was_requested(const struct stream *stream, int64_t acked, const struct rec *rec)
{
    unsigned n, i = judge_find_psn(stream->req, stream->reqs,
                                   acked == INT64_MIN ? stream->start : acked + 1, &n);

    for (; i < stream->reqs && stream->req[i]->psn <= rec->psn; i++)
        if (stream->req[i]->number < rec->number && stream->req[i]->pkt.ack_req)
            return true;
    return false;
}

/* A sequence error NAK for the PSN that an RNR NAK was sent for before. */
static bool follows_rnr_nak(const struct stream *s, const struct rec *nak)
{
    unsigned n, at = judge_find_psn(s->ans_by_psn, s->answers, nak->psn, &n);

    if (nak->pkt.aeth.syndrome != (AETH_NAK | NAK_PSN_SEQUENCE))
        return false;
    for (unsigned i = at; i < at + n; i++)
        if (s->ans_by_psn[i]->number < nak->number && is_ack(&s->ans_by_psn[i]->pkt) &&
            (s->ans_by_psn[i]->pkt.aeth.syndrome & AETH_CLASS_MASK) == AETH_RNR)
            return true;
    return false;
}

/* The rule for a recorded acknowledge without a counterpart from the engine, or -1. */
static int rule_for_missing(const struct run *r, const struct stream *stream,
                            const struct engine_answers *o, const struct rec *rec)
{
    int64_t acked = acked_by(o, r, rec);

    if (!is_positive(&rec->pkt))
        return follows_rnr_nak(stream, rec) ? RULE_nak_after_rnr : -1;
    if (acked >= rec->psn)
        return RULE_ack_coalescing;
    return ack_was_requested(stream, acked, rec) ? -1 : RULE_ack_unasked;
}

static void judge_recorded_ack(struct run *r, const struct stream *stream,
                               const struct engine_answers *o, const struct rec *rec)
{
    struct sent *s = find_ack(o, rec);
    uint64_t fields;

    if (s != NULL && !s->matched) {
        fields = replay_compare(s, rec);
        judge_note_fields(r, s, rec, fields);
    } else if (s != NULL) {
        finding_add(r, DIFF_missing_answer, RULE_ack_repeated, 0, rec, NULL, NULL);
    } else {
        finding_add(r, DIFF_missing_answer, rule_for_missing(r, stream, o, rec), 0, rec, NULL,
                    NULL);
    }
}

static void judge_extra_ack(struct run *r, const struct engine_answers *o, const struct sent *s)
{
    int rule = -1;

    if (is_positive(&s->pkt) && o->recorded_acked >= s->psn)
        rule = RULE_ack_coalescing;
    else if (seems_lost(r, o, s))
        rule = RULE_lost;
    finding_add(r, DIFF_extra_answer, rule, 0, NULL, s, NULL);
}

/* How many messages of the stream an answer says are done. */
static uint32_t messages_done(const struct message *m, const struct stream *stream,
                              const struct rec *ans)
{
    bool done =
        !is_ack(&ans->pkt) || (is_positive(&ans->pkt) && ans->psn == m->first + m->packets - 1);

    return (uint32_t)(m - stream->msg) + done;
}

/*
 * A capture that begins in the middle of a connection does not show how many messages were sent
 * before. The recorded MSNs are then higher than the number of recorded messages, and the engine's
 * MSNs are shifted to them. The first answer decides.
 */
static void shift_msns(const struct stream *stream, const struct engine_answers *o)
{
    uint32_t shift = 0;
    bool found = false;

    for (unsigned i = 0; i < stream->answers && !found; i++) {
        const struct rec *ans = stream->ans[i];
        const struct message *m = stream_message(stream, ans->psn);
        unsigned k = first_engine_answer(o, ans->psn);

        if (m == NULL || k == o->count || o->by_psn[k]->psn != ans->psn ||
            o->by_psn[k]->pkt.opcode != ans->pkt.opcode || !(pkt_info(&ans->pkt)->flags & PF_AETH))
            continue;
        found = true;
        if (ans->pkt.aeth.msn > messages_done(m, stream, ans))
            shift = ans->pkt.aeth.msn - o->by_psn[k]->pkt.aeth.msn;
    }
    for (unsigned i = 0; shift && i < o->count; i++) {
        struct sent *s = o->sent[i];

        if (!(pkt_info(&s->pkt)->flags & PF_AETH))
            continue;
        s->pkt.aeth.msn = (s->pkt.aeth.msn + shift) & PSN_MASK;
        host_change_sent(s, FRAME_AETH_msn, s->pkt.aeth.msn);
    }
}

static bool is_early(const struct stream *s, const struct rec *ans)
{
    return s->early && ans->number <= s->ans[s->early - 1]->number;
}

/* A recorded answer. One with data has no counterpart: the engine sent none with its PSN. */
static void judge_recorded(struct run *r, const struct stream *stream,
                           const struct engine_answers *o, const struct rec *rec)
{
    if (rec->psn < stream->start || is_early(stream, rec))
        r->unused[USE_before_start]++;
    else if (rec->psn >= stream->hole)
        r->unused[USE_after_gap]++;
    else if (is_ack(&rec->pkt))
        judge_recorded_ack(r, stream, o, rec);
    else
        finding_add(r, DIFF_missing_answer, -1, 0, rec, NULL, NULL);
}

void replay_judge_answers(struct run *r, struct our_qp *q)
{
    const struct stream *stream = &q->conn->stream[!r->side];
    struct engine_answers o = collect_answers(q, stream);
    uint8_t *covered = flags_for(stream->answers);

    if (q->conn->sample[r->side] == NULL || (stream->answers == 0 && stream->reqs == 0)) {
        r->unused[USE_one_way] += o.count;
        o.count = 0;
    }
    shift_msns(stream, &o);
    for (unsigned i = 0; i < o.count; i++)
        if (!is_ack(&o.sent[i]->pkt))
            judge_data_answer(r, &o, o.sent[i], covered);
    for (unsigned i = 0; i < stream->answers; i++)
        if (!covered[i])
            judge_recorded(r, stream, &o, stream->ans_by_psn[i]);
    for (unsigned i = 0; i < o.count; i++)
        if (is_ack(&o.sent[i]->pkt) && !o.sent[i]->matched)
            judge_extra_ack(r, &o, o.sent[i]);
    free(covered);
    free_answers(&o);
}
