/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames to conversations, and the frames of a connection to streams of requests and answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "replay.h"

#define MAX_CONVERSATIONS 256
#define ARENA_LIMIT       (UINT64_C(1) << 42)
#define PSN_BASE          (INT64_C(1) << 32)

int64_t psn_unwrap(int64_t near, psn_t p)
{
    return near + psn_diff(p, psn((uint32_t)near));
}

/* ---- conversations ---- */

static uint16_t vlan_of(const struct rec *rec)
{
    return rec->view.vlan_tci == VLAN_NONE ? VLAN_NONE : rec->view.vlan_tci & 0x0FFF;
}

static struct conversation *find_conversation(struct capture *c, const struct rec *rec)
{
    for (unsigned i = 0; i < c->conversations; i++) {
        struct conversation *t = c->conversation[i];

        if (t->vlan != vlan_of(rec) || t->l3_kind != rec->view.l3_kind)
            continue;
        if ((gid_eq(&t->addr[0], &rec->view.sgid) && gid_eq(&t->addr[1], &rec->view.dgid)) ||
            (gid_eq(&t->addr[1], &rec->view.sgid) && gid_eq(&t->addr[0], &rec->view.dgid)))
            return t;
    }
    return NULL;
}

static struct conversation *new_conversation(struct capture *c, const struct rec *rec)
{
    struct conversation *t;

    if (c->conversations == MAX_CONVERSATIONS)
        return NULL;
    t = replay_grow(NULL, sizeof(*t));
    *t = (struct conversation){.addr = {rec->view.sgid, rec->view.dgid},
                               .vlan = vlan_of(rec),
                               .l3_kind = (uint8_t)rec->view.l3_kind};
    c->conversation =
        replay_grow(c->conversation, (c->conversations + 1) * sizeof(*c->conversation));
    c->conversation[c->conversations++] = t;
    return t;
}

static void sort_into_conversations(struct capture *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct rec *rec = &c->rec[i];

        if (rec->use != USE_replay && rec->use != USE_connection_management &&
            rec->use != USE_bad_icrc && rec->use != USE_cut_conversation)
            continue;
        rec->conversation = find_conversation(c, rec);
        if (rec->conversation == NULL)
            rec->conversation = new_conversation(c, rec);
        if (rec->conversation == NULL) {
            rec->use = USE_too_many;
            continue;
        }
        rec->side = !gid_eq(&rec->conversation->addr[0], &rec->view.sgid);
        rec->conversation->cut |= rec->use == USE_cut_conversation;
    }
    for (unsigned i = 0; i < c->count; i++)
        if (c->rec[i].use == USE_replay && c->rec[i].conversation->cut)
            c->rec[i].use = USE_cut_conversation;
}

/* ---- connections ---- */

static int64_t stream_unwrap(struct stream *s, psn_t p, bool request)
{
    int64_t u;

    if (!s->unwrapped) {
        s->unwrapped = s->tidy = true;
        s->last = s->start = PSN_BASE + p.v;
    }
    u = psn_unwrap(s->last, p);
    if (request && s->reqs && u <= s->last)
        s->tidy = false;
    if (request && u > s->last)
        s->last = u;
    return u;
}

/* The PSN in a sequence NAK is one that the requester sent, even if the capture does not have it.
 */
static bool names_start(const struct pkt *p)
{
    return pkt_info(p)->kind == KIND_ACK && p->aeth.syndrome == (AETH_NAK | NAK_PSN_SEQUENCE);
}

static void add_to_stream(struct rec *rec)
{
    bool request = pkt_info(&rec->pkt)->flags & PF_REQUEST;
    struct stream *s = &rec->conn->stream[request ? rec->side : !rec->side];

    if (rec->conn->sample[rec->side] == NULL)
        rec->conn->sample[rec->side] = rec;
    if (rec->conn->seen)
        rec->conn->longest_wait = max_of(rec->conn->longest_wait, rec->at - rec->conn->last_at);
    rec->conn->seen = true;
    rec->conn->last_at = rec->at;
    rec->psn = stream_unwrap(s, rec->pkt.psn, request);
    if ((request || names_start(&rec->pkt)) && (!s->started || rec->psn < s->start)) {
        s->start = rec->psn;
        s->started = true;
    }
    if (request) {
        ENSURE_ROOM(s->req, s->reqs, s->req_room);
        s->req[s->reqs++] = rec;
    } else {
        ENSURE_ROOM(s->ans, s->answers, s->ans_room);
        s->ans[s->answers++] = rec;
        s->early += !s->reqs && !rec->conn->cm;
    }
}

/* The path MTU: the payload of packets that must be full; without such packets, the smallest MTU
 * that all packets fit. */
static void find_mtu(struct conn *conn, const struct rec *rec)
{
    const struct opcode_info *info = pkt_info(&rec->pkt);
    bool full = (info->flags & PF_PAYLOAD) && !(info->flags & PF_END);
    uint32_t mtu = PKT_MTU_MIN;

    while (mtu < rec->pkt.payload_len && mtu < PKT_MTU_MAX)
        mtu *= 2;
    if (full ? rec->pkt.payload_len == mtu || conn->mtu == 0 : conn->mtu < mtu)
        conn->mtu = mtu;
}

