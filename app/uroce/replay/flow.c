/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of a conversation's frames, and the connections between them. A packet of a
 * connected service names its destination queue pair and not its source. The pairs are found by a
 * CM exchange, by answers that carry the PSNs of requests, and by the source port, which the Linux
 * kernel derives from both numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "entropy.h"
#include "replay.h"

#define MAX_FLOWS  4096 /* per conversation */
#define PORT_FLOWS 256  /* with more flows, source ports are not compared */
#define RECENT     65536
#define VOTES      4
#define VOTE_CM    1000000
#define VOTE_PORT  1000

/* Packets from one side to one queue pair of the other. */
struct flow {
    uint8_t side, service;
    uint16_t sport;
    uint32_t qpn;
    struct conn *conn;
    struct {
        struct flow *flow;
        unsigned count;
    } vote[VOTES];
};

/* The flow whose request last had this PSN. */
struct recent {
    struct flow *flow;
    uint32_t psn;
};

struct sorting {
    struct flow **flow;
    unsigned flows, room;
    struct flow **of; /* by index of the frame */
    struct recent *recent[2];
};

static bool is_connected(const struct rec *rec)
{
    uint8_t service = pkt_info(&rec->pkt)->service;

    return rec->use == USE_replay && (service == PKT_RC || service == PKT_UC);
}

static struct flow *find_flow(struct sorting *s, const struct rec *rec)
{
    uint8_t service = pkt_info(&rec->pkt)->service;
    struct flow *f;

    for (unsigned i = 0; i < s->flows; i++) {
        f = s->flow[i];
        if (f->side == rec->side && f->qpn == rec->pkt.dest_qpn && f->service == service)
            return f;
    }
    if (s->flows == MAX_FLOWS)
        return NULL;
    ENSURE_ROOM(s->flow, s->flows, s->room);
    f = replay_grow(NULL, sizeof(*f));
    *f = (struct flow){.side = rec->side,
                       .service = service,
                       .sport = rec->view.udp_sport,
                       .qpn = rec->pkt.dest_qpn};
    return s->flow[s->flows++] = f;
}

static void add_vote(struct flow *f, struct flow *peer, unsigned weight)
{
    unsigned least = 0;

    if (peer == NULL || peer->service != f->service || peer->side == f->side)
        return;
    for (unsigned i = 0; i < VOTES; i++) {
        if (f->vote[i].flow == peer || f->vote[i].flow == NULL) {
            f->vote[i].flow = peer;
            f->vote[i].count += weight;
            return;
        }
        if (f->vote[i].count < f->vote[least].count)
            least = i;
    }
    if (weight > f->vote[least].count) {
        f->vote[least].flow = peer;
        f->vote[least].count = weight;
    } else {
        f->vote[least].count--;
    }
}

/* An answer votes for the flow whose request has its PSN. */
static void vote_by_psn(struct sorting *s, struct flow *f, const struct rec *rec)
{
    struct recent *recent = &s->recent[rec->side][rec->pkt.psn.v % RECENT];

    if (pkt_info(&rec->pkt)->flags & PF_REQUEST) {
        *recent = (struct recent){f, rec->pkt.psn.v};
        return;
    }
    recent = &s->recent[!rec->side][rec->pkt.psn.v % RECENT];
    if (recent->flow != NULL && recent->psn == rec->pkt.psn.v)
        add_vote(f, recent->flow, 1);
}

static void vote_by_port(struct sorting *s)
{
    if (s->flows > PORT_FLOWS)
        return;
    for (unsigned i = 0; i < s->flows; i++)
        for (unsigned k = 0; k < s->flows; k++) {
            struct flow *a = s->flow[i], *b = s->flow[k];

            if (a->sport == b->sport && a->sport == entropy_port_kernel(0, a->qpn, b->qpn))
                add_vote(a, b, VOTE_PORT);
        }
}

static struct flow *flow_to(struct sorting *s, uint8_t side, uint32_t qpn)
{
    for (unsigned i = 0; i < s->flows; i++)
        if (s->flow[i]->side == side && s->flow[i]->qpn == qpn)
            return s->flow[i];
    return NULL;
}

static void vote_by_cm(struct sorting *s, const struct cm_conns *cm)
{
    for (unsigned i = 0; i < cm->count; i++) {
        const struct cm_conn *m = &cm->conn[i];
        struct flow *a = flow_to(s, 0, m->qpn[1]), *b = flow_to(s, 1, m->qpn[0]);

        if (a != NULL && b != NULL)
            add_vote(a, b, VOTE_CM);
    }
}

struct candidate {
    struct flow *a, *b;
    unsigned count;
};

