/* SPDX-License-Identifier: BSD-3-Clause */
/* A flow: a connection, its messages, and its end. */
#include <stdlib.h>
#include <string.h>

#include "lab_internal.h"

static const enum sqe_op op_of[] = {
    [LAB_WRITE] = SQE_WRITE, [LAB_SEND] = SQE_SEND, [LAB_READ] = SQE_READ};

static struct end *requester(const struct lab_run *r)
{
    return r->end[0];
}

/* Whose data it is: the other end of a READ. */
static struct end *receiver(const struct lab_run *r)
{
    return r->end[r->spec->verb == LAB_READ ? 0 : 1];
}

static void finish(struct lab_run *r, enum lab_outcome outcome)
{
    struct lab *lab = r->lab;

    if (r->over)
        return;
    r->result.outcome = outcome;
    r->result.end = lab->ended = fabric_now(lab->fabric);
    r->over = true;
    r->next_over = lab->over;
    lab->over = r;
    lab->left--;
}

/* ---- posting ---- */

static void post_more(struct lab_run *r)
{
    const struct lab_flow *f = r->spec;
    struct end *e = requester(r);
    bool posted = false;

    while (r->waiting < f->depth && r->posted < f->size) {
        uint32_t len = (uint32_t)min_of(f->size - r->posted, (uint64_t)f->message);

        end_post_send(e, op_of[f->verb], len);
        r->posted += f->size == LAB_ENDLESS ? 0 : len;
        r->waiting++;
        posted = true;
    }
    if (posted)
        engine_doorbell(e->site->engine, e->qp, lab_engine_time(r->lab));
}

static bool make_ends(struct lab_run *r)
{
    const struct lab_flow *f = r->spec;
    struct lab *lab = r->lab;
    uint32_t recvs = f->verb == LAB_SEND ? 2 * f->depth : 1;

    for (unsigned i = 0; i < 2; i++) {
        const struct lab_node *n = &lab->spec->node[i ? f->to : f->from];

        r->end[i] = end_create(r, &lab->site[n->number], i ? 1 : f->depth, i ? recvs : 1);
        if (!r->end[i])
            return false;
    }
    if (end_connect(r->end[0], r->end[1]) || end_connect(r->end[1], r->end[0]))
        return false;
    for (unsigned i = 0; f->verb == LAB_SEND && i < recvs; i++)
        end_post_recv(r->end[1], f->message);
    return true;
}

void run_start(void *object, uint64_t value)
{
    struct lab_run *r = object;

    r->result.start = fabric_now(r->lab->fabric);
    if (!make_ends(r)) {
        r->lab->out_of_memory = true;
        return;
    }
    r->result.outcome = LAB_RUNNING;
    post_more(r);
    site_serve(requester(r)->site);
}

/* ---- completing ---- */

static void complete_send(struct lab_run *r, const struct cqe *e)
{
    r->waiting--;
    if (e->status != WC_SUCCESS) {
        if (!r->over)
            r->result.status = e->status;
        finish(r, LAB_FAILED);
        return;
    }
    r->result.bytes += e->wr_id;
    if (r->result.bytes >= r->spec->size)
        finish(r, LAB_DONE);
}

void run_completions(struct end *e)
{
    struct lab_run *r = e->flow;
    const struct cqe *cqe;

    while ((cqe = cq_reader_peek(&e->reader))) {
        if (!(cqe->opcode & WC_RECV))
            complete_send(r, cqe);
        else if (cqe->status == WC_SUCCESS)
            end_post_recv(e, r->spec->message);
        cq_reader_advance(&e->reader);
    }
    if (!r->over && e == requester(r))
        post_more(r);
}

/* ---- the end ---- */

static void add_counters(struct lab_result *result, const struct end *e)
{
    const struct qp_counters *c = qp_counters(e->qp);

#define X(name) result->counter[LAB_COUNTER_##name] += counter_get(&c->name);
    QP_COUNTERS(X)
#undef X
}

uint64_t run_arrived(const struct lab_run *r)
{
    return r->end[0] && r->end[1] ? counter_get(&qp_counters(receiver(r)->qp)->rx_bytes)
                                  : r->result.arrived;
}

void run_count(const struct lab_run *r, struct lab_result *result)
{
    if (!r->end[0] || !r->end[1])
        return;
    memset(result->counter, 0, sizeof(result->counter));
    add_counters(result, r->end[0]);
    add_counters(result, r->end[1]);
    result->arrived = run_arrived(r);
    result->sport = qp_udp_sport(r->end[r->spec->verb == LAB_READ ? 1 : 0]->qp);
}

void run_free(struct lab_run *r)
{
    for (unsigned i = 0; i < 2; i++) {
        end_free(r->end[i]);
        r->end[i] = NULL;
    }
}

void run_reap(struct lab *lab)
{
    while (lab->over) {
        struct lab_run *r = lab->over;

        lab->over = r->next_over;
        run_count(r, &r->result);
        run_free(r);
    }
}
