/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contexts of applications that a worker serves: their doorbells, and at which of them it
 * looks.
 *
 * Each pass serves hot contexts: HOT_MAX of them, in turn, as there is only one burst of packets in
 * a pass. Where there are more, those that have rung no doorbell for HOT_TIME become cold. A cold
 * one's wake-up stays armed: its application writes the eventfd as if the worker slept. That ends
 * the worker's sleep; while it is awake, it asks the kernel now and then which eventfds were
 * written, so that a thousand silent applications cost no more than one. An application may end
 * between its doorbell and its write: now and then the worker looks at all.
 */
#include "worker_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

#define HOT_MAX    64u
#define LOOKS_MAX  256u /* at hot ones in a pass: most have no doorbell */
#define LOOK_AHEAD 8u   /* fewer than half of HOT_MAX */
#define HOT_TIME   (10 * NS_PER_MS)
#define LOOK_TIME  (100 * NS_PER_MS)

/* Between two questions to the kernel: of a worker that has work, and of one that has none. */
#define ASK_BUSY (50 * NS_PER_US)
#define ASK_IDLE (5 * NS_PER_US)

/* ---- doorbells ---- */

/* The queue pair may have moved since the application looked up its worker. That worker is told by
 * a flag: the context's eventfd is the application's, too, and could make a write wait for ever. */
static void forward_doorbell(struct worker *w, const struct worker_ctx *ctx, uint32_t slot,
                             struct worker *to)
{
    counter_inc(&w->stats.doorbells_forwarded);
    if (doorbell_ring(&ctx->shared->worker[to->index], slot))
        atomic_store(&to->bells_forwarded, true);
    worker_kick(to);
}

/* One that was taken. */
struct rung {
    struct worker_ctx *ctx;
    uint32_t slot;
};

/* What the queue pairs of many doorbells need is fetched into the cache. */
static __attribute__((noinline)) void fetch_rung(const struct rung *r, unsigned n)
{
    struct dp_qp *dq[DOORBELLS_MAX];

    for (unsigned i = 0; i < n; i++)
        line_fetch(dp_slots_place(r[i].ctx->slots, r[i].slot));
    for (unsigned i = 0; i < n; i++) {
        dq[i] = dp_slots_get(r[i].ctx->slots, r[i].slot);
        line_fetch(dq[i]);
    }
    for (unsigned i = 0; i < n; i++)
        if (dq[i])
            engine_fetch_qp(dq[i]->qp);
}

#define FETCH_FROM 4

/* The application chooses the slots: those without a queue pair are ignored. */
static void serve_rung(struct worker *w, const struct rung *r, unsigned n, ns_t now)
{
    if (n >= FETCH_FROM)
        fetch_rung(r, n);
    for (unsigned i = 0; i < n; i++) {
        struct dp_qp *dq = dp_slots_get(r[i].ctx->slots, r[i].slot);
        struct worker_port *p;

        if (!dq)
            continue;
        p = atomic_load_explicit(&dq->port, memory_order_acquire);
        if (p->worker == w)
            engine_doorbell(p->engine, dq->qp, now);
        else
            forward_doorbell(w, r[i].ctx, r[i].slot, p->worker);
    }
}

/* Into r, with room for max. Returns how many. */
static unsigned take_doorbells(struct worker_ctx *ctx, struct rung *r, unsigned max)
{
    uint32_t slot[DOORBELLS_MAX];
    unsigned n = doorbell_take(ctx->doorbells, slot, max);

    /* Without a doorbell it has looked at as many words. */
    worker_charge(ctx, (n ? n : max) * COST_TURN);
    for (unsigned i = 0; i < n; i++)
        r[i] = (struct rung){ctx, slot[i]};
    return n;
}

enum served {
    SERVED_NONE,
    SERVED_LATER, /* others have work: the worker does not sleep */
    SERVED_NOW,
};

/* Whether its doorbells are to be taken now. */
ALWAYS_INLINE enum served look_at(struct worker_ctx *ctx, ns_t now)
{
    if (!doorbell_pending(ctx->doorbells))
        return SERVED_NONE;
    ctx->rung = now;
    return ctx->share && share_must_wait(ctx->share) ? SERVED_LATER : SERVED_NOW;
}

ALWAYS_INLINE enum served serve_doorbells(struct worker *w, struct worker_ctx *ctx, ns_t now)
{
    enum served what = look_at(ctx, now);
    struct rung r[DOORBELLS_MAX];

    if (what == SERVED_NOW)
        serve_rung(w, r, take_doorbells(ctx, r, DOORBELLS_MAX), now);
    return what;
}

/* ---- hot and cold ---- */

static void put(struct worker *w, unsigned i, struct worker_ctx *ctx)
{
    w->ctx[i] = ctx;
    ctx->place = i;
}

