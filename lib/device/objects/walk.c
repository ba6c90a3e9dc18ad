/* SPDX-License-Identifier: BSD-3-Clause */
/* See walk.h. */
#include "objects/walk.h"

#include "control/session_state.h"

static void enter_session(struct walk *w, struct session *sn)
{
    w->sn = sn;
    w->next = sn && w->kind < OBJ_KINDS ? TAILQ_FIRST(&sn->objects[w->kind]) : NULL;
}

void walk_begin(struct walk *w, struct rnic *r, enum object_kind kind)
{
    w->kind = kind;
    LIST_INSERT_HEAD(&r->walks, w, link);
    enter_session(w, TAILQ_FIRST(&r->sessions));
}

void walk_end(struct walk *w)
{
    LIST_REMOVE(w, link);
}

struct object *walk_next(struct walk *w)
{
    struct object *o;

    while (w->sn && !w->next)
        enter_session(w, TAILQ_NEXT(w->sn, link));
    o = w->next;
    if (o)
        w->next = TAILQ_NEXT(o, link);
    return o;
}

struct session *walk_next_session(struct walk *w)
{
    struct session *sn = w->sn;

    if (sn)
        w->sn = TAILQ_NEXT(sn, link);
    return sn;
}

void walk_skip_session(struct walk *w)
{
    w->next = NULL;
}

void walks_pass_object(struct rnic *r, const struct object *o)
{
    struct walk *w;

    LIST_FOREACH(w, &r->walks, link)
    if (w->next == o)
        w->next = TAILQ_NEXT(o, link);
}

void walks_pass_session(struct rnic *r, const struct session *sn)
{
    struct walk *w;

    LIST_FOREACH(w, &r->walks, link)
    if (w->sn == sn)
        enter_session(w, TAILQ_NEXT(sn, link));
}
