/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a conversation played by an engine. The captured frames are processed in order: the
 * other side's frames are fed to the engine, and our side's messages are posted. Between two frames
 * the virtual clock runs, and the engine's timers with it. Just before a request is fed, its
 * receive WQE, the content of its memory and its access rights are set to what the recorded answer
 * shows.
 */
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define TIMERS_PER_GAP 1000 /* expiries between two frames */
#define TIMERS_PER_RUN 200000
#define UD_HEADER      40
/* A requester whose answers are missing in the capture retransmits: up to this many times the
 * capture's size. */
#define SENT_RATIO 8

struct feeding {
    struct our_qp *q;
    struct rec *rec;
    struct key *key; /* the key that the request names, or NULL */
    bool refused;    /* this packet got a NAK that ends the connection */
    uint32_t epsn;
};

/* ---- translation ---- */

static uint32_t rkey_of(const struct pkt *p)
{
    uint16_t flags = pkt_info(p)->flags;

    return flags & PF_IETH        ? p->ieth_rkey
           : flags & PF_ATOMICETH ? p->atomic.rkey
           : flags & PF_RETH      ? p->reth.rkey
                                  : 0;
}

/* Puts our queue pair's number and key in place of the recorded ones. A key that is not valid
 * becomes 0, which never is. */
static void translate(uint8_t *frame, const struct feeding *f)
{
    const struct rec *rec = f->rec;
    uint8_t *l3 = frame + (rec->view.l3 - rec->data);
    uint32_t rkey = f->key != NULL && f->key->inserted ? f->key->region.key : 0;
    struct frame_layout layout;

    frame_layout(&layout, rec->data, &rec->view, &rec->pkt);
    if (rec->pkt.dest_qpn != QPN_MULTICAST)
        frame_field_put(frame, &layout, FRAME_BTH_dest_qpn, qp_number(f->q->qp));
    frame_field_put(frame, &layout, FRAME_IETH_rkey, rkey);
    frame_field_put(frame, &layout, FRAME_RETH_rkey, rkey);
    frame_field_put(frame, &layout, FRAME_ATOMICETH_rkey, rkey);
    icrc_seal(rec->view.l3_kind, l3, rec->view.l3_len - ICRC_LEN);
}

static void feed_frame(struct run *r, uint8_t *frame, uint32_t len)
{
    struct frame f = {.data = frame, .len = len};

    engine_rx(r->engine, &f, 1, r->now);
    r->fed++;
    host_pump(r);
    host_poll(r);
}

static void feed_translated(struct run *r, const struct feeding *f)
{
    uint8_t *frame = replay_grow(NULL, f->rec->len);

    memcpy(frame, f->rec->data, f->rec->len);
    translate(frame, f);
    feed_frame(r, frame, f->rec->len);
    free(frame);
}

/* ---- before a request ---- */

