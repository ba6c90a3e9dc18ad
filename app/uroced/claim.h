/* SPDX-License-Identifier: BSD-3-Clause */
/* One daemon for each kernel interface. */
#ifndef UROCED_CLAIM_H
#define UROCED_CLAIM_H

/*
 * Claims the kernel interface of that name, in this process's network namespace, until the process
 * ends. At the start, on the control thread. Two daemons on one interface would both get all
 * frames, and each would count those of the other's queue pairs as drops.
 *
 * Returns 0; -EBUSY: *owner is the process that has it, of root or of this user. A claim of any
 * other user is ignored, with a message: it would let any user keep a daemon from starting. Other
 * errors are those of socket(2).
 */
int claim_interface(const char *name, int *owner);

#endif
