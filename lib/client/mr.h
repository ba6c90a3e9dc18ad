/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files about memory regions share: one lock and one list for the whole process. */
#ifndef UROCE_CLIENT_MR_INTERNAL_H
#define UROCE_CLIENT_MR_INTERNAL_H

#include "client_mr.h"

#define MR_POLICY_ENV "UROCE_MR"

/* enum ibv_access_flags */
#define ACCESS_ATOMIC    (1u << 3)
#define ACCESS_WRITES    ((1u << 0) | (1u << 1) | ACCESS_ATOMIC) /* local, remote, atomic */
#define ACCESS_ON_DEMAND (1u << 6)

LIST_HEAD(mr_list, client_mr);
LIST_HEAD(client_list, client);

/* Held while anything is registered, and while the process forks. */
extern pthread_mutex_t mr_mutex;
extern struct mr_list mr_all;
extern struct client_list mr_clients;

/* ---- client_mr.c ---- */

void mr_client_opened(struct client *c);
/* Closes c's connection, too. */
void mr_client_closes(struct client *c);
/* A CTL_REG_MR's or CTL_REMAP_MR's pieces for a lease that is held. Returns how many. */
unsigned mr_pieces(const struct client_mr *mr, const struct adopt_lease *l,
                   struct ctl_mr_piece piece[CTL_MR_PIECES]);

/* ---- mr_policy.c ---- */

/* Reads $UROCE_MR. 0; -EINVAL when it makes no sense, and the user has been told. */
int mr_policy_read(void);
/* enum adopt_flag for a region, and in *why what is to be said when it is not to be moved now.
 * False: nothing is ever adopted. */
bool mr_policy(const struct ctl_reg_mr *r, unsigned *flags, enum ctl_mr_why *why);
/* Whether the daemon is to write there: enum adopt_flag. */
unsigned mr_writes(uint32_t access);

/* ---- mr_fork.c ---- */

/* Once. */
void mr_watch_forks(void);
/* For adopt_init. */
extern const struct adopt_config mr_adopt_config;
/* Under the lock: does what is done at a fork if the memfd was lost. */
void mr_check_lost(void);

/* ---- mr_adopt.c: under the lock ---- */

/* Adopts a region that is copied, or tells the daemon why not. how: ADOPT_ANYTIME, or 0. */
void mr_adopt(struct client_mr *mr, unsigned how);
/* Whether a region with which it has bytes for atomics is mapped: then it is to be, too. */
bool mr_joins_mapped(const struct client_mr *mr);

/* ---- mr_hot.c ---- */

/* Under the lock: starts the thread that has c's regions adopted that are used much. Whether it
 * runs. */
bool mr_hot_watch(struct client *c);
/* Without the lock: for good. If it ran c's connection has ended too. */
void mr_hot_end(struct client *c);

#endif
