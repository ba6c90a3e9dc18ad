/* SPDX-License-Identifier: BSD-3-Clause */
/* The application: posting work and reading completions. */
#include <inttypes.h>
#include <string.h>

#include "script.h"

struct post {
    struct sqe h;
    struct sge sge[QUEUE_MAX_SGE];
    uint8_t inline_data[QUEUE_MAX_INLINE];
};

#define F(name, member)                                                       \
    {                                                                         \
        name, offsetof(struct sqe, member), sizeof(((struct sqe *)0)->member) \
    }
static const struct field sqe_fields[] = {
    F("wr", wr_id),
    F("va", remote_addr),
    F("rkey", rkey),
    F("inv", imm),
    F("newkey", imm),
    F("compare", atomic.compare_add),
    F("add", atomic.compare_add),
    F("swap", atomic.swap),
    F("ah", ud.ah),
    F("dqpn", ud.remote_qpn),
    F("qkey", ud.remote_qkey),
    F("length", bind.length),
    F("region", bind.region_key),
    F("placement", flush.placement),
    F("selectivity", flush.selectivity),
    F("srq", remote_srqn),
    F("num_sge", num_sge),
    F("inline_len", inline_len),
    F("opcode", opcode),
    F("flags", flags),
    {0},
};
#undef F

static const struct name sqe_ops[] = {
    {"write", SQE_WRITE},
    {"write_imm", SQE_WRITE_IMM},
    {"send", SQE_SEND},
    {"send_imm", SQE_SEND_IMM},
    {"read", SQE_READ},
    {"cmp_swp", SQE_CMP_SWP},
    {"fetch_add", SQE_FETCH_ADD},
    {"local_inv", SQE_LOCAL_INV},
    {"bind", SQE_BIND_MW},
    {"send_inv", SQE_SEND_INV},
    {"flush", SQE_FLUSH},
    {"atomic_write", SQE_ATOMIC_WRITE},
    {0},
};

static const struct name sqe_flags[] = {
    {"fence", SQE_FENCE}, {"solicited", SQE_SOLICITED}, {"signaled", SQE_SIGNALED}, {0}};

static bool take_flag(struct sqe *h, const char *word)
{
    for (const struct name *n = sqe_flags; n->name; n++)
        if (!strcmp(n->name, word)) {
            h->flags |= (uint8_t)n->value;
            return true;
        }
    if (strcmp(word, "unsignaled"))
        return false;
    h->flags &= (uint8_t)~SQE_SIGNALED;
    return true;
}

static struct sge need_sge(struct script *s)
{
    uint32_t off, len;
    struct kit_mr *mr = need_range(s, &off, &len);

    return kit_sge(mr, off, len);
}

/* LENGTH data SEED */
static void take_inline(struct script *s, struct post *w)
{
    uint32_t seed = 0, off = 0;

    w->h.flags |= SQE_INLINE;
    w->h.inline_len = (uint32_t)need_number(s, "a length");
    if (w->h.inline_len > sizeof(w->inline_data))
        fail(s, "script: too much inline data");
    if (accept(s, "data"))
        need_data(s, &seed, &off);
    for (uint32_t i = 0; i < w->h.inline_len; i++)
        w->inline_data[i] = data_byte(seed, off + i);
}

static void take_words(struct script *s, struct post *w, struct script_qp **qp, bool *ring)
{
    const char *word;

    while ((word = next(s))) {
        const struct field *f = find_field(sqe_fields, word);

        if (f)
            field_set(f, &w->h, need_number(s, word));
        else if (!strcmp(word, "imm"))
            w->h.imm = __builtin_bswap32((uint32_t)need_number(s, word));
        else if (!strcmp(word, "access"))
            w->h.bind.access = need_access(s);
        else if (!strcmp(word, "sge"))
            w->sge[w->h.num_sge++ % QUEUE_MAX_SGE] = need_sge(s);
        else if (!strcmp(word, "lkey")) /* of the SGE before */
            w->sge[w->h.num_sge - 1].lkey = (uint32_t)need_number(s, word);
        else if (!strcmp(word, "inline"))
            take_inline(s, w);
        else if (!strcmp(word, "on"))
            *qp = object(s, OBJ_QP, need(s, "a queue pair"));
        else if (!strcmp(word, "quiet")) /* without the doorbell */
            *ring = false;
        else if (!take_flag(&w->h, word))
            fail(s, "script: a work request has no '%s'", word);
    }
}

/* post OP [on QP] [sge RANGE]... [inline N data SEED] [FIELD VALUE]... [unsignaled] [quiet] */
void st_post(struct script *s)
{
    struct post w = {.h = {.wr_id = s->next_wr++, .flags = SQE_SIGNALED}};
    struct script_qp *qp = object(s, OBJ_QP, NULL);
    bool ring = true;
    uint8_t *slot;

    w.h.opcode = (uint8_t)named(s, sqe_ops, need(s, "an operation"), "operation");
    take_words(s, &w, &qp, &ring);
    slot = work_queue_slot(qp->sq, qp->conf.sq, qp->sq_stride, qp->sq_prod);
    memcpy(slot, &w.h, sizeof(w.h));
    if (w.h.flags & SQE_INLINE)
        memcpy(slot + sizeof(w.h), w.inline_data,
               min_of(w.h.inline_len, qp->sq_stride - (uint32_t)sizeof(w.h)));
    else
        memcpy(slot + sizeof(w.h), w.sge,
               min_of(w.h.num_sge, qp->conf.max_sge) * sizeof(struct sge));
    atomic_store(&qp->shared->sq_prod, ++qp->sq_prod);
    if (!ring)
        return;
    engine_doorbell(s->engine, qp->qp, s->now);
    if (!s->held)
        pump(s, MAX_FRAMES);
}

