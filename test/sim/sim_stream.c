/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of UC or UD messages one way. They may be lost, but each that arrives is one that was
 * sent, whole and unchanged; with links that neither duplicate nor reorder, none arrives twice or
 * out of order. After a UC WRITE every byte has its old or its new value.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_all.h"

#define MESSAGES 24
#define MAX_LEN  8192
#define NAMED    8 /* messages of fewer bytes carry their number as immediate data alone */
#define GRH_LEN  40
#define QKEY     0x11223344
#define GAP      3 /* bytes between the targets of WRITEs */

struct message {
    uint8_t op;
    bool signaled, wrong_key; /* with a Q_Key that the receiver does not have */
    uint32_t len, off;        /* in source and, for WRITEs, in target */
};

struct stream {
    struct actor actor;
    uint32_t type, id;
    struct kit_qp *from, *to;
    struct pool pool;
    struct kit_mr *source, *target;
    uint32_t ah;
    struct message message[MESSAGES];
    unsigned posted, completed;
    bool arrived[MESSAGES];
    int last; /* received */
    ns_t at, end_at;
};

static bool is_write(const struct message *m)
{
    return m->op == SQE_WRITE || m->op == SQE_WRITE_IMM;
}

static bool has_imm(const struct message *m)
{
    return m->op == SQE_WRITE_IMM || m->op == SQE_SEND_IMM;
}

/* ---- setting up ---- */

static void plan(struct stream *st, uint32_t max_len)
{
    static const uint8_t ops[] = {SQE_SEND, SQE_SEND_IMM, SQE_WRITE, SQE_WRITE_IMM};
    struct sim *s = st->actor.sim;
    uint32_t off = GAP;

    for (unsigned i = 0; i < MESSAGES; i++) {
        struct message *m = &st->message[i];

        m->op = ops[sim_below(s, st->type == QPT_UD ? 2 : 4)];
        m->len = has_imm(m) && !sim_below(s, 4) ? sim_below(s, NAMED)
                                                : NAMED + sim_below(s, max_len - NAMED + 1);
        /* Otherwise the WQEs of a full queue would never become free. */
        m->signaled = sim_below(s, 2) || !((i + 1) % st->from->sq_size) || i == MESSAGES - 1;
        m->wrong_key = st->type == QPT_UD && !sim_below(s, 8);
        m->off = off;
        off += m->len + GAP;
    }
    st->source = kit_mr_create(st->from->node, off, MEM_LOCAL_READ,
                               sim_below(s, 2) ? KIT_MR_DIRECT : KIT_MR_COPY);
    st->target = kit_mr_create(st->to->node, off, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE,
                               sim_below(s, 2) ? KIT_MR_DIRECT : KIT_MR_COPY);
    for (uint32_t i = 0; i < off; i++)
        st->source->bytes[i] =
            (uint8_t)(random_next(&s->random) | 1); /* never the target's contents */
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const struct message *m = &st->message[i];

        if (m->len < NAMED)
            continue;
        memcpy(st->source->bytes + m->off, &st->id, 4);
        memcpy(st->source->bytes + m->off + 4, &i, 4);
    }
}

static void connect(struct stream *st)
{
    struct sim *s = st->actor.sim;
    struct kit_rc rc = sim_pick_attributes(s);

    if (st->type == QPT_UD) {
        kit_start_ud(st->from, QKEY + 1, rc.psn[0]);
        kit_start_ud(st->to, QKEY, rc.psn[1]);
        st->ah = kit_ah_create(st->from->node, st->to->node, (enum kit_gid)rc.gid_index);
        plan(st, 4096);
    } else {
        kit_connect(st->from, st->to, &rc);
        plan(st, MAX_LEN);
    }
}

/* ---- sending ---- */

static bool post_one(struct stream *st)
{
    const struct message *m = &st->message[st->posted];
    struct sge sge = kit_sge(st->source, m->off, m->len);
    struct kit_send wr = {
        .wr_id = st->posted,
        .op = m->op,
        .flags = m->signaled ? SQE_SIGNALED : 0,
        .imm = st->posted,
        .sge = &sge,
        .num_sge = m->len != 0,
    };

    if (st->type == QPT_UD) {
        wr.ud.ah = st->ah;
        wr.ud.remote_qpn = st->to->qpn;
        wr.ud.remote_qkey = QKEY + (m->wrong_key ? 5 : 0);
    } else {
        wr.rkey = st->target->region.key;
        wr.remote_addr = kit_va(st->target, m->off);
    }
    if (kit_post_send(st->from, &wr))
        return false;
    st->posted++;
    return true;
}

static bool turn(struct actor *a)
{
    struct stream *st = (struct stream *)a;
    struct kit *k = a->sim->kit;

    pool_post(&st->pool, &a->sim->random);
    if (st->posted < MESSAGES && st->at <= k->now) {
        unsigned burst = 1 + sim_below(a->sim, 6);

        while (burst-- && st->posted < MESSAGES && post_one(st))
            ;
        kit_ring(st->from);
        st->at = k->now + sim_below(a->sim, 40 * NS_PER_US);
    }
    if (st->posted < MESSAGES)
        kit_wake_at(k, max_of(st->at, k->now + 1));
    if (st->completed < MESSAGES)
        return false;
    if (!st->end_at) /* the last of them may still be in flight */
        st->end_at = k->now + DRAIN_TIME;
    if (st->end_at > k->now) {
        kit_wake_at(k, st->end_at);
        return false;
    }
    st->pool.closed = true;
    return true;
}

