/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine sent against what was recorded. Requests and answers with data are found by their
 * PSN: whenever and however often they were sent, their content is one. Acknowledges are compared
 * by what they say: which PSN was reached when, and what was refused.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "replay.h"

void finding_add(struct run *r, enum replay_diff diff, int rule, uint64_t fields,
                 const struct rec *rec, const struct sent *sent, const char *text, ...)
{
    struct finding *f;
    va_list args;

    ENSURE_ROOM(r->finding, r->findings, r->finding_room);
    f = &r->finding[r->findings++];
    *f = (struct finding){
        .diff = (uint8_t)diff, .rule = rule, .fields = fields, .rec = rec, .sent = sent};
    if (text == NULL)
        return;
    va_start(args, text);
    vsnprintf(f->text, sizeof(f->text), text, args);
    va_end(args);
}

/* ---- fields ---- */

static unsigned forbidden(uint64_t fields, const struct sent *s, const struct rec *rec)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FIELD_COUNT; i++)
        if ((fields & (UINT64_C(1) << i)) && replay_field_rule(i, s, rec) < 0)
            n++;
    return n;
}

/* Notes what differs between two frames that belong together. */
static void note_fields(struct run *r, struct sent *s, const struct rec *rec, uint64_t fields)
{
    uint64_t bad = 0;

    s->matched = true;
    r->compared++;
    if (!(fields & ~FIELDS_NUMBERING))
        r->identical++;
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        uint64_t bit = UINT64_C(1) << i;
        int rule = fields & bit ? replay_field_rule(i, s, rec) : -1;

        if (!(fields & bit) || (bit & FIELDS_NUMBERING))
            continue;
        if (rule < 0)
            bad |= bit;
        else
            finding_add(r, DIFF_field, rule, bit, rec, s, NULL);
    }
    if (bad)
        finding_add(r, DIFF_field, -1, bad, rec, s, NULL);
}

/* The most similar of n recorded copies. */
static unsigned most_similar(struct rec *const *copy, unsigned n, const struct sent *s,
                             uint64_t *fields)
{
    unsigned best = 0, best_bad = 0;

    for (unsigned i = 0; i < n; i++) {
        uint64_t differs = replay_compare(s, copy[i]);
        unsigned bad = forbidden(differs, s, copy[i]);

        if (i && (bad > best_bad || (bad == best_bad && __builtin_popcountll(differs) >=
                                                            __builtin_popcountll(*fields))))
            continue;
        best = i;
        best_bad = bad;
        *fields = differs;
    }
    return best;
}

/* The frames that have this PSN, of n that are sorted by it: the first's index, and how many. */
static unsigned find_psn(struct rec *const *sorted, unsigned n, int64_t psn, unsigned *count)
{
    unsigned low = 0, high = n;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (sorted[mid]->psn < psn)
            low = mid + 1;
        else
            high = mid;
    }
    for (*count = 0; low + *count < n && sorted[low + *count]->psn == psn; ++*count)
        ;
    return low;
}

static bool is_request(const struct pkt *p)
{
    return pkt_info(p)->flags & PF_REQUEST;
}

static bool is_ack(const struct pkt *p)
{
    return pkt_info(p)->kind == KIND_ACK;
}

static uint8_t *flags_for(unsigned n)
{
    uint8_t *flags = replay_grow(NULL, n + 1);

    memset(flags, 0, n + 1);
    return flags;
}

/* ---- requests ---- */

/* A READ that asks for the rest of one that was sent before. */
static bool is_rest_of_read(const struct conn *conn, const struct message *m, const struct sent *s)
{
    uint64_t off = (uint64_t)(s->psn - m->first) * conn->mtu;

    return m->op == SQE_READ && pkt_info(&s->pkt)->kind == KIND_READ_REQUEST &&
           s->pkt.reth.va == m->va + off && s->pkt.reth.rkey == m->rkey &&
           s->pkt.reth.len == m->len - off;
}