static void swap(struct worker *w, unsigned i, unsigned k)
{
    struct worker_ctx *ctx = w->ctx[i];

    put(w, i, w->ctx[k]);
    put(w, k, ctx);
}

static void heat(struct worker *w, struct worker_ctx *ctx)
{
    swap(w, ctx->place, w->hot++);
    atomic_store_explicit(&ctx->doorbells->worker_armed, 0, memory_order_relaxed);
}

/* Those whose eventfds were written. A descriptor may be another context's by now, which is looked
 * at in vain. One that has become hot is not armed: the worker does not sleep now. */
static bool serve_woken(struct worker *w, ns_t now)
{
    bool work = false;

    for (; w->woken; w->woken--) {
        int fd = w->woken_fd[w->woken - 1];
        struct worker_ctx *ctx = (unsigned)fd < w->fd_room ? w->by_fd[fd] : NULL;

        if (!ctx)
            continue;
        if (ctx->place >= w->hot) {
            heat(w, ctx);
            work = true;
        }
        if (serve_doorbells(w, ctx, now) != SERVED_NONE)
            work = true;
        else
            worker_charge(ctx, COST_TURN);
    }
    return work;
}

/* After as many answers as there is room for it asks again in the next pass. */
static bool serve_cold(struct worker *w, bool idle, ns_t now)
{
    bool woken = false;

    if (!w->woken && now - w->asked >= (idle && !w->always_poll ? ASK_IDLE : ASK_BUSY)) {
        woken = worker_was_woken(w); /* also by others: no reason to sleep */
        w->asked = w->woken < WAKES_MAX - 1 ? now : 0;
    }
    return serve_woken(w, now) || woken;
}

/* The doorbells of the contexts behind this one, and what says where they are, are fetched: many
 * contexts have left the cache since the last look. */
static void fetch_ahead(const struct worker *w, unsigned i)
{
    unsigned next = i + LOOK_AHEAD, behind = next + LOOK_AHEAD;

    line_fetch(w->ctx[behind < w->hot ? behind : behind - w->hot]);
    line_fetch(w->ctx[next < w->hot ? next : next - w->hot]->doorbells);
}

/* Takes the doorbells of those contexts, all of one before the next. */
static void serve_those(struct worker *w, struct worker_ctx *const *ctx, unsigned n, ns_t now)
{
    struct rung r[DOORBELLS_MAX];
    unsigned taken = 0;

    for (unsigned i = 0; i < n; i++) {
        taken += take_doorbells(ctx[i], r + taken, DOORBELLS_MAX - taken);
        if (i + 1 == n || taken > DOORBELLS_MAX / 2) {
            serve_rung(w, r, taken, now);
            taken = 0;
        }
    }
}

/* Some of many: HOT_MAX that have rung. */
static bool serve_some(struct worker *w, ns_t now)
{
    struct worker_ctx *rung[HOT_MAX];
    unsigned i = w->next_hot, n = 0;
    bool work = false;

    for (unsigned looks = min_of(w->hot, LOOKS_MAX); looks && n < HOT_MAX; looks--) {
        enum served what;

        if (i >= w->hot)
            i = 0;
        fetch_ahead(w, i);
        what = look_at(w->ctx[i], now);
        work |= what != SERVED_NONE;
        if (what == SERVED_NOW) {
            rung[n++] = w->ctx[i];
            line_fetch(w->ctx[i]->slots);
        }
        i++;
    }
    w->next_hot = i;
    serve_those(w, rung, n, now);
    return work;
}

static bool serve_hot(struct worker *w, ns_t now)
{
    bool work = false;

    if (unlikely(w->hot > HOT_MAX) && !w->look_at_all)
        return serve_some(w, now);
    w->look_at_all = false;
    for (unsigned i = 0; i < w->hot; i++)
        work |= serve_doorbells(w, w->ctx[i], now) != SERVED_NONE;
    return work;
}

/* Whether the worker has to look at the cold ones itself: other workers have rung doorbells, and do
 * not say for whom, or it is time. Before a sleep what was forwarded does not wait. */
static bool must_look(const struct worker *w, ns_t now)
{
    ns_t since = now - w->looked;

    return since >= LOOK_TIME || (atomic_load_explicit(&w->bells_forwarded, memory_order_relaxed) &&
                                  (w->look_at_all || since >= ASK_BUSY));
}

/* The other worker writes no eventfd for the wake-up that it took, perhaps after the doorbell was
 * served: the wake-up is armed again, before the look as in may_cool. */
static void look_at_cold(struct worker *w, ns_t now)
{
    atomic_store(&w->bells_forwarded, false);
    w->looked = now;
    for (unsigned i = w->hot; i < w->contexts; i++) {
        struct doorbells *db = w->ctx[i]->doorbells;

        if (!atomic_load(&db->worker_armed))
            atomic_store(&db->worker_armed, 1);
        if (doorbell_pending(db))
            heat(w, w->ctx[i]);
    }
    w->look_at_all = true;
}

