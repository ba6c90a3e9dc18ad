/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to messages: packets in the order of their PSNs, independent of the order and the number
 * of times of their recording. Fillers replace what the capture lost, so that later messages keep
 * their PSNs.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

/* The most consecutive PSNs without a recorded packet; a capture with more is not of one
 * connection. */
#define MAX_GAP 4096

/* A stream that is being cut into messages. */
struct builder {
    struct stream *s;
    uint32_t mtu;
    int64_t next;      /* the next PSN */
    struct message *m; /* the current message, whose end was not seen yet; in s->msg */
};

static uint8_t op_of(const struct pkt *p)
{
    uint16_t flags = pkt_info(p)->flags;

    switch (pkt_info(p)->kind) {
    case KIND_WRITE:
        return flags & PF_IMM ? SQE_WRITE_IMM : SQE_WRITE;
    case KIND_READ_REQUEST:
        return SQE_READ;
    case KIND_CMP_SWP:
        return SQE_CMP_SWP;
    case KIND_FETCH_ADD:
        return SQE_FETCH_ADD;
    case KIND_FLUSH:
        return SQE_FLUSH;
    case KIND_ATOMIC_WRITE:
        return SQE_ATOMIC_WRITE;
    default:
        return flags & PF_IMM ? SQE_SEND_IMM : flags & PF_IETH ? SQE_SEND_INV : SQE_SEND;
    }
}

static struct message *new_message(struct builder *b, int64_t first)
{
    struct stream *s = b->s;

    ENSURE_ROOM(s->msg, s->msgs, s->msg_room);
    s->msg[s->msgs] = (struct message){.first = first, .packets = 1, .op = SQE_SEND};
    return &s->msg[s->msgs++];
}

static uint32_t packets_of(uint32_t len, uint32_t mtu)
{
    return len ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1;
}

/* Reads a message's properties from its first packet. */
static void read_first_packet(struct message *m, const struct pkt *p, uint32_t mtu)
{
    uint16_t flags = pkt_info(p)->flags;

    m->op = op_of(p);
    m->len = p->payload_len;
    if (flags & PF_RETH) {
        m->va = p->reth.va;
        m->rkey = p->reth.rkey;
        m->len = min_of(p->reth.len, MESSAGE_MAX);
    }
    if (m->op == SQE_READ)
        m->packets = packets_of(m->len, mtu);
    if (flags & PF_FETH) {
        m->placement = p->feth.placement;
        m->selectivity = p->feth.selectivity;
    }
    if (flags & PF_ATOMICETH) {
        m->va = p->atomic.va;
        m->rkey = p->atomic.rkey;
        m->swap_add = p->atomic.swap_add;
        m->compare = p->atomic.compare;
        m->len = sizeof(uint64_t);
    }
}

/* Reads a message's properties from its last packet. */
static void read_last_packet(struct message *m, const struct pkt *p)
{
    uint16_t flags = pkt_info(p)->flags;

    m->op = op_of(p);
    m->solicited = p->solicited;
    m->has_imm = flags & PF_IMM;
    m->has_inv = flags & PF_IETH;
    m->imm = p->imm;
    m->inv_rkey = p->ieth_rkey;
}

/* The current message ends before PSN `end`, and its last packet was not recorded. */
static void cut_message(struct builder *b, int64_t end)
{
    struct message *m = b->m;
    uint32_t packets = (uint32_t)(end - m->first);

    b->m = NULL;
    m->cut = true;
    if (m->op == SQE_WRITE && packets_of(m->len, b->mtu) <= packets) {
        m->packets = packets_of(m->len, b->mtu);
    } else {
        m->packets = packets;
        m->len = packets * b->mtu;
    }
    b->next = m->first + m->packets;
}

/* Covers PSNs without recorded packets by a filler. */
static void fill_gap(struct builder *b, int64_t end)
{
    struct message *m;

    if (b->next >= end)
        return;
    m = new_message(b, b->next);
    m->filler = m->cut = true;
    m->packets = (uint32_t)(end - b->next);
    m->len = m->packets * b->mtu;
    b->next = end;
}

