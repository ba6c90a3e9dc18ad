/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "sim_plan.h"

struct range {
    uint32_t off, len;
};

struct planner {
    struct plan *plan;
    const struct plan_params *params;
    struct random *r;
    /* READs of the target since the last fenced request: a later change there needs a fence. */
    struct range *unfenced;
    unsigned reads;
    unsigned unsignaled;
};

static uint32_t below(struct planner *w, uint32_t n)
{
    return random_below(w->r, n);
}

static void fill_random(struct random *r, uint8_t *p, uint32_t len)
{
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t v = random_next(r);

        memcpy(p, &v, 8);
    }
    while (len--)
        *p++ = (uint8_t)random_next(r);
}

/* ---- images and slices ---- */

static void image_reserve(struct image *m, uint32_t len)
{
    if (len <= m->room)
        return;
    m->room = max_of(2 * m->room, len);
    m->before = kit_grow(m->before, m->room);
    m->after = kit_grow(m->after, m->room);
}

/* Appends len bytes of the same random content before and after. */
static uint32_t image_append(struct image *m, struct random *r, uint32_t len)
{
    uint32_t off = m->len;

    image_reserve(m, off + len);
    fill_random(r, m->before + off, len);
    memcpy(m->after + off, m->before + off, len);
    m->len += len;
    return off;
}

/* Cuts len bytes into up to `most` slices of the banks, with unused bytes between them; slices of
 * length zero occur. */
static unsigned cut(struct planner *w, struct image *bank, struct piece *piece, unsigned most,
                    uint32_t len)
{
    unsigned n = 1 + below(w, most);

    for (unsigned i = 0; i < n; i++) {
        struct image *m;

        piece[i].len = i == n - 1 ? len : below(w, len + 1);
        piece[i].bank = (uint8_t)below(w, PLAN_BANKS);
        m = &bank[piece[i].bank];
        image_append(m, w->r, below(w, 4));
        piece[i].off = image_append(m, w->r, piece[i].len);
        len -= piece[i].len;
    }
    return n;
}

/* The first len bytes of the pieces after / to the image. */
void plan_gather(const struct image *bank, const struct piece *piece, unsigned n, uint8_t *out,
                 uint32_t len)
{
    for (unsigned i = 0; i < n && len; i++) {
        uint32_t part = min_of(len, piece[i].len);

        memcpy(out, bank[piece[i].bank].after + piece[i].off, part);
        out += part;
        len -= part;
    }
}

static void scatter(struct image *bank, const struct piece *piece, unsigned n, const uint8_t *in,
                    uint32_t len)
{
    for (unsigned i = 0; i < n && len; i++) {
        uint32_t part = min_of(len, piece[i].len);

        memcpy(bank[piece[i].bank].after + piece[i].off, in, part);
        in += part;
        len -= part;
    }
}

/* ---- choices ---- */

static uint32_t any_len(struct planner *w)
{
    uint32_t mtu = w->params->mtu;

    switch (below(w, 16)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return mtu - 1;
    case 3:
        return mtu;
    case 4:
        return mtu + 1;
    case 5:
        return mtu * (2 + below(w, 6)) + below(w, 3) - 1;
    case 6:
        return 1 + below(w, PLAN_MAX_LEN);
    default:
        return 1 + below(w, 1u << below(w, 12));
    }
}

static uint32_t pick_len(struct planner *w)
{
    uint32_t len = any_len(w);

    return w->params->max_len ? min_of(len, w->params->max_len) : len;
}

/* An offset in the target; often near its start, where the atomics are. */
static uint32_t pick_target(struct planner *w, uint32_t len)
{
    return below(w, below(w, 3) ? w->plan->target.len - len + 1 : 48);
}

static uint8_t pick_op(struct planner *w)
{
    static const uint8_t wheel[] = {SQE_SEND,      SQE_SEND,      SQE_SEND,      SQE_SEND_IMM,
                                    SQE_SEND_IMM,  SQE_WRITE,     SQE_WRITE,     SQE_WRITE,
                                    SQE_WRITE_IMM, SQE_WRITE_IMM, SQE_READ,      SQE_READ,
                                    SQE_READ,      SQE_CMP_SWP,   SQE_FETCH_ADD, SQE_FETCH_ADD};

    if (w->params->extended && !below(w, 8))
        return below(w, 2) ? SQE_FLUSH : SQE_ATOMIC_WRITE;
    return wheel[below(w, ARRAY_SIZE(wheel))];
}