/* ---- checking ---- */

static void sent(struct stream *st, const struct cqe *e)
{
    unsigned next = st->completed;

    while (next < st->posted && !st->from->sig_all && !st->message[next].signaled)
        next++;
    if (next == st->posted || e->wr_id != next || e->status != WC_SUCCESS)
        sim_fail("stream %u: request %u expected, wr_id %llu with status %u", st->id, next,
                 (unsigned long long)e->wr_id, e->status);
    st->completed = next + 1;
}

/* The message that it identifies itself as. */
static unsigned number_of(const struct stream *st, const struct cqe *e, const uint8_t *bytes,
                          uint32_t len)
{
    uint32_t name[2] = {st->id, e->imm};

    if (!(e->wc_flags & WC_WITH_IMM)) {
        if (len < NAMED)
            sim_fail("stream %u: a message of %u bytes without a name", st->id, len);
        memcpy(name, bytes, sizeof(name));
    }
    if (name[0] != st->id || name[1] >= st->posted)
        sim_fail("stream %u: message %u of stream %u", st->id, name[1], name[0]);
    return name[1];
}

/* Between engines frames may overtake each other, but none is duplicated. */
static void check_turn(struct stream *st, unsigned i)
{
    const struct sim *s = st->actor.sim;

    if (!s->repeats && st->arrived[i])
        sim_fail("stream %u: message %u again", st->id, i);
    if (!s->repeats && !s->overtake && (int)i <= st->last)
        sim_fail("stream %u: message %u after %d", st->id, i, st->last);
    st->arrived[i] = true;
    st->last = (int)i;
}

static void received(struct stream *st, const struct cqe *e)
{
    uint32_t skip = st->type == QPT_UD ? GRH_LEN : 0, len = e->byte_len - skip;
    const uint8_t *bytes = pool_take(&st->pool, e) + skip;
    const struct message *m;
    unsigned i;

    if (e->status != WC_SUCCESS)
        sim_fail("stream %u: a receive with status %u", st->id, e->status);
    i = number_of(st, e, bytes, len);
    m = &st->message[i];
    if (m->op == SQE_WRITE_IMM)
        bytes = st->target->bytes + m->off;
    if (m->op == SQE_WRITE || m->wrong_key || len != m->len ||
        has_imm(m) != !!(e->wc_flags & WC_WITH_IMM) ||
        e->opcode != (m->op == SQE_WRITE_IMM ? WC_RECV_RDMA_WITH_IMM : WC_RECV) ||
        memcmp(bytes, st->source->bytes + m->off, len))
        sim_fail("stream %u: message %u of %u bytes is another one: %u bytes, opcode %u, flags %x",
                 st->id, i, m->len, len, e->opcode, e->wc_flags);
    if (st->type == QPT_UD && (e->src_qpn != st->from->qpn || !(e->wc_flags & WC_GRH)))
        sim_fail("stream %u: from queue pair %u, flags %x", st->id, e->src_qpn, e->wc_flags);
    check_turn(st, i);
}

static bool completed(struct actor *a, const struct kit_node *n, const struct cqe *e)
{
    struct stream *st = (struct stream *)a;
    bool recv = e->opcode & WC_RECV;
    const struct kit_qp *qp = recv ? st->to : st->from;

    if (qp->node != n || qp->qpn != e->qpn)
        return false;
    if (recv)
        received(st, e);
    else
        sent(st, e);
    a->progress++;
    return true;
}

static void check(struct actor *a)
{
    struct stream *st = (struct stream *)a;
    uint32_t at = 0;

    pool_check(&st->pool);
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct message *m = &st->message[i];

        for (; at < m->off; at++)
            if (st->target->bytes[at])
                sim_fail("stream %u: byte %u, between messages, was written", st->id, at);
        for (; at < m->off + m->len; at++)
            if (st->target->bytes[at] &&
                (!is_write(m) || st->target->bytes[at] != st->source->bytes[at]))
                sim_fail("stream %u: byte %u of message %u is neither old nor new", st->id,
                         at - m->off, i);
    }
}

static void tell(struct actor *a, FILE *out)
{
    struct stream *st = (struct stream *)a;

    fprintf(out, "stream of type %u: %u of %u completed, %u posted\n", st->type, st->completed,
            MESSAGES, st->posted);
}

static void fini(struct actor *a)
{
    free(a);
}

struct actor *stream_create(struct sim *s)
{
    struct stream *st = kit_alloc(sizeof(*st));
    struct kit_srq *srq = NULL;
    struct kit_node *n[2];
    struct kit_qp_config config = {.sq_size = 2u << sim_below(s, 5), .rq_size = POOL_SLOTS};

    st->actor = (struct actor){s, turn, completed, check, tell, fini, 0};
    st->type = sim_below(s, 2) ? QPT_UC : QPT_UD;
    st->id = ++s->flow_ids;
    st->last = -1;
    sim_pick_nodes(s, n);
    config.type = st->type;
    config.sq_sig_all = sim_below(s, 2);
    config.engine = sim_pick_engine(s);
    st->from = kit_qp_create(n[0], &config);
    config.engine = sim_pick_engine(s);
    if (st->type == QPT_UD && sim_below(s, 2)) /* rdma-core's UC has no shared queues */
        config.srq = srq = kit_srq_create(n[1], POOL_SLOTS, NULL, 0);
    st->to = kit_qp_create(n[1], &config);
    pool_init(&st->pool, srq, srq ? NULL : st->to, GRH_LEN + MAX_LEN);
    connect(st);
    return &st->actor;
}
