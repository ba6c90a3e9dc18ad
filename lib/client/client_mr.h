/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering memory, and how the daemon reaches it. */
#ifndef UROCE_CLIENT_MR_H
#define UROCE_CLIENT_MR_H

#include "adopt.h"
#include "client.h"

/* Stays in place from client_reg_mr to client_dereg_mr. */
struct client_mr {
    LIST_ENTRY(client_mr) link;
    struct client *client; /* NULL: its context was closed */
    uint32_t handle, pd, access, uidx, lkey;
    uint64_t addr, length, iova;
    int64_t registered; /* when, in ns */
    struct adopt_lease lease;
};

/*
 * Registers r->addr, length, iova, access for protection domain r->pd, and fills in the reply's
 * fields of *r. The daemon maps memory that is shared and writable, of a memfd sealed against
 * shrinking; of a process that it trusts also other files in memory. It also maps private memory
 * that the policy (mr_policy.c) selects and that can be adopted (lib/adopt). All other memory it
 * copies. Returns 0 or the daemon's negative errno. Any thread; a concurrent fork() waits.
 */
int client_reg_mr(struct client *c, struct client_mr *mr, struct ctl_reg_mr *r);

/* Registers what is not the program's memory: CTL_MR_DEVICE_MEMORY or CTL_MR_NULL of r->flags. As
 * client_reg_mr. */
int client_reg_other(struct client *c, struct client_mr *mr, struct ctl_reg_mr *r);

/*
 * Deregisters the region, and makes its pages private again when no other region has them. 0 or the
 * daemon's negative errno; -EIO: the daemon is gone, and the region is deregistered too. Any
 * thread.
 */
int client_dereg_mr(struct client *c, struct client_mr *mr);

enum client_prefetch {
    PREFETCH_READ,
    PREFETCH_WRITE, /* for the adapter's writes */
    PREFETCH_NOTHING,
};

/*
 * Makes the pages present that [addr, addr + length) of an on-demand region has, addr as in a work
 * request; PREFETCH_NOTHING only looks whether it has that range. Returns 0; -ENOENT: no region of
 * this context has the key; -EPERM: it belongs to another protection domain than pd, or is not
 * writable; -EINVAL: it is not on-demand; -EFAULT: it lacks the range, or there is no such memory.
 * Any thread.
 */
int client_prefetch(struct client *c, uint32_t pd, uint32_t lkey, uint64_t addr, uint32_t length,
                    enum client_prefetch how);

/*
 * Finds what backs all of [addr, addr + length): a file in memory (of tmpfs, of huge pages, System
 * V shared memory), mapped shared and writable as it lies in it. With `sealed` only a memfd with
 * F_SEAL_SHRINK whose descriptor this process has. Returns a new descriptor (close-on-exec, the
 * caller's) and the offset of addr in it, or -ENOENT.
 */
int mr_backing_find(uint64_t addr, uint64_t length, bool sealed, uint64_t *offset);

#endif
