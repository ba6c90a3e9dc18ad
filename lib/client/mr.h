/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files about memory regions: one lock and one list for the process. */
#ifndef UROCE_CLIENT_MR_INTERNAL_H
#define UROCE_CLIENT_MR_INTERNAL_H

#include "client_mr.h"

#define MR_POLICY_ENV "UROCE_MR"

/* enum ibv_access_flags */
#define ACCESS_LOCAL_WRITE (1u << 0)
#define ACCESS_ATOMIC      (1u << 3)
#define ACCESS_WRITES      (ACCESS_LOCAL_WRITE | (1u << 1) | ACCESS_ATOMIC) /* local, remote, atomic */
#define ACCESS_ON_DEMAND   (1u << 6)

LIST_HEAD(mr_list, client_mr);
LIST_HEAD(client_list, client);

/* Held while memory is registered or deregistered, and while the process forks. */
extern pthread_mutex_t mr_mutex;
extern struct mr_list mr_all;
extern struct client_list mr_clients;

/* ---- client_mr.c ---- */

void mr_client_opened(struct client *c);
/* Closes c's connection, too. */
void mr_client_closes(struct client *c);
/* Once for a process. */
void mr_allow_daemon(struct client *c);
/* Fills in the pieces of a CTL_REG_MR or CTL_REMAP_MR for a held lease. Returns how many. */
unsigned mr_pieces(const struct client_mr *mr, const struct adopt_lease *l,
                   struct ctl_mr_piece piece[CTL_MR_PIECES]);

/* ---- mr_policy.c ---- */

/* Reads $UROCE_MR. 0; -EINVAL, with a line on standard error: its value is unknown. */
int mr_policy_read(void);
/* *flags: enum adopt_flag for a region; *why: the reason to report if it is not moved now. False:
 * no region is ever adopted. */
bool mr_policy(const struct ctl_reg_mr *r, unsigned *flags, enum ctl_mr_why *why);
/* Under the lock: what it took to adopt a region, and how many bytes were moved for it; and how
 * long one has lived that ends, whether it was adopted or not. */
void mr_policy_adopted(uint64_t moved, int64_t ns);
void mr_policy_ended(uint64_t length, int64_t life_ns);
/* enum adopt_flag: whether the daemon may write to the region. */
unsigned mr_writes(uint32_t access);

/* ---- mr_fork.c ---- */

/* Once. */
void mr_register_fork_handlers(void);
/* For adopt_init. */
extern const struct adopt_config mr_adopt_config;
/* Under the lock: if the memfd was lost, does what a fork does. */
void mr_check_lost(void);

/* ---- mr_adopt.c: under the lock ---- */

/* Adopts a copied region, or reports to the daemon why not. how: ADOPT_ANYTIME, or 0. */
void mr_adopt(struct client_mr *mr, unsigned how);
/* Whether a mapped region has bytes for atomics in common with it: then it must be mapped too. */
bool mr_joins_mapped(const struct client_mr *mr);

/* ---- mr_hot.c ---- */

/* Under the lock: starts the thread that adopts c's hot regions. Whether it runs. */
bool mr_hot_watch(struct client *c);
/* Without the lock: ends it permanently. If it ran, c's connection has ended too. */
void mr_hot_end(struct client *c);

#endif
