/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The accounts of what applications take (quota.h): one for each connection, which is also its
 * user's. Nothing here knows what is counted, allocates except for a user's record, or reads a
 * clock. Control thread.
 */
#ifndef UROCE_DEVICE_ACCOUNT_H
#define UROCE_DEVICE_ACCOUNT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "quota.h"

#define QUOTA_DEVICES 16u
/* A count for each kind of each device, and for each of the daemon's. */
#define QUOTA_COUNTS (QUOTA_DEVICES * QUOTA_DEVICE_KINDS + QUOTA_KINDS - QUOTA_DEVICE_KINDS)

/* Limits after defaults are filled in; UINT64_MAX: none. */
struct quota_limit {
    uint64_t total;  /* for owners */
    uint64_t others; /* for all other users together */
    uint64_t user;   /* for each of these */
    uint64_t client;
};

struct quota_user {
    LIST_ENTRY(quota_user) link;
    uid_t uid;
    bool owner;
    unsigned accounts;
    uint64_t used[QUOTA_COUNTS], refused[QUOTA_COUNTS];
};

struct quota {
    uid_t owner; /* besides root */
    struct quota_limit limit[QUOTA_KINDS];
    LIST_HEAD(, quota_user) users; /* those with an account */
    uint64_t used[QUOTA_COUNTS], refused[QUOTA_COUNTS];
};

struct quota_account {
    struct quota *quota;
    struct quota_user *user;
    unsigned device; /* whose kinds are charged */
    uint64_t used[QUOTA_KINDS], refused[QUOTA_KINDS];
};

/* How much of each kind. */
struct quota_cost {
    uint64_t n[QUOTA_KINDS];
};

/* owner: a user besides root who may take everything. */
void quota_init(struct quota *q, const struct quota_limits *limits, uid_t owner);

/* An account for a connection of that user. 0; -ENOMEM: no memory for the user's record. */
int quota_account_open(struct quota *q, uid_t uid, struct quota_account *a);
/* Gives back what the account still has. The user's record goes with its last account. An account
 * that was never opened is ignored. */
void quota_account_close(struct quota_account *a);

/*
 * Takes all of the cost, or nothing. 0; -ENOMEM: the connection, its user, or all users together
 * would have more than they may; that is counted as refused, for the first such kind. NULL and an
 * account that was never opened have no limits.
 */
int quota_charge(struct quota_account *a, const struct quota_cost *cost);
void quota_uncharge(struct quota_account *a, const struct quota_cost *cost);

/* Moves a cost that `from` was charged to `to`, another account of its user: to one that stays open
 * until what was charged for is really free. `to` is opened here, and the caller closes it. */
void quota_move(struct quota_account *from, const struct quota_cost *cost,
                struct quota_account *to);

/* The index of a kind in the counts of a user and of all; device: of that device, for its kinds. */
unsigned quota_count(unsigned device, enum quota_kind kind);

/* What a connection of that user may have of a kind at most. */
uint64_t quota_limit(const struct quota *q, uid_t uid, enum quota_kind kind);
/* What all connections of that user together may have. */
uint64_t quota_user_limit(const struct quota *q, uid_t uid, enum quota_kind kind);

#endif