static bool continues_message(const struct message *m, const struct pkt *p)
{
    bool write = m->op == SQE_WRITE;

    return !(pkt_info(p)->flags & PF_START) && write == (pkt_info(p)->kind == KIND_WRITE);
}

/* Adds the first packet of a PSN. */
static void add_packet(struct builder *b, const struct rec *rec)
{
    const struct pkt *p = &rec->pkt;
    uint16_t flags = pkt_info(p)->flags;

    if (b->m != NULL && !continues_message(b->m, p))
        cut_message(b, rec->psn);
    if (b->m == NULL && (flags & PF_START)) {
        fill_gap(b, rec->psn);
        b->m = new_message(b, rec->psn);
        read_first_packet(b->m, p, b->mtu);
    } else if (b->m == NULL) { /* the start was lost: it was where the gap begins */
        b->m = new_message(b, min_of(b->next, rec->psn));
        b->m->op = pkt_info(p)->kind == KIND_WRITE ? SQE_WRITE : SQE_SEND;
    }
    b->next = rec->psn + 1;
    if (!(flags & PF_END))
        return;
    read_last_packet(b->m, p);
    if (!(flags & PF_START)) {
        b->m->packets = (uint32_t)(b->next - b->m->first);
        b->m->len = (b->m->packets - 1) * b->mtu + p->payload_len;
    }
    b->next = b->m->first + b->m->packets;
    b->m = NULL;
}

/* The capture ends in the middle of a message. */
static void finish_stream(struct builder *b)
{
    struct message *m = b->m;

    if (m == NULL)
        return;
    m->cut = true;
    m->packets = (uint32_t)(b->next - m->first) + 1;
    if (m->op == SQE_WRITE && m->len > (m->packets - 1) * b->mtu)
        m->packets = packets_of(m->len, b->mtu);
    else
        m->len = m->packets * b->mtu;
    b->next = m->first + m->packets;
}

struct message *stream_message(const struct stream *s, int64_t psn)
{
    unsigned low = 0, high = s->msgs;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        struct message *m = &s->msg[mid];

        if (psn < m->first)
            high = mid;
        else if (psn >= m->first + m->packets)
            low = mid + 1;
        else
            return m;
    }
    return NULL;
}

/* A message is posted when its first packet, or the first answer to it, was recorded; messages are
 * posted in order. */
static void find_post_times(struct capture *c, struct stream *s)
{
    unsigned next = UINT_MAX;

    for (unsigned i = 0; i < s->msgs; i++)
        s->msg[i].post_index = UINT_MAX;
    for (unsigned i = 0; i < s->reqs; i++) {
        struct message *m = s->req[i]->msg = stream_message(s, s->req[i]->psn);

        if (m == NULL)
            continue;
        m->post_index = min_of(m->post_index, (unsigned)(s->req[i] - c->rec));
        if (i == 0 || s->req[i]->psn != s->req[i - 1]->psn)
            m->recorded++;
    }
    for (unsigned i = 0; i < s->answers; i++) {
        struct message *m = stream_message(s, s->ans[i]->psn);

        if (m != NULL)
            m->post_index = min_of(m->post_index, (unsigned)(s->ans[i] - c->rec));
    }
    for (unsigned i = s->msgs; i-- > 0;)
        next = s->msg[i].post_index = min_of(s->msg[i].post_index, next);
}

void stream_build(struct capture *c, struct conn *conn, unsigned side)
{
    struct stream *s = &conn->stream[side];
    struct builder b = {.s = s, .mtu = conn->mtu, .next = s->start};

    for (unsigned i = 0; i < s->reqs; i++) {
        const struct rec *rec = s->req[i];

        if (rec->psn < b.next || (i && rec->psn == s->req[i - 1]->psn))
            continue; /* a copy, or a READ that was repeated from its middle */
        if (rec->psn - b.next > MAX_GAP)
            break;
        add_packet(&b, rec);
    }
    finish_stream(&b);
    find_post_times(c, s);
}

