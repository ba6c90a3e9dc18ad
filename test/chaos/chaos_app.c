/* SPDX-License-Identifier: BSD-3-Clause */
/* An application: flows start and end, some of them in the middle of their traffic, some with their
 * program. */
#include "chaos.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tally tally;
_Atomic bool closing_time;

/* Ways in which flows end before their last message. */
enum cut { CUT_DESTROY, CUT_TARGET, CUT_ERROR, CUT_PROGRAM, CUTS };

static void create(void *arg)
{
    flow_open(arg);
}

static void destroy(void *arg)
{
    flow_close(arg);
}

static void error(void *arg)
{
    flow_error(arg);
}

static void close_target(void *arg)
{
    flow_close_target(arg);
}

static void open_program(void *arg)
{
    program_open(arg);
}

static void close_program(void *arg)
{
    program_close(arg);
}

/* ---- completions ---- */

static void deliver(struct app *a, struct program *p, const struct cqe *e)
{
    for (struct flow *f = a->flow; f < a->flow + FLOWS; f++) {
        for (unsigned end = 0; end < 2 && !f->gone; end++) {
            if (f->end[end] == p && f->qp[end].layout.qpn == e->qpn) {
                flow_completion(f, end, e);
                return;
            }
        }
    }
    require(!"a completion of a queue pair that is known");
}

static bool poll_program(struct app *a, struct program *p)
{
    const struct cqe *e;
    bool any = false;

    for (; (e = cq_reader_peek(&p->cq.reader)); any = true) {
        deliver(a, p, e);
        cq_reader_advance(&p->cq.reader);
    }
    program_fill_srq(p);
    return any;
}

static bool poll_all(struct app *a)
{
    bool any = false;

    for (unsigned i = 0; i < PROGRAMS; i++)
        if (a->program[i].session)
            any |= poll_program(a, &a->program[i]);
    return any;
}

/* Whether no completion may come any more, because datagrams were lost. */
static bool may_be_lost(const struct app *a)
{
    for (unsigned i = 0; i < FLOWS; i++)
        if (!a->flow[i].gone && a->flow[i].kind >= FLOW_UC)
            return true;
    return false;
}

/* Sleeps until there are completions or the application is ended; a lost event fails the test. */
static void wait_for_something(struct app *a)
{
    struct pollfd p[PROGRAMS + 1] = {{.fd = a->wake, .events = POLLIN}};
    uint64_t cookie;
    int n;

    for (unsigned i = 0; i < PROGRAMS; i++) {
        p[i + 1] = (struct pollfd){.fd = a->program[i].cq.channel, .events = POLLIN};
        cq_arm(&a->program[i].cq);
    }
    if (poll_all(a))
        return;
    n = poll(p, PROGRAMS + 1, may_be_lost(a) ? 100 : (int)(TIMEOUT / NS_PER_MS));
    require(n > 0 || may_be_lost(a));
    for (unsigned i = 1; i <= PROGRAMS; i++)
        while (recv(p[i].fd, &cookie, sizeof(cookie), MSG_DONTWAIT) > 0)
            ;
}

/* ---- flows ---- */

static void begin(struct app *a, unsigned slot)
{
    struct flow *f = &a->flow[slot];
    struct random *r = &a->random;

    *f = (struct flow){.app = a,
                       .number = (unsigned)atomic_fetch_add(&tally.flows, 1),
                       .slot = slot,
                       .kind = random_below(r, FLOW_KINDS),
                       .path_mtu = 1 + random_below(r, 5),
                       .cut_at = random_below(r, 3) ? MESSAGES + 1 : random_below(r, MESSAGES)};
    for (unsigned i = 0; i < 2; i++) {
        f->end[i] = &a->program[random_below(r, PROGRAMS)];
        f->memory[i] = &f->end[i]->memory->flow[slot];
    }
    flow_plan(f, r);
    control_ask(create, f);
    flow_begin(f);
    atomic_fetch_add(&a->begun[slot], 1);
}

/* Its remaining completions are read, and no other part uses its memory any more. */
static void bury(struct app *a, struct flow *f)
{
    control_ask(destroy, f);
    poll_all(a);
    f->gone = true;
    for (unsigned i = 0; i < 2; i++)
        if (f->end[i]->session)
            memset(f->memory[i], NOT_WRITTEN, sizeof(*f->memory[i]));
}

