/* SPDX-License-Identifier: BSD-3-Clause */
/* See alias.h. */
#include "objects/alias.h"

#include "control/session_state.h"

void alias_end(struct alias *a)
{
    if (a->of)
        a->of->refs--;
    a->of = NULL;
}

static void sweep_session(struct session *sn, enum object_kind kind,
                          void (*end_unused)(struct object *o))
{
    struct object *o, *next;

    for (o = TAILQ_FIRST(&sn->objects[kind]); o; o = next) {
        next = TAILQ_NEXT(o, link);
        end_unused(o);
    }
}

void aliases_sweep(struct session *sn, enum object_kind kind, void (*end_unused)(struct object *o))
{
    struct session *s;

    if (!sn->joiners)
        return;
    TAILQ_FOREACH (s, &sn->rnic->sessions, link)
        if (s->joined == sn)
            sweep_session(s, kind, end_unused);
}