static void judge_request(struct run *r, struct our_qp *q, struct sent *s, uint8_t *covered)
{
    const struct stream *stream = &q->conn->stream[r->side];
    const struct message *m = stream_message(stream, s->psn);
    unsigned n, at = find_psn(stream->req, stream->reqs, s->psn, &n);
    uint64_t fields = 0;

    if (n && covered[at]) { /* sent before, and all copies compared with that */
        unsigned best = most_similar(stream->req + at, n, s, &fields);

        note_fields(r, s, stream->req[at + best], fields);
    } else if (n) {
        for (unsigned i = at; i < at + n; i++)
            note_fields(r, s, stream->req[i], replay_compare(s, stream->req[i]));
        memset(covered + at, 1, n);
    } else if (m == NULL) {
        finding_add(r, DIFF_extra_request, -1, 0, NULL, s, NULL);
    } else if (s->psn != m->first && m->op == SQE_READ) {
        finding_add(r, DIFF_extra_request,
                    is_rest_of_read(q->conn, m, s) ? RULE_retransmission : -1, 0, NULL, s, NULL);
    } else {
        r->lost++;
    }
}

/* A recorded request that the engine did not send. */
static void judge_unsent(struct run *r, const struct our_qp *q, const struct rec *rec)
{
    const struct message *m = rec->msg;

    if (m == NULL)
        r->unused[rec->psn < q->conn->stream[r->side].start ? USE_before_start : USE_after_gap]++;
    else if (m->op == SQE_READ && rec->psn != m->first)
        finding_add(r, DIFF_missing_request, RULE_retransmission, 0, rec, NULL, NULL);
    else
        finding_add(r, DIFF_missing_request, q->errored ? RULE_refused : -1, 0, rec, NULL, NULL);
}

static void judge_requests(struct run *r, struct our_qp *q)
{
    const struct stream *stream = &q->conn->stream[r->side];
    uint8_t *covered = flags_for(stream->reqs);

    for (unsigned i = 0; i < q->sents; i++)
        if (is_request(&q->sent[i]->pkt))
            judge_request(r, q, q->sent[i], covered);
    for (unsigned i = 0; i < stream->reqs; i++)
        if (!covered[i])
            judge_unsent(r, q, stream->req[i]);
    free(covered);
}

/* ---- completions and results of requests ---- */

static const struct rec *any_request_of(const struct stream *s, const struct message *m)
{
    unsigned n, at = find_psn(s->req, s->reqs, m->first, &n);

    return at < s->reqs ? s->req[at] : NULL;
}

static int expected_status(const struct message *m)
{
    if (m->outcome == OUTCOME_ACKED)
        return WC_SUCCESS;
    if (m->outcome != OUTCOME_NAK)
        return -1;
    switch (m->nak) {
    case NAK_INVALID_REQUEST:
        return WC_REM_INV_REQ_ERR;
    case NAK_REMOTE_ACCESS:
        return WC_REM_ACCESS_ERR;
    case NAK_REMOTE_OPERATIONAL:
        return WC_REM_OP_ERR;
    default:
        return -1;
    }
}

static void judge_completions(struct run *r, struct our_qp *q)
{
    const struct stream *s = &q->conn->stream[r->side];

    for (unsigned i = 0; i < s->msgs; i++) {
        const struct message *m = &s->msg[i];
        int wanted = q->conn->service == PKT_UC ? WC_SUCCESS : expected_status(m);

        if (wanted < 0)
            continue;
        r->effects++;
        if (q->status[i] == wanted)
            continue;
        if (q->status[i] == NOT_COMPLETED)
            finding_add(r, DIFF_completion, -1, 0, any_request_of(s, m), NULL,
                        "did not complete, should with status %d", wanted);
        else
            finding_add(r, DIFF_completion, -1, 0, any_request_of(s, m), NULL,
                        "completed with status %u, not %d", q->status[i], wanted);
        if (m->outcome == OUTCOME_NAK)
            return; /* the rest is flushed */
    }
}

static bool was_delivered(const struct conn *conn, const struct stream *s, const struct message *m)
{
    if (!message_takes_recv(m) || m->filler)
        return false;
    if (conn->service == PKT_UC)
        return host_is_delivered(conn, s, m);
    return m->outcome == OUTCOME_ACKED && m->first + m->packets <= s->hole;
}

