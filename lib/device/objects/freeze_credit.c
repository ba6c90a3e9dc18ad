/* SPDX-License-Identifier: BSD-3-Clause */
/* See freeze_credit.h. */
#include "objects/freeze_credit.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "control/device_state.h"

/* A user whose credit is not complete. It outlives the user's connections: a new one would
 * otherwise bring new credit. */
struct freeze_user {
    LIST_ENTRY(freeze_user) link;
    uid_t uid;
    int64_t credit; /* what there was; below 0: a debt */
    ns_t credited;  /* and when */
};

#define FULL ((int64_t)CREDIT_MAX)

static int64_t credit_now(const struct freeze_user *u, ns_t now)
{
    return min_of(u->credit + (int64_t)((now - u->credited) / CREDIT_RATE), FULL);
}

/* The user's record, up to date. NULL: out of memory. Records that are complete again are freed. */
static struct freeze_user *user_of(struct rnic *r, uid_t uid)
{
    ns_t now = r->config.clock();
    struct freeze_user *u, *next, *found = NULL;

    for (u = LIST_FIRST(&r->freeze_users); u; u = next) {
        next = LIST_NEXT(u, link);
        u->credit = credit_now(u, now);
        u->credited = now;
        if (u->uid == uid) {
            found = u;
        } else if (u->credit == FULL) {
            LIST_REMOVE(u, link);
            free(u);
        }
    }
    if (!found && (found = calloc(1, sizeof(*found)))) {
        *found = (struct freeze_user){.uid = uid, .credit = FULL, .credited = now};
        LIST_INSERT_HEAD(&r->freeze_users, found, link);
    }
    return found;
}

ns_t freeze_credit_take(struct rnic *r, uid_t uid)
{
    struct freeze_user *u = user_of(r, uid);
    int64_t time = u ? min_of(u->credit / 4, (int64_t)FREEZE_MAX) : 0;

    if (time < (int64_t)NS_PER_MS)
        return 0;
    u->credit -= time;
    return (ns_t)time;
}

void freeze_credit_return(struct rnic *r, uid_t uid, ns_t unused)
{
    struct freeze_user *u = user_of(r, uid);

    if (u)
        u->credit = min_of(u->credit + (int64_t)unused, FULL);
}

bool freeze_credit_stop(struct rnic *r, uid_t uid)
{
    struct freeze_user *u = user_of(r, uid);

    if (!u || u->credit < (int64_t)STOP_COST)
        return false;
    u->credit -= (int64_t)STOP_COST;
    return true;
}

void freeze_credit_pay(struct rnic *r, uid_t uid, ns_t time)
{
    struct freeze_user *u = time > STOP_COST ? user_of(r, uid) : NULL;

    if (u)
        u->credit = max_of(u->credit - (int64_t)(time - STOP_COST), -FULL);
}

void freeze_credit_fini(struct rnic *r)
{
    struct freeze_user *u;

    while ((u = LIST_FIRST(&r->freeze_users))) {
        LIST_REMOVE(u, link);
        free(u);
    }
}