/* The first answer with this PSN or a later one, in the order of PSNs. */
static unsigned first_answer(const struct stream *s, int64_t psn)
{
    unsigned low = 0, high = s->answers;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (s->ans_by_psn[mid]->psn < psn)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Of several copies of an answer, the first one after the request belongs to it. */
static bool is_answer_to(const struct stream *s, unsigned i, const struct rec *request)
{
    const struct rec *ans = s->ans_by_psn[i];
    const struct rec *before = i ? s->ans_by_psn[i - 1] : NULL;
    const struct rec *after = i + 1 < s->answers ? s->ans_by_psn[i + 1] : NULL;

    if (ans->number < request->number)
        return after == NULL || after->psn != ans->psn;
    return before == NULL || before->psn != ans->psn || before->number < request->number;
}

/* Sets memory to what the recorded answer found there. */
static void set_memory_from_answer(struct run *r, const struct feeding *f)
{
    const struct conn *conn = f->q->conn;
    const struct stream *s = &conn->stream[!r->side];
    const struct message *m = f->rec->msg;
    uint8_t kind = m->op == SQE_READ ? KIND_READ_RESPONSE : KIND_ATOMIC_ACK;

    for (unsigned i = first_answer(s, m->first);
         i < s->answers && s->ans_by_psn[i]->psn < m->first + m->packets; i++) {
        const struct rec *ans = s->ans_by_psn[i];
        uint64_t off = (uint64_t)(ans->psn - m->first) * conn->mtu;

        if (pkt_info(&ans->pkt)->kind != kind || !is_answer_to(s, i, f->rec))
            continue;
        if (kind == KIND_ATOMIC_ACK)
            memory_store(r, m->va, (const uint8_t *)&ans->pkt.atomic_ack, sizeof(uint64_t));
        else if (off + ans->pkt.payload_len <= m->len)
            memory_store(r, m->va + off, ans->pkt.payload, ans->pkt.payload_len);
    }
}

/* The receive buffer's length. A message that is refused for its length finds room for the packets
 * before the refusal. */
static uint32_t recv_wqe_len(const struct conn *conn, const struct stream *s,
                             const struct message *m)
{
    if (conn->service == PKT_UC) /* a lost message leaves its WQE to the next one */
        return s->longest_recv;
    if (m->outcome == OUTCOME_NAK && m->nak == NAK_INVALID_REQUEST && m->op != SQE_WRITE_IMM)
        return (uint32_t)(m->nak_psn - m->first) * conn->mtu;
    return m->len;
}

/* Whether this packet of a message needs the receive WQE. */
static bool needs_recv_wqe(const struct message *m, const struct rec *rec)
{
    uint16_t flags = pkt_info(&rec->pkt)->flags;

    if (!message_takes_recv(m))
        return false;
    return m->op == SQE_WRITE_IMM ? flags & PF_IMM : flags & PF_START;
}

/* Posts receive WQEs in the order of the messages, up to this one's. A message that the recorded
 * responder refused with RNR NAKs gets its WQE after as many of the engine's: a packet that either
 * of them drops for its PSN is no attempt. */
static void post_recv_wqes(struct run *r, struct feeding *f)
{
    struct stream *s = &f->q->conn->stream[!r->side];
    struct message *m = f->rec->msg;

    if (!needs_recv_wqe(m, f->rec) || m->recv_posted || m->rnr_sent < m->rnr_naks)
        return;
    for (; f->q->next_entry < s->msgs && &s->msg[f->q->next_entry] <= m; f->q->next_entry++) {
        struct message *next = &s->msg[f->q->next_entry];

        if (!message_takes_recv(next) || next->recv_posted)
            continue;
        if (next->rnr_sent < next->rnr_naks)
            return;
        host_post_recv(r, f->q, recv_wqe_len(f->q->conn, s, next));
        next->recv_posted = true;
    }
}

/* Makes the engine refuse what the recorded responder refused, while the packet is fed. */
static void set_refusal(struct run *r, struct feeding *f, bool on)
{
    const struct message *m = f->rec->msg;

    if (!f->refused)
        return;
    switch (m->nak) {
    case NAK_INVALID_REQUEST:
        if (on && (m->op == SQE_WRITE_IMM || !message_takes_recv(m)))
            host_set_access(r, f->q, 0);
        break;
    case NAK_REMOTE_ACCESS:
        if (f->key != NULL)
            f->key->region.pd = on ? REPLAY_PD + 1 : REPLAY_PD;
        break;
    case NAK_REMOTE_OPERATIONAL:
        r->broken_memory = on;
        r->landing.pd = on ? REPLAY_PD + 1 : REPLAY_PD;
        break;
    default:
        break;
    }
}

static uint32_t expected_psn(const struct feeding *f)
{
    struct qp_attr attr;

    engine_qp_query(f->q->qp, &attr);
    return attr.rq_psn;
}

static void prepare_request(struct run *r, struct feeding *f)
{
    const struct message *m = f->rec->msg;
    uint16_t flags = pkt_info(&f->rec->pkt)->flags;
    bool fresh;

    f->epsn = expected_psn(f);
    fresh = f->epsn == f->rec->pkt.psn.v;
    f->refused = fresh && m->outcome == OUTCOME_NAK && m->nak_psn == f->rec->psn;
    if (flags & (PF_RETH | PF_ATOMICETH | PF_IETH))
        f->key = memory_key(r, rkey_of(&f->rec->pkt));
    if (f->key != NULL && f->key->region.kind == MEM_WINDOW_2 && m->outcome != OUTCOME_NAK &&
        fresh && !(f->key->inserted && f->key->region.bound))
        memory_insert(r, f->key, qp_number(f->q->qp));
    if (m->op == SQE_READ || (fresh && (m->op == SQE_CMP_SWP || m->op == SQE_FETCH_ADD)))
        set_memory_from_answer(r, f);
    post_recv_wqes(r, f);
}

/* ---- after a request ---- */

/* Checks that an accepted WRITE is in memory. */
static void check_written(struct run *r, const struct feeding *f)
{
    const struct rec *rec = f->rec;
    const struct message *m = rec->msg;
    uint8_t bytes[PKT_MTU_MAX];

    if ((m->op != SQE_WRITE && m->op != SQE_WRITE_IMM && m->op != SQE_ATOMIC_WRITE) ||
        f->epsn != rec->pkt.psn.v || qp_current_state(f->q->qp) != QPS_RTS ||
        expected_psn(f) == f->epsn || rec->pkt.payload_len > sizeof(bytes) ||
        !host_is_delivered(f->q->conn, &f->q->conn->stream[!r->side], m))
        return;
    r->effects++;
    memory_load(r, m->va + (uint64_t)(rec->psn - m->first) * f->q->conn->mtu, bytes,
                rec->pkt.payload_len);
    if (memcmp(bytes, rec->pkt.payload, rec->pkt.payload_len))
        finding_add(r, DIFF_effect, -1, 0, rec, NULL, "%u bytes were not written as sent",
                    rec->pkt.payload_len);
}

/* ---- one frame ---- */

static void feed_request(struct run *r, struct feeding *f)
{
    const struct stream *s = &f->q->conn->stream[!r->side];

    if (f->rec->msg == NULL || f->rec->psn > s->hole) {
        r->unused[f->rec->psn < s->start ? USE_before_start : USE_after_gap]++;
        return;
    }
    prepare_request(r, f);
    f->q->in_psn = f->rec->psn;
    set_refusal(r, f, true);
    feed_translated(r, f);
    set_refusal(r, f, false);
    check_written(r, f);
}

static void feed_datagram(struct run *r, struct feeding *f)
{
    unsigned before = f->q->received;

    host_post_recv(r, f->q, f->rec->msg->len + UD_HEADER);
    feed_translated(r, f);
    if (f->q->received == before && f->rec->pkt.deth.qkey == f->q->dgram->qkey)
        finding_add(r, DIFF_effect, -1, 0, f->rec, NULL, "the datagram was not received");
}

static void feed_record(struct run *r, struct rec *rec)
{
    struct feeding f = {.q = host_qp_for(r, rec), .rec = rec};

    if (f.q == NULL)
        return;
    if (rec->conn == NULL)
        feed_datagram(r, &f);
    else if (pkt_info(&rec->pkt)->flags & PF_REQUEST)
        feed_request(r, &f);
    else
        feed_translated(r, &f);
}

/* Runs the clock up to `until`. */
static void run_clock(struct run *r, ns_t until, unsigned *budget)
{
    for (unsigned n = 0; n < TIMERS_PER_GAP && *budget; n++, --*budget) {
        ns_t next = engine_next_timer(r->engine);

        if (next > until)
            break;
        r->now = max_of(r->now, next);
        engine_timers(r->engine, r->now);
        host_pump(r);
        host_poll(r);
    }
    r->now = until;
}

static void process_frame(struct run *r, struct rec *rec)
{
    struct our_qp *q;

    if (rec->use == USE_bad_icrc && rec->side != r->side) {
        uint8_t *frame = replay_grow(NULL, rec->len);

        memcpy(frame, rec->data, rec->len);
        feed_frame(r, frame, rec->len);
        free(frame);
    }
    if (rec->use != USE_replay)
        return;
    if (rec->conn != NULL && (q = host_qp_for(r, rec)) != NULL) {
        host_post_due(r, q);
        host_pump(r);
        host_poll(r);
    }
    if (rec->side != r->side) {
        feed_record(r, rec);
    } else if (rec->conn == NULL && (q = host_qp_for(r, rec)) != NULL) {
        host_post_datagram(r, q, rec);
        host_pump(r);
        host_poll(r);
    }
}

void replay_run(struct run *r, struct capture *c, struct conversation *t, unsigned side)
{
    unsigned budget = TIMERS_PER_RUN;
    int err;

    *r = (struct run){.capture = c, .conversation = t, .side = side, .now = NS_PER_SEC};
    err = memory_create(r);
    if (!err)
        err = host_create(r);
    if (err) {
        r->failed = strerror(-err);
        return;
    }
    r->sent_limit = c->sent_least;
    for (unsigned i = 0; i < c->count; i++)
        r->sent_limit += SENT_RATIO * (uint64_t)c->rec[i].len;
    for (unsigned i = 0; i < c->count && r->failed == NULL; i++) {
        if (c->rec[i].conversation != t)
            continue;
        r->index = i;
        run_clock(r, NS_PER_SEC + c->rec[i].at, &budget);
        process_frame(r, &c->rec[i]);
    }
    if (r->failed == NULL)
        replay_judge(r);
}

void replay_run_free(struct run *r)
{
    host_destroy(r);
    memory_destroy(r);
    for (unsigned i = 0; i < r->sents; i++) {
        free(r->sent[i]->data);
        free(r->sent[i]);
    }
    free(r->sent);
    free(r->finding);
}