bool worker_serve_contexts(struct worker *w, bool idle, ns_t now)
{
    bool work;

    if (unlikely(must_look(w, now)))
        look_at_cold(w, now);
    work = serve_hot(w, now);
    if (unlikely(w->hot < w->contexts))
        work |= serve_cold(w, idle && !work, now);
    else
        w->woken = 0;
    return work;
}

/* Arms the wake-up. False: a doorbell was rung before. */
static bool may_cool(struct worker_ctx *ctx)
{
    atomic_store(&ctx->doorbells->worker_armed, 1);
    if (likely(!doorbell_pending(ctx->doorbells))) /* in one order with the store: doorbell.h */
        return true;
    atomic_store_explicit(&ctx->doorbells->worker_armed, 0, memory_order_relaxed);
    return false;
}

void worker_cool_contexts(struct worker *w, ns_t now)
{
    for (unsigned i = w->hot; i-- && w->hot > HOT_MAX;) {
        struct worker_ctx *ctx = w->ctx[i];

        /* One that has just come has rung later than this pass began. */
        if (now > ctx->rung && now - ctx->rung >= HOT_TIME && may_cool(ctx))
            swap(w, i, --w->hot);
    }
    while (w->hot < min_of(w->contexts, HOT_MAX))
        heat(w, w->ctx[w->hot]);
}

void worker_arm_contexts(struct worker *w, uint32_t armed)
{
    w->look_at_all = true;
    for (unsigned i = 0; i < w->hot; i++)
        atomic_store_explicit(&w->ctx[i]->doorbells->worker_armed, armed, memory_order_relaxed);
}

/* ---- they come and go ---- */

struct ctx_change {
    struct worker_ctx *ctx;
    /* In: larger ones for the worker, or NULL; out: the old ones. */
    struct worker_ctx **array, **by_fd;
    unsigned room, fd_room;
};

static void replace(struct worker_ctx ***array, unsigned *room, struct worker_ctx ***by,
                    unsigned by_room)
{
    struct worker_ctx **old = *array;

    if (!*by)
        return;
    if (old)
        memcpy(*by, old, *room * sizeof(*old));
    *array = *by;
    *room = by_room;
    *by = old;
}

static void attach_ctx(struct worker *w, void *arg)
{
    struct ctx_change *c = arg;

    replace(&w->ctx, &w->ctx_room, &c->array, c->room);
    replace(&w->by_fd, &w->fd_room, &c->by_fd, c->fd_room);
    put(w, w->contexts, c->ctx);
    swap(w, w->contexts++, w->hot++);
    w->by_fd[c->ctx->wake_fd] = c->ctx;
    c->ctx->rung = worker_time();
    if (c->ctx->share)
        share_join(c->ctx->share);
    c->ctx->polls_seen = atomic_load(&c->ctx->shared->polls);
    atomic_store(&c->ctx->shared->spin_limit, w->policy.spin_limit);
    atomic_store(&c->ctx->shared->worker_cpu[w->index], w->cpu);
}

/* At least twice the room that there is. False: out of memory. */
static bool make_room(struct worker_ctx ***array, unsigned *room, unsigned now, unsigned needed)
{
    if (needed <= now)
        return true;
    *room = max_of(max_of(2 * now, 16u), needed);
    *array = calloc(*room, sizeof(**array));
    return *array;
}

int worker_ctx_attach(struct worker *w, struct worker_ctx *ctx)
{
    struct ctx_change c = {.ctx = ctx};
    int err = worker_wake_add(w, &ctx->wake_fd);

    if (err)
        return err;
    /* The control thread may read what only its calls change. */
    if (make_room(&c.array, &c.room, w->ctx_room, w->contexts + 1) &&
        make_room(&c.by_fd, &c.fd_room, w->fd_room, (unsigned)ctx->wake_fd + 1)) {
        worker_call(w, attach_ctx, &c);
    } else {
        worker_wake_remove(w, ctx->wake_fd);
        err = -ENOMEM;
    }
    free(c.array);
    free(c.by_fd);
    return err;
}

static void detach_ctx(struct worker *w, void *arg)
{
    struct worker_ctx *ctx = arg;

    if (ctx->place < w->hot)
        swap(w, ctx->place, --w->hot);
    swap(w, ctx->place, --w->contexts);
    w->by_fd[ctx->wake_fd] = NULL;
    if (ctx->share)
        share_leave(ctx->share);
}

void worker_ctx_detach(struct worker *w, struct worker_ctx *ctx)
{
    worker_call(w, detach_ctx, ctx);
    worker_wake_remove(w, ctx->wake_fd);
}