static void finish(struct app *a, struct flow *f)
{
    atomic_fetch_add(&tally.finished[f->kind], 1);
    atomic_fetch_add(&tally.messages, MESSAGES);
    f->ending = true;
    bury(a, f);
}

/* Its remaining requests are flushed, and the shared queue gets back the receive WQE that
 * it held. */
static void fail(struct app *a, struct flow *f)
{
    f->ending = true;
    control_ask(error, f);
    poll_all(a);
    for (unsigned i = 0; i < 2; i++)
        if (f->end[i]->session)
            flow_check_end(f, i);
}

/* No peer can access the target once the reply has arrived. */
static void take_target(struct app *a, struct flow *f)
{
    struct flow_memory *there = f->memory[1];
    const uint8_t *target = (const uint8_t *)there->target;

    control_ask(close_target, f);
    memset(there->target, NOT_WRITTEN, sizeof(there->target));
    there->word = 0;
    poll_all(a);
    fail(a, f);
    for (unsigned i = 0; i < sizeof(there->target); i++)
        require(target[i] == NOT_WRITTEN);
    require(!there->word);
}

/* A program ends, and with it one or both ends of some flows. */
static void end_program(struct app *a)
{
    struct program *p = &a->program[1];
    struct flow *f;

    for (f = a->flow; f < a->flow + FLOWS; f++)
        f->ending |= f->end[0] == p || f->end[1] == p;
    control_ask(close_program, p);
    for (f = a->flow; f < a->flow + FLOWS; f++) {
        if (f->gone || !f->ending)
            continue;
        atomic_fetch_add(&tally.cut[f->kind], 1);
        fail(a, f);
        bury(a, f);
    }
    control_ask(open_program, p);
}

static void cut(struct app *a, struct flow *f)
{
    enum cut how = random_below(&a->random, CUTS);

    if (how == CUT_PROGRAM) {
        end_program(a);
        return;
    }
    atomic_fetch_add(&tally.cut[f->kind], 1);
    f->ending = true;
    if (how == CUT_TARGET && f->target.handle)
        take_target(a, f);
    else if (how == CUT_ERROR || f->kind == FLOW_RC_SRQ)
        fail(a, f);
    bury(a, f);
}

/* Whether there was any work. */
static bool attend(struct app *a, unsigned slot)
{
    struct flow *f = &a->flow[slot];

    if (f->gone) {
        if (atomic_load(&closing_time))
            return false;
        begin(a, slot);
    } else if (flow_is_done(f)) {
        finish(a, f);
    } else if (f->posted >= f->cut_at) {
        cut(a, f);
    } else {
        return flow_post(f);
    }
    return true;
}

static bool is_idle(const struct app *a)
{
    for (unsigned i = 0; i < FLOWS; i++)
        if (!a->flow[i].gone)
            return false;
    return true;
}

/* All WQEs of a shared queue without users were given back. */
static void check_pool(struct program *p)
{
    struct srq_shared *shared = (struct srq_shared *)p->srq_segment;

    require(p->spares + (p->srq_posted - atomic_load(&shared->taken)) == POOL);
}

static void live(struct app *a)
{
    while (!atomic_load(&a->killed) && !(atomic_load(&closing_time) && is_idle(a))) {
        bool any = false;

        for (unsigned i = 0; i < FLOWS; i++)
            any |= attend(a, i);
        if (!any && !a->lazy)
            a->lazy = random_below(&a->random, 8) ? 0 : random_below(&a->random, 400);
        if (a->lazy) {
            a->lazy--;
            sched_yield();
        } else if (!poll_all(a) && !any) {
            wait_for_something(a);
        }
    }
}

void *app_run(void *arg)
{
    struct app *a = arg;

    for (unsigned i = 0; i < FLOWS; i++)
        a->flow[i].gone = true;
    for (unsigned i = 0; i < PROGRAMS; i++)
        control_ask(open_program, &a->program[i]);
    live(a);
    for (unsigned i = 0; i < PROGRAMS && !atomic_load(&a->killed); i++) {
        check_pool(&a->program[i]);
        control_ask(close_program, &a->program[i]);
    }
    atomic_store(&a->ended, true);
    return NULL;
}
