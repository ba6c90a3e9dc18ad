/* SPDX-License-Identifier: BSD-3-Clause */
/* See program.h. */
#include "control/program.h"

#include <stdlib.h>

#include "control/device_state.h"
#include "lines.h"

struct program_user {
    LIST_ENTRY(program_user) link;
    uid_t uid;
    LIST_HEAD(, device_program) programs;
    struct share share[0]; /* as device_program's */
};

static uint32_t weight_of(const struct rnic_config *c, uid_t uid)
{
    for (unsigned i = 0; i < c->weights; i++)
        if (c->weight[i].uid == uid)
            return c->weight[i].weight;
    return 1;
}

/* Shares of all engines of the device. parent: as many, or NULL. */
static void init_shares(const struct device *d, struct share *s, struct share *parent,
                        uint32_t weight)
{
    for (unsigned i = 0; i < d->parts; i++) {
        unsigned at = worker_index(d->workers[i]) * share_count(&d->classes);

        share_init(&s[at], d->port[i]->engine, parent ? &parent[at] : NULL, weight);
    }
}

static size_t shares_bytes(const struct device *d)
{
    return d->rnic->workers * share_count(&d->classes) * sizeof(struct share);
}

static struct program_user *user_get(struct device *d, uid_t uid)
{
    struct program_user *u;

    LIST_FOREACH(u, &d->program_users, link)
    if (u->uid == uid)
        return u;
    u = lines_alloc(sizeof(*u) + shares_bytes(d));
    if (!u)
        return NULL;
    u->uid = uid;
    LIST_INIT(&u->programs);
    init_shares(d, u->share, NULL, weight_of(&d->rnic->config, uid));
    LIST_INSERT_HEAD(&d->program_users, u, link);
    return u;
}

/* It is kept while it has programs. */
static void user_put(struct program_user *u)
{
    if (!LIST_EMPTY(&u->programs))
        return;
    LIST_REMOVE(u, link);
    free(u);
}

struct device_program *program_get(struct device *d, const struct ucred *peer)
{
    struct program_user *u = user_get(d, peer->uid);
    struct device_program *p;

    if (!u)
        return NULL;
    LIST_FOREACH(p, &u->programs, link)
    if (p->pid == peer->pid)
        break;
    if (!p) {
        p = lines_alloc(sizeof(*p) + shares_bytes(d));
        if (!p) {
            user_put(u);
            return NULL;
        }
        p->user = u;
        p->pid = peer->pid;
        init_shares(d, p->share, u->share, 1);
        LIST_INSERT_HEAD(&u->programs, p, link);
    }
    p->refs++;
    return p;
}

void program_put(struct device_program *p)
{
    struct program_user *u = p->user;

    if (--p->refs)
        return;
    LIST_REMOVE(p, link);
    free(p);
    user_put(u);
}
