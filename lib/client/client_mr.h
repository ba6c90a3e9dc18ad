/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering memory, and finding out whether the daemon can map it. */
#ifndef UROCE_CLIENT_MR_H
#define UROCE_CLIENT_MR_H

#include "client.h"

/*
 * Registers r->addr, length, iova, access for protection domain r->pd; the reply's fields of *r are
 * filled. Memory that lies in one shared, writable mapping of a memfd sealed against shrinking is
 * offered to the daemon to map; anything else it reads and writes with process_vm_readv and
 * process_vm_writev. Returns 0 or the daemon's negative errno. Any thread.
 */
int client_reg_mr(struct client *c, struct ctl_reg_mr *r);

/*
 * Looks for the descriptor of this process that backs [addr, addr + length) wholly: a memfd sealed
 * with F_SEAL_SHRINK, mapped shared and writable in one piece. Returns a new descriptor
 * (close-on-exec, the caller's) and the offset of addr in it, or -ENOENT.
 */
int mr_backing_find(uint64_t addr, uint64_t length, uint64_t *offset);

#endif
