/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An owner of memory and a user of it, connected by RC. In every round the owner grants a range (by
 * a window, or by a region of its own), the user works in it, and the grant ends: by the user's
 * SEND with invalidate, by the owner's LOCAL INVALIDATE or deregistration in the middle of a WRITE.
 * After the end of the grant none of its bytes may change; the owner's other bytes may never
 * change.
 */
#include <stdlib.h>
#include <string.h>

#include "mem_window.h"
#include "sim_all.h"

#define GROUND 32768
#define BURST  4 /* requests of the user, each in its own part of the grant */

enum step { GRANT, USE, REVOKE, BREAK, DRAIN, DONE };
enum ending { SEND_INV, LOCAL_INV, DEREGISTER };

struct range {
    uint32_t off, len;
};

struct owner {
    struct actor actor;
    struct kit_qp *qp[2]; /* [0] the owner's */
    struct kit_mr *ground, *lent, *source, *inbox;
    struct kit_mw *window;
    uint8_t *before; /* the memory at the end of the grant, or at its start */
    enum step step;
    enum ending ending;
    unsigned rounds;
    struct range grant, part[BURST + 1]; /* the last one: the WRITE that meets the revocation */
    uint32_t key;
    unsigned posted, completed; /* of the user, in this step */
    bool failed;                /* a request of the user */
    bool broken;                /* by losses, or as expected */
    bool revoked, revoking;
    ns_t at;
};

static struct kit_mr *memory(const struct owner *o)
{
    return o->ending == DEREGISTER ? o->lent : o->ground;
}

static void must(struct owner *o, bool cond, const char *what, const struct cqe *e)
{
    if (!cond)
        sim_fail("owner %u, step %d, ending %d: %s (opcode %u, status %u, wr_id %llu)",
                 o->qp[0]->qpn, o->step, o->ending, what, e ? e->opcode : 0, e ? e->status : 0,
                 e ? (unsigned long long)e->wr_id : 0);
}

static void snapshot(struct owner *o)
{
    memcpy(o->before, memory(o)->bytes, GROUND);
}

static void post(struct kit_qp *qp, const struct kit_send *wr)
{
    if (kit_post_send(qp, wr))
        sim_fail("a send queue is full");
    kit_ring(qp);
}

/* ---- the steps ---- */

static void grant(struct owner *o)
{
    struct sim *s = o->actor.sim;
    struct kit_send wr = {.wr_id = 1, .op = SQE_BIND_MW, .flags = SQE_SIGNALED};

    o->step = GRANT;
    o->revoked = o->revoking = o->broken = o->failed = false;
    o->posted = o->completed = 0;
    o->ending = (enum ending)sim_below(s, 3);
    o->grant.len = (1 + sim_below(s, GROUND / 16)) * 8;
    o->grant.off = sim_below(s, (GROUND - o->grant.len) / 8 + 1) * 8;
    kit_recv(o->qp[0], 7, o->inbox, 0, o->inbox->len);
    if (o->ending == DEREGISTER) {
        o->lent = kit_mr_create(o->qp[0]->node, GROUND,
                                MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
                                    MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL,
                                sim_below(s, 2) ? KIT_MR_DIRECT : KIT_MR_COPY);
        o->key = o->lent->region.key;
        o->step = USE;
        snapshot(o);
        return;
    }
    o->key = (o->window->region.key & ~UINT32_C(255)) | sim_below(s, 256);
    snapshot(o);
    wr.rkey = o->window->region.key;
    wr.imm = o->key;
    wr.remote_addr = kit_va(o->ground, o->grant.off);
    wr.bind.length = o->grant.len;
    wr.bind.region_key = o->ground->region.key;
    wr.bind.access = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC;
    post(o->qp[0], &wr);
}

/* A request of the user for a part of the grant. */
static void use(struct owner *o, uint8_t op, struct range part, uint64_t wr_id)
{
    struct sge sge = kit_sge(o->source, part.off, part.len);
    struct kit_send wr = {
        .wr_id = wr_id,
        .op = op,
        .flags = SQE_SIGNALED,
        .rkey = o->key,
        .remote_addr = kit_va(memory(o), part.off),
        .sge = &sge,
        .num_sge = op != SQE_FLUSH,
        .compare_add = 1,
    };

    if (op == SQE_FLUSH)
        wr.flush = (typeof(wr.flush)){.length = part.len, .placement = FETH_GLOBAL};
    post(o->qp[1], &wr);
    o->posted++;
}