void stream_fill(struct capture *c, struct stream *s, uint32_t mtu)
{
    for (unsigned i = 0; i < s->reqs; i++) {
        const struct rec *rec = s->req[i];
        const struct message *m = rec->msg;
        uint64_t off;

        if (m == NULL || m->op == SQE_READ || (i && rec->psn == s->req[i - 1]->psn))
            continue;
        off = (uint64_t)(rec->psn - m->first) * mtu;
        if (off <= m->len && rec->pkt.payload_len <= m->len - off)
            memcpy(c->arena + m->arena_off + off, rec->pkt.payload, rec->pkt.payload_len);
    }
}

/* The first PSN without a recorded request, or the stream's end. */
static int64_t first_hole(const struct stream *s)
{
    int64_t next = s->start;

    for (unsigned i = 0; i < s->reqs && s->req[i]->psn <= next; i++) {
        const struct message *m = s->req[i]->msg;

        next = max_of(next, s->req[i]->psn + 1);
        if (m != NULL && m->op == SQE_READ)
            next = max_of(next, m->first + m->packets);
    }
    return next;
}

static void note_outcome(struct conn *conn, unsigned side, const struct rec *ans, int64_t *acked)
{
    struct stream *s = &conn->stream[side];
    const struct pkt *p = &ans->pkt;
    struct message *m = stream_message(s, ans->psn);
    uint8_t value = p->aeth.syndrome & AETH_VALUE_MASK;

    if (pkt_info(p)->kind != KIND_ACK || (p->aeth.syndrome & AETH_CLASS_MASK) == AETH_ACK) {
        *acked = max_of(*acked, ans->psn);
        return;
    }
    *acked = max_of(*acked, ans->psn - 1);
    if ((p->aeth.syndrome & AETH_CLASS_MASK) == AETH_RNR) {
        conn->rnr_timer[!side] = value;
        if (m != NULL) {
            m->rnr_naks++;
            m->rnr_at = ans->at;
        }
    } else if (m != NULL && value != NAK_PSN_SEQUENCE) {
        m->outcome = OUTCOME_NAK;
        m->nak = value;
        m->nak_psn = ans->psn;
    }
}

/* How much of each response reached the requester: a packet behind a hole does not count, the READ
 * is then repeated from the hole. */
static void count_responses(struct stream *s)
{
    for (unsigned i = 0; i < s->answers; i++) {
        const struct rec *ans = s->ans[i];
        struct message *m = stream_message(s, ans->psn);

        if (m != NULL && message_has_response(m) && pkt_info(&ans->pkt)->kind != KIND_ACK &&
            ans->psn == m->first + m->answered)
            m->answered++;
    }
}

static void find_holes(struct stream *s, bool reliable, int64_t acked)
{
    int64_t hole = first_hole(s);

    s->hole = reliable && hole <= acked ? hole : INT64_MAX;
    s->answer_hole = INT64_MAX;
    for (unsigned i = 0; i < s->msgs; i++) {
        const struct message *m = &s->msg[i];

        if (message_takes_recv(m))
            s->longest_recv = max_of(s->longest_recv, m->len);
        if (m->outcome == OUTCOME_ACKED && message_has_response(m) && s->answer_hole == INT64_MAX &&
            m->answered != m->packets)
            s->answer_hole = m->first;
    }
}

void stream_outcomes(struct capture *c, struct conn *conn, unsigned side)
{
    struct stream *s = &conn->stream[side];
    int64_t acked = s->start - 1;

    for (unsigned i = s->early; i < s->answers; i++)
        note_outcome(conn, side, s->ans[i], &acked);
    for (unsigned i = 0; i < s->msgs; i++) {
        struct message *m = &s->msg[i];

        if (m->outcome == OUTCOME_NONE && m->first + m->packets - 1 <= acked)
            m->outcome = OUTCOME_ACKED;
    }
    count_responses(s);
    find_holes(s, conn->service == PKT_RC, acked);
}
