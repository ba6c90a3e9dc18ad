/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transmit path of a burst, pulled by the host. Traffic classes and programs take turns
 * (share.h); in the turn of one program, its queue pairs send a quantum each, round-robin. A queue
 * pair that is alone has no quantum. Headers are built into the lent frames, and payloads that are
 * not mapped are queued; then these are copied, and the packets whose payload arrived as a whole
 * are sealed.
 */
#include "completion.h"
#include "count.h"
#include "invariant.h"
#include "late.h"
#include "resp_reorder.h"
#include "responder.h"
#include "sg.h"
#include "tx.h"
#include "tx_allowance.h"

/* Queue pairs that turn out to have no packet, in one burst: they take time, too. */
#define TX_EMPTY_TURNS 64

/* While page faults are charged a queue pair sends a few packets at a time, and a call ends when
 * page faults have taken as long as here: others wait for it. */
#define FAULT_TURN     2u
#define FAULTS_AT_ONCE (20 * NS_PER_US * COST_NS)

static void next_turn(struct share *s, struct qp *qp)
{
    qp->quantum_used = 0;
    TAILQ_REMOVE(&s->qps, qp, tx_link);
    TAILQ_INSERT_TAIL(&s->qps, qp, tx_link);
}

/* After this many turns of others a queue pair and what belongs to it (rings, region, memory: some
 * 4 KiB) have left a cache of a MiB. */
#define COLD_TURNS 256u

/* A queue pair that has waited begins its turn: as many as waited at the beginning of the round end
 * it. */
static void count_turn(struct engine *e)
{
    if (e->round_left) {
        e->round_left--;
        return;
    }
    e->round_left = e->ready_qps - 1;
    e->round++;
}

static void begin_turn(struct engine *e, struct share *s, struct qp *qp)
{
    if (!(qp->in_tx_list & TX_LIST_ANSWER))
        count_turn(e);
    e->cold = e->turn - qp->turn > COLD_TURNS;
    if (unlikely(e->cold)) {
        tx_fetch_ahead(e, qp);
        share_charge(s, COST_COLD);
    }
    qp->turn = ++e->turn;
}

/* Charges the page faults of a turn. True: they have taken long enough for this call. */
static bool charge_faults(struct engine *e, struct share *s)
{
    uint64_t cost = fault_cost(e);

    share_charge(s, cost);
    e->faults_spent += cost;
    return e->faults_spent >= FAULTS_AT_ONCE;
}

/* What a program's share differs in from the only one that sends. */
enum turn {
    TURN_ALONE = 1,   /* it is the only one: no credit is kept */
    TURN_FAULTS = 2,  /* page faults are charged */
    TURN_CLASSES = 4, /* there are traffic classes */
};

/* The answers of qp, which goes before the others for these. */
static unsigned take_first(struct engine *e, struct share *s, struct qp *qp, struct frame *frames,
                           unsigned n)
{
    unsigned taken = tx_take_answers(e, qp, frames, n);

    if (!taken || qp->in_tx_list != TX_LIST_ANSWER || tx_allowed_responses(qp)) {
        qp->in_tx_list = TX_LIST_TURN;
        return taken;
    }
    engine_tx_idle(e, qp);
    if (TAILQ_EMPTY(&s->qps))
        s->answers_first = TX_QUANTUM;
    return taken;
}

/* The next packets of qp. For those of its turn, answers of others may go first again. */
ALWAYS_INLINE unsigned take(struct engine *e, struct share *s, struct qp *qp, struct frame *frames,
                            unsigned n)
{
    unsigned taken;

    if (qp->in_tx_list & TX_LIST_ANSWER) {
        taken = take_first(e, s, qp, frames, n);
        if (taken)
            return taken;
    }
    taken = tx_take_turn(e, qp, frames, n);
    s->answers_first = min_of(s->answers_first + taken, (unsigned)TX_QUANTUM);
    return taken;
}

/* Packets of one program: as many as it has credit for, or as there are frames if it is alone.
 * kind: enum turn. */
ALWAYS_INLINE void fill_from(struct engine *e, struct share *s, unsigned kind, struct frame *frames,
                             unsigned n, unsigned *empty_turns)
{
    const bool alone = kind & TURN_ALONE, faults = kind & TURN_FAULTS;
    struct qp *qp;

    while (e->jobs < n && *empty_turns && (qp = TAILQ_FIRST(&s->qps)) &&
           (alone || share_has_credit(s))) {
        bool only = alone && !TAILQ_NEXT(qp, tx_link);
        unsigned turn = only ? n : (unsigned)(TX_QUANTUM - qp->quantum_used);
        unsigned taken;

        if ((kind & TURN_CLASSES) && share_set_class(e, qp)) {
            --*empty_turns;
            continue;
        }
        if (qp->turn != e->turn)
            begin_turn(e, s, qp);
        if (faults)
            turn = min_of(turn, FAULT_TURN);
        taken = take(e, s, qp, &frames[e->jobs], min_of(n - e->jobs, turn));
        if (!taken) {
            engine_tx_idle(e, qp);
            qp_flush_more(e, qp);
            --*empty_turns;
            continue;
        }
        if (faults && charge_faults(e, s))
            *empty_turns = 0;
        e->jobs += taken;
        if (!qp->in_tx_list) /* its answer was all that it had */
            continue;
        qp->quantum_used = (uint8_t)(qp->quantum_used + taken);
        if ((kind & TURN_CLASSES) && share_set_class(e, qp)) /* by its next datagram */
            continue;
        if (qp->quantum_used >= TX_QUANTUM)
            next_turn(s, qp);
    }
    if (!alone)
        share_pass_on(s);
}

