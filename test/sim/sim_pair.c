/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected queue pairs that carry planned flows, one session after the other: a session ends when
 * all is done, when the application stops it, or when losses use up the retries. Then both ends go
 * to ERR, all unfinished requests must be flushed, and the queue pairs are connected again.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_all.h"

#define POOL_LEN 8192

struct pair {
    struct actor actor;
    uint32_t type; /* QPT_RC or QPT_XRC_SEND */
    struct kit_qp *qp[2];
    struct pool pool[2]; /* [i] at node i */
    bool pooled[2];
    struct flow flow[2];
    unsigned flows, sessions;
    bool draining;
    ns_t stop_at, resume_at;
};

static struct kit_qp *make_qp(struct pair *p, struct kit_node *n, uint32_t type, struct pool *pool)
{
    struct sim *s = p->actor.sim;
    struct kit_qp_config config = {
        .type = type,
        .srq = pool ? pool->srq : NULL,
        .xrcd = 1,
        .sq_size = 2u << sim_below(s, 5),
        .rq_size = 1u << sim_below(s, 5),
        .max_inline = PLAN_INLINE,
        .sq_sig_all = sim_below(s, 2),
        .engine = sim_pick_engine(s),
    };

    config.send_cq = kit_cq_create(n, config.sq_size);
    config.recv_cq = kit_cq_create(n, max_of(config.rq_size, 2u * POOL_SLOTS));
    return kit_qp_create(n, &config);
}

static void make_pool(struct pair *p, unsigned side, struct kit_node *n)
{
    struct kit_cq *cq = NULL;

    if (p->type == QPT_XRC_SEND)
        cq = kit_cq_create(n, 2 * POOL_SLOTS);
    p->pooled[side] = true;
    pool_init(&p->pool[side], kit_srq_create(n, POOL_SLOTS, cq, 1), NULL, POOL_LEN);
}

static void start_flow(struct pair *p, unsigned from, uint32_t mtu)
{
    struct sim *s = p->actor.sim;
    struct flow *f = &p->flow[from];
    struct plan_params params = {
        .ops = 4 + sim_below(s, 12),
        .mtu = mtu,
        .max_len = p->pooled[!from] ? POOL_LEN : 2 * POOL_LEN,
        .extended = true,
        .no_counter = true,
        .max_unsignaled = 1 + sim_below(s, p->qp[from]->sq_size),
    };

    *f = (struct flow){
        .sim = s,
        .id = ++s->flow_ids,
        .qp = p->qp[from],
        .peer = p->qp[!from],
        .sig_all = p->qp[from]->sig_all,
        .pool = p->pooled[!from] ? &p->pool[!from] : NULL,
        .extra_recvs = sim_below(s, 3),
        .may_break = s->rough,
    };
    plan_make(&f->plan, &params, &s->random);
    flow_register(f);
}

static void start_session(struct pair *p)
{
    struct sim *s = p->actor.sim;
    struct kit_rc rc = sim_pick_attributes(s);

    kit_connect(p->qp[0], p->qp[1], &rc);
    for (unsigned i = 0; i < p->flows; i++)
        start_flow(p, i, 128u << rc.path_mtu);
    p->draining = false;
    p->stop_at = sim_below(s, 4) ? NS_NEVER : s->kit->now + sim_below(s, 400 * NS_PER_US);
    p->sessions--;
}

static bool finished(const struct pair *p)
{
    for (unsigned i = 0; i < p->flows; i++)
        if (!flow_done(&p->flow[i]))
            return false;
    return true;
}

static void verify(struct pair *p)
{
    for (unsigned i = 0; i < p->flows; i++)
        if (flow_done(&p->flow[i]) && !p->flow[i].broken)
            flow_verify(&p->flow[i]);
}

static void stop_session(struct pair *p)
{
    verify(p);
    for (unsigned i = 0; i < p->flows; i++)
        p->flow[i].stopped = true;
    for (unsigned i = 0; i < 2; i++)
        if (kit_modify(p->qp[i], QPS_ERR))
            sim_fail("a queue pair refuses the error state");
    p->draining = true;
    p->resume_at = p->actor.sim->kit->now + DRAIN_TIME;
}

