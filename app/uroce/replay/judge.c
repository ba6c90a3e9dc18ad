/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine sent against what was recorded. Requests and answers with data are paired by
 * their PSN: every transmission of a PSN has the same content. ACKs and NAKs are compared by what
 * they acknowledge when, and by what they refuse.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

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

static unsigned count_forbidden(uint64_t fields, const struct sent *s, const struct rec *rec)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FIELD_COUNT; i++)
        if ((fields & (UINT64_C(1) << i)) && replay_field_rule(i, s, rec) < 0)
            n++;
    return n;
}

void judge_note_fields(struct run *r, struct sent *s, const struct rec *rec, uint64_t fields)
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

unsigned judge_most_similar(struct rec *const *copy, unsigned n, const struct sent *s,
                            uint64_t *fields)
{
    unsigned best = 0, best_bad = 0;

    for (unsigned i = 0; i < n; i++) {
        uint64_t differs = replay_compare(s, copy[i]);
        unsigned bad = count_forbidden(differs, s, copy[i]);

        if (i && (bad > best_bad || (bad == best_bad && __builtin_popcountll(differs) >=
                                                            __builtin_popcountll(*fields))))
            continue;
        best = i;
        best_bad = bad;
        *fields = differs;
    }
    return best;
}

unsigned judge_find_psn(struct rec *const *sorted, unsigned n, int64_t psn, unsigned *count)
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

/* ---- requests ---- */

/* A READ that requests the rest of an earlier one. */
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
    unsigned n, at = judge_find_psn(stream->req, stream->reqs, s->psn, &n);
    uint64_t fields = 0;

    if (n &&
        covered[at]) { /* the engine sent it before, and that packet was compared with all copies */
        unsigned best = judge_most_similar(stream->req + at, n, s, &fields);

        judge_note_fields(r, s, stream->req[at + best], fields);
    } else if (n) {
        for (unsigned i = at; i < at + n; i++)
            judge_note_fields(r, s, stream->req[i], replay_compare(s, stream->req[i]));
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
    const struct stream *s = &q->conn->stream[r->side];

    if (m == NULL || rec->psn >= s->answer_hole)
        r->unused[rec->psn < s->start ? USE_before_start : USE_after_gap]++;
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

static const struct rec *first_request_of(const struct stream *s, const struct message *m)
{
    unsigned n, at = judge_find_psn(s->req, s->reqs, m->first, &n);

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

        if (m->first >= s->answer_hole)
            return;
        if (wanted < 0)
            continue;
        r->effects++;
        if (q->status[i] == wanted)
            continue;
        if (q->status[i] == NOT_COMPLETED)
            finding_add(r, DIFF_completion, -1, 0, first_request_of(s, m), NULL,
                        "did not complete, expected status %d", wanted);
        else
            finding_add(r, DIFF_completion, -1, 0, first_request_of(s, m), NULL,
                        "completed with status %u, expected %d", q->status[i], wanted);
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

/* Messages that the recorded responder accepted must have completed a receive WQE. */
static void judge_received(struct run *r, struct our_qp *q)
{
    const struct stream *s = &q->conn->stream[!r->side];

    for (unsigned i = q->next_recv; i < s->msgs; i++)
        if (was_delivered(q->conn, s, &s->msg[i]))
            finding_add(r, DIFF_effect, -1, 0, first_request_of(s, &s->msg[i]), NULL,
                        "the message was not received");
}

/* The results of READs and atomics must be the payloads of the recorded responses. */
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

/* ---- datagrams ---- */

/* A queue pair's datagrams leave in the order in which they were posted. */
static void judge_datagrams(struct run *r, struct our_qp *q)
{
    unsigned next = 0;

    for (unsigned i = 0; i < r->capture->count; i++) {
        const struct rec *rec = &r->capture->rec[i];
        struct sent *s = NULL;

        if (rec->conversation != r->conversation || rec->use != USE_replay || rec->conn != NULL ||
            rec->side != r->side || rec->pkt.deth.src_qpn != q->recorded_qpn)
            continue;
        for (; next < r->sents && s == NULL; next++)
            if (r->sent[next]->sound && pkt_info(&r->sent[next]->pkt)->service == PKT_UD &&
                r->sent[next]->pkt.deth.src_qpn == q->recorded_qpn)
                s = r->sent[next];
        if (s == NULL)
            finding_add(r, DIFF_missing_request, -1, 0, rec, NULL, NULL);
        else
            judge_note_fields(r, s, rec, replay_compare(s, rec));
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
        replay_judge_answers(r, q);
    }
}
