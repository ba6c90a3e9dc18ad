/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "sim_flow.h"

#define SCRIBBLE 0xDD

static struct kit_mr *register_image(struct flow *f, struct kit_node *n, const struct image *m,
                                     uint32_t access)
{
    bool direct = random_below(&f->qp->node->kit->random, 2);
    struct kit_mr *mr = kit_mr_create(n, m->len, access, direct ? KIT_MR_DIRECT : KIT_MR_COPY);

    memcpy(mr->bytes, m->before, m->len);
    return mr;
}

void flow_register(struct flow *f)
{
    const struct plan *p = &f->plan;

    for (unsigned i = 0; i < PLAN_BANKS; i++) {
        f->local[i] = register_image(f, f->qp->node, &p->local[i], MEM_LOCAL_WRITE);
        f->inbox[i] = register_image(f, f->peer->node, &p->inbox[i], MEM_LOCAL_WRITE);
    }
    f->target = register_image(f, f->peer->node, &p->target,
                               MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
                                   MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL);
}

void flow_deregister(struct flow *f)
{
    for (unsigned i = 0; i < PLAN_BANKS; i++) {
        kit_mr_deregister(f->local[i]);
        kit_mr_deregister(f->inbox[i]);
    }
    kit_mr_deregister(f->target);
}

/* ---- posting ---- */

static unsigned make_sges(struct sge *sge, struct kit_mr *const *bank, const struct piece *piece,
                          unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sge[i] = kit_sge(bank[piece[i].bank], piece[i].off, piece[i].len);
    return n;
}

/* After its completion a source belongs to the application, which writes into it at once. */
static void scribble(struct flow *f, const struct plan_op *op)
{
    for (unsigned i = 0; i < op->pieces; i++) {
        const struct piece *piece = &op->piece[i];

        memset(f->local[piece->bank]->bytes + piece->off, SCRIBBLE, piece->len);
        memset(f->plan.local[piece->bank].after + piece->off, SCRIBBLE, piece->len);
    }
}

static bool post_one(struct flow *f)
{
    const struct plan_op *op = &f->plan.op[f->posted];
    const struct kit_mr *remote = op->on_counter ? f->counter : f->target;
    struct sge sge[PLAN_MAX_SGE];
    struct kit_send wr = {
        .wr_id = (uint64_t)f->id << 32 | f->posted,
        .op = op->op,
        .flags = op->flags,
        .imm = op->imm,
        .compare_add = op->compare_add,
        .swap = op->swap,
        .sge = sge,
    };

    if (op->op != SQE_SEND && op->op != SQE_SEND_IMM) {
        wr.rkey = remote->region.key;
        wr.remote_addr = kit_va(remote, op->target_off);
    }
    if (f->pool)
        wr.remote_srqn = f->pool->srq->number;
    if (op->op == SQE_FLUSH)
        wr.flush = (typeof(wr.flush)){.length = op->len, .placement = FETH_GLOBAL};
    if (op->flags & SQE_INLINE) {
        wr.inline_data = f->local[op->piece[0].bank]->bytes + op->piece[0].off;
        wr.inline_len = op->len;
    } else {
        wr.num_sge = make_sges(sge, f->local, op->piece, op->pieces);
    }
    if (kit_post_send(f->qp, &wr))
        return false;
    if (op->flags & SQE_INLINE)
        scribble(f, op);
    f->posted++;
    return true;
}

static void post_sends(struct flow *f, struct random *r)
{
    unsigned burst = 1 + random_below(r, 8), before = f->posted;

    while (burst-- && f->posted < f->plan.ops && post_one(f))
        ;
    if (f->posted != before)
        kit_ring(f->qp);
    if (random_below(r, 2))
        f->send_at = f->qp->node->kit->now + random_below(r, 20 * NS_PER_US);
}