/* Messages that the recorded responder took came out of a receive entry. */
static void judge_received(struct run *r, struct our_qp *q)
{
    const struct stream *s = &q->conn->stream[!r->side];

    for (unsigned i = q->next_recv; i < s->msgs; i++)
        if (was_delivered(q->conn, s, &s->msg[i]))
            finding_add(r, DIFF_effect, -1, 0, any_request_of(s, &s->msg[i]), NULL,
                        "the message was not received");
}

/* What READs and atomics brought is what the recorded responses carried. */
static void judge_results(struct run *r, struct our_qp *q)
{
    const struct stream *s = &q->conn->stream[r->side];

    for (unsigned i = 0; i < s->answers; i++) {
        const struct rec *ans = s->ans_by_psn[i];
        const struct message *m = stream_message(s, ans->psn);
        const uint8_t *landed, *bytes = ans->pkt.payload;
        uint32_t len = ans->pkt.payload_len;
        uint64_t off;

        if (m == NULL || is_ack(&ans->pkt) || q->status[m - s->msg] != WC_SUCCESS ||
            (i && s->ans_by_psn[i - 1]->psn == ans->psn))
            continue;
        if (pkt_info(&ans->pkt)->kind == KIND_ATOMIC_ACK) {
            bytes = (const uint8_t *)&ans->pkt.atomic_ack;
            len = sizeof(ans->pkt.atomic_ack);
        }
        off = (uint64_t)(ans->psn - m->first) * q->conn->mtu;
        if (off + len > m->len || m->op == SQE_FLUSH || m->op == SQE_ATOMIC_WRITE)
            continue;
        landed = r->landing_bytes + q->landing_off[m - s->msg] + off;
        r->effects++;
        if (memcmp(landed, bytes, len))
            finding_add(r, DIFF_effect, -1, 0, ans, NULL, "%u bytes did not arrive as sent", len);
    }
}

/* ---- answers with data ---- */

/* Our answers on a stream, and what is asked of them and of the recorded ones. */
struct ours {
    const struct stream *stream;
    struct sent **sent; /* in order */
    struct sent **by_psn;
    int64_t *acked;   /* per answer in order: how far we had acknowledged */
    int64_t *to_come; /* per recorded answer: the highest PSN of it and those behind it */
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

static struct ours our_answers(struct our_qp *q, const struct stream *stream)
{
    struct ours o = {.stream = stream, .recorded_acked = INT64_MIN};
    int64_t acked = INT64_MIN;

    o.sent = replay_grow(NULL, (q->sents + 1) * sizeof(*o.sent));
    o.by_psn = replay_grow(NULL, (q->sents + 1) * sizeof(*o.sent));
    o.acked = replay_grow(NULL, (q->sents + 1) * sizeof(*o.acked));
    o.to_come = replay_grow(NULL, (stream->answers + 1) * sizeof(*o.to_come));
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
    o.to_come[stream->answers] = INT64_MIN;
    for (unsigned i = stream->answers; i-- > 0;) {
        const struct rec *ans = stream->ans[i];

        o.to_come[i] = max_of(o.to_come[i + 1], ans->psn);
        o.recorded_acked = max_of(o.recorded_acked, ans->psn - !is_positive(&ans->pkt));
    }
    return o;
}

static void free_answers(struct ours *o)
{
    free(o->sent);
    free(o->by_psn);
    free(o->acked);
    free(o->to_come);
}

/* Our first answer with this PSN or a later one, by PSN. */
static unsigned first_of_ours(const struct ours *o, int64_t psn)
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

/* The first recorded answer behind the frame of this number. */
static unsigned first_behind(const struct stream *s, unsigned number)
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

/* Whether what was recorded afterwards shows that our answer's like was lost: it was asked for
 * again, or nothing more was captured of the connection that would tell. */
static bool seems_lost(const struct run *r, const struct ours *o, const struct sent *s)
{
    const struct message *m = stream_message(o->stream, s->psn);
    unsigned number = r->capture->rec[s->after].number, n;

    for (unsigned i = m ? find_psn(o->stream->req, o->stream->reqs, m->first, &n) : UINT_MAX;
         i < o->stream->reqs && o->stream->req[i]->msg == m; i++)
        if (o->stream->req[i]->number > number)
            return true;
    return o->to_come[first_behind(o->stream, number)] < s->psn;
}

static void judge_data_answer(struct run *r, const struct ours *o, struct sent *s, uint8_t *covered)
{
    const struct stream *stream = o->stream;
    unsigned n, at = find_psn(stream->ans_by_psn, stream->answers, s->psn, &n), data = 0;
    struct rec **copy = replay_grow(NULL, (n + 1) * sizeof(*copy));
    uint64_t fields = 0;

    for (unsigned i = 0; i < n; i++)
        if (!is_ack(&stream->ans_by_psn[at + i]->pkt)) {
            copy[data++] = stream->ans_by_psn[at + i];
            covered[at + i] = 1;
        }
    if (data) {
        unsigned best = most_similar(copy, data, s, &fields);

        note_fields(r, s, copy[best], fields);
    } else {
        finding_add(r, DIFF_extra_answer, seems_lost(r, o, s) ? RULE_lost : -1, 0, NULL, s, NULL);
    }
    free(copy);
}

/* ---- acknowledges ---- */

static bool says_the_same(const struct pkt *a, const struct pkt *b)
{
    uint8_t class = a->aeth.syndrome & AETH_CLASS_MASK;

    if (class != (b->aeth.syndrome & AETH_CLASS_MASK))
        return false;
    return class == AETH_ACK || class == AETH_RNR || a->aeth.syndrome == b->aeth.syndrome;
}

/* The first acknowledge of ours with this PSN that says the same and is not matched yet; else the
 * last that is. */
static struct sent *find_ack(const struct ours *o, const struct rec *rec)
{
    struct sent *used = NULL;