static void use_grant(struct owner *o)
{
    static const uint8_t ops[] = {SQE_WRITE, SQE_WRITE, SQE_READ, SQE_ATOMIC_WRITE, SQE_FLUSH};
    struct sim *s = o->actor.sim;
    uint32_t each = o->grant.len / BURST & ~7u;

    for (unsigned i = 0; i < BURST && each; i++) {
        struct range part = {o->grant.off + i * each, each};
        /* A window grants no right to FLUSH. */
        uint8_t op = ops[sim_below(s, ARRAY_SIZE(ops) - (o->ending != DEREGISTER))];

        if (op == SQE_ATOMIC_WRITE)
            part.len = 8;
        if (op == SQE_WRITE || op == SQE_ATOMIC_WRITE) {
            for (uint32_t j = 0; j < part.len; j++)
                o->source->bytes[part.off + j] = (uint8_t)random_next(&s->random);
        }
        o->part[i] = op == SQE_WRITE || op == SQE_ATOMIC_WRITE ? part : (struct range){0, 0};
        use(o, op, part, 10 + i);
    }
    if (!o->posted) /* too small a grant for that */
        o->step = REVOKE;
}

/* Checks the bytes that the user wrote. */
static void check_used(struct owner *o)
{
    for (unsigned i = 0; i < BURST; i++)
        memcpy(o->before + o->part[i].off, o->source->bytes + o->part[i].off, o->part[i].len);
    must(o, !memcmp(o->before, memory(o)->bytes, GROUND), "wrong bytes after the user's work",
         NULL);
    o->step = REVOKE;
}

static void begin_end(struct owner *o)
{
    struct sim *s = o->actor.sim;
    struct range all = o->grant;
    struct sge sge = kit_sge(o->source, 0, 16);
    struct kit_send wr = {.wr_id = 20,
                          .op = SQE_SEND_INV,
                          .flags = SQE_SIGNALED,
                          .imm = o->key,
                          .sge = &sge,
                          .num_sge = 1};

    memset(o->part, 0, sizeof(o->part));
    o->step = BREAK;
    o->posted = o->completed = 0;
    for (uint32_t j = 0; j < all.len; j++)
        o->source->bytes[all.off + j] = (uint8_t)random_next(&s->random);
    if (o->ending == SEND_INV) { /* and requests behind it must fail */
        post(o->qp[1], &wr);
        o->posted++;
        use(o, SQE_WRITE, all, 21);
        return;
    }
    o->part[BURST] = all;
    use(o, SQE_WRITE, all, 21);
    use(o, SQE_WRITE, all, 22);
    o->at = s->kit->now + sim_below(s, 40 * NS_PER_US);
}

static void end_of_grant(struct owner *o)
{
    o->revoked = true;
    snapshot(o);
}

static void revoke(struct owner *o)
{
    struct kit_send wr = {.wr_id = 2, .op = SQE_LOCAL_INV, .flags = SQE_SIGNALED, .imm = o->key};

    o->revoking = true;
    if (o->ending == DEREGISTER) {
        kit_mr_deregister(o->lent);
        end_of_grant(o);
    } else if (qp_current_state(o->qp[0]->qp) == QPS_RTS) {
        post(o->qp[0], &wr);
    }
}

static void stop(struct owner *o)
{
    if (o->ending == DEREGISTER && !o->revoking)
        revoke(o);
    for (unsigned i = 0; i < 2; i++)
        if (kit_modify(o->qp[i], QPS_ERR))
            sim_fail("a queue pair refuses the error state");
    o->step = DRAIN;
    o->at = o->actor.sim->kit->now + DRAIN_TIME;
}

static void connect(struct owner *o)
{
    struct kit_rc rc = sim_pick_attributes(o->actor.sim);

    kit_connect(o->qp[0], o->qp[1], &rc);
}

static bool next_round(struct owner *o)
{
    if (o->revoked)
        must(o, !memcmp(o->before, memory(o)->bytes, GROUND), "bytes changed after the revocation",
             NULL);
    window_unbind(&o->window->region); /* as deallocating it does */
    for (unsigned i = 0; i < 2; i++)
        if (kit_modify(o->qp[i], QPS_RESET))
            sim_fail("a queue pair cannot be reset");
    o->actor.progress++;
    if (!o->rounds--) {
        o->step = DONE;
        return true;
    }
    connect(o);
    grant(o);
    kit_wake_at(o->actor.sim->kit, o->actor.sim->kit->now + 1);
    return false;
}

