/* SPDX-License-Identifier: BSD-3-Clause */
/* What one user of the host has of the manager: port numbers, and ids that linger. */
#ifndef UROCE_CM_USERS_H
#define UROCE_CM_USERS_H

#include <sys/queue.h>

#include "cm.h"

struct cm_user {
    LIST_ENTRY(cm_user) link;
    uint32_t number;
    struct cm_user_limits limits;
    uint32_t ids; /* of any kind, and a call that goes on */
    uint32_t numbers, lingerers;
    TAILQ_HEAD(, cm_id) lingering; /* the oldest first */
};

/* A user's part of a port number. */
struct cm_share {
    LIST_ENTRY(cm_share) link;
    struct cm_user *user;
    uint32_t ids;
    bool counts; /* for the user's limit */
};
LIST_HEAD(cm_share_list, cm_share);

/* An id becomes one of the user's; NULL: of none. */
void cm_user_join(struct cm_id *id, struct cm_user *u);
void cm_user_leave(struct cm_id *id);
/* The user, or NULL, exists at least until it is released. */
void cm_user_hold(struct cm_user *u);
void cm_user_release(struct cm_user *u);

/* The host has destroyed the id. */
void cm_linger_begin(struct cm_id *id);
/* The id is being freed. */
void cm_linger_end(struct cm_id *id);
/* The oldest of the user's ids that linger, when they are more than it may have; or NULL. */
struct cm_id *cm_linger_excess(const struct cm_user *u);

/* Whether the user may have one more number of the range. */
bool cm_user_may_take(struct cm_user *u);
bool cm_share_exists(struct cm_share_list *shares, const struct cm_user *u);
/* An id of the user (NULL: of none) gets the number, or leaves it. 0 or -ENOMEM. */
int cm_share_add(struct cm_share_list *shares, struct cm_user *u, bool counts);
void cm_share_remove(struct cm_share_list *shares, struct cm_user *u);

#endif