static void post_recvs(struct flow *f, struct random *r)
{
    unsigned burst = 1 + random_below(r, 6);

    if (f->pool)
        return;
    for (; burst-- && f->recvs_posted < f->plan.recvs + f->extra_recvs; f->recvs_posted++) {
        bool extra = f->recvs_posted >= f->plan.recvs;
        const struct plan_recv *recv = &f->plan.recv[extra ? 0 : f->recvs_posted];
        struct sge sge[PLAN_MAX_SGE];
        unsigned n = extra ? 0 : make_sges(sge, f->inbox, recv->piece, recv->pieces);

        if (kit_post_recv(f->peer, (uint64_t)f->id << 32 | f->recvs_posted, sge, n))
            return;
    }
    /* Sometimes slower than the sender, which then gets RNR NAKs. */
    if (random_below(r, 2))
        f->recv_at = f->qp->node->kit->now + random_below(r, 60 * NS_PER_US);
}

void flow_post(struct flow *f, struct random *r)
{
    struct kit *k = f->qp->node->kit;

    if (f->posted < f->plan.ops && f->send_at <= k->now)
        post_sends(f, r);
    if (f->recvs_posted < f->plan.recvs + f->extra_recvs && f->recv_at <= k->now)
        post_recvs(f, r);
    if (f->posted < f->plan.ops && f->send_at > k->now)
        kit_wake_at(k, f->send_at);
    if (!f->pool && f->recvs_posted < f->plan.recvs + f->extra_recvs && f->recv_at > k->now)
        kit_wake_at(k, f->recv_at);
}

/* ---- checking ---- */

static void compare_pieces(struct flow *f, const char *what, unsigned op,
                           struct kit_mr *const *bank, const struct image *image,
                           const struct piece *piece, unsigned n, uint32_t len)
{
    for (unsigned i = 0; i < n && len; i++) {
        const struct piece *p = &piece[i];
        uint32_t part = min_of(len, p->len);

        expect(f, !memcmp(bank[p->bank]->bytes + p->off, image[p->bank].after + p->off, part),
               "wrong bytes in piece %u of the %s of request %u", i, what, op);
        len -= part;
    }
}

static void check_count(struct flow *f, const struct plan_op *op)
{
    const struct piece *piece = &op->piece[0];
    uint8_t *at = f->local[piece->bank]->bytes + piece->off;
    uint64_t value;

    memcpy(&value, at, 8);
    memcpy(f->plan.local[piece->bank].after + piece->off, at, 8);
    expect(f, value >= f->last_count, "the shared counter went back to %llu",
           (unsigned long long)value);
    f->last_count = value + 1;
    sim_counted(f->sim, f, value);
}

/* Checks all effects of a completed request; also of the unsignaled ones before a signaled one. */
static void request_completed(struct flow *f, unsigned index)
{
    const struct plan_op *op = &f->plan.op[index];

    if (op->on_counter)
        check_count(f, op);
    else if (op->op == SQE_READ || op->op == SQE_CMP_SWP || op->op == SQE_FETCH_ADD)
        compare_pieces(f, "result", index, f->local, f->plan.local, op->piece, op->pieces, op->len);
    else if (op->fresh_source && !(op->flags & SQE_INLINE))
        scribble(f, op);
}

static uint8_t wc_opcode(uint8_t op)
{
    static const uint8_t table[] = {[SQE_WRITE] = WC_RDMA_WRITE,
                                    [SQE_WRITE_IMM] = WC_RDMA_WRITE,
                                    [SQE_SEND] = WC_SEND,
                                    [SQE_SEND_IMM] = WC_SEND,
                                    [SQE_READ] = WC_RDMA_READ,
                                    [SQE_CMP_SWP] = WC_COMP_SWAP,
                                    [SQE_FETCH_ADD] = WC_FETCH_ADD,
                                    [SQE_FLUSH] = WC_FLUSH,
                                    [SQE_ATOMIC_WRITE] = WC_ATOMIC_WRITE};

    return table[op];
}