static bool is_atomic(uint8_t op)
{
    return op == SQE_CMP_SWP || op == SQE_FETCH_ADD;
}

static bool is_write(uint8_t op)
{
    return op == SQE_WRITE || op == SQE_WRITE_IMM;
}

static void note_read(struct planner *w, uint32_t off, uint32_t len)
{
    w->unfenced[w->reads++] = (struct range){off, len};
}

/* A READ that is answered again after a loss would see a later change, so the change must wait for
 * it. */
static void fence_if_changes(struct planner *w, struct plan_op *op, uint32_t off, uint32_t len)
{
    for (unsigned i = 0; i < w->reads; i++)
        if (off < w->unfenced[i].off + w->unfenced[i].len && w->unfenced[i].off < off + len)
            op->flags |= SQE_FENCE;
}

/* ---- one request of each kind ---- */

/* The source is the result of an earlier READ: right only if the fence delays the request. */
static bool reuse_read_result(struct planner *w, struct plan_op *op, unsigned index)
{
    const struct plan_op *earlier = index ? &w->plan->op[below(w, index)] : NULL;

    if (!earlier || earlier->op != SQE_READ || !earlier->len || below(w, 2))
        return false;
    op->len = earlier->len;
    op->pieces = earlier->pieces;
    memcpy(op->piece, earlier->piece, sizeof(op->piece));
    op->flags |= SQE_FENCE;
    return true;
}

static void plan_source(struct planner *w, struct plan_op *op, unsigned index)
{
    if (reuse_read_result(w, op, index))
        return;
    op->fresh_source = true;
    op->len = pick_len(w);
    if (op->len <= PLAN_INLINE && !below(w, 3)) {
        op->flags |= SQE_INLINE;
        op->pieces = cut(w, w->plan->local, op->piece, 1, op->len);
    } else {
        op->pieces = cut(w, w->plan->local, op->piece, PLAN_MAX_SGE, op->len);
    }
}

static void plan_receive(struct planner *w, struct plan_op *op, unsigned index,
                         const uint8_t *message, uint32_t len)
{
    struct plan *p = w->plan;
    struct plan_recv *recv = &p->recv[p->recvs];
    uint32_t slack = below(w, 2) ? 0 : below(w, 100);

    if (op->op == SQE_WRITE_IMM && below(w, 2))
        recv->pieces = 0; /* needs no buffer */
    else
        recv->pieces = cut(w, p->inbox, recv->piece, PLAN_MAX_SGE, len + slack);
    recv->op = index;
    op->recv = (int)p->recvs++;
    scatter(p->inbox, recv->piece, recv->pieces, message, len);
}

static void plan_message(struct planner *w, struct plan_op *op, unsigned index)
{
    struct plan *p = w->plan;
    uint8_t *message;

    plan_source(w, op, index);
    message = kit_alloc(op->len);
    plan_gather(p->local, op->piece, op->pieces, message, op->len);
    if (is_write(op->op)) {
        op->target_off = pick_target(w, op->len);
        fence_if_changes(w, op, op->target_off, op->len);
        memcpy(p->target.after + op->target_off, message, op->len);
        if (op->op == SQE_WRITE_IMM)
            plan_receive(w, op, index, NULL, 0);
    } else {
        plan_receive(w, op, index, message, op->len);
    }
    if (op->op == SQE_WRITE_IMM || op->op == SQE_SEND_IMM)
        op->imm = (uint32_t)random_next(w->r);
    if (op->recv >= 0 && !below(w, 4))
        op->flags |= SQE_SOLICITED;
    free(message);
}

static void plan_read(struct planner *w, struct plan_op *op)
{
    struct plan *p = w->plan;

    op->len = pick_len(w);
    op->target_off = pick_target(w, op->len);
    op->pieces = cut(w, p->local, op->piece, PLAN_MAX_SGE, op->len);
    scatter(p->local, op->piece, op->pieces, p->target.after + op->target_off, op->len);
}

