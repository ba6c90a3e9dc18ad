/* SPDX-License-Identifier: BSD-3-Clause */
/* See account.h and quota.h. */
#include "control/account.h"

#include <errno.h>
#include <stdlib.h>

#include "common.h"
#include "control/limits.h"
#include "invariant.h"
#include "trust.h"

#define UNLIMITED UINT64_MAX
/* What owners have for themselves. */
#define RESERVED(total) ((total) / 16)

static const struct {
    const char *name;
    uint64_t max;    /* 0: only the machine limits it */
    unsigned share;  /* a user's default is the total divided by this; */
    uint64_t user;   /* unless this is set, */
    uint64_t client; /* or a connection's is; 0: as much as its user's */
} kinds[QUOTA_KINDS] = {
    [QUOTA_PD] = {"pds", LIMIT_PD, 4, 0, 0},
    [QUOTA_MR] = {"mrs", LIMIT_MR, 4, 0, 0},
    [QUOTA_MW] = {"mws", LIMIT_MW, 4, 0, 0},
    [QUOTA_CHANNEL] = {"channels", LIMIT_CHANNEL, 4, 0, LIMIT_SESSION_CHANNEL},
    [QUOTA_CQ] = {"cqs", LIMIT_CQ, 4, 0, 0},
    [QUOTA_SRQ] = {"srqs", LIMIT_SRQ, 4, 0, 0},
    [QUOTA_XRCD] = {"xrcds", LIMIT_XRCD, 4, 0, 0},
    [QUOTA_QP] = {"qps", LIMIT_QP, 4, 0, 0},
    [QUOTA_AH] = {"ahs", LIMIT_AH, 4, 0, 0},
    [QUOTA_WQ] = {"wqs", LIMIT_WQ, 4, 0, LIMIT_SESSION_WQ},
    [QUOTA_RWQ_IND] = {"rwq_tables", LIMIT_RWQ_IND, 4, 0, LIMIT_SESSION_RWQ_IND},
    [QUOTA_FLOW] = {"flows", LIMIT_FLOW, 4, 0, LIMIT_SESSION_FLOW},
    [QUOTA_DM] = {"dms", LIMIT_DM, 4, 0, 0},
    [QUOTA_COUNTER] = {"counters", LIMIT_COUNTER, 4, 0, 0},
    [QUOTA_GROUP] = {"groups", LIMIT_GROUP, 4, 0, 0},
    [QUOTA_JOIN] = {"joins", LIMIT_JOIN, 4, 0, 0},
    [QUOTA_CONNECTION] = {"connections", 0, 1, LIMIT_USER_CONNECTION, 0},
    [QUOTA_CM_ID] = {"cm_ids", LIMIT_CM_ID, 4, 0, 0},
    [QUOTA_MAPPING] = {"mappings", 0, 8, 0, 0},
    [QUOTA_DESCRIPTOR] = {"descriptors", 0, 8, 0, 0},
    [QUOTA_MEMORY] = {"memory", 0, 4, 0, 0},
    [QUOTA_MAPPED] = {"mapped_memory", 0, 2, 0, 0},
};

const char *quota_kind_name(enum quota_kind kind)
{
    return kinds[kind].name;
}

uint64_t quota_kind_max(enum quota_kind kind)
{
    return kinds[kind].max ? kinds[kind].max : UNLIMITED;
}

/* ---- limits ---- */

static uint64_t user_default(enum quota_kind kind, uint64_t total)
{
    if (kinds[kind].user)
        return kinds[kind].user;
    return total == UNLIMITED ? total : max_of(total / kinds[kind].share, (uint64_t)1);
}

static uint64_t client_default(enum quota_kind kind)
{
    return kinds[kind].client ? kinds[kind].client : UNLIMITED;
}

void quota_init(struct quota *q, const struct quota_limits *limits, uid_t owner)
{
    *q = (struct quota){.owner = owner};
    LIST_INIT(&q->users);
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        struct quota_limit *l = &q->limit[k];

        l->total = quota_kind_max((enum quota_kind)k);
        if (limits->total[k])
            l->total = min_of(l->total, limits->total[k]);
        l->others = l->total == UNLIMITED ? l->total : l->total - RESERVED(l->total);
        l->user = limits->user[k] ? limits->user[k] : user_default((enum quota_kind)k, l->total);
        l->user = min_of(l->user, l->others);
        l->client = limits->client[k] ? limits->client[k] : client_default((enum quota_kind)k);
    }
}

