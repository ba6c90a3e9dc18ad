/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Users of the host: what one of them has of what all share. That is port numbers of the range that
 * is given, and ids that linger, which are no longer the host's. A user exists as long as it has an
 * id of either kind.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm_state.h"

static struct cm_user *find_user(struct cm *cm, uint32_t number)
{
    struct cm_user *u;

    LIST_FOREACH(u, &cm->users, link)
    if (u->number == number)
        return u;
    u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->number = number;
    TAILQ_INIT(&u->lingering);
    LIST_INSERT_HEAD(&cm->users, u, link);
    return u;
}

void cm_user_hold(struct cm_user *u)
{
    if (u)
        u->ids++;
}

void cm_user_release(struct cm_user *u)
{
    if (!u || --u->ids)
        return;
    LIST_REMOVE(u, link);
    free(u);
}

int cm_id_set_user(struct cm_id *id, uint32_t user, const struct cm_user_limits *limits)
{
    struct cm_user *u;

    if (id->user || id->row || id->state != CM_IDLE)
        return -EINVAL;
    u = find_user(id->cm, user);
    if (!u)
        return -ENOMEM;
    u->limits = *limits;
    cm_user_join(id, u);
    return 0;
}

void cm_user_join(struct cm_id *id, struct cm_user *u)
{
    id->user = u;
    cm_user_hold(u);
}

void cm_user_leave(struct cm_id *id)
{
    cm_user_release(id->user);
    id->user = NULL;
}

/* ---- ids that linger ---- */

void cm_linger_begin(struct cm_id *id)
{
    id->lingers = true;
    TAILQ_INSERT_TAIL(&id->cm->lingering, id, lingering);
    if (!id->user)
        return;
    TAILQ_INSERT_TAIL(&id->user->lingering, id, users_lingering);
    id->user->lingerers++;
}

void cm_linger_end(struct cm_id *id)
{
    if (!id->lingers)
        return;
    TAILQ_REMOVE(&id->cm->lingering, id, lingering);
    if (!id->user)
        return;
    TAILQ_REMOVE(&id->user->lingering, id, users_lingering);
    id->user->lingerers--;
}

struct cm_id *cm_linger_excess(const struct cm_user *u)
{
    if (!u || !u->limits.lingering || u->lingerers <= u->limits.lingering)
        return NULL;
    return TAILQ_FIRST(&u->lingering);
}

/* ---- port numbers ---- */

bool cm_user_may_take(struct cm_user *u)
{
    return !u || !u->limits.numbers || u->numbers < u->limits.numbers;
}

static struct cm_share *find_share(struct cm_share_list *shares, const struct cm_user *u)
{
    struct cm_share *s;

    LIST_FOREACH(s, shares, link)
    if (s->user == u)
        return s;
    return NULL;
}

bool cm_share_exists(struct cm_share_list *shares, const struct cm_user *u)
{
    return find_share(shares, u) != NULL;
}

int cm_share_add(struct cm_share_list *shares, struct cm_user *u, bool counts)
{
    struct cm_share *s = u ? find_share(shares, u) : NULL;

    if (!u)
        return 0;
    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s)
            return -ENOMEM;
        s->user = u;
        s->counts = counts;
        u->numbers += counts;
        LIST_INSERT_HEAD(shares, s, link);
    }
    s->ids++;
    return 0;
}

void cm_share_remove(struct cm_share_list *shares, struct cm_user *u)
{
    struct cm_share *s = u ? find_share(shares, u) : NULL;

    if (!s || --s->ids)
        return;
    u->numbers -= s->counts;
    LIST_REMOVE(s, link);
    free(s);
}
