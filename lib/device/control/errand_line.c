/* SPDX-License-Identifier: BSD-3-Clause */
/* See errand_line.h. */
#include "control/errand_line.h"

#include <stdlib.h>

#include "control/errand.h"

struct errand_user {
    LIST_ENTRY(errand_user) link;
    uid_t uid;
    unsigned pending, running, clients;
};

/* A process with errands that have not ended. */
struct errand_client {
    LIST_ENTRY(errand_client) link;
    TAILQ_ENTRY(errand_client) turn; /* while is_ready */
    pid_t pid;
    struct errand_user *user;
    struct errand_queue waiting;
    unsigned pending, running;
    bool is_ready; /* has an errand in line, and a thread for it */
};

static struct errand_user *find_user(const struct errand_lines *ls, uid_t uid)
{
    struct errand_user *u;

    LIST_FOREACH(u, &ls->users, link)
    if (u->uid == uid)
        return u;
    return NULL;
}

static struct errand_user *add_user(struct errand_lines *ls, uid_t uid)
{
    struct errand_user *u = calloc(1, sizeof(*u));

    if (!u)
        return NULL;
    u->uid = uid;
    LIST_INSERT_HEAD(&ls->users, u, link);
    return u;
}

static void drop_user(struct errand_user *u)
{
    if (u->clients)
        return;
    LIST_REMOVE(u, link);
    free(u);
}

static struct errand_client *find_client(struct errand_lines *ls, const struct ucred *peer)
{
    struct errand_client *c;
    struct errand_user *u;

    LIST_FOREACH(c, &ls->clients, link)
    if (c->pid == peer->pid && c->user->uid == peer->uid)
        return c;
    u = find_user(ls, peer->uid);
    if (!u)
        u = add_user(ls, peer->uid);
    c = u ? calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        if (u)
            drop_user(u);
        return NULL;
    }
    c->pid = peer->pid;
    c->user = u;
    u->clients++;
    STAILQ_INIT(&c->waiting);
    LIST_INSERT_HEAD(&ls->clients, c, link);
    return c;
}

static void update_ready(struct errand_lines *ls, struct errand_client *c)
{
    bool ready = !STAILQ_EMPTY(&c->waiting) && c->running < ERRAND_CLIENT_THREADS &&
                 c->user->running < ERRAND_USER_THREADS;

    if (ready == c->is_ready)
        return;
    c->is_ready = ready;
    if (ready)
        TAILQ_INSERT_TAIL(&ls->ready, c, turn);
    else
        TAILQ_REMOVE(&ls->ready, c, turn);
}

/* The user's number of threads has reached its limit, or falls below it. */
static void update_user(struct errand_lines *ls, const struct errand_user *u)
{
    struct errand_client *c;

    LIST_FOREACH(c, &ls->clients, link)
    if (c->user == u)
        update_ready(ls, c);
}

struct errand *errand_lines_take(struct errand_lines *ls)
{
    struct errand_client *c = TAILQ_FIRST(&ls->ready);
    struct errand *e = STAILQ_FIRST(&c->waiting);

    STAILQ_REMOVE_HEAD(&c->waiting, link);
    TAILQ_REMOVE(&ls->ready, c, turn); /* to the end of the line */
    c->is_ready = false;
    c->running++;
    if (++c->user->running == ERRAND_USER_THREADS)
        update_user(ls, c->user);
    update_ready(ls, c);
    return e;
}

void errand_lines_end(struct errand_lines *ls, struct errand_client *c)
{
    struct errand_user *u = c->user;

    c->running--;
    u->pending--;
    if (!--c->pending) {
        LIST_REMOVE(c, link);
        free(c);
        u->clients--;
    } else {
        update_ready(ls, c);
    }
    if (u->running-- == ERRAND_USER_THREADS)
        update_user(ls, u);
    drop_user(u);
}

struct ucred errand_client_peer(const struct errand_client *c)
{
    return (struct ucred){.pid = c->pid, .uid = c->user->uid};
}

void errand_lines_init(struct errand_lines *ls)
{
    LIST_INIT(&ls->users);
    LIST_INIT(&ls->clients);
    TAILQ_INIT(&ls->ready);
}

bool errand_lines_add(struct errand_lines *ls, const struct ucred *peer, struct errand *e)
{
    struct errand_client *c = find_client(ls, peer);

    if (!c)
        return false;
    e->client = c;
    STAILQ_INSERT_TAIL(&c->waiting, e, link);
    c->pending++;
    c->user->pending++;
    update_ready(ls, c);
    return true;
}

unsigned errand_lines_pending(const struct errand_lines *ls, uid_t uid)
{
    const struct errand_user *u = find_user(ls, uid);

    return u ? u->pending : 0;
}