/* A request that failed, or one behind it; the unsignaled ones before it succeeded. */
static void request_failed(struct flow *f, const struct cqe *e)
{
    unsigned index = (unsigned)e->wr_id;
    bool flushed = e->status == WC_WR_FLUSH_ERR && (f->broken || f->stopped);

    expect(f, e->wr_id >> 32 == f->id && index >= f->completed && index < f->posted,
           "wr_id %llx failed with status %u", (unsigned long long)e->wr_id, e->status);
    expect(f, flushed || (e->status == WC_RETRY_EXC_ERR && f->may_break && !f->broken),
           "request %u: status %u", index, e->status);
    for (; f->completed < index; f->completed++) {
        expect(f, !f->failures && !f->sig_all && !(f->plan.op[f->completed].flags & SQE_SIGNALED),
               "request %u was skipped by the failure of %u", f->completed, index);
        request_completed(f, f->completed);
    }
    f->completed++;
    f->failures++;
    f->broken = true;
}

void flow_check_flushed(const struct flow *f)
{
    expect(f, f->recvs_done == f->recvs_posted, "%u of %u receives flushed", f->recvs_done,
           f->recvs_posted);
    for (unsigned i = f->completed; i < f->posted; i++)
        expect(f, !f->failures && !f->sig_all && !(f->plan.op[i].flags & SQE_SIGNALED),
               "request %u was lost", i);
}

void flow_sent(struct flow *f, const struct cqe *e)
{
    unsigned next = f->completed;
    const struct plan_op *op;

    if ((f->may_break || f->stopped) && e->status != WC_SUCCESS) {
        request_failed(f, e);
        return;
    }
    while (!f->sig_all && next < f->posted && !(f->plan.op[next].flags & SQE_SIGNALED))
        next++;
    expect(f, next < f->posted, "a completion too many: wr_id %llx", (unsigned long long)e->wr_id);
    op = &f->plan.op[next];
    expect(f, e->status == WC_SUCCESS, "request %u: status %u, vendor_err %u", next, e->status,
           e->vendor_err);
    expect(f, e->wr_id == ((uint64_t)f->id << 32 | next), "request %u expected, wr_id %llx", next,
           (unsigned long long)e->wr_id);
    expect(f, e->wqe == next, "request %u: wqe %u", next, e->wqe);
    expect(f, e->opcode == wc_opcode(op->op), "request %u: opcode %u", next, e->opcode);
    expect(f, e->qpn == f->qp->qpn && e->uidx == qp_uidx(f->qp->qp), "request %u: qpn %u", next,
           e->qpn);
    if (op->op == SQE_READ || op->op == SQE_CMP_SWP || op->op == SQE_FETCH_ADD)
        expect(f, e->byte_len == op->len, "request %u: byte_len %u", next, e->byte_len);
    while (f->completed <= next)
        request_completed(f, f->completed++);
}

static void check_receive(struct flow *f, const struct cqe *e, const struct plan_recv *recv)
{
    const struct plan_op *op = &f->plan.op[recv->op];
    bool write = op->op == SQE_WRITE_IMM, imm = write || op->op == SQE_SEND_IMM;

    expect(f, e->status == WC_SUCCESS, "receive %u: status %u", f->recvs_done, e->status);
    expect(f, e->opcode == (write ? WC_RECV_RDMA_WITH_IMM : WC_RECV), "receive %u: opcode %u",
           f->recvs_done, e->opcode);
    expect(f, !!(e->wc_flags & WC_WITH_IMM) == imm, "receive %u: wc_flags %x", f->recvs_done,
           e->wc_flags);
    expect(f, !imm || e->imm == op->imm, "receive %u: imm %x, sent %x", f->recvs_done, e->imm,
           op->imm);
    expect(f, e->byte_len == op->len, "receive %u: byte_len %u, sent %u", f->recvs_done,
           e->byte_len, op->len);
    if (!write && !f->pool)
        compare_pieces(f, "receive buffer", recv->op, f->inbox, f->plan.inbox, recv->piece,
                       recv->pieces, op->len);
}