/* Memory must be unchanged after late frames of the session have arrived. */
static void end_session(struct pair *p)
{
    verify(p);
    for (unsigned i = 0; i < p->flows; i++) {
        struct flow *f = &p->flow[i];

        flow_check_flushed(f);
        flow_deregister(f);
        plan_free(&f->plan);
    }
    for (unsigned i = 0; i < 2; i++)
        if (kit_modify(p->qp[i], QPS_RESET))
            sim_fail("a queue pair cannot be reset");
    p->actor.progress++;
}

static bool must_stop(const struct pair *p)
{
    for (unsigned i = 0; i < p->flows; i++)
        if (p->flow[i].broken || p->flow[i].recvs_flushed)
            return true;
    return finished(p) || p->stop_at <= p->actor.sim->kit->now;
}

static bool turn(struct actor *a)
{
    struct pair *p = (struct pair *)a;
    struct kit *k = a->sim->kit;

    for (unsigned i = 0; i < 2; i++)
        if (p->pooled[i])
            pool_post(&p->pool[i], &a->sim->random);
    if (!p->draining && must_stop(p))
        stop_session(p);
    if (!p->draining) {
        for (unsigned i = 0; i < p->flows; i++)
            flow_post(&p->flow[i], &a->sim->random);
        kit_wake_at(k, p->stop_at);
        return false;
    }
    if (p->resume_at > k->now) {
        kit_wake_at(k, p->resume_at);
        return false;
    }
    if (p->flows) {
        end_session(p);
        if (p->sessions) {
            start_session(p);
            kit_wake_at(k, k->now + 1);
            return false;
        }
        p->flows = 0;
        p->pool[0].closed = p->pool[1].closed = true;
    }
    return true;
}

static bool completed(struct actor *a, const struct kit_node *n, const struct cqe *e)
{
    struct pair *p = (struct pair *)a;

    for (unsigned i = 0; i < p->flows; i++) {
        struct flow *f = &p->flow[i];
        const struct kit_qp *qp = e->opcode & WC_RECV ? f->peer : f->qp;

        if (qp->node != n || qp->qpn != e->qpn)
            continue;
        if (e->opcode & WC_RECV)
            flow_received(f, e);
        else
            flow_sent(f, e);
        a->progress++;
        return true;
    }
    return false;
}

static void check(struct actor *a)
{
    struct pair *p = (struct pair *)a;

    for (unsigned i = 0; i < 2; i++)
        if (p->pooled[i])
            pool_check(&p->pool[i]);
}

static void tell(struct actor *a, FILE *out)
{
    struct pair *p = (struct pair *)a;

    fprintf(out, "pair of type %u:", p->type);
    for (unsigned i = 0; i < p->flows; i++)
        fprintf(out, " [%u: %u of %u requests completed, %u posted, %u of %u receives]",
                p->flow[i].qp->qpn, p->flow[i].completed, p->flow[i].plan.ops, p->flow[i].posted,
                p->flow[i].recvs_done, p->flow[i].plan.recvs);
    fprintf(out, "%s\n", p->draining ? ", draining" : "");
}

static void fini(struct actor *a)
{
    free(a);
}

struct actor *pair_create(struct sim *s)
{
    struct pair *p = kit_alloc(sizeof(*p));
    struct kit_node *n[2];

    p->actor = (struct actor){s, turn, completed, check, tell, fini, 0};
    sim_pick_nodes(s, n);
    p->type = sim_below(s, 3) ? QPT_RC : QPT_XRC_SEND;
    p->flows = p->type == QPT_RC ? 2 : 1;
    for (unsigned i = 0; i < 2; i++)
        if (p->type == QPT_RC ? sim_below(s, 2) : i)
            make_pool(p, i, n[i]);
    for (unsigned i = 0; i < 2; i++)
        p->qp[i] = make_qp(p, n[i], i && p->type != QPT_RC ? QPT_XRC_RECV : p->type,
                           p->pooled[i] ? &p->pool[i] : NULL);
    p->sessions = 1 + sim_below(s, 3);
    start_session(p);
    return &p->actor;
}
