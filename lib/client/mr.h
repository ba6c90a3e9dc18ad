/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files about memory regions share: one lock and one list for the whole process. */
#ifndef UROCE_CLIENT_MR_INTERNAL_H
#define UROCE_CLIENT_MR_INTERNAL_H

#include "client_mr.h"

#define MR_POLICY_ENV "UROCE_MR"

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
/* enum adopt_flag for a region, and in *why what is to be said when it does not come to that. */
bool mr_policy(const struct ctl_reg_mr *r, unsigned *flags, enum ctl_mr_why *why);
/* A small region was adopted. */
void mr_policy_adopted(const struct ctl_reg_mr *r);
/* Whether the daemon is to write there: enum adopt_flag. */
unsigned mr_writes(uint32_t access);

/* ---- mr_fork.c ---- */

/* Once. */
void mr_watch_forks(void);
/* For adopt_init. */
extern const struct adopt_config mr_adopt_config;
/* Under the lock: adopts again what a fork made private, if that is asked for. */
void mr_adopt_again(void);
/* Under the lock: what a fork does, when the memfd was lost. */
void mr_freeze_all(void);

#endif