static bool turn(struct actor *a)
{
    struct owner *o = (struct owner *)a;
    struct kit *k = a->sim->kit;

    if (o->step == DONE)
        return true;
    if (o->broken && o->step != DRAIN)
        stop(o);
    if (o->step == USE && !o->posted)
        use_grant(o);
    if (o->step == USE && o->completed == o->posted)
        check_used(o);
    if (o->step == REVOKE)
        begin_end(o);
    if (o->step == BREAK && o->ending != SEND_INV && !o->revoking && o->at <= k->now)
        revoke(o);
    if (o->step == BREAK && o->completed == o->posted && (o->revoked || o->ending == SEND_INV))
        stop(o);
    if (o->step == DRAIN && o->at <= k->now)
        return next_round(o);
    if ((o->step == DRAIN || o->step == BREAK) && o->at > k->now)
        kit_wake_at(k, o->at);
    if (o->step == USE && !o->posted) /* continue here */
        kit_wake_at(k, k->now + 1);
    return false;
}

/* ---- completions ---- */

static void owner_completed(struct owner *o, const struct cqe *e)
{
    if (e->status == WC_WR_FLUSH_ERR) {
        must(o, o->step >= BREAK || o->actor.sim->rough, "work of the owner was flushed", e);
        /* The receive is flushed when the user oversteps; the user's own failure follows. */
        o->broken |= o->step != BREAK || e->opcode != WC_RECV;
        return;
    }
    must(o, e->status == WC_SUCCESS, "the owner's work failed", e);
    if (e->opcode == WC_RECV) {
        must(o, o->ending == SEND_INV && (e->wc_flags & WC_WITH_INV) && e->imm == o->key,
             "not the invalidation of the window", e);
        end_of_grant(o);
    } else if (e->opcode == WC_LOCAL_INV) {
        end_of_grant(o);
    } else {
        must(o, e->opcode == WC_BIND_MW && o->step == GRANT, "unexpected", e);
        o->step = USE;
    }
}

static void user_completed(struct owner *o, const struct cqe *e)
{
    bool late = e->wr_id == 21 || e->wr_id == 22;
    bool refused = o->revoking || (o->step >= BREAK && o->ending == SEND_INV);

    o->completed++;
    if (e->status == WC_SUCCESS) {
        must(o, !o->failed && !(late && o->ending == SEND_INV), "success without a grant", e);
        return;
    }
    if (o->failed)
        must(o, e->status == WC_WR_FLUSH_ERR, "a second failure", e);
    else if (o->step == DRAIN)
        must(o, e->status == WC_WR_FLUSH_ERR, "a failure in the end", e);
    else if (e->status == WC_RETRY_EXC_ERR) /* the refusal may have been lost */
        must(o, o->actor.sim->rough || refused, "the link is not that bad", e);
    else
        must(o, late && refused && e->status == WC_REM_ACCESS_ERR, "a failure within the grant", e);
    o->failed = o->broken = true;
}

static bool completed(struct actor *a, const struct kit_node *n, const struct cqe *e)
{
    struct owner *o = (struct owner *)a;

    for (unsigned i = 0; i < 2; i++) {
        if (o->qp[i]->node != n || o->qp[i]->qpn != e->qpn)
            continue;
        if (i)
            user_completed(o, e);
        else
            owner_completed(o, e);
        a->progress++;
        return true;
    }
    return false;
}

static void check(struct actor *a)
{
}

static void tell(struct actor *a, FILE *out)
{
    struct owner *o = (struct owner *)a;

    fprintf(out, "owner: step %d, ending %d, %u of %u completed%s\n", o->step, o->ending,
            o->completed, o->posted, o->revoked ? ", revoked" : "");
}

static void fini(struct actor *a)
{
    struct owner *o = (struct owner *)a;

    free(o->before);
    free(o);
}

struct actor *owner_create(struct sim *s)
{
    struct owner *o = kit_alloc(sizeof(*o));
    struct kit_node *n[2];

    o->actor = (struct actor){s, turn, completed, check, tell, fini, 0};
    sim_pick_nodes(s, n);
    for (unsigned i = 0; i < 2; i++)
        o->qp[i] = kit_qp_create(n[i], &(struct kit_qp_config){.engine = sim_pick_engine(s)});
    o->ground = kit_mr_create(n[0], GROUND, MEM_LOCAL_WRITE | MEM_MW_BIND | MEM_FLUSH_GLOBAL,
                              sim_below(s, 2) ? KIT_MR_DIRECT : KIT_MR_COPY);
    o->inbox = kit_mr_create(n[0], 64, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    o->source = kit_mr_create(n[1], GROUND, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    o->window = kit_mw_create(n[0], MEM_WINDOW_2);
    o->before = kit_alloc(GROUND);
    o->rounds = 1 + sim_below(s, 5);
    connect(o);
    grant(o);
    return &o->actor;
}
