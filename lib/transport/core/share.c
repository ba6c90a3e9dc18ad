/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares of an engine's time, see share.h. Each but the root is in a list of its parent from when
 * it gets work until its turn comes and it has none. Traffic classes: share_class.c.
 *
 * Most of the time one program alone has work: while engine.sole says so, no credit is kept. With
 * traffic classes it always is.
 */
#include "engine_private.h"
#include "invariant.h"

static struct engine *engine_of(struct share *s)
{
    while (s->parent)
        s = s->parent;
    return container_of(s, struct engine, shares);
}

static uint64_t grant(const struct share *s)
{
    return (uint64_t)s->weight * SHARE_QUANTUM;
}

/* Forgets what it spent too much, or too little. */
static void start_anew(struct share *s)
{
    s->granted = counter_get(&s->spent) + grant(s);
}

void share_pass_on(struct share *s)
{
    for (; s->parent; s = s->parent) {
        uint64_t spent = counter_get(&s->spent);

        counter_add(&s->parent->spent, spent - s->passed_on);
        s->passed_on = spent;
    }
}

/* From now on the program that was alone has credit like others. */
static void end_sole(struct engine *e)
{
    if (!e->sole)
        return;
    share_pass_on(e->sole);
    for (struct share *s = e->sole; s->parent; s = s->parent)
        start_anew(s);
    e->sole = NULL;
}

void share_keep_credit(struct engine *e)
{
    end_sole(e);
}

/* ---- lists ---- */

static void unlist(struct share *s)
{
    TAILQ_REMOVE(s->listed, s, link);
    s->listed = NULL;
}

/* To the end of the line. */
static void move(struct share *s)
{
    TAILQ_REMOVE(s->listed, s, link);
    s->listed = &s->parent->busy;
    TAILQ_INSERT_TAIL(s->listed, s, link);
}

void share_list_up(struct share *s)
{
    end_sole(engine_of(s));
    for (; s->parent && !s->listed; s = s->parent) {
        s->listed = &s->parent->sparse;
        TAILQ_INSERT_TAIL(s->listed, s, link);
    }
}

/* ---- the host's ---- */

void share_init_root(struct share *s)
{
    *s = (struct share){.weight = 1, .answers_first = TX_QUANTUM};
    TAILQ_INIT(&s->sparse);
    TAILQ_INIT(&s->busy);
    TAILQ_INIT(&s->qps);
}

/* What the users' shares in a class belong to. */
static struct share *class_root(struct engine *e, unsigned class)
{
    return e->cfg.classes.count ? &e->class[class].share : &e->shares;
}

void share_init_classes(struct engine *e)
{
    for (unsigned i = 0; i < e->cfg.classes.count; i++) {
        share_init_root(&e->class[i].share);
        e->class[i].share.parent = &e->shares;
        e->class[i].share.weight = 0; /* it is granted nothing, and owes nothing */
    }
}

void share_init(struct share *s, struct engine *e, struct share *parent, uint32_t weight)
{
    for (unsigned i = 0; i < share_count(&e->cfg.classes); i++) {
        share_init_root(&s[i]);
        s[i].parent = parent ? &parent[i] : class_root(e, i);
        s[i].weight = weight;
        start_anew(&s[i]);
    }
}

static void join(struct share *s)
{
    if (!s->members++ && s->parent)
        join(s->parent);
}

void share_join(struct share *s)
{
    unsigned n = share_count(&engine_of(s)->cfg.classes);

    for (unsigned i = 0; i < n; i++)
        join(&s[i]);
}

static void leave(struct engine *e, struct share *s)
{
    if (--s->members || !s->parent)
        return;
    invariant(TAILQ_EMPTY(&s->qps));
    end_sole(e);
    share_pass_on(s);
    if (s->listed)
        unlist(s);
    leave(e, s->parent);
}

void share_leave(struct share *s)
{
    struct engine *e = engine_of(s);

    for (unsigned i = 0; i < share_count(&e->cfg.classes); i++)
        leave(e, &s[i]);
}

void share_charge(struct share *s, uint64_t cost)
{
    counter_add(&s->spent, cost);
}

void share_charge_caused(struct share *s, uint64_t cost)
{
    int64_t owed = (int64_t)(counter_get(&s->spent) - s->granted);

    if (engine_of(s)->sole == s || owed < (int64_t)grant(s))
        share_charge(s, cost);
}

bool share_must_wait(struct share *s)
{
    struct engine *e = engine_of(s);
    struct share *owing = s;

    if (e->sole == s || (e->classes_paused & 1)) /* it has no turns while its class pauses */
        return false;
    share_pass_on(s);
    while (owing->parent && (share_has_credit(owing) || !owing->weight))
        owing = owing->parent;
    if (likely(!owing->parent))
        return false;
    if (!e->ready_qps) { /* no program competes */
        for (; s->parent; s = s->parent)
            start_anew(s);
        return false;
    }
    if (!s->listed)
        share_list_up(s);
    return true;
}

/* ---- turns ---- */

static bool has_work(const struct share *s)
{
    return !TAILQ_EMPTY(&s->qps) || !TAILQ_EMPTY(&s->sparse) || !TAILQ_EMPTY(&s->busy);
}

static struct share *first_of(const struct share *parent)
{
    struct share *s = TAILQ_FIRST(&parent->sparse);

    return s ? s : TAILQ_FIRST(&parent->busy);
}

/* s is the first of its parent's shares: whether it is the only one. */
static bool is_alone(const struct share *s)
{
    return !TAILQ_NEXT(s, link) && (s->listed == &s->parent->busy || TAILQ_EMPTY(&s->parent->busy));
}

/*
 * The next share of a parent: those without credit get a grant, and wait for their next turn. So
 * there is one grant in a round, and those that come first without having waited spend what is left
 * of their last. NULL: none has work.
 */
static struct share *next_of(struct share *parent)
{
    struct share *s;

    while ((s = first_of(parent))) {
        if (!share_has_credit(s)) {
            s->granted += grant(s);
            move(s);
        } else if (has_work(s)) {
            return s;
        } else {
            unlist(s);
        }
    }
    return NULL;
}

struct share *share_next(struct engine *e)
{
    struct share *s, *child;
    bool alone;

    do { /* a user whose programs have all left is the next to leave */
        alone = !e->cfg.classes.count;
        s = likely(alone) ? &e->shares : share_next_class(e);
        if (unlikely(!s))
            return NULL;
        for (; (child = next_of(s)) && TAILQ_EMPTY(&child->qps); s = child)
            alone &= is_alone(child);
    } while (!child);
    if (alone && is_alone(child) && !e->charge_faults)
        e->sole = child;
    return child;
}