/* A program of the class that is next, and no more packets than a queue pair has in a turn: then
 * the class may be another one. */
static void fill_class(struct engine *e, struct frame *frames, unsigned n, unsigned *empty_turns)
{
    struct share *s = share_next(e);
    unsigned first = e->jobs;
    uint64_t bytes = 0;

    if (!s) {
        tx_ceiling_wait(e);
        *empty_turns = 0;
        return;
    }
    n = min_of(n, first + TX_QUANTUM);
    fill_from(e, s, TURN_CLASSES | (e->charge_faults ? TURN_FAULTS : 0), frames, n, empty_turns);
    for (unsigned i = first; i < e->jobs; i++)
        bytes += tx_job_bytes(e, &frames[i], i);
    share_class_sent(e, bytes);
}

/* The next turn of those that compete. Not in the way of the instructions of one that is alone.
 * Returns what is left of empty_turns. */
static __attribute__((noinline)) unsigned fill_in_turn(struct engine *e, struct frame *frames,
                                                       unsigned n, unsigned empty_turns)
{
    if (unlikely(e->cfg.classes.count))
        fill_class(e, frames, n, &empty_turns);
    else if (likely(!e->charge_faults))
        fill_from(e, share_next(e), 0, frames, n, &empty_turns);
    else
        fill_from(e, share_next(e), TURN_FAULTS, frames, n, &empty_turns);
    return empty_turns;
}

static void fill_jobs(struct engine *e, struct frame *frames, unsigned n)
{
    unsigned empty_turns = TX_EMPTY_TURNS;

    e->jobs = e->sealed = 0;
    while (e->jobs < n && e->ready_qps && empty_turns) {
        if (likely(e->sole))
            fill_from(e, e->sole, TURN_ALONE, frames, n, &empty_turns);
        else
            empty_turns = fill_in_turn(e, frames, n, empty_turns);
    }
}

/* The payload could not be read: the message ends here, and so does what was built behind it. */
static void tx_failed(struct engine *e, struct tx_job *job)
{
    struct qp *qp = job->qp;

    if (job->failed == JOB_LATE &&
        qp->fault == FAULT_SUSPENDED) /* and what was behind it: they are sent again later */
        return;
    if (job->is_reply) {
        if (!qp->fault) {
            count_failed(e, qp, QP_COUNT_PEER_READ);
            why_copy_fault(e, qp, WHY_REMOTE_SOURCE, (unsigned)(job - e->tx_job));
        }
        resp_fault(e, qp, FAULT_MEMORY, job->psn);
    } else
        slot_at(&qp->req, job->slot)->status = WC_LOC_PROT_ERR;
    engine_touch(e, qp);
}

/* A packet behind one of the same queue pair that failed. */
static bool behind_failed(const struct engine *e, unsigned i)
{
    for (unsigned k = e->sealed; k < i; k++)
        if (e->tx_job[k].failed && e->tx_job[k].qp == e->tx_job[i].qp)
            return true;
    return false;
}

/* Gets the payloads that the others wait for. Returns how many frames are to be sent. */
static unsigned seal_rest(struct engine *e, struct frame *frames)
{
    unsigned out = e->sealed;
    bool any_failed = false;

    sg_flush_in(e);
    for (unsigned i = e->sealed; i < e->jobs; i++) {
        struct tx_job *job = &e->tx_job[i];

        if (job->failed) {
            any_failed = true;
            tx_failed(e, job);
        }
        if (job->failed)
            continue;
        if (any_failed && behind_failed(e, i)) {
            late_note_unsent(job);
            continue;
        }
        tx_seal(e, job);
        if (job->is_reply)
            resp_reply_sealed(e, job);
        if (out != i) {
            struct frame lent = frames[out];

            frames[out] = frames[i];
            frames[i] = lent;
        }
        out++;
    }
    return out;
}

static void begin_faults(struct engine *e)
{
    if (likely(!e->charge_faults))
        return;
    fault_cost(e);
    e->faults_spent = 0;
}

unsigned engine_tx(struct engine *e, struct frame *frames, unsigned n, ns_t now)
{
    unsigned out;

    e->now = now;
    n = min_of(n, (unsigned)FRAME_BURST);
    if (unlikely(e->cfg.ceiling) && e->ready_qps)
        n = tx_ceiling_admit(e, n);
    begin_faults(e);
    fill_jobs(e, frames, n);
    invariant(e->sealed <= e->jobs && e->jobs <= n);
    out = e->sealed == e->jobs ? e->jobs : seal_rest(e, frames);
    if (unlikely(e->cfg.ceiling))
        tx_ceiling_charge(e, frames, out);
    if (unlikely(e->stores_used)) /* READs may wait for those that were answered */
        resp_execute_kept(e);
    engine_complete(e);
    return out;
}

bool engine_qp_owes_answer(const struct engine *e, const struct qp *qp)
{
    return qp_owner_engine(qp) == e && tx_allowed_responses(qp);
}

unsigned engine_tx_answers(struct engine *e, struct qp *qp, struct frame *frames, unsigned n,
                           ns_t now)
{
    e->now = now;
    e->jobs = e->sealed = 0;
    if (qp_owner_engine(qp) != e)
        return 0;
    while (e->jobs < n && tx_take_answer(e, qp, &frames[e->jobs]))
        e->jobs++;
    engine_complete(e);
    return e->jobs;
}