static int by_count(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

static struct conn *new_conn(struct conversation *t, struct flow *a, struct flow *b)
{
    struct conn *conn = replay_grow(NULL, sizeof(*conn));
    struct flow *pair[2] = {a, b};

    memset(conn, 0, sizeof(*conn));
    conn->conversation = t;
    conn->service = (a ? a : b)->service;
    for (unsigned i = 0; i < 2; i++) {
        struct flow *f = pair[i];

        if (f == NULL)
            continue;
        f->conn = conn;
        conn->qpn[!f->side] = f->qpn;
        conn->known[!f->side] = true;
    }
    ENSURE_ROOM(t->conn, t->conns, t->conn_room);
    return t->conn[t->conns++] = conn;
}

static void pair_by_votes(struct conversation *t, struct sorting *s)
{
    struct candidate *cand =
        replay_grow(NULL, ((size_t)s->flows * VOTES + 1) * sizeof(struct candidate));
    unsigned n = 0;

    for (unsigned i = 0; i < s->flows; i++)
        for (unsigned k = 0; k < VOTES; k++)
            if (s->flow[i]->vote[k].flow != NULL)
                cand[n++] = (struct candidate){s->flow[i], s->flow[i]->vote[k].flow,
                                               s->flow[i]->vote[k].count};
    qsort(cand, n, sizeof(*cand), by_count);
    for (unsigned i = 0; i < n; i++)
        if (cand[i].count && cand[i].a->conn == NULL && cand[i].b->conn == NULL)
            new_conn(t, cand[i].a, cand[i].b);
    free(cand);
}

/* The only flow of a service and side without a connection, or NULL. */
static struct flow *only_unpaired(const struct sorting *s, uint8_t side, uint8_t service)
{
    struct flow *found = NULL;

    for (unsigned i = 0; i < s->flows; i++) {
        struct flow *f = s->flow[i];

        if (f->conn != NULL || f->side != side || f->service != service)
            continue;
        if (found != NULL)
            return NULL;
        found = f;
    }
    return found;
}

static void pair_remaining(struct conversation *t, struct sorting *s)
{
    for (unsigned i = 0; i < 2; i++) {
        uint8_t service = i ? PKT_UC : PKT_RC;
        struct flow *a = only_unpaired(s, 0, service), *b = only_unpaired(s, 1, service);

        if (a != NULL && b != NULL)
            new_conn(t, a, b);
    }
    for (unsigned i = 0; i < s->flows; i++)
        if (s->flow[i]->conn == NULL)
            new_conn(t, s->flow[i], NULL);
}

static void apply_cm(struct conversation *t, const struct cm_conns *cm)
{
    for (unsigned i = 0; i < cm->count; i++)
        for (unsigned k = 0; k < t->conns; k++) {
            struct conn *conn = t->conn[k];
            const struct cm_conn *m = &cm->conn[i];

            for (unsigned side = 0; side < 2; side++)
                if (conn->known[side] && conn->qpn[side] == m->qpn[side] &&
                    (!conn->known[!side] || conn->qpn[!side] == m->qpn[!side])) {
                    conn->cm = conn->known[!side] = true;
                    conn->qpn[!side] = m->qpn[!side];
                    conn->cm_psn[0] = m->psn[0];
                    conn->cm_psn[1] = m->psn[1];
                    conn->cm_mtu = m->mtu;
                }
        }
}

/* ---- datagrams ---- */

static struct datagram *find_datagram(struct conversation *t, uint8_t side, uint32_t qpn)
{
    for (unsigned i = 0; i < t->dgrams; i++)
        if (t->dgram[i].side == side && t->dgram[i].qpn == qpn)
            return &t->dgram[i];
    if (t->dgrams == MAX_FLOWS)
        return NULL;
    ENSURE_ROOM(t->dgram, t->dgrams, t->dgram_room);
    t->dgram[t->dgrams] = (struct datagram){.side = side, .qpn = qpn};
    return &t->dgram[t->dgrams++];
}

static void note_datagram(struct conversation *t, struct rec *rec)
{
    const struct pkt *p = &rec->pkt;
    struct datagram *d = find_datagram(t, !rec->side, p->dest_qpn);
    struct message *m;

    if (d == NULL) {
        rec->use = USE_too_many;
        return;
    }
    d->group = p->dest_qpn == QPN_MULTICAST;
    d->qkey = p->deth.qkey;
    d = find_datagram(t, rec->side, p->deth.src_qpn);
    if (d == NULL) {
        rec->use = USE_too_many;
        return;
    }
    if (!d->sends)
        d->first_psn = p->psn.v;
    d->sends = true;
    m = replay_grow(NULL, sizeof(*m));
    *m = (struct message){.packets = 1,
                          .len = p->payload_len,
                          .op = pkt_info(p)->flags & PF_IMM ? SQE_SEND_IMM : SQE_SEND,
                          .imm = p->imm,
                          .solicited = p->solicited};
    ENSURE_ROOM(t->dgram_msg, t->dgram_msgs, t->dgram_msg_room);
    t->dgram_msg[t->dgram_msgs++] = m;
    rec->msg = m;
}

/* ---- one conversation ---- */

static void find_flows(struct capture *c, struct conversation *t, struct sorting *s)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct rec *rec = &c->rec[i];

        if (rec->conversation != t || rec->use != USE_replay)
            continue;
        if (!is_connected(rec)) {
            note_datagram(t, rec);
            continue;
        }
        s->of[i] = find_flow(s, rec);
        if (s->of[i] == NULL)
            rec->use = USE_too_many;
        else
            vote_by_psn(s, s->of[i], rec);
    }
}

void replay_connect(struct capture *c, struct conversation *t)
{
    struct sorting s = {0};
    struct cm_conns cm = {0};

    s.of = calloc(c->count, sizeof(struct flow *));
    s.recent[0] = calloc(RECENT, sizeof(struct recent));
    s.recent[1] = calloc(RECENT, sizeof(struct recent));
    if (s.of == NULL || s.recent[0] == NULL || s.recent[1] == NULL)
        replay_grow(NULL, SIZE_MAX); /* prints a message and exits */
    find_flows(c, t, &s);
    replay_cm_collect(&cm, c, t);
    vote_by_cm(&s, &cm);
    vote_by_port(&s);
    pair_by_votes(t, &s);
    pair_remaining(t, &s);
    apply_cm(t, &cm);
    for (unsigned i = 0; i < c->count; i++)
        if (s.of[i] != NULL)
            c->rec[i].conn = s.of[i]->conn;
    for (unsigned i = 0; i < s.flows; i++)
        free(s.flow[i]);
    free(s.flow);
    free(s.of);
    free(s.recent[0]);
    free(s.recent[1]);
    free(cm.conn);
}