    for (unsigned i = first_of_ours(o, rec->psn); i < o->count && o->by_psn[i]->psn == rec->psn;
         i++) {
        struct sent *s = o->by_psn[i];

        if (!is_ack(&s->pkt) || !says_the_same(&s->pkt, &rec->pkt))
            continue;
        if (!s->matched)
            return s;
        used = s;
    }
    return used;
}

/* How far we had acknowledged when a frame was captured. */
static int64_t acked_by(const struct ours *o, const struct run *r, const struct rec *rec)
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

/* Whether any request that asked for an acknowledge, and got none of ours, was recorded before. */
static bool was_asked(const struct stream *stream, int64_t acked, const struct rec *rec)
{
    unsigned n, i = acked == INT64_MIN ? 0 : find_psn(stream->req, stream->reqs, acked + 1, &n);

    for (; i < stream->reqs && stream->req[i]->psn <= rec->psn; i++)
        if (stream->req[i]->number < rec->number && stream->req[i]->pkt.ack_req)
            return true;
    return false;
}

/* Nothing of ours says the same as a recorded acknowledge. */
static int rule_for_missing(const struct run *r, const struct stream *stream, const struct ours *o,
                            const struct rec *rec)
{
    int64_t acked = acked_by(o, r, rec);

    if (!is_positive(&rec->pkt))
        return -1;
    if (acked >= rec->psn)
        return RULE_ack_coalescing;
    return was_asked(stream, acked, rec) ? -1 : RULE_ack_unasked;
}

static void judge_recorded_ack(struct run *r, const struct stream *stream, const struct ours *o,
                               const struct rec *rec)
{
    struct sent *s = find_ack(o, rec);
    uint64_t fields;

    if (s != NULL && !s->matched) {
        fields = replay_compare(s, rec);
        note_fields(r, s, rec, fields);
    } else if (s != NULL) {
        finding_add(r, DIFF_missing_answer, RULE_ack_repeated, 0, rec, NULL, NULL);
    } else {
        finding_add(r, DIFF_missing_answer, rule_for_missing(r, stream, o, rec), 0, rec, NULL,
                    NULL);
    }
}

static void judge_extra_ack(struct run *r, const struct ours *o, const struct sent *s)
{
    int rule = -1;

    if (is_positive(&s->pkt) && o->recorded_acked >= s->psn)
        rule = RULE_ack_coalescing;
    else if (seems_lost(r, o, s))
        rule = RULE_lost;
    finding_add(r, DIFF_extra_answer, rule, 0, NULL, s, NULL);
}

/*
 * A capture that begins in the middle of a connection does not tell how many messages went before:
 * then the recorded MSNs are more than messages were recorded, and ours are shifted to them. The
 * first answer decides.
 */
static void shift_msns(const struct stream *stream, const struct ours *o)
{
    uint32_t shift = 0;
    bool found = false;

    for (unsigned i = 0; i < stream->answers && !found; i++) {
        const struct rec *ans = stream->ans[i];
        const struct message *m = stream_message(stream, ans->psn);
        unsigned k = first_of_ours(o, ans->psn);

        if (m == NULL || k == o->count || o->by_psn[k]->psn != ans->psn ||
            o->by_psn[k]->pkt.opcode != ans->pkt.opcode || !(pkt_info(&ans->pkt)->flags & PF_AETH))
            continue;
        found = true;
        if (ans->pkt.aeth.msn > (uint32_t)(m - stream->msg) + 1)
            shift = ans->pkt.aeth.msn - o->by_psn[k]->pkt.aeth.msn;
    }
    for (unsigned i = 0; shift && i < o->count; i++) {
        struct sent *s = o->sent[i];

        if (!(pkt_info(&s->pkt)->flags & PF_AETH))
            continue;
        s->pkt.aeth.msn = (s->pkt.aeth.msn + shift) & PSN_MASK;
        put_be24((uint8_t *)(uintptr_t)s->view.bth + BTH_LEN + 1, s->pkt.aeth.msn);
        icrc_seal(s->view.l3_kind, (uint8_t *)(uintptr_t)s->view.l3, s->view.l3_len - ICRC_LEN);
    }
}

/* A recorded answer; one with data is here because we sent none with its PSN. */
static void judge_recorded(struct run *r, const struct stream *stream, const struct ours *o,
                           const struct rec *rec)
{
    if (rec->psn < stream->start)
        r->unused[USE_before_start]++;
    else if (rec->psn >= stream->hole)
        r->unused[USE_after_gap]++;
    else if (is_ack(&rec->pkt))
        judge_recorded_ack(r, stream, o, rec);
    else
        finding_add(r, DIFF_missing_answer, -1, 0, rec, NULL, NULL);
}

static void judge_answers(struct run *r, struct our_qp *q)
{
    const struct stream *stream = &q->conn->stream[!r->side];
    struct ours o = our_answers(q, stream);
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

/* ---- datagrams ---- */

/* A queue pair's datagrams leave in the order in which they were posted. */
static void judge_datagrams(struct run *r, struct our_qp *q)
{
    unsigned next = 0;

    for (unsigned i = 0; i < r->capture->count; i++) {
        const struct rec *rec = &r->capture->rec[i];
        struct sent *s = NULL;

        if (rec->talk != r->talk || rec->use != USE_replay || rec->conn != NULL ||
            rec->side != r->side || rec->pkt.deth.src_qpn != q->recorded_qpn)
            continue;
        for (; next < r->sents && s == NULL; next++)
            if (r->sent[next]->sound && pkt_info(&r->sent[next]->pkt)->service == PKT_UD &&
                r->sent[next]->pkt.deth.src_qpn == q->recorded_qpn)
                s = r->sent[next];
        if (s == NULL)
            finding_add(r, DIFF_missing_request, -1, 0, rec, NULL, NULL);
        else
            note_fields(r, s, rec, replay_compare(s, rec));
    }
}

void replay_judge(struct run *r)
{
    for (unsigned i = 0; i < r->sents; i++) {
        struct sent *s = r->sent[i];

        if (!s->sound)
            finding_add(r, DIFF_unsound, -1, 0, NULL, s, NULL);
        else if (s->conn == NULL && pkt_info(&s->pkt)->service != PKT_UD)
            finding_add(r, DIFF_unknown_flow, -1, 0, NULL, s, NULL);
    }
    for (unsigned i = 0; i < r->qpcount; i++) {
        struct our_qp *q = r->qp[i];

        if (q->conn == NULL) {
            judge_datagrams(r, q);
            continue;
        }
        judge_requests(r, q);
        judge_completions(r, q);
        judge_results(r, q);
        judge_received(r, q);
        judge_answers(r, q);
    }
}