static int by_psn(const void *a, const void *b)
{
    const struct rec *x = *(struct rec *const *)a, *y = *(struct rec *const *)b;

    if (x->psn != y->psn)
        return x->psn < y->psn ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* In a capture that begins in the middle of a message, the stream starts with the next message. */
static void skip_to_start(struct stream *s)
{
    if (s->reqs == 0 || s->req[0]->psn > s->start)
        return;
    for (unsigned i = 0; i < s->reqs; i++)
        if (pkt_info(&s->req[i]->pkt)->flags & PF_START) {
            s->start = s->req[i]->psn;
            return;
        }
    s->start = s->req[s->reqs - 1]->psn + 1; /* no message begins */
}

static void build_conn(struct capture *c, struct conn *conn)
{
    if (conn->cm_mtu > conn->mtu)
        conn->mtu = conn->cm_mtu;
    for (unsigned side = 0; side < 2; side++) {
        struct stream *s = &conn->stream[side];
        int64_t start;

        /* The start may lie a little before the first recorded PSN: packets were lost, or a
         * duplicate was recorded first. */
        start = s->unwrapped && conn->cm ? psn_unwrap(s->start, psn(conn->cm_psn[side])) : s->start;
        if (start < s->start && s->start - start < 4096)
            s->start = start;
        if (s->reqs)
            qsort(s->req, s->reqs, sizeof(s->req[0]), by_psn);
        if (s->answers) {
            s->ans_by_psn = replay_grow(NULL, s->answers * sizeof(s->ans[0]));
            memcpy(s->ans_by_psn, s->ans, s->answers * sizeof(s->ans[0]));
            qsort(s->ans_by_psn, s->answers, sizeof(s->ans[0]), by_psn);
        }
        if (!conn->cm)
            skip_to_start(s);
        stream_build(c, conn, side);
        stream_outcomes(c, conn, side);
    }
}

/* Full packets decide the MTU; without them the longest packet does. */
static void find_mtus(struct capture *c)
{
    for (unsigned full = 2; full-- > 0;)
        for (unsigned i = 0; i < c->count; i++) {
            struct rec *rec = &c->rec[i];
            uint16_t flags = pkt_info(&rec->pkt)->flags;

            if (rec->conn != NULL && full == !!((flags & PF_PAYLOAD) && !(flags & PF_END)))
                find_mtu(rec->conn, rec);
        }
}

static uint64_t assign_offset(struct message *m, uint64_t off)
{
    m->arena_off = off;
    return m->op == SQE_READ || m->op == SQE_FLUSH ? off : off + round_up(m->len, 8);
}

/* Gives every message its offset in the arena. The arena is one mapping; only the recorded payloads
 * in it are touched. */
static uint64_t assign_offsets(struct capture *c)
{
    uint64_t off = 0;

    for (unsigned i = 0; i < c->conversations && off < ARENA_LIMIT; i++) {
        struct conversation *t = c->conversation[i];

        for (unsigned k = 0; k < t->dgram_msgs; k++)
            off = assign_offset(t->dgram_msg[k], off);
        for (unsigned k = 0; k < t->conns; k++)
            for (unsigned side = 0; side < 2; side++) {
                struct stream *s = &t->conn[k]->stream[side];

                for (unsigned m = 0; m < s->msgs && off < ARENA_LIMIT; m++)
                    off = assign_offset(&s->msg[m], off);
            }
    }
    return off;
}

static void fill_arena(struct capture *c)
{
    for (unsigned i = 0; i < c->conversations; i++)
        for (unsigned k = 0; k < c->conversation[i]->conns; k++)
            for (unsigned side = 0; side < 2; side++)
                stream_fill(c, &c->conversation[i]->conn[k]->stream[side],
                            c->conversation[i]->conn[k]->mtu);
    for (unsigned i = 0; i < c->count; i++) {
        struct rec *rec = &c->rec[i];

        if (rec->msg != NULL && rec->conn == NULL)
            memcpy(c->arena + rec->msg->arena_off, rec->pkt.payload, rec->pkt.payload_len);
    }
}

int replay_reconstruct(struct capture *c)
{
    sort_into_conversations(c);
    for (unsigned i = 0; i < c->conversations; i++)
        replay_connect(c, c->conversation[i]);
    for (unsigned i = 0; i < c->count; i++)
        if (c->rec[i].conn != NULL)
            add_to_stream(&c->rec[i]);
    find_mtus(c);
    for (unsigned i = 0; i < c->conversations; i++)
        for (unsigned k = 0; k < c->conversation[i]->conns; k++)
            build_conn(c, c->conversation[i]->conn[k]);
    c->arena_len = round_up(assign_offsets(c) + 4096, 4096);
    if (c->arena_len > ARENA_LIMIT)
        return -ENOMEM;
    c->arena = mmap(NULL, c->arena_len, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->arena == MAP_FAILED) {
        c->arena = NULL;
        return -ENOMEM;
    }
    fill_arena(c);
    return 0;
}
