/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering memory, and how the daemon is to reach it. */
#ifndef UROCE_CLIENT_MR_H
#define UROCE_CLIENT_MR_H

#include "adopt.h"
#include "client.h"

/* Stays in place from client_reg_mr to client_dereg_mr. */
struct client_mr {
    LIST_ENTRY(client_mr) link;
    struct client *client; /* NULL: of a context that was closed, or of the parent process */
    uint32_t handle, access, uidx;
    uint64_t addr, length;
    struct adopt_lease lease;
};

/*
 * Registers r->addr, length, iova, access for protection domain r->pd; the reply's fields of *r are
 * filled. The daemon maps memory that is in one shared, writable mapping of a memfd sealed against
 * shrinking, and private memory that $UROCE_MR says is worth adopting (mr_policy.c) and that can be
 * adopted (lib/adopt); anything else it copies. Returns 0 or the daemon's negative errno. Any
 * thread; a fork() meanwhile waits.
 */
int client_reg_mr(struct client *c, struct client_mr *mr, struct ctl_reg_mr *r);

/*
 * Takes the region away, and gives its pages back when no other region has them. 0 or the daemon's
 * negative errno; on -EIO, when there is no daemon any more, the region has gone nevertheless. Any
 * thread.
 */
int client_dereg_mr(struct client *c, struct client_mr *mr);

/*
 * Looks for the descriptor of this process that backs [addr, addr + length) wholly: a memfd sealed
 * with F_SEAL_SHRINK, mapped shared and writable in one piece. Returns a new descriptor
 * (close-on-exec, the caller's) and the offset of addr in it, or -ENOENT.
 */
int mr_backing_find(uint64_t addr, uint64_t length, uint64_t *offset);

#endif