static void plan_atomic(struct planner *w, struct plan_op *op)
{
    struct plan *p = w->plan;
    uint64_t value;
    uint8_t *at;

    op->len = 8;
    op->pieces = cut(w, p->local, op->piece, 1, 8);
    if (op->op == SQE_FETCH_ADD && below(w, 2) && !w->params->no_counter) {
        op->on_counter = true;
        op->compare_add = 1;
        p->counter_adds++;
        return;
    }
    op->target_off = below(w, 4) * 8; /* few offsets, so that they collide */
    fence_if_changes(w, op, op->target_off, 8);
    at = p->target.after + op->target_off;
    memcpy(&op->old, at, 8);
    value = op->compare_add = random_next(w->r);
    if (op->op == SQE_FETCH_ADD) {
        value += op->old;
    } else {
        op->swap = random_next(w->r);
        if (below(w, 2))
            op->compare_add = op->old;
        value = op->compare_add == op->old ? op->swap : op->old;
    }
    memcpy(at, &value, 8);
    scatter(p->local, op->piece, op->pieces, (uint8_t *)&op->old, 8);
}

/* Eight bytes at once; like an atomic, a duplicate is not executed again. */
static void plan_atomic_write(struct planner *w, struct plan_op *op)
{
    struct plan *p = w->plan;

    op->len = 8;
    op->pieces = cut(w, p->local, op->piece, 1, 8);
    op->target_off = below(w, 4) * 8;
    fence_if_changes(w, op, op->target_off, 8);
    plan_gather(p->local, op->piece, op->pieces, p->target.after + op->target_off, 8);
}

static void plan_flush(struct planner *w, struct plan_op *op)
{
    op->len = pick_len(w);
    op->target_off = pick_target(w, op->len);
}

static void plan_op(struct planner *w, unsigned index)
{
    struct plan_op *op = &w->plan->op[index];

    *op = (struct plan_op){.op = pick_op(w), .recv = -1};
    if (!below(w, 12))
        op->flags |= SQE_FENCE;
    if (op->op == SQE_READ)
        plan_read(w, op);
    else if (is_atomic(op->op))
        plan_atomic(w, op);
    else if (op->op == SQE_ATOMIC_WRITE)
        plan_atomic_write(w, op);
    else if (op->op == SQE_FLUSH)
        plan_flush(w, op);
    else
        plan_message(w, op, index);
    if (op->flags & SQE_FENCE)
        w->reads = 0;
    if (op->op == SQE_READ)
        note_read(w, op->target_off, op->len);
    if (below(w, 2) || ++w->unsignaled >= w->params->max_unsignaled ||
        index == w->params->ops - 1) {
        op->flags |= SQE_SIGNALED;
        w->unsignaled = 0;
    }
}

void plan_make(struct plan *p, const struct plan_params *params, struct random *r)
{
    struct planner w = {.plan = p, .params = params, .r = r};

    memset(p, 0, sizeof(*p));
    p->op = kit_alloc(params->ops * sizeof(*p->op));
    p->recv = kit_alloc(params->ops * sizeof(*p->recv));
    w.unfenced = kit_alloc(params->ops * sizeof(*w.unfenced));
    image_append(&p->target, r, PLAN_MAX_LEN + 64 + random_below(r, 8192));
    for (unsigned i = 0; i < PLAN_BANKS; i++) {
        image_append(&p->local[i], r, 1); /* a region is never empty */
        image_append(&p->inbox[i], r, 1);
    }
    for (p->ops = 0; p->ops < params->ops; p->ops++)
        plan_op(&w, p->ops);
    free(w.unfenced);
}

static void image_free(struct image *m)
{
    free(m->before);
    free(m->after);
}

void plan_free(struct plan *p)
{
    for (unsigned i = 0; i < PLAN_BANKS; i++) {
        image_free(&p->local[i]);
        image_free(&p->inbox[i]);
    }
    image_free(&p->target);
    free(p->op);
    free(p->recv);
}