/* The plan has a receive's data in pieces, this buffer in one. */
static void check_pooled(struct flow *f, const struct cqe *e)
{
    const uint8_t *bytes = pool_take(f->pool, e);
    const struct plan_recv *recv = &f->plan.recv[f->recvs_done];
    const struct plan_op *op = &f->plan.op[recv->op];
    uint32_t len = op->op == SQE_WRITE_IMM ? 0 : op->len;
    uint8_t *message = kit_alloc(len);

    plan_gather(f->plan.inbox, recv->piece, recv->pieces, message, len);
    expect(f, !memcmp(bytes, message, len), "wrong bytes in the pooled receive of request %u",
           recv->op);
    free(message);
}

static void pooled_received(struct flow *f, const struct cqe *e)
{
    if ((f->stopped || f->may_break) &&
        e->status == WC_WR_FLUSH_ERR) { /* the partially filled one */
        expect(f, !f->recvs_flushed, "two entries of a shared queue flushed");
        f->recvs_flushed = true;
        pool_take(f->pool, e);
        return;
    }
    expect(f, f->recvs_done < f->plan.recvs, "a receive completion too many");
    check_receive(f, e, &f->plan.recv[f->recvs_done]);
    check_pooled(f, e);
    f->recvs_done++;
    f->recvs_posted = f->recvs_done;
}

void flow_received(struct flow *f, const struct cqe *e)
{
    if (f->pool) {
        pooled_received(f, e);
        return;
    }
    expect(f, f->recvs_done < f->recvs_posted, "a receive completion too many");
    expect(f, e->wr_id == ((uint64_t)f->id << 32 | f->recvs_done) && e->wqe == f->recvs_done,
           "receive %u expected, wr_id %llx, wqe %u", f->recvs_done, (unsigned long long)e->wr_id,
           e->wqe);
    expect(f, e->qpn == f->peer->qpn && e->uidx == qp_uidx(f->peer->qp), "receive %u: qpn %u",
           f->recvs_done, e->qpn);
    if ((f->stopped || f->may_break) && e->status == WC_WR_FLUSH_ERR)
        f->recvs_flushed = true;
    else if (f->recvs_done < f->plan.recvs && !f->recvs_flushed)
        check_receive(f, e, &f->plan.recv[f->recvs_done]);
    else
        expect(f, f->flushing && e->status == WC_WR_FLUSH_ERR, "extra receive %u: status %u",
               f->recvs_done, e->status);
    f->recvs_done++;
}

bool flow_done(const struct flow *f)
{
    return f->completed == f->plan.ops && f->recvs_done >= f->plan.recvs;
}

/* Reports the owner of a byte of a local region. */
static void tell_user(const struct flow *f, const struct image *m, uint32_t at)
{
    for (unsigned i = 0; i < f->plan.ops; i++) {
        const struct plan_op *op = &f->plan.op[i];

        for (unsigned j = 0; j < op->pieces; j++) {
            const struct piece *p = &op->piece[j];

            if (&f->plan.local[p->bank] == m && at >= p->off && at < p->off + p->len)
                fprintf(stderr,
                        "piece %u of request %u: opcode %u, flags %x, %u bytes, target %u\n", j, i,
                        op->op, op->flags, op->len, op->target_off);
        }
    }
}

static void compare_image(struct flow *f, const char *what, const struct kit_mr *mr,
                          const struct image *m)
{
    uint32_t i;

    if (!memcmp(mr->bytes, m->after, m->len))
        return;
    for (i = 0; mr->bytes[i] == m->after[i]; i++)
        ;
    tell_user(f, m, i);
    expect(f, false, "%s memory differs from byte %u of %u on: %02x, not %02x", what, i, m->len,
           mr->bytes[i], m->after[i]);
}

void flow_verify(struct flow *f)
{
    for (unsigned i = 0; i < PLAN_BANKS; i++) {
        compare_image(f, "local", f->local[i], &f->plan.local[i]);
        if (!f->pool) /* whose buffers were compared one by one */
            compare_image(f, "inbox", f->inbox[i], &f->plan.inbox[i]);
    }
    compare_image(f, "target", f->target, &f->plan.target);
}
