/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules between a host and its port. See site_inject.h. */
#include "site_inject.h"

#include <stdlib.h>
#include <string.h>

/* Frames that wait in a direction; of a port of 100 Gb/s those of 350 us. */
#define HELD_MAX 1024u

/* A copy of a frame. */
struct held {
    struct inject_wait wait;
    struct fabric_frame *frame;
};

struct way {
    struct site_inject *si;
    enum inject_direction direction;
    struct held held[HELD_MAX]; /* in the order of their arrival */
    unsigned n;
    uint64_t passed; /* packets so far */
};

struct site_inject {
    struct fabric *fabric;
    const struct site_inject_ops *ops;
    void *host;
    struct inject_live *rule[INJECT_RULES_MAX];
    unsigned rules;
    struct way rx, tx;
};

/* ---- frames that wait ---- */

static struct fabric_frame *take(struct way *w, unsigned i)
{
    struct fabric_frame *frame = w->held[i].frame;

    w->n--;
    memmove(&w->held[i], &w->held[i + 1], (w->n - i) * sizeof(w->held[0]));
    return frame;
}

/* Lets those go on that may. They do not count as passed: none of them lets another one go. */
static void release(struct way *w)
{
    struct site_inject *si = w->si;
    ns_t now = fabric_now(si->fabric);
    unsigned i = 0;

    while (i < w->n) {
        if (inject_wait_is_over(&w->held[i].wait, now, w->passed))
            si->ops->pass(si->host, w->direction, take(w, i));
        else
            i++;
    }
}

static void wait_ends(void *object, uint64_t value)
{
    struct way *w = object;

    release(w);
    w->si->ops->released(w->si->host);
}

static bool hold(struct way *w, const struct fabric_frame *frame, struct inject_wait wait)
{
    struct fabric *f = w->si->fabric;
    struct fabric_frame *copy = w->n < HELD_MAX ? fabric_frame_get(f) : NULL;

    if (!copy)
        return false;
    memcpy(copy->data, frame->data, frame->len);
    copy->len = frame->len;
    copy->icrc_omitted = frame->icrc_omitted;
    w->held[w->n++] = (struct held){wait, copy};
    if (wait.due > fabric_now(f))
        fabric_at(f, wait.due, wait_ends, w, 0);
    return true;
}

static void lose_held(struct way *w)
{
    while (w->n)
        fabric_frame_free(w->si->fabric, take(w, w->n - 1));
}

/* Frames that wait were on their way. */
static void link_goes_down(void *object, uint64_t value)
{
    struct site_inject *si = object;

    lose_held(&si->rx);
    lose_held(&si->tx);
}

/* ---- rules ---- */

/* A frame that is at the rules. */
struct passing {
    struct way *way;
    struct fabric_frame *frame;
};

static bool act(void *passing, const struct inject_live *live, uint64_t index)
{
    const struct passing *g = passing;
    struct fabric_frame *frame = g->frame;
    struct way *w = g->way;
    struct frame f = {.data = frame->data, .len = frame->len, .icrc_omitted = frame->icrc_omitted};
    bool done;

    if (inject_waits(live->rule.act))
        return hold(w, frame, inject_wait_of(&live->rule, fabric_now(w->si->fabric), w->passed));
    done = inject_change(&live->rule, index, &f);
    frame->icrc_omitted = f.icrc_omitted;
    return done;
}

void site_inject_frame(struct site_inject *si, enum inject_direction direction,
                       struct fabric_frame *frame)
{
    struct way *w = direction == INJECT_RX ? &si->rx : &si->tx;
    struct frame f = {.data = frame->data, .len = frame->len, .icrc_omitted = frame->icrc_omitted};
    struct inject_packet p = {.direction = direction};
    const struct inject_packet *roce = inject_read(&p, &f) ? &p : NULL;
    struct passing passing = {w, frame};

    switch (inject_apply(si->rule, si->rules, roce, fabric_now(si->fabric), act, &passing)) {
    case INJECT_NOTHING:
        w->passed++;
        si->ops->pass(si->host, direction, frame);
        break;
    case INJECT_DROP:
        si->ops->drop(si->host, direction, frame, p.dest_qpn);
        break;
    default: /* a copy of it waits */
        fabric_frame_free(si->fabric, frame);
        break;
    }
    release(w);
}

/* ---- its life ---- */

struct site_inject *site_inject_create(struct fabric *fabric, const struct site_inject_ops *ops,
                                       void *host, struct inject_live *const *rule, unsigned n)
{
    struct site_inject *si = calloc(1, sizeof(*si));

    if (!si)
        return NULL;
    si->fabric = fabric;
    si->ops = ops;
    si->host = host;
    si->rules = n;
    si->rx.si = si->tx.si = si;
    si->rx.direction = INJECT_RX;
    si->tx.direction = INJECT_TX;
    for (unsigned i = 0; i < n; i++) {
        si->rule[i] = rule[i];
        if (rule[i]->rule.act == INJECT_LINK_DOWN)
            fabric_at(fabric, rule[i]->rule.after, link_goes_down, si, 0);
    }
    return si;
}

void site_inject_free(struct site_inject *si)
{
    if (!si)
        return;
    link_goes_down(si, 0);
    free(si);
}