static bool is_owner(const struct quota *q, uid_t uid)
{
    return !uid || trust_same_user(uid, q->owner);
}

uint64_t quota_user_limit(const struct quota *q, uid_t uid, enum quota_kind kind)
{
    return is_owner(q, uid) ? q->limit[kind].total : q->limit[kind].user;
}

uint64_t quota_limit(const struct quota *q, uid_t uid, enum quota_kind kind)
{
    return min_of(quota_user_limit(q, uid, kind), q->limit[kind].client);
}

/* ---- accounts ---- */

static struct quota_user *find_user(struct quota *q, uid_t uid)
{
    struct quota_user *u;

    LIST_FOREACH(u, &q->users, link)
    if (u->uid == uid)
        return u;
    u = calloc(1, sizeof(*u));
    if (u) {
        u->uid = uid;
        u->owner = is_owner(q, uid);
        LIST_INSERT_HEAD(&q->users, u, link);
    }
    return u;
}

int quota_account_open(struct quota *q, uid_t uid, struct quota_account *a)
{
    *a = (struct quota_account){.quota = q, .user = find_user(q, uid)};
    if (!a->user)
        return -ENOMEM;
    a->user->accounts++;
    return 0;
}

void quota_account_close(struct quota_account *a)
{
    struct quota_cost rest;

    if (!a->user)
        return;
    for (unsigned k = 0; k < QUOTA_KINDS; k++)
        rest.n[k] = a->used[k];
    quota_uncharge(a, &rest);
    if (!--a->user->accounts) {
        LIST_REMOVE(a->user, link);
        free(a->user);
    }
    *a = (struct quota_account){0};
}

/* ---- charges ---- */

unsigned quota_count(unsigned device, enum quota_kind kind)
{
    if (kind < QUOTA_DEVICE_KINDS)
        return device * QUOTA_DEVICE_KINDS + kind;
    return QUOTA_DEVICES * QUOTA_DEVICE_KINDS + kind - QUOTA_DEVICE_KINDS;
}

/* n more of them are no more than the limit; used may exceed it, as owners take more than others
 * may. */
static bool has_room(uint64_t limit, uint64_t used, uint64_t n)
{
    return used <= limit && n <= limit - used;
}

static bool may_take(const struct quota_account *a, unsigned kind, uint64_t n)
{
    const struct quota_limit *l = &a->quota->limit[kind];
    const struct quota_user *u = a->user;
    unsigned i = quota_count(a->device, (enum quota_kind)kind);

    return has_room(l->client, a->used[kind], n) &&
           has_room(u->owner ? l->total : l->user, u->used[i], n) &&
           has_room(u->owner ? l->total : l->others, a->quota->used[i], n);
}

static void count_refusal(struct quota_account *a, unsigned kind)
{
    unsigned i = quota_count(a->device, (enum quota_kind)kind);

    a->refused[kind]++;
    a->user->refused[i]++;
    a->quota->refused[i]++;
}

int quota_charge(struct quota_account *a, const struct quota_cost *cost)
{
    if (!a || !a->user)
        return 0;
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        if (cost->n[k] && !may_take(a, k, cost->n[k])) {
            count_refusal(a, k);
            return -ENOMEM;
        }
    }
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        unsigned i = quota_count(a->device, (enum quota_kind)k);

        a->used[k] += cost->n[k];
        a->user->used[i] += cost->n[k];
        a->quota->used[i] += cost->n[k];
    }
    return 0;
}

void quota_move(struct quota_account *from, const struct quota_cost *cost, struct quota_account *to)
{
    *to = (struct quota_account){.quota = from->quota, .user = from->user, .device = from->device};
    if (!to->user)
        return;
    to->user->accounts++;
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        invariant(cost->n[k] <= from->used[k]);
        from->used[k] -= cost->n[k];
        to->used[k] = cost->n[k];
    }
}

void quota_uncharge(struct quota_account *a, const struct quota_cost *cost)
{
    if (!a || !a->user)
        return;
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        unsigned i = quota_count(a->device, (enum quota_kind)k);

        invariant(cost->n[k] <= a->used[k]);
        a->used[k] -= cost->n[k];
        a->user->used[i] -= cost->n[k];
        a->quota->used[i] -= cost->n[k];
    }
}