static void put_recv(uint8_t *slot, const struct rqe *h, const struct sge *sge)
{
    memcpy(slot, h, sizeof(*h));
    memcpy(slot + sizeof(*h), sge, min_of(h->num_sge, 4u) * sizeof(*sge));
}

/* recv [on QP | srq S] [wr N] [sge RANGE [lkey K]]... [num_sge N] */
void st_recv(struct script *s)
{
    struct rqe h = {.wr_id = s->next_recv++};
    struct sge sge[QUEUE_MAX_SGE];
    struct script_qp *qp = NULL;
    struct script_srq *srq = NULL;
    const char *word;

    while ((word = next(s))) {
        if (!strcmp(word, "sge"))
            sge[h.num_sge++ % QUEUE_MAX_SGE] = need_sge(s);
        else if (!strcmp(word, "lkey"))
            sge[h.num_sge - 1].lkey = (uint32_t)need_number(s, word);
        else if (!strcmp(word, "wr"))
            h.wr_id = need_number(s, word);
        else if (!strcmp(word, "num_sge"))
            h.num_sge = (uint32_t)need_number(s, word);
        else if (!strcmp(word, "on"))
            qp = object(s, OBJ_QP, need(s, "a queue pair"));
        else if (!strcmp(word, "srq"))
            srq = object(s, OBJ_SRQ, need(s, "a shared queue"));
        else
            fail(s, "script: a receive has no '%s'", word);
    }
    if (srq) {
        put_recv(work_queue_slot(srq->ring, srq->size, srq->stride, srq->prod), &h, sge);
        atomic_store(&srq->shared->prod, ++srq->prod);
        return;
    }
    qp = qp ? qp : object(s, OBJ_QP, NULL);
    put_recv(work_queue_slot(qp->rq, qp->conf.rq, qp->rq_stride, qp->rq_prod), &h, sge);
    atomic_store(&qp->shared->rq_prod, ++qp->rq_prod);
    if (atomic_load(&qp->shared->rq_notify))
        engine_doorbell(s->engine, qp->qp, s->now);
}

/* ---- completions ---- */

#define F(name, member)                                                       \
    {                                                                         \
        name, offsetof(struct cqe, member), sizeof(((struct cqe *)0)->member) \
    }
static const struct field cqe_fields[] = {
    F("wr", wr_id), F("len", byte_len), F("sqpn", src_qpn),   F("qpn", qpn), F("inv", imm),
    F("sl", sl),    F("vlan", vlan),    F("flags", wc_flags), F("wqe", wqe), {0},
};
#undef F

static void completion_differs(struct script *s, const struct cqe *c, const char *what,
                               uint64_t want, uint64_t got)
{
    if (want != got)
        fail(s, "completion of wr %" PRIu64 " %s %s len %u: %s: expected %" PRIu64 ", got %" PRIu64,
             c->wr_id, name_of(wc_names, c->opcode),
             c->status == WC_SUCCESS ? "SUCCESS" : name_of(status_names, c->status), c->byte_len,
             what, want, got);
}

/* The MAC that a datagram came from. */
static void check_smac(struct script *s, const struct cqe *c)
{
    const char *want = need(s, "a MAC in hexadecimal");
    char got[13];

    for (unsigned i = 0; i < 6; i++)
        snprintf(got + 2 * i, 3, "%02x", c->smac[i]);
    if (strcmp(want, got))
        fail(s, "smac: expected %s, got %s", want, got);
}

/* completion [cq C] [wr N] [status S] [opcode O] [len N] [imm N]...: by default SUCCESS */
void st_completion(struct script *s)
{
    struct kit_cq *cq = object(s, OBJ_CQ, accept(s, "cq") ? need(s, "a queue") : NULL);
    const struct cqe *c = cq_reader_peek(&cq->reader);
    uint8_t status = WC_SUCCESS;
    struct cqe copy;
    const char *word;

    if (!c)
        fail(s, "expected a completion, there is none");
    copy = *c;
    cq_reader_advance(&cq->reader);
    for (unsigned i = s->at; i + 1 < s->words; i++)
        if (!strcmp(s->word[i], "status"))
            status = (uint8_t)named(s, status_names, s->word[i + 1], "status");
    completion_differs(s, &copy, "status", status, copy.status);
    while ((word = next(s))) {
        const struct field *f = find_field(cqe_fields, word);

        if (f)
            completion_differs(s, &copy, word, need_number(s, word), field_get(f, &copy));
        else if (!strcmp(word, "status"))
            need(s, "a status");
        else if (!strcmp(word, "opcode"))
            completion_differs(s, &copy, word, named(s, wc_names, need(s, word), "opcode"),
                               copy.opcode);
        else if (!strcmp(word, "smac"))
            check_smac(s, &copy);
        else if (!strcmp(word, "imm"))
            completion_differs(s, &copy, word, need_number(s, word), __builtin_bswap32(copy.imm));
        else
            fail(s, "script: a completion has no '%s'", word);
    }
}
