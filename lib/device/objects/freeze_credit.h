/* SPDX-License-Identifier: BSD-3-Clause */
/* For how long each user may stop workers: a tenth of the time, over all connections. */
#ifndef UROCE_DEVICE_FREEZE_CREDIT_H
#define UROCE_DEVICE_FREEZE_CREDIT_H

#include <sys/types.h>

#include "common.h"

struct rnic;

#define FREEZE_MAX  (20 * NS_PER_MS)  /* one freeze */
#define CREDIT_MAX  (100 * NS_PER_MS) /* of a user that used none recently */
#define CREDIT_RATE 10                /* a tenth of the time */
#define STOP_COST   (100 * NS_PER_US) /* of a call that stops all workers for a moment */

/*
 * Takes the time of one freeze from the user's credit: at most FREEZE_MAX and a quarter of what is
 * left, so that several processes that fork at once get some each; 0 if that is less than a
 * millisecond.
 */
ns_t freeze_credit_take(struct rnic *r, uid_t uid);
/* Gives back what a freeze did not use. */
void freeze_credit_return(struct rnic *r, uid_t uid, ns_t unused);
/* Takes the usual cost of a call that stops all workers. False: there is no credit for it. */
bool freeze_credit_stop(struct rnic *r, uid_t uid);
/* The call has worked for this time while they stood still: takes what is above the usual cost.
 * What exceeds the credit, by CREDIT_MAX at most, is a debt: until time has paid it, no call stops
 * workers. */
void freeze_credit_pay(struct rnic *r, uid_t uid, ns_t time);
/* Frees all records. */
void freeze_credit_fini(struct rnic *r);

#endif
